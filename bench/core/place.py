"""core/place.py - where a comparison runs, and the arrays of its problems

On the CPU problems are NumPy's arrays, on a GPU PyTorch's tensors.  Both are drawn from the same
seeds, and references are always computed in NumPy, in float64, on the host.
"""

import numpy as np

TINY = 20  # the largest number of a row's parameters in a trial by --tiny


class NotOffered(Exception):
    """A contender does not do this problem; the message says why."""


class Place:
    def __init__(self, device="cpu", threads=1, tiny=False):
        self.device, self.threads, self.tiny = device, threads, tiny
        self.on_cpu = device == "cpu"
        self.random = np.random.default_rng(0)

    def array(self, values, dtype="float32"):
        """Values as an array of this place."""
        values = np.ascontiguousarray(values, dtype)
        return values if self.on_cpu else tensor(values).cuda()

    def draw(self, way, shape, dtype):
        """Random numbers: large arrays of a GPU are drawn there."""
        if self.on_cpu:
            return self.array(getattr(self.random, way)(shape), dtype)
        import torch

        generator = torch.Generator("cuda").manual_seed(int(self.random.integers(2**31)))
        make = torch.rand if way == "random" else torch.randn
        return make(shape, generator=generator, device="cuda", dtype=getattr(torch, dtype))

    def normal(self, *shape, dtype="float32"):
        return self.draw("standard_normal", shape, dtype)

    def uniform(self, *shape, dtype="float32"):
        return self.draw("random", shape, dtype)

    def integers(self, *shape, dtype="int32"):
        return self.array(self.random.integers(-9, 9, shape), dtype)

    def empty(self, *shape, dtype="float32"):
        if self.on_cpu:
            return np.empty(shape, dtype)
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")

    def definite(self, n, *batch, dtype="float32"):
        """Symmetric positive definite matrices whose condition number is about 10."""
        a = self.normal(*batch, n, n, dtype=dtype)
        a = a @ (a.swapaxes(-1, -2) if self.on_cpu else a.mT) / n
        a += 0.5 * self.array(np.eye(n), dtype)
        return a

    def wait(self):
        if not self.on_cpu:
            import torch

            torch.cuda.synchronize()


def tensor(x):
    """An array as PyTorch sees it, without a copy."""
    import torch

    return x if isinstance(x, torch.Tensor) else torch.from_numpy(x)


def host(x):
    """A result of any library as an array of NumPy in float64."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    elif hasattr(x, "get"):  # CuPy's
        x = x.get()
    return np.asarray(x, np.float64)


def relative(got, want):
    """The largest difference over the largest element; NaN counts as infinite."""
    got, want = host(got), host(want)
    off = np.max(np.abs(got - want)) / max(np.max(np.abs(want)), 1e-300)
    return float(np.nan_to_num(off, nan=np.inf))
