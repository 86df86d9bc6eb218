"""test_krr_solve.py - gram.krr_solve against NumPy in float64, its report, and what it refuses"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import gram
import numpy as np
import pytest

KERNEL = {"kernel": "gaussian", "bandwidth": 1.5}
KERNELS = [
    {"kernel": "laplace", "bandwidth": 2.0}, {"kernel": "laplace", "p": 1.0, "bandwidth": 3.0},
    {"kernel": "lpq-laplace", "p": 1.3, "exponent": 0.9, "bandwidth": 2.0}, KERNEL,
    {"kernel": "matern52", "bandwidth": 2.0}, {"kernel": "rational-quadratic", "alpha": 0.7},
    {"kernel": "polynomial", "degree": 2.0, "coef0": 1.0, "gamma": 0.3},
    {"kernel": "gaussian", "lengths": np.array([1.0, 2.0, 0.5])},
    {"kernel": "laplace", "metric": "canberra", "bandwidth": 2.0,
     "weights": np.array([1.0, 2.0, 0.5])},
]  # fmt: skip


SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def problem(n=150, columns=2, dtype=np.float64):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, columns) if columns else n)
    return x.astype(dtype), y.astype(dtype)


def in_dtype(kernel, dtype):
    return {k: v.astype(dtype) if isinstance(v, np.ndarray) else v for k, v in kernel.items()}


def matrix(x, kernel, ridge):
    k = gram.kernel(x.astype(np.float64), **in_dtype(kernel, np.float64))
    return k + np.diag(np.broadcast_to(np.asarray(ridge, np.float64), len(x)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["auto", "cholesky", "cg"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_it_solves(kernel, method, dtype):
    x, y = problem(dtype=dtype)
    told = {"other": 1}
    alpha = gram.krr_solve(x, y, ridge=0.1, method=method, tolerance=1e-3, report=told,
                           **in_dtype(kernel, dtype))  # fmt: skip
    a = matrix(x, kernel, 0.1)
    residual = y - a @ alpha.astype(np.float64)
    exact = np.linalg.solve(a, y.astype(np.float64))
    worst = (np.linalg.norm(residual, axis=0) / np.linalg.norm(y, axis=0)).max()
    change = (a - 0.1 * np.eye(len(x))) @ (exact - alpha)
    assert alpha.dtype == dtype and alpha.shape == y.shape
    assert told["reached"] is True and told["end"] == "reached" and told["other"] == 1
    assert told["method"] == ("cg" if method == "cg" else "cholesky")
    assert 0.9 * worst <= told["residual"] + 1e-9 and told["residual"] <= 1e-3
    assert np.sqrt((change**2).mean(axis=0)).max() <= told["prediction_rms"] + 1e-12
    assert np.abs(change).max() <= told["prediction_sup"] + 1e-12
    assert told["products"] >= 1 and told["seconds"] > 0 and told["residual_rms"] > 0


def test_a_vector_strides_and_lists():
    x, y = problem(columns=0)
    plain = gram.krr_solve(x, y, **KERNEL, ridge=0.1)
    assert plain.shape == y.shape
    wide = np.zeros((len(x), 8))
    wide[:, ::-2][:, :3] = x
    some = gram.krr_solve(wide[:, ::-2][:, :3], y[::-1][::-1], ridge=0.1, **KERNEL)
    np.testing.assert_allclose(some, plain, rtol=1e-10)
    np.testing.assert_allclose(gram.krr_solve(x.tolist(), y.tolist(), ridge=0.1, **KERNEL), plain)
    two = gram.krr_solve(x, np.stack([y, 2 * y], 1), ridge=0.1, **KERNEL)
    np.testing.assert_allclose(two, np.stack([plain, 2 * plain], 1), rtol=1e-8)


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_weights_of_rows(method):
    x, y = problem()
    w = np.random.default_rng(1).uniform(0.5, 4, len(x))
    alpha = gram.krr_solve(x, y, ridge=0.2, row_weights=w, method=method, tolerance=1e-9, **KERNEL)
    np.testing.assert_allclose(alpha, np.linalg.solve(matrix(x, KERNEL, 0.2 / w), y), atol=1e-6)


def test_a_small_ridge_in_float32():
    x, y = problem(400, dtype=np.float32)
    told = {}
    alpha = gram.krr_solve(x, y, ridge=1e-3, method="cg", tolerance=1e-7, refine=True, report=told,
                           **KERNEL)  # fmt: skip
    assert alpha.dtype == np.float64 and told["reached"] and told["residual"] <= 1e-7


def test_the_rank_and_the_seed():
    x, y = problem(300)
    ranks = {}
    for rank in (None, 0, 20):
        told = {}
        gram.krr_solve(x, y, ridge=0.1, method="cg", rank=rank, report=told, **KERNEL)
        ranks[rank] = told["rank"]
    assert ranks[0] == 0 and 0 < ranks[20] <= 20 < ranks[None]


def test_what_is_not_reached():
    x, y = problem(300)
    options = {"ridge": 0.1, "method": "cg", "rank": 0, "products": 30, "tolerance": 1e-9} | KERNEL
    told, out = {}, np.zeros_like(y)
    alpha = gram.krr_solve(x, y, report=told, **options)
    assert told["reached"] is False and told["end"] == "products" and 0 < told["residual"] < 1
    with pytest.raises(gram.LinAlgError, match="products are used up"):
        gram.krr_solve(x, y, out=out, **options)
    np.testing.assert_array_equal(out, alpha)
    again = gram.krr_solve(x, y, report=told, warm_start=True, out=out,
                           **options | {"products": 200, "tolerance": 0.1, "ridge": 1.0})
    assert again is out and told["reached"]
    gram.krr_solve(x, y, report=told, time_limit=1e-9, **options | {"products": None})
    assert told["end"] == "time" and not told["reached"]


def test_an_error_of_held_out_rows_sets_the_tolerance():
    x, y = problem(300)
    told = {}
    gram.krr_solve(x, y, ridge=0.1, method="cg", held_out_rmse=0.5, report=told, **KERNEL)
    assert told["reached"] and told["prediction_rms"] <= 0.03 * 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_centres(kernel, dtype):
    x, y = problem(200, dtype=dtype)
    options = in_dtype(kernel, dtype) | {"ridge": 0.1, "tolerance": 1e-3}
    told = {}
    alpha, rows = gram.krr_solve(x, y, centres=30, report=told, **options)
    assert alpha.shape == (30, 2) and alpha.dtype == dtype and rows.dtype == np.int64
    assert (np.diff(rows) > 0).all() and told["method"] == "centres" and told["rank"] == 30
    wide = in_dtype(kernel, np.float64)
    points = x.astype(np.float64)
    k = gram.kernel(points, points[rows], **wide)
    s = gram.kernel(points[rows], **wide) + told["floor"] * np.eye(30)
    exact = np.linalg.solve(k.T @ k + 0.1 * s, k.T @ y.astype(np.float64))
    change = k @ (exact - alpha)
    assert np.sqrt((change**2).mean(axis=0)).max() <= told["prediction_rms"] + 1e-12
    assert np.linalg.norm(change) <= 2e-2 * np.linalg.norm(k @ exact)
    again = gram.krr_solve(x, y, centres=x[rows], **options)
    np.testing.assert_allclose(gram.kernel_matmul(x, x[rows], v=again, **in_dtype(kernel, dtype)),
                               k @ exact, atol=5e-2)  # fmt: skip


def test_centres_of_all_rows_are_the_whole_problem():
    x, y = problem(80, columns=0)
    kernel = {"kernel": "laplace", "bandwidth": 1.0}
    alpha = gram.krr_solve(x, y, centres=x, ridge=0.1, tolerance=1e-9, **kernel)
    np.testing.assert_allclose(alpha, np.linalg.solve(matrix(x, kernel, 0.1), y), atol=1e-6)


def test_ctrl_c_ends_a_solve():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12000, 40)), rng.normal(size=12000)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        gram.krr_solve(x, y, ridge=1e-9, method="cg", rank=0, tolerance=1e-12, **KERNEL)
    timer.join()
    assert gram.krr_solve(x[:9], y[:9], ridge=1.0).shape == (9,)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (TypeError, "needs the argument 'ridge'", {"ridge": None}),
        (ValueError, "ridge is -1, expected a finite number", {"ridge": -1.0}),
        (ValueError, "ridge is nan", {"ridge": float("nan")}),
        (ValueError, "'lu', expected one of auto, cholesky, cg, centres", {"method": "lu"}),
        (ValueError, "centres is 0, expected 1 or more, or points", {"centres": 0}),
        (ValueError, "centre_count is 21, expected at most 20", {"centres": 21}),
        (ValueError, "centres is 4 by 2, expected 4 by 3", {"centres": np.ones((4, 2))}),
        (ValueError, "centres are given, but", {"centres": 3, "method": "cg"}),
        (ValueError, "but neither centres", {"method": "centres"}),
        (TypeError, "centres is of type str", {"centres": "many"}),
        (ValueError, "rank is -1, expected 0 or more", {"rank": -1}),
        (ValueError, "products is -3, expected 0 or more", {"products": -3}),
        (ValueError, "ridge is meant", {"regularization": 0.1}),
        (ValueError, r"krr_solve: row_weights\[0\] is 0, expected", {"row_weights": np.zeros(20)}),
        (ValueError, "row_weights is 3 by 1, expected 20 by 1", {"row_weights": np.ones(3)}),
        (TypeError, "report is 3, expected a dict", {"report": 3}),
        (ValueError, "KULLBACK_LEIBLER, expected", {"kernel": "laplace", "bandwidth": 1.0,
                                                    "metric": "kullback-leibler"}),
        (ValueError, "expected equal offsets", {"column_offset": 1}),
        (TypeError, "warm_start is True without out", {"warm_start": True}),
        (ValueError, "device is 'tpu'", {"device": "tpu"}),
        (ValueError, "alpha is 20 by 1, expected 20 by 2", {"out": np.zeros((20, 1))}),
    ],
)
def test_what_is_refused(error, message, options):
    x, y = problem(20)
    with pytest.raises(error, match=message):
        gram.krr_solve(x, y, **{"ridge": 0.1} | KERNEL | options)


@pytest.mark.parametrize("method", ["cholesky", "cg"])
def test_a_kernel_that_is_not_positive_definite(method):
    x, y = problem(300)
    with pytest.raises(gram.LinAlgError, match="is not positive definite"):
        gram.krr_solve(x, y, "sigmoid", coef0=1.0, gamma=0.5, ridge=1e-3, method=method)
    told = {}
    alpha = gram.krr_solve(x, y, "sigmoid", coef0=1.0, gamma=0.5, ridge=1e-3, method=method,
                           report=told)  # fmt: skip
    assert told["end"] == "indefinite" and not told["reached"]
    assert np.isnan(alpha).all() == (method == "cholesky")


def test_arrays_that_are_refused():
    x, y = problem(20)
    with pytest.raises(ValueError, match="y has 19 rows, expected 20 as x"):
        gram.krr_solve(x, y[:-1], ridge=1.0)
    y[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"y\[3, 1\] is nan, expected a finite number"):
        gram.krr_solve(x, y, ridge=1.0)
    with pytest.raises(ValueError, match="expression is not symmetric: it is"):
        gram.krr_solve(x, x, ridge=1.0, expression="exp(-s) * norm_y")
    with pytest.raises(ValueError, match="dimensions"):
        gram.krr_solve(x[None], y, ridge=1.0)
    with pytest.raises(TypeError, match="x is of type int"):
        gram.krr_solve(3, y, ridge=1.0)


def test_tensors():
    torch = pytest.importorskip("torch")
    x, y = problem(dtype=np.float32)
    alpha = gram.krr_solve(torch.from_numpy(x), torch.from_numpy(y), ridge=0.1, refine=True,
                           tolerance=1e-6, **KERNEL)
    assert alpha.dtype == torch.float64
    exact = np.linalg.solve(matrix(x, KERNEL, 0.1), y.astype(np.float64))
    np.testing.assert_allclose(alpha.numpy(), exact, atol=1e-4)


def test_checkpoints(tmp_path):
    x, y = problem()
    path, told = tmp_path / "c.gram", {}
    given = dict(ridge=1e-3, method="cg", rank=0, tolerance=1e-9, report=told, **KERNEL)
    whole = gram.krr_solve(x, y, **given)
    gram.krr_solve(x, y, checkpoint=path, checkpoint_iterations=2, products=15, **given)
    assert told["end"] == "products" and path.exists()
    alpha = gram.krr_solve(x, y, checkpoint=str(path), checkpoint_seconds=5.0, resume=True, **given)
    assert told["reached"]
    np.testing.assert_allclose(alpha, whole, atol=1e-5)
    with pytest.raises(ValueError, match="it was given another y"):
        gram.krr_solve(x, y + 1, checkpoint=path, resume=True, **given)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"c\.gram"):
        gram.krr_solve(x, y, checkpoint=path, resume=True, **given)
    with pytest.raises(ValueError, match="resume is given without checkpoint"):
        gram.krr_solve(x, y, resume=True, **given)
    with pytest.raises(OSError, match="none"):
        gram.krr_solve(x, y, checkpoint=tmp_path / "none" / "c.gram", **given)
    with pytest.raises(TypeError):
        gram.krr_solve(x, y, checkpoint=3.5, **given)
    with pytest.raises(ValueError, match="checkpoint_iterations is -1"):
        gram.krr_solve(x, y, checkpoint=path, checkpoint_iterations=-1, **given)


class Sliced:
    """What a data set of h5py or zarr has, and how many rows it was asked for at a time."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.asked = array, array.shape, array.dtype, []

    def __getitem__(self, key):
        assert isinstance(key, slice)
        self.asked.append(key.stop - key.start)
        return self.array[key]


def blocks_of(x, sizes, begun):
    def begin():
        begun.append(1)
        at = 0
        for size in sizes:
            yield x[at : at + size]
            at += size

    return begin


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_read(dtype, tmp_path):
    x, y = problem(160, dtype=dtype)
    given = dict(ridge=0.1, tolerance=1e-4, **KERNEL)
    whole, chosen = gram.krr_solve(x, y, centres=30, **given)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    mapped = np.memmap(tmp_path / "m", dtype, "w+", shape=x.shape)
    mapped[...] = x
    begun = []
    for rows in (
        x, Sliced(x), tmp_path / "x.npy", str(tmp_path / "f.npy"), mapped,
        x.astype(x.dtype.newbyteorder(">")), blocks_of(x, [0, 7, 100, 0, 53], begun),
        blocks_of(x, [160], begun),
    ):  # fmt: skip
        told = {}
        alpha, same = gram.krr_solve(None, y, rows=rows, centres=30, report=told, **given)
        np.testing.assert_array_equal(same, chosen)
        np.testing.assert_allclose(alpha, whole, atol=5e-2 if dtype == np.float32 else 1e-4)
        assert told["reached"] and told["method"] == "centres" and alpha.dtype == dtype
    assert len(begun) > 4
    alpha = gram.krr_solve(None, y[:, 0], rows=Sliced(x), centres=x[:9], **given)
    assert alpha.shape == (9,)
    small = (4 * x).astype(np.int8)
    assert gram.krr_solve(None, y, rows=small, centres=small[:5].astype(dtype), **given).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_read_by_conjugate_gradients(dtype, tmp_path):
    x, y = problem(600, dtype=dtype)
    given = dict(ridge=0.1, tolerance=1e-4, **KERNEL)
    np.save(tmp_path / "x.npy", x)
    whole = gram.krr_solve(x, y, method="cg", **given)
    sliced, told = Sliced(x), {}
    for rows in (tmp_path / "x.npy", sliced, blocks_of(x, [100, 500], [])):
        alpha = gram.krr_solve(None, y, rows=rows, report=told, memory=1, **given)
        np.testing.assert_allclose(alpha, whole, atol=5e-3)
        assert told["reached"] and told["method"] == "cg" and alpha.dtype == dtype
    assert max(sliced.asked) <= 256


class Odd(Exception):
    pass


def test_rows_that_cannot_be_read(tmp_path):
    x, y = problem(50)
    given = dict(ridge=0.1, centres=10, **KERNEL)

    def raises():
        yield x[:20]
        raise Odd("no disk")

    (tmp_path / "x.npy").write_bytes(b"no array")
    short = Sliced(x)
    short.shape = (50, 4)
    for rows, error, message in (
        (raises, Odd, "no disk"),
        (blocks_of(x, [49], []), ValueError, "rows end after 49 of them, expected 50 as y"),
        (blocks_of(np.ones((60, 3)), [60], []), ValueError, "rows go on after 50 of them"),
        (lambda: iter([x[:20], x[20:, :2]]), ValueError, "has 2 columns, expected 3"),
        (lambda: 3, TypeError, "not iterable"), (lambda: iter([]), ValueError, "end after 0"),
        (short, ValueError, r"has the shape \(50, 3\), expected \(50, 4\)"),
        (x[:, 0], ValueError, "rows has 1 dimensions, expected 2"),
        (x[:40], ValueError, "y has 50 rows, expected 40 as x"),
        (x.astype(complex), ValueError, "rows has dtype complex128, expected float64 as y"),
        (3.5, TypeError, "rows is of type float, expected the path"),
        (tmp_path / "none.npy", FileNotFoundError, "none"),
        (tmp_path / "x.npy", ValueError, "pickle"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            gram.krr_solve(None, y, rows=rows, **given)
    with pytest.raises(ValueError, match="rows has dtype float64, expected float32 as y"):
        gram.krr_solve(None, y.astype(np.float32), rows=x, **given)
    with pytest.raises(TypeError, match="x and rows are given, expected None for x"):
        gram.krr_solve(x, y, rows=x, **given)
    with pytest.raises(ValueError, match="rows is given, but method is"):
        gram.krr_solve(None, y, rows=x, ridge=0.1, method="cholesky")
    with pytest.raises(TypeError, match="x is of type NoneType"):
        gram.krr_solve(None, y, ridge=0.1)


def test_ctrl_c_ends_a_solve_by_rows():
    x, y = problem(100)

    def begin():
        yield x[:50]
        signal.raise_signal(signal.SIGINT)
        yield x[50:]

    with pytest.raises(KeyboardInterrupt):
        gram.krr_solve(None, y, rows=begin, ridge=1e-3, centres=20, **KERNEL)
    assert gram.krr_solve(None, y, rows=x, ridge=1e-3, centres=x[:9], **KERNEL).shape == (9, 2)


def test_momentum_of_blocks():
    """Fifteen passes without it leave 0.040 of y."""
    rng, report = np.random.default_rng(5), {}
    x = rng.normal(size=(2048, 8)).astype(np.float32)
    y = (np.sin(x[:, 0] * 2) + 0.1 * rng.normal(size=2048)).astype(np.float32)
    gram.krr_solve(x, y, kernel="gaussian", bandwidth=4, ridge=2e-3, method="blocks", products=16,
                   tolerance=1e-9, report=report)  # fmt: skip
    assert report["residual"] < 0.026


def test_the_memory_of_a_preconditioner():
    x, y = problem(300)
    told = {}
    gram.krr_solve(x, y, ridge=0.1, method="cg", memory=1, report=told, **KERNEL)
    assert told["rank"] <= 100
    with pytest.raises(ValueError, match="memory is -1, expected 0 or more"):
        gram.krr_solve(x, y, ridge=0.1, memory=-1, **KERNEL)


def test_the_script_that_measures(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, SOURCE / "bench" / "krr.py", "--warm", "40", "--json", found]
    cases = ["higgs:300", "susy:2e2", "molecule:90", "taxi:80"]
    said = subprocess.run([*command, *cases], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in found.read_text().splitlines()]
    assert [line["rows"] for line in lines] == [300, 200, 90, 80]
    assert said.count("reached yes") == 4
    for line in lines:  # 64 rows of them are not all
        assert line["sampled"] <= 3 * line["residual"] + 1e-7
    few = [*command[:-2], "higgs:300", "--centres", "40"]
    assert "reached yes" in subprocess.run(few, check=True, capture_output=True, text=True).stdout
    wrong = subprocess.run([*command, "higgs"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2 and "is no case, expected one of higgs" in wrong.stderr


# ---- Rows of Arrow streams -----------------------------------------------------------------------


def arrow_tables(kind, x):
    """Tables of the columns of x, whole, and in batches that are slices of larger ones."""
    names = [f"c{j}" for j in range(x.shape[1])]
    columns = dict(zip(names, x.T, strict=True))
    if kind == "polars":
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(columns)
        parts = polars.concat([frame[:7], frame[7:30], frame[30:]], rechunk=False)
        return [frame, parts, polars.concat([frame, frame])[len(x) :]]
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        relation = duckdb.sql("SELECT * FROM columns")
        if not hasattr(relation, "__arrow_c_stream__"):
            pytest.skip("this DuckDB has no Arrow streams")
        return [relation]
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: np.ascontiguousarray(c) for name, c in columns.items()})
    batches = table.to_batches(max_chunksize=17)
    twice = pyarrow.concat_tables([table, table])
    return [
        table,
        pyarrow.RecordBatchReader.from_batches(table.schema, batches),
        pyarrow.Table.from_batches(batches),
        twice.slice(len(x) - 1).slice(1),
    ]


@pytest.mark.parametrize("kind", ["pyarrow", "polars", "duckdb"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_arrow_streams(kind, dtype):
    x, y = problem(160, dtype=dtype)
    given = dict(ridge=0.1, tolerance=1e-4, centres=30, **KERNEL)
    whole, chosen = gram.krr_solve(x, y, **given)
    for table in arrow_tables(kind, x):
        alpha, rows = gram.krr_solve(None, y, rows=table, **given)
        assert (rows == chosen).all()
        np.testing.assert_allclose(alpha, whole, atol=2e-3 * np.abs(whole).max())


@pytest.mark.parametrize("kind", ["pyarrow", "polars"])
def test_integers_of_arrow_streams(kind):
    rng = np.random.default_rng(0)
    types = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()
    columns = {name: rng.integers(0, 100, 50).astype(name) for name in types}
    table = pytest.importorskip(kind)
    table = table.table(columns) if kind == "pyarrow" else table.DataFrame(columns)
    x, y = np.stack([c.astype(float) for c in columns.values()], axis=1), rng.normal(size=50)
    given = dict(kernel="gaussian", bandwidth=100.0, ridge=0.1, method="cg", tolerance=1e-8)
    alpha = gram.krr_solve(None, y, rows=table, **given)
    np.testing.assert_allclose(alpha, gram.krr_solve(x, y, **given), atol=1e-5)
    with pytest.raises(ValueError, match=r"column 4 \(int32\) .* GRAM_F32 cannot hold"):
        gram.krr_solve(None, y.astype(np.float32), rows=table, **given)


def test_arrow_streams_that_are_refused():
    pyarrow = pytest.importorskip("pyarrow")
    y = np.ones(4)

    def refused(table, error, match):
        with pytest.raises(error, match=match):
            gram.krr_solve(None, y, rows=table, ridge=1.0, method="cg")

    refused(pyarrow.table({"a": [1.0, 2.0]}), ValueError, "rows has 2 rows, expected 4 as y")
    refused(pyarrow.table({"a": [1.0, 2, 3, 4], "b": [1, 2, None, 4]}), ValueError,
            r"column 1 \(b\) of the stream is null in row 2")  # fmt: skip
    refused(pyarrow.table({"a": list("abcd")}), ValueError, r'column 0 \(a\).*format "u"')
    refused(pyarrow.table({"a": [1.0, np.nan, 3, 4]}), ValueError, r"x\[1, 0\] is nan")
    refused(pyarrow.chunked_array([[1.0, 2, 3, 4]]), ValueError, 'format "g", expected "\\+s"')

    def batches():
        yield pyarrow.record_batch({"a": [1.0, 2.0]})
        raise RuntimeError("the wire is cut")

    schema = pyarrow.schema({"a": pyarrow.float64()})
    refused(pyarrow.RecordBatchReader.from_batches(schema, batches()), OSError, "the wire is cut")


def test_streams_that_are_none():
    class Table:
        def __init__(self, stream):
            self.stream = stream

        def __arrow_c_stream__(self, requested_schema=None):
            if isinstance(self.stream, Exception):
                raise self.stream
            return self.stream

    given = dict(ridge=1.0, method="cg")
    with pytest.raises(RuntimeError, match="no stream today"):
        gram.krr_solve(None, np.ones(3), rows=Table(RuntimeError("no stream today")), **given)
    with pytest.raises(ValueError, match="PyCapsule"):
        gram.krr_solve(None, np.ones(3), rows=Table(3), **given)
