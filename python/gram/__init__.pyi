from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gram import cache as cache
from gram import machine as machine
from gram import optim as optim
from gram import sklearn as sklearn
from gram.machine import Machine as Machine

# An array of NumPy, PyTorch, JAX, CuPy, or of anything with the buffer protocol or DLPack; what
# comes back is of the library of the first one.
Array: TypeAlias = Any

class _Frame(Protocol):
    def to_numpy(self, *args: Any, **kwargs: Any) -> Any: ...

class _Shaped(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

# Of these the result is an array of NumPy: such an array, lists, buffers, data frames.
_NumPyLike: TypeAlias = np.ndarray[Any, Any] | Sequence[Any] | _Frame
# Of these it is an array of their own library: PyTorch, JAX, CuPy and others that know DLPack.
_ArrayT = TypeVar("_ArrayT", bound=_Shaped)

# A number, or an array whose values broadcast over the batch.
Number: TypeAlias = float | Array
Kernel: TypeAlias = Literal[
    "laplace",
    "lpq-laplace",
    "product-laplace",
    "gaussian",
    "matern32",
    "matern52",
    "rational-quadratic",
    "linear",
    "polynomial",
    "sigmoid",
    "cosine",
    "distance",
]
Metric: TypeAlias = Literal[
    "minkowski",
    "seuclidean",
    "cosine",
    "correlation",
    "canberra",
    "braycurtis",
    "hamming",
    "jaccard",
    "jensenshannon",
    "kullback-leibler",
    "hellinger",
    "chi2",
    "haversine",
    "nan-euclidean",
]
Driver: TypeAlias = Literal[
    "auto", "closed-form", "jacobi", "divide", "bisection", "krylov", "batched"
]
Precision: TypeAlias = Literal["auto", "f64", "f32", "tf32x3", "tf32"]
Side: TypeAlias = Literal["right", "left"]
Output: TypeAlias = Literal[
    "value",
    "weight",
    "bandwidth-derivative",
    "parameter-derivative",
    "norm-x-weight",
    "norm-y-weight",
    "d1-weight",
    "d2-weight",
]
PowerMethod: TypeAlias = Literal["auto", "eigh", "coupled-newton", "newton-schulz", "minimax"]
Layer: TypeAlias = Literal["linear", "convolution", "embedding", "layer_norm", "group_norm"]
Wrt: TypeAlias = Literal["x", "y", "bandwidth", "regularization", "lengths"]
WrtProduct: TypeAlias = Literal["x", "y", "bandwidth", "regularization", "lengths", "v"]
WrtReduction: TypeAlias = Literal[
    "x", "y", "bandwidth", "regularization", "lengths", "v", "log_weights"
]

__version__: str

class LinAlgError(ValueError): ...

class Tuning(TypedDict):
    candidates: int
    tile: int
    table_tile: int
    tile_ms: float
    table_ms: float
    kept: bool

class EighTuning(TypedDict):
    candidates: int
    driver: str
    table_driver: str
    seconds: dict[str, float]
    kept: bool

class KronTuning(TypedDict):
    candidates: int
    launches: int
    table_launches: int
    ms: float
    table_ms: float
    kept: bool

class MemoryInfo(TypedDict):
    total: int
    free: int
    used: int | None
    other: int

class Info(TypedDict):
    version: str
    cpu_isa: str
    cpu_isas: str
    blas: str
    threads: int
    cuda_devices: int

class Module:
    def __new__(
        cls,
        source: str,
        name: str | None = None,
        options: str | None = None,
        device: Any = "cuda",
        stream: int | None = None,
    ) -> Module: ...
    def launch(
        self,
        kernel: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any] = (),
        shared_bytes: int = 0,
    ) -> None: ...
    def synchronize(self) -> None: ...

class Communicator:
    rank: int
    size: int
    def __new__(
        cls,
        mpi: Any = None,
        *,
        nccl: bytes | None = None,
        rank: int = -1,
        size: int = -1,
        device: Any = "cuda",
        stream: int | None = None,
        timeout: float = 0.0,
    ) -> Communicator: ...
    @classmethod
    def from_torch(
        cls,
        group: Any = None,
        *,
        device: Any = None,
        stream: int | None = None,
        timeout: float = 0.0,
    ) -> Communicator: ...
    @classmethod
    def from_mpi4py(
        cls,
        comm: Any,
        *,
        device: Any = None,
        stream: int | None = None,
        timeout: float = 0.0,
    ) -> Communicator: ...
    @classmethod
    def from_dask(
        cls,
        client: Any,
        workers: Sequence[str] | None = None,
        *,
        device: Any = "cuda",
        timeout: float = 0.0,
    ) -> list[Any]: ...
    @classmethod
    def from_ray(
        cls,
        actors: Sequence[Any],
        *,
        attribute: str = "communicator",
        device: Any = "cuda",
        timeout: float = 0.0,
    ) -> None: ...
    def agree(self, ok: bool = True) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Communicator: ...
    def __exit__(self, *exception: object) -> None: ...

class KronPart(NamedTuple):
    split: Literal["rows", "columns"]
    rows: slice
    columns: slice
    outs: slice

class Pending:
    def result(self) -> Any: ...

def devices() -> list[str]: ...
def best_device() -> str: ...
def memory_info(device: Any = "cpu") -> MemoryInfo: ...
def info() -> Info: ...
def get_threads() -> int: ...
def set_threads(count: int, /) -> None: ...
@overload
def cdist(
    x: _NumPyLike,
    y: Array | None = None,
    p: Number = 2.0,
    root: bool = True,
    out: Array | None = None,
    *,
    metric: Metric | None = None,
    weights: Array | None = None,
    condensed: bool = False,
    bits: int | None = None,
) -> NDArray[Any]: ...
@overload
def cdist(
    x: _ArrayT,
    y: Array | None = None,
    p: Number = 2.0,
    root: bool = True,
    out: Array | None = None,
    *,
    metric: Metric | None = None,
    weights: Array | None = None,
    condensed: bool = False,
    bits: int | None = None,
) -> _ArrayT: ...
@overload
def median_distance(
    x: _NumPyLike,
    p: Number = 2.0,
    *,
    root: bool = True,
    rows: int = 2000,
    seed: int = 0,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def median_distance(
    x: _ArrayT,
    p: Number = 2.0,
    *,
    root: bool = True,
    rows: int = 2000,
    seed: int = 0,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def nearest(
    x: _NumPyLike,
    y: Array | None = None,
    *,
    count: int,
    p: Number = 2.0,
    exclude_self: bool = False,
    radius: float | None = None,
    counts: Array | None = None,
    out: tuple[Array, Array] | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
    bits: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def nearest(
    x: _ArrayT,
    y: Array | None = None,
    *,
    count: int,
    p: Number = 2.0,
    exclude_self: bool = False,
    radius: float | None = None,
    counts: Array | None = None,
    out: tuple[Array, Array] | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
    bits: int | None = None,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def kernel(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def kernel_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    grad: Array,
    wrt: tuple[Wrt, ...] | list[Wrt],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[NDArray[Any], ...]: ...
@overload
def kernel_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    grad: Array,
    wrt: tuple[Wrt, ...] | list[Wrt],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[_ArrayT, ...]: ...
@overload
def kernel_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    grad: Array,
    wrt: Wrt = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    grad: Array,
    wrt: Wrt = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def kernel_matmul_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    grad: Array,
    wrt: tuple[WrtProduct, ...] | list[WrtProduct],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[NDArray[Any], ...]: ...
@overload
def kernel_matmul_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    grad: Array,
    wrt: tuple[WrtProduct, ...] | list[WrtProduct],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[_ArrayT, ...]: ...
@overload
def kernel_matmul_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    grad: Array,
    wrt: WrtProduct = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel_matmul_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    grad: Array,
    wrt: WrtProduct = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def kernel_reduce_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["logsumexp", "softmax"],
    grad: Array,
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    wrt: tuple[WrtReduction, ...] | list[WrtReduction],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[NDArray[Any], ...]: ...
@overload
def kernel_reduce_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["logsumexp", "softmax"],
    grad: Array,
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    wrt: tuple[WrtReduction, ...] | list[WrtReduction],
    out: tuple[Array, ...] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[_ArrayT, ...]: ...
@overload
def kernel_reduce_vjp(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["logsumexp", "softmax"],
    grad: Array,
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    wrt: WrtReduction = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel_reduce_vjp(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["logsumexp", "softmax"],
    grad: Array,
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    wrt: WrtReduction = "x",
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def cdist_grad(
    a: _NumPyLike, b: Array, c: Array, d: Array, p: Number = 2.0, *, out: Array | None = None
) -> NDArray[Any]: ...
@overload
def cdist_grad(
    a: _ArrayT, b: Array, c: Array, d: Array, p: Number = 2.0, *, out: Array | None = None
) -> _ArrayT: ...
@overload
def agop(
    a: _NumPyLike,
    b: Array,
    c: Array,
    d: Array,
    p: Number = 2.0,
    *,
    diagonal: bool = False,
    accumulate: bool = False,
    points: int = 0,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def agop(
    a: _ArrayT,
    b: Array,
    c: Array,
    d: Array,
    p: Number = 2.0,
    *,
    diagonal: bool = False,
    accumulate: bool = False,
    points: int = 0,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def solve_cholesky(
    a: _NumPyLike,
    b: Array,
    *,
    lower: bool = True,
    factored: bool = False,
    factor: Array | None = None,
    jitter: Sequence[float] | None = None,
    jittered: Array | None = None,
    rcond: Array | None = None,
    refine: bool = False,
    backward: Array | None = None,
    refinings: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def solve_cholesky(
    a: _ArrayT,
    b: Array,
    *,
    lower: bool = True,
    factored: bool = False,
    factor: Array | None = None,
    jitter: Sequence[float] | None = None,
    jittered: Array | None = None,
    rcond: Array | None = None,
    refine: bool = False,
    backward: Array | None = None,
    refinings: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def solve_lu(
    a: _NumPyLike,
    b: Array,
    *,
    factored: bool = False,
    factor: Array | None = None,
    pivots: Array | None = None,
    rcond: Array | None = None,
    refine: bool = False,
    backward: Array | None = None,
    refinings: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def solve_lu(
    a: _ArrayT,
    b: Array,
    *,
    factored: bool = False,
    factor: Array | None = None,
    pivots: Array | None = None,
    rcond: Array | None = None,
    refine: bool = False,
    backward: Array | None = None,
    refinings: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
def tune(
    x: Array,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
    out: Array | None = None,
) -> Tuning: ...
@overload
def eigh(
    a: _NumPyLike,
    *,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: Literal[False] = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def eigh(
    a: _ArrayT,
    *,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: Literal[False] = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def eigh(
    a: _NumPyLike,
    *,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: Literal[False] = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> NDArray[Any]: ...
@overload
def eigh(
    a: _ArrayT,
    *,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: Literal[False] = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> _ArrayT: ...
@overload
def eigh(
    a: Array,
    *,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: Literal[True],
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> Pending: ...
@overload
def eigh(
    a: Array,
    *,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: bool = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> Array | tuple[Array, Array] | Pending: ...
def eigh_many(
    a: Iterable[Array],
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    driver: Driver = "auto",
    info: Iterable[Array | None] | None = None,
    report: list[Any] | None = None,
) -> list[Any]: ...
@overload
def eigh_multi(
    a: _NumPyLike,
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    info: Array | None = None,
    force: bool = False,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def eigh_multi(
    a: _ArrayT,
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: Literal[True] = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    info: Array | None = None,
    force: bool = False,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def eigh_multi(
    a: _NumPyLike,
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    info: Array | None = None,
    force: bool = False,
) -> NDArray[Any]: ...
@overload
def eigh_multi(
    a: _ArrayT,
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: Literal[False],
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    info: Array | None = None,
    force: bool = False,
) -> _ArrayT: ...
@overload
def eigh_multi(
    a: Array,
    *,
    devices: str | Iterable[str] | None = None,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    info: Array | None = None,
    force: bool = False,
) -> Array | tuple[Array, Array]: ...
def tune_eigh(
    a: Array,
    *,
    lower: bool = True,
    vectors: bool = True,
    select: Literal["all", "index", "value", "largest", "smallest"] = "all",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    background: bool = False,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> EighTuning: ...
@overload
def kernel_matmul(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    accumulate: bool = False,
    communicator: Communicator | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel_matmul(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    v: Array,
    accumulate: bool = False,
    communicator: Communicator | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def kernel_reduce(
    x: _NumPyLike,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["min", "max", "argmin", "argmax", "logsumexp", "softmax"],
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kernel_reduce(
    x: _ArrayT,
    y: Array | None = None,
    kernel: Kernel = "laplace",
    *,
    what: Literal["min", "max", "argmin", "argmax", "logsumexp", "softmax"],
    v: Array | None = None,
    scale: float = 1.0,
    log_weights: Array | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def matmul_batched(
    a: _NumPyLike,
    b: Array,
    *,
    alpha: Number = 1.0,
    beta: Number = 0.0,
    c: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def matmul_batched(
    a: _ArrayT,
    b: Array,
    *,
    alpha: Number = 1.0,
    beta: Number = 0.0,
    c: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def matmul_chunked(
    a: _NumPyLike,
    b: Array,
    *,
    alpha: Number = 1.0,
    beta: Number = 0.0,
    c: Array | None = None,
    out: Array | None = None,
    memory: int = 0,
    device: Any = None,
) -> NDArray[Any]: ...
@overload
def matmul_chunked(
    a: _ArrayT,
    b: Array,
    *,
    alpha: Number = 1.0,
    beta: Number = 0.0,
    c: Array | None = None,
    out: Array | None = None,
    memory: int = 0,
    device: Any = None,
) -> _ArrayT: ...
@overload
def syrk_ema(
    x: _NumPyLike,
    l: Array,
    *,
    beta: Number = 0.0,
    alpha: Number = 1.0,
    transpose: bool = False,
    packed: bool = False,
    sum: bool = False,
    keep: bool = False,
    info: Array | None = None,
) -> NDArray[Any]: ...
@overload
def syrk_ema(
    x: _ArrayT,
    l: Array,
    *,
    beta: Number = 0.0,
    alpha: Number = 1.0,
    transpose: bool = False,
    packed: bool = False,
    sum: bool = False,
    keep: bool = False,
    info: Array | None = None,
) -> _ArrayT: ...
@overload
def kfac_factors(
    activations: _NumPyLike | None,
    gradients: _NumPyLike | None,
    kind: Layer = "linear",
    *,
    bias: bool = True,
    kernel_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    rows: int = 0,
    padding_row: int = -1,
    normalized: int = 1,
    epsilon: float = 1e-5,
    setting: Literal["expand", "reduce"] = "expand",
    scale: float = 1.0,
    keep: float = 0.0,
    out: tuple[Array, Array] | None = None,
) -> tuple[NDArray[Any], ...]: ...
@overload
def kfac_factors(
    activations: _ArrayT | None,
    gradients: _ArrayT | None,
    kind: Layer = "linear",
    *,
    bias: bool = True,
    kernel_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    rows: int = 0,
    padding_row: int = -1,
    normalized: int = 1,
    epsilon: float = 1e-5,
    setting: Literal["expand", "reduce"] = "expand",
    scale: float = 1.0,
    keep: float = 0.0,
    out: tuple[Array, Array] | None = None,
) -> tuple[_ArrayT, ...]: ...
@overload
def natural_gradient(
    gradients: _NumPyLike,
    v: Array,
    damping: Number,
    *,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def natural_gradient(
    gradients: _ArrayT,
    v: Array,
    damping: Number,
    *,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def kron(
    factors: Sequence[_NumPyLike], *, out: Array | None = None
) -> NDArray[Any]: ...
@overload
def kron(
    factors: Sequence[_ArrayT], *, out: Array | None = None
) -> _ArrayT: ...
@overload
def kron_matmul(
    x: _NumPyLike,
    factors: Sequence[Array],
    *,
    side: Side = "right",
    alpha: Number = 1.0,
    beta: Number = 0.0,
    z: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kron_matmul(
    x: _ArrayT,
    factors: Sequence[Array],
    *,
    side: Side = "right",
    alpha: Number = 1.0,
    beta: Number = 0.0,
    z: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
def tune_kron(
    x: Array,
    factors: Sequence[Array],
    *,
    side: Side = "right",
    alpha: Number = 1.0,
    beta: Number = 0.0,
    z: Array | None = None,
    out: Array | None = None,
) -> KronTuning: ...
@overload
def kron_matmul_multi(
    x: _NumPyLike,
    factors: Sequence[Array],
    communicator: Communicator,
    *,
    side: Side = "right",
    split: Literal["rows", "columns"] = "rows",
    alpha: Number = 1.0,
    beta: Number = 0.0,
    z: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kron_matmul_multi(
    x: _ArrayT,
    factors: Sequence[Array],
    communicator: Communicator,
    *,
    side: Side = "right",
    split: Literal["rows", "columns"] = "rows",
    alpha: Number = 1.0,
    beta: Number = 0.0,
    z: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
def kron_matmul_part(
    rows: int,
    factors: Sequence[Array],
    communicator: Communicator,
    *,
    side: Side = "right",
    split: Literal["rows", "columns", "auto"] = "auto",
) -> KronPart: ...
def nccl_id(device: Any = "cuda") -> bytes: ...
@overload
def matrix_power(
    a: _NumPyLike,
    numerator: int = -1,
    denominator: int = 4,
    *,
    method: PowerMethod = "auto",
    lower: bool = True,
    ridge: Number = 0.0,
    ridge_relative: bool = False,
    condition: float = 0.0,
    iterations: int = 0,
    error: Array | None = None,
    tolerance: float = 0.0,
    keep: bool = False,
    precision: Precision = "auto",
    power: float | None = None,
    floor: float = 0.0,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def matrix_power(
    a: _ArrayT,
    numerator: int = -1,
    denominator: int = 4,
    *,
    method: PowerMethod = "auto",
    lower: bool = True,
    ridge: Number = 0.0,
    ridge_relative: bool = False,
    condition: float = 0.0,
    iterations: int = 0,
    error: Array | None = None,
    tolerance: float = 0.0,
    keep: bool = False,
    precision: Precision = "auto",
    power: float | None = None,
    floor: float = 0.0,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def krr_path(
    k: _NumPyLike,
    y: Array,
    ridges: Iterable[float],
    *,
    weights: Array | None = None,
    intercept: Literal["none", "mean", "fitted"] = "none",
    method: Literal["auto", "eigh", "cholesky"] = "auto",
    lower: bool = True,
    error: Array | None = None,
    spread: Array | None = None,
    alpha: Array | None = None,
    offset: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def krr_path(
    k: _ArrayT,
    y: Array,
    ridges: Iterable[float],
    *,
    weights: Array | None = None,
    intercept: Literal["none", "mean", "fitted"] = "none",
    method: Literal["auto", "eigh", "cholesky"] = "auto",
    lower: bool = True,
    error: Array | None = None,
    spread: Array | None = None,
    alpha: Array | None = None,
    offset: Array | None = None,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def krr_variance(
    x: _NumPyLike,
    z: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    method: Literal["auto", "cholesky", "cg"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    row_weights: Array | None = None,
    bound: Array | None = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def krr_variance(
    x: _ArrayT,
    z: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    method: Literal["auto", "cholesky", "cg"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    row_weights: Array | None = None,
    bound: Array | None = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def krr_solve(
    x: None,
    y: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    method: Literal["auto", "cholesky", "cg", "centres"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: Array | None = None,
    centres: int | Array,
    rows: Any,
    memory: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float | None = None,
    checkpoint_iterations: int | None = None,
    device: Any = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> Any: ...
@overload
def krr_solve(
    x: _NumPyLike,
    y: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    method: Literal["auto", "cholesky", "cg", "centres"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: Array | None = None,
    centres: int,
    rows: Any = None,
    memory: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float | None = None,
    checkpoint_iterations: int | None = None,
    device: Any = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def krr_solve(
    x: _NumPyLike,
    y: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    method: Literal["auto", "cholesky", "cg", "centres"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: Array | None = None,
    centres: Array | None = None,
    rows: Any = None,
    memory: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float | None = None,
    checkpoint_iterations: int | None = None,
    device: Any = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def krr_solve(
    x: _ArrayT,
    y: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    method: Literal["auto", "cholesky", "cg", "centres"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: Array | None = None,
    centres: int,
    rows: Any = None,
    memory: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float | None = None,
    checkpoint_iterations: int | None = None,
    device: Any = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def krr_solve(
    x: _ArrayT,
    y: Array,
    kernel: Kernel = "laplace",
    *,
    ridge: float,
    tolerance: float | None = None,
    held_out_rmse: float | None = None,
    method: Literal["auto", "cholesky", "cg", "centres"] = "auto",
    rank: int | None = None,
    products: int | None = None,
    time_limit: float | None = None,
    refine: bool = False,
    warm_start: bool = False,
    seed: int = 0,
    row_weights: Array | None = None,
    centres: Array | None = None,
    rows: Any = None,
    memory: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_seconds: float | None = None,
    checkpoint_iterations: int | None = None,
    device: Any = None,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
def matrix_power_many(
    a: Iterable[Array],
    numerator: int = -1,
    denominator: int = 4,
    *,
    devices: str | Iterable[str] | None = None,
    method: Literal["auto", "eigh", "coupled-newton", "newton-schulz", "minimax"] = "auto",
    lower: bool = True,
    ridge: float = 0.0,
    ridge_relative: bool = False,
    condition: float = 0.0,
    iterations: int = 0,
    error: Iterable[Array | None] | None = None,
    tolerance: float = 0.0,
    keep: bool = False,
    precision: Literal["auto", "f64", "f32", "tf32x3", "tf32"] = "auto",
    power: float | None = None,
    floor: float = 0.0,
    info: Iterable[Array | None] | None = None,
    out: Iterable[Array] | None = None,
    report: list[Any] | None = None,
) -> list[Any]: ...
@overload
def sample_grad(
    activations: _NumPyLike,
    gradients: Array,
    kind: Layer = "linear",
    *,
    bias: bool = True,
    kernel_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    rows: int = 0,
    padding_row: int = -1,
    normalized: int = 1,
    epsilon: float = 1e-5,
    output: Literal["gradient", "norm", "sum"] = "gradient",
    scale: float = 1.0,
    clip: float = 0.0,
    coefficients: Array | None = None,
    method: Literal["auto", "ghost", "blocks"] = "auto",
) -> tuple[NDArray[Any], ...] | NDArray[Any]: ...
@overload
def sample_grad(
    activations: _ArrayT,
    gradients: Array,
    kind: Layer = "linear",
    *,
    bias: bool = True,
    kernel_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    rows: int = 0,
    padding_row: int = -1,
    normalized: int = 1,
    epsilon: float = 1e-5,
    output: Literal["gradient", "norm", "sum"] = "gradient",
    scale: float = 1.0,
    clip: float = 0.0,
    coefficients: Array | None = None,
    method: Literal["auto", "ghost", "blocks"] = "auto",
) -> tuple[_ArrayT, ...] | _ArrayT: ...
@overload
def eigh_kernel(
    x: _NumPyLike,
    *,
    vectors: Literal[True] = True,
    kernel: Kernel = "laplace",
    select: Literal["index", "largest", "smallest"] = "largest",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def eigh_kernel(
    x: _ArrayT,
    *,
    vectors: Literal[True] = True,
    kernel: Kernel = "laplace",
    select: Literal["index", "largest", "smallest"] = "largest",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def eigh_kernel(
    x: _NumPyLike,
    *,
    vectors: Literal[False],
    kernel: Kernel = "laplace",
    select: Literal["index", "largest", "smallest"] = "largest",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> NDArray[Any]: ...
@overload
def eigh_kernel(
    x: _ArrayT,
    *,
    vectors: Literal[False],
    kernel: Kernel = "laplace",
    select: Literal["index", "largest", "smallest"] = "largest",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> _ArrayT: ...
@overload
def eigh_kernel(
    x: Array,
    *,
    vectors: bool = True,
    kernel: Kernel = "laplace",
    select: Literal["index", "largest", "smallest"] = "largest",
    first: int = 0,
    count: int | None = None,
    range: tuple[float, float] | None = None,
    found: Array | None = None,
    driver: Driver = "auto",
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> Array | tuple[Array, Array]: ...
@overload
def eigh_operator(
    a: Any,
    like: _NumPyLike,
    *,
    vectors: Literal[True] = True,
    select: Literal["largest", "smallest"] = "largest",
    count: int | None = None,
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def eigh_operator(
    a: Any,
    like: _ArrayT,
    *,
    vectors: Literal[True] = True,
    select: Literal["largest", "smallest"] = "largest",
    count: int | None = None,
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def eigh_operator(
    a: Any,
    like: _NumPyLike,
    *,
    vectors: Literal[False],
    select: Literal["largest", "smallest"] = "largest",
    count: int | None = None,
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> NDArray[Any]: ...
@overload
def eigh_operator(
    a: Any,
    like: _ArrayT,
    *,
    vectors: Literal[False],
    select: Literal["largest", "smallest"] = "largest",
    count: int | None = None,
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> _ArrayT: ...
@overload
def eigh_operator(
    a: Any,
    like: _ArrayT,
    *,
    vectors: bool = True,
    select: Literal["largest", "smallest"] = "largest",
    count: int | None = None,
    tolerance: float = 0.0,
    products: int = 0,
    seed: int = 0,
    report: dict[str, Any] | None = None,
    info: Array | None = None,
    out: Array | tuple[Array, Array] | None = None,
) -> tuple[_ArrayT, ...] | _ArrayT: ...
def kernel_logdet(
    x: Array,
    *,
    probes: int = 32,
    kernel: Kernel = "laplace",
    steps: int = 100,
    seed: int = 0,
    tolerance: float | None = None,
    rank: int | None = None,
    left: Array | None = None,
    right: Array | None = None,
    report: dict[str, Any] | None = None,
    bandwidth: Number = 1.0,
    p: Number = 2.0,
    exponent: Number = 1.0,
    alpha: Number = 1.0,
    gamma: Number = 1.0,
    coef0: Number = 0.0,
    degree: Number = 3.0,
    regularization: Number = 0.0,
    row_offset: int = 0,
    column_offset: int = 0,
    outer_power: Number | None = None,
    expression: str | None = None,
    of: Literal["distance", "sum", "product"] = "distance",
    parameters: dict[str, Number] | None = None,
    output: Output = "value",
    parameter: str | None = None,
    lengths: Array | None = None,
    metric: Metric | None = None,
    weights: Array | None = None,
) -> tuple[float, float]: ...
def logdet_operator(
    a: Any,
    like: Array,
    *,
    probes: int = 32,
    steps: int = 100,
    seed: int = 0,
    tolerance: float | None = None,
    left: Array | None = None,
    right: Array | None = None,
    report: dict[str, Any] | None = None,
) -> tuple[float, float]: ...
@overload
def solve_operator(
    a: Any,
    b: _NumPyLike,
    *,
    preconditioner: Any = None,
    tolerance: float = 0.0,
    iterations: int = 0,
    time_limit: float = 0.0,
    warm_start: bool = False,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def solve_operator(
    a: Any,
    b: _ArrayT,
    *,
    preconditioner: Any = None,
    tolerance: float = 0.0,
    iterations: int = 0,
    time_limit: float = 0.0,
    warm_start: bool = False,
    report: dict[str, Any] | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def kron_matmul_vjp(
    x: _NumPyLike,
    factors: Sequence[Array],
    *,
    grad: Array,
    side: Side = "right",
    alpha: Number = 1.0,
    wrt: Literal["all", "x", "factors"] = "all",
    out: Array | tuple[Array, ...] | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], ...]: ...
@overload
def kron_matmul_vjp(
    x: _ArrayT,
    factors: Sequence[Array],
    *,
    grad: Array,
    side: Side = "right",
    alpha: Number = 1.0,
    wrt: Literal["all", "x", "factors"] = "all",
    out: Array | tuple[Array, ...] | None = None,
) -> _ArrayT | tuple[_ArrayT, ...]: ...
@overload
def kron_solve(
    factors: Sequence[_NumPyLike],
    b: Array,
    *,
    side: Side = "right",
    method: Literal["lu", "cholesky", "eigen"] = "lu",
    lower: bool = True,
    shift: Number = 0.0,
    info: Array | None = None,
    out: Array | None = None,
) -> NDArray[Any]: ...
@overload
def kron_solve(
    factors: Sequence[_ArrayT],
    b: Array,
    *,
    side: Side = "right",
    method: Literal["lu", "cholesky", "eigen"] = "lu",
    lower: bool = True,
    shift: Number = 0.0,
    info: Array | None = None,
    out: Array | None = None,
) -> _ArrayT: ...
@overload
def kron_logdet(
    factors: Sequence[_NumPyLike], *, out: tuple[Array, Array] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def kron_logdet(
    factors: Sequence[_ArrayT], *, out: tuple[Array, Array] | None = None
) -> tuple[_ArrayT, _ArrayT]: ...
@overload
def kron_trace(factors: Sequence[_NumPyLike], *, out: Array | None = None) -> NDArray[Any]: ...
@overload
def kron_trace(factors: Sequence[_ArrayT], *, out: Array | None = None) -> _ArrayT: ...
@overload
def kron_diagonal(factors: Sequence[_NumPyLike], *, out: Array | None = None) -> NDArray[Any]: ...
@overload
def kron_diagonal(factors: Sequence[_ArrayT], *, out: Array | None = None) -> _ArrayT: ...

class Shape:
    shape: tuple[int, ...]
    dtype: str
    device: str
    def __init__(self, *sizes: int, dtype: Any = "float64", device: str = "cpu") -> None: ...

def workspace(
    function: str | Callable[..., Any], /, *arguments: Any, **options: Any
) -> tuple[int, Any]: ...
