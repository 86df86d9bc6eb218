"""test_address_space.py - under ulimit -v a call works or raises MemoryError, and Python ends"""

import os
import subprocess
import sys

import pytest

SECONDS = 60  # a run takes 0.3; one that takes so long hangs
PROGRAM = """
import resource, sys
import gram, numpy
limit = int(sys.argv[1]) << 20
with open("/proc/self/statm") as file:
    limit += int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
a = 3 * numpy.eye(300)
try:
    assert numpy.allclose(gram.eigh(a)[0], 3)
    print("worked")
except MemoryError as error:
    print(error)
assert gram.cdist(a).shape == (300, 300)
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="needs Linux, and no sanitizer, which wants the address space",
)


@pytest.mark.parametrize("mib", [20, 100, 160, 400, 1000])
def test_ends_under_a_limit_of_address_space(mib):
    """mib: what the interpreter may take beyond what it has after the import."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(mib)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr
    if mib >= 400 or "a buffer of" not in done.stdout:
        assert done.stdout == "worked\n"
