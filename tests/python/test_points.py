"""test_points.py - distances, kernels and their gradients against NumPy and SciPy"""

import gram
import numpy as np
import pytest
from drawing import close, draw
from scipy.spatial.distance import cdist


@pytest.mark.parametrize("p", [1, 1.3, 2, 3.0, np.inf])
def test_cdist_is_scipys(p, dtype):
    x, y = draw(37, 11, dtype=dtype), draw(23, 11, dtype=dtype, seed=1)
    expected = cdist(x.astype(float), y.astype(float), "minkowski", p=p)
    close(gram.cdist(x, y, p), expected, dtype, 11)


def test_cdist_without_root_and_without_y():
    x = draw(9, 4)
    d = gram.cdist(x, root=False)
    np.testing.assert_array_equal(d, d.T)
    assert not d.diagonal().any()
    np.testing.assert_allclose(d, cdist(x, x, "sqeuclidean"), rtol=1e-12, atol=1e-12)


def test_cdist_counts_differences():
    x = np.array([[1.0, 2, 3], [1, 5, 6]])
    assert gram.cdist(x, p=0).tolist() == [[0, 2], [2, 0]]


def test_half_precision_gives_single():
    x = draw(5, 8).astype(np.float16)
    d = gram.cdist(x)
    assert d.dtype == np.float32
    np.testing.assert_allclose(d, cdist(x.astype(float), x.astype(float)), rtol=1e-5, atol=1e-5)


def test_p_of_every_item():
    x = draw(3, 6, 4)
    p = np.array([1.0, 2.0, 3.5])
    d = gram.cdist(x, p=p)
    for i in range(3):
        np.testing.assert_allclose(d[i], cdist(x[i], x[i], "minkowski", p=p[i]), atol=1e-12)


def test_p_of_every_item_of_a_kernel():
    x, v = draw(3, 6, 4), draw(6, 2)
    p = np.array([1.0, 2.0, 3.5])
    for name in ("laplace", "lpq-laplace", "matern32", "distance"):
        options = {"kernel": name} | ({"exponent": 0.8} if name == "lpq-laplace" else {})
        k = gram.kernel(x, p=p, **options)
        product = gram.kernel_matmul(x, v=v, p=p, **options)
        grad = gram.kernel_vjp(x, grad=np.ones((6, 6)), p=p, **options)
        for i in range(3):
            alone = gram.kernel(x[i], p=p[i], **options)
            np.testing.assert_allclose(k[i], alone, rtol=1e-13)
            np.testing.assert_allclose(product[i], alone @ v, rtol=1e-12, atol=1e-12)
            one = gram.kernel_vjp(x[i], grad=np.ones((6, 6)), p=p[i], **options)
            np.testing.assert_allclose(grad[i], one, rtol=1e-12, atol=1e-12)


def test_kernels_of_the_largest_difference():
    """Their outer power was 1 / infinity, 0, and all distances 1."""
    x = draw(5, 3)
    d = cdist(x, x, "chebyshev")
    np.testing.assert_allclose(gram.kernel(x, kernel="distance", p=np.inf), d, rtol=1e-14)
    np.testing.assert_allclose(gram.kernel(x, p=np.inf, bandwidth=2.0), np.exp(-d / 2), rtol=1e-14)


def test_derivatives_of_expressions_by_parameters():
    x = draw(5, 3)
    options = {"expression": "exp(-pow(s / a, b)) + c", "parameters": {"a": 2.0, "b": 1.5, "c": 1}}
    s = gram.cdist(x) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(s == 0, 0, np.log(s))
    expected = {
        "a": 0.75 * s**1.5 * np.exp(-(s**1.5)),
        "b": -(s**1.5) * log * np.exp(-(s**1.5)),
        "c": np.ones((5, 5)),
    }
    for name, want in expected.items():
        got = gram.kernel(
            x, output="parameter-derivative", parameter=name, regularization=3.0, **options
        )
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


def kernel_by_name(name, x, y, bandwidth, q):
    d = cdist(x, y)
    t3, t5 = np.sqrt(3) * d / bandwidth, np.sqrt(5) * d / bandwidth
    dot = x @ y.T
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
    return {
        "laplace": np.exp(-d / bandwidth),
        "lpq-laplace": np.exp(-((d / bandwidth) ** q)),
        "product-laplace": np.exp(
            -(np.abs(x[:, None] - y) ** q).sum(-1) / bandwidth**q
        ),
        "gaussian": np.exp(-(d**2) / (2 * bandwidth**2)),
        "matern32": (1 + t3) * np.exp(-t3),
        "matern52": (1 + t5 + t5**2 / 3) * np.exp(-t5),
        "rational-quadratic": (1 + d**2 / (2 * 1.5 * bandwidth**2)) ** -1.5,
        "linear": dot,
        "polynomial": (0.5 * dot + 1) ** 2,
        "sigmoid": np.tanh(0.5 * dot + 1),
        "cosine": dot / norms,
        "distance": d,
    }[name]


NUMBERS = {
    "lpq-laplace": {"exponent": 0.8},
    "product-laplace": {"exponent": 0.8},
    "rational-quadratic": {"alpha": 1.5},
    "polynomial": {"gamma": 0.5, "coef0": 1, "degree": 2},
    "sigmoid": {"gamma": 0.5, "coef0": 1},
}
NAMES = (
    "laplace lpq-laplace product-laplace gaussian matern32 matern52 rational-quadratic linear "
    "polynomial sigmoid cosine distance"
).split()


def width(name, bandwidth):
    """The bandwidth as an option, of the kernels that have one."""
    without = ("linear", "polynomial", "sigmoid", "cosine", "distance")
    return {} if name in without else {"bandwidth": bandwidth}


@pytest.mark.parametrize("name", NAMES)
def test_kernels_by_name(name):
    x, y = draw(7, 5), draw(4, 5, seed=1)
    expected = kernel_by_name(name, x, y, 1.7, 0.8)
    numbers = width(name, 1.7) | NUMBERS.get(name, {})
    np.testing.assert_allclose(gram.kernel(x, y, name, **numbers), expected, rtol=1e-10, atol=1e-13)
    underscores = name.replace("-", "_")
    np.testing.assert_array_equal(
        gram.kernel(x, y, underscores, **numbers), gram.kernel(x, y, name, **numbers)
    )


def test_laplace_of_another_norm():
    x = draw(6, 3)
    np.testing.assert_allclose(
        gram.kernel(x, kernel="laplace", p=1, bandwidth=2),
        np.exp(-cdist(x, x, "cityblock") / 2),
        rtol=1e-12,
    )


def test_regularization_is_on_the_diagonal_of_a_tile():
    x = draw(6, 3)
    whole = gram.kernel(x, kernel="gaussian", regularization=0.5)
    plain = gram.kernel(x, kernel="gaussian")
    np.testing.assert_allclose(whole - plain, 0.5 * np.eye(6), atol=1e-15)
    tile = gram.kernel(x[2:], x[:4], "gaussian", regularization=0.5, row_offset=2)
    np.testing.assert_allclose(tile, whole[2:, :4], rtol=1e-14)


def test_expression_with_parameters_of_every_item():
    x = draw(2, 5, 3)
    a = np.array([0.5, 2.0])
    k = gram.kernel(x, expression="exp(-s * a)", parameters={"a": a}, of="sum")
    for i in range(2):
        expected = np.exp(-cdist(x[i], x[i], "sqeuclidean") * a[i])
        np.testing.assert_allclose(k[i], expected, atol=1e-14)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "matern52", "polynomial"])
def test_kernel_vjp_is_the_derivative(name):
    x, y, grad = draw(5, 3), draw(4, 3, seed=1), draw(5, 4, seed=2)
    numbers = width(name, 1.3) | NUMBERS.get(name, {})

    def value(x, y, bandwidth, regularization):
        options = numbers | width(name, bandwidth) | {"regularization": regularization}
        return (grad * gram.kernel(x, y, name, **options)).sum()

    wrt = ("y", "x", "regularization", "bandwidth")
    got = gram.kernel_vjp(x, y, name, grad=grad, wrt=wrt, **numbers)
    assert [g.shape for g in got] == [y.shape, x.shape, (), ()]
    h = 1e-6
    for variable, g in ((1, got[0]), (0, got[1])):
        for at in np.ndindex(g.shape):
            ends = []
            for sign in (1, -1):
                moved = [x.copy(), y.copy(), 1.3, 0.0]
                moved[variable][at] += sign * h
                ends.append(value(*moved))
            assert g[at] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-7)
    assert got[2] == pytest.approx(grad.diagonal().sum())
    by_l = (value(x, y, 1.3 + h, 0) - value(x, y, 1.3 - h, 0)) / (2 * h)
    assert got[3] == pytest.approx(by_l, rel=1e-6, abs=1e-7)
    one = gram.kernel_vjp(x, y, name, grad=grad, wrt="x", **numbers)
    np.testing.assert_array_equal(one, got[1])


@pytest.mark.parametrize("name", ["gaussian", "laplace", "matern52", "polynomial", "cosine"])
def test_kernel_matmul_vjp_is_that_of_the_cotangent(name):
    x, y, v, grad = draw(50, 3), draw(40, 3, seed=1), draw(40, 2, seed=2), draw(50, 2, seed=3)
    options = width(name, 1.3) | NUMBERS.get(name, {}) | {"regularization": 0.3}
    wrt = ("x", "y", "regularization", *width(name, 1.3))
    got = gram.kernel_matmul_vjp(x, y, name, v=v, grad=grad, wrt=(*wrt, "v"), **options)
    expected = gram.kernel_vjp(x, y, name, grad=grad @ v.T, wrt=wrt, **options)
    for g, e in zip(got, expected, strict=False):
        np.testing.assert_allclose(g, e, rtol=1e-11, atol=1e-11)
    product = gram.kernel_matmul(y, x, name, v=grad, **options)
    np.testing.assert_allclose(got[-1], product, atol=1e-12)
    of_x, of_v = gram.kernel_matmul_vjp(
        x[:40], kernel=name, v=v[:, 0], grad=grad[:40, 0], wrt=("x", "v"), **options
    )
    cotangent = grad[:40, :1] @ v[:, :1].T
    parts = gram.kernel_vjp(x[:40], kernel=name, grad=cotangent, wrt=("x", "y"), **options)
    np.testing.assert_allclose(of_x, parts[0] + parts[1], atol=1e-11)
    np.testing.assert_allclose(
        of_v, gram.kernel_matmul(x[:40], kernel=name, v=grad[:40, 0], **options), atol=1e-12
    )


def test_kernel_matmul_vjp_takes_lengths_and_powers_per_item():
    x, y = draw(2, 9, 3), draw(7, 3, seed=1)
    v, grad = draw(7, 2, seed=2), draw(2, 9, 2, seed=3)
    options = {"p": np.array([1.0, 1.7]), "lengths": np.array([0.5, 1.5, 4.0])}
    wrt = ("x", "y", "lengths")
    got = gram.kernel_matmul_vjp(x, y, v=v, grad=grad, wrt=wrt, **options)
    expected = gram.kernel_vjp(x, y, grad=grad @ v.T, wrt=wrt, **options)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, atol=1e-12)
    same = {"v": draw(9, 2), "grad": draw(9, 2, seed=4), "wrt": "lengths"}
    one = gram.kernel_matmul_vjp(x[0], kernel="gaussian", lengths=options["lengths"], **same)
    cotangent = same["grad"] @ same["v"].T
    two = gram.kernel_vjp(
        x[0], kernel="gaussian", lengths=options["lengths"], grad=cotangent, wrt="lengths"
    )
    np.testing.assert_allclose(one, two, atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "matern52", "polynomial", "cosine"])
def test_lengths_divide_the_columns(name):
    x, y, grad = draw(5, 3), draw(4, 3, seed=1), draw(5, 4, seed=2)
    lengths = np.array([0.5, 1.5, 4.0])
    numbers = NUMBERS.get(name, {})
    expected = gram.kernel(x / lengths, y / lengths, name, **numbers)
    options = numbers | {"lengths": lengths}
    np.testing.assert_allclose(gram.kernel(x, y, name, **options), expected, atol=1e-13)
    product = gram.kernel_matmul(x, y, name, v=grad.T, **options)
    np.testing.assert_allclose(product, expected @ grad.T, atol=1e-12)
    values = gram.eigh_kernel(x, kernel=name, vectors=False, count=2, **options)
    of_x = gram.kernel(x / lengths, kernel=name, **numbers)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(of_x)[-2:], atol=1e-12)
    got = gram.kernel_vjp(x, y, name, grad=grad, wrt=("lengths", "x"), **options)
    assert [g.shape for g in got] == [(3,), x.shape]
    h = 1e-6
    for k in range(3):
        ends = []
        for sign in (1, -1):
            moved = lengths.copy()
            moved[k] += sign * h
            ends.append((grad * gram.kernel(x, y, name, **numbers, lengths=moved)).sum())
        assert got[0][k] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-7)
    halves = gram.kernel(
        x.astype(np.float16), kernel=name, lengths=lengths.astype(np.float32), **numbers
    )
    assert halves.dtype == np.float32


def test_lengths_that_are_refused():
    x = draw(5, 3)
    for wrong, why in (
        ([1.0, 0.0, 1.0], "lengths is 0 for coordinate 1, expected a finite number of"),
        ([1.0, 1.0, np.nan], "lengths is nan for coordinate 2"),
        ([1.0, 1.0], "lengths has 2 elements, expected one for each of the 3 columns"),
    ):
        with pytest.raises(ValueError, match=why):
            gram.kernel(x, lengths=np.array(wrong))
    with pytest.raises(ValueError, match="lengths has dtype f32, expected f64"):
        gram.kernel(x, lengths=np.ones(3, np.float32))
    with pytest.raises(ValueError, match="wrt has 'lengths', but none are given"):
        gram.kernel_vjp(x, grad=np.ones((5, 5)), wrt="lengths")


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_cdist_grad_and_agop(p):
    a, b, c, d = draw(6, 5), draw(3, 6, seed=1), draw(2, 6, seed=2), draw(3, 5, seed=3)
    difference = d[:, None, :] - b[:, :, None]  # n, k, m
    terms = np.sign(difference) * np.abs(difference) ** (p - 1)
    g = np.einsum("ok,km,nkm->onm", c, a, terms)
    np.testing.assert_allclose(gram.cdist_grad(a, b, c, d, p), g, rtol=1e-10, atol=1e-12)
    m = np.einsum("onm,olm->nl", g, g) / 5
    np.testing.assert_allclose(gram.agop(a, b, c, d, p), m, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        gram.agop(a, b, c, d, p, diagonal=True), m.diagonal(), rtol=1e-10, atol=1e-12
    )
    half = gram.agop(a[:, :2], b, c, d[:, :2], p, points=5)
    both = gram.agop(a[:, 2:], b, c, d[:, 2:], p, points=5, accumulate=True, out=half)
    assert both is half
    np.testing.assert_allclose(both, m, rtol=1e-10, atol=1e-12)


def test_median_distance():
    x = draw(30, 4)
    d = cdist(x, x, "cityblock")[np.triu_indices(30, 1)]
    assert gram.median_distance(x, 1) == pytest.approx(np.median(d), rel=1e-12)
    sample = gram.median_distance(draw(300, 4), rows=50, seed=3)
    assert sample == gram.median_distance(draw(300, 4), rows=50, seed=3) != gram.median_distance(
        draw(300, 4), rows=50, seed=4
    )
    assert gram.median_distance(draw(2, 3, 9, 4)).shape == (2, 3)


def test_kernel_matmul_is_the_product():
    x, y, v = draw(40, 3), draw(30, 3, seed=1), draw(30, 4, seed=2)
    k = gram.kernel(x, y, "matern32", bandwidth=2)
    product = gram.kernel_matmul(x, y, "matern32", v=v, bandwidth=2)
    np.testing.assert_allclose(product, k @ v, rtol=1e-12, atol=1e-12)
    one = gram.kernel_matmul(x, y, "matern32", v=v[:, 0], bandwidth=2)
    np.testing.assert_allclose(one, k @ v[:, 0], rtol=1e-12, atol=1e-12)
    gram.kernel_matmul(x, y, "matern32", v=v, bandwidth=2, accumulate=True, out=product)
    np.testing.assert_allclose(product, 2 * k @ v, rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match="needs the argument 'v'"):
        gram.kernel_matmul(x)
    with pytest.raises(TypeError, match="needs the argument 'out'"):
        gram.kernel_matmul(x, y, v=v, accumulate=True)


def power_or_inf(base, exponent):
    with np.errstate(over="ignore"):
        return float(np.float64(base) ** exponent)


@pytest.mark.parametrize("p", [0.5, 1, 1.3, 1.5, 2, 2.7, 3, 4, 5, 8, 20, 100, np.inf])
def test_cdist_is_right_over_the_range_that_it_states(p, dtype):
    """k differences of one size d, from the least to the largest for which |d|^p and its sum are
    normal numbers: the distance is d k^(1/p)."""
    limits = np.finfo(dtype)
    least, most, eps = (float(v) for v in (limits.tiny, limits.max, limits.eps))
    for k in (1, 3, 64):
        low = max(least, power_or_inf(least, 1 / p))
        high = min(most / 2, power_or_inf(most / k, 1 / p)) / max(1.0, float(k) ** (1 / p))
        d = np.geomspace(1.01 * low, 0.99 * high, 60).astype(dtype)
        got = gram.cdist(np.zeros((1, k), dtype), np.repeat(d[:, None], k, 1), p)[0]
        exact = d.astype(np.longdouble) * np.longdouble(k) ** (1 / np.longdouble(p))
        error = np.abs(got - exact) / exact
        bound = ((k + 16) / p + 4) * eps
        if dtype is np.float64:
            bound = bound + np.abs(np.log(exact)) / 2 * eps
        assert (error <= bound).all(), (k, float((error / bound).max()))
    if p == 2:  # beyond it, as it says
        beyond = np.array([[0.0], [most / 2], [least]], dtype)
        assert gram.cdist(beyond)[0].tolist() == [0, np.inf, 0]


def test_bits_that_no_number_of_threads_changes(dtype):
    """What libgram adds up itself; the rest, which BLAS adds up, agrees to rounding."""
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((n, 40)).astype(dtype) for n in (300, 230))
    v, s = x[:, :3].copy(), x[:40, :12].T @ x[:40, :12] + np.eye(12, dtype=dtype)
    factors = [x[i : i + 8, :8] for i in (0, 8)]
    calls = {
        "cdist": lambda: [gram.cdist(x, y, p) for p in (1, 2, 1.3, 3, np.inf)],
        "kernel": lambda: [gram.kernel(x, y, "gaussian", bandwidth=10.0)],
        "kernel_matmul": lambda: [gram.kernel_matmul(x, v=v)],
        "median_distance": lambda: [np.asarray(gram.median_distance(x))],
        "kron_matmul": lambda: [gram.kron_matmul(np.tile(x[:, :32], 2), factors)],
        "matmul_batched": lambda: [gram.matmul_batched(np.stack([x[:40]] * 9), x[:40].T)],
        "eigh of small ones": lambda: list(gram.eigh(np.stack([s] * 50))),
        "solve_lu of small ones": lambda: [gram.solve_lu(np.stack([s] * 50), x[:12, :3])],
    }
    before = gram.get_threads()
    try:
        for name, call in calls.items():
            results = []
            for threads in (1, 2, 3):
                gram.set_threads(threads)
                results.append([np.ascontiguousarray(r).tobytes() for r in call()])
            assert results[0] == results[1] == results[2], name
    finally:
        gram.set_threads(before)


def test_metrics_at_the_edges_of_their_formulas():
    """A weight of 0 leaves out what is infinite; -0 is 0; squares out of range give NaN."""
    x, y = np.array([[np.inf, 1.0]]), np.array([[0.0, 3.0]])
    assert gram.cdist(x, y, np.inf, metric="minkowski", weights=np.array([0.0, 1])).item() == 2
    ones = np.ones((1, 2))
    for zero in (0.0, -0.0):
        assert gram.cdist(ones, [[zero, 1.0]], metric="kullback-leibler").item() == np.inf
    far = np.array([[1e200, 0], [0, 1e200], [1, 0]])
    assert np.isnan(gram.cdist(far[:2], far, metric="cosine")).all()
