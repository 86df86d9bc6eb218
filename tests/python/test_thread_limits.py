"""How many threads calls have: the environment, threadpoolctl, joblib's workers."""

import os
import subprocess
import sys

import pytest

import gram

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GRAM_NUM_THREADS")


def run(code, **variables):
    """What a new interpreter prints, with no limits but these."""
    environment = {name: value for name, value in os.environ.items() if name not in LIMITS}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, **variables}, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_the_environment_count(name):
    assert run("import gram; print(gram.get_threads())", **{name: "1"}) == ["1"]


def test_our_variable_and_set_threads_come_first():
    code = "import gram; print(gram.get_threads()); gram.set_threads(5); print(gram.get_threads())"
    assert run(code, OMP_NUM_THREADS="1", GRAM_NUM_THREADS="3") == ["3", "5"]


def test_threadpoolctl_is_not_imported_by_us():
    pytest.importorskip("threadpoolctl")
    assert run("import sys, gram; print('threadpoolctl' in sys.modules)") == ["False"]


@pytest.mark.parametrize("order", ["gram, threadpoolctl", "threadpoolctl, gram"])
def test_threadpoolctl_sees_us(order):
    pytest.importorskip("threadpoolctl", minversion="3.5")
    code = f"""
import {order}
found = [row for row in threadpoolctl.threadpool_info() if row["user_api"] == "gram"]
print(len(found), found[0]["num_threads"] == gram.get_threads(), found[0]["version"])
"""
    assert run(code) == ["1", "True", gram.__version__]


def test_threadpoolctl_sets_us():
    threadpoolctl = pytest.importorskip("threadpoolctl", minversion="3.5")
    gram.set_threads(3)
    try:
        with threadpoolctl.threadpool_limits(1):
            assert gram.get_threads() == 1
        assert gram.get_threads() == 3
        with threadpoolctl.threadpool_limits({"gram": 2}):
            assert gram.get_threads() == 2
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            assert gram.get_threads() == 3
        assert gram.get_threads() == 3
    finally:
        gram.set_threads(0)


def test_workers_of_joblib_share_the_processors():
    joblib = pytest.importorskip("joblib")
    code = """
import gram, joblib
print(*joblib.Parallel(n_jobs=2)(joblib.delayed(gram.get_threads)() for _ in range(4)))
"""
    most = max(1, joblib.cpu_count() // 2)
    assert all(int(count) <= most for count in run(code))
