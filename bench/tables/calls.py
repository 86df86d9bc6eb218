"""tables/calls.py - what a call costs apart from its work: warm ones, and the first of a process"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gram
import numpy as np
from core.first_call import SHAPES
from core.place import relative
from core.tables import Call, Operation, Problem, Row

FIRST = Path(__file__).resolve().parents[1] / "core" / "first_call.py"


class WarmCall(Operation):
    """gram.cdist of next to nothing, beside the same call in C."""

    name = "warm_call"

    def make(self, place, m, k, calls=200000):
        return Problem(x=place.uniform(m, k), y=place.uniform(m, k), out=place.empty(m, m))

    def ours(self, q):
        found = {"": lambda: gram.cdist(q.x, q.y, out=q.out)}
        if q.place.on_cpu:
            try:
                import torch
            except ImportError:
                return found
            x, y, out = (torch.from_numpy(np.array(t)) for t in (q.x, q.y, q.out))
            found["PyTorch's tensors"] = lambda: gram.cdist(x, y, out=out)
        return found

    def error(self, q, got):
        from tables.pairwise import distances, host

        return relative(got, distances(host(q.x), host(q.y), 2))


def first_call(*arguments):
    """First calls with an empty cache, NVIDIA's own switched off, and with a full one."""
    full = tempfile.TemporaryDirectory(prefix="gram-bench-")

    def run(folder):
        environment = dict(os.environ, GRAM_CACHE_DIR=f"{folder}/gram", XDG_CACHE_HOME=folder,
                           CUDA_CACHE_DISABLE="1")  # fmt: skip
        done = subprocess.run([sys.executable, FIRST, *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        return json.loads(done.stdout.splitlines()[-1])

    def cold():
        with tempfile.TemporaryDirectory(prefix="gram-bench-") as folder:
            return run(folder)

    def cached():
        if not os.listdir(full.name):
            run(full.name)
        return run(full.name)

    return {"cold": Call(sample=cold), "cached": Call(sample=cached)}


class FirstCall(Operation):
    name = "first_call"

    def make(self, place, key):
        return Problem()

    def ours(self, q):
        return first_call("gram", q.key, q.place.build / "libgram.so")


SUBJECTS = {
    "calls": [Row("a warm call", WarmCall(), {"m": 2, "k": 2}, {"m": 64, "k": 16})],
    "first": [Row(f"the first call, {key}", FirstCall(), None, {"key": key}) for key in SHAPES],
}
