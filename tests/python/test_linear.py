"""test_linear.py - solves, eigenproblems and powers of matrices against NumPy and SciPy"""

import os
import subprocess
import sys

import gram
import numpy as np
import pytest
import scipy.linalg
from drawing import close, draw


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
    with pytest.raises(ValueError, match="gram.tune_eigh: driver"):
        gram.tune_eigh(a, driver="divide")
    with pytest.raises(ValueError, match="no elements"):
        gram.tune_eigh(a[:0])


def test_tune_kron(tmp_path):
    """What is kept changes no bit on the CPU, and is there in the next process."""
    tmp_path.chmod(0o700)
    code = """
import gram, numpy as np
rng = np.random.default_rng(0)
x, factors = rng.standard_normal((3, 8**5)), [rng.standard_normal((8, 8)) for _ in range(5)]
y = gram.kron_matmul(x, factors)
found = gram.tune_kron(x, factors)
assert set(found) == {"candidates", "launches", "table_launches", "ms", "table_ms", "kept"}, found
assert found["candidates"] > 1 and 0 < found["ms"] <= found["table_ms"] and found["kept"], found
assert (gram.kron_matmul(x, factors) == y).all()
gram.tune_kron(x.T, factors, side="left", alpha=2.0, beta=1.0, z=y.T, out=y.T.copy())
"""
    env = {**os.environ, "GRAM_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    x, factors = draw(3, 4), [draw(2, 2), draw(2, 2)]
    with pytest.raises(ValueError, match="gram.tune_kron: x or y has no elements"):
        gram.tune_kron(x[:0], factors)
    with pytest.raises(ValueError, match="gram.tune_kron: y is x"):
        gram.tune_kron(x, factors, out=x)
    with pytest.raises(ValueError, match="gram.tune_kron: x has 3 columns"):
        gram.tune_kron(x[:, :3], factors)


def test_precision_of_matrix_power():
    a = draw(3, 8, 8, dtype=np.float32)
    a = a @ np.swapaxes(a, -1, -2) + np.eye(8, dtype=np.float32)
    expected = gram.matrix_power(a)
    for precision in ("auto", "f64", "f32", "tf32x3", "tf32"):
        x = gram.matrix_power(a, method="coupled-newton", precision=precision)
        np.testing.assert_allclose(x, expected, rtol=2e-2, atol=2e-3)
    with pytest.raises(ValueError, match="gram.matrix_power: precision is 2"):
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


def test_any_real_power_and_a_floor_of_eigenvalues():
    """matrix_power took fractions k / q with q <= 64 alone; negative eigenvalues always raised."""
    a = draw(3, 9, 9)
    a = a @ a.mT + 0.1 * np.eye(9)
    w, v = np.linalg.eigh(a)
    for power in (-0.12345, 0.4142, 2.7182818, -0.25):
        expected = (v * w[:, None, :] ** power) @ v.mT
        np.testing.assert_allclose(gram.matrix_power(a, power=power), expected, rtol=1e-9)
    raised = gram.matrix_power(np.diag([1.0, -1.0, 2.0]), power=-0.5, floor=1e-4)
    np.testing.assert_allclose(np.diagonal(raised), [1, 2e-4**-0.5, 2**-0.5], rtol=1e-12)
    for options, message in (
        ({"power": 0}, "power is 0"),
        ({"power": 0.3, "numerator": 1}, "without numerator"),
        ({"power": 0.12345, "method": "coupled-newton"}, "power is 0.12345"),
        ({"floor": 2.0}, "floor is 2"),
    ):
        with pytest.raises(ValueError, match=message):
            gram.matrix_power(a, **options)


def test_workspace_without_arrays():
    """A query of 30000 x 30000 needs no such array, nor a GPU's one."""
    for name, shapes in (
        ("eigh", [(40, 40)]),
        ("solve_cholesky", [(2, 9, 9), (9, 3)]),
        ("solve_lu", [(9, 9), (9, 3)]),
        ("matrix_power", [(3, 20, 20)]),
        ("cdist", [(30, 4), (20, 4)]),
        ("kernel", [(30, 4), (20, 4)]),
        ("cdist_grad", [(5, 6), (4, 5), (2, 5), (4, 6)]),
        ("agop", [(5, 6), (4, 5), (2, 5), (4, 6)]),
    ):
        for dtype in ("float32", "float64"):
            given = [gram.Shape(*s, dtype=dtype) for s in shapes]
            arrays = [np.zeros(s, dtype) for s in shapes]
            expected = gram.workspace(getattr(gram, name), *arrays)
            assert gram.workspace(name, *given) == expected
            assert gram.workspace(f"gram.{name}", *arrays) == expected
    big = gram.Shape(30000, 30000, dtype=np.float32)
    assert gram.workspace("eigh", big)[0] > 30000**2 * 4
    with pytest.raises(TypeError, match="a is a gram.Shape, which has no elements"):
        gram.eigh(big)
    with pytest.raises(TypeError, match="p is a gram.Shape"):
        gram.workspace("cdist", np.zeros((3, 2)), p=gram.Shape(3))
    with pytest.raises(ValueError, match="takes scratch"):
        gram.workspace("devices")
    with pytest.raises(ValueError, match="dtype is 'int8'"):
        gram.Shape(3, dtype="int8")
    with pytest.raises(NotImplementedError, match="the CPU cannot share a matrix"):
        gram.workspace(gram.eigh_multi, gram.Shape(4, 4), devices=["cpu"])
