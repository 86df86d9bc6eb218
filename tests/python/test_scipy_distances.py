"""test_scipy_distances.py - SciPy's own tests of distances, with the functions of gram.compat"""

import gram
import numpy as np
import pytest

theirs = pytest.importorskip("scipy.spatial.tests.test_distance")

from gram.compat import scipy as ours  # noqa: E402

# SciPy's tests find the functions among the names of their module.
theirs.cdist, theirs.pdist = ours.cdist, ours.pdist
for function, count in ((ours.cdist, 2), (ours.pdist, 1)):
    for suffix, constant in (("", False), ("_no_const", True)):
        name = f"w{function.__name__}{suffix}"
        options = {"n_args": count, "const_test": False} if constant else {"n_args": count}
        checked = theirs._weight_checked(function, default_axis=1, squeeze=False, **options)
        setattr(theirs, name, checked)
METRICS = "euclidean sqeuclidean cityblock chebyshev minkowski hamming".split()
OTHERS = (
    "cosine correlation seuclidean canberra jensenshannon mahalanobis "
    "yule dice sokal rogers russell"
).split()


@pytest.fixture(params=METRICS)
def metric(request):
    return request.param


def without_others(tests):
    """The class without the tests of metrics that go to SciPy."""
    hidden = {n: None for n in dir(tests) if any(other in n for other in OTHERS)}
    return type(tests.__name__, (tests,), hidden)


TestCdist = without_others(theirs.TestCdist)
TestPdist = without_others(theirs.TestPdist)
test_bad_p = theirs.test_bad_p
test_euclideans = theirs.test_euclideans


def test_the_library_computes_them(metric, monkeypatch):
    calls = []
    plain = gram.cdist
    monkeypatch.setattr(gram, "cdist", lambda *a, **k: calls.append(a) or plain(*a, **k))
    x = np.round(np.random.default_rng(0).standard_normal((600, 5)), 1)
    y = x[:40] + 0.1
    scipy = theirs.scipy.spatial.distance
    np.testing.assert_allclose(ours.cdist(x, y, metric), scipy.cdist(x, y, metric), atol=1e-14)
    assert len(calls) == 1
    np.testing.assert_allclose(ours.pdist(x, metric), scipy.pdist(x, metric), atol=1e-14)
    assert len(calls) == 4
    ours.cdist(x, y, metric, w=np.ones(5))
    assert len(calls) == 4


def test_bad_arguments_are_scipys():
    x = np.ones((3, 2))
    for wrong in ((x, np.ones((3, 3))), (x, x[0]), (x[0], x)):
        with pytest.raises(ValueError):
            ours.cdist(*wrong)
    with pytest.raises(ValueError, match="Unknown Distance Metric"):
        ours.cdist(x, x, "nothing")
    with pytest.raises(TypeError):
        ours.cdist(x, x, "euclidean", p=3)
    assert ours.pdist(x[:1]).shape == (0,)
