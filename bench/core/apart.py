"""core/apart.py - a contender in processes of its own

Every sample is a process, which makes the problem, calls once, checks, and times some calls more.
What one contender leaves behind, such as loaded libraries, tuned choices and memory, cannot reach
another, and on the CPU the growth of the process's peak memory is the contender's.  All processes
of a row have one folder as GRAM_CACHE_DIR per contender, empty at first.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from core.tables import Call
from core.timing import measure

DRIVER = Path(__file__).resolve().parents[1] / "compare.py"


def calls(names, given):
    """{name: Call} that measure themselves; given: the arguments that a process gets."""
    return {name: Call(sample=sampler([*given, "--contender", name])) for name in names}


def sampler(arguments):
    folder = tempfile.TemporaryDirectory(prefix="gram-bench-")

    def sample():
        environment = dict(os.environ, GRAM_CACHE_DIR=folder.name)
        done = subprocess.run(
            [sys.executable, str(DRIVER), *arguments],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
        return json.loads(done.stdout.splitlines()[-1])

    return sample


def resident():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def child(name, call, q, rounds, limit):
    """What a process of a contender prints: one sample."""
    before = resident()
    result = measure({name: call}, q, rounds, limit)[name]
    found = result.numbers()
    if result.failed:
        sys.exit(result.failed)
    taken = {"seconds": found["seconds"], "processor": found.get("processor_min"),
             "host": found.get("host_min"), "error": found["error"], **found["extra"]}  # fmt: skip
    if q.place.on_cpu:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        taken["MiB"] = max(peak - before, 0) / 2**20
    print(json.dumps({k: v for k, v in taken.items() if v is not None}))
