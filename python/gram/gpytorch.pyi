from collections.abc import Callable, Sequence
from typing import Any

import gpytorch
import torch
from linear_operator.settings import _value_context
from linear_operator.operators import KernelLinearOperator, KroneckerProductLinearOperator

class max_stored_bytes(_value_context): ...

class KernelOperator(KernelLinearOperator):
    def __init__(
        self,
        x1: torch.Tensor,
        x2: torch.Tensor,
        covar_func: Callable[..., Any] = ...,
        lengths: torch.Tensor | None = None,
        **options: Any,
    ) -> None: ...
    def zero_mean_mvn_samples(self, num_samples: int) -> torch.Tensor: ...
    def to_dense(self) -> torch.Tensor: ...

class _Kernel(gpytorch.kernels.Kernel):
    has_lengthscale: bool
    def form(self) -> dict[str, Any]: ...
    def forward(
        self,
        x1: torch.Tensor,
        x2: torch.Tensor,
        diag: bool = False,
        **params: Any,
    ) -> Any: ...

class RBFKernel(_Kernel):
    def form(self) -> dict[str, Any]: ...

class MaternKernel(_Kernel):
    def __init__(self, nu: float = 2.5, **options: Any) -> None: ...
    def form(self) -> dict[str, Any]: ...

class LaplaceKernel(_Kernel):
    def __init__(self, p: float = 1.0, exponent: float = 1.0, **options: Any) -> None: ...
    def form(self) -> dict[str, Any]: ...

class MarginalLogLikelihood(gpytorch.mlls.ExactMarginalLogLikelihood):
    options: dict[str, Any]
    def __init__(self, likelihood: Any, model: Any, **options: Any) -> None: ...
    def forward(
        self, function_dist: Any, target: torch.Tensor, *params: Any, **kwargs: Any
    ) -> torch.Tensor: ...

class KroneckerOperator(KroneckerProductLinearOperator): ...

class GridKernel(gpytorch.kernels.Kernel):
    is_stationary: bool
    def __init__(
        self,
        kernels: Sequence[gpytorch.kernels.Kernel],
        axes: Sequence[torch.Tensor],
    ) -> None: ...
    def axes(self) -> list[torch.Tensor]: ...
    def points(self) -> torch.Tensor: ...
    def forward(
        self,
        x1: torch.Tensor,
        x2: torch.Tensor,
        diag: bool = False,
        **params: Any,
    ) -> Any: ...
