from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import gaussian_process
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

_Theirs: TypeAlias = Literal["rbf", "laplacian", "poly", "chi2", "additive_chi2"]

class GaussianProcessRegressor(gaussian_process.GaussianProcessRegressor):
    kernel_: Any
    X_train_: NDArray[np.float64]
    y_train_: NDArray[np.float64]
    L_: NDArray[np.float64] | None
    alpha_: NDArray[np.float64]
    log_marginal_likelihood_value_: float
    solver_: Literal["cholesky", "cg"]
    def __init__(
        self,
        kernel: Any = None,
        *,
        alpha: float | NDArray[Any] = 1e-10,
        optimizer: Literal["fmin_l_bfgs_b"] | Callable[..., Any] | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        copy_X_train: bool = True,
        n_targets: int | None = None,
        random_state: Any = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        probes: int = 32,
        tolerance: float = 1e-4,
    ) -> None: ...
    def fit(self, X: Any, y: Any) -> Self: ...
    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any: ...
    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0
    ) -> NDArray[np.float64]: ...
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any: ...

class _Kernel(BaseEstimator): ...

class KernelRidge(MultiOutputMixin, RegressorMixin, _Kernel):
    dual_coef_: NDArray[Any]
    X_fit_: Any
    bandwidth_: float | None
    alpha_: float | NDArray[np.float64]
    best_score_: float | NDArray[Any]
    loo_: NDArray[Any]
    loo_errors_: NDArray[Any]
    loo_spreads_: NDArray[Any]
    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        kernel: Kernel | _Theirs | Literal["precomputed"] | Callable[..., float] = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        bandwidth: float | Literal["median"] | None = None,
        p: float = 2.0,
        exponent: float = 1.0,
        alphas: ArrayLike | None = None,
        alpha_per_target: bool = False,
    ) -> None: ...
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...

class KernelTransformer(TransformerMixin, _Kernel):
    components_: Any
    bandwidth_: float | None
    def __init__(
        self,
        *,
        kernel: Kernel | _Theirs | Callable[..., float] = "gaussian",
        bandwidth: float | Literal["median"] | None = "median",
        p: float = 2.0,
        exponent: float = 1.0,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        n_components: int | None = None,
        random_state: Any = None,
        kernel_params: dict[str, Any] | None = None,
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
        n_jobs: int | None = None,
    ) -> None: ...
    def fit(self, X: Any, y: Any = None) -> Self: ...
    def transform(self, X: Any) -> Any: ...

class _Machine(BaseEstimator):
    machine_: Machine
    feature_importances_: NDArray[Any]
    trials_: list[dict[str, Any]]
    def __init__(
        self,
        *,
        p: float | None = None,
        q: float | None = None,
        bandwidth: float | None = None,
        regularization: float | None = None,
        iterations: int | None = None,
        metric: Literal["auto", "diagonal", "full", "ard"] = "auto",
        metric_power: float | None = None,
        metric_rows: int | None = None,
        ensemble: int | None = None,
        centres: int | None = None,
        search: bool | None = None,
        time_limit: float | None = None,
        validation: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        max_categories: int | None = None,
        category_statistics: Literal["auto", "none"] = "auto",
        leaf_rows: int | None = None,
        trees: int | None = None,
        temperature: float | None = None,
        memory_limit: int | None = None,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: bool = False,
        n_jobs: int | None = None,
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
        metric: Literal["auto", "diagonal", "full", "ard"] = "auto",
        metric_power: float | None = None,
        metric_rows: int | None = None,
        ensemble: int | None = None,
        centres: int | None = None,
        search: bool | None = None,
        time_limit: float | None = None,
        validation: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        max_categories: int | None = None,
        category_statistics: Literal["auto", "none"] = "auto",
        leaf_rows: int | None = None,
        trees: int | None = None,
        temperature: float | None = None,
        memory_limit: int | None = None,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: bool = False,
        target_transform: Literal["auto", "none", "log", "sqrt"] = "auto",
        n_jobs: int | None = None,
    ) -> None: ...
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]: ...

class RFMClassifier(ClassifierMixin, _Machine):
    classes_: NDArray[Any]
    def __init__(
        self,
        *,
        p: float | None = None,
        q: float | None = None,
        bandwidth: float | None = None,
        regularization: float | None = None,
        iterations: int | None = None,
        metric: Literal["auto", "diagonal", "full", "ard"] = "auto",
        metric_power: float | None = None,
        metric_rows: int | None = None,
        ensemble: int | None = None,
        centres: int | None = None,
        search: bool | None = None,
        time_limit: float | None = None,
        validation: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        max_categories: int | None = None,
        category_statistics: Literal["auto", "none"] = "auto",
        leaf_rows: int | None = None,
        trees: int | None = None,
        temperature: float | None = None,
        memory_limit: int | None = None,
        device: Any = "cpu",
        random_state: Any = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        loss: Literal["auto", "squared", "logistic"] = "auto",
    ) -> None: ...
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self: ...
    def predict_proba(self, X: Any) -> NDArray[Any]: ...
    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]: ...
    def decision_function(self, X: Any) -> NDArray[Any]: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
