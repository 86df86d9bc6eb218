"""test_cli_eigh.py - gram eigh: ranges, inputs and outputs, against NumPy"""

import numpy as np
import pytest
from gram_cli import BAD_DATA, FAILURE, USAGE, gram, refusal

RNG = np.random.default_rng(7)


def symmetric(*shape):
    a = RNG.normal(size=shape)
    return a + np.swapaxes(a, -1, -2)


def results(folder, prefix="e"):
    return np.load(folder / f"{prefix}-values.npy"), np.load(folder / f"{prefix}-vectors.npy")


def check_pairs(a, w, v, first=0):
    """The pairs are those of NumPy from number `first` on."""
    expected = np.linalg.eigvalsh(a)[..., first : first + w.shape[-1]]
    np.testing.assert_allclose(w, expected, atol=1e-12 * np.abs(expected).max(initial=1))
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-11)
    identity = np.broadcast_to(np.eye(w.shape[-1]), v.shape[:-2] + (w.shape[-1],) * 2)
    np.testing.assert_allclose(np.swapaxes(v, -1, -2) @ v, identity, atol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 8, 50])
@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        ("", 0, None),
        ("--range 0:1", 0, 1),
        ("--range :", 0, None),
        ("--largest 1", -1, 1),
        ("--smallest 1", 0, 1),
        ("--values :", 0, None),
        ("--driver divide", 0, None),
        ("--driver bisection --range 0:", 0, None),
    ],
)
def test_pairs(tmp_path, n, options, first, count):
    a = symmetric(n, n)
    np.save(tmp_path / "a.npy", np.asfortranarray(a))
    assert gram("eigh", "a.npy", "-o", "e", *options.split(), cwd=tmp_path) == ""
    w, v = results(tmp_path)
    assert w.shape == (count or n,) and v.shape == (n, count or n)
    check_pairs(a, w, v, first % n)


def test_range_is_half_open(tmp_path):
    a = symmetric(9, 9)
    np.save(tmp_path / "a.npy", a)
    gram("eigh", "a.npy", "-o", "e", "--range", "2:5", cwd=tmp_path)
    check_pairs(a, *results(tmp_path), 2)
    w = np.linalg.eigvalsh(a)
    low, high = float(w[1] + w[2]) / 2, float(w[4] + w[5]) / 2
    gram("eigh", "a.npy", "-o", "f", "--values", f"{low!r}:{high!r}", cwd=tmp_path)
    assert results(tmp_path, "f")[0].shape == (3,)
    check_pairs(a, *results(tmp_path, "f"), 2)


def test_batch_and_triangle(tmp_path):
    a = symmetric(2, 3, 4, 4).astype("f4")
    np.save(tmp_path / "a.npy", a)
    gram("eigh", "a.npy", "-o", "e", cwd=tmp_path)
    w, v = results(tmp_path)
    assert w.shape == (2, 3, 4) and v.shape == (2, 3, 4, 4) and w.dtype == v.dtype == np.float32
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-5)
    np.save(tmp_path / "t.npy", np.where(np.tri(4, k=-1) > 0, np.nan, a))
    gram("eigh", "t.npy", "--uplo", "upper", "--no-vectors", "-o", "t", cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "t-values.npy"), w, atol=1e-5)
    assert not (tmp_path / "t-vectors.npy").exists()


def test_fewer_values_are_filled_up(tmp_path):
    a = np.stack([np.diag([1.0, 2, 3]), np.diag([1.0, 7, 8])])
    np.save(tmp_path / "a.npy", a)
    gram("eigh", "a.npy", "-o", "e", "--values", "1.5:5", cwd=tmp_path)
    w, v = results(tmp_path)
    np.testing.assert_array_equal(w, [[2, 3], [np.nan, np.nan]])
    assert v.shape == (2, 3, 2) and np.isnan(v[1]).all()
    np.testing.assert_array_equal(np.abs(v[0]), [[0, 0], [1, 0], [0, 1]])


def test_text(tmp_path):
    (tmp_path / "a.csv").write_text("2,1\n1,2\n")
    values = gram("eigh", tmp_path / "a.csv").split()
    np.testing.assert_allclose([float(x) for x in values], [1, 3], rtol=1e-15)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--range 1", "not of the form LOW:HIGH"),
        ("--range 2:1", "0 <= I <= J <= 3"),
        ("--range 0:4", "0 <= I <= J <= 3"),
        ("--range 0.5:1", "0 <= I <= J <= 3"),
        ("--range 0:1x", "not of the form LOW:HIGH"),
        ("--values 2:1", "LO < HI"),
        ("--values a:1", "not of the form LOW:HIGH"),
        ("--largest 4", "is 4, expected at most 3, the order of the matrix"),
        ("--largest 1 --smallest 1", "expected only one of them"),
    ],
)
def test_wrong_usage(tmp_path, options, says):
    np.save(tmp_path / "a.npy", np.eye(3))
    assert says in refusal("eigh", "a.npy", *options.split(), status=USAGE, cwd=tmp_path)


def test_refusals(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    said = refusal("eigh", "a.npy", status=BAD_DATA, cwd=tmp_path)
    assert "a.npy is 3 by 2, expected a square matrix" in said
    b = np.stack([np.eye(5)] * 3)
    b[1, 2, 1] = np.nan
    np.save(tmp_path / "b.npy", b)
    said = refusal("eigh", "b.npy", "-o", "e", status=FAILURE, cwd=tmp_path)
    assert "matrix 1 of the batch holds NaN or infinity" in said
    assert not (tmp_path / "e-values.npy").exists()


def test_several_gpus_by_name(tmp_path):
    np.save(tmp_path / "a.npy", symmetric(4, 4))
    for name in ("cuda:0,", "cuda:,1", "cuda:0,x", "cuda:0,1.5", "cuda:" + ",".join("0" * 17)):
        assert "--device" in refusal("eigh", tmp_path / "a.npy", "--device", name, status=USAGE)
    assert "cuda:0,1" in refusal("eigh", tmp_path / "a.npy", "--force", status=USAGE)
