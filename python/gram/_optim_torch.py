"""Shampoo, SOAP and Muon as torch.optim.Optimizer: steps, ranks, checkpoints, and the classes.

gram/optim.py is their public face.
"""

try:
    import torch
except ImportError as e:
    raise ImportError(
        "the classes of gram.optim need PyTorch 1.13 or newer (pip install torch)"
    ) from e

from gram import _core, _optim_shards
from gram._optim_options import core_options

__all__ = ["Muon", "SOAP", "Shampoo"]

# torch.compiler.disable, but not before something is compiled: it takes seconds to import.
_eager = getattr(torch, "_disable_dynamo", lambda function: function)
_COUNTERS = "gram_counters"  # in a checkpoint's groups: what is no single parameter's


def _tensor_of(view, dtype):
    """A tensor over the memory of a state's memoryview, which it keeps."""
    shape, dtype = view.shape, getattr(torch, dtype)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(view, dtype=dtype).reshape(shape)


def _touch(p):
    """Tells autograd that p was written to, as an operator would."""
    if hasattr(torch.autograd.graph, "increment_version"):
        torch.autograd.graph.increment_version(p)
    else:  # before PyTorch 2.1: no element of it is written, which counts too
        p.detach().as_strided((0,), (1,)).zero_()


def _blocks(names, params):
    """How many blocks each parameter has, by the names of their state."""
    last = [-1] * params
    for name in names:
        number, block, _ = name.split(".", 2)
        last[int(number)] = max(last[int(number)], int(block))
    return [block + 1 for block in last]


class _Base(torch.optim.Optimizer):
    """What the three share: one optimizer of the library for every group of parameters."""

    _method = None

    def __init__(self, params, defaults, process_group):
        self._cores, self._shards = {}, {}
        self._process_group = process_group
        self.reports = []
        super().__init__(params, defaults)

    def __setstate__(self, state):
        self._cores, self._shards, self.reports = {}, {}, []
        self.__dict__.setdefault("_process_group", None)  # of a pickle; load_state_dict keeps it
        super().__setstate__(state)

    @property
    def _name(self):
        return f"gram.optim.{type(self).__name__}"

    def add_param_group(self, param_group):
        """Adds a group with options of its own, as of torch.optim.Optimizer."""
        super().add_param_group(param_group)
        try:  # options that cannot be are refused here
            _core.optimizer_create(self._options(self.param_groups[-1]), [])
        except Exception:
            self.param_groups.pop()
            raise

    # ---- Steps ----

    def _ranks(self):
        if self._process_group is None:
            return 0, 1
        distributed = torch.distributed
        group = self._process_group
        return distributed.get_rank(group), distributed.get_world_size(group)

    def _options(self, group):
        options = {k: v for k, v in group.items() if k not in ("params", "initial_lr", _COUNTERS)}
        known = {k: v for k, v in options.items() if k in self.defaults}
        rank, ranks = self._ranks()
        return core_options(self._method, {**known, "rank": rank, "ranks": ranks}, self._name)

    def _shards_of(self, i, group):
        """How the parameters of a group are sharded; None where none of them is."""
        if i not in self._shards:
            sharded = any(_optim_shards.is_sharded(p) for p in group["params"])
            if sharded and self._process_group is not None:
                raise ValueError(
                    f"{self._name}: process_group is given, and parameters are DTensors, whose "
                    "mesh has the ranks; expected None"
                )
            self._shards[i] = sharded and _optim_shards.Shards(
                self._name, i, group["params"], group.get("block") or 2**62
            )
        return self._shards[i] or None

    def _members(self, i, group):
        """The parameters that this rank has state of."""
        shards = self._shards_of(i, group)
        return group["params"] if shards is None else [group["params"][j] for j in shards.own]

    def _core_of(self, i, group):
        """The library's optimizer of a group, made at the first step, with the group's options."""
        options = self._options(group)
        if i in self._cores:
            core, last = self._cores[i]
            if options != last:
                core.set(options)
        else:
            shards = self._shards_of(i, group)
            whole = shards.empty() if shards else [p.detach() for p in group["params"]]
            core = _core.optimizer_create(options, whole)
            self._restore(i, core, group)
        self._cores[i] = core, options
        return core

    def _gradients(self, i, group):
        gradients = []
        for j, p in enumerate(group["params"]):
            where = f"{self._name}: parameter {j} of group {i}"
            if p.device.type not in ("cpu", "cuda"):
                raise NotImplementedError(
                    f"{where} is on {p.device}; this version works on the CPU and on CUDA devices"
                )
            g = p.grad
            if g is not None and (g.layout != torch.strided or p.layout != torch.strided):
                raise TypeError(
                    f"{where} has a sparse gradient ({g.layout}), which has no second-order step; "
                    "make it dense (sparse=False), or leave the parameter to another optimizer"
                )
            gradients.append(None if g is None else g.detach())
        return gradients

    @torch.no_grad()
    def step(self, closure=None):
        """Does a step.  closure, if given, is called first, with gradients enabled, and its value
        is returned.  Parameters whose grad is None do not change.  Afterwards, reports has one dict
        per group: skipped (parameters whose gradients were not finite), refreshed, kept and failed
        (roots), first_failed (the number of a parameter, or -1).  On a GPU it is None, since the
        step does not wait.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._step_all()
        return loss

    @_eager
    def _step_all(self):
        work = []
        for i, group in enumerate(self.param_groups):
            gradients = self._gradients(i, group)
            if any(g is not None for g in gradients):
                work.append((i, group, gradients))
        self.reports = [self._step_group(*item) for item in work]

    def _step_group(self, i, group, gradients):
        if self._shards_of(i, group) is not None:
            return self._step_sharded(i, group, gradients)
        parameters = [p.detach() for p in group["params"]]
        if self._ranks()[1] > 1:
            return self._step_shared(i, group, parameters, gradients)
        report = self._core_of(i, group).step(parameters, gradients)
        for p, g in zip(group["params"], gradients, strict=True):
            if g is not None:
                _touch(p)
        return report

    def _step_sharded(self, i, group, gradients):
        """Each rank steps whole parameters, and all ranks get their shards."""
        shards, report, trouble = self._shards_of(i, group), None, None
        used = [j for j, g in enumerate(gradients) if g is not None]
        whole = shards.gather(dict(enumerate(p.detach() for p in group["params"])))
        mine = shards.gather({j: gradients[j] for j in used})
        try:
            if shards.own:
                core = self._core_of(i, group)
                report = core.step(
                    [whole[j] for j in shards.own], [mine.get(j) for j in shards.own]
                )
        except Exception as e:  # the others wait for this rank: they are told
            trouble = e
        shards.agree(trouble)
        shards.scatter(whole, used)
        for j in used:
            _touch(_optim_shards.local_of(group["params"][j]))
        return report

    def _step_shared(self, i, group, parameters, gradients):
        """Each rank does its blocks; the sum of all directions is the direction."""
        sums = {}  # the dtype of directions: one flat tensor for all, whose last is for trouble
        used = [j for j, g in enumerate(gradients) if g is not None]
        for j in used:
            dtype = torch.float64 if parameters[j].dtype == torch.float64 else torch.float32
            sums.setdefault(dtype, []).append(j)
        flats, directions = [], [None] * len(parameters)
        for dtype, members in sums.items():
            flat = torch.zeros(
                sum(parameters[j].numel() for j in members) + 1,
                dtype=dtype,
                device=parameters[members[0]].device,
            )
            flats.append(flat)
            parts = flat[:-1].split([parameters[j].numel() for j in members])
            for j, part in zip(members, parts, strict=True):
                directions[j] = part.view(parameters[j].shape)
        report, trouble = None, None
        try:
            report = self._core_of(i, group).direction(parameters, gradients, directions)
        except Exception as e:  # the others wait for this rank: they are told
            trouble = e
            flats[0][-1] = 1
        for flat in flats:
            torch.distributed.all_reduce(flat, group=self._process_group)
        if trouble is not None:
            raise trouble
        if flats[0][-1] > 0:
            raise RuntimeError(f"{self._name}: the step failed on another rank")
        for j in used:
            group["params"][j].add_(directions[j].to(parameters[j].dtype), alpha=-group["lr"])
        return report

    # ---- Checkpoints ----

    def _export(self):
        """Copies the library's state into self.state and the groups.  What is no single
        parameter's goes to each of them where they are sharded, as their ranks may be others.
        """
        for i, (core, _) in self._cores.items():
            group, params = self.param_groups[i], self._members(i, self.param_groups[i])
            tensors = {n: _tensor_of(v, d) for n, d, v in core.state()}
            counters = {k: tensors.pop(k).clone() for k in ("step", "failures")}
            for p, steps in zip(params, tensors.pop("steps"), strict=True):
                self.state[p] = {"step": steps.clone()}
            if self._shards_of(i, group) is None:
                group[_COUNTERS] = counters
            else:
                failures = counters["failures"].split(_blocks(tensors, len(params)))
                for p, each in zip(params, failures, strict=True):
                    self.state[p] |= {"group_step": counters["step"], "failures": each.clone()}
            for name, tensor in tensors.items():
                number, rest = name.split(".", 1)
                self.state[params[int(number)]][rest] = tensor.clone()

    def _forget(self):
        """Drops what _export copied where the library's own state is the newer one."""
        for i in self._cores:
            self.param_groups[i].pop(_COUNTERS, None)
            for p in self.param_groups[i]["params"]:
                self.state.pop(p, None)

    def _restore(self, i, core, group):
        """Copies self.state into a new optimizer of the library."""
        params, counters = self._members(i, group), group.pop(_COUNTERS, None)
        saved = [self.state.get(p, {}) for p in params]
        for p in group["params"]:
            self.state.pop(p, None)
        if counters is None and not any("group_step" in each for each in saved):
            return
        state = core.state()
        own = {name: _tensor_of(view, dtype) for name, dtype, view in state}
        steps, step, failures = (own.pop(name) for name in ("steps", "step", "failures"))
        blocks = _blocks(own, len(params))
        if counters is None:
            each = [s.get("failures", torch.zeros(b)) for s, b in zip(saved, blocks, strict=True)]
            counters = {"step": next(s["group_step"] for s in saved if "group_step" in s),
                        "failures": torch.cat(each)}  # fmt: skip
        elif self._shards_of(i, group) is not None:  # of optimizers that were not sharded
            counters["failures"] = torch.zeros_like(failures)
        self._fill(step, counters["step"], "step")
        self._fill(failures, counters["failures"], "failures")
        for target, each in zip(steps, saved, strict=True):
            self._fill(target, each.get("step", torch.tensor(0)), "step")
        for name, tensor in own.items():
            number, rest = name.split(".", 1)
            self._fill(tensor, saved[int(number)].get(rest), name)
        core.put([view for _, _, view in state])

    def _fill(self, tensor, value, name):
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape:
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else "missing"
            raise ValueError(
                f"{self._name}: {name} of the checkpoint is {found}, expected "
                f"{tuple(tensor.shape)}: it belongs to other parameters, options or ranks"
            )
        tensor.copy_(value)

    def state_dict(self):
        """A copy of the state, for torch.save.  With a process_group, or of sharded parameters, it
        is only the share of this rank (consolidated_state_dict has all); that of sharded parameters
        is also what torch.distributed.checkpoint saves and loads.
        """
        for i, group in enumerate(self.param_groups):
            shards = self._shards_of(i, group)
            if shards is not None and shards.own:
                self._core_of(i, group)  # with tensors that a checkpoint is loaded into
        self._export()
        try:
            return super().state_dict()
        finally:
            self._forget()

    def load_state_dict(self, state_dict):
        """Loads a checkpoint, with tensors on any device, and from any number of ranks.  It is
        checked against the parameters at the next step.
        """
        super().load_state_dict({**state_dict, "state": {}})
        saved = [k for group in state_dict["param_groups"] for k in group["params"]]
        own = [p for group in self.param_groups for p in group["params"]]
        self.state.clear()
        for key, p in zip(saved, own, strict=True):
            if key in state_dict["state"]:
                self.state[p] = {
                    name: value.detach().to("cpu", copy=True)
                    for name, value in state_dict["state"][key].items()
                }
        for group in self.param_groups:
            if _COUNTERS in group:
                group[_COUNTERS] = {k: v.cpu() for k, v in group[_COUNTERS].items()}

    def consolidated_state_dict(self):
        """state_dict with the blocks of all ranks, on every rank.  All ranks call it.

        >>> import torch, gram.optim
        >>> optimizer = gram.optim.Muon([torch.ones(2, 2, requires_grad=True)])
        >>> sorted(optimizer.consolidated_state_dict())
        ['param_groups', 'state']
        """
        mine, among = self.state_dict(), self._process_group
        sharded = [s for s in self._shards.values() if s]
        if among is None and sharded:
            among = sharded[0].group
        if among is None:
            return mine
        all_states = [None] * torch.distributed.get_world_size(among)
        torch.distributed.all_gather_object(all_states, mine["state"], among)
        for states in all_states:
            for key, tensors in states.items():
                mine["state"].setdefault(key, {}).update(tensors)
        return mine

    def __getstate__(self):
        self._export()
        state = super().__getstate__()
        copy = {
            **state,
            "state": type(self.state)(self.state.default_factory, self.state),
            "param_groups": [dict(group) for group in self.param_groups],
        }
        self._forget()
        return copy


# ---- The classes ----

_COMMON = """
    params: an iterable of parameters or of groups, as of every torch.optim.Optimizer; options may
    differ by group and change between steps (lr, betas, weight_decay, refresh and others; not what
    decides which state there is). Parameters and gradients are dense tensors of the CPU or a GPU,
    float32, float64, float16 or bfloat16, any strides; the state of halves is float32. Works with
    closures, torch.amp.GradScaler, learning rate schedulers, and models under torch.compile (the
    step itself is no part of the compiled graph). not_finite: "skip" leaves out a parameter whose
    gradient holds a nan or an infinity, "raise" raises gram.LinAlgError and changes nothing.
    precision: what products of float32 are computed in: on a GPU "auto" (float32) or "tf32",
    several times faster with 11 bits; Muon's by "auto" in bfloat16 on GPUs from Ampere on and on
    processors with AVX512_BF16, by "f32" in float32.

    state_dict holds copies; it can be saved with torch.save, loaded with any map_location, and goes
    on exactly where it was.  process_group shares the work of blocks out to the ranks of a group of
    torch.distributed, whose gradients must be equal (as DistributedDataParallel makes them); every
    rank holds the state of its own blocks alone, and directions are added up by one all-reduce.

    Parameters may be DTensors of torch.distributed.fsdp.fully_shard (PyTorch 2.6 or newer), with
    one Shard and else Replicate.  Each has an owner among the ranks, chosen by the cost of a step,
    which gathers it and its gradient, steps it whole, and sends the shards back: three exchanges a
    step, with the numbers of a single process (with stagger, roots take other turns).  Memory of a
    rank: the state of its own parameters, and twice these while a step lasts.  state_dict then is
    the share of a rank, and the optimizer can be given to torch.distributed.checkpoint as it is,
    which loads it on any number of ranks.

    Raises ValueError for numbers that cannot be and for parameters that changed their shape,
    TypeError for sparse gradients, NotImplementedError for DTensors with other placements,
    gram.LinAlgError where roots fail again and again, and RuntimeError where another rank failed.
"""


def _collect(given):
    """The options of a class from its arguments, the process group apart."""
    defaults = {k: v for k, v in given.items() if k not in ("self", "params", "__class__")}
    return defaults, defaults.pop("process_group")


class Shampoo(_Base):
    """Shampoo: gradients times inverse roots of their Gram matrices along every dimension.

    A parameter is merged to fewer dimensions and cut into blocks with sides of at most block.  For
    a block W with o dimensions and the gradient G at step t, with G_k the matrix whose rows are
    dimension k:

        L_k = beta2 L_k + (1 - beta2) G_k G_k^T             (beta2 = 1: the sum)
        X_k = (max(A, 0) + r I)^(-1 / (2 o)),               every refresh steps, from step start on
              A = L_k / (1 - beta2^n)
        F   = beta3 M + (1 - beta3) G, / (1 - beta3 beta1^(t - 1));  M = beta1 M + (1 - beta1) G
        P   = F x_1 X_1 ... x_o X_o;  with a graft: P |graft(F)| / |P|;  before start: graft(F)
        P  += weight_decay W                                (decoupled; else G += weight_decay W)
        B   = momentum B + (1 - dampening) P;               P = B, or P + momentum B (nesterov)
        W  -= lr P

    r is eps (with relative_eps, eps times m, the largest eigenvalue of A), and at least 2^-20 m
    (for L_k of float64, n 2^-50 m for an n by n matrix), which is the size that rounding gives to
    an eigenvalue of 0.  For roots by iterations, r is at least 2^-16 m in float32 (2^-40 m in
    float64), and at least twice the magnitude of a negative eigenvalue.  Factors of any rank
    therefore have roots; that of a zero matrix is I if eps is 0.

    lr 0.01, betas (0.9, 1.0), eps 1e-12, beta3 None (beta1), graft "adam" (or None, "sgd",
    "adagrad", "rmsprop"; None is Shampoo as it was published) with graft_beta2 0.999 and graft_eps
    1e-8, block 1024, merge True, start None (refresh), refresh 10, statistics 1 (L_k changes in
    step 1 and every `statistics` steps, n times so far), stagger False (True: blocks take turns, so
    that no step computes all roots), exponent None (1 / (2 o)), root as the method of
    gram.matrix_power, root_precision as its precision ("auto"), skip 0 (a root whose error is
    within skip is kept), failures 3 (the failures in a row that a root may have, while the previous
    one is kept), state_dtype None ("float32", "float64", "bfloat16"), packed True (symmetric state
    is stored as triangles).  Users of Adam can begin with its betas and lr.

    Memory of an m by n block: m (m + 1) + n (n + 1) numbers for factors and roots (packed; twice
    that otherwise), and m n numbers each for M, for B if momentum is not 0, and for the second
    moment of a graft other than "sgd".

    Sources: Gupta, Koren, Singer, "Shampoo", 2018; Shi et al., "A distributed data-parallel PyTorch
    implementation of the distributed Shampoo optimizer", 2023; Anil et al. 2020 (grafts).

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.Shampoo(model.parameters(), lr=0.01)
    >>> x = torch.ones(4, 3)
    >>> before = model(x).square().mean()
    >>> before.backward()
    >>> optimizer.step()
    >>> bool(model(x).square().mean() < before)
    True
    """

    _method = "shampoo"

    def __init__(self, params, lr=0.01, betas=(0.9, 1.0), eps=1e-12, weight_decay=0.0, *,
                 beta3=None, relative_eps=False, momentum=0.0, dampening=0.0, nesterov=False,
                 decoupled=True, bias_correction=True, graft="adam", graft_beta2=0.999,
                 graft_eps=1e-8, block=1024, merge=True, start=None, refresh=10, statistics=1,
                 stagger=False, exponent=None, root="auto", skip=0.0, failures=3, state_dtype=None,
                 packed=True, not_finite="skip", precision="auto", root_precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


class SOAP(_Base):
    """SOAP: Adam in the slowly turning eigenbasis of Shampoo's factors.

    For a parameter W with the gradient G, G_k is the matrix whose rows are dimension k, and Q_k is
    the basis of dimension k (none if its side is above block, or for vectors without
    one_dimensional):

        step 1:  L_k = (1 - b) G_k G_k^T, Q_k its eigenvectors, W stays           (b: shampoo_beta)
        G' = G x_k Q_k^T;  M' = beta1 M' + (1 - beta1) G';  V = beta2 V + (1 - beta2) G'^2
        U  = M' / (sqrt(V) + eps) x_k Q_k, times sqrt(1 - beta2^t) / (1 - beta1^t)
        W -= lr U;  W -= lr weight_decay W
        L_k = b L_k + (1 - b) G_k G_k^T
        every refresh steps: columns of Q_k (and V with them) in the order of diag(Q_k^T L_k Q_k),
        Q_k = qr(L_k Q_k);  M' is turned into the new basis.

    lr 0.003, betas (0.95, 0.95), eps 1e-8, weight_decay 0.01, shampoo_beta None (beta2), refresh
    10, block 10000, merge False, one_dimensional False, normalize False (True: U has root mean
    square 1), bias_correction True, state_dtype None, packed True.

    Memory of an m by n parameter: m (m + 1) / 2 + m m + n (n + 1) / 2 + n n numbers for factors and
    bases (packed), and 2 m n for M and V.

    Source: Vyas et al., "SOAP: improving and stabilizing Shampoo using Adam", 2024.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.SOAP(model.parameters(), lr=0.01)
    >>> losses = []
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     losses.append(model(torch.ones(4, 3)).square().mean())
    ...     losses[-1].backward()
    ...     optimizer.step()
    >>> bool(losses[-1] < losses[0])
    True
    """

    _method = "soap"

    def __init__(self, params, lr=0.003, betas=(0.95, 0.95), eps=1e-8, weight_decay=0.01, *,
                 shampoo_beta=None, refresh=10, block=10000, merge=False, one_dimensional=False,
                 normalize=False, decoupled=True, bias_correction=True, state_dtype=None,
                 packed=True, not_finite="skip", precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


class Muon(_Base):
    """Muon: momentum whose matrices are made nearly orthogonal.

    For a parameter W with two or more dimensions, as a matrix of r rows (its first dimension) and c
    columns, and the gradient G:

        B  = momentum B + G;  X = B, or G + momentum B (nesterov);  X /= |X|
        steps times: A = X X^T, X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
        W -= lr (max(1, r / c)^(1/2) X + weight_decay W)

    Vectors and scalars take steps of Adam, with betas and eps, and the same lr.  Its author advises
    to leave embeddings and the last layer to AdamW, in an optimizer of their own.

    lr 0.02, momentum 0.95, nesterov True, steps 5, weight_decay 0, betas (0.9, 0.95) and eps 1e-8
    of Adam, state_dtype None.  Products of float32 are computed in bfloat16 if the device supports
    it, with sums in float32; directions then differ by about 0.01 of their length.  precision="f32"
    avoids this.

    Memory: one number per element, and two for vectors and scalars.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    >>> import torch, gram.optim
    >>> model = torch.nn.Linear(3, 2)
    >>> optimizer = gram.optim.Muon(model.parameters(), lr=0.02)
    >>> before = model(torch.ones(4, 3)).square().mean()
    >>> before.backward()
    >>> optimizer.step()
    >>> bool(model(torch.ones(4, 3)).square().mean() < before)
    True
    """

    _method = "muon"

    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0, *, nesterov=True, steps=5,
                 betas=(0.9, 0.95), eps=1e-8, decoupled=True, bias_correction=True,
                 state_dtype=None, not_finite="skip", precision="auto",
                 process_group=None):  # fmt: skip
        super().__init__(params, *_collect(locals()))


for _class in (Shampoo, SOAP, Muon):
    _class.__module__ = "gram.optim"
    _class.__doc__ += _COMMON
