"""test_cli_krr_mpi.py - gram krr --mpi on two and three ranks against one process, and failures"""

import json

import numpy as np
import pytest
from gram_cli import GRAM, USAGE, gram_run
from mpi_run import environment, mpirun, need_mpi

SOLVE = ("-k", "gaussian", "-r", "0.1", "--method", "cg", "-t", "1e-8")


@pytest.fixture(autouse=True)
def fixture_mpi():
    need_mpi()


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.normal(size=(300, 3)))
    np.save(tmp_path / "y.npy", rng.normal(size=(300, 2)))
    np.save(tmp_path / "w.npy", rng.uniform(0.5, 2, size=300))
    np.save(tmp_path / "z.npy", rng.normal(size=(2, 3)))  # fewer rows than ranks
    for name in "xyw":
        np.savetxt(tmp_path / f"{name}.csv", np.load(tmp_path / f"{name}.npy"), delimiter=",")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.load(tmp_path / "x.npy")))
    return tmp_path


@pytest.mark.parametrize(
    "ranks, x, y, options",
    [
        (2, "x.npy", "y.npy", ()),
        (3, "x.csv", "y.csv", ("--row-weights", "w.csv", "--no-header")),
        (3, "f.npy", "y.npy", ("--row-weights", "w.npy", "-L", "1.5")),
    ],
)
def test_ranks_solve_what_one_process_does(folder, ranks, x, y, options):
    files = ("-o", "a.npy", "--predict", "z.npy", "--predictions", "p.npy", "--json")
    gram_run("krr", x, y, *SOLVE, *options, *files, cwd=folder, env=environment())
    alone = [np.load(folder / name) for name in ("a.npy", "p.npy")]
    done = mpirun(ranks, GRAM, "krr", "--mpi", x, y, *SOLVE, *options, *files, cwd=folder)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert json.loads(done.stdout)["reached"]
    for name, expected in zip(("a.npy", "p.npy"), alone):
        together = np.load(folder / name)
        assert together.shape == expected.shape
        np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-5)


def write_parquet(folder, name, columns):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {columns} FROM read_csv('{folder}/x.csv', header = false)) "
            f"TO '{folder}/{name}' (FORMAT parquet)"
        )


@pytest.mark.parametrize("options", [(), ("-L", "1.5")])
def test_each_rank_reads_its_rows_of_a_parquet_file(folder, duckdb_environment, options):
    write_parquet(folder, "x.parquet", "*")
    gram_run("krr", "x.npy", "y.npy", *SOLVE, *options, "-o", "alone.npy", cwd=folder)
    run = ("krr", "--mpi", "x.parquet", "y.npy", *SOLVE, *options, "-o", "a.npy")
    done = mpirun(3, GRAM, *run, cwd=folder, env=duckdb_environment)
    assert done.returncode == 0 and not done.stderr, done.stderr
    np.testing.assert_allclose(
        np.load(folder / "a.npy"), np.load(folder / "alone.npy"), rtol=1e-5, atol=1e-5
    )
    # The first rank does not meet a bad value of the last one's, whose row is that of the file.
    np.savetxt(folder / "x.csv", np.c_[np.arange(300), np.zeros(300)], delimiter=",")
    write_parquet(folder, "bad.parquet", "CASE column0 WHEN 299 THEN 'one' ELSE '1' END, column1")
    done = mpirun(
        2, GRAM, "krr", "--mpi", "bad.parquet", "y.npy", *SOLVE, "-L", "1", cwd=folder,
        env=duckdb_environment,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("gram")]
    assert done.returncode != 0 and len(lines) == 1, done.stderr
    assert "rank 1: bad.parquet: row 299, counted from 0" in lines[0], lines


def refusal(folder, *arguments):
    """The status and the lines that gram itself says, of two ranks."""
    done = mpirun(2, GRAM, "krr", "--mpi", *arguments, cwd=folder)
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("gram")]


def test_a_failure_is_told_once_and_ends_all(folder):
    np.save(folder / "short.npy", np.ones(299))
    status, lines = refusal(folder, "x.npy", "short.npy", *SOLVE)
    assert status != 0 and len(lines) == 1 and "has 299 rows, but x.npy has 300" in lines[0], lines
    status, lines = refusal(folder, "x.npy", "y.npy", *SOLVE, "-o", "no/folder/a.npy")
    assert status != 0 and len(lines) == 1 and "no/folder" in lines[0], lines
    status, lines = refusal(folder, "x.npy", "y.npy", *SOLVE, "--centres", "9")
    assert status == USAGE and "--centres cannot be used with --mpi" in lines[0], lines
    x = np.load(folder / "x.npy")
    x[299, 0] = np.nan  # which the last rank reads
    np.save(folder / "x.npy", x)
    status, lines = refusal(folder, "x.npy", "y.npy", *SOLVE, "-L", "1")
    assert status != 0 and len(lines) == 1 and "x[299, 0]" in lines[0], lines


def test_what_was_not_reached_is_written_all_the_same(folder):
    status, lines = refusal(folder, "x.npy", "y.npy", *SOLVE, "--products", "4", "-o", "a.npy")
    assert status == 1 and len(lines) == 1 and "options.products are used up" in lines[0], lines
    assert np.load(folder / "a.npy").shape == (300, 2)


def test_another_number_of_ranks_goes_on_from_a_checkpoint(folder):
    files = ("x.npy", "y.npy", *SOLVE, "-L", "1", "--checkpoint", "c.gram", "--resume")
    limit = ("--checkpoint-iterations", "1", "--products", "5")
    status, lines = refusal(folder, *files, *limit)
    assert status == 1 and "options.products are used up" in lines[0], lines
    gram_run("krr", *files, "-o", "alone.npy", cwd=folder, env=environment())
    done = mpirun(3, GRAM, "krr", "--mpi", *files, "-o", "a.npy", "--json", cwd=folder)
    assert done.returncode == 0 and json.loads(done.stdout)["products"] > 5, done.stderr
    np.testing.assert_allclose(
        np.load(folder / "a.npy"), np.load(folder / "alone.npy"), rtol=1e-5, atol=1e-5
    )
