"""test_algebra.py - options of solves and eigenproblems, algebra of Kronecker products"""

import gram
import numpy as np
import pytest


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def definite(*shape, seed=0):
    a = draw(*shape, shape[-1], seed=seed)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("solve", [gram.solve_cholesky, gram.solve_lu])
def test_rcond_and_refinement(solve):
    a, b = definite(2, 30), draw(30, 2)
    rcond, backward, refinings = np.full(2, np.nan), np.full(2, np.nan), np.full(2, 99, np.int32)
    x = solve(a, b, rcond=rcond, refine=True, backward=backward, refinings=refinings)
    np.testing.assert_allclose(a @ x, np.broadcast_to(b, x.shape), atol=1e-9)
    exact = [1 / (np.linalg.norm(m, 1) * np.linalg.norm(np.linalg.inv(m), 1)) for m in a]
    assert (rcond >= 0.99 * np.array(exact)).all() and (rcond < 10 * np.array(exact)).all()
    assert (backward <= np.sqrt(30) * 2.0**-53).all()
    assert ((refinings == -1) | ((refinings > 0) & (refinings < 99))).all()
    with pytest.raises(ValueError, match="rcond"):
        solve(a, b, rcond=np.empty(3))


def test_jitter():
    a = np.stack([np.eye(3), np.ones((3, 3)), np.diag([1.0, 1.0, -5.0])])
    jittered, info = np.empty(3), np.empty(3, np.int32)
    x = gram.solve_cholesky(
        a, np.ones((3, 1)), jitter=(0, 1e-3, 0.5), jittered=jittered, info=info
    )
    assert jittered[:2].tolist() == [0, 1e-3] and np.isnan(jittered[2])
    assert info.tolist() == [0, 0, 3] and np.isnan(x[2]).all()
    np.testing.assert_allclose((a[1] + 1e-3 * np.eye(3)) @ x[1], 1, rtol=1e-9)
    for wrong, kind in ((3.0, TypeError), (["a"], TypeError), (range(65), TypeError)):
        with pytest.raises(kind, match="jitter"):
            gram.solve_cholesky(a, np.ones(3), jitter=wrong)
    with pytest.raises(ValueError, match="jitter"):
        gram.solve_cholesky(a, np.ones(3), jitter=[2, 1])
    with pytest.raises(TypeError, match="has no argument 'jitter'"):
        gram.solve_lu(a, np.ones(3), jitter=[0])


def test_eigh_reports_how_it_went():
    a = definite(40)
    report = {"mine": 1}
    values = gram.eigh(a, vectors=False, report=report)
    assert report["driver"] in ("jacobi", "divide") and report["mine"] == 1
    few = gram.eigh(
        a, vectors=False, select="largest", count=2, driver="krylov", tolerance=1e-9,
        products=500, seed=3, report=report,
    )  # fmt: skip
    np.testing.assert_allclose(few, values[-2:], rtol=1e-7)
    assert report["driver"] == "krylov" and 0 < report["products"] <= 500
    assert 0 <= report["residual"] <= 1e-9 and report["dense"] == 0
    with pytest.raises(TypeError, match="report is 3"):
        gram.eigh(a, report=3)


def test_eigh_kernel_is_eigh_of_the_kernel():
    x = draw(2, 150, 3)
    options = {"kernel": "matern52", "bandwidth": 2.0, "regularization": 0.1}
    k = gram.kernel(x, **options)
    values, vectors = gram.eigh_kernel(x, **options, count=3)
    assert vectors.shape == (2, 150, 3)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(k)[:, -3:], rtol=1e-8)
    np.testing.assert_allclose(k @ vectors, vectors * values[:, None], atol=1e-6)
    with pytest.raises(TypeError, match="has no argument 'y'"):
        gram.eigh_kernel(x, y=x)
    with pytest.raises((ValueError, NotImplementedError), match="eigh_kernel"):
        gram.eigh_kernel(x, select="value", range=(0, 1))


def test_kron_matmul_vjp_is_the_derivative():
    x, factors = draw(2, 3, 6), [draw(2, 3, seed=1), draw(3, 2, seed=2)]
    grad = draw(2, 3, 6, seed=3)

    def value(x, factors):
        return (grad * gram.kron_matmul(x, factors, alpha=2.0)).sum()

    got = gram.kron_matmul_vjp(x, factors, grad=grad, alpha=2.0)
    assert [g.shape for g in got] == [x.shape, (2, 3), (3, 2)]
    for i, g in enumerate(got):
        move = draw(*g.shape, seed=9)
        steps = []
        for h in (0.5, -0.5):
            parts = [x, *factors]
            parts[i] = parts[i] + h * move
            steps.append(value(parts[0], parts[1:]))
        assert (g * move).sum() == pytest.approx(steps[0] - steps[1], rel=1e-9)
    of_x = gram.kron_matmul_vjp(x, factors, grad=grad, alpha=2.0, wrt="x")
    np.testing.assert_array_equal(of_x, got[0])
    out = (np.empty((2, 3)), np.empty((3, 2)))
    assert gram.kron_matmul_vjp(x, factors, grad=grad, wrt="factors", out=out)[1] is out[1]
    np.testing.assert_allclose(2 * out[0], got[1], rtol=1e-12)
    left = gram.kron_matmul_vjp(
        np.swapaxes(x, 1, 2), [f.T for f in factors], grad=np.swapaxes(grad, 1, 2), side="left"
    )
    np.testing.assert_allclose(2 * left[1].T, got[1], rtol=1e-12)
    with pytest.raises(TypeError, match="expected a tuple of 3"):
        gram.kron_matmul_vjp(x, factors, grad=grad, out=out)
    with pytest.raises(TypeError, match="needs the argument 'grad'"):
        gram.kron_matmul_vjp(x, factors)


@pytest.mark.parametrize("method", ["lu", "cholesky", "eigen"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_kron_solve(method, side):
    factors = [definite(2, 3), definite(4, seed=1)]
    shift = 0.5 if method == "eigen" else 0.0
    k = gram.kron(factors) + shift * np.eye(12)
    b = draw(2, 5, 12) if side == "right" else draw(2, 12, 5)
    x = gram.kron_solve(factors, b, side=side, method=method, shift=shift)
    np.testing.assert_allclose(x @ k if side == "right" else k @ x, b, rtol=1e-9, atol=1e-9)
    info = np.full(2, 9, np.int32)
    factors[0][1] = np.nan
    x = gram.kron_solve(factors, b, side=side, method=method, info=info)
    assert info.tolist() == [0, 1] and np.isnan(x[1]).all() and np.isfinite(x[0]).all()
    with pytest.raises(gram.LinAlgError, match="kron_solve"):
        gram.kron_solve(factors, b, side=side, method=method)


def test_numbers_of_kronecker_products():
    factors = [draw(2, 3, 3), draw(4, 4, seed=1)]
    k = gram.kron(factors)
    sign, log = gram.kron_logdet(factors)
    expected = np.linalg.slogdet(k)
    np.testing.assert_array_equal(sign, expected[0])
    np.testing.assert_allclose(log, expected[1], rtol=1e-10)
    np.testing.assert_allclose(gram.kron_trace(factors), np.trace(k, axis1=1, axis2=2), rtol=1e-10)
    np.testing.assert_allclose(gram.kron_diagonal(factors), np.einsum("bii->bi", k), rtol=1e-10)
    out = np.empty(2), np.empty(2)
    assert gram.kron_logdet(factors, out=out)[0] is out[0]
    with pytest.raises(ValueError, match="kron_trace"):
        gram.kron_trace([draw(2, 3)])
    with pytest.raises(TypeError, match="a tuple of sign"):
        gram.kron_logdet(factors, out=np.empty(2))
    with pytest.raises(TypeError, match="factors is"):
        gram.kron_diagonal([])
