"""test_nearest.py - gram.nearest against a stable sort of all distances, and against SciPy"""

import gram
import numpy as np
import pytest
from drawing import close, draw
from scipy.spatial import cKDTree


def sorted_rows(d, count):
    indices = np.argsort(d, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(d, indices, -1), indices


@pytest.mark.parametrize("p", [1, 1.5, 2, np.inf])
def test_neighbours_are_those_of_a_tree(p, dtype):
    x, y = draw(40, 3, dtype=dtype), draw(300, 3, dtype=dtype, seed=1)
    distances, indices = gram.nearest(x, y, count=7, p=p)
    assert indices.dtype == np.int64 and distances.dtype == dtype
    wanted, places = cKDTree(y).query(x, 7, p=p)
    close(distances, wanted, dtype, 3)
    assert (indices == places).mean() > 0.99  # rounding may exchange two of them


@pytest.mark.parametrize("p", [0, 1, 2])
def test_ties_go_to_the_lower_index(p, dtype):
    x = np.random.default_rng(0).integers(0, 3, (200, 4)).astype(dtype)
    distances, indices = gram.nearest(x, count=30, p=p)
    wanted, places = sorted_rows(gram.cdist(x, p=p), 30)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(distances, wanted)


def test_exclude_self_leaves_out_the_row_but_not_its_copies():
    x = np.repeat(draw(5, 2), 2, axis=0)
    distances, indices = gram.nearest(x, count=1, exclude_self=True)
    assert not distances.any()
    assert indices.ravel().tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]
    with pytest.raises(ValueError, match="exclude_self"):
        gram.nearest(x, x + 1, count=1, exclude_self=True)


def test_a_radius_and_its_counts():
    x, y = draw(30, 2), draw(80, 2, seed=1)
    counts = np.empty(30, np.int64)
    distances, indices = gram.nearest(x, y, count=5, radius=0.7, counts=counts)
    within = gram.cdist(x, y) <= 0.7
    np.testing.assert_array_equal(counts, within.sum(1))
    np.testing.assert_array_equal((indices >= 0).sum(1), np.minimum(counts, 5))
    assert (distances[indices >= 0] <= 0.7).all() and np.isinf(distances[indices < 0]).all()
    none = gram.nearest(x, y, count=0, radius=0.7, counts=counts)
    assert none[0].shape == (30, 0)
    np.testing.assert_array_equal(counts, within.sum(1))


def test_missing_neighbours_and_nan():
    x = draw(4, 3)
    x[1, 2] = np.nan
    distances, indices = gram.nearest(x, count=6)
    assert (indices[1] == -1).all() and np.isinf(distances[1]).all()
    assert (indices[0] >= 0).sum() == 3 and 1 not in indices[0]


def test_batches_and_out():
    x, y = draw(3, 8, 2), draw(20, 2, seed=1)
    p = np.array([1.0, 2.0, 3.0])
    out = np.empty((3, 8, 4)), np.empty((3, 8, 4), np.int64)
    distances, indices = gram.nearest(x, y, count=4, p=p, out=out)
    assert distances is out[0] and indices is out[1]
    wanted, places = sorted_rows(gram.cdist(x, y, p), 4)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_allclose(distances, wanted, rtol=1e-14)


def test_results_do_not_depend_on_threads():
    x, y = draw(70, 9), draw(9000, 9, seed=1)
    found = []
    before = gram.get_threads()
    for threads in (1, 2):
        gram.set_threads(threads)
        found.append(gram.nearest(x, y, count=20))
    gram.set_threads(before)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


METRICS = (
    "seuclidean cosine correlation canberra braycurtis hamming jaccard jensenshannon "
    "kullback-leibler hellinger chi2 haversine nan-euclidean"
).split()


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_those_of_cdist(metric, dtype):
    rng = np.random.default_rng(0)
    k = 2 if metric == "haversine" else 6
    x, y = (rng.uniform(0.1, 1, (m, k)).astype(dtype) for m in (40, 300))
    if metric in ("hamming", "jaccard"):
        x, y = (x > 0.6).astype(dtype), (y > 0.6).astype(dtype)
    if metric == "nan-euclidean":
        x[:, 1] = np.nan
    weights = None if metric == "haversine" else np.linspace(0.5, 1.5, k)
    d = gram.cdist(x, y, metric=metric, weights=weights)
    distances, indices = gram.nearest(x, y, count=9, metric=metric, weights=weights)
    wanted, places = sorted_rows(d, 9)
    close(distances, wanted, dtype, 3)
    assert (indices == places).mean() > 0.99
    if metric in ("hamming", "jaccard"):  # ties
        np.testing.assert_array_equal(
            gram.nearest(x, y, count=50, metric=metric)[1],
            sorted_rows(gram.cdist(x, y, metric=metric), 50)[1],
        )


def test_weights_without_a_metric_and_per_item():
    x, y = draw(3, 8, 2), draw(20, 2, seed=1)
    weights = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.5]])
    distances, indices = gram.nearest(x, y, count=4, p=1, weights=weights)
    wanted, places = sorted_rows(gram.cdist(x, y, 1, weights=weights), 4)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_allclose(distances, wanted, rtol=1e-13)
    with pytest.raises(ValueError, match="p is given"):
        gram.nearest(x, y, count=4, p=1, metric="cosine")
    with pytest.raises(ValueError, match="weights"):
        gram.nearest(x, y, count=4, metric="seuclidean")
    with pytest.raises(ValueError, match="metric"):
        gram.nearest(x, y, count=4, metric="far")


def test_a_divergence_below_zero_is_the_nearest():
    x = np.array([[0.25, 0.5]])
    y = np.array([[0.25, 0.5], [0.5, 1.0], [0.25, 0.75], [0.125, 0.125]] * 700)
    distances, indices = gram.nearest(x, y, count=701, metric="kullback-leibler")
    wanted, places = sorted_rows(gram.cdist(x, y, metric="kullback-leibler"), 701)
    assert distances[0, 0] < 0
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(distances, wanted)


def test_exclude_self_with_a_divergence():
    x = np.random.default_rng(0).uniform(0.1, 1, (9, 3))
    indices = gram.nearest(x, count=9, metric="kullback-leibler", exclude_self=True)[1]
    assert not (indices == np.arange(9)[:, None]).any()


def test_bad_arguments():
    x = draw(4, 2)
    with pytest.raises(TypeError, match="count"):
        gram.nearest(x)
    for count in (-1, 1025):
        with pytest.raises(ValueError, match="count"):
            gram.nearest(x, count=count)
    with pytest.raises(ValueError, match="radius"):
        gram.nearest(x, count=1, radius=-1)
    with pytest.raises(ValueError, match="columns"):
        gram.nearest(x, draw(4, 3), count=1)
    with pytest.raises(TypeError, match="out"):
        gram.nearest(x, count=1, out=np.empty((4, 1)))


# ---- Reductions -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "linear"])
def test_reductions_are_those_of_the_matrix(kernel, dtype):
    x, y, v = (draw(m, 4, dtype=dtype, seed=m) for m in (30, 2500, 2500))
    k = gram.kernel(x, y, kernel).astype(float)
    reduce = lambda what, **o: gram.kernel_reduce(x, y, kernel, what=what, **o)  # noqa: E731
    for name in ("min", "max"):
        close(reduce(name), getattr(k, name)(1), dtype, 8)
        found = np.take_along_axis(k, reduce("arg" + name)[:, None], 1)[:, 0]
        close(found.astype(dtype), getattr(k, name)(1), dtype, 8)
    weights = np.exp(-2 * k - np.max(-2 * k, 1)[:, None])
    total = np.log(weights.sum(1)) + np.max(-2 * k, 1)
    np.testing.assert_allclose(reduce("logsumexp", scale=-2), total, rtol=1e-5)
    average = weights @ v.astype(float) / weights.sum(1)[:, None]
    np.testing.assert_allclose(reduce("softmax", scale=-2, v=v), average, rtol=1e-3, atol=1e-4)
    one = reduce("softmax", scale=-2, v=np.ascontiguousarray(v[:, 0]))
    assert one.shape == (30,)
    np.testing.assert_allclose(one, average[:, 0], rtol=1e-3, atol=1e-4)


def test_reductions_take_ties_nan_and_nothing():
    x = np.array([[0.0], [1.0], [np.nan]])
    y = np.array([[2.0], [2.0], [0.0], [0.0]])
    reduce = lambda y, what: gram.kernel_reduce(  # noqa: E731
        x, y, what=what, expression="s"
    ).tolist()
    assert reduce(y, "argmin") == [2, 0, 0] and reduce(y, "argmax") == [0, 0, 0]
    assert np.isnan(reduce(y, "min")[2]) and np.isnan(reduce(y, "logsumexp")[2])
    assert reduce(y[:0], "min") == [np.inf] * 3 and reduce(y[:0], "argmin") == [-1] * 3
    with pytest.raises(TypeError, match="what"):
        gram.kernel_reduce(x)
    with pytest.raises(TypeError, match="'v'"):
        gram.kernel_reduce(x, what="softmax")
    with pytest.raises(TypeError, match="no v"):
        gram.kernel_reduce(x, what="min", v=x)


def test_kernel_reduce_vjp_is_that_of_the_matrix():
    x, y, v, grad = draw(30, 3), draw(20, 3, seed=1), draw(20, 2, seed=2), draw(30, 2, seed=3)
    logs, wrt = draw(20, seed=4), ("x", "y", "bandwidth", "regularization", "lengths")
    options = {"bandwidth": 1.3, "regularization": 0.3, "lengths": np.array([0.5, 1.5, 4.0])}
    soft = {"scale": -2.0, "log_weights": logs}
    e = -2.0 * gram.kernel(x, y, "matern32", **options) + logs
    w = np.exp(e - e.max(1)[:, None])
    w /= w.sum(1)[:, None]
    slopes = w * (grad @ v.T - (grad * (w @ v)).sum(1)[:, None])
    for what, d, given in (
        ("softmax", slopes, {"v": v, "grad": grad}),
        ("logsumexp", w * grad[:, :1], {"grad": grad[:, 0]}),
    ):
        got = gram.kernel_reduce_vjp(
            x, y, "matern32", what=what, wrt=(*wrt, "log_weights"), **given, **soft, **options
        )
        expected = gram.kernel_vjp(x, y, "matern32", grad=-2.0 * d, wrt=wrt, **options)
        for g, wanted in zip(got, (*expected, d.sum(0)), strict=True):
            np.testing.assert_allclose(g, wanted, atol=1e-12)
    of_v = gram.kernel_reduce_vjp(
        x, y, "matern32", what="softmax", v=v[:, 0], grad=grad[:, 0], wrt="v", **soft, **options
    )
    np.testing.assert_allclose(of_v, w.T @ grad[:, 0], atol=1e-12)
    need = gram.workspace("kernel_reduce_vjp", x, y, what="logsumexp", grad=grad[:, 0])
    assert 0 < need[0] < 10**8


def test_log_weights_join_the_exponents(dtype):
    x, y, v = (draw(m, 3, dtype=dtype, seed=m) for m in (20, 700, 700))
    logs = draw(700, seed=9).astype(dtype)
    logs[5] = -np.inf
    exponents = -2.0 * gram.kernel(x, y, "distance").astype(float) + logs
    weights = np.exp(exponents - exponents.max(1)[:, None])
    total = np.log(weights.sum(1)) + exponents.max(1)
    reduce = lambda what, **o: gram.kernel_reduce(  # noqa: E731
        x, y, "distance", what=what, scale=-2.0, **o
    )
    np.testing.assert_allclose(reduce("logsumexp", log_weights=logs), total, rtol=1e-5)
    average = weights @ v.astype(float) / weights.sum(1)[:, None]
    np.testing.assert_allclose(
        reduce("softmax", v=v, log_weights=logs), average, rtol=1e-3, atol=1e-4
    )
    both = reduce("logsumexp", log_weights=np.stack([logs, logs - 1]))
    np.testing.assert_allclose(both, [total, total - 1], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="log_weights is given"):
        reduce("max", log_weights=logs)
    with pytest.raises(ValueError, match="log_weights has 3 elements, expected 700"):
        reduce("logsumexp", log_weights=logs[:3])
    with pytest.raises(ValueError, match="log_weights"):
        reduce("logsumexp", log_weights=logs.astype(np.float16))


def test_lengths_reach_reductions():
    x, y = draw(9, 3), draw(12, 3, seed=1)
    lengths = np.array([1.0, 2.0, 0.5])
    got = gram.kernel_reduce(x, y, "gaussian", what="max", lengths=lengths)
    np.testing.assert_allclose(got, gram.kernel(x / lengths, y / lengths, "gaussian").max(1))
