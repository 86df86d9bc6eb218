"""test_kfac_emulated.py - gram._core.Kfac with the emulation of CUDA beside the CPU

test_gpu_kfac.py has gram.optim.KFAC on a GPU.
"""

import ctypes as c

import numpy as np
import pytest
from emulated_tensors import cuda, get, put
from gram import _core

__all__ = ["cuda"]  # a fixture

PLAIN = (1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1)
LAYERS = (
    (0, 5, 4, 1, 2, 1, -1, *PLAIN),  # linear, with a bias
    (1, 4, 6, 1, 2, 2, -1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1),  # convolution of two groups
    (2, 7, 3, 0, 2, 1, 0, *PLAIN),  # embedding whose row 0 is padding
)
WEIGHTS = ((4, 5), (6, 2, 3, 3), (7, 3))
OPTIONS = (False, False, 0.01, 0.9, 1e-3, False, False, 4.0)


def draw(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape)


def inputs(step):
    rows = np.random.default_rng(step).integers(0, 7, (4, 2))
    return (
        (draw(4, 5, seed=step), draw(4, 4, seed=step + 1)),
        (draw(4, 4, 3, 3, seed=step + 2), draw(4, 6, 3, 3, seed=step + 3)),
        (rows, draw(4, 2, 3, seed=step + 4)),
    )


def directions(kfac, place, read):
    weights = tuple(place(draw(*s, seed=50)) for s in WEIGHTS)
    biases = place(draw(4, seed=51)), place(draw(6, seed=52)), None
    kfac.precondition(0.1, weights, biases)
    return [read(t) for t in (*weights, *biases[:2])]


def learn(kfac, place, step):
    for i, (a, g) in enumerate(inputs(step)):
        kfac.update(i, place(a), place(g))


def number_at(address, count, dtype):
    """Numbers of the device's memory."""
    from emulated_tensors import DRIVER

    out = np.empty(count, dtype)
    assert DRIVER.cuCtxSynchronize() == 0
    assert DRIVER.cuMemcpyDtoH_v2(c.c_void_p(out.ctypes.data), c.c_void_p(address),
                                  c.c_size_t(out.nbytes)) == 0  # fmt: skip
    return out


def test_it_is_that_of_the_cpu_and_state_goes_from_one_to_the_other(cuda):
    here, there = _core.Kfac(LAYERS, OPTIONS), _core.Kfac(LAYERS, OPTIONS, put(np.zeros(1)))
    for kfac, place in ((here, np.copy), (there, put)):
        for step in range(2):
            learn(kfac, place, 10 * step)
        kfac.refresh()
    want = directions(here, np.copy, np.copy)
    for mine, other in zip(directions(there, put, get), want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-10)
    assert there.info()["nu"] == pytest.approx(here.info()["nu"])
    copy = _core.Kfac(LAYERS, OPTIONS, put(np.zeros(1)))
    for i, (one, other) in enumerate(zip(here.state(), copy.state(), strict=True)):
        assert one[:3] == other[:3] and isinstance(other[3], int)
        array = np.frombuffer(one[3], one[2]).reshape(one[1])
        copy.put(i, array)
        np.testing.assert_array_equal(number_at(other[3], array.size, one[2]), array.ravel())
    for mine, other in zip(directions(copy, put, get), want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-10)


def test_what_cannot_be(cuda):
    kfac = _core.Kfac(LAYERS, OPTIONS, put(np.zeros(1)))
    names = [part[0] for part in kfac.state()]
    counts, a = names.index("0.counts"), names.index("0.a")
    with pytest.raises(ValueError, match="not valid for 0.counts"):
        kfac.put(counts, np.array([1, 0, 0, 1]))
    with pytest.raises(ValueError, match="not valid for 0.a"):
        kfac.put(a, np.full((6, 6), np.nan))
    for wrong in (np.zeros((5, 6)), np.zeros((6, 6), np.float32), np.zeros((12, 6))[::2]):
        with pytest.raises(ValueError, match="with the shape of 0.a"):
            kfac.put(a, wrong)
    with pytest.raises(ValueError, match="expected 0 to"):
        kfac.put(len(names), np.zeros(1))
    with pytest.raises(ValueError):  # of another place
        kfac.update(0, *inputs(0)[0])
    gradient = put(draw(*WEIGHTS[0], seed=1))
    with pytest.raises(ValueError, match="1 weights and 1 biases, but 3 layers"):
        kfac.precondition(0.1, (gradient,), (None,))
