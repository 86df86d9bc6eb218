"""test_cli_fit_memory.py - the most memory that gram fit ever holds: one kernel matrix and 10 %

And what reads a model holds it once.
"""

import subprocess
import sys

import numpy as np
import pytest
from gram_cli import GRAM, gram

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="ru_maxrss counts KiB on Linux"
)

ROWS = 11000
FORKS = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
MATRIX = 4 * ROWS**2  # bytes, in f32: 10 % of it is more than a process takes
BUFFER = 2**25  # of BLAS, for every thread that calls it and for one of its own: never given back
RANK = 800  # of the preconditioner at so many rows: gram_machine_preconditioner_rank


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 9)).astype("f4")
    x[:, 8] = x[:, 0] + np.sin(3 * x[:, 1])
    path = tmp_path_factory.mktemp("memory") / "table.npy"
    np.save(path, x)
    return path


def peak_bytes(table, *options):
    return peak_of("fit", table, "-y", "8", "-o", table.parent / "model", "--threads", 2, *options)


def peak_of(*arguments):
    """The peak of a process, as the kernel counts it: at least what its parent holds when it forks,
    so that a small one forks it."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, GRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return 1024 * int(done.stdout)


def test_cholesky_holds_one_matrix(table):
    peak = peak_bytes(table, "--fixed", "--solver", "cholesky")
    assert MATRIX < peak <= 1.1 * MATRIX + 2 * BUFFER  # at least: the peak is seen


def test_conjugate_gradients_hold_half_a_matrix_and_the_preconditioner(table):
    peak = peak_bytes(table)
    least = MATRIX / 2 + 4 * 2 * RANK * ROWS
    assert least < peak <= 1.1 * least + 3 * BUFFER  # the halves of a search call it side by side


def test_feature_learning_holds_no_more_than_a_matrix(table):
    assert peak_bytes(table, "--fixed", "--iterations", "1") <= 1.1 * MATRIX


def test_a_model_is_held_once(tmp_path):
    x = np.random.default_rng(1).normal(size=(1500, 5001)).astype("f4")
    np.save(tmp_path / "t.npy", x)
    gram("fit", tmp_path / "t.npy", "-y", "5000", "-o", tmp_path / "m")
    size = (tmp_path / "m").stat().st_size
    assert size > 4 * 1500 * 5000
    assert size < peak_of("importance", tmp_path / "m") < 1.6 * size
