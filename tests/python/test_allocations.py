"""test_allocations.py - calls of the package when one allocation of the extension fails

In one process of its own, in which tests/preload/failing_malloc.c takes the place of malloc: every
call raises MemoryError, or returns the right answer where the allocation was not needed, loses no
memory, and works again afterwards.
"""

import os
import pathlib
import subprocess
import sys

import pytest

SHIM = pathlib.Path(os.environ.get("GRAM_BUILD_DIR", "build")).resolve() / "tests/failing_malloc.so"
MOST = 40  # allocations of a call that are tried

SCRIPT = f"""
import ctypes, gc, os, pickle, sys, tempfile
import numpy as np
import gram

sys.path.append({str(pathlib.Path(__file__).parent)!r})
from arrow_stream import Batches

shim = ctypes.CDLL({str(SHIM)!r})
arm, live = shim.failing_malloc_arm, shim.failing_malloc_live
arm.restype = live.restype = arm.argtypes = None
arm.restype = live.restype = ctypes.c_int64
arm.argtypes = [ctypes.c_int64]

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 3))
table = {{"a": x[:, 0], "c": ["u", "v", "w", "u"] * 10}}
machine = gram.Machine.fit(table, x[:, 1])
shop = {{"c": [f"shop{{i % 10}}" for i in range(40)]}}
shops = gram.Machine.fit(shop, [float(i % 10) for i in range(40)])
letters = gram.Machine.fit({{"a": x[:, 0]}}, table["c"])
path = os.path.join(tempfile.mkdtemp(), "m")

def save_and_load():
    machine.save(path)
    return gram.Machine.load(path).predict(table)

def save_and_load_levels():
    shops.save(path)
    return gram.Machine.load(path).predict(shop)

def rows_of_a_stream():
    batches = Batches(x, 2) # of more than there is room for at first
    try:
        return gram.krr_solve(None, x[:, 1], rows=batches, ridge=1.0, method="cg", bandwidth=2.0)
    finally:
        if batches.live:
            wrong.append(f"{{batches.live}} pieces of an Arrow stream are not released")

wrong = []
calls = {{
    "cdist": lambda: gram.cdist(x, p=1.3),
    "fit": lambda: gram.Machine.fit(table, x[:, 1]).predict(table),
    "fit classes in leaves": lambda: gram.Machine.fit(
        {{"a": x[:, 0]}}, table["c"], leaf_rows=10).predict_proba({{"a": x[:, 0]}}),
    "intervals": lambda: machine.predict_interval(table, 0.5),
    "sets": lambda: letters.predict_set({{"a": x[:, 0]}}, 0.5),
    "save and load": save_and_load,
    "fit levels": lambda: gram.Machine.fit(
        shop, [float(i % 10) for i in range(40)], search=-1).predict(shop),
    "save and load levels": save_and_load_levels,
    "pickle": lambda: pickle.loads(pickle.dumps(machine)).predict(table),
    "rows of an Arrow stream": rows_of_a_stream,
}}
for name, call in calls.items():
    right = [call() for _ in range(3)][0]
    arm(0)
    call()
    count = arm(0)
    gc.collect()
    before, failed = live(), 0
    for number in range(1, min(count, {MOST}) + 1):
        arm(number)
        try:
            got = call()
            arm(0)
            if not np.allclose(got, right):
                wrong.append(f"{{name}}: wrong when allocation {{number}} of {{count}} fails")
        except MemoryError:
            failed += 1
        except Exception as error:
            wrong.append(f"{{name}}: {{error!r}} when allocation {{number}} of {{count}} fails")
        arm(0)
        got = None
        gc.collect()
        if live() > before: # what a call keeps for the next is kept by the first
            wrong.append(f"{{name}}: {{live() - before}} lost when allocation {{number}} fails")
            before = live()
    if count > 3 and failed == 0:
        wrong.append(f"{{name}}: no failure in {{count}} allocations was seen")
    print(name, count, failed)
    if not np.allclose(call(), right):
        wrong.append(f"{{name}}: does not work any more")
assert not wrong, wrong
"""


@pytest.mark.skipif(not SHIM.exists(), reason="needs glibc and no sanitizer")
def test_allocations_of_the_extension():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={
            **os.environ,
            "LD_PRELOAD": str(SHIM),
            "GRAM_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count("\n") == 10 and "cdist 0 0\n" in done.stdout
