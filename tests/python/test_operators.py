"""test_operators.py - gram.solve_operator, logdet_operator and eigh_operator with functions"""

import gc
import sys

import gram
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator


def matrix(n=70, dtype=np.float64):
    k = np.random.default_rng(5).normal(size=(n, n))
    return (k @ k.T / n + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(70,), (70, 1), (70, 11)])
def test_solutions_are_those_of_numpy(dtype, shape):
    a, told = matrix(dtype=dtype), {}
    b = np.random.default_rng(1).normal(size=shape).astype(dtype)
    widths = set()

    def product(v):
        assert v.dtype == dtype and v.ndim == 2
        widths.add(v.shape[1])
        return a @ v

    x = gram.solve_operator(product, b, report=told)
    assert x.dtype == dtype and x.shape == shape
    np.testing.assert_allclose(x, np.linalg.solve(a.astype(float), b),
                               rtol=0, atol=1e-4 if dtype == np.float32 else 1e-9)  # fmt: skip
    assert told["reached"] and told["message"] == "" and told["residual"] <= 1e-5
    assert max(widths) == min(8, b[0].size)
    assert told["products"] >= told["iterations"] > 1 and 0 <= told["column"] < max(1, b[0].size)


def test_objects_with_a_product():
    a, b = matrix(), np.ones(70)
    x = np.linalg.solve(a, b)
    for one in (a, sparse.csr_matrix(a), aslinearoperator(a)):
        np.testing.assert_allclose(gram.solve_operator(one, b), x, atol=1e-9)
        value, error = gram.logdet_operator(one, b, probes=200)
        assert abs(value - np.linalg.slogdet(a)[1]) < 4 * error < 5
    solve = np.linalg.inv(a).__matmul__
    inverse = LinearOperator(a.shape, matvec=solve, matmat=solve, dtype=float)
    told = {}
    gram.solve_operator(a, b, preconditioner=inverse, report=told)
    assert told["iterations"] <= 2


def test_results_of_any_strides_and_arguments_that_are_kept():
    a, kept = matrix(), []

    def product(v):
        kept.append((v, v.copy()))
        return np.repeat((v.T @ a).T, 2, axis=0)[::2]

    b = np.random.default_rng(2).normal(size=(3, 140)).T[::2]
    x = gram.solve_operator(product, b, out=np.zeros((3, 70)).T)
    np.testing.assert_allclose(a @ x, b, atol=1e-8)
    assert all((v == was).all() for v, was in kept)


def test_a_first_guess_and_limits():
    a, b = matrix(), np.ones(70)
    x = gram.solve_operator(a, b)
    told = {}
    assert gram.solve_operator(a, b, warm_start=True, out=x, report=told) is x
    assert told["iterations"] == 0
    out = np.empty(70)
    with pytest.raises(gram.LinAlgError, match="iterations ended the call"):
        gram.solve_operator(a, b, iterations=2, out=out)
    np.testing.assert_array_equal(gram.solve_operator(a, b, iterations=2, report=told), out)
    assert not told["reached"] and told["iterations"] == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eigenpairs_are_those_of_numpy(dtype):
    a, report, info = matrix(200, dtype), {}, np.full((), 7, np.int32)
    exact, basis = np.linalg.eigh(a.astype(float))
    like = np.empty((200, 2), dtype)
    for one in (a, sparse.csr_matrix(a), lambda v: a @ v):
        values, vectors = gram.eigh_operator(one, like, count=4, report=report, info=info)
        assert values.dtype == vectors.dtype == dtype and vectors.shape == (200, 4) and info == 0
        np.testing.assert_allclose(values, exact[-4:], rtol=1e-5 if dtype == np.float32 else 1e-9)
        np.testing.assert_allclose(np.abs((basis[:, -4:] * vectors).sum(0)), 1, atol=1e-3)
    assert report["driver"] == "krylov" and report["products"] > 0
    least = gram.eigh_operator(a, like, count=2, select="smallest", vectors=False)
    np.testing.assert_allclose(least, exact[:2], rtol=1e-4)
    out = np.empty(2, dtype), np.empty((2, 200), dtype).T
    assert gram.eigh_operator(a, like, count=2, out=out)[1] is out[1]


def test_eigenpairs_that_are_refused():
    b = np.ones(40)
    with pytest.raises(ValueError, match="select is 'largest', but count"):
        gram.eigh_operator(np.copy, b)
    with pytest.raises(ValueError, match="like has 0 dimensions"):
        gram.eigh_operator(np.copy, np.float64(3), count=1)
    with pytest.raises(gram.LinAlgError):
        gram.eigh_operator(lambda v: v * np.nan, b, count=1)
    with pytest.raises(KeyError, match="mine"):
        gram.eigh_operator(lambda v: {}["mine"], b, count=1)


def test_what_a_function_raises_ends_the_call():
    def product(v):
        raise KeyError("mine")

    for call in (lambda: gram.solve_operator(product, np.ones(4), report={}),
                 lambda: gram.logdet_operator(product, np.ones(4)),
                 lambda: gram.solve_operator(np.copy, np.ones(4), preconditioner=product)):
        with pytest.raises(KeyError, match="mine"):
            call()
    with pytest.raises(TypeError, match="a is 3, expected a function"):
        gram.solve_operator(3, np.ones(4))


def test_calls_within_calls_and_references():
    a = matrix()
    v = np.ones(70)

    def product(v):
        return gram.solve_operator(lambda w: gram.matmul_batched(a, w), v, tolerance=1e-12)

    x = gram.solve_operator(product, v)
    np.testing.assert_allclose(x, a @ v, atol=1e-7)
    before = sys.getrefcount(v), sys.getrefcount(product)
    for _ in range(20):
        gram.solve_operator(np.copy, v)
        with pytest.raises(ValueError, match=r"is \(70, 2\), expected \(70, 1\)"):
            gram.solve_operator(lambda w: np.ones((70, 2)), v)
    gc.collect()
    assert (sys.getrefcount(v), sys.getrefcount(product)) == before


def test_what_is_refused():
    b = np.ones(4)
    for wrong, message in (
        (lambda v: v[:, 0], "result of a has 1 dimensions, expected 2"),
        (lambda v: v.astype(np.float32), "result of a has dtype float32, expected float64"),
    ):
        with pytest.raises(ValueError, match=message):
            gram.solve_operator(wrong, b)
    with pytest.raises(TypeError):
        gram.solve_operator(lambda v: None, b)
    with pytest.raises(gram.LinAlgError, match="not positive definite"):
        gram.solve_operator(lambda v: -v, b)
    told = {}
    gram.solve_operator(lambda v: -v, b, report=told)
    assert not told["reached"] and "not positive definite" in told["message"]
    with pytest.raises(gram.LinAlgError, match="NaN or infinity"):
        gram.solve_operator(lambda v: v * np.nan, b, report={})
    with pytest.raises(gram.LinAlgError, match="NaN or infinity in column 0 of b"):
        gram.solve_operator(np.copy, b * np.nan, report={})
    with pytest.raises(ValueError, match="tolerance is 2, expected 0 to 1"):
        gram.solve_operator(np.copy, b, tolerance=2)
    with pytest.raises(TypeError, match="warm_start is True without out"):
        gram.solve_operator(np.copy, b, warm_start=True)
    with pytest.raises(ValueError, match="like has 0 dimensions"):
        gram.logdet_operator(np.copy, np.float64(3))
    with pytest.raises(ValueError, match="probes is -1"):
        gram.logdet_operator(np.copy, b, probes=-1)


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    a = torch.tensor(matrix())
    b = torch.ones(70, 2, dtype=torch.float64)

    def product(v):
        assert isinstance(v, torch.Tensor)
        return (v.T @ a).T

    x = gram.solve_operator(product, b)
    assert isinstance(x, torch.Tensor)
    np.testing.assert_allclose((a @ x).numpy(), b, atol=1e-8)
    assert gram.logdet_operator(product, b)[1] > 0
