#!/usr/bin/env python3
"""compare_kron_tune.py - the library's own choice for a Kronecker product against gram_tune_kron's

    bench/compare_kron_tune.py [--dtypes float32 ...] [--rows TEXT] [--part I/N] [--warm]

For every product of compare_kron_cuda.py: the time of a call as the library chooses by itself, that
after gram_tune_kron has measured all candidates, and their ratio, which is to be at most 1.10; then
the same two times as the tuner itself saw them.  Tuned choices are kept in GRAM_CACHE_DIR, which
should be a folder for this alone.  Most of the time goes into compiling candidates: --warm only
compiles, such that several processes with a --part each can do so side by side, and forgets what
was measured meanwhile.  Needs torch.
"""

import argparse
import contextlib
import ctypes as c
import json
import math
import os
import sqlite3
import tempfile
from pathlib import Path

WORST = 1.10  # times the tuned choice


def arguments():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="the untuned choice against the tuned one")
    parser.add_argument("--library", default=str(here.parent / "build" / "libgram.so"))
    parser.add_argument("--dtypes", nargs="*", default=["float32", "float64"])
    parser.add_argument("--rows", default="", help="those whose name has this text")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th product from I on")
    parser.add_argument("--warm", action="store_true", help="compile, and forget the times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", help="a JSON file to write")
    return parser.parse_args()


def forget():
    """Takes the tuned choices, not the kernels, out of the cache."""
    for path in Path(os.environ["GRAM_CACHE_DIR"]).glob("*.db"):
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as file:
            with contextlib.suppress(sqlite3.OperationalError):  # no such table: none was tuned
                file.execute("DELETE FROM tuned")
                file.commit()


def measure(kron, gram, problem, args):
    _, m, sizes, name = problem
    torch, dtype = kron.torch, getattr(kron.torch, name)
    left, m = m < 0, abs(m)
    p, q = (math.prod(s[i] for s in sizes) for i in (0, 1))
    with torch.cuda.stream(gram.stream):
        x = torch.rand((p, m) if left else (m, p), dtype=dtype, device="cuda")
        y = torch.empty((q, m) if left else (m, q), dtype=dtype, device="cuda")
        factors = [torch.rand(s, dtype=dtype, device="cuda") / s[0] for s in sizes]
    factors = [f.T for f in factors] if left else factors
    run = gram.runner(x, factors, y, left)
    given, _keep = gram.arguments(x, factors, y, left)
    found = kron.gl.KronTuning(size=c.sizeof(kron.gl.KronTuning))
    own = 0 if args.warm else kron.milliseconds(run, gram.stream, args.rounds)
    gram.check(gram.lib.gram_tune_kron(gram.context, *given, c.byref(found)))
    tuned = 1 if args.warm else kron.milliseconds(run, gram.stream, args.rounds)
    return {
        "us": 1e3 * own,
        "tuned us": 1e3 * tuned,
        "ratio": own / tuned,
        "candidates": found.candidates,
        "launches": [found.table_launches, found.launches],
        "ratio seen": found.table_ms / found.ms,
        "us seen": [1e3 * found.table_ms, 1e3 * found.ms],
    }


def report(problem, got):
    launches = "{} and {}".format(*got["launches"])
    return (
        f"{problem[3]:8} {problem[0]:24} {got['us']:9.1f} us, tuned {got['tuned us']:9.1f} us, "
        f"ratio {got['ratio']:5.3f} (tuner {got['ratio seen']:5.3f}); launches {launches}, "
        f"{got['candidates']} candidates{'' if got['ratio'] <= WORST else '  WORSE'}"
    )


def main():
    args = arguments()
    os.environ.setdefault("GRAM_CACHE_DIR", tempfile.mkdtemp(prefix="gram-tune-"))
    import compare_kron_cuda as kron

    gram, result = kron.Gram(args.library), []
    first, step = map(int, args.part.split("/"))
    problems = [(*s, d) for d in args.dtypes for s in kron.SHAPES if args.rows in s[0]]
    for problem in problems[first::step]:
        if args.warm:
            with contextlib.suppress(SystemExit, kron.torch.OutOfMemoryError):
                measure(kron, gram, problem, args)
            kron.torch.cuda.empty_cache()
            continue
        got = measure(kron, gram, problem, args)
        kron.torch.cuda.empty_cache()
        print(report(problem, got), flush=True)
        result.append({"dtype": problem[3], "shape": problem[0], **got})
    if args.warm:
        forget()
    elif result:
        worse = [r for r in result if r["ratio"] > WORST]
        most = max(result, key=lambda r: r["ratio"])
        print(f"{len(worse)} of {len(result)} above {WORST}; the most is {most['ratio']:.3f}")
    if args.output:
        Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
