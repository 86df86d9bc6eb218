"""test_many.py - lists of matrices on several devices, here on contexts of the CPU"""

import numpy as np
import pytest

import gram

ORDERS = (5, 40, 3, 64, 17, 1)


def matrices(dtype=np.float64):
    random = np.random.default_rng(7)
    made = [random.standard_normal((n, n)) for n in ORDERS]
    return [(m @ m.T + np.eye(len(m))).astype(dtype) for m in made]


@pytest.mark.parametrize("devices", [None, "cpu", ["cpu", "cpu"], ["cpu"] * 5])
def test_eigh_many(devices):
    report = []
    pairs = gram.eigh_many(matrices(), devices=devices, report=report)
    for a, (values, vectors), item in zip(matrices(), pairs, report):
        np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-11)
        assert item["status"] == "GRAM_OK" and item["message"] == ""
    if devices == ["cpu", "cpu"]:  # 64, then 40, 17, 5, 3, 1 on the other
        assert [item["context"] for item in report] == [1, 1, 1, 0, 1, 1]


def test_ranges_and_values():
    values = gram.eigh_many(matrices(np.float32)[:2], vectors=False, select="largest", count=3)
    for a, w in zip(matrices(np.float32), values):
        assert w.dtype == np.float32
        np.testing.assert_allclose(w, np.linalg.eigvalsh(a.astype(np.float64))[-3:], rtol=1e-4)


def test_one_that_fails_leaves_the_others():
    a = matrices()
    a[1][3, 0] = np.nan
    with pytest.raises(gram.LinAlgError, match="eigh_many: matrix 1 of the list"):
        gram.eigh_many(a, devices=["cpu", "cpu"])
    report = []
    pairs = gram.eigh_many(a, devices=["cpu", "cpu"], report=report)
    assert [item["status"] for item in report].count("GRAM_OK") == len(a) - 1
    assert report[1]["status"] == "GRAM_NUMERICAL" and "NaN" in report[1]["message"]
    np.testing.assert_allclose(a[3] @ pairs[3][1], pairs[3][1] * pairs[3][0], atol=1e-11)
    info = [np.full((), 9, np.int32) for _ in a]
    gram.eigh_many(a, info=info)
    assert [int(i) for i in info] == [0, 2, 0, 0, 0, 0]


def test_matrix_power_many():
    a, error = matrices(), [np.zeros(()) for _ in ORDERS]
    roots = gram.matrix_power_many(a, -1, 2, devices=["cpu", "cpu", "cpu"], error=error)
    for m, x, e in zip(a, roots, error):
        np.testing.assert_allclose(x @ m @ x, np.eye(len(m)), atol=1e-10)
        assert e < 1e-10
    out = [np.empty_like(m) for m in a]
    assert gram.matrix_power_many(a, out=out)[2] is out[2]


def test_real_powers_and_floors_of_many():
    """power= and floor= were unknown to matrix_power_many."""
    a = [m - np.eye(len(m)) for m in matrices()]
    every = {"power": -0.4142, "floor": 1e-3}, {"floor": 0.5}, {"power": -0.25, "floor": 0.1}
    for words in every:
        for m, found in zip(a, gram.matrix_power_many(a, **words)):
            np.testing.assert_array_equal(found, gram.matrix_power(m, **words))
    with pytest.raises(ValueError, match="without numerator"):
        gram.matrix_power_many(a, -1, 2, power=0.3)
    with pytest.raises(ValueError, match="floor is 2"):
        gram.matrix_power_many(a, floor=2.0)


def test_what_is_refused():
    with pytest.raises(TypeError, match="gram.eigh_many: a is"):
        gram.eigh_many(3)
    with pytest.raises(ValueError, match="info has 1 arrays, expected 6"):
        gram.eigh_many(matrices(), info=[None])
    with pytest.raises(ValueError, match="select is 'value'"):
        gram.eigh_many(matrices(), select="value")
    with pytest.raises(ValueError, match="device is 'gpu'"):
        gram.eigh_many(matrices(), devices="gpu")
    with pytest.raises(ValueError, match="a has 1 dimensions"):
        gram.eigh_many([np.ones(3)])
    assert gram.eigh_many([]) == []


def test_eigh_multi_is_for_gpus():
    with pytest.raises(NotImplementedError, match="gram.eigh_multi: the CPU"):
        gram.eigh_multi(np.eye(3), devices=["cpu"], force=True)
