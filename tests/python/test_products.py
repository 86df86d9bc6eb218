"""test_products.py - products of matrices and Kronecker products against NumPy"""

import gram
import numpy as np
import pytest
from drawing import draw


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
    assert gram.workspace(gram.matmul_batched, a, b) == (0, 0)
    pieces = gram.matmul_chunked(a, b, alpha=2.0, memory=20 * a.itemsize)
    np.testing.assert_allclose(pieces, 2 * (a @ b), **tolerance)
    assert gram.workspace(gram.matmul_chunked, a, b, memory=20 * a.itemsize) == (0, 0)
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
    assert gram.workspace(gram.natural_gradient, j, v, 0.1)[0] > 0
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
    assert gram.workspace(gram.syrk_ema, x[0], l[0])[1] == 0
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
