from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

from gram import Array

Column: TypeAlias = Array | Sequence[Any]
# A data frame, a matrix, or columns by name.
Table: TypeAlias = Any | Mapping[str, Column]

class Machine:
    target: str
    is_classification: bool
    classes: list[float] | list[str] | None
    features: list[str]
    importances: dict[str, float]
    description: dict[str, Any]
    def __init__(self, core: Any) -> None: ...
    @classmethod
    def fit(
        cls,
        table: Table,
        target: Column,
        *,
        weights: Column | None = None,
        device: Any = "cpu",
        progress: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Machine: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Machine: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def predict(self, table: Table, *, device: Any = "cpu") -> Array: ...
    def predict_proba(self, table: Table, *, device: Any = "cpu") -> Array: ...
    def score(self, table: Table, target: Column, *, device: Any = "cpu") -> float: ...
