"""test_arrays.py - arrays of every layout, drawn at random: strides, broadcasting, outputs"""

import array
import ctypes

import gram
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

settings.register_profile("gram", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("gram")


@st.composite
def layouts(draw, shape, dtype=np.float64):
    """An array of that shape in some layout: reversed, stepped, transposed, shifted, broadcast."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    whole = tuple(shape[i] * abs(steps[i]) for i in order)
    offset = draw(st.integers(0, 3))
    count = int(np.prod(whole, dtype=int))
    memory = rng.integers(-4, 5, count + offset).astype(dtype)[offset:].reshape(whole)
    view = memory.transpose(np.argsort(order))
    return view[tuple(slice(None, None, step) for step in steps)]


@st.composite
def pairs(draw):
    """x and y whose batches broadcast, with any size zero now and then."""
    batches = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    m, n, k = (draw(st.integers(0, 6)) for _ in range(3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    x = draw(layouts(batches.input_shapes[0] + (m, k), dtype))
    y = draw(layouts(batches.input_shapes[1] + (n, k), dtype))
    return x, y, batches.result_shape + (m, n)


def naive(x, y, p):
    difference = np.abs(x[..., :, None, :].astype(float) - y[..., None, :, :])
    return (difference**p).sum(-1) ** (1 / p)


@given(pairs(), st.sampled_from([1, 2, 1.5]))
def test_any_layout(pair, p):
    x, y, shape = pair
    got = gram.cdist(x, y, p)
    assert got.shape == shape and got.dtype == x.dtype
    np.testing.assert_allclose(got, naive(x, y, p), rtol=1e-5, atol=1e-5)


@given(st.data(), pairs())
def test_any_output(data, pair):
    x, y, shape = pair
    out = data.draw(layouts(shape, x.dtype))
    assert gram.cdist(x, y, out=out) is out
    np.testing.assert_array_equal(out, gram.cdist(x, y))


@given(st.data(), st.integers(0, 5), st.integers(0, 3))
def test_solves_of_any_layout(data, n, r):
    a = data.draw(layouts((2, n, n))) + 40 * np.eye(n)
    b = data.draw(layouts((2, n, r)))
    np.testing.assert_allclose(gram.solve_lu(a, b), np.linalg.solve(a, b), rtol=1e-9, atol=1e-12)


@given(st.data(), st.sampled_from([np.float32, np.float64]))
def test_numbers_of_any_kind(data, dtype):
    x = data.draw(layouts((4, 3)))
    for p in (2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.array(2.0), np.array(2)):
        np.testing.assert_array_equal(gram.cdist(x, p=p), gram.cdist(x))
    batch = data.draw(layouts((2, 4, 3)))
    p = np.array([1, 2], dtype)[::-1]
    np.testing.assert_array_equal(gram.cdist(batch, p=p)[1], gram.cdist(batch[1], p=1))


def test_broadcast_views_are_read_in_place():
    x = np.broadcast_to(np.array([1.0, 2.0, 4.0]), (1000, 3))
    y = np.broadcast_to(np.float64(1), (2, 3))
    assert gram.cdist(x, y, 1).tolist() == [[4.0, 4.0]] * 1000


def test_read_only_input():
    x = np.arange(6.0).reshape(3, 2)
    x.flags.writeable = False
    np.testing.assert_allclose(gram.cdist(x), cdist(x, x))


def test_memory_that_is_no_numpy():
    x = array.array("d", [0, 0, 3, 4])
    d = gram.cdist(memoryview(x).cast("B").cast("d", (2, 2)))
    assert isinstance(d, np.ndarray) and d.tolist() == [[0, 5], [5, 0]]
    out = array.array("d", [0] * 4)
    view = memoryview(out).cast("B").cast("d", (2, 2))
    gram.cdist(np.zeros((2, 2)), np.ones((2, 2)), 1, out=view)
    assert out.tolist() == [2] * 4


class OfGpu(np.ndarray):
    """As CuPy's: the buffer protocol is there but not for a GPU, DLPack does it."""

    __cuda_array_interface__ = None
    asked = 0

    def __dlpack__(self, **options):
        OfGpu.asked += 1
        return super().__dlpack__(**options)


def test_buffers_of_types_of_a_gpu_are_left_alone():
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(gram.cdist(x.view(OfGpu)), gram.cdist(x))
    assert OfGpu.asked == 1


class Exported:
    """An array that offers DLPack alone, of an older or a newer version."""

    def __init__(self, array, versioned=True, broken=None):
        self.array, self.versioned, self.broken = array, versioned, broken

    def __dlpack_device__(self):
        return (1, 0) if self.broken != "device" else (7, 0)

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("no such argument")
        return self.array.__dlpack__(**options) if not self.broken else self.broken


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(versioned):
    x = np.arange(12.0).reshape(4, 3)[::2]
    d = gram.cdist(Exported(x, versioned))
    np.testing.assert_array_equal(d, gram.cdist(x))
    out = np.empty((2, 2))
    gram.cdist(x, out=Exported(out, versioned))
    np.testing.assert_array_equal(out, d)


def test_dlpack_read_only_output_and_nonsense():
    x = np.ones((2, 2))
    x.flags.writeable = False
    assert gram.cdist(Exported(x)).tolist() == [[0, 0], [0, 0]]
    with pytest.raises((TypeError, ValueError), match="out is read-only"):
        gram.cdist(np.ones((2, 2)), out=Exported(x))
    for broken in ("nothing", "device", 3):
        with pytest.raises(TypeError, match="gram.cdist: x "):
            gram.cdist(Exported(np.ones((2, 2)), broken=broken))


def test_the_largest_shapes():
    x = np.ones((1,) * 6 + (2, 3))
    assert gram.cdist(x).shape == (1,) * 6 + (2, 2)
    with pytest.raises(ValueError, match="9 dimensions"):
        gram.cdist(np.ones((1,) * 9))


class WithStride(Exported):
    """DLPack with a stride of our choice, written into the capsule."""

    def __init__(self, array, stride):
        super().__init__(array, versioned=False)
        self.stride = stride

    def __dlpack__(self, **options):
        capsule = super().__dlpack__(**options)
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        at = api.PyCapsule_GetPointer(capsule, b"dltensor")
        # data, device (8 bytes), ndim, dtype (4 bytes), shape, strides
        strides = ctypes.cast(at + 32, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))[0]
        strides[1] = self.stride
        return capsule


def test_negative_strides_as_cupy_says_them():
    x = np.arange(12.0).reshape(4, 3)[:, ::-1]
    np.testing.assert_array_equal(gram.cdist(WithStride(x, 2**61 - 1)), gram.cdist(x))
