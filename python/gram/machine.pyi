from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from gram import Array, Communicator

Column: TypeAlias = Array | Sequence[Any]
# A data frame, a matrix, or columns by name.
Table: TypeAlias = Any | Mapping[str, Column]

class _MachineOptions(TypedDict, total=False):
    task: Literal["auto", "regression", "classification"]
    search: int | None
    p: float | None
    q: float | None
    bandwidth: float | None
    regularization: float | None
    iterations: int | None
    metric: Literal["auto", "diagonal", "full", "ard"]
    metric_power: float | None
    target_transform: Literal["auto", "none", "log", "sqrt"]
    solver: Literal["auto", "cholesky", "cg"]
    tolerance: float | None
    validation: float | None
    leaf_rows: int | None
    memory_limit: int | None
    time_limit: float | None
    seed: int | None
    dtype: Literal["auto", "float32", "float64"]
    max_categories: int | None
    metric_rows: int | None
    ensemble: int | None
    centres: int | None
    category_statistics: Literal["auto", "none"]
    trees: int
    temperature: float
    loss: Literal["auto", "squared", "logistic"]

class _Score(TypedDict, total=False):
    metric: str
    score: float
    rows: int
    mae: float
    r2: float
    log_loss: float

class Machine:
    target: str
    is_classification: bool
    classes: list[float] | list[str] | None
    features: list[str]
    importances: dict[str, float]
    description: dict[str, Any]
    trials: list[dict[str, Any]]
    def __init__(self, core: Any) -> None: ...
    @overload
    @classmethod
    def fit(
        cls,
        table: Table,
        target: Column | str,
        *,
        weights: Column | None = None,
        device: Any = "cpu",
        progress: Callable[[float, str], Any] | None = None,
        communicator: Communicator,
        **options: Unpack[_MachineOptions],
    ) -> Machine | None: ...
    @overload
    @classmethod
    def fit(
        cls,
        table: Table,
        target: Column | str,
        *,
        weights: Column | None = None,
        device: Any = "cpu",
        progress: Callable[[float, str], Any] | None = None,
        communicator: None = None,
        **options: Unpack[_MachineOptions],
    ) -> Machine: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Machine: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def predict(self, table: Table, *, device: Any = "cpu") -> NDArray[Any]: ...
    def predict_proba(self, table: Table, *, device: Any = "cpu") -> NDArray[np.float64]: ...
    def predict_interval(
        self, table: Table, level: float = 0.9, *, device: Any = "cpu"
    ) -> NDArray[np.float64]: ...
    def predict_set(
        self, table: Table, level: float = 0.9, *, device: Any = "cpu"
    ) -> NDArray[np.int32]: ...
    def score(self, table: Table, target: Column | str, *, device: Any = "cpu") -> _Score: ...
    def permutation_importance(
        self,
        table: Table,
        target: Column | str,
        *,
        repeats: int = 5,
        seed: int = 0,
        device: Any = "cpu",
    ) -> dict[str, NDArray[np.float64]]: ...
