"""test_cli_allocations.py - every command when one of its allocations fails, or all from one on

Each run fails another allocation (tests/preload/failing_malloc.c).  It ends as the documentation
says, with a message, within its time; it leaves no temporary file, an old output or a whole new
one, and frees what a run without failures frees.  A command with many allocations is tried at the
first of them and at some of the others: GRAM_FAIL_MOST says at how many, 24 by default.
"""

import collections
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from gram_cli import GRAM, SOURCE, gram

BUILD = pathlib.Path(GRAM).parent
SHIM = BUILD / "tests" / "failing_malloc.so"
MOST = int(os.environ.get("GRAM_FAIL_MOST", "24"))
SECONDS = 120  # a run takes 0.05; one that takes so long hangs

pytestmark = pytest.mark.skipif(not SHIM.exists(), reason="needs glibc and no sanitizer")

# name: arguments, and the files that they write
COMMANDS = {
    "fit numbers": (
        ["fit", "d.csv", "-y", "y", "-o", "o", "--holdout", "0.2", "--chart", "o.svg"],
        ["o", "o.svg"],
    ),
    "fit arrow": (["fit", "t.arrow", "-y", "y", "-o", "o", "-i", "0"], ["o"]),
    "fit classes in leaves": (
        [*"fit d.csv -y colour -o o --leaf-rows 20 -i 1 --json --weights w".split()],
        ["o"],
    ),
    "fit centres": (
        "fit many.csv -y y -o o --centres 10 --leaf-rows 60 -k laplace -L 1 -r 0.01 -i 0 "
        "--weights w".split(),
        ["o"],
    ),
    "fit targets": (
        ["fit", "d.csv", "-y", "y,w", "-o", "o", "--task", "regression", "--holdout", "0.2"],
        ["o"],
    ),
    "predict targets": (["predict", "two.gram", "d.csv", "--interval", "0.5", "-o", "o"], ["o"]),
    "score targets": (["score", "two.gram", "d.csv"], []),
    "predict": (["predict", "colour.gram", "d.csv", "--proba", "-o", "o.json"], ["o.json"]),
    "predict, interval": (["predict", "m.gram", "d.csv", "--interval", "0.5", "-o", "o"], ["o"]),
    "predict, set": (["predict", "colour.gram", "d.csv", "--set", "0.5", "-o", "o"], ["o"]),
    "score": (["score", "m.gram", "d.csv", "--chart", "o.svg"], ["o.svg"]),
    "score classes": (["score", "colour.gram", "d.csv", "--chart", "o.svg"], ["o.svg"]),
    "cv": (["cv", "d.csv", *"-y colour -i 0 -k 2 -o o.csv".split()], ["o.csv"]),
    "importance": (["importance", "m.gram", "-o", "o.csv", "--chart", "o.svg"], ["o.csv", "o.svg"]),
    "cdist": (["cdist", "d.npy", "x.csv", "-p", "1.3", "-o", "o.npy"], ["o.npy"]),
    "nearest": (["nearest", "d.npy", "x.csv", "-k", "2", "-o", "o.npy"], ["o.npy"]),
    "nearest, weights": (
        ["nearest", "d.npy", "x.csv", "-k", "2", "-w", "w.csv", "-o", "o.npy"],
        ["o.npy"],
    ),
    "kernel": (["kernel", "x.csv", "-e", "exp(-s*a)", "--param", "a=2", "-o", "o"], ["o"]),
    "kernel, median": (["kernel", "x.csv", "-o", "o.npy"], ["o.npy"]),
    "krr": (
        "krr x.csv x.csv -r 1 --method cg --predict x.csv --predictions p.npy -o o.npy".split(),
        ["o.npy", "p.npy"],
    ),
    "krr, centres": (
        "krr x.csv x.csv -r 1 --centres 2 --chosen c.csv -o o.npy".split(),
        ["c.csv", "o.npy"],
    ),
    "solve": (
        "solve spd.npy b.csv -m cholesky --jitter 0,1 --report r.csv -o o.csv".split(),
        ["o.csv", "r.csv"],
    ),
    "eigh": (["eigh", "spd.npy", "--largest", "2", "-o", "o"], ["o-values.npy", "o-vectors.npy"]),
    "power": (["power", "spd.npy", "-o", "o.npy"], ["o.npy"]),
    "kron": (["kron", "b.csv", "b.csv", "--written-out", "-o", "o.npy"], ["o.npy"]),
    "info": (["info", "--json"], []),
    "info of a model": (["info", "m.gram"], []),
    "predict, keep": (["predict", "m.gram", "d.csv", "--keep", "all", "-o", "o.csv"], ["o.csv"]),
    "cache": (["cache", "info"], []),
    "tune": (["tune", "eigh", "1", "2", "--device", "cpu", "--largest", "1"], []),
    "check": (["check", "cdist", "4", "3", "2", "p=1.3", "--isa", "base"], []),
    "check kron": (["check", "kron", "2", "2", "3", "--isa", "base"], []),
    "bench kron": (["bench", "kron", "2", "2", "--seconds", "0.0001", "--isa", "base"], []),
    "bench": (["bench", "cdist", "4", "3", "2", "--seconds", "0.0001", "--json"], []),
    "profile": (["profile", "kernel", "4", "3", "2", "--trace", "o.json"], ["o.json"]),
    "help": (["help", "--man"], []),
}
FEWER = {"tune": 4, "bench": 8, "bench kron": 8}  # of commands that measure for a while
EVERY = {"fit centres": 1000}  # of commands that fail each of their few hundred allocations
MAY_END = {0, 1, 2, 65, 66, 69, 71, 73, 74}
# Of commands that need no memory but for what they compute.
ENDS_OF = dict.fromkeys(["check", "check kron", "bench", "bench kron", "profile"], {0, 71})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    colours = ("red", "green", "blue")
    rows = [f"{i % 7},{colours[i % 3]},{i * i % 11},{1 + i % 2}" for i in range(60)]
    (folder / "d.csv").write_text("a,colour,y,w\n" + "\n".join(rows) + "\n")
    many = [f"{i % 29},{i * i % 11},{(i % 29 - 9) ** 2 + i % 3},{1 + i % 2}" for i in range(120)]
    (folder / "many.csv").write_text("a,b,y,w\n" + "\n".join(many) + "\n")
    (folder / "w.csv").write_text("1,2\n")
    shutil.copy(SOURCE / "tests" / "corpus" / "fuzz_arrow" / "file.arrow", folder / "t.arrow")
    (folder / "x.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    (folder / "b.csv").write_text("1,0\n0,2\n")
    np.save(folder / "spd.npy", np.array([[2.0, 1], [1, 3]]))
    np.save(folder / "d.npy", np.arange(8, dtype="float32").reshape(4, 2))
    fit = ["fit", folder / "d.csv", "-i", "0"]
    gram(*fit, "-y", "y", "-o", folder / "m.gram")
    gram(*fit, "-y", "y,w", "--task", "regression", "-o", folder / "two.gram")
    gram(*fit, "-y", "colour", "-o", folder / "colour.gram", "--leaf-rows", 20)
    here = {**os.environ, "GRAM_CACHE_DIR": str(folder / "cache")}
    gram("tune", "eigh", 1, 2, "--device", "cpu", env=here)
    return folder


class Runs:
    """Runs of one command in a folder of its own, where its outputs are there already."""

    def __init__(self, name, inputs, folder):
        self.arguments, self.outputs = COMMANDS[name]
        self.folder = shutil.copytree(inputs, folder / "work")
        self.report = folder / "report"
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(SHIM),
            "FAIL_REPORT": str(self.report),
            "GRAM_CACHE_DIR": str(self.folder / "cache"),
            "GRAM_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.before = sorted([*os.listdir(self.folder), *self.outputs])

    def run(self, number=0, for_good=False):
        """The status, what was said, the allocations, and those that were not freed."""
        for output in self.outputs:
            (self.folder / output).write_bytes(b"old")
        self.report.unlink(missing_ok=True)
        more = {"FAIL_AT": str(number), "FAIL_FOREVER": str(int(for_good))}
        done = subprocess.run(
            [GRAM, *self.arguments],
            cwd=self.folder,
            env={**self.environment, **more},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        calls, live = map(int, self.report.read_text().split()) if self.report.exists() else (0, 0)
        said = b"".join(
            line for line in done.stderr.splitlines(True) if b": note: " not in line
        )  # remarks on a table are no failure
        return done.returncode, said, calls, live


def numbers_to_try(calls, most):
    """The first allocations, and some of those behind them."""
    first = range(1, min(calls, most // 2) + 1)
    behind = np.linspace(len(first) + 1, calls, most - len(first)).astype(int)
    return sorted({*first, *(int(n) for n in behind if len(first) < n <= calls)})


@pytest.mark.parametrize("name", COMMANDS)
def test_an_allocation_fails(name, inputs, tmp_path):
    runs = Runs(name, inputs, tmp_path)
    status, said, calls, live = runs.run()
    assert (status, said) == (0, b"") and calls > 0
    wrong, ends = [], collections.Counter()
    for number in numbers_to_try(calls, {**FEWER, **EVERY}.get(name, MOST)):
        for for_good in (False, True):
            status, said, _, left = runs.run(number, for_good)
            where = f"allocation {number}{' and all that follow' if for_good else ''} of {calls}: "
            ends[status] += 1
            if status not in ENDS_OF.get(name, MAY_END):
                wrong.append(f"{where}status {status} {said!r}")
            elif status and not said.strip():
                wrong.append(f"{where}status {status} without a message")
            if left > live:
                wrong.append(f"{where}{left - live} allocations are not freed (status {status})")
            if sorted(os.listdir(runs.folder)) != runs.before:
                wrong.append(f"{where}left {set(os.listdir(runs.folder)) - set(runs.before)}")
            if status == 0 and any((runs.folder / o).read_bytes() == b"old" for o in runs.outputs):
                wrong.append(f"{where}status 0, and an output was not written")
    assert not wrong, "\n".join(wrong)
    assert sum(ends.values()) > 2 and (ends[71] > 0 or name == "help"), ends
