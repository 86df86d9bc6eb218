"""test_scratch_of_torch.py - scratch from PyTorch's allocator, with the emulation of CUDA

A tensor that says what a torch.Tensor says, and a module that counts: so the way of the calls is
tested without a GPU.  test_gpu.py has the same with PyTorch.
"""

import gram
import numpy as np
import pytest
from emulated_tensors import Allocator, cuda, get, put

__all__ = ["cuda"]  # a fixture


def expansion():
    shapes = (40, 40), (6, 40), (2, 40), (6, 40)
    return [np.random.default_rng(i).standard_normal(s) for i, s in enumerate(shapes)]


def test_a_call_takes_its_scratch_there_and_gives_it_back(cuda):
    inputs = expansion()
    tensors, out = [put(a) for a in inputs], put(np.zeros((6, 6)))
    need = gram.workspace(gram.agop, *tensors)[1]
    for _ in range(3):
        assert gram.agop(*tensors, out=out) is out
        assert not cuda.held
    assert cuda.peak >= need > 0
    np.testing.assert_allclose(get(out), gram.agop(*inputs), rtol=1e-9)


def test_what_the_allocator_raises(cuda):
    tensors, out = [put(a) for a in expansion()], put(np.full((6, 6), 77.0))
    for trouble, error in ((Allocator.OutOfMemoryError(), MemoryError), (KeyError("x"), KeyError)):
        cuda.trouble = trouble
        with pytest.raises(error):
            gram.agop(*tensors, out=out)
    cuda.trouble = None
    assert (get(out) == 77).all()
    gram.agop(*tensors, out=out)
    assert np.isfinite(get(out)).all() and not cuda.held
