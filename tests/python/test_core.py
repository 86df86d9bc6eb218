"""test_core.py - every function of gram against NumPy and SciPy"""

import os
import subprocess
import sys

import gram
import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist

EPS = {np.float32: 2.0**-23, np.float64: 2.0**-52}


@pytest.fixture(params=[np.float32, np.float64], ids=["f32", "f64"])
def dtype(request):
    return request.param


def draw(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, expected, dtype, terms):
    """Within some terms of rounding of the largest entry."""
    assert got.dtype == dtype and got.shape == expected.shape
    bound = 32 * terms * EPS[dtype] * max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound)


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


@pytest.mark.parametrize("name", NAMES)
def test_kernels_by_name(name):
    x, y = draw(7, 5), draw(4, 5, seed=1)
    expected = kernel_by_name(name, x, y, 1.7, 0.8)
    numbers = {"bandwidth": 1.7} | NUMBERS.get(name, {})
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
    numbers = {"bandwidth": 1.3} | NUMBERS.get(name, {})

    def value(x, y, bandwidth, regularization):
        options = numbers | {"bandwidth": bandwidth, "regularization": regularization}
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


def test_solve_cholesky(dtype):
    a = draw(8, 8, dtype=dtype)
    a = a @ a.T + 8 * np.eye(8, dtype=dtype)
    b = draw(8, 3, dtype=dtype, seed=1)
    close(gram.solve_cholesky(a, b), scipy.linalg.solve(a, b, assume_a="pos"), dtype, 64)
    close(gram.solve_cholesky(a, b[:, 0]), np.linalg.solve(a, b[:, 0]), dtype, 64)
    factor = np.empty_like(a)
    first = gram.solve_cholesky(a, b, factor=factor, lower=False)
    np.testing.assert_array_equal(
        gram.solve_cholesky(factor, b, factored=True, lower=False), first
    )
    np.testing.assert_allclose(np.triu(factor), scipy.linalg.cholesky(a), rtol=1e-3)


def test_solve_lu_in_place_and_again():
    a, b = draw(7, 7), draw(7, 2, seed=1)
    expected = np.linalg.solve(a, b)
    factor, pivots, x = a.copy(), np.empty(7, np.int32), b.copy()
    assert gram.solve_lu(factor, x, factor=factor, pivots=pivots, out=x) is x
    np.testing.assert_allclose(x, expected, rtol=1e-9)
    again = gram.solve_lu(factor, b, factored=True, pivots=pivots)
    np.testing.assert_allclose(again, expected, rtol=1e-9)


def test_a_vector_for_a_batch_of_matrices():
    a = draw(3, 5, 5) + 5 * np.eye(5)
    b = draw(5, seed=1)
    x = gram.solve_lu(a, b)
    assert x.shape == (3, 5)
    np.testing.assert_allclose(np.einsum("ijk,ik->ij", a, x), np.broadcast_to(b, (3, 5)), rtol=1e-9)


@pytest.mark.parametrize("lower", [True, False])
def test_eigh(lower, dtype):
    a = draw(2, 9, 9, dtype=dtype)
    symmetric = np.tril(a) if lower else np.triu(a)
    symmetric = symmetric + np.swapaxes(symmetric, -1, -2) - a * np.eye(9, dtype=dtype)
    values, vectors = gram.eigh(a, lower=lower)
    expected = [scipy.linalg.eigvalsh(item) for item in symmetric]
    close(values, np.array(expected), dtype, 9)
    close(vectors * values[:, None] @ np.swapaxes(vectors, -1, -2), symmetric, dtype, 9)
    largest = gram.eigh(a, lower=lower, vectors=False, select="largest", count=2)
    close(largest, values[:, -2:], dtype, 9)
    for driver in ("jacobi", "divide", "bisection"):
        close(gram.eigh(a, lower=lower, driver=driver)[0], values, dtype, 9)


def test_eigh_of_a_part_and_in_place():
    a = np.diag([5.0, 1, 3, 2, 4])
    values, vectors = gram.eigh(a, select="index", first=1, count=2)
    assert vectors.shape == (5, 2)
    np.testing.assert_allclose(values, [2, 3])
    found = np.zeros((), np.int64)
    values = gram.eigh(a, vectors=False, select="value", range=(1.5, 4), found=found)
    assert found == 3 and np.isnan(values[3:]).all()
    np.testing.assert_allclose(values[:3], [2, 3, 4])
    out = np.empty(5), a
    assert gram.eigh(a, out=out)[1] is a
    np.testing.assert_allclose(np.abs(a), np.eye(5)[[4, 0, 2, 1, 3]], atol=1e-14)
    info = np.zeros(2, np.int32)
    two = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    assert np.isnan(gram.eigh(two, info=info)[0][1]).all() and info.tolist() == [0, 2]
    with pytest.raises(gram.LinAlgError):
        gram.eigh(two)
    with pytest.raises(TypeError, match="range is 3"):
        gram.eigh(a, select="value", range=3)
    with pytest.raises(TypeError, match="a tuple of values and vectors"):
        gram.eigh(a, out=np.empty(5))


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


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int32, np.int64])
def test_kron_is_numpys(kind):
    factors = [(8 * draw(i + 1, 4 - i, seed=i)).astype(kind) for i in range(3)]
    expected = np.kron(np.kron(factors[0], factors[1]), factors[2])
    got = gram.kron(factors)
    assert got.dtype == kind
    np.testing.assert_allclose(got, expected, rtol=2e-3 if kind is np.float16 else 1e-6)
    assert gram.kron([factors[0]] * 2, out=np.empty((1, 16), kind)).shape == (1, 16)
    for wrong in ((), factors[0].tolist, [factors[0]] * 17, 3):
        with pytest.raises(TypeError, match="factors|factor"):
            gram.kron(wrong)
    with pytest.raises(TypeError, match="a factor is of type"):
        gram.kron([None])


def test_eigh_in_the_background():
    a = draw(2, 9, 9)
    values, vectors = gram.eigh(a)
    report, out = {}, (np.empty((2, 9)), np.empty((2, 9, 9)))
    pending = gram.eigh(a, background=True, out=out, report=report)
    assert isinstance(pending, gram.Pending) and report["driver"] == "jacobi"
    got = pending.result()
    assert got[0] is out[0] and got[1] is out[1] and pending.result()[0] is out[0]
    np.testing.assert_array_equal(out[0], values)
    np.testing.assert_array_equal(out[1], vectors)
    alone = gram.eigh(a, vectors=False, background=True).result()
    np.testing.assert_allclose(alone, values, atol=1e-12)
    before = sys.getrefcount(a)
    forgotten = gram.eigh(a, background=True)
    assert sys.getrefcount(a) > before
    del forgotten
    assert sys.getrefcount(a) == before
    with pytest.raises(TypeError):
        gram.Pending()
    with pytest.raises(ValueError, match="gram.eigh: a is 2 by 3"):
        gram.eigh(np.ones((2, 3)), background=True)


def test_tune_eigh(tmp_path):
    """In a process with a cache of its own, so that other tests keep their drivers."""
    tmp_path.chmod(0o700)
    code = """
import gram, numpy as np
a = np.random.default_rng(0).standard_normal((3, 7, 7))
found = gram.tune_eigh(a)
assert set(found["seconds"]) == {"jacobi", "divide", "bisection", "krylov"}, found
assert found["driver"] in found["seconds"] and found["table_driver"] == "jacobi", found
assert found["candidates"] == 4 and all(s > 0 for s in found["seconds"].values()), found
report = {}
values = gram.eigh(a, report=report)[0]
assert report["driver"] == found["driver"], (report, found)
np.testing.assert_allclose(values, gram.eigh(a, driver="divide")[0], atol=1e-12)
"""
    env = {**os.environ, "GRAM_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    a = draw(3, 7, 7)
    with pytest.raises(ValueError, match="gram.tune_eigh: options.driver"):
        gram.tune_eigh(a, driver="divide")
    with pytest.raises(ValueError, match="no elements"):
        gram.tune_eigh(a[:0])


def test_precision_of_matrix_power():
    a = draw(3, 8, 8, dtype=np.float32)
    a = a @ np.swapaxes(a, -1, -2) + np.eye(8, dtype=np.float32)
    expected = gram.matrix_power(a)
    for precision in ("auto", "f64", "f32", "tf32x3", "tf32"):
        x = gram.matrix_power(a, method="coupled-newton", precision=precision)
        np.testing.assert_allclose(x, expected, rtol=2e-2, atol=2e-3)
    with pytest.raises(ValueError, match="options.precision is 2"):
        gram.matrix_power(a.astype(float), precision="f32")
    with pytest.raises(ValueError, match="expected one of auto, f64"):
        gram.matrix_power(a, precision="half")
    info = np.full(3, 9, np.int32)
    a[1] = np.nan
    a[2] = 0
    gram.matrix_power(a, method="coupled-newton", precision="f32", info=info)
    assert info[:2].tolist() == [0, 1] and info[2] in (2, 3)
    gram.matrix_power(a, 1, 3, ridge=1.0, tolerance=1e-30, precision="tf32", info=info,
                      method="coupled-newton")  # fmt: skip
    assert info[:2].tolist() == [4, 1]


def test_matrix_power(dtype):
    a = draw(2, 6, 6, dtype=dtype)
    a = a @ np.swapaxes(a, -1, -2) + np.eye(6, dtype=dtype)
    values, vectors = np.linalg.eigh(a.astype(float))
    for top, bottom in ((-1, 4), (1, 2), (-1, 1), (2, 3)):
        powers = values ** (top / bottom)
        expected = vectors * powers[:, None] @ np.swapaxes(vectors, -1, -2)
        close(gram.matrix_power(a, top, bottom), expected, dtype, 64)
    ridge = np.array([1.0, 3.0])
    shifted = gram.matrix_power(a, 1, 2, ridge=ridge.astype(dtype))
    again = gram.matrix_power(a + ridge.astype(dtype)[:, None, None] * np.eye(6, dtype=dtype), 1, 2)
    np.testing.assert_allclose(shifted, again, rtol=1e-4, atol=1e-4)
    error, info = np.full(2, np.nan, dtype), np.full(2, 9, np.int32)
    newton = gram.matrix_power(a, method="coupled-newton", error=error, info=info)
    close(newton, gram.matrix_power(a), dtype, 2000)
    assert info.tolist() == [0, 0] and (error < 1e-2).all()
    bad = np.stack([np.eye(6, dtype=dtype), np.full((6, 6), np.nan, dtype)])
    with pytest.raises(gram.LinAlgError):
        gram.matrix_power(bad)
    out = np.full_like(bad, 7)
    gram.matrix_power(bad, info=info, keep=True, out=out)
    assert info.tolist() == [0, 1] and (out[1] == 7).all() and np.isfinite(out[0]).all()
    for wrong in ({"denominator": 65}, {"method": "guess"}, {"ridge": -1.0}, {"numerator": 2**40}):
        with pytest.raises(ValueError):
            gram.matrix_power(a, **wrong)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_matmul_batched(dtype):
    a, b, c = (draw(2, 5, 4, seed=1), draw(4, 3, seed=2), draw(2, 5, 3, seed=3))
    a, b, c = (v.astype(dtype) for v in (a, b, c))
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(gram.matmul_batched(a, b), a @ b, **tolerance)
    turned = gram.matmul_batched(b.T, a.transpose(0, 2, 1)[..., ::-1])
    np.testing.assert_allclose(turned, (a[:, ::-1] @ b).transpose(0, 2, 1), **tolerance)
    out = gram.matmul_batched(a, b, alpha=np.array([1.0, -2.0]), beta=0.5, c=c, out=c.copy())
    np.testing.assert_allclose(
        out, np.array([1, -2], dtype)[:, None, None] * (a @ b) + c / 2, **tolerance
    )
    assert gram.matmul_batched_workspace(a, b) == (0, 0)
    pieces = gram.matmul_chunked(a, b, alpha=2.0, memory=20 * a.itemsize)
    np.testing.assert_allclose(pieces, 2 * (a @ b), **tolerance)
    assert gram.matmul_chunked_workspace(a, b, memory=20 * a.itemsize) == (0, 0)
    with pytest.raises(ValueError, match="a has 4 columns but b has 3 rows"):
        gram.matmul_batched(a, b[1:])
    with pytest.raises(ValueError, match="memory is 3 bytes"):
        gram.matmul_chunked(a, b, memory=3)
    with pytest.raises(ValueError, match="memory is -1"):
        gram.matmul_chunked(a, b, memory=-1)


def test_matmul_chunked_of_a_file(tmp_path):
    a = np.memmap(tmp_path / "a", np.float32, "w+", shape=(300, 200))
    a[:] = draw(300, 200)
    got = gram.matmul_chunked(a, a.T, memory=100_000)
    np.testing.assert_allclose(got, a @ a.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)])
def test_natural_gradient(shape):
    j, v = draw(2, *shape, seed=1), draw(2, shape[1], seed=2)
    fisher = j.transpose(0, 2, 1) @ j / shape[0] + 0.1 * np.eye(shape[1])
    got = gram.natural_gradient(j, v, 0.1)
    np.testing.assert_allclose(got, np.linalg.solve(fisher, v[..., None])[..., 0], rtol=1e-9)
    assert gram.natural_gradient_workspace(j, v, 0.1)[0] > 0
    info = np.zeros(2, np.int32)
    j[1, 0, 0] = np.nan
    again = gram.natural_gradient(j, v, 0.1, info=info)
    assert info[0] == 0 and info[1] > 0 and np.isnan(again[1]).all() and (again[0] == got[0]).all()
    with pytest.raises(gram.LinAlgError):
        gram.natural_gradient(j, v, 0.1)
    with pytest.raises(ValueError, match="damping is 0"):
        gram.natural_gradient(j, v, 0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_syrk_ema(dtype):
    x, l = draw(3, 6, 4).astype(dtype), np.tile(np.eye(6, dtype=dtype), (3, 1, 1))
    want = 0.9 * l + 0.1 * (x @ x.transpose(0, 2, 1))
    info = np.full(3, 7, np.int32)
    got = gram.syrk_ema(x, l, beta=0.9, info=info)
    assert got is l and info.tolist() == [0, 0, 0]
    np.testing.assert_allclose(l, want, rtol=1e-5, atol=1e-6)
    assert (l == l.transpose(0, 2, 1)).all()
    packed = np.zeros(10, dtype)
    gram.syrk_ema(x[0], packed, transpose=True, packed=True, sum=True, beta=1.0, alpha=2.0)
    upper = (2 * x[0].T @ x[0])[np.triu_indices(4)]
    np.testing.assert_allclose(packed, upper, rtol=1e-5, atol=1e-6)
    x[1, 0, 0] = np.nan
    before = l.copy()
    gram.syrk_ema(x, l, beta=0.5, keep=True, info=info)
    assert info.tolist() == [0, 1, 0] and (l[1] == before[1]).all() and (l[0] != before[0]).any()
    assert gram.syrk_ema_workspace(x[0], l[0])[1] == 0
    with pytest.raises(ValueError, match="l is 6 by 6, expected 4 by 4"):
        gram.syrk_ema(x, l, transpose=True)
    with pytest.raises(TypeError, match="l is None"):
        gram.syrk_ema(x, None)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32, np.int64])
def test_kron_matmul(kind):
    factors = [(4 * draw(2 + i, 4 - i, seed=i)).astype(kind) for i in range(3)]
    k = gram.kron(factors)
    x = (4 * draw(5, k.shape[0], seed=9)).astype(kind)
    y = gram.kron_matmul(x, factors)
    np.testing.assert_allclose(y, x @ k, rtol=1e-5, atol=1e-3)
    left = gram.kron_matmul(x.T, [f.T for f in factors], side="left")
    np.testing.assert_allclose(left, y.T, rtol=1e-5, atol=1e-3)
    more = gram.kron_matmul(x, factors, alpha=2, beta=-1, z=y, out=y.copy())
    np.testing.assert_allclose(more, y, rtol=1e-5, atol=1e-3)
    batch = gram.kron_matmul(np.stack([x, 2 * x]), factors)
    np.testing.assert_allclose(batch[1], 2 * y, rtol=1e-5, atol=1e-3)
    with pytest.raises(ValueError, match="x is|x has"):
        gram.kron_matmul(x[:, 1:], factors)
    with pytest.raises(ValueError, match="side is 'top'"):
        gram.kron_matmul(x, factors, side="top")
    with pytest.raises(TypeError, match="factors is"):
        gram.kron_matmul(x, ())


def test_a_matrix_that_is_not_positive_definite():
    a = np.stack([np.eye(3), np.diag([1.0, -1, 1])])
    with pytest.raises(gram.LinAlgError, match="solve_cholesky.*not positive definite"):
        gram.solve_cholesky(a, np.ones((3, 1)))
    info = np.full(2, 9, np.int32)
    x = gram.solve_cholesky(a, np.ones((3, 1)), info=info)
    assert info.tolist() == [0, 2]
    assert np.isfinite(x[0]).all() and np.isnan(x[1]).all()
    with pytest.raises(gram.LinAlgError):
        gram.solve_lu(np.zeros((2, 2)), np.ones(2))
    assert issubclass(gram.LinAlgError, ValueError)


def test_workspaces_are_bytes_and_read_no_data():
    x, y = draw(40, 5), draw(30, 5)
    square = np.eye(40)
    needs = [
        gram.cdist_workspace(x, y, 1.3),
        gram.kernel_workspace(x, y, "gaussian"),
        gram.kernel_vjp_workspace(x, y, "gaussian", grad=draw(40, 30), wrt=("x", "y")),
        gram.cdist_grad_workspace(draw(40, 30), x.T, draw(2, 40), y.T, 1.3),
        gram.agop_workspace(draw(40, 30), x.T, draw(2, 40), y.T, 1.3),
        gram.median_distance_workspace(x),
        gram.solve_cholesky_workspace(square, x),
        gram.solve_lu_workspace(square, x),
        gram.eigh_workspace(square),
        gram.matrix_power_workspace(square),
        gram.kron_matmul_workspace(x, [draw(5, 2)]),
        gram.kernel_matmul_workspace(x, y, v=draw(30, 2)),
        gram.eigh_kernel_workspace(draw(400, 3), count=2),
        gram.kron_matmul_vjp_workspace(x, [draw(5, 2)], grad=draw(40, 2)),
        gram.kron_solve_workspace([np.eye(5)], x),
        gram.kron_logdet_workspace([np.eye(5)]),
    ]
    for host, device in needs:
        assert host > 0 and device == 0
    with pytest.raises(ValueError, match="x has 5 columns but y has 4"):
        gram.cdist_workspace(x, draw(3, 4))


def test_threads():
    before = gram.get_threads()
    x = draw(300, 20)
    results = []
    for count in (1, 2, 3):
        gram.set_threads(count)
        assert gram.get_threads() == count
        results.append(gram.cdist(x, p=1.3))
    gram.set_threads(0)
    assert gram.get_threads() == before
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    for wrong, exception in ((-1, ValueError), (10**6, ValueError), ("2", TypeError)):
        with pytest.raises(exception):
            gram.set_threads(wrong)
    assert gram.get_threads() == before


def test_what_is_here():
    assert gram.devices()[0] == "cpu" and gram.best_device() in gram.devices()
    info = gram.info()
    assert info["version"] == gram.__version__ and info["cpu_isa"] in info["cpu_isas"].split()
    memory = gram.memory_info("cpu")
    assert set(memory) == {"total", "free", "used", "other"}
    assert 0 < memory["used"] + memory["free"] <= memory["total"] + memory["used"]
    with pytest.raises(ValueError, match="device is 'tpu'"):
        gram.memory_info("tpu")
    if len(gram.devices()) == 1:
        with pytest.raises(NotImplementedError):
            gram.memory_info("cuda:0")
        with pytest.raises(NotImplementedError):
            gram.Module("")
