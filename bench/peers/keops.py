"""peers/keops.py - KeOps: reductions of distance and kernel matrices that are never stored

It compiles a formula at its first use, for which it needs a C++ compiler.  Instead of a matrix of
distances it gives the sums of its rows.
"""

import numpy as np
import pykeops
from core.place import NotOffered, host, relative, tensor
from core.tables import Call

pykeops.set_verbose(False)
NAME, PACKAGES, DEVICES = "KeOps", ["pykeops"], ("cpu", "cuda")


def cdist(q):
    if not q.place.on_cpu or q.p == 0 or q.y is None:
        raise NotOffered("row sums on a CPU alone")
    from pykeops.numpy import LazyTensor

    yj = LazyTensor(q.y[None, :, :])

    def run():
        difference = LazyTensor(q.x[:, None, :]) - yj
        if q.p == 1:
            s = difference.abs().sum(-1)
        elif q.p == 2:
            s = difference.sqnorm2().sqrt()
        elif q.p == 0.5:
            s = difference.abs().sqrt().sum(-1).square()
        elif q.p == np.inf:
            s = difference.abs().max(-1)
        else:
            s = (difference.abs() ** q.p).sum(-1) ** (1 / q.p)
        return s.sum(axis=1)

    def error(got):
        from tables.pairwise import distances

        return relative(np.ravel(got)[:3], distances(host(q.x[:3]), host(q.y), q.p).sum(1))

    return {"row sums": Call(run, error)}


def kernel_matmul(q):
    from pykeops.torch import LazyTensor

    x, y, v = (tensor(t) for t in (q.x, q.y, q.v))
    a, b = LazyTensor(x[:, None, :]), LazyTensor(y[None, :, :])
    return lambda: (-(a - b).abs().sum(-1)).exp() @ v


CALLS = {"cdist": cdist, "kernel_matmul": kernel_matmul}
