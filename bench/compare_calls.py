"""What a warm call from Python costs over the same call in C.

    python bench/compare_calls.py --program build/tests/bench_call [--calls 200000] [--turns 5]

gram.cdist(x, y, out=out) with three 2 x 2 arrays of float32 on one thread: from NumPy and, if it is
there, from PyTorch, in turns with bench/bench_call.c, which makes the same call in C.  Each turn is
a process of its own; the best and the median of all turns count, since other programs only add.
Prints a table in microseconds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import timeit

TARGETS = {"numpy": 1.0, "torch": 1.5}


def one(library, calls):
    """Microseconds of a call from this process."""
    import gram

    gram.set_threads(1)
    if library == "torch":
        import torch

        x, y, out = torch.ones(2, 2), torch.ones(2, 2), torch.empty(2, 2)
    else:
        import numpy as np

        x, y = np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)
        out = np.empty((2, 2), np.float32)
    cdist = gram.cdist
    loop = min(timeit.repeat(lambda: None, number=calls, repeat=9)) / calls
    times = timeit.repeat(lambda: cdist(x, y, out=out), number=calls, repeat=9)
    best, middle = min(times) / calls, statistics.median(times) / calls
    print(json.dumps({"best_ns": (best - loop) * 1e9, "median_ns": (middle - loop) * 1e9}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/tests/bench_call")
    parser.add_argument("--calls", type=int, default=200000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--one", choices=list(TARGETS), help="measure this alone, as a turn does")
    options = parser.parse_args()
    if options.one:
        one(options.one, options.calls)
        return
    again = [sys.executable, __file__, "--calls", str(options.calls), "--one"]
    ways = {"C": [options.program, str(options.calls)]} | {n: [*again, n] for n in TARGETS}
    found = {name: [] for name in ways}
    for _ in range(options.turns):
        for name, command in ways.items():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[name].append(json.loads(done.stdout))
            elif name != "torch":
                sys.exit(done.stderr)
    print("| call | best, us | median, us | over C, best | target |\n|---|---|---|---|---|")
    least = min(t["best_ns"] for t in found["C"]) / 1e3
    for name, times in found.items():
        if not times:
            continue
        best = min(t["best_ns"] for t in times) / 1e3
        median = statistics.median(t["median_ns"] for t in times) / 1e3
        over = "" if name == "C" else f"{best - least:.2f}"
        print(f"| {name} | {best:.2f} | {median:.2f} | {over} | {TARGETS.get(name, '')} |")


if __name__ == "__main__":
    main()
