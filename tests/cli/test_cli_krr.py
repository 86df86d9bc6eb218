"""test_cli_krr.py - gram krr against NumPy, its report, its files, and what it refuses"""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from gram_cli import (
    BAD_DATA,
    FAILURE,
    IO,
    NO_INPUT,
    USAGE,
    gram,
    gram_json,
    gram_run,
    refusal,
    wait_for,
)

RNG = np.random.default_rng(9)
X, Y, Z = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 2)), RNG.normal(size=(8, 3))
W = RNG.uniform(0.5, 2, size=60)
KERNEL = ["-k", "gaussian", "-L", 1.5]


def gaussian(x, y):
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * 1.5**2))


def exact(y, ridge):
    return np.linalg.solve(gaussian(X, X) + np.diag(np.broadcast_to(ridge, len(X))), y)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, values in {"x": X, "y": Y, "z": Z, "w": W}.items():
        np.save(f"{name}.npy", values)
        np.savetxt(f"{name}.csv", values, delimiter=",", fmt="%.17g")
    return tmp_path


@pytest.mark.parametrize("method", ["auto", "cholesky", "cg", "blocks"])
@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_coefficients_predictions_and_report(files, kind, method):
    told = gram_json("krr", f"x.{kind}", f"y.{kind}", *KERNEL, "--ridge", 0.1, "--row-weights",
                     f"w.{kind}", "--method", method, "-t", 1e-10, "-o", "a.npy", "--predict",
                     f"z.{kind}", "--predictions", f"p.{kind}")  # fmt: skip
    alpha = exact(Y, 0.1 / W)
    np.testing.assert_allclose(np.load("a.npy"), alpha, atol=1e-7)
    found = np.load("p.npy") if kind == "npy" else np.loadtxt("p.csv", delimiter=",")
    np.testing.assert_allclose(found, gaussian(Z, X) @ alpha, atol=1e-7)
    assert told["method"] == ("cholesky" if method == "auto" else method)
    assert told["reached"] and told["end"] == "reached" and told["residual"] <= 1e-10
    assert told["products"] >= 1 and told["seconds"] > 0
    assert 0 < told["prediction_rms"] < told["prediction_sup"]


def test_a_vector_and_the_report_for_people(files):
    np.save("v.npy", Y[:, 0])
    said = gram("krr", "x.npy", "v.npy", *KERNEL, "-r", 0.1, "--method", "cg", "--rank", 7,
                "-o", "a.csv", "--predict", "z.npy", "--predictions", "p.npy")  # fmt: skip
    assert "method          cg, preconditioner of rank 7\n" in said
    assert "(reached)\n" in said and "change by at most" in said
    np.testing.assert_allclose(np.loadtxt("a.csv"), exact(Y[:, 0], 0.1), atol=0.2)
    assert np.load("p.npy").shape == (8,)
    gram("krr", "x.npy", "v.npy", "-r", 0.1)  # the median distance; the report alone


@pytest.mark.parametrize("given", [False, True])
def test_centres(files, given):
    np.save("c.npy", X[5:20])
    more = ["--centre-points", "c.npy"] if given else ["--centres", 15, "--chosen", "rows.csv"]
    told = gram_json("krr", "x.npy", "y.npy", *KERNEL, "-r", 0.1, "-t", 1e-8, *more, "-o", "a.npy",
                     "--predict", "z.csv", "--predictions", "p.npy")  # fmt: skip
    rows = np.arange(5, 20) if given else np.loadtxt("rows.csv").astype(int)
    assert told["method"] == "centres" and told["rank"] == 15 and told["floor"] > 0
    k = gaussian(X, X[rows])
    s = gaussian(X[rows], X[rows]) + told["floor"] * np.eye(15)
    alpha = np.linalg.solve(k.T @ k + 0.1 * s, k.T @ Y)
    assert np.load("a.npy").shape == (15, 2)
    np.testing.assert_allclose(np.load("p.npy"), gaussian(Z, X[rows]) @ alpha, atol=1e-5)
    assert "method          centres, 15 of them\n" in gram("krr", "x.npy", "y.npy", "-r", 1, *more)


def test_refinement_writes_f64(files):
    told = gram_json("krr", "x.npy", "y.npy", *KERNEL, "-r", 1e-3, "--dtype", "f32", "--refine",
                     "--method", "cg", "-t", 1e-8, "-o", "a.npy", "--predict", "z.npy",
                     "--predictions", "p.npy")  # fmt: skip
    assert told["reached"] and told["residual"] <= 1e-8
    assert np.load("a.npy").dtype == np.float64 and np.load("p.npy").dtype == np.float32


def test_what_is_not_reached_is_written_and_said(files):
    done = gram_run("krr", "x.npy", "y.npy", *KERNEL, "-r", 1e-6, "--method", "cg", "--rank", 0,
                    "-t", 1e-12, "--products", 9, "-o", "a.npy", "--json",
                    status=FAILURE)  # fmt: skip
    told = json.loads(done.stdout)
    assert "products are used up" in done.stderr
    assert not told["reached"] and told["end"] == "products" and told["products"] <= 9
    assert np.isfinite(np.load("a.npy")).all()


def test_a_kernel_that_is_not_positive_definite(files):
    options = ["-k", "sigmoid", "--coef0", 1, "--gamma", 3, "-r", 1e-3, "-o", "a.npy"]
    done = gram_run("krr", "x.npy", "y.npy", *options, "--method", "cholesky", "--json",
                    status=FAILURE)  # fmt: skip
    assert "is not positive definite" in done.stderr
    assert json.loads(done.stdout)["residual"] is None and not (files / "a.npy").exists()
    done = gram_run("krr", "x.npy", "y.npy", *options, "--method", "cg", status=FAILURE)
    assert "is not positive definite" in done.stderr and "(indefinite)" in done.stdout


WRONG = [
    (["x.npy", "y.npy"], "--ridge is not given", USAGE),
    (["x.npy", "y.npy", "-r", "-1"], "--ridge is -1", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--method", "lu"], "auto|cholesky|cg|centres|blocks", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--products", "0"], "--products is 0", USAGE),
    (["x.npy", "y.npy", "-r", "1", "-t", "0"], "--tolerance is 0", USAGE),
    (["x.npy", "y.npy", "-r", "1", "-k", "linear", "-L", "2"], "--bandwidth means nothing", USAGE),
    (["x.npy", "y.npy", "-r", "1", "-o", "-"], "--output is -, expected a file", USAGE),
    (["x.npy", "y.npy", "-r", "1", "-o", "a.xlsx"], "cannot be written", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--predict", "z.npy"], "without --predictions", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--predictions", "p.npy"], "without --predict,", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--centres", "61"], "--centres is 61, expected at", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--chosen", "c.npy"], "--chosen is given without", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--centres", "3", "--centre-points", "z.npy"], "only", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--centres", "3", "--method", "cg"], "centres are", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "--centre-points", "y.npy"], "2 columns, but", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "-o", "x.npy"], "x.npy", USAGE),
    (["x.npy", "y.npy", "-r", "1", "--predict", "z.npy", "--predictions", "z.npy"], "z", USAGE),
    (["x.npy", "z.npy", "-r", "1"], "z.npy has 8 rows, but x.npy has 60", BAD_DATA),
    (["w.npy", "y.npy", "-r", "1"], "w.npy has 1 dimension, expected a matrix", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "--row-weights", "z.npy"], "has 3 columns, expected", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "--predict", "y.npy", "--predictions", "p.npy"],
     "y.npy has 2 columns, but x.npy has 3", BAD_DATA),
    (["x.npy", "none.npy", "-r", "1"], "none.npy", NO_INPUT),
    (["x.npy", "nan.csv", "-r", "1"], "y[1, 0] is nan, expected a finite number", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "--row-weights", "zero.npy"], "weights[0] is 0", BAD_DATA),
    (["abs.npy", "y.npy", "-r", "1", "-k", "laplace", "-L", "1", "-m", "kullback-leibler"],
     "expected a distance that is the same both ways", BAD_DATA),
    (["x.npy", "y.npy", "-r", "1", "-e", "exp(-s) * norm_x"], "is not symmetric", BAD_DATA),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words", "status"), WRONG, ids=lambda v: str(v)[-40:])
def test_what_is_refused(files, arguments, words, status):
    np.savetxt("nan.csv", np.where(np.arange(60) == 1, np.nan, 1.0))
    np.save("zero.npy", np.zeros(60))
    np.save("abs.npy", np.abs(X) + 0.1)
    before = {p.name: p.read_bytes() for p in files.iterdir()}
    assert words in refusal("krr", *arguments, status=status)
    assert {p.name: p.read_bytes() for p in files.iterdir()} == before


def test_nothing_is_left_of_an_interrupted_solve(files):
    from gram_cli import GRAM

    n = 12000
    np.save("big.npy", RNG.normal(size=(n, 30)))
    np.save("many.npy", RNG.normal(size=n))
    command = [GRAM, "krr", "big.npy", "many.npy", "-r", "1e-9", "--rank", "0", "-t", "1e-14",
               "--method", "cg", "-o", "a.npy"]  # fmt: skip
    before = sorted(p.name for p in files.iterdir())
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        time.sleep(1.5)
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    assert running.returncode == 130 and out == b"" and b"interrupted" in said
    assert sorted(p.name for p in files.iterdir()) == before


# ---- Checkpoints -----------------------------------------------------------------------------


def history(path="c.gram"):
    """The residuals in a checkpoint, which is a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    begin, end = header["history"]["data_offsets"]
    return np.frombuffer(data[begin:end], "<f8")


def long_command(method):
    from gram_cli import GRAM

    n = 4000
    np.save("big.npy", RNG.normal(size=(n, 5)).astype(np.float32))
    np.save("many.npy", RNG.normal(size=n).astype(np.float32))
    ridge = "3e-2" if method == "cg" else "1"
    return [GRAM, "krr", "big.npy", "many.npy", "-k", "gaussian", "-L", "2", "-r", ridge,
            "--rank", "0", "-t", "1e-3", "--method", method, "--checkpoint", "c.gram", "--resume",
            "--checkpoint-iterations", "3", "-o", "a.npy", "--json"]  # fmt: skip


def wait_for_a_checkpoint(running, path):
    """Until the process has written its next checkpoint, or has ended."""

    def written():
        return path.stat().st_mtime_ns if path.exists() else None

    before = written()
    wait_for(lambda: written() != before, running)


def test_a_checkpoint_of_a_limit_and_of_the_end(files):
    options = [*KERNEL, "-r", 1e-3, "--method", "cg", "--rank", 3, "-t", 1e-9, "-o", "a.npy"]
    whole = gram_json("krr", "x.npy", "y.npy", *options, "--checkpoint", "whole.gram")
    done = gram_run("krr", "x.npy", "y.npy", *options, "--checkpoint", "c.gram", "--products", 12,
                    "--json", status=FAILURE)  # fmt: skip
    assert json.loads(done.stdout)["end"] == "products"
    told = gram_json("krr", "x.csv", "y.csv", *options, "--checkpoint", "c.gram", "--resume")
    assert told["reached"] and abs(told["products"] - whole["products"]) <= 2
    np.testing.assert_allclose(history(), history("whole.gram"), rtol=1e-3)
    np.testing.assert_allclose(np.load("a.npy"), exact(Y, 1e-3), atol=1e-5)
    again = gram_json("krr", "x.npy", "y.npy", *options, "--checkpoint", "c.gram", "--resume")
    assert again["products"] == told["products"] and again["residual"] == told["residual"]
    np.save("y.npy", Y + 1)
    said = refusal("krr", "x.npy", "y.npy", *options, "--checkpoint", "c.gram", "--resume",
                   status=BAD_DATA)  # fmt: skip
    assert "c.gram: it is the checkpoint of another solve: it was given another y" in said


@pytest.mark.parametrize(("number", "method"), [
    (signal.SIGKILL, "cg"), (signal.SIGTERM, "cg"), (signal.SIGINT, "cg"),
    (signal.SIGTERM, "blocks")])  # fmt: skip
def test_a_process_that_is_ended_goes_on(files, number, method):
    command = long_command(method)
    subprocess.run([*command, "--checkpoint", "whole.gram"], check=True, stdout=subprocess.PIPE)
    ends = 0
    for wait in (0, 0.02, 0.05):
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as running:
            wait_for_a_checkpoint(running, files / "c.gram")
            time.sleep(wait)
            running.send_signal(number)
            _, said = running.communicate(timeout=60)
        if running.returncode == 0:
            break
        ends += 1
        if number != signal.SIGKILL:
            assert running.returncode == 128 + number
            assert b"--resume goes on from c.gram" in said or b"nothing was written" in said
        assert [p.name for p in files.glob(".gram*")] == []
    assert ends > 0
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    assert json.loads(done.stdout)["reached"]
    np.testing.assert_allclose(history(), history("whole.gram"), rtol=1e-3)


def test_a_disk_that_fills_leaves_the_former_checkpoint(files):
    import resource

    options = [*KERNEL, "-r", 1e-3, "--method", "cg", "--rank", 3, "-t", 1e-9,
               "--checkpoint", "c.gram", "--checkpoint-iterations", 1]  # fmt: skip
    gram_run("krr", "x.npy", "y.npy", *options, "--products", 12, status=FAILURE)
    before = (files / "c.gram").read_bytes()
    done = gram_run("krr", "x.npy", "y.npy", *options, "--resume", status=IO,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    assert "the former checkpoint is as it was; alpha is written" in done.stderr
    assert "(reached)" in done.stdout
    assert (files / "c.gram").read_bytes() == before


WRONG_CHECKPOINTS = [
    (["--resume"], "--resume is given without --checkpoint", USAGE),
    (["--checkpoint-seconds", "1"], "--checkpoint-seconds is given without", USAGE),
    (["--checkpoint-iterations", "1"], "--checkpoint-iterations is given without", USAGE),
    (["--checkpoint", "x.npy"], "x.npy", USAGE),
    (["--checkpoint", "none/c.gram"], "none/c.gram", IO),
    (["--checkpoint", "z.npy", "--resume"], "z.npy", BAD_DATA),
    (["--checkpoint", "c", "--method", "cholesky"], "which keeps none", BAD_DATA),
]


@pytest.mark.parametrize(("arguments", "words", "status"), WRONG_CHECKPOINTS, ids=str)
def test_which_checkpoints_are_refused(files, arguments, words, status):
    before = {p.name: p.read_bytes() for p in files.iterdir()}
    more = [] if "--method" in arguments else ["--method", "cg"]
    assert words in refusal("krr", "x.npy", "y.npy", "-r", "1", *more, *arguments, status=status)
    assert {p.name: p.read_bytes() for p in files.iterdir()} == before


# ---- Memory ------------------------------------------------------------------------------------

LITTLE = ["--memory", 1e-6]


def test_the_preconditioner_stays_within_the_memory(files):
    np.save("more.npy", RNG.uniform(-2, 2, size=(400, 12)))
    np.save("of_more.npy", np.sin(2 * np.load("more.npy")[:, 0]))
    options = ["more.npy", "of_more.npy", "-k", "gaussian", "-L", 5, "-r", 1e-4, "-t", 1e-7,
               "--method", "cg"]  # fmt: skip
    ranks = [gram_json("krr", *options, *more)["rank"] for more in ([], LITTLE, ["--memory", 4])]
    assert ranks[1] == 100 < ranks[0] == ranks[2]


# ---- Files that are larger than the memory -----------------------------------------------------



@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
def test_rows_are_read_in_pieces(files, dtype):
    np.save("p.npy", (8 * X).astype(dtype))
    np.save("narrow.npy", Y.astype("f8" if dtype in ("f8", "i4") else "f4"))
    options = ["p.npy", "narrow.npy", "-k", "gaussian", "-L", 9, "-r", 0.1, "-t", 1e-4,
               "--centres", 15, "--predict", "z.npy", "--predictions"]  # fmt: skip
    np.save("z.npy", (8 * Z).astype("f4" if dtype in ("f4", "f2") else "f8"))
    whole = gram_json("krr", *options, "whole.npy", "--chosen", "rows.csv")
    told = gram_json("krr", *options, "pieces.npy", "--chosen", "same.csv", *LITTLE)
    assert told["reached"] and abs(told["products"] - whole["products"]) <= 4
    assert (files / "rows.csv").read_text() == (files / "same.csv").read_text()
    np.testing.assert_allclose(np.load("pieces.npy"), np.load("whole.npy"), atol=2e-3)
    gram("krr", "p.npy", "narrow.npy", "-r", 1, "--centre-points", "z.npy", *LITTLE)  # the median


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("columns", [0, 2])
def test_rows_are_read_in_pieces_by_cg(files, dtype, columns):
    x, z = RNG.normal(size=(600, 3)).astype(dtype), RNG.normal(size=(9, 3)).astype(dtype)
    np.save("p.npy", x)
    np.save("z.npy", z)
    np.save("t.npy", np.sin(x[:, :columns] if columns else x[:, 0]))
    options = ["p.npy", "t.npy", *KERNEL, "-r", 0.1, "-t", 1e-4, "--predict", "z.npy",
               "--predictions"]  # fmt: skip
    gram_json("krr", *options, "whole.npy", "--method", "cg", "-o", "a.npy")
    told = gram_json("krr", *options, "pieces.npy", "-o", "b.npy", *LITTLE)
    assert told["reached"] and told["method"] == "cg"
    np.testing.assert_allclose(np.load("b.npy"), np.load("a.npy"), atol=5e-3)
    np.testing.assert_allclose(np.load("pieces.npy"), np.load("whole.npy"), atol=2e-3)
    told = gram_json("krr", *options, "pieces.npy", "--method", "cholesky", *LITTLE)
    assert told["method"] == "cholesky"  # which needs the matrix anyway


def test_which_files_cannot_be_read_in_pieces(files):
    np.save("fortran.npy", np.asfortranarray(X))
    np.save("big.npy", X.astype(">f8"))
    np.save("vector.npy", np.zeros(500))
    np.save("nan.npy", np.where(np.arange(180).reshape(60, 3) == 7, np.nan, X))
    (files / "short.npy").write_bytes((files / "x.npy").read_bytes()[:-8])
    for name, words in {
        "fortran": "is in Fortran order, which cannot be read by rows",
        "big": "is in the byte order of another machine",
        "vector": "vector.npy has 1 dimension, expected a matrix",
        "nan": "x[2, 1] is nan, expected a finite number",
        "short": "short.npy has 1432 bytes after the header, expected 1440",
    }.items():
        said = refusal("krr", f"{name}.npy", "y.npy", *KERNEL, "-r", 1, "--centres", 3, *LITTLE,
                       status=BAD_DATA)  # fmt: skip
        assert words in said
    np.save("none.npy", np.zeros((0, 3)))
    np.save("none_y.npy", np.zeros((0, 2)))
    gram("krr", "none.npy", "none_y.npy", *KERNEL, "-r", 1, "--centre-points", "z.npy", *LITTLE)
