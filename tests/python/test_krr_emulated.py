"""test_krr_emulated.py - gram.krr_solve with the emulation of CUDA beside the CPU"""

import gram
import numpy as np
import pytest
from emulated_tensors import cuda, get, put

__all__ = ["cuda"]  # a fixture

OPTIONS = {"kernel": "laplace", "ridge": 0.1, "tolerance": 1e-6}


def problem(n=60):
    rng = np.random.default_rng(7)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_arrays_of_the_cpu_go_to_the_device_and_back(cuda, method):
    x, y, w = problem()
    lengths = np.array([1.0, 2.0, 0.5])
    host = gram.krr_solve(x, y, row_weights=w, lengths=lengths, **OPTIONS)
    wide = np.asfortranarray(np.repeat(x, 2, axis=0))
    out, told = np.full((2, 60), 9.0).T, {}
    alpha = gram.krr_solve(wide[::2], y[::-1][::-1], row_weights=w, lengths=lengths, out=out,
                           method=method, device="cuda", report=told, **OPTIONS)  # fmt: skip
    assert alpha is out and told["reached"] and told["method"] == method
    np.testing.assert_allclose(out, host, atol=1e-4)


def test_a_first_guess_goes_there_too(cuda):
    x, y, _ = problem()
    exact = gram.krr_solve(x, y, **OPTIONS)
    told = {}
    gram.krr_solve(x, y, warm_start=True, out=exact, method="cg", device="cuda", report=told,
                   **OPTIONS)
    assert told["reached"] and told["products"] == 1


def test_arrays_of_the_device_stay_there(cuda):
    x, y, w = problem()
    out = put(np.zeros_like(y))
    gram.krr_solve(put(x), put(y), row_weights=put(w), method="cg", out=out, **OPTIONS)
    np.testing.assert_allclose(get(out), gram.krr_solve(x, y, row_weights=w, **OPTIONS), atol=1e-4)
    with pytest.raises(ValueError, match="move one of them"):
        gram.krr_solve(put(x), y, **OPTIONS)


def test_centres_on_the_device(cuda):
    x, y, w = problem()
    alpha, rows = gram.krr_solve(x, y, row_weights=w, centres=12, device="cuda", **OPTIONS)
    host, same = gram.krr_solve(x, y, row_weights=w, centres=12, **OPTIONS)
    np.testing.assert_array_equal(rows, same)
    np.testing.assert_allclose(alpha, host, atol=1e-3)


def test_a_checkpoint_goes_from_the_device_to_the_cpu(cuda, tmp_path):
    x, y, _ = problem()
    told = {}
    given = dict(checkpoint=tmp_path / "c.gram", method="cg", rank=0, report=told, **OPTIONS)
    gram.krr_solve(x, y, products=12, device="cuda", **given)
    assert told["end"] == "products"
    alpha = gram.krr_solve(x, y, resume=True, **given)
    assert told["reached"]
    np.testing.assert_allclose(alpha, gram.krr_solve(x, y, **OPTIONS), atol=1e-4)


def test_errors_and_empty_arrays(cuda):
    x, y, _ = problem()
    with pytest.raises(ValueError, match="is nan"):
        gram.krr_solve(x, np.nan * y, device="cuda", **OPTIONS)
    assert gram.krr_solve(x[:0], y[:0], device="cuda", **OPTIONS).shape == (0, 2)
