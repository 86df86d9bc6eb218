"""test_communicator.py - gram.Communicator and kron_matmul_multi on two ranks, with and without
mpi4py; where a rank fails no other one waits for it"""

import pathlib
import sys

import gram
import numpy as np
import pytest
from mpi_run import mpirun, need_mpi

SCRIPT = pathlib.Path(__file__).parent / "communicator_ranks.py"


@pytest.fixture
def run(tmp_path):
    need_mpi()
    return lambda what: mpirun(2, sys.executable, SCRIPT, what, tmp_path)


def fine_ranks(done):
    """How many ranks said that all is well: mpirun may join what two ranks write to one line"""
    return done.stdout.count("fine") if done.returncode == 0 else 0


def test_products_errors_and_waiting_on_two_ranks(run):
    done = run("all")
    assert fine_ranks(done) == 2, done.stderr


def test_a_rank_that_raises_ends_the_others(run):
    done = run("raising")
    assert done.returncode != 0 and "fine" not in done.stdout
    assert "this rank has had enough" in done.stderr, done.stderr


def test_a_communicator_of_mpi4py(run):
    pytest.importorskip("mpi4py")
    done = run("mpi4py")
    assert fine_ranks(done) == 2, done.stderr


def test_bad_arguments():
    with pytest.raises(AttributeError, match="py2f"):
        gram.Communicator("world")
    with pytest.raises(ValueError, match="mpi and nccl are given"):
        gram.Communicator(object(), nccl=b"")
    with pytest.raises(TypeError, match="communicator is None"):
        gram.kron_matmul_multi(np.ones((1, 1)), [np.ones((1, 1))], None)
    with pytest.raises(TypeError, match="communicator is 3"):
        gram.kron_matmul_part(1, [np.ones((1, 1))], 3)
    with pytest.raises(TypeError, match="nccl|bytes"):
        gram.Communicator(nccl="text")
