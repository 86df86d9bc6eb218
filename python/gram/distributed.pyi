import concurrent.futures
from collections.abc import Callable
from os import PathLike
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gram import Kernel, Metric

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Rows: an array, or the path of a .npy file, which every worker maps.
Rows: TypeAlias = ArrayLike | str | PathLike[str]
# An executor, or a function that makes one.
Workers: TypeAlias = concurrent.futures.Executor | Callable[[], concurrent.futures.Executor]

class _KernelOptions(TypedDict, total=False):
    bandwidth: float
    p: float
    exponent: float
    alpha: float
    gamma: float
    coef0: float
    degree: float
    outer_power: float | None
    expression: str | None
    of: str
    parameters: dict[str, float] | None
    lengths: ArrayLike | None
    metric: Metric | None
    weights: ArrayLike | None

def kernel_matmul(
    executor: Workers,
    x: Rows,
    y: Rows | None = None,
    kernel: Kernel | None = None,
    *,
    v: ArrayLike,
    tasks: int | None = None,
    threads: int | None = None,
    retries: int = 3,
    **options: Unpack[_KernelOptions],
) -> NDArray[Any]: ...
def krr_solve(
    executor: Workers,
    x: Rows,
    y: ArrayLike,
    kernel: Kernel | None = None,
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: ArrayLike | None = None,
    report: dict[str, Any] | None = None,
    out: NDArray[np.floating[Any]] | None = None,
    tasks: int | None = None,
    threads: int | None = None,
    retries: int = 3,
    **options: Unpack[_KernelOptions],
) -> NDArray[Any]: ...

class RayExecutor(concurrent.futures.Executor):
    def __init__(self, **options: Any) -> None: ...
    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> concurrent.futures.Future[_T]: ...
