"""test_cli_fit_mpi.py - gram fit --mpi on two and three ranks: one model, and failures"""

import os

import numpy as np
import pytest
from gram_cli import GRAM, USAGE, gram_run
from mpi_run import environment, mpirun, need_mpi

FIT = ("--target", "4", "--fixed", "--leaf-rows", "100", "--holdout", "0.1")

# A half of a level has the threads of its rank, or of one process half of them.
SEARCH = ("--target", "4", "--threads", "1")


@pytest.fixture(autouse=True)
def fixture_mpi():
    need_mpi()


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(600, 4))
    np.save(tmp_path / "t.npy", np.c_[x, np.sin(2 * x[:, 0]) + x[:, 1]])
    return tmp_path


def fit(folder, ranks, *options, model="together.gram", table="t.npy"):
    return mpirun(ranks, GRAM, "fit", "--mpi", table, *FIT, "-o", model, *options, cwd=folder)


def said(done):
    """The lines that gram itself says."""
    return [line for line in done.stderr.splitlines() if line.startswith("gram")]


@pytest.mark.parametrize(
    "ranks, options",
    [
        (2, FIT),
        (3, (*SEARCH, "--leaf-rows", "200", "--centres", "12", "-L", "3", "-i", "0")),
        (3, ("--target", "4", "--fixed", "--leaf-rows", "600")),
        (2, (*SEARCH, "--ignore", "3")),
    ],
)
def test_ranks_make_the_model_of_one_process(folder, ranks, options):
    gram_run("fit", "t.npy", *options, "-o", "alone.gram", cwd=folder, env=environment())
    done = mpirun(
        ranks, GRAM, "fit", "--mpi", "t.npy", *options, "-o", "together.gram", cwd=folder
    )
    assert done.returncode == 0 and not said(done), done.stderr
    assert done.stdout.count("regression of") == 1
    assert (folder / "together.gram").read_bytes() == (folder / "alone.gram").read_bytes()


def test_the_first_rank_ends_a_search_in_time(folder):
    done = mpirun(
        2,
        GRAM,
        *("fit", "--mpi", "t.npy", *SEARCH, "--auto", "--time-limit", "2"),
        *("-o", "m.gram", "--trials", "trials.csv"),
        cwd=folder,
    )
    assert done.returncode == 0 and not said(done), done.stderr
    assert (folder / "m.gram").exists() and (folder / "trials.csv").exists()


def test_a_failure_is_told_once_and_ends_all(folder):
    done = fit(folder, 2, "--weights", "9")
    assert done.returncode not in (0, 124) and len(said(done)) == 1, done.stderr
    assert 'no column "9"' in said(done)[0]
    done = fit(folder, 2, model="no/folder/m.gram")
    assert done.returncode != 0 and len(said(done)) == 1 and "no/folder" in said(done)[0]
    done = fit(folder, 2, table="-")
    assert done.returncode == USAGE and "is -, expected a file" in said(done)[0]
    assert not (folder / "together.gram").exists()


@pytest.mark.parametrize("what", ["nothing", "fewer rows"])
def test_what_one_rank_reads_ends_all(folder, what):
    """Rank 1 runs in a folder without the file, or with another one of that name."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    if what == "fewer rows":
        np.save(elsewhere / "t.npy", np.load(folder / "t.npy")[:500])
    script = folder / "rank.sh"
    script.write_text(
        '#!/bin/sh\n[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && cd elsewhere\n'
        f'exec "{GRAM}" fit --mpi t.npy {" ".join(FIT)} -o m.gram\n',
        encoding="utf-8",
    )
    os.chmod(script, 0o755)
    done = mpirun(2, script, cwd=folder)
    assert done.returncode != 0 and len(said(done)) == 1, done.stderr
    expected = "rank 1: cannot open t.npy" if what == "nothing" else "the number of rows is 450"
    assert expected in said(done)[0], done.stderr
    assert not (folder / "m.gram").exists()
