"""peers/faiss.py - faiss-cpu: sums without the root, into a reused output; flat indices"""

import faiss
import numpy as np
from core.place import NotOffered, host, relative
from core.tables import Call

NAME, PACKAGES, DEVICES = "faiss", ["faiss-cpu"], ("cpu",)


def cdist(q):
    if q.dtype != "float32" or q.y is None or q.p == 0:
        raise NotOffered("float32 alone")
    faiss.omp_set_num_threads(q.place.threads)
    pointer, out = faiss.swig_ptr, np.empty_like(q.out)
    shape = (q.k, len(q.x), pointer(q.x), len(q.y), pointer(q.y))
    metric, arg = {1: (faiss.METRIC_L1, 0), np.inf: (faiss.METRIC_Linf, 0)}.get(
        q.p, (faiss.METRIC_Lp, q.p)
    )

    def squared():
        faiss.pairwise_L2sqr(*shape, pointer(out))
        return out

    def extra():
        faiss.pairwise_extra_distances(*shape, metric, arg, pointer(out))
        return out

    def error(got):
        from tables.pairwise import distances, sampled

        rows = sampled(len(q.x))
        want = distances(host(q.x[rows]), host(q.y), q.p)
        return relative(got[rows], want if q.p == np.inf else want**q.p)

    return Call(squared if q.p == 2 else extra, error)


def nearest(q):
    """A flat index, which is exact; its distances for p = 2 are squares."""
    if q.p not in (1, 2):
        raise NotOffered(f"p = {q.p}")
    faiss.omp_set_num_threads(q.place.threads)
    index = (faiss.IndexFlatL2 if q.p == 2 else lambda k: faiss.IndexFlat(k, faiss.METRIC_L1))(q.k)
    index.add(q.y)
    root = np.sqrt if q.p == 2 else np.asarray
    return lambda: root(index.search(q.x, q.count)[0])


CALLS = {"cdist": cdist, "nearest": nearest}
