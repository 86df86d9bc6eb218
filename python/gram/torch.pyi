from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import torch

from gram import Kernel, Metric, Output, PowerMethod, Side

Number = float | torch.Tensor

def cdist(
    x: torch.Tensor,
    y: torch.Tensor | None = None,
    p: Number = 2.0,
    root: bool = True,
) -> torch.Tensor: ...
def kernel(
    x: torch.Tensor,
    y: torch.Tensor | None = None,
    kernel: Kernel = "laplace",
    *,
    output: Output = "value",
    lengths: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor: ...
def kernel_matmul(
    x: torch.Tensor,
    y: torch.Tensor | None = None,
    kernel: Kernel = "laplace",
    *,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor: ...
def kernel_reduce(
    x: torch.Tensor,
    y: torch.Tensor | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["min", "max", "argmin", "argmax", "logsumexp", "softmax"],
    v: torch.Tensor | None = None,
    scale: float = 1.0,
    log_weights: torch.Tensor | None = None,
    lengths: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor: ...
def kernel_logdet(
    x: torch.Tensor,
    kernel: Kernel = "laplace",
    *,
    method: Literal["auto", "cholesky", "cg"] = "auto",
    probes: int = 32,
    steps: int = 100,
    tolerance: float | None = None,
    rank: int | None = None,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    lengths: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor: ...
def log_marginal_likelihood(
    x: torch.Tensor,
    y: torch.Tensor,
    kernel: Kernel = "laplace",
    *,
    noise: Number,
    amplitude: Number = 1.0,
    method: Literal["auto", "cholesky", "cg"] = "auto",
    probes: int = 32,
    steps: int = 100,
    tolerance: float = 0.01,
    rank: int | None = None,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    lengths: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor: ...
def median_distance(
    x: torch.Tensor,
    p: float = 2.0,
    *,
    root: bool = True,
    rows: int = 2000,
    seed: int = 0,
) -> torch.Tensor: ...
def nearest(
    x: torch.Tensor,
    y: torch.Tensor | None = None,
    *,
    count: int,
    p: float = 2.0,
    exclude_self: bool = False,
    radius: float | None = None,
    metric: Metric | None = None,
    weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def cdist_grad(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    p: Number = 2.0,
) -> torch.Tensor: ...
def agop(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
    p: Number = 2.0,
    *,
    diagonal: bool = False,
    points: int = 0,
) -> torch.Tensor: ...
def solve_cholesky(a: torch.Tensor, b: torch.Tensor, *, lower: bool = True) -> torch.Tensor: ...
def solve_lu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor: ...
@overload
def eigh(
    a: torch.Tensor,
    *,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def eigh(
    a: torch.Tensor,
    *,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> torch.Tensor: ...
@overload
def eigh(
    a: torch.Tensor,
    *,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...
def matrix_power(
    a: torch.Tensor,
    numerator: int = -1,
    denominator: int = 4,
    *,
    method: PowerMethod = "auto",
    lower: bool = True,
    ridge: Number = 0.0,
    power: float | None = None,
    floor: float = 0.0,
) -> torch.Tensor: ...
def kron_matmul(
    x: torch.Tensor,
    factors: Sequence[torch.Tensor],
    *,
    side: Side = "right",
    alpha: Number = 1.0,
) -> torch.Tensor: ...
def kron(factors: Sequence[torch.Tensor]) -> torch.Tensor: ...
def matmul_batched(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    alpha: Number = 1.0,
    beta: Number = 0.0,
    c: torch.Tensor | None = None,
) -> torch.Tensor: ...
def syrk_ema(
    x: torch.Tensor,
    l: torch.Tensor,  # noqa: E741
    *,
    beta: Number = 0.0,
    alpha: Number = 1.0,
    transpose: bool = False,
    sum: bool = False,
) -> torch.Tensor: ...
def per_sample_gradients(
    model: torch.nn.Module,
    loss: Callable[[Any, Any], torch.Tensor],
    inputs: torch.Tensor | tuple[torch.Tensor, ...],
    targets: Any,
    *,
    method: Literal["auto", "layers", "func"] = "auto",
    chunk: int | None = None,
) -> dict[str, torch.Tensor]: ...
def per_sample_norms(
    model: torch.nn.Module,
    loss: Callable[[Any, Any], torch.Tensor],
    inputs: torch.Tensor | tuple[torch.Tensor, ...],
    targets: Any,
    *,
    method: Literal["auto", "layers", "func"] = "auto",
    chunk: int | None = None,
) -> torch.Tensor: ...
