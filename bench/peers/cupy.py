"""peers/cupy.py - CuPy, on the memory of PyTorch's tensors"""

import cupy
from core.place import NotOffered
from cupyx.scipy.sparse.linalg import eigsh

NAME, PACKAGES, DEVICES = "CuPy", ["cupy-cuda12x", "cupy-cuda13x", "cupy"], ("cuda",)


def of(*tensors):
    return [cupy.from_dlpack(t) for t in tensors]


def solve(q):
    a, b = of(q.a, q.b)
    return lambda: cupy.linalg.solve(a, b)


def eigh(q):
    (a,) = of(q.a)
    return lambda: cupy.linalg.eigh(a)


def eigh_top(q):
    (a,) = of(q.a)
    return {"eigsh": lambda: eigsh(a, q.count)}


def eigh_kernel(q):
    import torch

    if q.n > 20000:
        raise NotOffered("the matrix would have to be stored")
    return {"eigsh": lambda: eigsh(
        cupy.from_dlpack(torch.exp(-torch.cdist(q.x, q.x) / q.bandwidth)), q.count)}  # fmt: skip


def matmul(q):
    a, b = of(q.a, q.b)
    return lambda: cupy.matmul(a, b)


def kron(q):
    a, b, c = of(*q.factors)
    return lambda: cupy.kron(cupy.kron(a, b), c)


CALLS = {
    "solve": solve,
    "eigh": eigh,
    "eigh_top": eigh_top,
    "eigh_kernel": eigh_kernel,
    "matmul_batched": matmul,
    "matmul_chunked": matmul,
    "kron": kron,
}
