"""K-FAC and EKFAC on a GPU: state in f64 and f32, beside the same formulas in PyTorch.

    python bench/compare_kfac_cuda.py [--library libgram.so] [--repeats 5] [--json FILE]

Of one layer with f32 inputs: update (factors into their averages; EKFAC: eigenvalues of the samples
too), refresh (inverses or eigenvectors) and precondition (one direction), each the median time of
the repeats after one to warm up, in milliseconds, by the device's clock.  PyTorch's way is that
of the public packages: einsum for factors, cholesky_inverse or eigh, products.  err is how far the
direction is from PyTorch's in f64, of its largest number.
"""

import argparse
import ctypes as c
import json
import statistics

import torch
from gram_device import DeviceGram, tensor
from gram_library import Tensor

LINEAR, CONVOLUTION = 0, 1
DAMPING, DECAY = 1e-2, 0.9


class Layer(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("kind", c.c_int),
        ("bias", c.c_int),
        ("spatial", c.c_int),
        ("kernel", c.c_int64 * 3),
        ("stride", c.c_int64 * 3),
        ("padding", c.c_int64 * 3),
        ("dilation", c.c_int64 * 3),
        ("groups", c.c_int64),
        ("rows", c.c_int64),
        ("padding_row", c.c_int64),
        ("normalized", c.c_int),
        ("epsilon", c.c_double),
    ]


class Options(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("corrected", c.c_int),
        ("damping", c.c_int),
        ("lambda_", c.c_double),
        ("decay", c.c_double),
        ("kl_clip", c.c_double),
        ("setting", c.c_int),
        ("scale", c.c_double),
        ("state", c.c_int),
    ]


class Problem:
    """A layer, its numbers, and its gradient."""

    def __init__(self, name, samples, positions, inputs, outputs, kernel=0):
        torch.manual_seed(0)
        self.name, self.kernel, self.samples = name, kernel, samples
        self.inputs, self.outputs = inputs, outputs
        shape = (samples, inputs, positions, positions) if kernel else (samples, inputs)
        if not kernel and positions > 1:
            shape = (samples, positions, inputs)
        self.a = torch.randn(shape, device="cuda")
        shape = (samples, outputs, positions, positions) if kernel else (*shape[:-1], outputs)
        self.d = torch.randn(shape, device="cuda")
        weight = (outputs, inputs, kernel, kernel) if kernel else (outputs, inputs)
        self.weight = torch.randn(weight, device="cuda")

    def rows(self, dtype):
        """a' and g as (samples, positions, features)."""
        a, d = self.a.to(dtype), self.d.to(dtype)
        if self.kernel:
            a = torch.nn.functional.unfold(a, self.kernel, padding=self.kernel // 2)
            return a.transpose(1, 2), d.flatten(2).transpose(1, 2)
        return a.view(self.samples, -1, self.inputs), d.view(self.samples, -1, self.outputs)


class Ours:
    def __init__(self, g, p, corrected, f32):
        self.g, self.p, self.kfac = g, p, c.c_void_p()
        three = c.c_int64 * 3
        size, k = c.sizeof(Layer), max(p.kernel, 1)
        same = three(k // 2, k // 2, 0)
        layer = Layer(size, CONVOLUTION if p.kernel else LINEAR, 0, 2, three(k, k, 1),
                      three(1, 1, 1), same, three(1, 1, 1), 1, 0, -1, 1, 1e-5)  # fmt: skip
        options = Options(c.sizeof(Options), corrected, corrected, DAMPING, DECAY, 0, 0, 1,
                          1 if f32 else 2)  # fmt: skip
        one = c.c_int64 * 1
        g.check(g.lib.gram_kfac_create(
            g.context, (c.POINTER(Layer) * 1)(c.pointer(layer)), one(p.inputs), one(p.outputs),
            c.c_int64(1), c.byref(options), c.byref(self.kfac)))  # fmt: skip
        self.out = torch.empty_like(p.weight)
        weight, out = tensor(p.weight), tensor(self.out)
        lists = [(c.POINTER(Tensor) * 1)(c.pointer(t)) for t in (weight, out)]
        a, d = c.byref(tensor(p.a)), c.byref(tensor(p.d))
        self.update = g.ready("gram_kfac_update", self.kfac, c.c_int64(0), a, d)
        self.refresh = g.ready("gram_kfac_refresh", self.kfac)
        self.precondition = g.ready("gram_kfac_precondition", self.kfac, c.c_double(1), lists[0],
                                    None, lists[1], None)  # fmt: skip

    def close(self):
        self.g.lib.gram_kfac_destroy(self.kfac)


class Theirs:
    def __init__(self, p, corrected, f32):
        self.p, self.corrected = p, corrected
        self.dtype = torch.float32 if f32 else torch.float64
        self.a = self.b = self.s = self.vectors = None

    def average(self, old, new):
        return new if old is None else DECAY * old + (1 - DECAY) * new

    def update(self):
        a, d = self.p.rows(self.dtype)
        flat_a, flat_d = a.flatten(0, 1), d.flatten(0, 1)
        if self.corrected and self.vectors:
            (_, qa), (_, qb) = self.vectors
            if a.shape[1] == 1:
                squares = (flat_d @ qb).square().T @ (flat_a @ qa).square()
            else:
                squares = sum((qb.T @ (d[i].T @ a[i]) @ qa).square() for i in range(len(a)))
            squares = squares / self.p.samples
            self.s = squares if self.fresh else self.average(self.s, squares)
            self.fresh = False
        self.a = self.average(self.a, flat_a.T @ flat_a / len(flat_a))
        self.b = self.average(self.b, flat_d.T @ flat_d / self.p.samples)

    def refresh(self):
        if self.corrected:
            self.vectors = [torch.linalg.eigh(x) for x in (self.a, self.b)]
            (wa, _), (wb, _) = self.vectors
            self.s, self.fresh = wb.clamp(min=0)[:, None] * wa.clamp(min=0), True
            return
        pi = (self.a.trace() / len(self.a) / (self.b.trace() / len(self.b))).sqrt()
        shifts = pi * DAMPING**0.5, DAMPING**0.5 / pi
        self.inverses = [
            torch.cholesky_inverse(torch.linalg.cholesky(x + shift * torch.eye(len(x)).to(x)))
            for x, shift in zip((self.a, self.b), shifts, strict=True)
        ]

    def precondition(self):
        m = self.p.weight.to(self.dtype).flatten(1)
        if self.corrected:
            (_, qa), (_, qb) = self.vectors
            out = qb @ ((qb.T @ m @ qa) / (self.s + DAMPING)) @ qa.T
        else:
            out = self.inverses[1] @ m @ self.inverses[0]
        self.out = out.view_as(self.p.weight).float()

    def close(self):
        pass


def milliseconds(call, repeats):
    times = []
    for i in range(repeats + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[1:])


def measure(way, repeats):
    """The same steps for all ways: update, refresh, update (with eigenvectors), precondition."""
    way.update()
    way.refresh()
    row = {
        "update": milliseconds(way.update, repeats),
        "precondition": milliseconds(way.precondition, repeats),
    }
    out = way.out.double().clone()
    row["refresh"] = milliseconds(way.refresh, max(repeats // 2, 1))
    way.close()
    return row, out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="libgram.so")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    problems = [
        Problem("linear 1024 -> 1024, 512 samples", 512, 1, 1024, 1024),
        Problem("linear 768 -> 3072, 8 x 512 words", 8, 512, 768, 3072),
        Problem("convolution 256 -> 256, 3 x 3, 32 x 14 x 14", 32, 14, 256, 256, 3),
    ]
    g, rows = DeviceGram(args.library), []
    for p in problems:
        for corrected in (0, 1):
            right = None
            for f32 in (False, True):
                for who in ("torch", "gram"):
                    way = Ours(g, p, corrected, f32) if who == "gram" else Theirs(p, corrected, f32)
                    row, out = measure(way, args.repeats)
                    right = out if right is None else right
                    row["err"] = float((out - right).abs().max() / right.abs().max())
                    row.update(layer=p.name, way=who, state="f32" if f32 else "f64",
                               method="EKFAC" if corrected else "K-FAC")  # fmt: skip
                    rows.append(row)
                    print("{layer:44} {method:5} {way:5} {state} update {update:8.3f} refresh "
                          "{refresh:9.3f} precondition {precondition:7.3f} err {err:.1e}"
                          .format(**row), flush=True)  # fmt: skip
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"device": torch.cuda.get_device_name(), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
