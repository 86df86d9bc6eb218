"""emulated_tensors.py - tensors on the emulated GPU that look like PyTorch's, and its allocator"""

import ctypes as c
import os
import pathlib
import sys
import types

import numpy as np
import pytest

if not os.environ.get("GRAM_TEST_EMULATED"):
    pytest.skip("needs the emulation of CUDA", allow_module_level=True)

DRIVER = c.CDLL(str(pathlib.Path(os.environ["GRAM_CUDA_LIB_DIR"]) / "libcuda.so.1"))


class Tensor(np.ndarray):
    """Of NumPy's memory, where its pages are, but for what DLPack says of it."""

    requires_grad = False
    address = None
    __cuda_array_interface__ = None  # its buffer is not for a GPU

    def is_neg(self):
        return False

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        capsule = np.ndarray(self.shape, self.dtype, self).__dlpack__()
        get = c.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
        at = get(capsule, b"dltensor")
        c.c_void_p.from_address(at).value = self.address
        c.c_int.from_address(at + 8).value = 2
        return capsule


Tensor.__module__ = "torch"


def check(status):
    assert status == 0, status


def put(array):
    t = np.ascontiguousarray(array).view(Tensor)
    address = c.c_void_p()
    check(DRIVER.cuMemAlloc_v2(c.byref(address), c.c_size_t(t.nbytes)))
    check(DRIVER.cuMemcpyHtoD_v2(address, c.c_void_p(t.ctypes.data), c.c_size_t(t.nbytes)))
    t.address = address.value
    return t


def get(t):
    out = np.empty(t.shape, t.dtype)
    check(DRIVER.cuCtxSynchronize())
    check(
        DRIVER.cuMemcpyDtoH_v2(
            c.c_void_p(out.ctypes.data), c.c_void_p(t.address), c.c_size_t(out.nbytes)
        )
    )
    return out


class Allocator:
    class OutOfMemoryError(RuntimeError):
        pass

    def __init__(self):
        self.held, self.peak, self.trouble = {}, 0, None

    def current_stream(self, index):
        return types.SimpleNamespace(cuda_stream=0)

    def caching_allocator_alloc(self, size, device, stream):
        if self.trouble:
            raise self.trouble
        address = c.c_void_p()
        check(DRIVER.cuMemAlloc_v2(c.byref(address), c.c_size_t(size)))
        self.held[address.value] = size
        self.peak = max(self.peak, sum(self.held.values()))
        return address.value

    def caching_allocator_delete(self, address):
        del self.held[address]
        check(DRIVER.cuCtxSynchronize())
        check(DRIVER.cuMemFree_v2(c.c_void_p(address)))


@pytest.fixture
def cuda(monkeypatch):
    context, device = c.c_void_p(), c.c_int()
    check(DRIVER.cuInit(0))
    check(DRIVER.cuDevicePrimaryCtxRetain(c.byref(context), device))
    check(DRIVER.cuCtxSetCurrent(context))
    allocator = Allocator()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=allocator))
    return allocator
