"""compare_machine_cuda.py - a recursive feature machine on a GPU: `gram fit --device cuda` and xRFM

Both learn from the same rows with the same kernel exp(-|W (x - z)|_p^q / L^q), p = 1.3, q = 1,
L = so many medians of the distance, the same ridge, rounds, metric and part of the rows to choose
the round by; then both predict rows that neither has seen.  xRFM 0.4.5 needs kermac and PyTorch.
It gets its tensors on the GPU, and a small fit before, so that its kernels are compiled; gram's
seconds are those of its whole process, file, encoding and start of CUDA included, and those that
the fit alone took.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

P, Q, RIDGE, ROUNDS = 1.3, 1.0, 1e-3, 5
TEST_ROWS = 10000
MOST_HELD = 8000  # rows that gram holds out to choose the round by


def synthetic(rows, columns=100, seed=0):
    """A function of five directions out of so many, and noise of a tenth of its deviation."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    directions = np.linalg.qr(rng.standard_normal((columns, 5)))[0]
    z = x @ directions.astype(np.float32)
    y = z[:, 0] * z[:, 1] + np.sin(2 * z[:, 2]) + np.abs(z[:, 3]) + 0.5 * z[:, 4]
    return x, y + 0.1 * y.std() * rng.standard_normal(rows).astype(np.float32)


def letters():
    """Features, classes 0..25, by the rows of train_test_split(random_state=0)."""
    from sklearn.model_selection import train_test_split

    path = Path(__file__).resolve().parent.parent / "examples" / "data" / "letters.csv"
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    at = rows[0].index("letter")
    y = np.array([ord(row[at]) - ord("A") for row in rows[1:]])
    x = np.array([row[:at] + row[at + 1 :] for row in rows[1:]], dtype=np.float32)
    return train_test_split(x, y, test_size=0.2, random_state=0)


def standardised(x, x_test):
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    return (x - mean) / deviation, (x_test - mean) / deviation


def gram(program, *arguments):
    start = time.perf_counter()
    done = subprocess.run(
        [str(program), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - start, done.stdout


def run_gram(args, problem, folder):
    """The target is the last column of the file."""
    train, test, model = folder / "train.npy", folder / "test.npy", folder / "model.gram"
    columns = problem["x"].shape[1]
    np.save(train, np.column_stack([problem["x"], problem["y"]]).astype(np.float32))
    np.save(test, problem["x_test"].astype(np.float32))
    options = ["-p", P, "-q", Q, "-r", RIDGE, "-i", ROUNDS, "--metric", "full"]
    options += ["--metric-power", 0.5, "--target", columns, "--device", args.device]
    options += ["--task", "classification" if problem["classes"] else "regression"]
    if problem["solver"]:
        options += ["--solver", problem["solver"]]
    fit, text = gram(args.program, "fit", train, "-o", model, "--json", *options)
    predict, _ = gram(
        args.program, "predict", model, test, "-o", folder / "out.npy", "--device", args.device
    )
    about = json.loads(text)
    machine = about["machine"]
    wanted = ("seconds", "solver", "solver_iterations", "residual", "validation_mse")
    return {
        "process_seconds": fit,
        "fit_seconds": about["stages"]["fit"],
        "predict_process_seconds": predict,
        "score": score(problem, np.load(folder / "out.npy").ravel()),
        "about": {name: machine.get(name) for name in wanted},
        "best_round": machine.get("best_iteration"),
    }


def score(problem, predicted):
    if problem["classes"]:
        return float(np.mean(predicted.astype(int) == problem["y_test"]))
    return float(np.sqrt(np.mean((predicted - problem["y_test"]) ** 2)))


def xrfm_model(problem, solver):
    from xrfm import xRFM

    model = {
        "kernel": "lpq",
        "norm_p": P,
        "exponent": Q,
        "bandwidth": problem["medians"],
        "bandwidth_mode": "adaptive",
        "diag": False,
    }
    fit = {"reg": RIDGE, "iters": ROUNDS, "solver": solver, "early_stop_rfm": True}
    return xRFM(
        rfm_params={"model": model, "fit": fit},
        device="cuda",
        verbose=False,
        tuning_metric="brier" if problem["classes"] else "mse",
        max_leaf_size=100000,
    )


def run_xrfm(problem, solver, held):
    import torch

    def fit(rows):
        model = xrfm_model(problem, solver)
        model.fit(x[:rows], y[:rows], x[-held:], y[-held:])
        torch.cuda.synchronize()
        return model

    number = torch.int64 if problem["classes"] else torch.float32
    x = torch.tensor(problem["x"], device="cuda")
    mean = 0 if problem["classes"] else float(problem["y"].mean())
    y = torch.tensor(problem["y"] - mean, device="cuda", dtype=number)
    x_test = torch.tensor(problem["x_test"], device="cuda")
    fit(min(2000, len(x) - held))
    torch.cuda.empty_cache()
    start = time.perf_counter()
    model = fit(len(x) - held)
    fitted = time.perf_counter()
    predicted = model.predict(x_test)
    predicted = predicted if isinstance(predicted, np.ndarray) else predicted.cpu().numpy()
    seconds = time.perf_counter() - fitted
    leaves = [tree["type"] == "leaf" for tree in model.trees]
    return {
        "fit_seconds": fitted - start,
        "predict_seconds": seconds,
        "score": score(problem, predicted.ravel() + mean),
        "best_round": model.trees[0]["model"].best_iter if all(leaves) else None,
    }


def problems(args):
    for rows in args.rows:
        held = min(rows // 4, MOST_HELD)
        x, y = synthetic(rows + held + TEST_ROWS)
        x, x_test = standardised(x[: rows + held], x[rows + held :])
        yield {
            "key": f"{rows} x 100",
            "x": x,
            "y": y[: rows + held],
            "x_test": x_test,
            "y_test": y[rows + held :],
            "classes": 0,
            "medians": 4.0,
            "held": held,
        }
    if args.letters:
        x, x_test, y, y_test = letters()
        x, x_test = standardised(x, x_test)
        key = {"key": "letters", "classes": 26, "medians": 1.0, "held": len(x) // 5}
        yield {"x": x, "y": y, "x_test": x_test, "y_test": y_test, **key}


def measure(args, problem):
    results = {}
    for solver in args.solvers:
        problem["solver"] = solver
        with tempfile.TemporaryDirectory() as folder:
            results[f"gram {solver}"] = run_gram(args, problem, Path(folder))
    for solver in args.xrfm:
        results[f"xrfm {solver}"] = run_xrfm(problem, solver, problem["held"])
    for name, r in results.items():
        print(f"{problem['key']:14s} {name:14s}", json.dumps(r), flush=True)
    return {"problem": problem["key"], "results": results}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default="build/gram", help="the command gram")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, nargs="*", default=[5000, 50000])
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--solvers", nargs="*", default=["auto"], help="of gram fit")
    parser.add_argument("--xrfm", nargs="*", default=["solve"], help="solvers of xRFM")
    parser.add_argument("--json", help="a file for the results")
    args = parser.parse_args()
    results = [measure(args, problem) for problem in problems(args)]
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
