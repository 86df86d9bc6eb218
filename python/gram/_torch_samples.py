"""Gradients of every sample of a model: gram.sample_grad where layers are known, else torch.func.

A forward pass of the whole batch, or of parts of it, keeps what goes into each layer and the edge
of the graph where its output is; on the way back each layer's gradients are dealt with as they come
and let go, what went in too.  Gradients of weights that torch would make are not asked for.
Parameters' .grad is never touched.
"""

import warnings

import torch
from gram import sample_grad
from gram._torch_layers import Unknown, layers_of, mixing
from gram._torch_losses import sum_of_losses
from torch.utils._pytree import tree_map


def _parameters(model):
    """The parameters that are trained, each once, with their names."""
    return {p: n for n, p in model.named_parameters() if p.requires_grad}


class _Call:
    """What went into a layer once; what follows may overwrite its output, whose edge is kept."""

    __slots__ = ("edge", "into", "original", "version")

    def __init__(self, into, output):
        self.into, self.original, self.version = into.detach(), into, into._version
        self.edge = torch.autograd.graph.get_gradient_edge(output)


def _keep(layer):
    """A hook that remembers one call."""

    def hook(module, args, kwargs, output):
        if output.requires_grad:
            layer.calls.append(_Call(args[0] if args else kwargs.get("input"), output))

    return hook


def _size(inputs, targets):
    tensors = [*inputs, targets] if isinstance(targets, torch.Tensor) else list(inputs)
    sizes = {t.shape[0] if t.dim() else None for t in tensors if isinstance(t, torch.Tensor)}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(
            "inputs and targets have different numbers of samples, their first dimensions: "
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
    """One call's gradients, as soon as they are there: neither they nor what went in waits."""
    into, original = call.into, call.original
    call.into = call.original = None
    if gradient is None:
        return
    if original._version != call.version:
        raise Unknown(f"the input of {layer.name} was overwritten")
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
    edges = [call.edge for _, call in calls]
    first = _first(edges)
    handles = []
    try:
        for (layer, call), is_first in zip(calls, first, strict=True):
            if not is_first:

                def hook(grads, layer=layer, call=call, number=call.edge.output_nr):
                    _give(taker, layer, call, grads[number])

                handles.append(call.edge.node.register_prehook(hook))
        wanted = [edge for edge, is_first in zip(edges, first, strict=True) if is_first]
        found = iter(torch.autograd.grad(total, wanted, allow_unused=True))
    finally:
        for handle in handles:
            handle.remove()
    for (layer, call), is_first in zip(calls, first, strict=True):
        if is_first:
            _give(taker, layer, call, next(found))


def _part(model, loss, inputs, targets, layers, taker):
    """One pass forward and back."""
    samples = _size(inputs, targets)
    for layer in layers:
        layer.calls = []
    with torch.enable_grad():
        total = sum_of_losses(loss, _forward(model, inputs, layers), targets)
    calls = [(layer, call) for layer in layers for call in layer.calls]
    for layer, call in calls:
        least, most = layer.dims()
        shape = call.into.shape
        if shape[:1] != (samples,) or not least <= len(shape) <= most:
            raise Unknown(f"{layer.name} got {tuple(shape)}, without the samples in front")
    taker.begin(samples, layers)
    if calls and total.requires_grad:
        _backward(total, calls, taker)
    return taker.end()


def _run(model, modules, loss, inputs, targets, names, chunk, taker):
    """What the taker makes of every layer's calls: of what went in and of the gradients."""
    devices = {p.device for p in names}
    if len(devices) > 1 or any(d.type not in ("cpu", "cuda") for d in devices):
        found = ", ".join(sorted(map(str, devices)))
        raise Unknown(f"parameters are on {found}, expected the CPU or one CUDA device")
    if any(p.dtype not in _DTYPES for p in names):
        raise Unknown("a parameter is not of float32, float64, float16 or bfloat16")
    samples = _size(inputs, targets)
    layers = layers_of(modules, names)
    if chunk is None or chunk >= samples:
        return _part(model, loss, inputs, targets, layers, taker)
    found = []
    for first in range(0, samples, chunk):
        part = tree_map(lambda t, first=first: t[first : first + chunk], (inputs, targets))
        found.append(_part(model, loss, *part, layers, taker))
    return taker.join(found)


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

    def __init__(self, names):
        self.names = names
        self.shapes = {n: p.shape for p, n in names.items()}

    def begin(self, samples, layers):
        self.samples, self.out = samples, {}

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

    def join(self, parts):
        """What end() would give, of what it gave for each part of the samples."""
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def of_all(self, found):
        """What end() would give, of the gradients."""
        return found


def _norms_of(each):
    """Norms of samples, with sums in float64 but without a float64 copy of the gradients."""
    return torch.linalg.vector_norm(each.flatten(1), dim=1).double()


def _together(norms):
    """The norms of samples of all their parts."""
    if len({norm.dtype for norm in norms}) > 1:
        norms = [norm.double() for norm in norms]
    return torch.linalg.vector_norm(torch.stack(norms), dim=0, dtype=torch.float64)


class _Norms(_Gradients):
    """Takes norms; gradients only of parameters that several calls share."""

    def begin(self, samples, layers):
        super().begin(samples, layers)
        uses = {}
        for layer in layers:
            for name in (layer.weight, layer.bias):
                uses[name] = uses.get(name, 0) + len(layer.calls)
        self.alone = {
            layer
            for layer in layers
            if layer.weight and all(uses[n] <= 1 for n in (layer.weight, layer.bias) if n)
        }
        self.norms = []

    def take(self, layer, into, gradient):
        if layer in self.alone:
            self.norms.append(sample_grad(into, gradient, **layer.options, output="norm"))
        else:
            super().take(layer, into, gradient)

    def end(self):
        norms = self.norms + [_norms_of(each) for each in self.out.values()]
        if norms:
            return _together(norms)
        device = next((p.device for p in self.names), None)
        return torch.zeros(self.samples, dtype=torch.float64, device=device)

    def join(self, parts):
        return torch.cat(parts)

    def of_all(self, found):
        return _together([_norms_of(each) for each in found.values()])


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
        raise NotImplementedError(f"{function}: needs PyTorch 2.4, but this is {torch.__version__}")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    _size(inputs, targets)
    if method not in ("auto", "layers", "func"):
        raise ValueError(f"{function}: method is {method!r}, expected auto, layers or func")
    if chunk is not None and chunk < 1:
        raise ValueError(f"{function}: chunk is {chunk}, expected at least 1 sample, or None")
    names, modules = _parameters(model), list(model.named_modules())
    taker = taker(names)
    mixed = mixing(modules)
    if mixed:
        raise ValueError(f"{function}: {mixed}, so a sample has no gradient of its own")
    if method != "func":
        try:
            return names, _run(model, modules, loss, inputs, targets, names, chunk, taker)
        except Unknown as e:
            if method == "layers":
                raise ValueError(f"{function}: {e}") from None
            warnings.warn(f"{function}: {e}; torch.func is used instead", stacklevel=4)
    return names, taker.of_all(_by_func(model, loss, inputs, targets, names, chunk))


def per_sample_gradients(*arguments):
    return _samples("gram.torch.per_sample_gradients", *arguments, _Gradients)[1]


def per_sample_norms(*arguments):
    names, norms = _samples("gram.torch.per_sample_norms", *arguments, _Norms)
    dtype = torch.float64 if any(p.dtype == torch.float64 for p in names) else torch.float32
    return norms.to(dtype)
