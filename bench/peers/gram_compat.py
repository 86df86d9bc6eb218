"""peers/gram_compat.py - libgram through the names of other packages (gram.compat)"""

from core.place import NotOffered, tensor
from core.tables import Call

NAME, PACKAGES, DEVICES = "gram.compat", [], ("cpu", "cuda")


def cdist(q):
    found, p = {}, float(q.p)
    if q.y is None or q.dtype != "float32":
        return None
    if q.place.on_cpu and q.p > 0:
        from gram.compat import scipy, sklearn

        wide = q.x.astype("float64"), q.y.astype("float64")
        found["scipy"] = lambda: scipy.cdist(*wide, "minkowski", p=p)
        if q.p == 1:
            found["sklearn"] = lambda: sklearn.pairwise_distances(q.x, q.y, "l1")
    try:
        import torch
        from gram.compat import kermac
        from gram.compat import torch as ours
    except ImportError:
        return found
    x, y = tensor(q.x), tensor(q.y)
    found["torch"] = lambda: ours.cdist(x, y, p)
    if 0 < p < float("inf"):
        out = torch.empty_like(tensor(q.out))
        found["kermac"] = Call(lambda: kermac.cdist(x, y, p=p, out=out))
    return found


def kernel(q):
    if not q.place.on_cpu or q.kernel != "gaussian":
        raise NotOffered(q.kernel)
    from gram.compat import sklearn

    gamma = 1 / (2 * q.given["bandwidth"] ** 2)
    return {"sklearn": lambda: sklearn.pairwise_kernels(q.x, q.y, "rbf", gamma=gamma)}


CALLS = {"cdist": cdist, "kernel": kernel}
