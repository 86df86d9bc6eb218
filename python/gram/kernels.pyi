from collections.abc import Sequence
from typing import Any

def arc_cosine(order: int = 1, *, norms: bool = False) -> dict[str, Any]: ...
def ntk(depth: int = 1, *, norms: bool = False) -> dict[str, Any]: ...
def periodic_rbf(
    period: float = 1.0,
    periodic_lengthscale: float = 1.0,
    lengthscale: float = 1.0,
) -> dict[str, Any]: ...
def spectral_mixture(
    weights: Sequence[float],
    means: Sequence[float],
    scales: Sequence[float],
) -> dict[str, Any]: ...
