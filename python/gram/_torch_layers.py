"""Layers of a model that gram.sample_grad knows: how they are described to it."""

import torch

_CONVOLUTIONS = {torch.nn.Conv1d: 1, torch.nn.Conv2d: 2, torch.nn.Conv3d: 3}
_INSTANCES = (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)


class Unknown(Exception):
    """Why gram's own operation does not serve."""


def _convolution(layer):
    if layer.padding_mode != "zeros":
        raise Unknown(f"its padding_mode is {layer.padding_mode!r}")
    padding = layer.padding
    if padding == "valid":
        padding = (0,) * len(layer.kernel_size)
    elif padding == "same":
        whole = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(p % 2 for p in whole):
            raise Unknown("its padding='same' differs on the two sides")
        padding = [p // 2 for p in whole]
    return {
        "kind": "convolution",
        "kernel_size": layer.kernel_size,
        "stride": layer.stride,
        "padding": tuple(padding),
        "dilation": layer.dilation,
        "groups": layer.groups,
    }


def _embedding(layer):
    if layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
        raise Unknown("it has max_norm, scale_grad_by_freq or sparse gradients")
    row = -1 if layer.padding_idx is None else layer.padding_idx
    return {"kind": "embedding", "rows": layer.num_embeddings, "padding_row": row, "bias": False}


def _describe(layer):
    """The arguments that describe a layer to gram.sample_grad; Unknown for any other."""
    kind = type(layer)
    if kind is torch.nn.Linear:
        return {"kind": "linear"}
    if kind in _CONVOLUTIONS:
        return _convolution(layer)
    if kind is torch.nn.Embedding:
        return _embedding(layer)
    if kind is torch.nn.LayerNorm:
        many = len(layer.normalized_shape)
        return {"kind": "layer_norm", "normalized": many, "epsilon": layer.eps}
    if kind is torch.nn.GroupNorm:
        return {"kind": "group_norm", "groups": layer.num_groups, "epsilon": layer.eps}
    if kind in _INSTANCES and not layer.track_running_stats:
        return {"kind": "group_norm", "groups": layer.num_features, "epsilon": layer.eps}
    raise Unknown(f"gram.sample_grad does not support {kind.__name__}")


class Layer:
    """A layer whose parameters are wanted: how it is described, and its calls in a forward pass."""

    def __init__(self, name, module, names):
        self.name, self.module = name, module
        own = {k: p for k, p in module._parameters.items() if p is not None}
        self.weight = names.get(own.pop("weight", None))
        self.bias = names.get(own.pop("bias", None))
        try:
            self.options = _describe(module)
        except Unknown as e:
            raise Unknown(f"{name}: {e}") from None
        if any(p in names for p in own.values()):
            raise Unknown(f"{name} has parameters besides weight and bias")
        self.options.setdefault("bias", self.bias is not None)
        self.calls = []

    def dims(self):
        """How many dimensions what goes in has, the samples counted: at least, at most."""
        kind = type(self.module)
        if kind in _INSTANCES:
            return (_INSTANCES.index(kind) + 3,) * 2
        return (_CONVOLUTIONS[kind] + 2,) * 2 if kind in _CONVOLUTIONS else (1, 8)


def layers_of(modules, names):
    found = []
    for name, module in modules:
        if any(p in names for p in module._parameters.values()):
            found.append(Layer(name or type(module).__name__, module, names))
    for layer in found:
        if layer.module._forward_pre_hooks or layer.module._forward_hooks:
            raise Unknown(f"{layer.name} has hooks that may change its input or output")
    return found


def mixing(modules):
    for name, module in modules:
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and (
            module.training or not module.track_running_stats
        ):
            return f"{name or type(module).__name__} mixes the samples of a batch"
    return None
