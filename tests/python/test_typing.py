"""test_typing.py - what type checkers make of calls, by mypy where it is installed

Arrays of NumPy, lists and data frames give arrays of NumPy; others give arrays of their own type.
"""

import pathlib
import shutil
import subprocess
import sys

import gram
import pytest

BEGIN = """
from collections.abc import Sequence
from typing import Any, assert_type

import gram
import gram.machine
import numpy as np
from numpy.typing import NDArray

class Tensor:
    shape: Any
    dtype: Any

x, whole, t = np.zeros((3, 2)), np.arange(6).reshape(3, 2), Tensor()
anything: Any = None
yes = bool(x.sum())
"""
RIGHT = """
assert_type(gram.cdist(x), NDArray[Any])
assert_type(gram.cdist(whole, x, p=1.3), NDArray[Any])
assert_type(gram.cdist([[0, 0], [3, 4]]), NDArray[Any])
assert_type(gram.cdist(t), Tensor)
assert_type(gram.cdist(anything), Any)
assert_type(gram.kernel(x, kernel="gaussian", out=x), NDArray[Any])
assert_type(gram.nearest(t, count=3), tuple[Tensor, Tensor])
assert_type(gram.eigh(x), tuple[NDArray[Any], NDArray[Any]])
assert_type(gram.eigh(t, vectors=False), Tensor)
assert_type(gram.eigh(x, background=True), gram.Pending)
gram.eigh(x, vectors=yes)
assert_type(gram.eigh_kernel(t, count=1), tuple[Tensor, Tensor])
assert_type(gram.kernel_vjp(x, grad=x), NDArray[Any])
assert_type(gram.kernel_vjp(t, grad=t, wrt=("x", "y")), tuple[Tensor, ...])
assert_type(gram.kernel_matmul_vjp(x, v=x, grad=x, wrt="v"), NDArray[Any])
assert_type(gram.kernel_matmul_vjp(t, v=t, grad=t, wrt=("x", "v")), tuple[Tensor, ...])
assert_type(gram.kernel_reduce_vjp(x, what="logsumexp", grad=x), NDArray[Any])
assert_type(
    gram.kernel_reduce_vjp(t, what="softmax", v=t, grad=t, wrt=("x", "log_weights")),
    tuple[Tensor, ...],
)
assert_type(gram.kernel_logdet(t, seed=1), tuple[float, float])
assert_type(gram.logdet_operator(lambda v: v, t), tuple[float, float])
assert_type(gram.eigh_operator(lambda v: v, t, count=1), tuple[Tensor, Tensor])
assert_type(gram.eigh_operator(lambda v: v, t, count=1, vectors=False), Tensor)
assert_type(gram.solve_operator(lambda v: v, x), NDArray[Any])
assert_type(gram.solve_operator(lambda v: v, t, tolerance=0.1), Tensor)
assert_type(gram.krr_path(x, x, [0.1, 1.0]), NDArray[Any])
assert_type(gram.krr_path(t, t, [0.1, 1.0], intercept="mean"), Tensor)
assert_type(gram.krr_solve(x, x, ridge=0.1), NDArray[Any])
assert_type(gram.krr_solve(t, t, "gaussian", ridge=0.1, rank=10, report={}), Tensor)
assert_type(gram.krr_solve(t, t, ridge=0.1, centres=5), tuple[Tensor, Tensor])
assert_type(gram.krr_solve(x, x, ridge=0.1, centres=x), NDArray[Any])
assert_type(gram.krr_solve(None, x, ridge=0.1, centres=x, rows="x.npy"), Any)
assert_type(gram.krr_variance(x, x, ridge=0.1), NDArray[Any])
assert_type(gram.krr_variance(t, t, "gaussian", ridge=0.1, report={}), Tensor)
assert_type(gram.krr_samples(x, x, z=x, ridge=0.1), NDArray[Any])
assert_type(gram.krr_samples(t, t, "gaussian", z=t, ridge=0.1, prior="features"), Tensor)
assert_type(gram.kron([x, whole]), NDArray[Any])
assert_type(gram.kron([t, t]), Tensor)
assert_type(gram.kron_logdet([t, t]), tuple[Tensor, Tensor])
assert_type(gram.kfac_factors(x, None), tuple[NDArray[Any], ...])
assert_type(gram.kfac_factors(None, t), tuple[Tensor, ...])
assert_type(gram.solve_cholesky(t, t), Tensor)
assert_type(gram.matrix_power(x), NDArray[Any])
assert_type(gram.kron_matmul(x, [x]), NDArray[Any])
assert_type(gram.machine.Machine.fit(x, x[:, 0], seed=1).predict(x), NDArray[Any])
"""
WRONG = """
gram.cdist(3)
gram.kernel(x, kernel="gausian")
gram.cdist(x, q=1)
gram.cdist(x).nothing
gram.krr_path(t, t, [1.0], intercept="yes")
gram.machine.Machine.fit(x, x, bandwith=1)
"""



@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """{file: lines about which mypy complains}; both texts are files, beside the stubs alone."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")
    package = pathlib.Path(gram.__file__).parent
    shutil.copytree(package, folder / "stubs/gram", ignore=lambda _, names: filter(is_code, names))
    for name, text in ("right.py", RIGHT), ("wrong.py", WRONG):
        (folder / name).write_text(BEGIN + text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--no-error-summary",
         "--cache-dir=cache", "right.py", "wrong.py"],
        cwd=folder, env={"MYPYPATH": "stubs"}, capture_output=True, text=True,
    )  # fmt: skip
    found = {"right.py": set(), "wrong.py": set()}
    for line in done.stdout.splitlines():
        name, number, kind, _ = line.split(":", 3)
        if kind == " error":
            found.setdefault(name, set()).add(int(number) - BEGIN.count("\n") - 1)
    assert not done.stderr
    return found


def is_code(name):
    return name.endswith((".py", ".so", ".pyc")) or name == "__pycache__"


def test_types_of_results(problems):
    assert problems == {"right.py": set(), "wrong.py": problems["wrong.py"]}


def test_wrong_calls_are_found(problems):
    assert problems["wrong.py"] == set(range(1, WRONG.count("\n")))
