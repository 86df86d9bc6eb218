"""peers/fastkron.py - FastKron (pyfastkron 1.1.0), as it is by default

Its f32 results of odd sizes are NaN after an f64 call in the same process: f32 comes first.
"""

from core.place import NotOffered
from pyfastkron import fastkronnumpy

NAME, PACKAGES, DEVICES = "FastKron", ["pyfastkron"], ("cpu",)


def kron_matmul(q):
    if q.left or q.dtype.startswith("int"):
        raise NotOffered("left products and integers")
    return lambda: fastkronnumpy.gemkm(q.x, q.factors)


CALLS = {"kron_matmul": kron_matmul}
