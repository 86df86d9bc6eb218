"""test_life.py - references, threads, forks, imports and the end of the interpreter"""

import concurrent.futures
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import gram
import numpy as np
import pytest


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=3600,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    return done.stdout


def test_import_loads_nothing_else():
    """Neither NumPy nor any other library; numpy comes with the first array that is made."""
    out = run(
        "import sys; before = set(sys.modules); import gram;"
        "print(sorted(m.partition('.')[0] for m in set(sys.modules) - before))"
    )
    assert set(eval(out)) <= {"gram"}  # pylint: disable=eval-used


def test_import_has_no_side_effects():
    out = run(
        "import os, signal, threading\n"
        "def state(): return (signal.getsignal(2), len(os.listdir('/proc/self/task')), "
        "dict(os.environ), threading.active_count())\n"
        "before = state(); import gram; print(state() == before)"
        if os.path.isdir("/proc/self/task") and "OPENBLAS" not in gram.info()["blas"].upper()
        else "import signal; before = signal.getsignal(2); import gram;"
        "print(signal.getsignal(2) == before)"
    )
    assert out.strip() == "True"


def calls():
    x = np.ones((4, 2))
    info = np.zeros((), np.int32)
    return [
        lambda: gram.cdist(x, x, out=np.empty((4, 4))),
        lambda: gram.cdist(x, p=np.array([1.0, 2.0])[:1].reshape(1)),
        lambda: gram.kernel(x, expression="exp(-s * a)", parameters={"a": 2}),
        lambda: gram.kernel_vjp(x, x, grad=np.ones((4, 4)), wrt=("x", "y", "bandwidth")),
        lambda: gram.agop(np.ones((4, 4)), x.T, np.ones((1, 4)), x.T),
        lambda: gram.median_distance(x),
        lambda: gram.solve_lu(np.eye(4), x, info=info),
        lambda: gram.workspace(gram.cdist, x),
        lambda: (gram.devices(), gram.info(), gram.memory_info(), gram.get_threads()),
    ]


def failures():
    x = np.ones((4, 2))
    return [
        lambda: gram.cdist(x, [1]),
        lambda: gram.cdist(x, x.astype(">f8")),
        lambda: gram.cdist(x, x[:, :1]),
        lambda: gram.cdist(x, out=x.T),
        lambda: gram.cdist(x, p="2"),
        lambda: gram.cdist(x, q=3),
        lambda: gram.kernel(x, kernel="none"),
        lambda: gram.kernel(x, expression="a", parameters={"a": 1, "b": [2]}),
        lambda: gram.kernel_vjp(x, grad=np.ones((4, 4)), wrt=("x", "z")),
        lambda: gram.solve_cholesky(-np.eye(4), x),
        lambda: gram.solve_lu(np.eye(4), x, factor=np.empty((4, 4))),
    ]


def quiet(function):
    try:
        function()
    except (TypeError, ValueError):
        pass


@pytest.mark.parametrize("functions", [calls, failures], ids=["calls", "failures"])
def test_no_references_leak(functions):
    """The number of objects, and of references to those that every call sees, stays."""
    watched = [None, True, (), gram.cdist, np.float64, np.ndarray, int, dict]

    def growth(function):
        gc.collect()
        before = [sys.getallocatedblocks()] + [sys.getrefcount(w) for w in watched]
        for _ in range(200):
            quiet(function)
        gc.collect()
        after = [sys.getallocatedblocks()] + [sys.getrefcount(w) for w in watched]
        return max(b - a for a, b in zip(before, after, strict=True))

    for function in functions():
        # Something may be filled once, such as a free list; what leaks, leaks every time.
        assert min(growth(function) for _ in range(5)) < 50, function.__code__


def test_inputs_are_released():
    x = np.ones((4, 2))
    out = np.empty((4, 4))
    before = sys.getrefcount(x), sys.getrefcount(out)
    gram.cdist(x, x, out=out)
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before
    x.resize((8, 2), refcheck=True)  # refused while a buffer of it is held


def test_threads_share_nothing():
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((60, 7)) for _ in range(40)]
    expected = [gram.cdist(x, p=1.3) for x in xs]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for _ in range(5):
            for got, right in zip(
                pool.map(lambda x: gram.cdist(x, p=1.3), xs), expected, strict=True
            ):
                np.testing.assert_array_equal(got, right)


def test_other_threads_run_during_a_call():
    """A call lets go of the interpreter's lock: others get on during one call, if it is long."""
    x = np.random.default_rng(0).standard_normal((4000, 200))
    seen = 0
    for rows in (1000, 2000, 4000):
        thread = threading.Thread(target=gram.cdist, args=(x[:rows], x, 1.3))
        thread.start()
        seen = 0
        while thread.is_alive():
            time.sleep(0.002)  # wakes only when the lock can be had
            seen += 1
        if seen >= 5:
            break
    assert seen >= 5


def work(seed):
    x = np.random.default_rng(seed).standard_normal((200, 20))
    k = gram.kernel(x, kernel="gaussian", bandwidth=3, regularization=1)
    return float(gram.solve_cholesky(k, x).sum() + gram.cdist(x, p=1.3).sum())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_after_fork():
    expected = [work(seed) for seed in range(6)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(6)).get(3600) == expected
    assert work(0) == expected[0]


def test_the_end_of_the_interpreter():
    """Calls in daemon threads, in atexit and in __del__ while the interpreter goes down."""
    run(
        "import atexit, threading, numpy as np, gram\n"
        "x = np.ones((300, 50))\n"
        "class Late:\n"
        "    def __del__(self, call=gram.cdist, x=x): call(x, x, 1.3, True, np_empty)\n"
        "np_empty = np.empty((300, 300))\n"
        "late = Late()\n"
        "def loop():\n"
        "    while True: gram.cdist(x, p=1.3)\n"
        "for _ in range(3): threading.Thread(target=loop, daemon=True).start()\n"
        "atexit.register(lambda: gram.cdist(x))\n"
        "gram.cdist(x)\n"
    )


def test_a_second_copy_of_the_module():
    """The state hangs on the module object: importing it anew makes another."""
    run(
        "import sys, numpy as np, gram\n"
        "x = np.ones((3, 2)); first = gram.cdist(x)\n"
        "old = gram.cdist\n"
        "for name in [n for n in sys.modules if n.startswith('gram')]: del sys.modules[name]\n"
        "import gram as again\n"
        "assert (again.cdist(x) == first).all() and (old(x) == first).all()\n"
        "del old, gram\n"
        "import gc; gc.collect()\n"
        "assert (again.cdist(x) == first).all()\n"
    )


def test_memory_of_a_kfac_outlives_it():
    """Its state's memoryviews keep the object that they show."""
    layer = (0, 4, 3, 1, 2, 1, -1, *(1,) * 12)
    kfac = gram._core.Kfac((layer,), (0, 0, 1e-3, 0.9, 1e-3, 0, 0, 1.0))
    view = kfac.state()[0][3]
    before, is_alive = bytes(view), life_of(kfac)
    del kfac
    gc.collect()
    assert bytes(view) == before and is_alive()
    part = view[8:]
    del view
    gc.collect()
    assert bytes(part) == before[8:] and is_alive()
    del part
    gc.collect()
    assert not is_alive()


def life_of(thing):
    """Whether an object that knows no weak references is alive: it holds one to its type."""
    kind, count = type(thing), sys.getrefcount(type(thing))
    return lambda: sys.getrefcount(kind) >= count
