"""What moves parameters: SGD along directions, and AdamW for those that K-FAC has no factors of."""

import math

import torch

from gram import _core
from gram._kfac_layers import wide_of
from gram._optim_shards import dtensor_type

_RULES = ("sgd", "adamw")


def check(rule, lr, betas, eps, weight_decay):
    if rule not in _RULES:
        raise ValueError(f"gram.KFAC: others is {rule!r}, expected one of {_RULES}")
    for name, value in (("others_lr", lr), ("others_weight_decay", weight_decay)):
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"gram.KFAC: {name} is {value!r}, expected at least 0")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"gram.KFAC: others_betas is {betas!r}, expected two from 0 to below 1")
    if not (eps > 0 and math.isfinite(eps)):
        raise ValueError(f"gram.KFAC: others_eps is {eps!r}, expected more than 0")


def groups(model, layers, rule, lr, betas, eps, weight_decay, others_weight_decay):
    """Groups of parameters, that of the others behind, and its AdamW or None."""
    if rule == "sgd" and lr is None:
        return [{"params": list(model.parameters())}], None
    known = {id(p) for layer in layers for p in layer.parameters(recurse=False)}
    params = list(model.parameters())
    first = {"params": [p for p in params if id(p) in known]}
    others = [p for p in params if id(p) not in known]
    if not others:
        return [first], None
    if rule == "adamw":
        lr, decay = 1e-3 if lr is None else lr, others_weight_decay or 0.0
        adamw = AdamW(others, lr, betas, eps, decay)
        return [first, adamw.group], adamw
    decay = weight_decay if others_weight_decay is None else others_weight_decay
    return [first, {"params": others, "lr": lr, "weight_decay": decay}], None


class AdamW:
    """torch.optim.AdamW of one group of another optimizer, whose state it is that it writes."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        self._rule = torch.optim.AdamW(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay
        )
        self._params = params
        self.group = {**self._rule.param_groups[0], **self.of_device(), "others": "adamw"}

    def of_device(self):
        """On a GPU one kernel, which skips by itself and can be captured."""
        there = all(p.is_cuda for p in self._params)
        return {"fused": True if there else None, "capturable": there}

    def step(self, group, state, good):
        group.update(self.of_device())  # a checkpoint says what was right elsewhere
        self._rule.param_groups, self._rule.state = [group], state
        self._rule.found_inf = None if good is None else 1 - good.to(torch.float32)
        self._rule.step()


def sgd(group, state, moves):
    """buf <- momentum buf + direction + weight_decay p, p <- p - lr buf; moves: {p: direction}."""
    for sharded in (False, True):  # lists are of one kind
        some = {p: d for p, d in moves.items() if isinstance(p, dtensor_type()) is sharded}
        if some:
            _sgd(group, state, some)


def fill_state(groups, state):
    """State of DTensors as if they had been stepped before, which a checkpoint is loaded into."""
    for group in groups:
        for p in group["params"]:
            if not isinstance(p, dtensor_type()) or state.get(p):
                continue
            if group.get("others") == "adamw":
                state[p] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(p),
                            "exp_avg_sq": torch.zeros_like(p)}  # fmt: skip
            elif group["momentum"]:
                state[p]["momentum_buffer"] = torch.zeros_like(p, dtype=wide_of(p))


def _sgd(group, state, moves):
    params, directions = list(moves), list(moves.values())
    if group["weight_decay"]:
        directions = torch._foreach_add(directions, params, alpha=group["weight_decay"])
    if group["momentum"]:
        for p in params:
            if "momentum_buffer" not in state[p]:
                state[p]["momentum_buffer"] = torch.zeros_like(p, dtype=wide_of(p))
        buffers = [state[p]["momentum_buffer"] for p in params]
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, directions)
        directions = buffers
    torch._foreach_add_(params, directions, alpha=-group["lr"])


def check_dense(groups):
    for p in (p for group in groups for p in group["params"]):
        if p.grad is not None and p.grad.layout != torch.strided:
            raise TypeError(
                f"gram.KFAC: the gradient of a parameter {tuple(p.shape)} is sparse; make it dense "
                "(sparse=False), or leave the parameter to another optimizer"
            )


def check_gradients(params):
    """Raises where a gradient is not finite; nothing has moved.  On a GPU nothing waits: what is
    returned is a tensor there, whether all are finite."""
    if params and all(p.is_cuda for p in params):
        return torch.stack([p.grad.isfinite().all() for p in params]).all()
    for p in params:
        if not p.grad.isfinite().all():
            raise _core.LinAlgError(
                f"gram.KFAC: the gradient of a parameter {tuple(p.shape)} is not finite"
            )
    return None


def kept(params, good):
    """The gradients, or zeros where one on a GPU is not finite."""
    if good is None:
        return {p: p.grad for p in params}
    return {p: torch.where(good, p.grad, torch.zeros_like(p.grad)) for p in params}
