"""test_cli_solve.py - solve and power against NumPy"""

import numpy as np
import pytest
from gram_cli import BAD_DATA, FAILURE, USAGE, gram, load_text, refusal, save_text

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("method", ["lu", "cholesky"])
def test_solve(tmp_path, method):
    a = RNG.normal(size=(6, 6))
    a = a @ a.T + np.eye(6)
    b = RNG.normal(size=(6, 2))
    text = load_text(
        gram(
            "solve",
            save_text(tmp_path / "a.csv", a),
            save_text(tmp_path / "b.csv", b),
            "-m",
            method,
        )
    )
    np.testing.assert_allclose(text, np.linalg.solve(a, b), rtol=1e-9)
    np.save(tmp_path / "a.npy", np.asfortranarray(a))
    np.save(tmp_path / "b.npy", b[:, 0])
    before = (tmp_path / "a.npy").read_bytes()
    gram("solve", "a.npy", "b.npy", "-m", method, "-o", "x.npy", cwd=tmp_path)
    result = np.load(tmp_path / "x.npy")
    assert result.shape == (6,)
    np.testing.assert_allclose(result, np.linalg.solve(a, b[:, 0]), rtol=1e-9)
    assert (tmp_path / "a.npy").read_bytes() == before


def test_solve_triangle(tmp_path):
    a = RNG.normal(size=(6, 6))
    a = a @ a.T + np.eye(6)
    b = RNG.normal(size=(6, 2))
    np.save(tmp_path / "b.npy", b)
    for uplo, other in (("lower", np.triu), ("upper", np.tril)):
        spoiled = np.where(other(np.ones((6, 6)), 1 if uplo == "lower" else -1) > 0, np.nan, a)
        np.save(tmp_path / "a.npy", spoiled)
        gram(*"solve a.npy b.npy -m cholesky -o x.npy --uplo".split(), uplo, cwd=tmp_path)
        np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.linalg.solve(a, b), rtol=1e-9)


def test_solve_batch(tmp_path):
    a, b = RNG.normal(size=(3, 5, 5)), RNG.normal(size=(5, 2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    gram("solve", "a.npy", "b.npy", "-o", "x.npy", cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.linalg.solve(a, b), rtol=1e-9)
    a[1, 2] = 0
    np.save(tmp_path / "a.npy", a)
    said = refusal("solve", "a.npy", "b.npy", "-o", "y.npy", status=FAILURE, cwd=tmp_path)
    assert "matrix 1 of the batch is singular" in said
    assert not (tmp_path / "y.npy").exists()


def test_solve_refusals(tmp_path):
    np.save(tmp_path / "a.npy", -np.eye(3))
    np.save(tmp_path / "b.npy", np.ones(4))
    np.save(tmp_path / "c.npy", np.ones((3, 2)))
    assert "b.npy has 4 rows, expected 3, the order of a.npy" in refusal(
        "solve", "a.npy", "b.npy", status=BAD_DATA, cwd=tmp_path
    )
    assert "c.npy is 3 by 2, expected a square matrix" in refusal(
        "solve", "c.npy", "c.npy", status=BAD_DATA, cwd=tmp_path
    )
    assert "not positive definite (its leading minor of order 1 is not)" in refusal(
        *"solve a.npy c.npy -m cholesky".split(), status=FAILURE, cwd=tmp_path
    )


def test_solve_extras(tmp_path):
    a = RNG.normal(size=(2, 8, 8))
    a = a @ np.swapaxes(a, 1, 2) + np.eye(8)
    a[1] = np.diag([-0.05] + 7 * [1.0])
    b = RNG.normal(size=(2, 8, 3))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    ladder = "0,1e-3,0.1,1"
    for refine in ([], ["--refine"]):
        gram(
            *"solve a.npy b.npy -m cholesky -o x.npy --report r.csv --jitter".split(),
            ladder,
            *refine,
            cwd=tmp_path,
        )
        lifted = a + np.array([0, 0.1])[:, None, None] * np.eye(8)
        np.testing.assert_allclose(
            np.load(tmp_path / "x.npy"), np.linalg.solve(lifted, b), rtol=1e-10, atol=1e-12
        )
        lines = [line.split(",") for line in (tmp_path / "r.csv").read_text().splitlines()]
        assert lines[0] == "item rcond jitter backward_error refinings".split()
        assert [line[2] for line in lines[1:]] == ["0", "0.1"]
        for line, item in zip(lines[1:], lifted):
            truth = 1 / np.linalg.cond(item, 1)
            assert truth * 0.9 < float(line[1]) < truth * 10
            assert (line[3] != "" and float(line[3]) < 1e-15) == bool(refine)
            assert (line[4] != "" and int(line[4]) > 0) == bool(refine)
    for arguments, status, words in (
        ("--jitter 1,x", USAGE, '--jitter is "1,x", expected at most'),
        ("--jitter 1,0.5", BAD_DATA, "options.jitter[1] is 0.5"),
        ("-m lu --jitter 1", BAD_DATA, "only Cholesky has it"),
        ("--refine --dtype f32", BAD_DATA, "expected f64 for options.refine"),
        ("--jitter 0,1e-9 --report y.csv", FAILURE, "matrix 1 of the batch is not positive"),
    ):
        said = refusal(
            *"solve a.npy b.npy -m cholesky -o y.npy".split(),
            *arguments.split(),
            status=status,
            cwd=tmp_path,
        )
        assert words in said
        assert not (tmp_path / "y.npy").exists() and not (tmp_path / "y.csv").exists()


def symmetric_power(a, power, ridge=0.0):
    w, v = np.linalg.eigh(a)
    return (v * (w + ridge)[..., None, :] ** power) @ np.swapaxes(v, -1, -2)


@pytest.mark.parametrize("method", ["auto", "eigh", "coupled-newton", "newton-schulz", "minimax"])
def test_power(tmp_path, method):
    a = RNG.normal(size=(3, 6, 6))
    a = a @ np.swapaxes(a, 1, 2)
    np.save(tmp_path / "a.npy", a)
    gram(*"power a.npy --ridge 0.1 -o x.npy -m".split(), method, cwd=tmp_path)
    np.testing.assert_allclose(
        np.load(tmp_path / "x.npy"), symmetric_power(a, -0.25, 0.1), rtol=1e-9, atol=1e-9
    )
    gram(
        *"power a.npy --power 1/2 --relative-ridge 1e-3 -o x.npy -m".split(), method, cwd=tmp_path
    )
    for item, x in zip(a, np.load(tmp_path / "x.npy")):
        ridge = 1e-3 * np.linalg.eigvalsh(item)[-1]
        np.testing.assert_allclose(
            x, symmetric_power(item, 0.5, ridge), rtol=1e-8, atol=1e-8 * np.abs(x).max()
        )


@pytest.mark.parametrize("precision", ["auto", "f64", "f32", "tf32x3", "tf32"])
def test_precision_of_power(tmp_path, precision):
    a = RNG.normal(size=(6, 6)).astype(np.float32)
    a = a @ a.T + np.eye(6, dtype=np.float32)
    np.save(tmp_path / "a.npy", a)
    gram(*"power a.npy -m coupled-newton -o x.npy --precision".split(), precision, cwd=tmp_path)
    x = np.load(tmp_path / "x.npy")
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, symmetric_power(a.astype(float), -0.25), rtol=1e-2, atol=1e-3)


def test_power_text(tmp_path):
    a = np.array([[4.0, 1.0], [np.nan, 3.0]])
    path = save_text(tmp_path / "a.csv", np.nan_to_num(a, nan=9.0))
    full = np.array([[4.0, 1.0], [1.0, 3.0]])
    x = load_text(gram("power", path, "--uplo", "upper", "-p", "-1"))
    np.testing.assert_allclose(x, np.linalg.inv(full), rtol=1e-12)
    np.save(tmp_path / "f.npy", full.astype(np.float32))
    gram(*"power f.npy -p 2 -o y.npy".split(), cwd=tmp_path)
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, full @ full, rtol=1e-6)


def test_power_refusals(tmp_path):
    a = np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.ones((2, 3)))
    np.save(tmp_path / "c.npy", np.full((2, 2), np.nan))
    np.save(tmp_path / "f.npy", np.diag([1.0, 0.0, 2.0]).astype(np.float32))
    for arguments, status, words in (
        ("a.npy -o x.npy", FAILURE, "matrix 1 of the batch is not positive definite enough"),
        ("a.npy -m coupled-newton -o x.npy", FAILURE, "matrix 1 of the batch: the iteration did"),
        ("a.npy --ridge 1 --tolerance 1e-300 -p -1/3 -o x.npy", FAILURE, "an error estimate above"),
        ("b.npy -o x.npy", BAD_DATA, "b.npy is 2 by 3, expected a square matrix"),
        ("c.npy -o x.npy", BAD_DATA, "the matrix holds NaN"),
        ("a.npy --power 1/x", USAGE, '--power is "1/x", expected a fraction'),
        ("a.npy --power 0.5x", USAGE, '--power is "0.5x", expected a fraction'),
        ("a.npy --ridge 1 --relative-ridge 1", USAGE, "expected only one of them"),
        ("a.npy -m minimax --precision f32", BAD_DATA, "options.precision is 2, expected AUTO or"),
        ("a.npy --precision half", USAGE, "--precision"),
        ("f.npy -m coupled-newton --precision f32 -o x.npy", FAILURE, "the iteration did not"),
        ("f.npy -m minimax --ridge 1 --precision tf32 --tolerance 1e-30", FAILURE, "above"),
        ("a.npy --power 1/3 -m newton-schulz", BAD_DATA, "options.denominator is 3"),
    ):
        said = refusal("power", *arguments.split(), status=status, cwd=tmp_path)
        assert words in said
        assert not (tmp_path / "x.npy").exists()
