"""What gram._kfac asks of layers and of outputs: sizes, samples, gradients of likelihoods."""

import torch

from gram._optim_shards import dtensor_type, local_of

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_LINEAR, _CONVOLUTION, _EMBEDDING = 0, 1, 2
_CONVOLUTIONS = {torch.nn.Conv1d: 1, torch.nn.Conv2d: 2, torch.nn.Conv3d: 3}


def _type_of(module):
    """The class of a module, which fully_shard has made one of its own of."""
    own = type(module)
    if own.__bases__[0].__name__ == "FSDPModule" and len(own.__bases__) > 1:
        return own.__bases__[1]
    return own


def _three(values):
    """The settings of a convolution in three dimensions, of which it may not have the last."""
    return tuple(values) + (1,) * (3 - len(values))


def describe(module):
    """A layer as gram._core.Kfac takes it; None: it has no factors."""
    bias = int(getattr(module, "bias", None) is not None)
    plain = (1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1)
    if _type_of(module) is torch.nn.modules.linear.NonDynamicallyQuantizableLinear:
        return None  # of MultiheadAttention, which never calls it
    if isinstance(module, torch.nn.Linear):
        return (_LINEAR, module.in_features, module.out_features, bias, 2, 1, -1) + plain
    if isinstance(module, torch.nn.Embedding):
        if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            return None
        padding = -1 if module.padding_idx is None else module.padding_idx
        sizes = (module.num_embeddings, module.embedding_dim)
        return (_EMBEDDING, *sizes, 0, 2, 1, padding) + plain
    spatial = _CONVOLUTIONS.get(_type_of(module))
    if spatial is None or module.padding_mode != "zeros" or isinstance(module.padding, str):
        return None
    sizes = (module.in_channels, module.out_channels, bias, spatial, module.groups, -1)
    padding = tuple(module.padding) + (0,) * (3 - spatial)
    return (
        (_CONVOLUTION,)
        + sizes
        + _three(module.kernel_size)
        + _three(module.stride)
        + padding
        + _three(module.dilation)
    )


def _check(module, device):
    for p in module.parameters(recurse=False):
        if p.device.type not in ("cpu", "cuda") or p.dtype not in _DTYPES:
            raise NotImplementedError(
                f"gram.KFAC: a parameter of {module} is {p.dtype} on {p.device}, expected "
                "float32, float64, float16 or bfloat16 on the CPU or a CUDA device"
            )
        if p.device != device:
            raise NotImplementedError(
                f"gram.KFAC: a parameter of {module} is on {p.device}, expected {device}, where "
                "the others are"
            )


def find(model, skipped):
    """The layers that have factors, and what gram._core.Kfac is told of them."""
    layers, described = [], []
    for module in model.modules():
        layer = None if module in skipped else describe(module)
        if layer is not None and module.weight.requires_grad:
            _check(module, layers[0].weight.device if layers else module.weight.device)
            layers.append(module)
            described.append(layer)
    return layers, tuple(described)


def wide_of(tensor):
    """The dtype that a tensor of it is computed with: float32 of halves."""
    return torch.promote_types(tensor.dtype, torch.float32)


def gradients(layers):
    """{parameter: copy of its gradient}, and the copies of weights and biases layer by layer."""
    found, copies = {}, ([], [])
    for layer in layers:
        for p, row in zip((layer.weight, getattr(layer, "bias", None)), copies, strict=True):
            if p is None:
                row.append(None)
                continue
            if p.grad is None:
                grad = torch.zeros(p.shape, dtype=p.dtype, device=p.device)
            elif isinstance(p.grad, dtensor_type()):
                grad = p.grad.detach().full_tensor()
            else:
                grad = p.grad.detach()
            row.append(
                grad.to(wide_of(grad), copy=True, memory_format=torch.contiguous_format)
            )
            if p.grad is not None:
                found[p] = row[-1]
    return found, *map(tuple, copies)


def shard_of(p, whole):
    """What p has of a whole tensor, a DTensor as it; whole itself for another p."""
    if not isinstance(p, dtensor_type()):
        return whole
    shard = whole
    for mesh_dim, placement in enumerate(p.placements):
        if placement.is_shard():
            pieces = shard.chunk(p.device_mesh.size(mesh_dim), placement.dim)
            at = p.device_mesh.get_local_rank(mesh_dim)
            none = shard.narrow(placement.dim, 0, 0)
            shard = pieces[at] if at < len(pieces) else none
    if shard.shape != local_of(p).shape:
        raise NotImplementedError(
            f"gram.KFAC: a parameter {tuple(p.shape)} has the placements {tuple(p.placements)}, "
            "expected those of fully_shard"
        )
    return dtensor_type().from_local(
        shard.contiguous(), p.device_mesh, p.placements, run_check=False, shape=p.shape,
        stride=p.stride(),
    )  # fmt: skip


def ranks_of(layers):
    """The group of ranks over which layers are sharded; None where they are not."""
    sharded = [p for m in layers for p in m.parameters(recurse=False)
               if isinstance(p, dtensor_type())]  # fmt: skip
    if not sharded:
        return None
    if any(p.device_mesh.ndim > 1 for p in sharded):
        raise ValueError(
            "gram.KFAC: the mesh of a layer has more than one dimension, so that process_group has "
            "to be given: the group of all ranks that have samples of their own"
        )
    return sharded[0].device_mesh.get_group()


def with_samples(module, tensor, gradient):
    """What goes in, or a gradient of what comes out, with the samples in front, which a convolution
    or a linear layer may come without."""
    least = _CONVOLUTIONS.get(_type_of(module), 0) + 1
    if isinstance(module, torch.nn.Embedding):
        least = 1 if gradient else 0
    return tensor if tensor.dim() > least else tensor.unsqueeze(0)


def hessian_factors(outputs, likelihood):
    """Tensors of outputs' shape whose outer products add up to the Hessian of a sample's loss."""
    if likelihood == "gaussian":
        for c in range(outputs.shape[-1]):
            unit = torch.zeros_like(outputs)
            unit[..., c] = 1
            yield unit
        return
    p = outputs.to(wide_of(outputs)).softmax(-1)
    for c in range(outputs.shape[-1]):  # diag(p) - p p^T = S S^T, S = diag(r) - p r^T, r = sqrt p
        column = -p * p[..., c : c + 1].sqrt()
        column[..., c] += p[..., c].sqrt()
        yield column.to(outputs.dtype)


def drawn(outputs, likelihood, generator):
    """The gradient of a sample's loss at a target drawn from the prediction."""
    if likelihood == "gaussian":
        noise = torch.empty_like(outputs)
        return noise.normal_(generator=generator)
    p = outputs.to(wide_of(outputs)).softmax(-1)
    # The largest p / Exp(1), which torch.multinomial takes too, but not without a wait.
    target = (p / torch.empty_like(p).exponential_(generator=generator)).argmax(-1)
    return (p - torch.nn.functional.one_hot(target, p.shape[-1])).to(outputs.dtype)
