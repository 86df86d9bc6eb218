#!/usr/bin/env python3
"""core/first_call.py - the first call of a new process; tables/calls.py runs it

    first_call.py gram KEY LIBRARY
    first_call.py kermac KEY

Prints the seconds from a first call until its result is there, as JSON.  What a process does before
that is not in it: the device is open and the inputs lie on it.  With libgram PyTorch is not loaded.
"""

import ctypes as c
import json
import sys
import time
from pathlib import Path

SHAPES = {  # m, n, k, p; of a gradient M, K, N, p
    "p = 1": (1000, 1000, 64, 1.0),
    "p = 1.3": (1000, 1000, 64, 1.3),
    "p = 2": (4096, 4096, 256, 2.0),
    "p = 1, gradient": (1000, 1000, 64, 1.0),
}


def gram_calls(key, path):
    import numpy as np
    from core.library import CUDA, Device, Library, Scalar, view

    library = Library(path, "cuda")

    def wait():
        library.check(library.lib.gram_context_synchronize(library.context))

    def on_device(*shape):
        values = np.random.default_rng(len(shape)).random(shape, dtype=np.float32)
        t, memory, size = view(values), c.c_void_p(), c.c_size_t(values.nbytes)
        library.ready("gram_memory_allocate", size, c.byref(memory))()
        library.ready("gram_memory_copy", memory, c.c_void_p(t.data), size)()
        wait()
        t.data, t.device = memory.value, Device(CUDA, 0)
        return c.byref(t)

    m, n, k, p = SHAPES[key]
    if "gradient" in key:
        given = [on_device(*shape) for shape in ((n, m), (k, n), (1, n), (k, m))]
        return library.ready("gram_cdist_grad", *given, Scalar(p), on_device(1, k, m)), wait
    x, y, out = on_device(m, k), on_device(n, k), on_device(m, n)
    return library.ready("gram_cdist", x, y, Scalar(p), None, out), wait


def kermac_calls(key):
    import kermac
    import torch

    def new(*shape):
        return torch.rand(shape, device="cuda")

    m, n, k, p = SHAPES[key]
    if "gradient" in key:
        given, grad = [new(n, m), new(k, n), new(1, n), new(k, m)], new(1, k, m)
        return lambda: kermac.cdist_grad(*given, out=grad, p=p), torch.cuda.synchronize
    x, y, out = new(m, k), new(n, k), new(m, n)
    return lambda: kermac.cdist(x, y, out=out, p=p), torch.cuda.synchronize


def main():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    name, key = sys.argv[1:3]
    call, wait = gram_calls(key, sys.argv[3]) if name == "gram" else kermac_calls(key)
    wait()
    start = time.perf_counter()
    call()
    wait()
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
