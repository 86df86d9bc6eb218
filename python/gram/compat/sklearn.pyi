from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import NDArray

def pairwise_distances(
    X: Any,
    Y: Any = None,
    metric: str | Callable[..., float] = "euclidean",
    *,
    n_jobs: int | None = None,
    ensure_all_finite: bool | Literal["allow-nan"] = True,
    keep_float32: bool = False,
    **kwds: Any,
) -> NDArray[Any]: ...
def pairwise_kernels(
    X: Any,
    Y: Any = None,
    metric: str | Callable[..., float] = "linear",
    *,
    filter_params: bool = False,
    n_jobs: int | None = None,
    **kwds: Any,
) -> NDArray[Any]: ...
