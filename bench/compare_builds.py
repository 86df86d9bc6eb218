#!/usr/bin/env python3
"""compare_builds.py - the speed of every operation in two builds of libgram, in turns

    bench/compare_builds.py OLD NEW [--device cuda] [--threads 1] [--rounds 3] [--again 3]
                            [--only WORD...] [--skip OP...]

OLD and NEW are build folders with the program gram.  Every problem of bench/shapes/ is measured by
`gram bench`, by the two programs in turns, so that what else runs on the machine meets both; the
least time of all rounds counts.  A problem whose ratio new / old is above 1.03 is measured --again
so many rounds.  Prints a line per problem, and last those that are still above, which a change that
is to cost nothing has to explain.  --seconds is the time that each program takes for a problem in a
round.
"""

import argparse
import json
import pathlib
import subprocess
import sys

SHAPES = pathlib.Path(__file__).resolve().parent / "shapes"
ALLOWED = 1.03


def problems(words):
    for path in sorted(SHAPES.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            problem = [path.stem, *line.split()]
            text = " ".join(problem)
            if len(problem) > 1 and not line.startswith("#"):
                if not words or any(word in text for word in words):
                    yield problem


def least(build, problem, given):
    command = [f"{build}/gram", "bench", *problem, "--json", "--seconds", str(given.seconds)]
    command += ["--device", given.device]
    if given.threads:
        command += ["--threads", str(given.threads)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=given.limit
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(run.stdout)["seconds_min"] if run.returncode == 0 else None


def measured(problem, rounds, times):
    """Adds the least times of so many rounds to times; False if a build has none."""
    for _ in range(rounds):
        for build, found in times.items():
            found.append(least(build, problem, given))
            if found[-1] is None:
                return False
    return True


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("old")
parser.add_argument("new")
parser.add_argument("--device", default="cpu")
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--again", type=int, default=0, metavar="ROUNDS")
parser.add_argument("--seconds", type=float, default=0.2)
parser.add_argument("--limit", type=float, default=60, help="seconds that one program may take")
parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
parser.add_argument("--skip", nargs="*", default=[], metavar="OP")
given = parser.parse_args()
above = []
for problem in problems(given.only):
    if problem[0] in given.skip:
        continue
    text = " ".join(problem)
    times = {given.old: [], given.new: []}
    if not measured(problem, given.rounds, times):
        print(f"{text:58} not measured by both", flush=True)
        continue
    if min(times[given.new]) > ALLOWED * min(times[given.old]):
        measured(problem, given.again, times)
        times = {build: [t for t in found if t] for build, found in times.items()}
    old, new = min(times[given.old]), min(times[given.new])
    print(f"{text:58} {old * 1e3:10.4g} {new * 1e3:10.4g} ms {new / old:6.3f}", flush=True)
    if new / old > ALLOWED:
        above.append(f"{new / old:6.3f} {text}")
print(f"{len(above)} above {ALLOWED}:", *sorted(above, reverse=True), sep="\n")
sys.exit(bool(above))
