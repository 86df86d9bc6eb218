#!/usr/bin/env python3
"""compare_cuda_first.py - the first call of a new process; compare_cuda.py runs it

    bench/compare_cuda_first.py gram KEY LIBRARY
    bench/compare_cuda_first.py kermac KEY

Prints the milliseconds from a first call until its result is there.  What a process does before
that is not in it: the device is open and the inputs lie on it.
"""

import ctypes as c
import sys
import time

SHAPES = {  # m, n, k, p; of a gradient M, K, N, p
    "1": (1000, 1000, 64, 1.0),
    "1.3": (1000, 1000, 64, 1.3),
    "2": (4096, 4096, 256, 2.0),
    "gradient": (1000, 1000, 64, 1.0),
}


def gram_calls(key, library):
    """The call and the wait of libgram alone, with memory from libgram: PyTorch is not loaded."""
    import numpy as np
    from gram_device import CUDA, DeviceGram
    from gram_library import Device, number, tensor

    gram = DeviceGram(library)

    def on_device(*shape):
        host = np.random.default_rng(len(shape)).random(shape, dtype=np.float32)
        t, memory = tensor(host), c.c_void_p()
        size = c.c_size_t(host.nbytes)
        gram.check(gram.lib.gram_memory_allocate(gram.context, size, c.byref(memory)))
        gram.check(gram.lib.gram_memory_copy(gram.context, memory, c.c_void_p(t.data), size))
        wait()
        t.data, t.device = memory.value, Device(CUDA, 0)
        return c.byref(t)

    def wait():
        gram.check(gram.lib.gram_context_synchronize(gram.context))

    m, n, k, p = SHAPES[key]
    if key == "gradient":
        given = [on_device(*shape) for shape in ((n, m), (k, n), (1, n), (k, m))]
        return gram.ready("gram_cdist_grad", *given, number(p), on_device(1, k, m)), wait
    x, y, out = on_device(m, k), on_device(n, k), on_device(m, n)
    return gram.ready("gram_cdist", x, y, number(p), None, out), wait


def kermac_calls(key):
    import kermac
    import torch

    def new(*shape):
        return torch.rand(shape, device="cuda")

    m, n, k, p = SHAPES[key]
    if key == "gradient":
        given, grad = [new(n, m), new(k, n), new(1, n), new(k, m)], new(1, k, m)
        return lambda: kermac.cdist_grad(*given, out=grad, p=p), torch.cuda.synchronize
    x, y, out = new(m, k), new(n, k), new(m, n)
    return lambda: kermac.cdist(x, y, out=out, p=p), torch.cuda.synchronize


def main():
    name, key = sys.argv[1:3]
    call, wait = gram_calls(key, sys.argv[3]) if name == "gram" else kermac_calls(key)
    wait()
    start = time.perf_counter()
    call()
    wait()
    print(f"first call {(time.perf_counter() - start) * 1e3:.3f}")


if __name__ == "__main__":
    main()
