"""compare_xrfm.py - RFMClassifier against xRFM on letters, on the CPU or a GPU

    python bench/compare_xrfm.py [--rows 3000] [--threads 2] [--device cuda] [--kermac]

xRFM (PyPI: xrfm, torch) gets a quarter more rows to validate with; RFMClassifier gets these rows
with the others and holds some of them out itself.  xRFM's L1 and Lpq kernels run once as they are
on a CPU and once on gram.compat.kermac; on a GPU they need kermac, which is gram.compat.kermac, or
with --kermac the package itself.  Of --repeats fits in one process the last is told.
"""

import argparse
import csv
import pathlib
import sys
import time

import gram
import gram.compat.kermac
import numpy as np
import torch
from gram.sklearn import RFMClassifier

if "--kermac" not in sys.argv:
    gram.compat.kermac.install()  # before xrfm looks for kermac

from xrfm import xRFM  # noqa: E402
from xrfm.rfm_src.kernels import (  # noqa: E402
    KermacLpqLaplaceKernel,
    KermacProductLaplaceKernel,
)

DATA = pathlib.Path(__file__).parents[1] / "examples/data/letters.csv"
KERNELS = {
    "xRFM l2": ("l2", {}),
    "xRFM l1": ("l1", {}),
    "xRFM lpq, p 1.5": ("lpq", {"norm_p": 1.5}),
    "xRFM l1 on gram": (KermacProductLaplaceKernel(bandwidth=10.0, exponent=1.0), {}),
    "xRFM lpq on gram": (KermacLpqLaplaceKernel(bandwidth=10.0, q=1.0, p=1.5), {}),
}


def letters():
    with open(DATA, encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    y = np.array([ord(row[0]) - ord("A") for row in rows])
    x = np.array([row[1:] for row in rows], np.float32)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


def measure(name, fit, predict, truth, repeats):
    for _ in range(repeats - 1):
        fit()
        predict()
    begin = time.perf_counter()
    fit()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    middle = time.perf_counter()
    accuracy = np.mean(np.ravel(predict()) == truth)
    seconds = middle - begin, time.perf_counter() - middle
    print(f"| {name} | {seconds[0]:.2f} | {seconds[1]:.2f} | {accuracy:.4f} |", flush=True)


def xrfm(kernel, options, device):
    model = {"kernel": kernel, "bandwidth": 10.0, "exponent": 1.0, "diag": False, **options}
    fit = {"reg": 1e-3, "iters": 3, "verbose": False, "M_batch_size": 8192}
    return xRFM(
        rfm_params={"model": model, "fit": fit}, device=device, tuning_metric="accuracy",
        classification_mode="prevalence",
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kermac", action="store_true", help="xRFM on kermac itself")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--iterations", type=int, nargs="*", default=[0, 1, 3])
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gram.set_threads(options.threads)
    x, y = letters()
    n, known = options.rows, options.rows + options.rows // 4
    scaled = (x - x[:n].mean(0)) / x[:n].std(0)
    new = slice(16000, 20000)
    place = torch.device(options.device)
    train = [torch.as_tensor(a[:n], device=place) for a in (scaled, y)]
    validate = [torch.as_tensor(a[n:known], device=place) for a in (scaled, y)]
    print("| | fit, s | predict 4,000, s | accuracy |\n|---|---|---|---|")
    for iterations in options.iterations:
        m = RFMClassifier(iterations=iterations, device=options.device, random_state=0)
        measure(
            f"RFMClassifier(iterations={iterations})",
            lambda m=m: m.fit(x[:known], y[:known]),
            lambda m=m: m.predict(x[new]),
            y[new],
            options.repeats,
        )
    for name in options.kernels:
        m = xrfm(*KERNELS[name], options.device)
        measure(
            name,
            lambda m=m: m.fit(*train, *validate),
            lambda m=m: m.predict(scaled[new]),
            y[new],
            options.repeats,
        )


if __name__ == "__main__":
    main()
