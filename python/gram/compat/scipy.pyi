from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from gram import Array

def cdist(
    XA: Any,
    XB: Any,
    metric: str | Callable[..., float] = "euclidean",
    *,
    out: Array | None = None,
    keep_float32: bool = False,
    **kwargs: Any,
) -> NDArray[Any]: ...
def pdist(
    X: Any,
    metric: str | Callable[..., float] = "euclidean",
    *,
    out: Array | None = None,
    keep_float32: bool = False,
    **kwargs: Any,
) -> NDArray[Any]: ...
