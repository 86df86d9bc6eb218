"""K-FAC and EKFAC for modules of PyTorch: hooks that bring gram_kfac (gram.h) what it needs."""

import math

import torch

from gram import _core, _kfac_layers, _kfac_others, _kfac_state, _optim_shards
from gram._optim_options import check_numbers

_FISHERS = ("empirical", "mc", "type2")


class KFAC(torch.optim.Optimizer):
    """K-FAC: SGD with momentum on directions (B x A + damping)^-1 grad, layer by layer.

    The layers of model that are Linear, Conv1d, Conv2d, Conv3d (also with groups; padding by zeros)
    and Embedding, except those of skip_layers, have directions from two factors: A = E[a a^T] of
    the inputs, followed by a 1 if there is a bias, and B = E[g g^T] of the gradients of the
    outputs.  Then

        buf <- momentum buf + direction + weight_decay p,  p <- p - lr buf.

    others is the method for all other parameters (of normalisations, positions and skip_layers).
    With "sgd" their direction is their gradient, and others_lr gives them a learning rate of their
    own.  "adamw" is

        m <- beta1 m + (1 - beta1) grad,  v <- beta2 v + (1 - beta2) grad^2,
        p <- p - others_lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + others_eps)
                            + others_weight_decay p)

    with others_lr 1e-3, others_betas (0.9, 0.999), others_eps 1e-8, others_weight_decay 0.  If they
    have their own learning rate, they are the second of param_groups, whose lr a scheduler also
    changes.

    fisher selects the gradients g.  "empirical" takes those of loss.backward(), where the loss is a
    mean over the samples (reduction="sum": a sum).  "mc" (targets drawn from the prediction) and
    "type2" (exact, with one pass per output) take them from curvature(outputs), which must be
    called with the outputs of the step's forward pass, before loss.backward().  likelihood is
    "categorical" (outputs are logits in the last dimension) or "gaussian" (mean, unit variance).
    terms is the number of terms per sample over which the loss is a mean (for example, tokens);
    None means the positions of outputs, and 1 for "empirical".  A wrong number scales the
    curvature, and so the effect of damping.

    damping is lambda.  Exact damping adds it to B x A in its eigenvectors; otherwise A and B each
    receive a part of it (pi-damping).  Averages decay by min(1 - 1 / k, decay) at the k'th update,
    every update_every steps, and inverses are computed every refresh_every steps.  kl_clip bounds
    lr^2 sum <direction, grad> by shortening all directions by the same factor; 0 means no bound.
    setting is the treatment of positions of a sample that share a weight, "expand" or "reduce".

    Memory, in addition to the momentum of one number per element (AdamW: two): for factors of order
    m and n of each group, 2 (m^2 + n^2) + m + n float64 (an embedding of m rows: 2 n^2 + 2 m + n;
    EKFAC: m n more), the gradients of all layers, and four times the largest matrix, with at least
    65536 numbers.  state_dtype "float32" (None: "float64") halves it; arithmetic with factors is
    then also in float32.

    Parameters are float32, float64, float16 or bfloat16 (the last two have a momentum of float32).
    Those of layers are all on the CPU or all on one GPU, also under torch.autocast.  With
    fisher="empirical", pass a torch.amp.GradScaler as grad_scaler, since the hooks see gradients of
    the scaled loss.

    On a GPU all work is queued on the current stream of PyTorch, which must be the same in all
    steps.  Only info, state_dict, load_state_dict and, once per step, process_group wait.  A
    torch.cuda.graph can therefore capture a step with its forward and backward pass, on the stream
    of an earlier step; whether it updates and refreshes is then fixed by the capture.  A state_dict
    can be moved between devices.

    Gradients that are not finite raise gram.LinAlgError in step, before a parameter changes.  On a
    GPU, where a step does not wait, the directions of all layers are 0 instead, and parameters
    without factors do not change if one of their gradients is not finite.  Factors that are not
    finite are left out.  info()["skipped"] counts both.  Raises ValueError for invalid options and,
    on a GPU, for another stream; TypeError for sparse gradients; NotImplementedError for parameters
    of other dtypes and devices; and RuntimeError if a layer is used twice in a forward pass.
    Gradients may be accumulated over several backward passes, each of which updates the factors.

    process_group is a group of torch.distributed, whose ranks must have the same gradients (as with
    DistributedDataParallel).  By one all-reduce, they average their factors before every refresh,
    and the eigenvalues of EKFAC after every update.  With batches of the same size, this is the
    same as one process with all samples.  Every rank holds all state and computes all inverses.

    Layers may be sharded by torch.distributed.fsdp.fully_shard before the optimizer is made.
    process_group is then the ranks of their mesh (give it where the mesh has two dimensions).
    Every rank gathers whole gradients, holds all factors and moves its own shards; the state of
    others and the momentum are shards too.  torch.distributed.checkpoint takes the optimizer as it
    is.

    Sources: Martens and Grosse, ICML 2015; Eschenhagen et al., NeurIPS 2023; EKFAC: George et al.,
    NeurIPS 2018; AdamW: Loshchilov and Hutter, ICLR 2019.

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
        terms=None,
        generator=None,
        others="sgd",
        others_lr=None,
        others_betas=(0.9, 0.999),
        others_eps=1e-8,
        others_weight_decay=None,
        skip_layers=(),
        grad_scaler=None,
        state_dtype=None,
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
        given = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        check_numbers(given, f"gram.optim.{type(self).__name__}")
        if terms is not None and terms < 1:
            raise ValueError(f"gram.KFAC: terms is {terms!r}, expected at least 1")
        _kfac_others.check(others, others_lr, others_betas, others_eps, others_weight_decay)
        self._fisher, self._likelihood, self._generator = fisher, likelihood, generator
        self._mean, self._terms = reduction == "mean", terms
        self._process_group, self._scaler = process_group, grad_scaler
        self._every = (int(update_every), int(refresh_every))
        self._steps = 0
        self._options = (
            self._corrected, exact, float(damping), float(decay), float(kl_clip),
            setting == "reduce", _kfac_state.is_narrow(state_dtype),
        )  # fmt: skip
        self._layers, self._described = _kfac_layers.find(model, set(skip_layers))
        if process_group is None:
            self._process_group = _kfac_layers.ranks_of(self._layers)
        self._library, self._place = None, None
        _core.Kfac((), (*self._options, 1.0))  # options that cannot be are refused here
        groups, self._adamw = _kfac_others.groups(
            model, self._layers, others, others_lr, others_betas, others_eps, weight_decay,
            others_weight_decay,
        )  # fmt: skip
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._batch = {}
        self._hooks = [
            module.register_forward_hook(self._remember(i)) for i, module in enumerate(self._layers)
        ]

    @property
    def _kfac(self):
        """The library's object, made at its first use, where the layers are then."""
        weight = torch.empty(0)
        if self._layers:
            weight = _optim_shards.local_of(self._layers[0].weight.detach())
        place = weight.device, None
        if weight.is_cuda:
            place = weight.device, torch.cuda.current_stream(weight.device).cuda_stream
        if self._library is None:
            options = (*self._options, 1.0)
            self._library = _core.Kfac(self._described, options, weight if weight.is_cuda else None)
            self._place = place
        elif place != self._place:
            raise ValueError(
                f"gram.{type(self).__name__}: the layers are on {place[0]}, stream {place[1]}; the "
                f"state was made on {self._place[0]}, stream {self._place[1]}, and stays there"
            )
        return self._library

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
            if entry is None:
                return
            entry[2] = grad.detach()
            if self._scaler is not None and self._scaler.is_enabled():
                one = torch.ones((), dtype=torch.float32, device=grad.device)
                wide = _kfac_layers.wide_of(grad)
                entry[2] = entry[2].to(wide) / self._scaler.scale(one).to(wide)

        return hook

    def _shaped(self, index, tensor, gradient):
        return _kfac_layers.with_samples(self._layers[index], tensor, gradient)

    def _learn(self, index, a, g, scale):
        a, g = self._shaped(index, a, False), self._shaped(index, g, True)
        if a.is_floating_point():
            a = a.to(g.dtype)  # under autocast what comes to a layer is cast in it
        self._kfac.set((*self._options, float(scale)))
        self._kfac.update(index, a, g)

    def curvature(self, outputs):
        """Updates the factors from the distribution that outputs describe ("mc", "type2").

        Call it after the forward pass that computed outputs, and before loss.backward(); the graph
        is kept.  In steps that update_every omits, it does nothing.  The last dimension of outputs
        is that of the likelihood, and there is one row per sample, or one per position of each
        sample.

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
            passes = [_kfac_layers.drawn(detached, self._likelihood, self._generator)]
        else:
            passes = list(_kfac_layers.hessian_factors(detached, self._likelihood))
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
            terms = outputs.numel() / max(outputs.shape[-1] * a.shape[0], 1)
            terms = self._terms or max(terms, 1) if self._mean else 1
            a = torch.cat([a] * len(rows)) if len(rows) > 1 else a
            self._learn(i, a, torch.cat(rows), math.sqrt(len(rows) / terms))
        self._batch.clear()

    # ---- Steps ----

    def _empirical(self):
        for index, (a, _, g) in self._batch.items():
            if g is None:
                continue
            a = self._shaped(index, a, False)
            scale = a.shape[0] * math.sqrt(self._terms or 1) if self._mean else 1
            self._learn(index, a, g, scale)
        self._batch.clear()

    def _average(self, refreshes):
        """Updates of this rank, then the mean of all ranks' averages, which are linear in these."""
        trouble = None
        try:
            self._empirical()
        except Exception as e:  # the others wait for this rank: they are told
            trouble = e
        due = (".a", ".b") * refreshes + (".corrections",) * self._corrected
        parts = [part for _, part in self._parts(due)]
        _kfac_state.average(
            parts, trouble, self._place[0], self._process_group, type(self).__name__
        )

    def _move(self, found):
        """Moves parameters along the directions found for some, or their gradients."""
        moves = []
        for group in self.param_groups:
            used = [p for p in group["params"] if p.grad is not None]
            rest = [p for p in used if p not in found]
            adamw = group.get("others") == "adamw"
            good = _kfac_others.check_gradients(rest)
            others = _kfac_others.kept(rest, good)
            move = {
                p: _kfac_layers.shard_of(p, found[p]) if p in found else others[p] for p in used
            }
            moves.append((adamw, good, move))
        for group, (adamw, good, move) in zip(self.param_groups, moves, strict=True):
            if adamw:
                self._adamw.step(group, self.state, good)
            else:
                _kfac_others.sgd(group, self.state, move)

    @torch.no_grad()
    def step(self, closure=None):
        """Does a step.  closure, if given, computes the loss again, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        _kfac_others.check_dense(self.param_groups)
        refreshes = self._steps % self._every[1] == 0
        if self._process_group is None:
            self._empirical()
        else:
            self._average(refreshes)
        if refreshes:
            self._kfac.refresh()
        found, weights, biases = _kfac_layers.gradients(self._layers)
        self._kfac.precondition(self.param_groups[0]["lr"], weights, biases)
        self._move(found)
        self._steps += 1
        return loss

    def info(self):
        """Statistics as a dict: bytes, skipped updates, failed inverses, the last factor nu."""
        return self._kfac.info()

    def close(self):
        """Removes the hooks from the model."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._batch.clear()

    # ---- Checkpoints ----

    def _parts(self, endings=("",)):
        library = self._kfac
        return _kfac_state.parts(library, self._place[0], endings)

    def state_dict(self):
        """The state_dict of PyTorch, with the averages and inverses under "kfac"."""
        _kfac_others.fill_state(self.param_groups, self.state)
        state = super().state_dict()
        state["kfac"] = {name: part.clone() for name, part in self._parts()}
        state["kfac"]["steps"] = torch.tensor(self._steps)
        return state

    def load_state_dict(self, state_dict):
        """Loads a state_dict of the same layers and options completely, or raises ValueError and
        loads nothing.
        """
        state = dict(state_dict)
        saved = state.pop("kfac", None)
        parts = dict(self._parts())
        _kfac_state.check(self, state, saved, parts)
        state["param_groups"] = [
            {**group, **self._adamw.of_device()} if group.get("others") else group
            for group in state["param_groups"]
        ]
        super().load_state_dict(state)
        _kfac_state.widen(self, state)
        for i, (name, part) in enumerate(parts.items()):
            self._kfac.put(i, saved[name].to("cpu", part.dtype).contiguous())
        self._steps = int(saved["steps"])


class EKFAC(KFAC):
    """EKFAC: KFAC with the eigenvalues E[(Qb^T G Qa)^2] of the gradients G of samples, which are
    the best ones for its eigenvectors.

    Arguments and errors are those of KFAC; memory is m n numbers more, and damping is always exact.
    After every refresh, the eigenvalues begin again with those of K-FAC.  Otherwise the same as
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
