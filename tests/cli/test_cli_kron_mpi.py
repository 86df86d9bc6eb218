"""test_cli_kron_mpi.py - gram kron --mpi on two ranks against NumPy, and its failures"""

import functools
import os

import numpy as np
import pytest
from gram_cli import BAD_DATA, GRAM, NO_INPUT, NO_OUTPUT, USAGE, gram_run
from mpi_run import environment, mpirun, need_mpi

RNG = np.random.default_rng(7)
FACTORS = [RNG.normal(size=size) for size in [(2, 3), (4, 1), (3, 2)]]
KRON = functools.reduce(np.kron, FACTORS)  # 24 by 6


@pytest.fixture(autouse=True)
def fixture_mpi():
    need_mpi()


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    for name, factor in zip("abc", FACTORS):
        np.save(tmp_path / f"{name}.npy", factor)
    return tmp_path


def run(folder, x, *arguments, ranks=2):
    np.save(folder / "x.npy", x)
    done = mpirun(
        ranks, GRAM, "kron", "--mpi", "x.npy", "a.npy", "b.npy", "c.npy", "-o", "y.npy", *arguments,
        cwd=folder,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("split", ["rows", "columns"])
def test_every_side_and_split(folder, split):
    x, z = RNG.normal(size=(2, 5, 24)), RNG.normal(size=(6, 5))
    np.testing.assert_allclose(run(folder, x, "--split", split), x @ KRON, rtol=1e-11)
    left = run(folder, z, "--split", split, "--side", "left")
    np.testing.assert_allclose(left, KRON @ z, rtol=1e-11)


def test_auto_transposed_and_more_ranks_than_rows(folder):
    x = RNG.normal(size=(24, 2))
    turned = run(folder, x, "--transpose-x", ranks=3)
    np.testing.assert_allclose(turned, x.T @ KRON, rtol=1e-11)
    y = run(folder, np.float32(RNG.normal(size=6)), "--op", "T")
    assert y.shape == (24,)


def test_without_mpirun_one_process_does_it_all(folder):
    x = RNG.normal(size=(5, 24))
    np.save(folder / "x.npy", x)
    files = ("x.npy", "a.npy", "b.npy", "c.npy", "-o", "y.npy")
    gram_run("kron", "--mpi", *files, cwd=folder, env=environment())
    np.testing.assert_allclose(np.load(folder / "y.npy"), x @ KRON, rtol=1e-12)


def refusal(folder, *arguments):
    """The status and the lines that gram itself says, of two ranks."""
    done = mpirun(2, *arguments, cwd=folder)
    assert not done.stdout
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("gram")]


def test_a_failure_is_told_once_and_ends_all(folder):
    np.save(folder / "x.npy", np.ones((3, 24)))
    kron = (GRAM, "kron", "--mpi")
    status, lines = refusal(folder, *kron, "x.npy", "a.npy", "b.npy")
    assert status == BAD_DATA and len(lines) == 1 and "expected 8" in lines[0], lines
    status, lines = refusal(folder, *kron, "x.npy", "a.npy", "-")
    assert status == USAGE and len(lines) == 1 and "is -, expected a file" in lines[0], lines
    files = ("x.npy", "a.npy", "b.npy", "c.npy")
    status, lines = refusal(folder, *kron, *files, "-o", "no/folder/y.npy")
    assert status in (NO_OUTPUT, 1) and len(lines) == 1 and "no/folder" in lines[0], lines


def test_a_file_that_one_rank_lacks_ends_all(folder):
    """Rank 1 runs in a folder without the file, and it is its message that is told."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    np.save(folder / "x.npy", np.ones((3, 2)))
    script = folder / "rank.sh"
    script.write_text(
        '#!/bin/sh\n[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && cd elsewhere\n'
        f'exec "{GRAM}" kron --mpi x.npy a.npy\n',
        encoding="utf-8",
    )
    os.chmod(script, 0o755)
    status, lines = refusal(folder, script)
    assert status in (NO_INPUT, 1), status
    assert len(lines) == 1 and "rank 1: cannot open x.npy" in lines[0], lines
