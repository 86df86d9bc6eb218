"""gram_device.py - libgram on PyTorch's tensors of a GPU, through ctypes

A call is made ready once, with all that C wants of it, and then made as often as wanted: what is
timed is the library.  Everything goes to the default stream, which is PyTorch's too.
"""

import ctypes as c

from gram_library import (
    MAX_DIMS,
    CdistOptions,
    Device,
    Gram,
    KernelOptions,
    Tensor,
    number,
)

EXPONENTIAL_POWER = 3
CUDA = 1


class AgopOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("diagonal", c.c_int),
        ("accumulate", c.c_int),
        ("points", c.c_int64),
    ]


def tensor(t):
    dtype = {"torch.float32": 1, "torch.float64": 2}[str(t.dtype)]
    shape, stride = (c.c_int64 * MAX_DIMS)(*t.shape), (c.c_int64 * MAX_DIMS)(*t.stride())
    device = Device(CUDA, t.device.index)
    return Tensor(t.data_ptr(), dtype, device, t.dim(), shape, stride)


class DeviceGram(Gram):
    """A context on the first GPU; its methods give calls without arguments."""

    def __init__(self, path):
        super().__init__(path, 1, Device(CUDA, 0))

    def ready(self, function, *arguments):
        call, given = getattr(self.lib, function), (self.context, *arguments)

        def run():
            self.check(call(*given))

        return run

    def cdist_of(self, x, y, p, out):
        options = CdistOptions(c.sizeof(CdistOptions), 0)
        other = c.byref(tensor(y)) if y is not None else None
        given = (c.byref(tensor(x)), other, number(p), c.byref(options), c.byref(tensor(out)))
        return self.ready("gram_cdist", *given)

    def kernel_of(self, x, y, out, function, p, outer_power, bandwidth, exponent, regularization):
        options = KernelOptions(
            size=c.sizeof(KernelOptions),
            inner=1,
            p=number(p),
            outer_power=number(outer_power),
            function=function,
            bandwidth=number(bandwidth),
            exponent=number(exponent),
            alpha=number(1),
            gamma=number(1),
            coef0=number(0),
            degree=number(3),
            regularization=number(regularization),
        )
        tensors = [c.byref(tensor(t)) for t in (x, y)]
        return self.ready("gram_kernel", *tensors, c.byref(options), c.byref(tensor(out)))

    def grad_of(self, a, b, coefficients, d, p, out):
        tensors = [c.byref(tensor(t)) for t in (a, b, coefficients, d)]
        return self.ready("gram_cdist_grad", *tensors, number(p), c.byref(tensor(out)))

    def agop_of(self, a, b, coefficients, d, p, out):
        tensors = [c.byref(tensor(t)) for t in (a, b, coefficients, d)]
        return self.ready("gram_agop", *tensors, number(p), None, c.byref(tensor(out)))
