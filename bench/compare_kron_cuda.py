#!/usr/bin/env python3
"""compare_kron_cuda.py - products with Kronecker factors on a GPU: libgram against torch's GEMMs

    bench/compare_kron_cuda.py [--library PATH] [--dtypes float32 ...] [--rows TEXT] [--output FILE]

Times are those of CUDA events around calls one after the other, the median of rounds.  "bmm" is
torch.matmul factor by factor on views, without a transposition.  "error" is the largest difference
to products in f64 of the first rows of x, of their largest element.  Needs torch.
"""

import argparse
import ctypes as c
import json
import math
import sys
from pathlib import Path

import gram_library as gl
import torch

DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int32": 5, "int64": 6}
LEFT = 1

SHAPES = [  # name, rows, factors
    ("1024: 8^5", 1024, [(8, 8)] * 5),
    ("1024: 8^6", 1024, [(8, 8)] * 6),
    ("1024: 16^4", 1024, [(16, 16)] * 4),
    ("1024: 16^5", 1024, [(16, 16)] * 5),
    ("1024: 32^3", 1024, [(32, 32)] * 3),
    ("1024: 32^4", 1024, [(32, 32)] * 4),
    ("1024: 64^2", 1024, [(64, 64)] * 2),
    ("1024: 64^3", 1024, [(64, 64)] * 3),
    ("1024: 128^2", 1024, [(128, 128)] * 2),
    ("320: 128^3", 320, [(128, 128)] * 3),
    ("16: 8^8", 16, [(8, 8)] * 8),
    ("16: 16^6", 16, [(16, 16)] * 6),
    ("16: 32^5", 16, [(32, 32)] * 5),
    ("16: 64^4", 16, [(64, 64)] * 4),
    ("16: 128^3", 16, [(128, 128)] * 3),
    ("1: 8^7", 1, [(8, 8)] * 7),
    ("1: 32^4", 1, [(32, 32)] * 4),
    ("1: 64^3", 1, [(64, 64)] * 3),
    ("256: 31^3", 256, [(31, 31)] * 3),
    ("1024: 8->16^4", 1024, [(8, 16)] * 4),
    ("1024: 64->32^2", 1024, [(64, 32)] * 2),
    ("256: 12x10,20x24,30x25", 256, [(12, 10), (20, 24), (30, 25)]),
    ("left 1024: 8^5", -1024, [(8, 8)] * 5),
    ("left 1024: 16^4", -1024, [(16, 16)] * 4),
    ("left 1024: 32^3", -1024, [(32, 32)] * 3),
    ("left 1024: 128^2", -1024, [(128, 128)] * 2),
]


class Gram:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        self.lib.gram_message.restype = c.c_char_p
        self.stream = torch.cuda.Stream()
        options = gl.ContextOptions(size=c.sizeof(gl.ContextOptions))
        options.stream = self.stream.cuda_stream
        options.device.type = 1
        self.context = c.c_void_p()
        self.check(self.lib.gram_context_create(c.byref(options), c.byref(self.context)))

    def check(self, status):
        if status:
            sys.exit(self.lib.gram_message(self.context).decode())

    def arguments(self, x, factors, y, left):
        """What gram_kron_matmul takes behind the context, and what has to live as long."""

        def view(t):
            v = gl.Tensor(data=t.data_ptr(), dtype=DTYPES[str(t.dtype)[6:]], ndim=t.dim())
            v.device.type = 1
            for i in range(t.dim()):
                v.shape[i], v.stride[i] = t.shape[i], t.stride(i)
            return v

        tx, ty, ts = view(x), view(y), [view(f) for f in factors]
        pointers = (c.c_void_p * len(ts))(*[c.addressof(t) for t in ts])
        options = gl.KronOptions(size=c.sizeof(gl.KronOptions), side=LEFT if left else 0)
        options.alpha.value = 1
        given = (c.byref(tx), pointers, c.c_int64(len(ts)), c.byref(options), c.byref(ty))
        return given, (tx, ty, ts, options, x, factors, y)

    def runner(self, x, factors, y, left):
        given, keep = self.arguments(x, factors, y, left)

        def run(_keep=keep):
            self.check(self.lib.gram_kron_matmul(self.context, *given))

        return run


def bmm(x, factors):
    y, after = x, 1
    for f in reversed(factors):
        if after == 1:
            y = y.reshape(-1, f.shape[0]) @ f
        else:
            y = torch.matmul(f.T, y.reshape(-1, f.shape[0], after))
        after *= f.shape[1]
    return y.reshape(x.shape[0], -1)


def milliseconds(run, stream, rounds=5, least=4.0):
    with torch.cuda.stream(stream):
        run()
        stream.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def once(count):
            begin.record(stream)
            for _ in range(count):
                run()
            end.record(stream)
            end.synchronize()
            return begin.elapsed_time(end) / count

        one = once(3)
        count = max(1, min(200, math.ceil(least / max(one, 1e-3))))
        return sorted(once(count) for _ in range(rounds))[rounds // 2]


def measure(gram, m, sizes, dtype, with_bmm):
    left, m = m < 0, abs(m)
    p, q = (math.prod(s[i] for s in sizes) for i in (0, 1))
    torch.manual_seed(1)
    with torch.cuda.stream(gram.stream):
        whole = not dtype.is_floating_point
        x = torch.empty((p, m) if left else (m, p), dtype=dtype, device="cuda")
        x.random_(-9, 9) if whole else x.uniform_(-1, 1)
        factors = [torch.rand(s, device="cuda") * 2 - 1 for s in sizes]
        factors = [(9 * f if whole else f).to(dtype) for f in factors]
        y = torch.empty((q, m) if left else (m, q), dtype=dtype, device="cuda")
        run = gram.runner(x, [f.T for f in factors] if left else factors, y, left)
        run()
        few = (x[:, :8].T if left else x[:8]).double()
        want = bmm(few, [f.double() for f in factors])
        got = (y[:, :8].T if left else y[:8]).double()
        error = ((got - want).abs().max() / want.abs().max()).item()
        plain = bmm(few.to(dtype), factors).double() if not whole else want
        other = ((plain - want).abs().max() / want.abs().max()).item()
        del few, want, got, plain
    flop, elements = 0, m * p
    for a, b in reversed(sizes):
        flop, elements = flop + 2 * elements * b, elements // a * b
    ms = {"gram": milliseconds(run, gram.stream)}
    if with_bmm and not left and not whole:
        ms["bmm"] = milliseconds(lambda: bmm(x, factors), gram.stream)
    return {
        "us": {k: 1e3 * v for k, v in ms.items()},
        "gflops": {k: flop / v / 1e6 for k, v in ms.items()},
        "error": error,
        "error of bmm": other,
    }


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Kronecker products on a GPU")
    parser.add_argument("--library", default=str(here.parent / "build" / "libgram.so"))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64"])
    parser.add_argument("--rows", default="", help="those whose name has this text")
    parser.add_argument("--no-bmm", action="store_true")
    parser.add_argument("--output", help="a JSON file to write")
    args = parser.parse_args()
    gram = Gram(args.library)
    result = []
    for name in args.dtypes:
        for shape, m, sizes in SHAPES:
            if args.rows not in shape:
                continue
            got = measure(gram, m, sizes, getattr(torch, name), not args.no_bmm)
            torch.cuda.empty_cache()
            result.append({"dtype": name, "shape": shape, **got})
            text = "  ".join(
                f"{k} {got['us'][k]:9.1f} us {got['gflops'][k]:8.0f}" for k in got["us"]
            )
            text += f"  error {got['error']:.1e} ({got['error of bmm']:.1e})"
            print(f"{name:8} {shape:24} {text}", flush=True)
    if args.output:
        Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
