"""test_sklearn_distances.py - scikit-learn's own tests of distances, with those of gram.compat"""

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
pytest.importorskip("sklearn.metrics.tests")

from sklearn.metrics import pairwise  # noqa: E402

from gram.compat import scipy as ours_of_scipy  # noqa: E402
from gram.compat import sklearn as ours  # noqa: E402

# The functions of one metric or kernel are asked for by its name.
DISTANCES = {
    "euclidean_distances": "euclidean",
    "manhattan_distances": "manhattan",
    "cosine_distances": "cosine",
    "haversine_distances": "haversine",
    "nan_euclidean_distances": "nan_euclidean",
}
KERNELS = {
    "linear_kernel": "linear",
    "polynomial_kernel": "poly",
    "sigmoid_kernel": "sigmoid",
    "rbf_kernel": "rbf",
    "laplacian_kernel": "laplacian",
    "chi2_kernel": "chi2",
    "additive_chi2_kernel": "additive_chi2",
    "cosine_similarity": "cosine",
}


def by_name(name, function, metric):
    """scikit-learn's function by pairwise_distances or pairwise_kernels, which do not take all of
    its options."""
    theirs = getattr(pairwise, name)

    def called(X, Y=None, **options):
        if set(options) - {"gamma", "degree", "coef0"}:
            return theirs(X, Y, **options)
        return function(X, Y, metric=metric, **options)

    return called


# scikit-learn's tests import the functions by name, and some take them as parameters.
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pairwise, "pairwise_distances", ours.pairwise_distances)
    patch.setattr(pairwise, "pairwise_kernels", ours.pairwise_kernels)
    for name, metric in DISTANCES.items():
        patch.setattr(pairwise, name, by_name(name, ours.pairwise_distances, metric))
    for name, metric in KERNELS.items():
        patch.setattr(pairwise, name, by_name(name, ours.pairwise_kernels, metric))
    patch.setattr("scipy.spatial.distance.cdist", ours_of_scipy.cdist)
    patch.setattr("scipy.spatial.distance.pdist", ours_of_scipy.pdist)
    from sklearn.metrics.tests import test_dist_metrics, test_pairwise

for tests in (test_pairwise, test_dist_metrics):
    globals().update({n: t for n, t in vars(tests).items() if n.startswith("test_")})


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param


@pytest.fixture
def global_random_seed():
    return 42
