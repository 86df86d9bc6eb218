"""test_cli_device.py - --device: what it takes, what is said without a GPU, the same results on one

GRAM_TEST_DEVICE=cuda runs the comparisons on a GPU; without it they compare --device auto.
"""

import json
import os

import numpy as np
import pytest
from gram_cli import BAD_DATA, DATA, USAGE, gram, gram_json, gram_run, refusal

UNSUPPORTED = 69
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(70, 6)), RNG.normal(size=(40, 6))
WHERE = os.environ.get("GRAM_TEST_DEVICE") or "auto"


def save(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize("value", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0.5", "cud", "cuda0"])
def test_what_is_no_device(tmp_path, value):
    x = save(tmp_path / "x.npy", X)
    message = refusal("cdist", x, "--device", value, status=USAGE)
    assert f'"{value}"' in message and "expected auto, cpu, cuda or cuda:N" in message


def test_a_device_that_is_not_here(tmp_path):
    count = gram_json("info")["cuda_devices"]
    x = save(tmp_path / "x.npy", X)
    status = BAD_DATA if count else UNSUPPORTED
    for command in ("cdist", "kernel"):
        assert "CUDA" in refusal(command, x, "--device", f"cuda:{count + 7}", status=status)


def test_without_a_gpu(tmp_path):
    if gram_json("info")["cuda_devices"] > 0:
        pytest.skip("there is one")
    x = save(tmp_path / "x.npy", X)
    message = refusal("cdist", x, "--device", "cuda", status=UNSUPPORTED)
    assert "no CUDA device" in message or "the CUDA backend cannot be loaded" in message


def test_info_lists_devices():
    info = gram_json("info")
    assert len(info["devices"]) == info["cuda_devices"]
    for device in info["devices"]:
        assert device["name"] and 0 < device["memory_available"] <= device["memory_total"]


def both(tmp_path, *command):
    results = []
    for where in ("cpu", WHERE):
        gram(*command, "--device", where, "-o", tmp_path / f"{where}.npy")
        results.append(np.load(tmp_path / f"{where}.npy"))
    return results


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_cdist_and_kernel(tmp_path, kind):
    x, y = (save(tmp_path / f"{n}.npy", a.astype(kind)) for n, a in (("x", X), ("y", Y)))
    eps = np.finfo(kind).eps
    for command in (["cdist", x, y, "-p", 1.3], ["cdist", x], ["kernel", x, y, "--bandwidth", 2]):
        cpu, there = both(tmp_path, *command)
        np.testing.assert_allclose(there, cpu, rtol=200 * eps, atol=20 * eps)


@pytest.mark.parametrize("metric", ["hamming", "jaccard"])
def test_packed_bits(tmp_path, metric):
    x = save(tmp_path / "x.npy", np.packbits(RNG.random((70, 45)) < 0.3, axis=1))
    for command in ("cdist", "nearest"):
        cpu, there = both(tmp_path, command, x, "--metric", metric, "--bits", 45)
        np.testing.assert_allclose(there, cpu, rtol=1e-6)


def test_weights_of_a_kernel(tmp_path):
    x = save(tmp_path / "x.npy", X)
    weights = save(tmp_path / "w.npy", np.arange(1.0, 1 + X.shape[1]))
    for how in (["-k", "gaussian"], ["-k", "laplace", "-p", 1], ["--metric", "seuclidean"]):
        cpu, there = both(tmp_path, "kernel", x, *how, "--weights", weights, "-L", 3)
        np.testing.assert_allclose(there, cpu, rtol=1e-12)


@pytest.mark.parametrize("n", [30, 70])
@pytest.mark.parametrize("method", ["lu", "cholesky"])
def test_solve(tmp_path, n, method):
    factor = RNG.normal(size=(3, n, n))
    a = save(tmp_path / "a.npy", factor @ factor.swapaxes(1, 2) + n * np.eye(n))
    b = save(tmp_path / "b.npy", RNG.normal(size=(n, 2)))
    cpu, there = both(tmp_path, "solve", a, b, "--method", method)
    np.testing.assert_allclose(there, cpu, rtol=1e-9, atol=1e-12)
    right = np.broadcast_to(np.load(b), there.shape)
    np.testing.assert_allclose(np.load(a) @ there, right, atol=1e-9)


REPORTS = [("lu",), ("lu", "--refine"), ("cholesky",), ("cholesky", "--refine", "--jitter", "0,1")]


@pytest.mark.parametrize("how", REPORTS, ids=" ".join)
def test_the_report_of_a_solve(tmp_path, how):
    factor = RNG.normal(size=(3, 9, 9))
    a = save(tmp_path / "a.npy", factor @ factor.swapaxes(1, 2) + 9 * np.eye(9))
    b = save(tmp_path / "b.npy", RNG.normal(size=(9, 2)))
    reports = []
    for where in ("cpu", WHERE):
        report = tmp_path / f"{where}.csv"
        gram("solve", a, b, "--method", *how, "--device", where, "--report", report,
             "-o", tmp_path / "x.npy")  # fmt: skip
        reports.append([line.split(",") for line in report.read_text().splitlines()])
    assert reports[0][0] == reports[1][0] and len(reports[1]) == 4
    for cpu, there in zip(reports[0][1:], reports[1][1:]):
        assert [bool(field) for field in cpu] == [bool(field) for field in there]
        assert cpu[0] == there[0] and cpu[2] == there[2]
        assert float(there[1]) == pytest.approx(float(cpu[1]), rel=1e-4)
        assert not there[3] or 0 <= float(there[3]) < 1e-15


KRON = [
    ("x.npy", "f.npy", "h.npy"),
    ("x.npy", "ft.npy", "h.npy", "--op", "TN"),
    ("x.npy", "ft.npy", "ht.npy", "--op", "T", "--dtype", "f32"),
    ("z.npy", "f.npy", "h.npy", "--side", "left"),
    ("z.npy", "ft.npy", "h.npy", "--side", "left", "--op", "TN"),
    ("z.npy", "f.npy", "h.npy", "--transpose-x", "--side", "left", "--op", "T"),
    ("v.npy", "f.npy", "h.npy"),
    ("f.npy", "h.npy", "--written-out"),
    ("ft.npy", "h.npy", "--written-out", "--op", "TN"),
]


@pytest.mark.parametrize("arguments", KRON, ids=" ".join)
def test_kron(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    f, h = RNG.normal(size=(3, 2)), RNG.normal(size=(2, 4, 5))  # a batch of h
    for name, array in {"f": f, "ft": f.T, "h": h, "ht": h.swapaxes(1, 2)}.items():
        np.save(f"{name}.npy", np.ascontiguousarray(array))
    np.save("x.npy", RNG.normal(size=(7, 12)))
    np.save("v.npy", RNG.normal(size=12))
    np.save("z.npy", RNG.normal(size=(6, 12) if "--transpose-x" in arguments else (10, 6)))
    cpu, there = both(tmp_path, "kron", *arguments)
    assert there.shape == cpu.shape
    eps = np.finfo(cpu.dtype).eps
    np.testing.assert_allclose(there, cpu, rtol=200 * eps, atol=200 * eps)


def test_profile_of_kron(tmp_path):
    """It failed on a GPU: x is on device 0:0, expected the context's device 1:0."""
    trace = tmp_path / "t.json"
    gram("profile", "kron", 4, 3, "2x5", "--device", WHERE, "--trace", trace)
    assert json.loads(trace.read_text())[0]["name"] == "kron"
    if gram_json("info")["cuda_devices"] > 0:
        said = gram_run("profile", "kron", 4, 3, "--implementation", "shuffle", "--device", WHERE,
                        "--trace", trace, status=2).stderr  # fmt: skip
        assert "implementation=shuffle computes on the CPU, expected gram on a GPU" in said


def test_a_singular_matrix(tmp_path):
    a = save(tmp_path / "a.npy", np.zeros((9, 9)))
    message = refusal("solve", a, a, "--device", WHERE, "-o", tmp_path / "x.npy", status=1)
    assert "singular" in message and not (tmp_path / "x.npy").exists()


PROBLEMS = [
    ["cdist", 50, 40, 7, "p=1.3"],
    ["kernel", 50, 40, 7, "dtype=f64", "layout=column"],
    ["expression", 30, 30, 5],
    ["median", 60, 5],
    ["cdist_grad", 20, 30, 4, 2],
    ["agop", 20, 30, 4, 2],
    ["kernel_vjp", 30, 20, 4],
    ["solve_cholesky", 40, 3],
    ["solve_lu", 80, 2, "dtype=f64"],
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem[0])
def test_problems_of_any_size(tmp_path, problem):
    where = ["--device", WHERE]
    on_gpu = gram_json("info")["cuda_devices"] > 0
    said = gram("check", *problem, *where)
    assert ": right on cuda" in said if on_gpu else ": right on " in said
    timed = gram_json("bench", *problem, *where, "--seconds", 0.01)
    assert timed["checked"] and timed["repeats"] >= 5 and 0 < timed["seconds_min"]
    assert timed["device"] == ("cuda:0" if on_gpu else "cpu")
    assert timed["fma_roof"] > 0 and timed["memory_roof"] > 0
    assert 0 < timed["memory_roof_share"] and timed.get("fma_roof_share", 1) > 0
    text = gram("bench", *problem, *where, "--seconds", 0.01)
    whose = "this device's" if on_gpu else "this machine's"
    assert ("cuda:0\n" in text) == on_gpu and whose in text
    trace = tmp_path / "trace.json"
    gram("profile", *problem, *where, "--trace", trace)
    events = json.loads(trace.read_text())
    names = [event["name"] for event in events]
    assert names[0] == problem[0]
    if on_gpu:
        assert names == [problem[0], "queueing", "waiting"]
        assert sum(event["dur"] for event in events[1:]) == pytest.approx(
            events[0]["dur"], abs=0.01
        )


def test_problems_of_layers():
    for operation in ("sample_grad", "kfac_factors"):
        said = gram("check", operation, 5, 4, 3, 2, "--device", WHERE)
        assert "error" in said and "of its bound" in said
        run = gram("bench", operation, 5, 4, 3, 2, "--device", WHERE, "--seconds", 0.01)
        assert "median" in run


def test_kron_is_a_way_more_on_a_gpu():
    on_gpu = gram_json("info")["cuda_devices"] > 0
    said = gram("check", "kron", 4, 3, "2x5", "--device", WHERE)
    assert ("gram cuda" in said) == on_gpu and " True " in said and "False" not in said
    lines = gram("bench", "kron", 4, 3, 2, "--device", WHERE, "--seconds", 0.01, "--json")
    ways = [json.loads(line) for line in lines.splitlines()]
    assert ("gram cuda" in [way["implementation"] for way in ways]) == on_gpu
    assert all(way["roof_share"] > 0 for way in ways)
    lines = gram("bench", "kron", 4, 3, 2, "--device", WHERE, "--seconds", 0.01).splitlines()
    rows = [line for line in lines if line.startswith(("naive", "shuffle", "explicit", "gram"))]
    assert len(rows) == len(ways) and all(" %" in row for row in rows)


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    lines = (DATA / "letters.csv").read_text().splitlines(keepends=True)
    (folder / "train.csv").write_text("".join(lines[:401]))
    weighted = [f"{row.rstrip()},{i % 3 + 1 if i else 'w'}\n" for i, row in enumerate(lines[:401])]
    (folder / "weighted.csv").write_text("".join(weighted))
    (folder / "test.csv").write_text("".join([lines[0], *lines[401:601]]))
    return folder


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["--iterations", 1],
        ["--iterations", 1, "--metric", "diagonal", "--dtype", "f64"],
        ["--leaf-rows", 150, "--weights", "w"],
    ],
)
def test_the_machine(letters, tmp_path, how):
    """The same predictions wherever it was trained, and wherever it predicts."""
    table = letters / ("weighted.csv" if "w" in how else "train.csv")
    proba = {}
    for trained in ("cpu", WHERE):
        model = tmp_path / f"{trained}.gram"
        gram("fit", table, "--target", "letter", "-o", model, "--seed", 3,
             "--solver", "cholesky", "--device", trained, "--fixed", *how)  # fmt: skip
        for where in ("cpu", WHERE):
            out = tmp_path / "p.npy"
            gram("predict", model, letters / "test.csv", "--proba", "-o", out, "--device", where)
            proba[trained, where] = np.load(out)
    first = proba["cpu", "cpu"]
    for other in proba.values():
        np.testing.assert_allclose(other, first, atol=1e-3)
    scores = [
        gram_json("score", tmp_path / f"{w}.gram", letters / "test.csv", "--device", w)["score"]
        for w in ("cpu", WHERE)
    ]
    assert abs(scores[0] - scores[1]) <= 0.01 and scores[0] > 0.5


@pytest.mark.parametrize(
    "how, tolerance", [(["--dtype", "f64", "--weights", 5], 1e-6), (["--iterations", 1], 1e-4)]
)
def test_conjugate_gradients(tmp_path, how, tolerance):
    """Down to a small residual they give what Cholesky gives on the CPU, wherever they run."""
    x = RNG.normal(size=(90, 6))
    x[:, 4] = np.sin(2 * x[:, 0]) + x[:, 1]
    x[:, 5] = RNG.integers(1, 4, size=90)
    table = save(tmp_path / "table.npy", x)
    predicted = []
    for solver, where in (("cholesky", "cpu"), ("cg", WHERE)):
        model, out = tmp_path / "m.gram", tmp_path / "p.npy"
        fit = gram_json("fit", table, "--target", 4, "-o", model, "--solver", solver, "-r", 0.1,
                        "--tolerance", tolerance, "--device", where, "--fixed", *how)  # fmt: skip
        gram("predict", model, table, "-o", out)
        predicted.append(np.load(out))
    assert fit["machine"]["solver"] == "conjugate gradients"
    assert 0 < fit["machine"]["residual"] <= tolerance
    np.testing.assert_allclose(predicted[1], predicted[0], atol=20 * tolerance)


def test_the_curve_tells_what_each_gpu_needs(tmp_path):
    how = ["--device", WHERE, "--seconds", 0, "--curve", "c.csv"]
    gram("bench", "eigh", 1, 12, *how, cwd=tmp_path)
    rows = [line.split(",") for line in (tmp_path / "c.csv").read_text().splitlines()[1:]]
    planned = {(row[0], int(row[4])): int(row[6]) for row in rows if not row[5]}
    count = gram_json("info")["cuda_devices"] if rows[0][0] == "cuda" else 0
    powers = [2**k for k in range(5) if 2**k <= count]
    assert {name for name, _ in planned} == {f"cuda x{k}" for k in powers}
    if count:
        assert planned["cuda x1", 4096] > 4096**2 * 4
