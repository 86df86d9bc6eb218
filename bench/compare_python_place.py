"""compare_python_place.py - arrays of bench/compare_python.py on one device, and one piece of work

Operands are drawn once in NumPy, in float32, and seen as every library wants them.
"""

import functools
import time

import numpy as np
import torch


class Operand:
    """An array: .a as gram gets it, .t PyTorch's, .w the same in float64, .n NumPy's, .c CuPy's."""

    def __init__(self, values, device):
        self.n = np.ascontiguousarray(values, np.float32)
        self.device = device
        self.t = torch.from_numpy(self.n).to(device)
        self.a = self.n if device == "cpu" else self.t

    @functools.cached_property
    def w(self):
        return self.t.double()

    @functools.cached_property
    def c(self):
        import cupy

        return cupy.from_dlpack(self.t)

    def like(self, *shape):
        """An output for gram, of the same library."""
        return np.empty(shape, np.float32) if self.device == "cpu" else self.t.new_empty(shape)


class Place:
    """Where a run computes, with how many threads."""

    def __init__(self, device, threads, divide=1, seed=0):
        self.device, self.threads, self.divide = device, threads, divide
        self.on_cpu = device == "cpu"
        self.random = np.random.default_rng(seed)

    def size(self, cpu, cuda):
        """Of a problem: more where a GPU is to be busy, less for a quick look."""
        chosen = cpu if self.on_cpu else cuda
        if isinstance(chosen, list):
            return [self.least(n) for n in chosen]
        return self.least(chosen)

    def least(self, n):
        return n if n < 100 else max(n // self.divide, 16)

    def operand(self, values):
        return Operand(values, self.device)

    def normal(self, *shape, scale=1.0):
        return self.operand(self.random.standard_normal(shape) * scale)

    def uniform(self, *shape):
        return self.operand(self.random.random(shape))

    def definite(self, n, *batch):
        """Symmetric, positive definite, its condition number about 10."""
        a = self.random.standard_normal((*batch, n, n)).astype(np.float32)
        return self.operand(a @ np.swapaxes(a, -1, -2) / n + 0.5 * np.eye(n, dtype=np.float32))

    def wait(self):
        if not self.on_cpu:
            torch.cuda.synchronize()


class Work:
    """gram's way and others' to the same result, and the result in float64.

    formula, if given, is written in PyTorch: with .t of the operands it is PyTorch's time, with .w
    the exact result.
    """

    def __init__(self, ours, formula=None, operands=(), exact=None, peers=None, part=None):
        self.ours, self.peers = ours, dict(peers or {})
        self.part = part or (lambda result: result)
        self.exact = exact
        if formula:
            self.peers["PyTorch"] = lambda: formula(*(o.t for o in operands))
            if not exact:
                self.exact = lambda: formula(*(o.w for o in operands))


def seconds_of(call, place, least, again=False):
    """The median and the least time of a warm call, and a result: 3 calls or more, and so many
    seconds; of a call of more than a second the first is all, or with again the second."""
    place.wait()
    begin = time.perf_counter()
    result = call()
    place.wait()
    times = [time.perf_counter() - begin]
    if times[0] < 1 or again:
        times = []
    while not times or (times[0] < 1 and (len(times) < 3 or sum(times) < least)):
        begin = time.perf_counter()
        result = call()
        place.wait()
        times.append(time.perf_counter() - begin)
    return (float(np.median(times)), min(times)), result


def as_tensor(result):
    """A result of any library, or the first of several, as a float64 tensor on the CPU."""
    if isinstance(result, list | tuple):
        return torch.cat([as_tensor(r).reshape(-1) for r in result])
    if not isinstance(result, torch.Tensor):
        result = torch.from_numpy(np.array(result.get() if hasattr(result, "get") else result))
    return result.detach().double().cpu()


def error_of(result, exact):
    """The largest difference over the largest element."""
    got, want = as_tensor(result), as_tensor(exact)
    return float((got - want).abs().max() / want.abs().max())
