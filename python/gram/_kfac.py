"""K-FAC and EKFAC for modules of PyTorch: hooks that bring gram_kfac (gram.h) what it needs."""

import math

import torch

from gram import _core

_LINEAR, _CONVOLUTION, _EMBEDDING = 0, 1, 2
_CONVOLUTIONS = {torch.nn.Conv1d: 1, torch.nn.Conv2d: 2, torch.nn.Conv3d: 3}
_FISHERS = ("empirical", "mc", "type2")


def _three(values):
    """The settings of a convolution in three dimensions, of which it may not have the last."""
    return tuple(values) + (1,) * (3 - len(values))


def _describe(module):
    """A layer as gram._core.Kfac takes it; None: it has no factors."""
    bias = int(getattr(module, "bias", None) is not None)
    plain = (1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1)
    if isinstance(module, torch.nn.Linear):
        return (_LINEAR, module.in_features, module.out_features, bias, 2, 1, -1) + plain
    if isinstance(module, torch.nn.Embedding):
        if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            return None
        padding = -1 if module.padding_idx is None else module.padding_idx
        sizes = (module.num_embeddings, module.embedding_dim)
        return (_EMBEDDING, *sizes, 0, 2, 1, padding) + plain
    spatial = _CONVOLUTIONS.get(type(module))
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


def _hessian_factors(outputs, likelihood):
    """Tensors of outputs' shape whose outer products add up to the Hessian of a sample's loss."""
    if likelihood == "gaussian":
        for c in range(outputs.shape[-1]):
            unit = torch.zeros_like(outputs)
            unit[..., c] = 1
            yield unit
        return
    p = outputs.softmax(-1)
    for c in range(outputs.shape[-1]):  # diag(p) - p p^T = S S^T, S = diag(r) - p r^T, r = sqrt p
        column = -p * p[..., c : c + 1].sqrt()
        column[..., c] += p[..., c].sqrt()
        yield column


def _drawn(outputs, likelihood, generator):
    """The gradient of a sample's loss at a target drawn from the prediction."""
    if likelihood == "gaussian":
        noise = torch.empty_like(outputs)
        return noise.normal_(generator=generator)
    p = outputs.softmax(-1)
    flat = p.reshape(-1, p.shape[-1])
    drawn = torch.multinomial(flat, 1, generator=generator).reshape(p.shape[:-1])
    return p - torch.nn.functional.one_hot(drawn, p.shape[-1]).to(p.dtype)


class KFAC(torch.optim.Optimizer):
    """K-FAC: SGD with momentum on directions (B x A + damping)^-1 grad, layer by layer.

    The layers of model that are Linear, Conv1d, Conv2d, Conv3d (groups too; padding by zeros) and
    Embedding have factors A = E[a a^T] of what goes in, with a 1 behind it where there is a bias,
    and B = E[g g^T] of the gradients of what comes out, and directions from these; all other
    parameters have their gradient.  Then

        buf <- momentum buf + direction + weight_decay p,  p <- p - lr buf.

    fisher says which g: "empirical" takes those of loss.backward(), the loss being a mean over the
    samples (reduction="sum": a sum).  "mc" (targets drawn from the prediction) and "type2" (exact,
    a pass for every output) take them from curvature(outputs), to be called with the outputs of
    the step's forward pass, before loss.backward().  likelihood is "categorical" (outputs are
    logits in the last dimension) or "gaussian" (mean, unit variance).

    damping is lambda; exact damping adds it to B x A in its eigenvectors, otherwise A and B get
    their parts of it (pi-damping).  Averages decay by min(1 - 1 / k, decay) at the k'th update,
    every update_every steps; inverses are made every refresh_every steps.  kl_clip bounds
    lr^2 sum <direction, grad> by shortening all directions alike; 0: none.  setting says what the
    positions of a sample share a weight as, "expand" or "reduce".

    Memory besides the parameters' momentum: for factors of order m and n float64 2 (m^2 + n^2) +
    2 m n and workspace.  Gradients that are not finite raise gram.LinAlgError in step, factors that
    are not finite are left out (info()["skipped"]).  Raises ValueError for options that make no
    sense, NotImplementedError for parameters that are not on the CPU in float32 or float64, and
    RuntimeError where a layer is used twice in a forward pass.  Gradients may be accumulated over
    several backward passes; each of these updates the factors.

    process_group: the ranks of a group of torch.distributed, whose gradients must be equal (as
    DistributedDataParallel makes them), average their factors before every refresh, and EKFAC's
    eigenvalues after every update, by one all-reduce: with batches of one size that is the same as
    one process with all samples.  Every rank holds all state and makes all inverses.

    Sources: Martens and Grosse, ICML 2015; Eschenhagen et al., NeurIPS 2023; EKFAC: George et al.,
    NeurIPS 2018.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.KFAC(model, lr=0.1)
    >>> x, y = torch.randn(8, 3), torch.tensor([0, 1] * 4)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.cross_entropy(model(x), y).backward()
    ...     optimizer.step()
    >>> optimizer.info()["skipped"]
    0
    >>> optimizer.close()
    """

    _corrected = False

    def __init__(
        self,
        model,
        lr=0.1,
        *,
        momentum=0.9,
        damping=1e-3,
        exact=False,
        decay=0.95,
        kl_clip=1e-3,
        weight_decay=0.0,
        update_every=1,
        refresh_every=10,
        fisher="empirical",
        likelihood="categorical",
        setting="expand",
        reduction="mean",
        generator=None,
        process_group=None,
    ):
        for name, value, choices in (
            ("fisher", fisher, _FISHERS),
            ("likelihood", likelihood, ("categorical", "gaussian")),
            ("setting", setting, ("expand", "reduce")),
            ("reduction", reduction, ("mean", "sum")),
        ):
            if value not in choices:
                raise ValueError(f"gram.KFAC: {name} is {value!r}, expected one of {choices}")
        for name, value in (("update_every", update_every), ("refresh_every", refresh_every)):
            if value < 1:
                raise ValueError(f"gram.KFAC: {name} is {value!r}, expected at least 1")
        for name, value in (("momentum", momentum), ("weight_decay", weight_decay), ("lr", lr)):
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"gram.KFAC: {name} is {value!r}, expected at least 0")
        super().__init__(
            model.parameters(), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        )
        self._fisher, self._likelihood, self._generator = fisher, likelihood, generator
        self._mean = reduction == "mean"
        self._process_group = process_group
        self._every = (int(update_every), int(refresh_every))
        self._steps = 0
        self._options = (
            self._corrected, exact, float(damping), float(decay), float(kl_clip),
            setting == "reduce",
        )  # fmt: skip
        self._layers, described = [], []
        for module in model.modules():
            layer = _describe(module)
            if layer is not None and module.weight.requires_grad:
                self._check(module)
                self._layers.append(module)
                described.append(layer)
        self._kfac = _core.Kfac(tuple(described), (*self._options, 1.0))
        self._seen, self._batch = {}, {}
        self._hooks = [
            module.register_forward_hook(self._remember(i)) for i, module in enumerate(self._layers)
        ]

    @staticmethod
    def _check(module):
        for p in module.parameters(recurse=False):
            if p.device.type != "cpu" or p.dtype not in (torch.float32, torch.float64):
                raise NotImplementedError(
                    f"gram.KFAC: a parameter of {module} is {p.dtype} on {p.device}, expected "
                    "float32 or float64 on the CPU"
                )

    # ---- What the hooks see ----

    def _wanted(self):
        return self._steps % self._every[0] == 0

    def _remember(self, index):
        def hook(module, inputs, output):
            if module is not self._layers[index]:  # a deep copy has the hooks, too
                return
            if not (module.training and output.requires_grad and self._wanted()):
                return
            if index in self._batch:
                if self._batch[index][2] is None:
                    self._batch.clear()
                    raise RuntimeError(
                        f"gram.KFAC: {module} was used again before a backward pass, expected once"
                    )
                self._empirical()  # gradients are accumulated over several batches
            self._batch[index] = [inputs[0].detach(), output, None]
            if self._fisher == "empirical":
                output.register_hook(self._receive(index))

        return hook

    def _receive(self, index):
        def hook(grad):
            entry = self._batch.get(index)
            if entry is not None:
                entry[2] = grad.detach()

        return hook

    def _shaped(self, index, tensor, gradient):
        """With the samples in front: a convolution or a linear layer may come without."""
        module = self._layers[index]
        least = _CONVOLUTIONS.get(type(module), 0) + 1
        if isinstance(module, torch.nn.Embedding):
            least = 1 if gradient else 0
        return tensor if tensor.dim() > least else tensor.unsqueeze(0)

    def _learn(self, index, a, g, scale):
        a, g = self._shaped(index, a, False), self._shaped(index, g, True)
        self._kfac.set((*self._options, float(scale)))
        self._kfac.update(index, a, g)

    def curvature(self, outputs):
        """Updates the factors from the distribution that outputs stand for ("mc", "type2").

        Call it after the forward pass that gave outputs and before loss.backward(); the graph is
        kept.  Does nothing in steps that update_every leaves out.

        >>> import torch, gram.optim
        >>> model = torch.nn.Linear(3, 2)
        >>> optimizer = gram.optim.KFAC(model, lr=0.1, fisher="type2", likelihood="gaussian")
        >>> outputs = model(torch.randn(8, 3))
        >>> optimizer.curvature(outputs)
        """
        if self._fisher == "empirical" or not self._batch:
            return
        detached = outputs.detach()
        if self._fisher == "mc":
            passes = [_drawn(detached, self._likelihood, self._generator)]
        else:
            passes = list(_hessian_factors(detached, self._likelihood))
        order = sorted(self._batch)
        collected = [[] for _ in order]
        for direction in passes:
            grads = torch.autograd.grad(
                outputs,
                [self._batch[i][1] for i in order],
                direction,
                retain_graph=True,
                allow_unused=True,
            )
            for rows, grad, i in zip(collected, grads, order, strict=True):
                g = torch.zeros_like(self._batch[i][1]) if grad is None else grad
                rows.append(self._shaped(i, g.detach(), True))
        for rows, i in zip(collected, order, strict=True):
            a = self._shaped(i, self._batch[i][0], False)
            a = torch.cat([a] * len(rows)) if len(rows) > 1 else a
            self._learn(i, a, torch.cat(rows), math.sqrt(len(rows)))
        self._batch.clear()

    # ---- Steps ----

    def _empirical(self):
        for index, (a, _, g) in self._batch.items():
            if g is None:
                continue
            a = self._shaped(index, a, False)
            self._learn(index, a, g, a.shape[0] if self._mean else 1)
        self._batch.clear()

    def _average(self, refreshes):
        """Updates of this rank, then the mean of all ranks' averages, which are linear in these."""
        trouble = None
        try:
            self._empirical()
        except Exception as e:  # the others wait for this rank: they are told
            trouble = e
        due = (".a", ".b") * refreshes + (".corrections",) * self._corrected
        parts = [part for name, part in self._parts() if name.endswith(due)] if due else []
        told = torch.full((1,), float(trouble is not None), dtype=torch.float64)
        flat = torch.cat([part.flatten() for part in parts] + [told])
        torch.distributed.all_reduce(flat, group=self._process_group)
        if trouble is not None:
            raise trouble
        if flat[-1] > 0:
            raise RuntimeError(f"gram.{type(self).__name__}: the step failed on another rank")
        flat /= torch.distributed.get_world_size(self._process_group)
        for part, mean in zip(parts, flat[:-1].split([p.numel() for p in parts]), strict=True):
            part.copy_(mean.view(part.shape))

    def _directions(self):
        """{parameter: direction} of those with factors, clones of their gradients."""
        found, weights, biases = {}, [], []
        for module in self._layers:
            pair = []
            for p in (module.weight, getattr(module, "bias", None)):
                if p is None:
                    pair.append(None)
                    continue
                grad = torch.zeros_like(p) if p.grad is None else p.grad.detach()
                if grad.is_sparse:
                    raise ValueError("gram.KFAC: a gradient is sparse, expected a dense one")
                pair.append(grad.clone(memory_format=torch.contiguous_format))
                if p.grad is not None:
                    found[p] = pair[-1]
            weights.append(pair[0])
            biases.append(pair[1])
        self._kfac.precondition(self.param_groups[0]["lr"], tuple(weights), tuple(biases))
        return found

    @torch.no_grad()
    def step(self, closure=None):
        """A step; closure, if given, computes the loss anew, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        refreshes = self._steps % self._every[1] == 0
        if self._process_group is None:
            self._empirical()
        else:
            self._average(refreshes)
        if refreshes:
            self._kfac.refresh()
        found = self._directions()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                d = found.get(p, p.grad)
                if group["weight_decay"]:
                    d = d.add(p, alpha=group["weight_decay"])
                if group["momentum"]:
                    buf = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                    d = buf.mul_(group["momentum"]).add_(d)
                p.add_(d, alpha=-group["lr"])
        self._steps += 1
        return loss

    def info(self):
        """What became of it: bytes, skipped updates, failed inverses, the last factor nu."""
        return self._kfac.info()

    def close(self):
        """Takes the hooks off the model."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._batch.clear()

    # ---- Checkpoints ----

    def _parts(self):
        for name, shape, whole, memory in self._kfac.state():
            dtype = torch.int64 if whole else torch.float64
            yield name, torch.frombuffer(memory, dtype=dtype).view(shape)

    def state_dict(self):
        """That of PyTorch, and the averages and inverses under "kfac"."""
        state = super().state_dict()
        state["kfac"] = {name: part.clone() for name, part in self._parts()}
        state["kfac"]["steps"] = torch.tensor(self._steps)
        return state

    def load_state_dict(self, state_dict):
        """Takes all of a state_dict of the same layers and options, or nothing (ValueError)."""
        state = dict(state_dict)
        saved = state.pop("kfac", None)
        parts = dict(self._parts())
        if saved is None or saved.keys() != parts.keys() | {"steps"}:
            raise ValueError("gram.KFAC: the state is not that of these layers and options")
        for name, part in parts.items():
            if saved[name].shape != part.shape or not saved[name].isfinite().all():
                raise ValueError(f"gram.KFAC: {name} of the state does not fit, or is not finite")
        super().load_state_dict(state)
        for name, part in parts.items():
            part.copy_(saved[name])
        self._steps = int(saved["steps"])


class EKFAC(KFAC):
    """EKFAC: KFAC whose eigenvalues are E[(Qb^T G Qa)^2] of the gradients G of samples, the best
    ones for its eigenvectors; arguments, memory (m n more) and errors are those of KFAC, damping is
    always exact.  The eigenvalues begin anew with every refresh, from those of K-FAC.  Otherwise as
    gram.optim.KFAC.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.EKFAC(model, lr=0.1, fisher="mc")
    >>> outputs = model(torch.randn(8, 3))
    >>> optimizer.curvature(outputs)
    >>> torch.nn.functional.cross_entropy(outputs, torch.tensor([0, 1] * 4)).backward()
    >>> optimizer.step()
    >>> optimizer.info()["skipped"]
    0
    >>> optimizer.close()
    """

    _corrected = True
