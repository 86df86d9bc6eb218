"""test_cli_fit_memory.py - the most memory that gram fit ever holds: one kernel matrix and 10 %"""

import os
import subprocess
import sys

import numpy as np
import pytest
from gram_cli import GRAM

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="ru_maxrss counts KiB on Linux"
)

ROWS = 11000
MATRIX = 4 * ROWS**2  # bytes, in f32: 10 % of it is more than a process and BLAS's buffers take
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
    """The peak of a process of its own, as the kernel counts it."""
    arguments = [GRAM, "fit", table, "-y", "8", "-o", table.parent / "model", "--threads", "2"]
    child = subprocess.Popen([*map(str, arguments), *options], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_maxrss * 1024


def test_cholesky_holds_one_matrix(table):
    peak = peak_bytes(table, "--solver", "cholesky")
    assert MATRIX < peak <= 1.1 * MATRIX  # at least the matrix: the peak is really seen


def test_conjugate_gradients_hold_half_a_matrix_and_the_preconditioner(table):
    peak = peak_bytes(table)
    least = MATRIX / 2 + 4 * 2 * RANK * ROWS
    assert least < peak <= 1.1 * least


def test_feature_learning_holds_no_more_than_a_matrix(table):
    assert peak_bytes(table, "--iterations", "1") <= 1.1 * MATRIX
