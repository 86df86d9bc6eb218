"""compare_programs.py - programs of other packages' users with libgram and without it, in seconds

    python bench/compare_programs.py [--repeats 3] [--only WORD]

Both run in turns, in processes of their own, with the import and one warm run not counted; the
least of the repeats is told, and the result that both compute.  A program whose package is missing
is left out.  xRFM's are in compare_xrfm.py, GPyTorch's larger ones in compare_gpytorch.py.
"""

import argparse
import json
import subprocess
import sys
import time

from programs import PROGRAMS


def run(name, ours):
    """In a process of its own: a warm run, then a timed one."""
    program = PROGRAMS[name]
    program(ours)
    begin = time.perf_counter()
    result = program(ours)
    return {"seconds": time.perf_counter() - begin, "result": result}


def measured(name, ours):
    command = [sys.executable, __file__, "--run", name, *(["--ours"] if ours else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(last[0])
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="programs whose names hold this")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.ours)))
        return
    print(f"{'program':38} {'libgram':>9} {'without':>9} {'ratio':>6}   results")
    for name in PROGRAMS:
        if args.only not in name:
            continue
        try:
            pairs = [(measured(name, True), measured(name, False)) for _ in range(args.repeats)]
        except RuntimeError as e:
            print(f"{name:38} left out: {e}")
            continue
        ours, theirs = (min(pair[i]["seconds"] for pair in pairs) for i in (0, 1))
        results = " ".join(f"{pairs[0][i]['result']:.6g}" for i in (0, 1))
        print(f"{name:38} {ours:9.3f} {theirs:9.3f} {ours / theirs:6.2f}   {results}", flush=True)


if __name__ == "__main__":
    main()
