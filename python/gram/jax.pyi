from collections.abc import Sequence
from typing import Any, Literal, overload

import jax
from jax.typing import ArrayLike

from gram import Kernel, Output, PowerMethod, Side

def cdist(
    x: ArrayLike,
    y: ArrayLike | None = None,
    p: float = 2.0,
    root: bool = True,
) -> jax.Array: ...
def kernel(
    x: ArrayLike,
    y: ArrayLike | None = None,
    kernel: Kernel = "laplace",
    *,
    bandwidth: ArrayLike = 1.0,
    regularization: ArrayLike = 0.0,
    lengths: ArrayLike | None = None,
    output: Output = "value",
    **options: Any,
) -> jax.Array: ...
def kernel_matmul(
    x: ArrayLike,
    y: ArrayLike | None = None,
    kernel: Kernel = "laplace",
    *,
    v: ArrayLike,
    bandwidth: ArrayLike = 1.0,
    regularization: ArrayLike = 0.0,
    lengths: ArrayLike | None = None,
    **options: Any,
) -> jax.Array: ...
def kernel_reduce(
    x: ArrayLike,
    y: ArrayLike | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["min", "max", "argmin", "argmax", "logsumexp", "softmax"],
    v: ArrayLike | None = None,
    scale: float = 1.0,
    log_weights: ArrayLike | None = None,
    bandwidth: ArrayLike = 1.0,
    regularization: ArrayLike = 0.0,
    lengths: ArrayLike | None = None,
    **options: Any,
) -> jax.Array: ...
def median_distance(
    x: ArrayLike,
    p: float = 2.0,
    *,
    root: bool = True,
    rows: int = 2000,
    seed: int = 0,
) -> jax.Array: ...
def cdist_grad(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    d: ArrayLike,
    p: float = 2.0,
) -> jax.Array: ...
def agop(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    d: ArrayLike,
    p: float = 2.0,
    *,
    diagonal: bool = False,
    points: int = 0,
) -> jax.Array: ...
def solve_cholesky(a: ArrayLike, b: ArrayLike, *, lower: bool = True) -> jax.Array: ...
def solve_lu(a: ArrayLike, b: ArrayLike) -> jax.Array: ...
@overload
def eigh(
    a: ArrayLike,
    *,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> tuple[jax.Array, jax.Array]: ...
@overload
def eigh(
    a: ArrayLike,
    *,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> jax.Array: ...
@overload
def eigh(
    a: ArrayLike,
    *,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def matrix_power(
    a: ArrayLike,
    numerator: int = -1,
    denominator: int = 4,
    *,
    method: PowerMethod = "auto",
    lower: bool = True,
    ridge: float = 0.0,
    power: float | None = None,
    floor: float = 0.0,
) -> jax.Array: ...
def kron_matmul(
    x: ArrayLike,
    factors: Sequence[ArrayLike],
    *,
    side: Side = "right",
    alpha: float = 1.0,
) -> jax.Array: ...
