"""What Shampoo, SOAP and Muon share as torch.optim.Optimizer: steps, ranks, checkpoints."""

try:
    import torch
except ImportError as e:
    raise ImportError(
        "the classes of gram.optim need PyTorch 1.13 or newer (pip install torch)"
    ) from e

from gram import _core
from gram._optim_options import core_options

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


class Base(torch.optim.Optimizer):
    """What the three share: one optimizer of the library for every group of parameters."""

    _method = None

    def __init__(self, params, defaults, process_group):
        self._cores = {}
        self._process_group = process_group
        self.reports = []
        super().__init__(params, defaults)

    def __setstate__(self, state):
        self._cores, self.reports = {}, []
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

    def _core_of(self, i, group):
        """The library's optimizer of a group, made at the first step, with the group's options."""
        options = self._options(group)
        if i in self._cores:
            core, last = self._cores[i]
            if options != last:
                core.set(options)
        else:
            core = _core.optimizer_create(options, [p.detach() for p in group["params"]])
            self._restore(core, group)
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
        """Does a step; closure, if given, is called first, with gradients on, and its value is
        returned.  Parameters whose grad is None rest.  reports then says what happened, a dict a
        group: skipped (parameters whose gradients were not finite), refreshed, kept and failed
        (roots), first_failed (a parameter's number, or -1); on a GPU None, since nothing waits."""
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
        parameters = [p.detach() for p in group["params"]]
        if self._ranks()[1] > 1:
            return self._step_shared(i, group, parameters, gradients)
        report = self._core_of(i, group).step(parameters, gradients)
        for p, g in zip(group["params"], gradients, strict=True):
            if g is not None:
                _touch(p)
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
        """Copies the library's state into self.state and the groups."""
        for i, (core, _) in self._cores.items():
            group = self.param_groups[i]
            params = group["params"]
            tensors = {n: _tensor_of(v, d) for n, d, v in core.state()}
            group[_COUNTERS] = {k: tensors.pop(k).clone() for k in ("step", "failures")}
            for p, steps in zip(params, tensors.pop("steps"), strict=True):
                self.state[p] = {"step": steps.clone()}
            for name, tensor in tensors.items():
                number, rest = name.split(".", 1)
                self.state[params[int(number)]][rest] = tensor.clone()

    def _forget(self):
        """Drops what _export copied where the library's own state is the newer one."""
        for i in self._cores:
            self.param_groups[i].pop(_COUNTERS, None)
            for p in self.param_groups[i]["params"]:
                self.state.pop(p, None)

    def _restore(self, core, group):
        """Copies self.state into a new optimizer of the library."""
        params, counters = group["params"], group.pop(_COUNTERS, None)
        if counters is None:
            return
        state = core.state()
        own = {name: _tensor_of(view, dtype) for name, dtype, view in state}
        steps = own.pop("steps")
        for name in ("step", "failures"):
            self._fill(own.pop(name), counters[name], name)
        for j, p in enumerate(params):
            self._fill(steps[j], self.state.get(p, {}).get("step", torch.tensor(0)), "step")
        for name, tensor in own.items():
            number, rest = name.split(".", 1)
            self._fill(tensor, self.state.get(params[int(number)], {}).get(rest), name)
        core.put([view for _, _, view in state])
        for p in params:
            self.state.pop(p, None)

    def _fill(self, tensor, value, name):
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape:
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else "missing"
            raise ValueError(
                f"{self._name}: {name} of the checkpoint is {found}, expected "
                f"{tuple(tensor.shape)}: it is of other parameters, options or ranks"
            )
        tensor.copy_(value)

    def state_dict(self):
        """The checkpoint, a copy, for torch.save; with a process_group this rank's share alone
        (consolidated_state_dict has all)."""
        self._export()
        try:
            return super().state_dict()
        finally:
            self._forget()

    def load_state_dict(self, state_dict):
        """Takes a checkpoint, on whichever device its tensors are and of whichever number of ranks;
        it is checked against the parameters at the next step."""
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
        """state_dict with the blocks of all ranks, on every rank: all of process_group call it.

        >>> import torch, gram.optim
        >>> optimizer = gram.optim.Muon([torch.ones(2, 2, requires_grad=True)])
        >>> sorted(optimizer.consolidated_state_dict())
        ['param_groups', 'state']
        """
        mine = self.state_dict()
        if self._ranks()[1] == 1:
            return mine
        all_states = [None] * self._ranks()[1]
        torch.distributed.all_gather_object(all_states, mine["state"], self._process_group)
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
