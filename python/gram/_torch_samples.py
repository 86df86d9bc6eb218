"""Gradients of every sample of a model: gram.sample_grad where layers are known, else torch.func.

A forward pass of the whole batch keeps what goes into each layer and the edge of the graph where
its output is; on the way back each layer's gradients are dealt with as they come and let go.
Parameters' .grad is never touched.
"""

import warnings

import torch
from gram import sample_grad
from torch.utils._pytree import tree_map

_CONVOLUTIONS = {torch.nn.Conv1d: 1, torch.nn.Conv2d: 2, torch.nn.Conv3d: 3}
_INSTANCES = (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)


class _Unknown(Exception):
    """Why gram's own operation does not serve."""


def _convolution(layer):
    if layer.padding_mode != "zeros":
        raise _Unknown(f"its padding_mode is {layer.padding_mode!r}")
    padding = layer.padding
    if padding == "valid":
        padding = (0,) * len(layer.kernel_size)
    elif padding == "same":
        whole = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(p % 2 for p in whole):
            raise _Unknown("padding='same' is not the same on both sides")
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
        raise _Unknown("it has max_norm, scale_grad_by_freq or sparse gradients")
    row = -1 if layer.padding_idx is None else layer.padding_idx
    return {"kind": "embedding", "rows": layer.num_embeddings, "padding_row": row, "bias": False}


def _describe(layer):
    """The arguments that describe a layer to gram.sample_grad; _Unknown for any other."""
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
    raise _Unknown(f"gram.sample_grad does not know {kind.__name__}")


class _Layer:
    """A layer whose parameters are wanted: how it is described, and its calls in a forward pass."""

    def __init__(self, name, module, names):
        self.name, self.module = name, module
        own = dict(module.named_parameters(recurse=False))
        self.weight = names.get(own.pop("weight", None))
        self.bias = names.get(own.pop("bias", None))
        try:
            self.options = _describe(module)
        except _Unknown as e:
            raise _Unknown(f"{name}: {e}") from None
        if any(p in names for p in own.values()):
            raise _Unknown(f"{name} has parameters beside weight and bias")
        self.options.setdefault("bias", self.bias is not None)
        self.calls = []

    def dims(self):
        """How many dimensions what goes in has, the samples counted: at least, at most."""
        kind = type(self.module)
        if kind in _INSTANCES:
            return (_INSTANCES.index(kind) + 3,) * 2
        return (_CONVOLUTIONS[kind] + 2,) * 2 if kind in _CONVOLUTIONS else (1, 8)


def _parameters(model):
    """The parameters that are trained, each once, with their names."""
    return {p: n for n, p in model.named_parameters() if p.requires_grad}


def _layers(model, names):
    found = []
    for name, module in model.named_modules():
        if any(p in names for p in module.parameters(recurse=False)):
            found.append(_Layer(name or type(module).__name__, module, names))
    for layer in found:
        if layer.module._forward_pre_hooks or layer.module._forward_hooks:
            raise _Unknown(f"{layer.name} has hooks that may change what goes in or comes out")
    return found


def _mixing(model):
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and (
            module.training or not module.track_running_stats
        ):
            return f"{name or type(module).__name__} mixes the samples of a batch"
    return None


def _keep(layer):
    """A hook that remembers one call; what follows may overwrite output, so its edge is kept."""

    def hook(module, args, kwargs, output):
        into = args[0] if args else kwargs.get("input")
        if not output.requires_grad:
            return
        edge = torch.autograd.graph.get_gradient_edge(output)
        layer.calls.append((into.detach(), into, into._version, edge))

    return hook


def _sum_of_losses(loss, outputs, targets):
    """The sum of the losses of the samples, each a batch of one."""

    def one(output, target):
        add = tree_map(lambda t: t.unsqueeze(0), (output, target))
        value = loss(*add)
        return value.sum()

    return torch.func.vmap(one, randomness="different")(outputs, targets).sum()


def _size(inputs, targets):
    tensors = [*inputs, targets] if isinstance(targets, torch.Tensor) else list(inputs)
    sizes = {t.shape[0] if t.dim() else None for t in tensors if isinstance(t, torch.Tensor)}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(
            "inputs and targets have different first dimensions, expected one of samples: "
            f"{sorted(map(str, sizes))}"
        )
    return sizes.pop()


def _first(edges):
    """Edges from which the graph leads to no other: a pass back to them meets all."""
    nodes = {edge.node for edge in edges}

    def leads_on(start):
        seen, stack = {start}, [start]
        while stack:
            for node, _ in stack.pop().next_functions:
                if node in nodes:
                    return True
                if node is not None and node not in seen:
                    seen.add(node)
                    stack.append(node)
        return False

    return [not leads_on(edge.node) for edge in edges]


def _give(taker, layer, call, gradient):
    """One call's gradients, as soon as they are there, so that none waits for the others."""
    into, original, version, _ = call
    if gradient is None:
        return
    if original._version != version:
        raise _Unknown(f"what went into {layer.name} was overwritten")
    if into.is_floating_point() and into.dtype != gradient.dtype:
        wide = torch.promote_types(into.dtype, gradient.dtype)
        into, gradient = into.to(wide), gradient.to(wide)
    with torch.no_grad():
        taker.take(layer, into.resolve_neg(), gradient.detach().resolve_neg())


def _forward(model, inputs, layers):
    handles = []
    try:
        for layer in layers:
            hook = layer.module.register_forward_hook(_keep(layer), with_kwargs=True)
            handles.append(hook)
        return model(*inputs)
    finally:
        for handle in handles:
            handle.remove()


def _backward(total, calls, taker):
    edges = [call[3] for _, call in calls]
    first = _first(edges)
    handles = []
    try:
        for (layer, call), is_first in zip(calls, first, strict=True):
            if not is_first:
                edge = call[3]

                def hook(grads, layer=layer, call=call, number=edge.output_nr):
                    _give(taker, layer, call, grads[number])

                handles.append(edge.node.register_prehook(hook))
        wanted = [edge for edge, is_first in zip(edges, first, strict=True) if is_first]
        found = iter(torch.autograd.grad(total, wanted, allow_unused=True))
    finally:
        for handle in handles:
            handle.remove()
    for (layer, call), is_first in zip(calls, first, strict=True):
        if is_first:
            _give(taker, layer, call, next(found))


def _run(model, loss, inputs, targets, names, taker):
    """What the taker makes of every layer's calls: of what went in and of the gradients."""
    devices = {p.device for p in names}
    if len(devices) > 1 or any(d.type not in ("cpu", "cuda") for d in devices):
        found = ", ".join(sorted(map(str, devices)))
        raise _Unknown(f"parameters are on {found}, expected the CPU or one CUDA device")
    if any(p.dtype not in _DTYPES for p in names):
        raise _Unknown("parameters are of another dtype than float32, float64, float16, bfloat16")
    samples = _size(inputs, targets)
    layers = _layers(model, names)
    with torch.enable_grad():
        total = _sum_of_losses(loss, _forward(model, inputs, layers), targets)
    calls = [(layer, call) for layer in layers for call in layer.calls]
    for layer, (into, *_) in calls:
        least, most = layer.dims()
        if into.shape[:1] != (samples,) or not least <= into.dim() <= most:
            raise _Unknown(f"{layer.name} got {tuple(into.shape)}, without the samples in front")
    taker.begin(samples, layers, names)
    if calls and total.requires_grad:
        _backward(total, calls, taker)
    return taker.end()


_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _gradients_of(layer, into, gradient):
    """[(name, each sample's gradient)] of one call."""
    if layer.weight is None:
        return [(layer.bias, _bias(layer, gradient))]
    found = sample_grad(into, gradient, **layer.options)
    names = (layer.weight, layer.bias)
    return list(zip(names[: len(found)], found, strict=True))


def _bias(layer, gradient):
    """Of a layer whose weight is not trained."""
    kind = layer.options["kind"]
    if kind == "layer_norm":
        first = gradient.dim() - layer.options["normalized"]
        return gradient.flatten(1, first - 1).sum(1) if first > 1 else gradient
    if kind in ("convolution", "group_norm"):
        return gradient.flatten(2).sum(2) if gradient.dim() > 2 else gradient
    return gradient.flatten(1, -2).sum(1) if gradient.dim() > 2 else gradient


class _Gradients:
    """Takes each sample's gradients, added over the calls of layers."""

    def begin(self, samples, layers, names):
        self.samples, self.names, self.out = samples, names, {}
        self.shapes = {n: p.shape for p, n in names.items()}

    def take(self, layer, into, gradient):
        for name, each in _gradients_of(layer, into, gradient):
            each = each.reshape(self.samples, *self.shapes[name])
            self.out[name] = self.out[name] + each if name in self.out else each

    def end(self):
        found = {}
        for parameter, name in self.names.items():
            each = self.out.get(name)
            if each is None:
                each = parameter.new_zeros((self.samples, *parameter.shape))
            found[name] = each.to(parameter.dtype)
        return found

    def of_all(self, found):
        """What end() would give, of the gradients."""
        return found


def _norms_of(each):
    """Norms of samples in float64, without a float64 copy of the gradients."""
    return torch.linalg.vector_norm(each.flatten(1), dim=1).double()


class _Norms(_Gradients):
    """Takes norms; gradients only of parameters that several calls share."""

    def begin(self, samples, layers, names):
        super().begin(samples, layers, names)
        uses = {}
        for layer in layers:
            for name in (layer.weight, layer.bias):
                uses[name] = uses.get(name, 0) + len(layer.calls)
        self.alone = {
            layer
            for layer in layers
            if layer.weight and all(uses[n] <= 1 for n in (layer.weight, layer.bias) if n)
        }
        device = next((p.device for p in names), None)
        self.norms = [torch.zeros(samples, dtype=torch.float64, device=device)]

    def take(self, layer, into, gradient):
        if layer in self.alone:
            norm = sample_grad(into, gradient, **layer.options, output="norm")
            self.norms.append(norm.double())
        else:
            super().take(layer, into, gradient)

    def end(self):
        self.norms += [_norms_of(each) for each in self.out.values()]
        return torch.linalg.vector_norm(torch.stack(self.norms), dim=0)

    def of_all(self, found):
        norms = [_norms_of(each) for each in found.values()]
        return torch.linalg.vector_norm(torch.stack(norms), dim=0)


def _by_func(model, loss, inputs, targets, names, chunk):
    """torch.func.vmap(grad), a sample a batch of one."""
    values = {n: p.detach() for p, n in names.items()}
    frozen = {n: p.detach() for n, p in model.named_parameters() if n not in values}
    frozen.update(model.named_buffers())

    def one(values, inputs, targets):
        inputs, targets = tree_map(lambda t: t.unsqueeze(0), (inputs, targets))
        output = torch.func.functional_call(model, {**frozen, **values}, tuple(inputs))
        return loss(output, targets).sum()

    each = torch.func.vmap(
        torch.func.grad(one), in_dims=(None, 0, 0), randomness="different", chunk_size=chunk
    )
    return each(values, tuple(inputs), targets)


def _samples(function, model, loss, inputs, targets, method, chunk, taker):
    """The names of the parameters and what the taker makes; says why where torch.func does it."""
    if not hasattr(torch, "func"):
        raise NotImplementedError(f"{function}: needs PyTorch 2.4, not {torch.__version__}")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    _size(inputs, targets)
    if method not in ("auto", "layers", "func"):
        raise ValueError(f"{function}: method is {method!r}, expected auto, layers or func")
    names = _parameters(model)
    mixing = _mixing(model)
    if mixing:
        raise ValueError(f"{function}: {mixing}: a sample has no gradient of its own")
    if method != "func":
        try:
            return names, _run(model, loss, inputs, targets, names, taker)
        except _Unknown as e:
            if method == "layers":
                raise ValueError(f"{function}: {e}") from None
            warnings.warn(f"{function}: {e}: torch.func does it", stacklevel=4)
    return names, taker.of_all(_by_func(model, loss, inputs, targets, names, chunk))


def per_sample_gradients(*arguments):
    return _samples("gram.torch.per_sample_gradients", *arguments, _Gradients())[1]


def per_sample_norms(*arguments):
    names, norms = _samples("gram.torch.per_sample_norms", *arguments, _Norms())
    dtype = torch.float64 if any(p.dtype == torch.float64 for p in names) else torch.float32
    return norms.to(dtype)
