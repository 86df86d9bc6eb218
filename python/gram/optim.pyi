from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import torch

from gram import Array

# An array, or lists, tuples and dicts of arrays.
Tree: TypeAlias = Any
Group: TypeAlias = Any  # a torch.distributed.ProcessGroup
Root: TypeAlias = Literal["auto", "eigh", "coupled-newton", "newton-schulz", "minimax"]
Graft: TypeAlias = Literal["sgd", "adagrad", "rmsprop", "adam"]
Trouble: TypeAlias = Literal["skip", "raise"]
Product: TypeAlias = Literal["auto", "f32", "tf32"]
Precision: TypeAlias = Literal["auto", "f64", "f32", "tf32x3", "tf32"]
Parameters: TypeAlias = Iterable[torch.Tensor] | Iterable[dict[str, Any]]

class State(NamedTuple):
    tensors: dict[str, Array]

class Transform:
    def init(self, params: Tree) -> State: ...
    def update(self, grads: Tree, state: State, params: Tree) -> tuple[Tree, State]: ...

def transform(
    method: Literal["shampoo", "soap", "muon"],
    *,
    lr: float | Callable[[int], float] | None = ...,
    **options: Any,
) -> Transform: ...
def matrix_inverse_root(
    a: Array,
    power: float = -0.25,
    eps: float = 1e-8,
    *,
    method: Root = "eigh",
    floor: float = 0.0,
    out: Array | None = None,
) -> Array: ...

class _Optimizer(torch.optim.Optimizer):
    reports: list[dict[str, int]]
    def consolidated_state_dict(self) -> dict[str, Any]: ...

class Shampoo(_Optimizer):
    def __init__(
        self,
        params: Parameters,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 1.0),
        eps: float = 1e-12,
        weight_decay: float = 0.0,
        *,
        beta3: float | None = None,
        relative_eps: bool = False,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        decoupled: bool = True,
        bias_correction: bool = True,
        graft: Graft | None = "adam",
        graft_beta2: float = 0.999,
        graft_eps: float = 1e-8,
        block: int = 1024,
        merge: bool = True,
        start: int | None = None,
        refresh: int = 10,
        statistics: int = 1,
        stagger: bool = False,
        exponent: float | None = None,
        root: Root = "auto",
        skip: float = 0.0,
        failures: int = 3,
        state_dtype: str | torch.dtype | None = None,
        packed: bool = True,
        not_finite: Trouble = "skip",
        precision: Product = "auto",
        root_precision: Precision = "auto",
        process_group: Group | None = None,
    ) -> None: ...

class SOAP(_Optimizer):
    def __init__(
        self,
        params: Parameters,
        lr: float = 0.003,
        betas: tuple[float, float] = (0.95, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        shampoo_beta: float | None = None,
        refresh: int = 10,
        block: int = 10000,
        merge: bool = False,
        one_dimensional: bool = False,
        normalize: bool = False,
        decoupled: bool = True,
        bias_correction: bool = True,
        state_dtype: str | torch.dtype | None = None,
        packed: bool = True,
        not_finite: Trouble = "skip",
        precision: Product = "auto",
        process_group: Group | None = None,
    ) -> None: ...

class Muon(_Optimizer):
    def __init__(
        self,
        params: Parameters,
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        *,
        nesterov: bool = True,
        steps: int = 5,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        decoupled: bool = True,
        bias_correction: bool = True,
        state_dtype: str | torch.dtype | None = None,
        not_finite: Trouble = "skip",
        precision: Product = "auto",
        process_group: Group | None = None,
    ) -> None: ...

class KFAC(torch.optim.Optimizer):
    def __init__(
        self,
        model: torch.nn.Module,
        lr: float = 0.1,
        *,
        momentum: float = 0.9,
        damping: float = 1e-3,
        exact: bool = False,
        decay: float = 0.95,
        kl_clip: float = 1e-3,
        weight_decay: float = 0.0,
        update_every: int = 1,
        refresh_every: int = 10,
        fisher: Literal["empirical", "mc", "type2"] = "empirical",
        likelihood: Literal["categorical", "gaussian"] = "categorical",
        setting: Literal["expand", "reduce"] = "expand",
        reduction: Literal["mean", "sum"] = "mean",
        terms: int | None = None,
        generator: torch.Generator | None = None,
        others: Literal["sgd", "adamw"] = "sgd",
        others_lr: float | None = None,
        others_betas: tuple[float, float] = (0.9, 0.999),
        others_eps: float = 1e-8,
        others_weight_decay: float | None = None,
        skip_layers: Iterable[torch.nn.Module] = (),
        grad_scaler: torch.amp.GradScaler | None = None,
        state_dtype: str | torch.dtype | None = None,
        process_group: Group | None = None,
    ) -> None: ...
    def curvature(self, outputs: torch.Tensor) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class EKFAC(KFAC): ...
