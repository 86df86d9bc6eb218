"""peers/xrfm.py - xRFM 0.4.5 on the CPU, or on a GPU with kermac

Its L1 and L_pq kernels run on kermac where that is installed, and on gram.compat.kermac; on a CPU
without kermac they run as PyTorch's operations.
"""

import gram.compat.kermac
import numpy as np
import torch
from core.place import NotOffered, tensor
from core.tables import Call

try:
    import kermac  # noqa: F401 - xRFM takes it if it is there
except ImportError:
    gram.compat.kermac.install()

from xrfm import xRFM
from xrfm.rfm_src import kernels

NAME, PACKAGES, DEVICES = "xRFM", ["xrfm", "kermac"], ("cpu", "cuda")


def kernel(q):
    o = q.given
    made = {
        "laplace": lambda: kernels.LaplaceKernel(bandwidth=o["bandwidth"], exponent=1.0),
        "product-laplace": lambda: kernels.ProductLaplaceKernel(
            bandwidth=o["bandwidth"], exponent=1.0
        ),
        "lpq-laplace": lambda: kernels.LpqLaplaceKernel(
            bandwidth=o["bandwidth"], p=o["p"], q=o["exponent"]
        ),
    }.get(q.kernel)
    if made is None or o.get("exponent", 1.0) != 1.0 and q.kernel == "product-laplace":
        raise NotOffered(q.kernel)
    theirs, x, y = made(), tensor(q.x), tensor(q.y)
    return lambda: theirs.get_kernel_matrix(x, y)


def feature_machine(q):
    """By the direct solver and by its own choice of Cholesky, in a process that is warm."""
    number = torch.int64 if q.classes else torch.float32
    mean = 0 if q.classes else float(q.y.mean())
    x = torch.tensor(q.x, device=q.place.device)
    y = torch.tensor(q.y - mean, device=q.place.device, dtype=number)
    x_test = torch.tensor(q.x_test, device=q.place.device)
    model = {"kernel": "lpq", "norm_p": q.p, "exponent": q.q, "bandwidth": q.medians,
             "bandwidth_mode": "adaptive", "diag": False}  # fmt: skip

    def call(solver):
        fit = {"reg": q.ridge, "iters": q.rounds, "solver": solver, "early_stop_rfm": True}

        def run():
            m = xRFM(rfm_params={"model": model, "fit": fit}, device=q.place.device,
                     verbose=False, tuning_metric="brier" if q.classes else "mse",
                     max_leaf_size=100000)  # fmt: skip
            m.fit(x[: -q.held], y[: -q.held], x[-q.held :], y[-q.held :])
            found = m.predict(x_test)
            return found if isinstance(found, np.ndarray) else found.cpu().numpy()

        return Call(run, tell=lambda got: q.score(np.ravel(got) + mean, q.y_test))

    return {solver: call(solver) for solver in ("solve", "cholesky")}


def letters_classifier(q):
    names = {
        "l2": ("l2", {}),
        "l1": ("l1", {}),
        "lpq, p = 1.5": ("lpq", {"norm_p": 1.5}),
        "l1 on gram": (kernels.KermacProductLaplaceKernel(bandwidth=10.0, exponent=1.0), {}),
        "lpq on gram": (kernels.KermacLpqLaplaceKernel(bandwidth=10.0, q=1.0, p=1.5), {}),
    }
    cut = (slice(0, q.rows), slice(q.rows, q.known))
    parts = [torch.as_tensor(a[s], device=q.place.device) for s in cut for a in (q.scaled, q.y)]

    def call(kind, options):
        model = {"kernel": kind, "bandwidth": 10.0, "exponent": 1.0, "diag": False, **options}
        fit = {"reg": 1e-3, "iters": 3, "verbose": False, "M_batch_size": 8192}

        def run():
            m = xRFM(rfm_params={"model": model, "fit": fit}, device=q.place.device,
                     tuning_metric="accuracy", classification_mode="prevalence")  # fmt: skip
            m.fit(*parts)
            return m.predict(q.scaled[q.new])

        return Call(run, tell=lambda got: q.score(got, q.y[q.new]))

    return {name: call(*how) for name, how in names.items()}


CALLS = {
    "kernel": kernel,
    "feature_machine": feature_machine,
    "letters_classifier": letters_classifier,
}
