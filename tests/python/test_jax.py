"""test_jax.py - gram.jax: values, jit, gradients by differences, vmap, what fails

Skipped without JAX 0.6.
"""

import contextlib
import os
import threading

import gram
import numpy as np
import pytest

# What takes the time is compiling.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

gj = pytest.importorskip("gram.jax")
import gram.optim  # noqa: E402


@pytest.fixture(autouse=True)
def doubles():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def draw(*shape, seed=0, dtype=jnp.float64):
    """NumPy's, as rows are taken below: of its own JAX compiles a program for each shape."""
    return jnp.asarray(np.random.default_rng([1, seed, *shape]).normal(size=shape), dtype)


def symmetric(s):
    return (s + s.mT) / 2


def definite(s):
    return s @ s.mT + 3 * jnp.eye(s.shape[-1], dtype=s.dtype)


def projector(vectors):
    return vectors[..., 2:] @ vectors[..., 2:].mT


def check(f, inputs, order=1):
    check_grads(jax.jit(f), inputs, order=order, modes=["fwd", "rev"], atol=1e-4, rtol=1e-4)


EXACT = 1e-12 if jax.default_backend() == "cpu" else 1e-10
SQUARE, FACTORS = (4, 4), ((2, 3), (3, 2))

# Every operation on arrays of these shapes, and the same of gram.
OPERATIONS = {
    "cdist": (gj.cdist, gram.cdist, [(4, 3), (5, 3)]),
    "cdist of one set": (lambda x: gj.cdist(x, p=1.5), lambda x: gram.cdist(x, p=1.5), [(4, 3)]),
    "kernel": (
        lambda x, y, b: gj.kernel(x, y, "matern32", bandwidth=1 + b**2, regularization=0.5),
        lambda x, y, b: gram.kernel(x, y, "matern32", bandwidth=1 + b**2, regularization=0.5),
        [(4, 3), (5, 3), ()],
    ),
    "expression": (
        lambda x, y: gj.kernel(x, y, expression="exp(-s / a) + b", parameters={"a": 2, "b": 3}),
        lambda x, y: gram.kernel(x, y, expression="exp(-s / a) + b", parameters={"a": 2, "b": 3}),
        [(4, 3), (5, 3)],
    ),
    "kernel_matmul": (
        lambda x, y, v: gj.kernel_matmul(x, y, "gaussian", v=v, row_offset=1, regularization=0.3),
        lambda x, y, v: gram.kernel_matmul(
            x, y, "gaussian", v=v, row_offset=1, regularization=0.3
        ),
        [(4, 3), (5, 3), (5, 2)],
    ),
    "softmax": (
        lambda x, y, v, logs: gj.kernel_reduce(
            x, y, "gaussian", what="softmax", v=v, log_weights=logs, scale=3.0
        ),
        lambda x, y, v, logs: gram.kernel_reduce(
            x, y, "gaussian", what="softmax", v=v, log_weights=logs, scale=3.0
        ),
        [(4, 3), (5, 3), (5, 2), (5,)],
    ),
    "logsumexp of one set": (
        lambda x, r: gj.kernel_reduce(x, what="logsumexp", regularization=r, row_offset=1),
        lambda x, r: gram.kernel_reduce(x, what="logsumexp", regularization=r, row_offset=1),
        [(4, 3), ()],
    ),
    "cdist_grad": (
        lambda *t: gj.cdist_grad(*t, p=1.5),
        lambda *t: gram.cdist_grad(*t, p=1.5),
        [(5, 4), (3, 5), (2, 5), (3, 4)],
    ),
    "agop": (
        lambda *t: gj.agop(*t, p=1),
        lambda *t: gram.agop(*t, p=1),
        [(5, 4), (3, 5), (2, 5), (3, 4)],
    ),
    "agop diagonal": (
        lambda *t: gj.agop(*t, diagonal=True, points=9),
        lambda *t: gram.agop(*t, diagonal=True, points=9),
        [(5, 4), (3, 5), (2, 5), (3, 4)],
    ),
    "solve_cholesky": (
        lambda s, b: gj.solve_cholesky(definite(s), b),
        lambda s, b: gram.solve_cholesky(np.asarray(definite(s)), b),
        [SQUARE, (4, 2)],
    ),
    "solve_cholesky upper": (
        lambda s, b: gj.solve_cholesky(definite(s), b, lower=False),
        lambda s, b: gram.solve_cholesky(np.asarray(definite(s)), b, lower=False),
        [SQUARE, (4, 2)],
    ),
    "solve_lu": (gj.solve_lu, gram.solve_lu, [SQUARE, (4, 2)]),
    "eigenvalues": (
        lambda s: gj.eigh(symmetric(s), vectors=False),
        lambda s: gram.eigh(np.asarray(symmetric(s)), vectors=False),
        [SQUARE],
    ),
    "the largest": (
        lambda s: gj.eigh(symmetric(s), vectors=False, select="largest", count=2),
        lambda s: gram.eigh(np.asarray(symmetric(s)), vectors=False, select="largest", count=2),
        [SQUARE],
    ),
    "projector of eigenvectors": (
        lambda s: projector(gj.eigh(symmetric(s))[1]),
        lambda s: projector(jnp.asarray(gram.eigh(np.asarray(symmetric(s)))[1])),
        [SQUARE],
    ),
    "matrix_power": (
        lambda s: gj.matrix_power(definite(s), -3, 4, ridge=0.5),
        lambda s: gram.matrix_power(np.asarray(definite(s)), -3, 4, ridge=0.5),
        [SQUARE],
    ),
    "matrix_power real": (
        lambda s: gj.matrix_power(definite(s), power=-0.4142),
        lambda s: gram.matrix_power(np.asarray(definite(s)), power=-0.4142),
        [SQUARE],
    ),
    "matrix_power floor": (
        lambda s: gj.matrix_power(symmetric(s), -1, 2, ridge=0.1, floor=0.3),
        lambda s: gram.matrix_power(np.asarray(symmetric(s)), -1, 2, ridge=0.1, floor=0.3),
        [SQUARE],
    ),
    "kron_matmul": (
        lambda x, *f: gj.kron_matmul(x, f, alpha=2.0),
        lambda x, *f: gram.kron_matmul(x, f, alpha=2.0),
        [(3, 6), *FACTORS],
    ),
    "kron_matmul left": (
        lambda x, *f: gj.kron_matmul(x, f, side="left"),
        lambda x, *f: gram.kron_matmul(x, f, side="left"),
        [(6, 3), *FACTORS],
    ),
}  # fmt: skip
ONCE = (
    "expression", "the largest", "matrix_power", "matrix_power real", "matrix_power floor",
)  # fmt: skip


@contextlib.contextmanager
def offered():
    """Skips what a GPU does not offer."""
    try:
        yield
    except jax.errors.JaxRuntimeError as e:
        if jax.default_backend() == "cpu" or "UNIMPLEMENTED" not in str(e):
            raise
        pytest.skip(str(e))


def inputs_of(name):
    return [draw(*shape, seed=i) for i, shape in enumerate(OPERATIONS[name][2])]


@pytest.mark.parametrize("name", OPERATIONS)
@offered()
def test_values_are_those_of_gram(name):
    f, reference, _ = OPERATIONS[name]
    inputs = inputs_of(name)
    expected = reference(*[np.asarray(a) for a in inputs])
    for run in (f, jax.jit(f)):
        np.testing.assert_allclose(run(*inputs), expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", OPERATIONS)
@offered()
def test_gradients(name):
    f, inputs = OPERATIONS[name][0], inputs_of(name)
    check(f, inputs, 1 if name in ONCE else 2)
    if name in ONCE:
        with pytest.raises(NotImplementedError, match="has no second derivative"):
            jax.hessian(lambda x: f(x, *inputs[1:]).sum())(inputs[0])


@pytest.mark.parametrize("name", OPERATIONS)
@offered()
def test_vmap_is_a_loop(name):
    """Over all inputs, over one after the other, and twice: values and gradients."""
    f, _, shapes = OPERATIONS[name]
    count = len(shapes)
    gradients = jax.grad(lambda *t: f(*t).sum(), argnums=tuple(range(count)))
    both = jax.jit(lambda *t: (f(*t), *gradients(*t)))
    plain = inputs_of(name)
    for mapped in {tuple(range(count)), *[(i,) for i in range(count)]}:
        inputs = [draw(2, *s, seed=i) if i in mapped else plain[i] for i, s in enumerate(shapes)]
        axes = [0 if i in mapped else None for i in range(count)]
        found = jax.jit(jax.vmap(both, axes))(*inputs)
        for b in range(2):
            row = [np.asarray(a)[b] if i in mapped else a for i, a in enumerate(inputs)]
            for got, expected in zip(found, both(*row), strict=True):
                np.testing.assert_allclose(np.asarray(got)[b], expected, rtol=1e-7, atol=1e-7)
    axes = [None] * (count - 1)
    twice = jax.jit(jax.vmap(jax.vmap(both, [*axes, 0]), [*axes, 1]))
    last = draw(3, 2, *shapes[-1])
    row = np.asarray(last)[2, 1]
    for got, expected in zip(twice(*plain[:-1], last), both(*plain[:-1], row), strict=True):
        np.testing.assert_allclose(np.asarray(got)[1, 2], expected, rtol=1e-7, atol=1e-7)


KERNELS = (
    "laplace lpq-laplace product-laplace gaussian matern32 matern52 rational-quadratic linear "
    "polynomial sigmoid cosine distance"
).split()


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_kernels(name):
    def f(x, y, bandwidth, regularization):
        numbers = {"bandwidth": bandwidth, "regularization": regularization}
        return gj.kernel(x, y, name, **numbers, exponent=1.4, alpha=1.7, gamma=0.3, coef0=0.5)

    check(f, (draw(4, 3), draw(3, 3), 1.3, 0.2), 2)
    check(lambda x, b: f(x, None, b, 0.2), (draw(2, 4, 3), jnp.array([1.3, 0.8])))


@pytest.mark.parametrize("name", ["laplace", "gaussian", "matern32", "polynomial", "cosine"])
def test_gradients_of_lengths(name):
    lengths = jnp.array([0.7, 1.4, 2.1])
    x, y, v = draw(4, 3), draw(3, 3), draw(4, 2)
    check(lambda x, y, n: gj.kernel(x, y, name, lengths=n), (x, y, lengths), 2)
    check(lambda x, n, v: gj.kernel_matmul(x, kernel=name, v=v, lengths=n), (x, lengths, v))
    expected = gram.kernel(*[np.asarray(a) for a in (x, y)], name, lengths=np.asarray(lengths))
    found = jax.jit(lambda n: gj.kernel(x, y, name, lengths=n))
    np.testing.assert_allclose(found(lengths), expected, rtol=EXACT, atol=EXACT)
    assert np.isnan(found(-lengths)).any()
    mapped = jax.vmap(found)(jnp.stack([lengths, 2 * lengths]))
    np.testing.assert_allclose(mapped[1], found(2 * lengths), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("block", [1 << 22, 20, 1])
@offered()
def test_gradients_of_products_with_kernels(block, monkeypatch):
    from gram import _jax_points

    monkeypatch.setattr(_jax_points, "_BLOCK", block)

    def f(x, y, v, bandwidth, regularization):
        numbers = {"bandwidth": bandwidth, "regularization": regularization}
        return gj.kernel_matmul(x, y, "matern32", v=v, column_offset=2, **numbers)

    check(f, (draw(5, 3), draw(4, 3), draw(4, 2), 1.3, 0.2), 2 if block == 20 else 1)
    check(f, (draw(2, 5, 3), draw(4, 3), draw(4, 2), jnp.array([1.3, 0.8]), 0.2))
    check(lambda x, v, r: gj.kernel_matmul(x, v=v, regularization=r), (draw(5, 3), draw(5), 0.2))
    check(lambda v: gj.kernel_matmul(draw(5, 3), v=v), (draw(5, 1),), 2)


@pytest.mark.parametrize("block", [1 << 22, 10, 1])
@offered()
def test_gradients_of_soft_reductions(block, monkeypatch):
    """In blocks of rows, of batches, of vectors, and of a row whose weights are all 0 but one."""
    from gram import _jax_points

    monkeypatch.setattr(_jax_points, "_BLOCK", block)

    def f(x, y, v, logs, bandwidth, regularization):
        numbers = {"bandwidth": bandwidth, "regularization": regularization, "column_offset": 1}
        soft = {"v": v, "log_weights": logs, "scale": -2.0}
        return gj.kernel_reduce(x, y, "matern32", what="softmax", **soft, **numbers)

    x, y, v, logs = draw(5, 3), draw(4, 3), draw(4, 2), draw(4)
    check(f, (x, y, v, logs, 1.3, 0.2), 2 if block == 10 else 1)
    check(f, (draw(2, 5, 3), y, v, draw(3, 1, 4), jnp.array([1.3, 0.8]), 0.2))
    check(lambda x, v: gj.kernel_reduce(x, what="softmax", v=v), (x, draw(5)))
    lengths = jnp.array([0.7, 1.4, 2.1])
    least = lambda x, n: gj.kernel_reduce(  # noqa: E731
        x, y, "distance", what="logsumexp", scale=-3.0, lengths=n
    )
    check(least, (x, lengths))
    alone = jnp.array([-jnp.inf, 0, -jnp.inf, -jnp.inf])
    for g in jax.grad(lambda *a: f(*a, 1.3, 0.2).sum(), (0, 1, 2, 3))(x, y, v, alone):
        assert jnp.isfinite(g).all()


@offered()
def test_gradients_of_reductions_of_norms():
    x, y, v = draw(5, 3), draw(4, 3), draw(4, 2)
    options = {"expression": NORMS, "parameters": {"c": 0.7}, "what": "softmax"}
    check(lambda x, y, v: gj.kernel_reduce(x, y, v=v, **options), (x, y, v))


@pytest.mark.parametrize("wide", [True, False])
def test_extreme_values_and_places(wide):
    """The integers of JAX are int32 without jax_enable_x64."""
    jax.config.update("jax_enable_x64", wide)
    dtype = jnp.float64 if wide else jnp.float32
    x, y = draw(3, 6, 2, dtype=dtype), draw(7, 2, dtype=dtype)
    mine = [np.asarray(a) for a in (x, y)]
    for what in ("min", "max", "argmin", "argmax"):
        wanted = gram.kernel_reduce(*mine, what=what)
        for f in (gj.kernel_reduce, jax.jit(gj.kernel_reduce, static_argnames="what")):
            found = f(x, y, what=what)
            wanted_dtype = jnp.zeros(1, int).dtype if what[:3] == "arg" else dtype
            assert found.shape == (3, 6) and found.dtype == wanted_dtype
            np.testing.assert_array_equal(found, wanted)
        mapped = jax.vmap(lambda x, w=what: gj.kernel_reduce(x, y, what=w))(x)
        np.testing.assert_array_equal(mapped, wanted)
    places = gj.kernel_reduce(x, jnp.zeros((0, 2), x.dtype), what="argmax")
    assert (places == -1).all() and places.shape == (3, 6)
    at = lambda x: x[0, gj.kernel_reduce(x[0], what="argmin")].sum()  # noqa: E731
    assert jnp.isfinite(jax.grad(at)(x)).all()
    with pytest.raises(NotImplementedError, match="what='min' has no gradient"):
        jax.grad(lambda x: gj.kernel_reduce(x, what="min").sum())(x)


@offered()
def test_reductions_of_halves_and_of_nothing():
    x = draw(6, 3).astype(jnp.float16)
    f = lambda x: gj.kernel_reduce(x, what="logsumexp").sum()  # noqa: E731
    assert f(x).dtype == jnp.float32 and jax.grad(f)(x).dtype == jnp.float16
    none = gj.kernel_reduce(x[:0], x, what="softmax", v=jnp.ones((6, 2)))
    assert none.shape == (0, 2)
    assert gj.kernel_reduce(x, x[:0], what="logsumexp").tolist() == [-np.inf] * 6
    of_none = jax.grad(lambda x: gj.kernel_reduce(x[:0], x, what="logsumexp").sum())(x)
    assert not of_none.any()


# The norms are used differently, so K(y, x) is not the transposed matrix of K(x, y).
NORMS = "exp(-s / c) * (1 + dot * norm_x) + norm_y * norm_y * s"


@pytest.mark.parametrize("of, block", [("distance", 1 << 22), ("distance", 8), ("product", 1)])
@offered()
def test_gradients_of_norms_that_are_not_exchangeable(of, block, monkeypatch):
    from gram import _jax_points

    monkeypatch.setattr(_jax_points, "_BLOCK", block)
    options = {"expression": NORMS, "of": of, "parameters": {"c": 0.7}}
    x, y, v = draw(5, 3), draw(4, 3), draw(4, 2)
    check(lambda x, y: gj.kernel(x, y, **options), (x, y))
    check(lambda x, y, v: gj.kernel_matmul(x, y, v=v, **options), (x, y, v))
    check(lambda x, v: gj.kernel_matmul(x, v=v, **options), (x, draw(5)))
    check(lambda v: gj.kernel_matmul(x, y, v=v, **options), (v,), 2)
    of_v = jax.grad(lambda v, x: (gj.kernel_matmul(x, y, v=v, **options) ** 2).sum())
    check(of_v, (v, x))
    mapped = jax.vmap(lambda v: of_v(v, x))(draw(3, 4, 2))
    np.testing.assert_allclose(mapped[1], of_v(draw(3, 4, 2)[1], x), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3])
def test_gradients_are_finite_at_ties(p):
    x = jnp.array([[1.0, 2, 3], [1, 2, 3], [1, 5, 3]])
    for f in (gj.cdist, lambda x, p: gj.kernel(x, p=p), lambda x, p: gj.cdist(x, p=p, root=False)):
        assert jnp.isfinite(jax.grad(lambda x, f=f: f(x, p=p).sum())(x)).all()
    one = jnp.ones((3, 3))
    for g in jax.grad(lambda *t: gj.cdist_grad(*t, p=p).sum(), argnums=(0, 1, 2, 3))(*[one] * 4):
        assert jnp.isfinite(g).all()


def test_batches_broadcast():
    x, y, b = draw(2, 1, 4, 3), draw(5, 6, 3), draw(5) ** 2 + 1
    k = gj.kernel(x, y, bandwidth=b)
    np.testing.assert_allclose(k, gram.kernel(*map(np.asarray, (x, y)), bandwidth=np.asarray(b)))
    check(lambda x, y, b: gj.kernel(x, y, bandwidth=b), (x, y, b))
    assert gj.cdist(jnp.zeros((0, 3)), jnp.ones((2, 3))).shape == (0, 2)


def test_halves_and_single_precision():
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):
        x = draw(6, 3).astype(dtype)
        assert gj.cdist(x).dtype == jnp.float32
        g = jax.grad(lambda x: gj.cdist(x).sum())
        assert g(x).dtype == dtype
        np.testing.assert_allclose(g(x).astype(float), g(x.astype(float)), rtol=0.05, atol=0.05)


def test_weights_and_medians():
    x = draw(7, 3)
    for output in ("weight", "bandwidth-derivative"):
        np.testing.assert_allclose(
            gj.kernel(x, output=output), gram.kernel(np.asarray(x), output=output)
        )
        with pytest.raises(NotImplementedError, match="output='value'"):
            jax.grad(lambda x, o=output: gj.kernel(x, output=o).sum())(x)
    assert gj.median_distance(x, 1) == gram.median_distance(np.asarray(x), 1)
    scaled = lambda x: gj.kernel(x, bandwidth=gj.median_distance(x)).sum()  # noqa: E731
    assert jnp.isfinite(jax.grad(scaled)(x)).all()


def test_an_item_that_fails_is_nan():
    a = jnp.stack([jnp.eye(3), -jnp.eye(3), jnp.eye(3)])
    for f in (gj.solve_cholesky, gj.solve_lu):
        x = jax.jit(f)(a * jnp.array([1.0, f is gj.solve_cholesky, 1.0])[:, None, None], 0 * a + 1)
        assert jnp.isfinite(x[::2]).all() and jnp.isnan(x[1]).all()
    assert jnp.isnan(gj.solve_cholesky(-jnp.eye(2), jnp.zeros(2))).all()
    w, v = gj.eigh(a.at[1].set(jnp.nan))
    assert jnp.isfinite(w[::2]).all() and jnp.isnan(w[1]).all() and jnp.isnan(v[1]).all()
    power = gj.matrix_power(a)
    assert jnp.isfinite(power[::2]).all() and jnp.isnan(power[1]).all()


def test_what_is_refused():
    x = draw(4, 3)
    for wrong, error, words in (
        (lambda: gj.cdist(x, draw(4, 2)), ValueError, "x has 3 columns but y has 2"),
        (lambda: gj.cdist(x, x.astype(jnp.float32)), TypeError, "y has dtype float32"),
        (lambda: gj.cdist(jnp.arange(6).reshape(2, 3)), TypeError, "dtype int"),
        (lambda: gj.cdist(x[0]), ValueError, "x has 1 dimensions"),
        (lambda: gj.kernel(x, kernel="none"), ValueError, "none"),
        (lambda: gj.kernel(x, alpha=jnp.ones(2)), TypeError, "alpha is an array"),
        (lambda: gj.kernel(x, metric="canberra"), ValueError, "metric or weights are given"),
        (lambda: gj.kernel_matmul(x, v=x, metric="canberra"), ValueError, "metric or weights are"),
        (lambda: gj.kernel(x, weights=[1.0, 1.0, 1.0]), ValueError, "metric or weights are given"),
        (lambda: gj.kernel(x, expression="s +").block_until_ready(), Exception,
         "gram.jax.kernel: options.expression"),
        (lambda: gj.solve_lu(x, x), ValueError, "4 by 3"),
        (lambda: gj.kernel_matmul(x, v=x[:3]), ValueError, "v has 3 rows"),
        (lambda: gj.kernel_reduce(x, what="mean"), ValueError, "what is 'mean', expected 'argmin'"),
        (lambda: gj.kernel_reduce(x, what="softmax"), ValueError, "v is not given"),
        (lambda: gj.kernel_reduce(x, what="max", v=x), ValueError, "v is given, expected none"),
        (lambda: gj.kernel_reduce(x, what="softmax", v=x[:3]), ValueError, "v has 3 rows"),
        (lambda: gj.kernel_reduce(x, what="min", log_weights=x[0]), ValueError,
         "log_weights is given"),
        (lambda: gj.kernel_reduce(x, what="logsumexp", log_weights=x[0]), ValueError,
         r"log_weights has the shape \(3,\)"),
        (lambda: gj.kernel_reduce(x, x[:, :2], what="min"), ValueError, "y has 2"),
        (lambda: gj.kron_matmul(x, [x]), ValueError, "x has 3 columns"),
        (lambda: gj.kron_matmul(x, [x], side="up"), ValueError, "'up'"),
        (lambda: gj.eigh(x @ x.T, select="value"), ValueError, "'value'"),
        (lambda: gj.matrix_power(x @ x.T, method="no"), ValueError, "'no'"),
        (lambda: gj.matrix_power(x @ x.T, power=0.3, method="no"), ValueError, "'no'"),
        (lambda: gj.matrix_power(x @ x.T, power=0.0), ValueError, "power is 0.0"),
        (lambda: gj.matrix_power(x @ x.T, floor=3.0).block_until_ready(), Exception, "floor is 3"),
        (lambda: gj.cdist(x, p=-1.0).block_until_ready(), Exception, "gram.jax.cdist: p"),
        (lambda: jax.hessian(lambda x: gj.cdist(x, p=np.inf).sum())(x), NotImplementedError, "inf"),
        (lambda: jax.grad(lambda x: gj.cdist_grad(x, x.T, x.T, x.T, p=np.inf).sum())(x[:3]),
         NotImplementedError, "inf"),
        (lambda: jax.jacfwd(jax.hessian(lambda x: gj.cdist(x).sum()))(x), NotImplementedError,
         "third derivative"),
        (lambda: jax.vmap(gj.cdist)(draw(*[1] * 9)).block_until_ready(), Exception,
         "more than 8 dimensions"),
    ):
        with pytest.raises(error, match=words):
            wrong()


def raw(name, op, *arrays, shape=(4, 4), integers=(1, 0), numbers=(2.0,), **options):
    run = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(shape, jnp.float64))
    words = {"integers": np.array(integers), "numbers": np.array(numbers), "text": ""}
    return run(*arrays, op=op, **words | options).block_until_ready()


def test_calls_that_this_version_does_not_have():
    """A program may have been written, or kept, by another version."""
    x = draw(4, 3)
    assert raw("gram", "cdist", x).shape == (4, 4)
    for op, arrays, options, words in (
        ("none", [x], {}, "no such operation"),
        ("cdist", [x, x, x], {}, "not those of this version"),
        ("cdist", [x], {"numbers": np.array([1, 2])}, "not those of this version"),
        ("cdist", [x], {"text": np.int64(1)}, "not those of this version"),
        ("cdist", [x.astype(complex)], {}, "dtype"),
        ("eigh", [x], {}, "not those of this version"),
        ("kernel", [x, x, x], {"integers": np.arange(3)}, "not those of this version"),
        ("kron_matmul_vjp", [x, x, x], {}, "not those of this version"),
        ("kernel_vjp", [x[0, 0], x[0, 0], x @ x.T, x],
         {"integers": np.array([1, 1, 0, 0, 0, 3]), "numbers": np.ones(7)}, "not those of this"),
        ("kernel_reduce", [x[0, 0], x[0, 0], x],  # without the v that it is said to have
         {"integers": np.array([1, 1, 0, 0, 0, 4, 0, 1, 0, 0]), "numbers": np.ones(9)},
         "not those of this"),
        ("kernel_reduce", [x[0, 0], x[0, 0], x],  # places are pairs of integers
         {"integers": np.array([1, 1, 0, 0, 0, 1, 1, 0, 0, 0]), "numbers": np.ones(9)},
         "not those of this"),
        ("kernel", [x[0, 0], x[0, 0], x],
         {"integers": np.array([10, 1, 0, 0, 0]), "numbers": np.ones(7), "text": "s\na"},
         "not those of this"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=words):
            raw("gram", op, *arrays, **options)


def test_calls_of_many_threads():
    x, y = draw(60, 5), draw(70, 5)
    expected = np.asarray(gj.cdist(x, y))
    f, wrong = jax.jit(lambda x, y: gj.cdist(x, y) + gj.cdist(x, y, p=1) * 0), []

    def work():
        for _ in range(20):
            if not np.array_equal(f(x, y), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    gram.set_threads(1)
    gram.set_threads(0)
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("method", ["shampoo", "soap", "muon"])
def test_optimizers_over_trees(method):
    """gram.optim.transform gives arrays of JAX as it gives NumPy's; its state is a tree."""
    rule = gram.optim.transform(method, lr=0.1)
    params = {"w": np.arange(12.0, dtype=np.float32).reshape(4, 3), "b": np.ones(3, np.float32)}
    mine = jax.tree.map(jnp.asarray, params)
    state, other = rule.init(params), rule.init(mine)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        grads = {k: rng.standard_normal(p.shape).astype(np.float32) for k, p in params.items()}
        updates, state = rule.update(grads, state, params)
        steps, other = rule.update(jax.tree.map(jnp.asarray, grads), other, mine)
        other = jax.tree.map(np.asarray, other)
        assert all(isinstance(step, jax.Array) for step in steps.values())
        params = {k: p + updates[k] for k, p in params.items()}
        mine = jax.tree.map(jnp.add, mine, steps)
    for k, p in params.items():
        np.testing.assert_array_equal(mine[k], p)
