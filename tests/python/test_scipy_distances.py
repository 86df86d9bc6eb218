"""test_scipy_distances.py - SciPy's own tests of distances, with the functions of gram.compat"""

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
METRICS = (
    "euclidean sqeuclidean cityblock chebyshev minkowski hamming seuclidean cosine correlation "
    "canberra braycurtis jaccard jensenshannon"
).split()
OTHERS = "mahalanobis yule dice sokal rogers russell".split()


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
    scipy = theirs.scipy.spatial.distance
    x = np.abs(np.round(np.random.default_rng(0).standard_normal((600, 5)), 1))
    y, w = x[:40] + 0.1, np.array([0.5, 2, 0, 1, 3])
    options = [{"V": w + 1}, {}] if metric == "seuclidean" else [{}, {"w": w}]
    for chosen in options[: 1 if metric == "jensenshannon" else 2]:
        expected = scipy.cdist(x, y, metric, **chosen), scipy.pdist(x[:90], metric, **chosen)
        with monkeypatch.context() as m:
            m.setattr(ours._scipy, "cdist", None)
            m.setattr(ours._scipy, "pdist", None)
            got = ours.cdist(x, y, metric, **chosen), ours.pdist(x[:90], metric, **chosen)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-8)


def test_float32_stays_where_asked(metric):
    x = np.abs(np.random.default_rng(0).standard_normal((50, 5))).astype(np.float32)
    kept = ours.cdist(x, x[:7], metric, keep_float32=True)
    assert kept.dtype == np.float32 and ours.cdist(x, x[:7], metric).dtype == np.float64
    assert ours.pdist(x, metric, keep_float32=True).dtype == np.float32
    assert ours.cdist(x, x.astype(float), metric, keep_float32=True).dtype == np.float64
    expected = theirs.scipy.spatial.distance.cdist(x, x[:7], metric)
    np.testing.assert_allclose(kept, expected, rtol=1e-5, atol=3e-4)


def test_rows_without_a_distance():
    scipy = theirs.scipy.spatial.distance
    x = np.array([[0, 0, 0], [1, 2, 3.0], [5, 5, 5], [-1, 2, -3], [2, 4, 6], [np.nan, 1, 2]])
    for metric in METRICS:
        if metric == "seuclidean":
            continue
        rows = x[:-1] if metric == "jensenshannon" else x  # where SciPy's NaN is not told
        expected, got = scipy.cdist(rows, rows, metric), ours.cdist(rows, rows, metric)
        if metric == "chebyshev":
            expected[-1] = expected[:, -1] = np.nan  # SciPy's largest forgets a NaN
        np.testing.assert_allclose(got, expected, atol=1e-7, err_msg=metric)


def test_what_scipy_refuses():
    x = np.ones((3, 2))
    for metric, options in (
        ("minkowski", {"w": [1, -1]}),
        ("canberra", {"w": [1, 1, 1]}),
        ("seuclidean", {"V": np.ones(3)}),
        ("seuclidean", {"V": np.ones((1, 2))}),
    ):
        with pytest.raises(ValueError):
            ours.cdist(x, x, metric, **options)
    with pytest.raises(TypeError):
        ours.cdist(x, x, "jensenshannon", w=np.ones(2))


def test_bad_arguments_are_scipys():
    x = np.ones((3, 2))
    for wrong in ((x, np.ones((3, 3))), (x, x[0]), (x[0], x)):
        with pytest.raises(ValueError):
            ours.cdist(*wrong)
    with pytest.raises(ValueError, match="Unknown Distance Metric"):
        ours.cdist(x, x, "nothing")
    with pytest.raises(TypeError):
        ours.cdist(x, x, "euclidean", p=3)
    with pytest.raises(TypeError):
        ours.cdist(x, x, "minkowski", p=None)
    assert ours.cdist(x.astype(np.longdouble), x.astype(np.longdouble)).dtype == np.longdouble
    assert ours.pdist(x[:1]).shape == (0,)
