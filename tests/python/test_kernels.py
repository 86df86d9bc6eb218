"""test_kernels.py - gram.kernels: the options by name against formulas, derivatives and GPyTorch"""

import gram
import numpy as np
import pytest


def sphere(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 4))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def differences(f, x, h=1e-6):
    """The gradient of a function of an array by central differences."""
    slope = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[at] += h
        back[at] -= h
        slope[at] = (f(there) - f(back)) / (2 * h)
    return slope


def check_slopes(got, formula, x, y, grad, atol):
    """got are the gradients by x and by y of the sum of grad times the formula."""
    slopes = (
        differences(lambda a: (grad * formula(a, y)).sum(), x),
        differences(lambda a: (grad * formula(x, a)).sum(), y),
    )
    for have, slope in zip(got, slopes, strict=True):
        np.testing.assert_allclose(have, slope, rtol=1e-5, atol=atol)


def arc_cosine(order, u):
    t = np.arccos(np.clip(u, -1, 1))
    return [
        np.pi - t,
        np.sin(t) + (np.pi - t) * np.cos(t),
        3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2),
    ][order] / np.pi


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine(order):
    x, y = sphere(7), sphere(5, 1)
    y[0], y[1] = x[0], -x[1]
    options = gram.kernels.arc_cosine(order)
    # acos is as steep as the square root where points coincide.
    np.testing.assert_allclose(gram.kernel(x, y, **options), arc_cosine(order, x @ y.T), atol=1e-7)
    diagonal = gram.kernel(x.astype(np.float32), **options).diagonal()
    np.testing.assert_allclose(diagonal, [1, 1, 3][order], atol=2e-3)
    grads = gram.kernel_vjp(x, **options, grad=np.ones((7, 7)), wrt="x")
    assert np.isfinite(grads).all()


def test_arc_cosine_is_the_mean_of_random_units():
    x = sphere(3)
    units = np.maximum(x @ np.random.default_rng(2).normal(size=(4, 400_000)), 0)
    sample = 2 * units @ units.T / units.shape[1]
    np.testing.assert_allclose(gram.kernel(x, **gram.kernels.arc_cosine(1)), sample, atol=0.02)


@pytest.mark.parametrize("depth", [1, 3, 5, 10, 16])
def test_ntk(depth):
    x, y = sphere(6), sphere(5, 1)
    u = k = x @ y.T
    for _ in range(depth):
        k = k * arc_cosine(0, u) + arc_cosine(1, u)
        u = arc_cosine(1, u)
    options = gram.kernels.ntk(depth)
    np.testing.assert_allclose(gram.kernel(x, y, **options), k, atol=1e-7)
    np.testing.assert_allclose(gram.kernel(x, **options).diagonal(), depth + 1, atol=1e-6)
    grad = np.ones((6, 5))
    got = gram.kernel_vjp(x, y, **options, grad=grad)
    h = 1e-5
    for at in ((0, 0), (3, 2)):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * h
            ends.append(gram.kernel(moved, y, **options).sum())
        assert got[at] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_periodic_and_mixtures():
    x, y = np.linspace(0, 3, 7)[:, None], np.linspace(-1, 2, 5)[:, None]
    d = np.abs(x - y.T)
    expected = np.exp(-2 * np.sin(np.pi * d / 0.7) ** 2 / 1.3**2 - d**2 / (2 * 2.1**2))
    got = gram.kernel(x, y, **gram.kernels.periodic_rbf(0.7, 1.3, 2.1))
    np.testing.assert_allclose(got, expected, atol=1e-13)
    mixture = [1.0, 0.5, 0.2], [0.3, 1.1, 0.0], [0.1, 0.4, 0.9]
    terms = [
        w * np.exp(-2 * np.pi**2 * v**2 * d**2) * np.cos(2 * np.pi * m * d)
        for w, m, v in zip(*mixture, strict=True)
    ]
    got = gram.kernel(x, y, **gram.kernels.spectral_mixture(*mixture))
    np.testing.assert_allclose(got, sum(terms), atol=1e-13)
    most = gram.kernels.spectral_mixture(*[np.linspace(0.1, 2, 24)] * 3)
    assert np.isfinite(gram.kernel(x, y, **most)).all()
    got = gram.kernel_vjp(x, y, **most, grad=np.ones((7, 5)), wrt="x")
    slope = differences(lambda moved: gram.kernel(moved, y, **most).sum(), x)
    np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-4)
    v = np.ones((5, 2))
    product = gram.kernel_matmul(x, y, v=v, **most)
    np.testing.assert_allclose(product, gram.kernel(x, y, **most) @ v, atol=1e-11)


# ---- Points of any norm ------------------------------------------------------------------------


def points(n, seed):
    return np.random.default_rng(seed).normal(size=(n, 4)) * np.linspace(0.2, 3, n)[:, None]


def angle(x, y):
    norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
    return x @ y.T / norms, norms


def ntk(depth, u):
    k = u
    for _ in range(depth):
        k = k * arc_cosine(0, u) + arc_cosine(1, u)
        u = arc_cosine(1, u)
    return k


OF_ANY_NORM = [
    (gram.kernels.arc_cosine(order, norms=True), lambda u, n, o=order: n**o * arc_cosine(o, u))
    for order in (0, 1, 2)
] + [
    (gram.kernels.ntk(depth, norms=True), lambda u, n, d=depth: n * ntk(d, u))
    for depth in (1, 2, 8)
]


@pytest.mark.parametrize("options, formula", OF_ANY_NORM)
def test_points_of_any_norm(options, formula):
    x, y = points(7, 0), points(5, 1)
    want = formula(*angle(x, y))
    np.testing.assert_allclose(gram.kernel(x, y, **options), want, rtol=1e-12)
    own = gram.kernel(x, **options)
    np.testing.assert_array_equal(own, own.T)
    np.testing.assert_allclose(own, formula(*angle(x, x)), rtol=1e-6)
    single = gram.kernel(x.astype(np.float32), y.astype(np.float32), **options)
    np.testing.assert_allclose(single, want, rtol=1e-4, atol=1e-4)
    v = np.random.default_rng(2).normal(size=(5, 3))
    np.testing.assert_allclose(gram.kernel_matmul(x, y, v=v, **options), want @ v, atol=1e-10)
    largest = gram.kernel_reduce(x, y, what="max", **options)
    np.testing.assert_allclose(largest, want.max(1), rtol=1e-12)
    grad = np.random.default_rng(3).normal(size=(7, 5))
    got = gram.kernel_vjp(x, y, grad=grad, wrt=("x", "y"), **options)
    slope = differences(lambda a: (grad * formula(*angle(a, y))).sum(), x)
    np.testing.assert_allclose(got[0], slope, rtol=1e-6, atol=1e-6)
    slope = differences(lambda a: (grad * formula(*angle(x, a))).sum(), y)
    np.testing.assert_allclose(got[1], slope, rtol=1e-6, atol=1e-6)
    lengths = np.array([0.5, 2.0, 1.0, 3.0])
    got = gram.kernel_vjp(x, y, grad=grad, wrt="lengths", lengths=lengths, **options)
    slope = differences(lambda a: (grad * formula(*angle(x / a, y / a))).sum(), lengths)
    np.testing.assert_allclose(got, slope, rtol=1e-6, atol=1e-6)


def test_a_zero_point_has_numbers():
    x = np.vstack([np.zeros(4), points(3, 0)])
    for options, _ in OF_ANY_NORM:
        k = gram.kernel(x, **options)
        assert np.isfinite(k).all()
        assert np.isfinite(gram.kernel_vjp(x, grad=np.ones((4, 4)), wrt="x", **options)).all()


NORMS = "exp(-s / c) * (1 + dot * norm_x) + norm_y * norm_y * s + dot * dot / (norm_x * norm_y + c)"


@pytest.mark.parametrize("of", ["distance", "sum", "product"])
def test_an_expression_of_norms_and_a_distance(of):
    x, y, c = points(7, 0), points(5, 1), 0.7

    def formula(x, y, c=c):
        nx, ny = np.linalg.norm(x, axis=1)[:, None], np.linalg.norm(y, axis=1)
        square, dot = ((x[:, None] - y) ** 2).sum(-1), x @ y.T
        s = {"distance": np.sqrt(square), "sum": square, "product": dot}[of]
        return np.exp(-s / c) * (1 + dot * nx) + ny * ny * s + dot * dot / (nx * ny + c)

    options = {"expression": NORMS, "of": of, "parameters": {"c": c}}
    np.testing.assert_allclose(gram.kernel(x, y, **options), formula(x, y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gram.kernel(x, **options), formula(x, x), rtol=1e-9, atol=1e-9)
    grad = np.random.default_rng(3).normal(size=(7, 5)) / (1 + abs(formula(x, y)))
    got = gram.kernel_vjp(x, y, grad=grad, wrt=("x", "y"), **options)
    check_slopes(got, formula, x, y, grad, atol=1e-5)
    by_c = gram.kernel(x, y, output="parameter-derivative", parameter="c", **options)
    slope = (formula(x, y, c + 1e-6) - formula(x, y, c - 1e-6)) / 2e-6
    np.testing.assert_allclose(by_c, slope, rtol=1e-5, atol=1e-5)
    # The gradient by hand: what multiplies x - y (or y) and what multiplies x.
    weight, of_x = (gram.kernel(x, y, output=o, **options) for o in ("weight", "norm-x-weight"))
    first = (grad * weight) @ y if of == "product" else (
        x * (grad * weight).sum(1)[:, None] - (grad * weight) @ y
    )
    by_hand = first + x * (grad * of_x).sum(1)[:, None]
    np.testing.assert_allclose(by_hand, got[0], rtol=1e-9, atol=1e-9)


DISTANCES = (
    ("exp(-d1 / a) * exp(-d2 * d2 / (2 * b * b))",
     lambda s, d1, d2, n, a, b: np.exp(-d1 / a - d2**2 / (2 * b * b))),
    ("exp(-d1 / a) + (1 + d2 / b) * exp(-d2 / b) + exp(-s * s)",
     lambda s, d1, d2, n, a, b: np.exp(-d1 / a) + (1 + d2 / b) * np.exp(-d2 / b) + np.exp(-s * s)),
    ("exp(-d1 / a) * norm_x / (b + d2) + d2 * norm_x",
     lambda s, d1, d2, n, a, b: np.exp(-d1 / a) * n / (b + d2) + d2 * n),
)  # fmt: skip
OF = ({"p": 3}, {"p": 1}, {"p": 2}, {"of": "sum"}, {"p": 1.5, "of": "sum"}, {"of": "product"})


def sum_of(x, y, p=2.0, of="distance"):
    if of == "product":
        return x @ y.T
    power = (abs(x[:, None] - y) ** p).sum(-1)
    return power if of == "sum" else power ** (1 / p)


@pytest.mark.parametrize("what", OF, ids=str)
@pytest.mark.parametrize("text, of_distances", DISTANCES, ids=[row[0] for row in DISTANCES])
def test_an_expression_of_several_distances(text, of_distances, what):
    x, y, a, b = points(7, 0) / 3, points(5, 1) / 3, 1.3, 0.7

    def formula(x, y, a=a, b=b):
        n = np.linalg.norm(x, axis=1)[:, None]
        s, d1, d2 = (sum_of(x, y, **o) for o in (what, {"p": 1}, {"p": 2}))
        return of_distances(s, d1, d2, n, a, b)

    options = {"expression": text, "parameters": {"a": a, "b": b}, **what}
    for dtype, close in ((np.float64, 1e-12), (np.float32, 2e-5)):
        got = gram.kernel(x.astype(dtype), y.astype(dtype), **options)
        np.testing.assert_allclose(got, formula(x, y), rtol=close, atol=close)
    np.testing.assert_allclose(gram.kernel(x, **options), formula(x, x), rtol=1e-12)
    v = points(5, 2)
    got = gram.kernel_matmul(x, y, v=v, **options)
    np.testing.assert_allclose(got, formula(x, y) @ v, rtol=1e-9, atol=1e-9)
    grad = np.random.default_rng(3).normal(size=(7, 5))
    got = gram.kernel_vjp(x, y, grad=grad, wrt=("x", "y"), **options)
    check_slopes(got, formula, x, y, grad, atol=1e-6)
    for name in "ab":
        ends = [formula(x, y, **{"a": a, "b": b, name: value})
                for value in ({"a": a, "b": b}[name] + h for h in (1e-6, -1e-6))]  # fmt: skip
        by_number = gram.kernel(x, y, output="parameter-derivative", parameter=name, **options)
        np.testing.assert_allclose(by_number, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_points_that_coincide_in_several_distances():
    x = points(5, 0)
    x[3], x[4, 1] = x[2], x[1, 1]
    lengths = np.array([0.5, 2.0, 1.0, 3.0])
    options = {"expression": "exp(-d1) + exp(-d2) + s", "p": 3, "lengths": lengths}
    grad = np.random.default_rng(3).normal(size=(5, 5))
    of_x, of_y = gram.kernel_vjp(x, x.copy(), grad=grad, wrt=("x", "y"), **options)
    d = (x[:, None] - x) / lengths
    d1, d2, d3 = (gram.cdist(x / lengths, p=p)[..., None] for p in (1, 2, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = -np.exp(-d1) * np.sign(d) - np.exp(-d2) * d / d2 + d * abs(d) / d3**2
    slope = np.where(d2 > 0, slope, 0) / lengths
    np.testing.assert_allclose(of_x, (grad[..., None] * slope).sum(1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(of_y, -(grad[..., None] * slope).sum(0), rtol=1e-9, atol=1e-12)


def test_the_parts_of_a_gradient_by_several_distances():
    x, y = points(6, 0), points(5, 1)
    options = {"expression": "exp(-d1) * (1 + d2)", "of": "product"}
    d1, d2 = gram.cdist(x, y, p=1), gram.cdist(x, y)
    weights = [gram.kernel(x, y, output=o, **options) for o in ("weight", "d1-weight", "d2-weight")]
    expected = [0 * d1, -np.exp(-d1) * (1 + d2), np.exp(-d1) / d2]
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="GRAM_D2_WEIGHT, which only GRAM_EXPRESSION has"):
        gram.kernel(x, output="d2-weight")


def test_several_distances_where_there_are_none():
    x = abs(points(4, 0))
    for text in ("d1", "exp(-d2)"):
        with pytest.raises(NotImplementedError, match="has d1 or d2, which there is not"):
            gram.kernel(x, expression=text, metric="canberra")
    assert gram.kernel(x, expression="d1 + 0 * s", parameters={"d1": 3.0})[0, 1] == 3


def test_gradients_of_torch_through_several_distances():
    torch = pytest.importorskip("torch", minversion="2.4")
    x, y = (torch.from_numpy(points(n, n) / 3).requires_grad_() for n in (5, 4))
    numbers = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.3, 0.7)]
    lengths = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)

    def kernel(x, y, a, b, lengths):
        return gram.torch.kernel(x, y, expression=DISTANCES[1][0], p=3, lengths=lengths,
                                 parameters={"a": a, "b": b})  # fmt: skip

    torch.autograd.gradcheck(kernel, (x, y, *numbers, lengths))


def test_derivatives_of_jax_through_several_distances():
    jax = pytest.importorskip("jax")
    pytest.importorskip("gram.jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x, u = (jax.numpy.asarray(points(5, n) / 3) for n in (0, 1))

        def kernel(x):
            return gram.jax.kernel(x, expression="exp(-d1) * (1 + d2) + s", p=3)

        got, along = jax.jvp(kernel, (x,), (u,))
        h = 1e-6
        slope = (kernel(x + h * u) - kernel(x - h * u)) / (2 * h)
        np.testing.assert_allclose(along, slope, rtol=1e-5, atol=1e-7)
        grad = jax.grad(lambda x: (kernel(x) * got).sum())(x)
        np.testing.assert_allclose((grad * u).sum(), (along * got).sum(), rtol=1e-9)


def test_norms_are_refused_where_there_are_none():
    x = points(4, 0)
    with pytest.raises(ValueError, match="no dot unless s is an inner product"):
        gram.kernel(x, expression="dot", p=1)
    assert gram.kernel(x, expression="dot + 0 * s", parameters={"dot": 3.0})[0, 1] == 3


# ---- Derivatives by numbers ---------------------------------------------------------------------


def test_derivatives_by_every_number():
    x = np.linspace(0, 3, 7)[:, None]
    makers = (
        (gram.kernels.periodic_rbf, (0.7, 1.3, 2.1), ("period", "periodic_lengthscale",
                                                      "lengthscale")),
        (lambda *n: gram.kernels.spectral_mixture(n[::3], n[1::3], n[2::3]),
         (1.0, 0.3, 0.1, 0.5, 1.1, 0.4),
         ("weight0", "mean0", "scale0", "weight1", "mean1", "scale1")),
    )
    for make, values, names in makers:
        for i, name in enumerate(names):
            ends = []
            for sign in (1, -1):
                moved = list(values)
                moved[i] += sign * 1e-6
                ends.append(gram.kernel(x, **make(*moved)))
            got = gram.kernel(x, output="parameter-derivative", parameter=name, **make(*values))
            slope = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(got, slope, rtol=1e-6, atol=1e-7)


def test_gradients_of_torch_by_every_number():
    torch = pytest.importorskip("torch", minversion="2.4")
    x = torch.linspace(0, 3, 5, dtype=torch.float64)[:, None].requires_grad_()
    numbers = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 1.3, 2.1)]

    def periodic(x, *numbers):
        return gram.torch.kernel(x, **gram.kernels.periodic_rbf(*numbers))

    torch.autograd.gradcheck(periodic, (x, *numbers))
    wide = torch.from_numpy(points(5, 0)).requires_grad_()
    lengths = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    other = torch.from_numpy(points(4, 1))
    options = gram.kernels.ntk(2, norms=True)
    torch.autograd.gradcheck(
        lambda x, l: gram.torch.kernel(x, other, lengths=l, **options), (wide, lengths)
    )


def test_those_of_gpytorch():
    torch = pytest.importorskip("torch", minversion="2.4")
    gpytorch = pytest.importorskip("gpytorch", minversion="1.14")
    x = torch.linspace(0, 3, 7, dtype=torch.float64)[:, None]
    rbf, periodic = gpytorch.kernels.RBFKernel(), gpytorch.kernels.PeriodicKernel()
    rbf.lengthscale, periodic.period_length, periodic.lengthscale = 2.1, 0.7, 1.3**2
    expected = (rbf * periodic).double()(x).to_dense().detach()
    # Its periodic kernel divides by the lengthscale, not by its square.
    got = gram.kernel(x, **gram.kernels.periodic_rbf(0.7, 1.3, 2.1))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    theirs = gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2).double()
    weights, means, scales = [1.0, 0.5], [0.3, 1.1], [0.1, 0.4]
    theirs.mixture_weights = torch.tensor(weights)
    theirs.mixture_means = torch.tensor(means).reshape(2, 1, 1)
    theirs.mixture_scales = torch.tensor(scales).reshape(2, 1, 1)
    got = gram.kernel(x, **gram.kernels.spectral_mixture(weights, means, scales))
    torch.testing.assert_close(got, theirs(x).to_dense().detach(), rtol=1e-6, atol=1e-6)


def test_what_is_refused():
    for f, args, why in (
        (gram.kernels.arc_cosine, (3,), "order is 3, expected a whole number from 0 to 2"),
        (gram.kernels.ntk, (0,), "depth is 0, expected a whole number from 1 to 16"),
        (gram.kernels.periodic_rbf, (0.0,), "period is 0.0, expected a finite number above 0"),
        (gram.kernels.spectral_mixture, ([1], [1, 2], [1]), "1 weights, 2 means and 1 scales"),
        (gram.kernels.spectral_mixture, ([1], ["1"], [1]), "a mean is '1', expected a finite"),
    ):
        with pytest.raises(ValueError, match=why):
            f(*args)


METRICS = (
    "cosine correlation canberra braycurtis hamming jaccard jensenshannon kullback-leibler "
    "hellinger chi2 nan-euclidean"
).split()


@pytest.mark.parametrize("metric", METRICS)
def test_kernels_of_a_metric(metric):
    x, y = (np.random.default_rng(s).random((n, 6)) for s, n in ((0, 9), (1, 7)))
    weights = np.arange(1.0, 7)
    options = {"metric": metric, "weights": weights}
    d = gram.cdist(x, y, **options)
    laplace = gram.kernel(x, y, "laplace", bandwidth=0.5, **options)
    np.testing.assert_allclose(laplace, np.exp(-d / 0.5), rtol=1e-12)
    gaussian = gram.kernel(x, y, "gaussian", **options)
    np.testing.assert_allclose(gaussian, np.exp(-(d**2) / 2), rtol=1e-12)
    of_power = gram.kernel(x, y, "distance", outer_power=3, **options)
    np.testing.assert_allclose(of_power, d**3, rtol=1e-12)
    formula = {"expression": "1 / (1 + c * s)", "parameters": {"c": 2}}
    np.testing.assert_allclose(gram.kernel(x, y, **formula, **options), 1 / (1 + 2 * d))
    v = np.random.default_rng(2).random((7, 3))
    product = gram.kernel_matmul(x, y, "laplace", v=v, bandwidth=0.5, **options)
    np.testing.assert_allclose(product, laplace @ v, rtol=1e-12)
    largest = gram.kernel_reduce(x, y, "laplace", what="argmax", bandwidth=0.5, **options)
    np.testing.assert_array_equal(largest, laplace.argmax(axis=1))


def test_kernels_of_weighted_norms():
    x, w = np.random.default_rng(0).random((9, 4)), np.array([2.0, 0, 1, 3])
    for p in (1, 1.5, 2):
        d = gram.cdist(x, p=p, weights=w)
        np.testing.assert_allclose(gram.kernel(x, p=p, weights=w), np.exp(-d), rtol=1e-12)
        total = gram.kernel(x, expression="s", of="sum", p=p, weights=w)
        np.testing.assert_allclose(total, d**p, atol=1e-12)
    d = gram.cdist(x, metric="seuclidean", weights=w + 1)
    values, vectors = gram.eigh_kernel(
        x, kernel="laplace", metric="seuclidean", weights=w + 1, count=2
    )
    np.testing.assert_allclose(np.exp(-d) @ vectors, vectors * values, atol=1e-9)


def test_metrics_where_they_mean_nothing():
    x = np.ones((3, 2))
    for words, options in {
        "p is given, but the metric cosine": {"metric": "cosine", "p": 1},
        "this kernel is not a function of a distance": {"kernel": "linear", "metric": "cosine"},
        "this expression is not": {"expression": "s", "of": "product", "metric": "chi2"},
        "expected NULL with metric": {"metric": "chi2", "lengths": np.ones(2)},
    }.items():
        with pytest.raises(ValueError, match=words):
            gram.kernel(x, **options)
    with pytest.raises(NotImplementedError, match="no derivative"):
        gram.kernel_vjp(x, grad=np.ones((3, 3)), metric="chi2")
