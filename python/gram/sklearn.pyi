from os import PathLike
from typing import Any, Literal, Self

from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)

from gram import Kernel
from gram.machine import Machine

class _Kernel(BaseEstimator): ...

class KernelRidge(MultiOutputMixin, RegressorMixin, _Kernel):
    dual_coef_: NDArray[Any]
    X_fit_: NDArray[Any]
    bandwidth_: float
    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Kernel | Literal["rbf", "laplacian", "poly", "precomputed"] = "gaussian",
        bandwidth: float | Literal["median"] = 1.0,
        p: float = 2.0,
        exponent: float = 1.0,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
    ) -> None: ...
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...

class KernelTransformer(TransformerMixin, _Kernel):
    components_: NDArray[Any]
    bandwidth_: float
    def __init__(
        self,
        *,
        kernel: Kernel | Literal["rbf", "laplacian", "poly"] = "gaussian",
        bandwidth: float | Literal["median"] = "median",
        p: float = 2.0,
        exponent: float = 1.0,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None: ...
    def fit(self, X: Any, y: Any = None) -> Self: ...
    def transform(self, X: Any) -> Any: ...
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]: ...

class KNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    X_fit_: NDArray[Any]
    n_samples_fit_: int
    def __init__(
        self,
        *,
        mode: Literal["distance", "connectivity"] = "distance",
        n_neighbors: int = 5,
        metric: str = "minkowski",
        p: float = 2.0,
        metric_params: dict[str, Any] | None = None,
    ) -> None: ...
    def fit(self, X: Any, y: Any = None) -> Self: ...
    def transform(self, X: Any) -> Any: ...

class _Machine(BaseEstimator):
    machine_: Machine
    feature_importances_: NDArray[Any]
    def __init__(
        self,
        *,
        p: float | None = None,
        q: float | None = None,
        bandwidth: float | None = None,
        regularization: float | None = None,
        iterations: int | None = None,
        metric: Literal["auto", "diagonal", "full"] = "auto",
        metric_power: float | None = None,
        metric_rows: int | None = None,
        search: bool = False,
        time_limit: float | None = None,
        validation: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        max_categories: int | None = None,
        memory_limit: int | None = None,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None: ...
    def save(self, path: str | PathLike[str]) -> None: ...

class RFMRegressor(RegressorMixin, _Machine):
    def __init__(
        self,
        *,
        p: float | None = None,
        q: float | None = None,
        bandwidth: float | None = None,
        regularization: float | None = None,
        iterations: int | None = None,
        metric: Literal["auto", "diagonal", "full"] = "auto",
        metric_power: float | None = None,
        metric_rows: int | None = None,
        search: bool = False,
        time_limit: float | None = None,
        validation: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        max_categories: int | None = None,
        memory_limit: int | None = None,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: bool = False,
        target_transform: Literal["auto", "none", "log", "sqrt"] = "auto",
    ) -> None: ...
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...

class RFMClassifier(ClassifierMixin, _Machine):
    classes_: NDArray[Any]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict_proba(self, X: Any) -> NDArray[Any]: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
