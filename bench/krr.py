#!/usr/bin/env python3
"""krr.py - gram.krr_solve on made problems of any size, with what it certifies and what is true

    PYTHONPATH=build/python python3 bench/krr.py higgs:1e6 susy:5e6 molecule:1e6 --device cuda

A case is a name and a number of rows.  Rows are made from a seed, in chunks that do not depend on
how many there are, in float32:

higgs     28 columns: 7 latent normals times a random matrix, and noise of 0.3; standardised.
          Gaussian kernel of length 3.8, ridge 1e-6 n, tolerance 1e-2
susy      the same with 18 columns; length 3
images    the same with 70 columns; length 6
molecule  the same with 36 columns, and noise of 0.01 in the targets; Matern-5/2 of length 6,
          ridge 1e-9 n, tolerance 1e-4, with refinement
taxi      9 independent normal columns; Gaussian of length 1, ridge 2e-7 n, tolerance 1e-2

The targets are sin(2 h1) + h2 h3 + |h1| / 2 in three directions h of the columns, of standard
deviation 1, and noise of 0.3.  One line tells each case:

seconds   of the call, with the copies to the device; in the call by its own report
rank, products, residual, bound (of the root mean square of the predictions' change), reached
sampled   the root mean square of the residual in 64 rows, over that of y, by products in float64
          on the CPU: what the certificate is beside (with centres: of what is not fitted)
test      the root mean squared error on 2,000 new rows without noise

--centres M       so many rows as centres, instead of all; the tolerance is of the reduced problem
--device NAME     cpu, cuda, cuda:1 (default: cpu)
--method NAME     of gram.krr_solve; --rank, --products, --time-limit, --tolerance, --seed: too
--ridge R         times n, instead of the case's; --length L: of the kernel
--columns C       right-hand sides: the targets with C draws of the noise
--refine, --no-refine   instead of what the case has
--float64         points and targets in float64
--warm N          rows of a first call that is not timed, for kernels to be compiled (default: 4000;
                  0: none)
--json FILE       the numbers of each case are appended as a line of JSON
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import gram

CHUNK = 1 << 18
LATENT = 7
TESTED = 2000
SAMPLED = 64
CASES = {
    "higgs": {"d": 28, "kernel": "gaussian", "length": 3.8, "ridge": 1e-6},
    "susy": {"d": 18, "kernel": "gaussian", "length": 3.0, "ridge": 1e-6},
    "images": {"d": 70, "kernel": "gaussian", "length": 6.0, "ridge": 1e-6},
    "molecule": {
        "d": 36, "kernel": "matern52", "length": 6.0, "ridge": 1e-9, "noise": 0.01,
        "tolerance": 1e-4, "refine": True,
    },
    "taxi": {"d": 9, "kernel": "gaussian", "length": 1.0, "ridge": 2e-7, "latent": False},
}  # fmt: skip
DEFAULTS = {"noise": 0.3, "tolerance": 1e-2, "refine": False, "latent": True}


class Data:
    """Rows of a case by the number of a chunk, so that more rows begin with the same ones."""

    def __init__(self, case, seed):
        rng = np.random.default_rng([seed, 0])
        self.case, self.seed, d = case, seed, case["d"]
        self.mix = rng.normal(size=(LATENT, d)).astype(np.float32) / np.float32(LATENT**0.5)
        self.scale = 1 / np.sqrt((self.mix**2).sum(axis=0) + np.float32(0.09))
        self.directions = rng.normal(size=(d, 3)).astype(np.float32) / np.float32(d**0.5)
        self.shift, self.spread = 0.0, 1.0
        sample = self.signal(self.points(np.random.default_rng([seed, 1]), 1 << 17))
        self.shift, self.spread = sample.mean(), sample.std()

    def points(self, rng, count, out=None):
        d = self.case["d"]
        if out is None:
            out = np.empty((count, d), np.float32)
        if not self.case["latent"]:
            return rng.standard_normal(dtype=np.float32, out=out)
        noise = rng.standard_normal((count, d), np.float32)
        np.matmul(rng.standard_normal((count, LATENT), np.float32), self.mix, out=out)
        noise *= np.float32(0.3)
        out += noise
        out *= self.scale
        return out

    def signal(self, x):
        h = x @ self.directions
        y = np.sin(2 * h[:, 0]) + h[:, 1] * h[:, 2] + np.abs(h[:, 0]) / 2
        return ((y - self.shift) / self.spread).astype(np.float32)

    def chunk(self, number, x, y):
        rng = np.random.default_rng([self.seed, 2, number])
        self.points(rng, len(x), x)
        y[:] = self.signal(x)[:, None]
        y += np.float32(self.case["noise"]) * rng.standard_normal(y.shape, np.float32)

    def rows(self, count, columns):
        x = np.empty((count, self.case["d"]), np.float32)
        y = np.empty((count, columns), np.float32)
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            for done in [
                pool.submit(self.chunk, i // CHUNK, x[i : i + CHUNK], y[i : i + CHUNK])
                for i in range(0, count, CHUNK)
            ]:
                done.result()
        return x, y

    def new_rows(self, count):
        x = self.points(np.random.default_rng([self.seed, 3]), count)
        return x, self.signal(x)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", 1)[0], epilog="\n\n".join(__doc__.split("\n\n")[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("cases", nargs="+", metavar="NAME:ROWS")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--centres", type=lambda text: int(float(text)))
    parser.add_argument("--products", type=int)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--ridge", type=float)
    parser.add_argument("--length", type=float)
    parser.add_argument("--columns", type=int, default=1)
    parser.add_argument("--refine", action=argparse.BooleanOptionalAction)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--warm", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    for text in args.cases:
        name, _, rows = text.partition(":")
        try:
            known = name in CASES and float(rows) >= 1
        except ValueError:
            known = False
        if not known:
            parser.error(f"{text!r} is no case, expected one of {', '.join(CASES)}, : and rows")
    return args


def options_of(case, args):
    """What gram.krr_solve is asked for, but the ridge."""
    return {
        "kernel": case["kernel"], "bandwidth": case["length"], "device": args.device,
        "method": args.method, "rank": args.rank, "products": args.products,
        "time_limit": args.time_limit, "tolerance": case["tolerance"], "refine": case["refine"],
        "seed": args.seed, "centres": args.centres,
    }  # fmt: skip


def sampled_residual(x, y, centres, alpha, ridge, kernel):
    """Over y's root mean square, of the worst column: in float64 on the CPU, row blocks at a time,
    so that a copy of all points in float64 is not needed."""
    some = np.unique(np.linspace(0, len(x) - 1, SAMPLED).astype(int))
    points, product = x[some].astype(np.float64), 0
    for i in range(0, len(centres), CHUNK):
        part = centres[i : i + CHUNK].astype(np.float64)
        v = alpha[i : i + CHUNK].astype(np.float64)
        product = product + gram.kernel_matmul(points, part, v=v, **kernel)
    residual = y[some] - product - (ridge * alpha[some] if ridge else 0)
    return float(np.max(np.sqrt((residual**2).mean(axis=0) / (y**2).mean(axis=0))))


def test_error(data, x, alpha, kernel):
    new, truth = data.new_rows(TESTED)
    found = 0
    for i in range(0, len(x), CHUNK):
        part = x[i : i + CHUNK]
        found = found + gram.kernel_matmul(
            new.astype(part.dtype), part, v=alpha[i : i + CHUNK].astype(part.dtype), **kernel
        ).astype(np.float64)  # fmt: skip
    return float(np.sqrt(((found[:, 0] - truth) ** 2).mean()))


def run(text, args):
    name, _, rows = text.partition(":")
    given = {"tolerance": args.tolerance, "ridge": args.ridge, "length": args.length,
             "refine": args.refine}  # fmt: skip
    case = DEFAULTS | CASES[name] | {k: v for k, v in given.items() if v is not None}
    n = int(float(rows))
    start = time.perf_counter()
    data = Data(case, args.seed)
    x, y = data.rows(n, args.columns)
    if args.float64:
        x, y = x.astype(np.float64), y.astype(np.float64)
    made = time.perf_counter() - start
    options, report, ridge = options_of(case, args), {}, case["ridge"] * n
    if 0 < args.warm < n:
        few = {"products": 20}
        if args.centres:
            few["centres"] = min(args.centres, args.warm // 4)
        elif args.method == "auto":
            few["method"] = "cg"
        gram.krr_solve(x[: args.warm], y[: args.warm], ridge=case["ridge"] * args.warm, report={},
                       **options | few)  # fmt: skip
    start = time.perf_counter()
    alpha, points = gram.krr_solve(x, y, ridge=ridge, report=report, **options), x
    seconds = time.perf_counter() - start
    if args.centres:
        alpha, rows = alpha
        points = x[rows]
    kernel = {"kernel": case["kernel"], "bandwidth": case["length"]}
    result = {
        "case": name, "rows": n, "columns": args.columns, "device": args.device,
        "dtype": str(x.dtype), "made_seconds": made, "call_seconds": seconds, **report,
        "sampled": sampled_residual(x, y, points, alpha, 0 if args.centres else ridge, kernel),
        "test": test_error(data, points, alpha, kernel),
    }  # fmt: skip
    print(
        f"{text} d={case['d']} c={args.columns} {args.device} {report['method']}: "
        f"{seconds:.2f} s ({report['seconds']:.2f} in the call), rank {report['rank']}, "
        f"products {report['products']}, residual {report['residual']:.2e}, "
        f"bound {report['prediction_rms']:.2e}, "
        f"reached {'yes' if report['reached'] else 'no: ' + report['end']}, "
        f"sampled {result['sampled']:.2e}, test {result['test']:.3f}",
        flush=True,
    )
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def main():
    args = parse()
    for text in args.cases:
        run(text, args)


if __name__ == "__main__":
    main()
