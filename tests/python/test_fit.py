"""test_fit.py - python -m gram.fit: alone, and on two ranks of MPI; devices and ranks of
gram.Machine.fit"""

import os
import subprocess
import sys

import numpy as np
import pytest
from mpi_run import mpirun, need_mpi

import gram
import gram.fit

OPTIONS = ("--target", "2", "--search", "-1", "--leaf-rows", "60", "--iterations=-1")


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 2))
    np.save(tmp_path / "t.npy", np.c_[x, np.sin(x[:, 0])])
    return tmp_path


def alone(folder):
    names = ("t.npy", "alone.gram")
    table, model = (str(folder / name) for name in names)
    assert gram.fit.main([table, *OPTIONS, "-o", model]) == 0
    return (folder / "alone.gram").read_bytes()


def test_options_are_those_of_a_machine(folder, capsys):
    made = alone(folder)
    table = np.load(folder / "t.npy")
    columns = {str(i): table[:, i] for i in range(3)}
    machine = gram.Machine.fit(columns, "2", search=-1, leaf_rows=60, iterations=-1)
    machine.save(folder / "m.gram")
    assert (folder / "m.gram").read_bytes() == made
    assert "leaves" in str(machine.description) and capsys.readouterr().out


def test_what_is_wrong_is_said(folder, capsys):
    table, model = str(folder / "t.npy"), str(folder / "m.gram")
    for arguments, status, text in [
        ((table, "--target", "9"), 1, 'has no column "9"; the columns are 0, 1, 2'),
        ((table, "--target", "2", "--leaf-rows"), 2, "--leaf-rows: expected --name value"),
        ((table, "--target", "2", "--leaf-size", "3"), 1, "leaf_size"),
        ((table + "x", "--target", "2"), 1, "gram.fit: "),
    ]:
        assert gram.fit.main([*arguments, "-o", model]) == status
        assert text in capsys.readouterr().err
    assert not os.path.exists(model)


def test_devices_are_a_list(folder):
    table = np.load(folder / "t.npy")
    options = {"search": -1, "leaf_rows": 60, "iterations": -1}
    one = gram.Machine.fit(table[:, :2], table[:, 2], **options)
    two = gram.Machine.fit(table[:, :2], table[:, 2], device=["cpu", "cpu"], **options)
    assert np.array_equal(one.predict(table[:, :2]), two.predict(table[:, :2]))
    for device in [[], ["cpu", "disk"], ["cpu", 3], ["cpu"] * 17]:
        with pytest.raises(ValueError, match="device"):
            gram.Machine.fit(table[:, :2], table[:, 2], device=device, **options)
    with pytest.raises(TypeError, match="expected a gram.Communicator"):
        gram.Machine.fit(table[:, :2], table[:, 2], communicator=3)


def test_ranks_of_mpi_make_the_same_model(folder):
    need_mpi()
    made = alone(folder)
    run = (sys.executable, "-m", "gram.fit", "t.npy", *OPTIONS)
    done = mpirun(2, *run, "-o", "together.gram", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "together.gram").read_bytes() == made
    done = mpirun(2, *run, "-o", "no/folder/m.gram", cwd=folder)
    assert done.returncode != 0 and "rank 0: " in done.stderr and "no/folder" in done.stderr
    done = mpirun(2, *run, "--search", "9", "-o", "m.gram", cwd=folder)
    assert done.returncode != 0, done.stderr
    assert "rank 1: gram.Machine.fit: search is 9" in done.stderr, done.stderr


def test_torchrun_with_one_process_needs_no_group(folder):
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "-m", "gram.fit", "t.npy", *OPTIONS, "-o", "m.gram"],
        cwd=folder, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    assert (folder / "m.gram").read_bytes() == alone(folder)
