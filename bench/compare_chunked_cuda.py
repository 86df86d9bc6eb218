#!/usr/bin/env python3
"""compare_chunked_cuda.py - gram_matmul_chunked beside the whole product on a GPU

    compare_chunked_cuda.py build/libgram.so [ORDER]

An f32 product of two matrices of this order (32768) with a quarter of its three matrices' bytes as
memory: operands on the device, then on the CPU, pinned and not, beside the copies alone (PCIe).
Seconds of the clock, the best of two, and the largest difference from the whole product.
"""

import argparse
import ctypes as c
import os
import time

import torch
from gram_library import MAX_DIMS, Device, Gram, Tensor

CPU, CUDA = 0, 1


def best(run, times=2):
    taken = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken)


def place(t):
    dims = (c.c_int64 * MAX_DIMS)
    device = Device(CUDA, t.device.index) if t.is_cuda else Device(CPU, 0)
    return Tensor(t.data_ptr(), 1, device, t.dim(), dims(*t.shape), dims(*t.stride()))


def chunked(gram, a, b, out, memory):
    tensors = [place(t) for t in (a, b, out)]

    def run():
        gram.check(gram.lib.gram_matmul_chunked(gram.context, c.byref(tensors[0]),
                                                c.byref(tensors[1]), None, c.c_size_t(memory),
                                                c.byref(tensors[2])))  # fmt: skip

    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("order", nargs="?", type=int, default=32768)
    arguments = parser.parse_args()
    n, gram = arguments.order, Gram(arguments.library, os.cpu_count(), Device(CUDA, 0))
    torch.manual_seed(0)
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    whole, out = torch.empty_like(a), torch.empty_like(a)
    bytes_ = 3 * a.numel() * 4
    print(torch.cuda.get_device_name(), f"f32, {n}^3, {bytes_ / 2**30:.3g} GiB", flush=True)
    base = best(chunked(gram, a, b, whole, 4 * bytes_))

    def tell(name, seconds, got):
        error = "" if got is None else f", differs by {(got - whole).abs().max().item():.2g}"
        print(f"{name}: {seconds:.3f} s, {2 * n**3 / seconds * 1e-12:.1f} Tflop/s, "
              f"{100 * base / seconds:.0f} %{error}", flush=True)  # fmt: skip

    tell("whole, on the device", base, whole)
    tell("torch.mm", best(lambda: torch.mm(a, b, out=out)), out)
    for part in (4, 16):
        out.zero_()
        tell(f"memory 1/{part}, on the device",
             best(chunked(gram, a, b, out, bytes_ // part)), out)  # fmt: skip
    for pinned in (True, False):
        host = [torch.empty(n, n, pin_memory=pinned) for _ in range(3)]
        host[0].copy_(a)
        host[1].copy_(b)
        kind = "pinned" if pinned else "pageable"
        copies = best(lambda h=host: (out.copy_(h[0]), out.copy_(h[1]), h[2].copy_(out)))
        print(f"{kind} copies alone: {copies:.3f} s, {bytes_ / copies * 1e-9:.1f} GB/s", flush=True)
        for part in (4, 16):
            host[2].zero_()
            taken = best(chunked(gram, *host, bytes_ // part), 1)
            tell(f"memory 1/{part}, all on the CPU, {kind}", taken, host[2].cuda())
        taken = best(chunked(gram, a, host[1], whole.clone(), bytes_ // 4), 1)
        tell(f"memory 1/4, b on the CPU, {kind}", taken, None)
        del host


if __name__ == "__main__":
    main()
