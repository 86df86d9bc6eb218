"""test_cli_arrays.py - cdist and kernel: every kind of input and output, against NumPy"""

import io
import json

import numpy as np
import pytest
from gram_cli import BAD_DATA, NO_INPUT, USAGE, gram, gram_run, load_text, refusal, save_text

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(7, 4)), RNG.normal(size=(5, 4))


def distances(x, y, p):
    d = np.abs(x[..., :, None, :] - y[..., None, :, :])
    if p == 0:
        return (d > 0).sum(-1).astype(float)
    return d.max(-1) if p == np.inf else (d**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.3, 2, 3, np.inf])
def test_cdist(tmp_path, p):
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y, header="a,b,c,d")
    np.testing.assert_allclose(
        load_text(gram("cdist", x, y, "-p", p)), distances(X, Y, p), rtol=1e-13
    )
    itself = load_text(gram("cdist", x, "-p", p))
    np.testing.assert_allclose(itself, distances(X, X, p), rtol=1e-13)
    assert (itself == itself.T).all() and (np.diag(itself) == 0).all()


def test_cdist_no_root(tmp_path):
    x = save_text(tmp_path / "x.csv", X)
    np.testing.assert_allclose(
        load_text(gram("cdist", x, "--no-root", "-p", 1.5)), distances(X, X, 1.5) ** 1.5, rtol=1e-13
    )


@pytest.mark.parametrize("p", [0, 1, 2])
def test_nearest(tmp_path, p):
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y)
    for others, found, itself in (
        (Y, load_text(gram("nearest", x, y, "-k", 3, "-p", p)), []),
        (X, load_text(gram("nearest", x, "-k", 3, "-p", p, "--exclude-self")), range(7)),
    ):
        d = distances(X, others, p)
        d[itself, itself] = np.inf
        order = np.argsort(d, 1, kind="stable")[:, :3]
        np.testing.assert_array_equal(found[:, 0], np.repeat(np.arange(7), 3))
        np.testing.assert_array_equal(found[:, 1], order.ravel())
        np.testing.assert_allclose(found[:, 2], np.take_along_axis(d, order, 1).ravel())


def test_nearest_by_another_metric(tmp_path):
    x, y = save_text(tmp_path / "x.csv", np.abs(X)), save_text(tmp_path / "y.csv", np.abs(Y))
    found = load_text(gram("nearest", x, y, "-k", 2, "--metric", "canberra"))
    d = load_text(gram("cdist", x, y, "--metric", "canberra"))
    order = np.argsort(d, 1, kind="stable")[:, :2]
    np.testing.assert_array_equal(found[:, 1], order.ravel())
    np.testing.assert_allclose(found[:, 2], np.take_along_axis(d, order, 1).ravel())


@pytest.mark.parametrize("options", [["-p", 1.5], ["--metric", "canberra"]])
def test_weights_of_a_distance(tmp_path, options):
    w = np.array([0.5, 2.0, 0.0, 1.0])
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y)
    np.save(tmp_path / "w.npy", w)
    each = np.abs(X[:, None] - Y)
    d = (w * each**1.5).sum(-1) ** (1 / 1.5)
    if "--metric" in options:
        d = (w * each / (np.abs(X[:, None]) + np.abs(Y))).sum(-1)
    order = np.argsort(d, 1, kind="stable")[:, :2]
    row = save_text(tmp_path / "row.csv", w[None])
    column = save_text(tmp_path / "column.csv", w[:, None])
    for weights in (tmp_path / "w.npy", row, column):
        arguments = [x, y, *options, "--weights", weights]
        np.testing.assert_allclose(load_text(gram("cdist", *arguments)), d, rtol=1e-13)
        found = load_text(gram("nearest", *arguments, "-k", 2))
        np.testing.assert_array_equal(found[:, 1], order.ravel())
        np.testing.assert_allclose(found[:, 2], np.take_along_axis(d, order, 1).ravel())


def test_weights_that_do_not_fit(tmp_path):
    x = save_text(tmp_path / "x.csv", X)
    for text, words in (("1,2,3,4,5,6,7\n", "has 7 numbers, expected a row or a column of "),
                        (",".join(["-1"] * X.shape[1]) + "\n", "has the weight -1"),
                        ("1,2,,3\n", "has the weight nan")):
        (tmp_path / "w.csv").write_text(text)
        for command in ("cdist", "nearest"):
            assert words in refusal(command, x, "-w", tmp_path / "w.csv", status=BAD_DATA)
    for command in ("cdist", "nearest"):
        words = refusal(command, x, "-m", "haversine", "-w", tmp_path / "w.csv", status=USAGE)
        assert "--weights means nothing with --metric haversine" in words


def test_variances_of_seuclidean(tmp_path):
    v = np.array([0.5, 2.0, 3.0, 1.0])
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y)
    variances = save_text(tmp_path / "v.csv", v[None])
    arguments = ["--metric", "seuclidean", "--weights", variances]
    d = np.sqrt(((X[:, None] - Y) ** 2 / v).sum(-1))
    np.testing.assert_allclose(load_text(gram("cdist", x, y, *arguments)), d, rtol=1e-13)
    np.testing.assert_allclose(
        load_text(gram("kernel", x, y, *arguments, "-k", "gaussian", "-L", 2)),
        np.exp(-(d**2) / 8),
        rtol=1e-12,
    )
    (tmp_path / "v.csv").write_text("1,1,0,1\n")
    for command in (["cdist"], ["nearest"], ["kernel", "-L", 1]):
        words = refusal(*command, x, "--metric", "seuclidean", status=USAGE)
        assert "--metric seuclidean is given without --weights" in words
        assert "variance 0" in refusal(*command, x, *arguments, status=BAD_DATA)


def bits_problem(tmp_path):
    flags = RNG.random((9, 21)) < 0.4
    packed = np.packbits(flags, axis=1)
    np.save(tmp_path / "bits.npy", packed)
    return flags, packed, tmp_path / "bits.npy"


@pytest.mark.parametrize("metric", ["hamming", "jaccard"])
def test_packed_bits(tmp_path, metric):
    flags, packed, array = bits_problem(tmp_path)
    numbers = save_text(tmp_path / "flags.csv", flags.astype(float))
    text = save_text(tmp_path / "bits.csv", packed.astype(float))
    options = ["--metric", metric]
    d = load_text(gram("cdist", numbers, *options))
    for x in (array, text):
        np.testing.assert_allclose(load_text(gram("cdist", x, *options, "--bits", 21)), d, 1e-6)
        both = load_text(gram("cdist", x, text, *options, "--bits", 21))
        np.testing.assert_allclose(both, d, 1e-6)
        found = load_text(gram("nearest", x, *options, "--bits", 21, "-k", 3))
        expected = load_text(gram("nearest", numbers, *options, "-k", 3, "--dtype", "f32"))
        np.testing.assert_array_equal(found[:, :2], expected[:, :2])
        np.testing.assert_allclose(found[:, 2], expected[:, 2], 1e-6)


def test_packed_bits_that_do_not_fit(tmp_path):
    x = bits_problem(tmp_path)[2]
    (tmp_path / "half.csv").write_text("1,2.5,3\n")
    (tmp_path / "large.csv").write_text("1,256,3\n")
    (tmp_path / "missing.csv").write_text("1,2,\n")
    (tmp_path / "w.csv").write_text("1,1,1\n")
    bits = ["--metric", "hamming", "--bits"]
    for command in ("cdist", "nearest"):
        for arguments, words in (
            (["--bits", 21], "--bits is given without --metric hamming or jaccard"),
            ([*bits, 21, "-w", tmp_path / "w.csv"], "--weights and --bits are given"),
            ([*bits, 21, "--dtype", "f64"], "--dtype is f64 with --bits"),
            ([*bits, 0], "--bits"),
        ):
            assert words in refusal(command, x, *arguments, status=USAGE)
        words = refusal(command, x, *bits, 25, status=BAD_DATA)
        assert "has 3 columns, expected 4, the bytes of --bits 25" in words
        for name, number in (("half", "2.5"), ("large", "256"), ("missing", "nan")):
            words = refusal(command, tmp_path / f"{name}.csv", *bits, 21, status=BAD_DATA)
            assert f"has the number {number}, expected bytes" in words


def test_nearest_of_float16(tmp_path):
    np.save(tmp_path / "h.npy", X.astype(np.float16))
    found = load_text(gram("nearest", tmp_path / "h.npy", "-k", 2))
    np.testing.assert_array_equal(found[::2, 1], range(7))


def test_nearest_within_a_radius(tmp_path):
    x = save_text(tmp_path / "x.csv", X)
    found = load_text(gram("nearest", x, "-k", 7, "--radius", 2))
    assert len(found) == (distances(X, X, 2) <= 2).sum()
    array = tmp_path / "pairs.npy"
    gram("nearest", x, "-k", 7, "--radius", 2, "-o", array)
    np.testing.assert_array_equal(np.load(array), found)
    refusal("nearest", x, x, "--exclude-self", status=USAGE)
    refusal("nearest", x, "-k", 1025, status=USAGE)


TYPES = ["f2", "f4", "f8", ">f4", ">f8", "i1", "u1", ">i2", "i4", "i8", "u8", "?"]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_input(tmp_path, kind, order, version):
    letter = np.dtype(kind).kind
    array = X if letter == "f" else (X * 3).round()
    array = np.asarray(np.abs(array) if letter == "u" else array, dtype=kind, order=order)
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    gram("cdist", tmp_path / "x.npy", "-p", 1, "-o", tmp_path / "d.npy")
    result = np.load(tmp_path / "d.npy")
    single = kind[-2:] in ("f2", "f4")
    assert result.dtype == (np.float32 if single else np.float64)
    assert result.flags.c_contiguous and result.flags.aligned
    wide = array.astype("f8")
    np.testing.assert_allclose(result, distances(wide, wide, 1), rtol=1e-6 if single else 1e-13)


@pytest.mark.parametrize("choice,dtype", [("f32", np.float32), ("f64", np.float64)])
def test_dtype(tmp_path, choice, dtype):
    for name, array in (("h", X.astype("f2")), ("s", X.astype("f4")), ("d", X)):
        np.save(tmp_path / f"{name}.npy", array)
        gram("cdist", tmp_path / f"{name}.npy", "--dtype", choice, "-o", tmp_path / "o.npy")
        result = np.load(tmp_path / "o.npy")
        assert result.dtype == dtype
        np.testing.assert_allclose(
            result, distances(array.astype("f8"), array.astype("f8"), 2), rtol=1e-5, atol=1e-6
        )


def test_mixed_types_take_the_wider(tmp_path):
    kinds = {"h": "f2", "s": "f4", "d": "f8", "i": "i4"}
    for name, kind in kinds.items():
        np.save(tmp_path / f"{name}.npy", X.astype(kind))
    for a, b, wanted in [("h", "s", "f4"), ("h", "h", "f4"), ("s", "d", "f8"), ("s", "i", "f8")]:
        gram("cdist", tmp_path / f"{a}.npy", tmp_path / f"{b}.npy", "-o", tmp_path / "o.npy")
        assert np.load(tmp_path / "o.npy").dtype == np.dtype(wanted)


def test_batches(tmp_path):
    x, y = RNG.normal(size=(2, 1, 3, 4)), RNG.normal(size=(5, 6, 4))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.asfortranarray(y))
    arguments = ["cdist", "x.npy", "y.npy", "-p", "1.5"]
    gram(*arguments, "-o", "o.npy", cwd=tmp_path)
    result = np.load(tmp_path / "o.npy")
    assert result.shape == (2, 5, 3, 6)
    np.testing.assert_allclose(result, distances(x, y, 1.5), rtol=1e-13)
    np.testing.assert_array_equal(json.loads(gram(*arguments, "--json", cwd=tmp_path)), result)
    said = refusal(*arguments, status=USAGE, cwd=tmp_path)
    assert "4 dimensions, which text cannot hold" in said
    np.save(tmp_path / "y.npy", RNG.normal(size=(3, 5, 4)))
    np.save(tmp_path / "x.npy", RNG.normal(size=(2, 5, 4)))
    assert "batches of 2 and 3 do not broadcast" in refusal(
        *arguments, status=BAD_DATA, cwd=tmp_path
    )


def test_outputs_agree(tmp_path):
    x = save_text(tmp_path / "x.csv", X)
    expected = distances(X, X, 2)
    for name, read in [
        ("o.npy", np.load),
        ("o.csv", lambda p: load_text(p.read_text())),
        ("o.tsv", lambda p: load_text(p.read_text(), "\t")),
        ("o.json", lambda p: np.array(json.loads(p.read_text()))),
        ("o.txt", lambda p: load_text(p.read_text())),
    ]:
        gram("cdist", x, "-o", tmp_path / name)
        np.testing.assert_allclose(read(tmp_path / name), expected, rtol=1e-14)
    done = gram_run("cdist", x, "--format", "npy", text=False)
    np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), np.load(tmp_path / "o.npy"))


def test_text_round_trips_exactly(tmp_path):
    for dtype in ("f4", "f8"):
        x = RNG.normal(size=(40, 1)).astype(dtype) * 10.0 ** RNG.integers(-9, 9, size=(40, 1))
        np.save(tmp_path / "x.npy", x.astype(dtype))
        gram("cdist", tmp_path / "x.npy", "-p", 1, "-o", tmp_path / "o.npy")
        text = gram("cdist", tmp_path / "x.npy", "-p", 1)
        np.testing.assert_array_equal(load_text(text).astype(dtype), np.load(tmp_path / "o.npy"))


def test_text_input_variants(tmp_path):
    expected = gram("cdist", save_text(tmp_path / "x.csv", X))
    tsv = save_text(tmp_path / "x.tsv", X, delimiter="\t")
    assert gram("cdist", tsv) == expected
    assert gram("cdist", save_text(tmp_path / "x", X, delimiter=";")) == expected
    piped = save_text(tmp_path / "x.txt", X, delimiter="|")
    assert gram("cdist", piped, "--delimiter", "|") == expected
    assert gram("cdist", "-", input=tsv.read_text()) == expected
    quoted = "\ufeff" + tsv.read_text().replace("\n", "\r\n")
    assert gram("cdist", "-", input=quoted, encoding="utf-8") == expected
    done = gram_run("cdist", "-", "-p", 2, text=False, input=(tmp_path / "x.csv").read_bytes())
    assert done.stdout.decode() == expected
    np.save(tmp_path / "x.npy", X)
    done = gram_run("cdist", "-", text=False, input=(tmp_path / "x.npy").read_bytes())
    assert done.stdout.decode() == expected


def test_decimal_comma(tmp_path):
    (tmp_path / "x.csv").write_text("breit;hoch\n1,5;2\n0,25;1,0e1\n")
    assert gram("cdist", tmp_path / "x.csv", "--decimal", "comma", "-p", 1) == "0,9.25\n9.25,0\n"
    said = refusal("cdist", tmp_path / "x.csv", status=BAD_DATA)
    assert said.endswith(':2: column "breit": "1,5" is not a number')


def test_header_is_found(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3,4\n")
    assert gram("cdist", path, "-p", 1) == "0,4\n4,0\n"
    path.write_text("a,2\n3,4\n")
    assert gram("cdist", path, "-p", 1) == "0\n"
    said = refusal("cdist", path, "--no-header", status=BAD_DATA)
    assert said == f'gram cdist: {path}:1: column "0": "a" is not a number'


def test_missing_numbers_are_nan(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2\nNA,4\n5,6\n")
    assert gram("cdist", path, "-p", 1) == "0,nan,8\nnan,nan,nan\n8,nan,0\n"
    assert json.loads(gram("cdist", path, "-p", 1, "--json")) == [
        [0, None, 8],
        [None, None, None],
        [8, None, 0],
    ]


def test_empty_shapes(tmp_path):
    for m, n, k in [(0, 3, 2), (3, 0, 2), (2, 3, 0), (0, 0, 0)]:
        np.save(tmp_path / "x.npy", np.zeros((m, k)))
        np.save(tmp_path / "y.npy", np.zeros((n, k)))
        gram("cdist", tmp_path / "x.npy", tmp_path / "y.npy", "-o", tmp_path / "o.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), np.zeros((m, n)))
    (tmp_path / "x.csv").write_text("a,b\n")
    assert gram("cdist", tmp_path / "x.csv") == ""


def squared(x, y):
    return distances(x, y, 2) ** 2


def canberra(x, y):
    a, b = x[:, None, :], y[None, :, :]
    return (np.abs(a - b) / (np.abs(a) + np.abs(b))).sum(axis=2)


KERNELS = [
    (["--kernel", "laplace", "-L", "3"], lambda x, y: np.exp(-distances(x, y, 2) / 3)),
    (["-k", "laplace", "-L", "3", "-p", "1"], lambda x, y: np.exp(-distances(x, y, 1) / 3)),
    (
        ["-k", "lpq-laplace", "-L", "3", "-p", "1.5", "-q", "0.8"],
        lambda x, y: np.exp(-((distances(x, y, 1.5) / 3) ** 0.8)),
    ),
    (
        ["-k", "product-laplace", "-L", "3", "-q", "0.8"],
        lambda x, y: np.exp(-(distances(x, y, 0.8) ** 0.8) / 3**0.8),
    ),
    (["-k", "gaussian", "-L", "3"], lambda x, y: np.exp(-squared(x, y) / 18)),
    (
        ["-k", "matern32", "-L", "3"],
        lambda x, y: (1 + (t := np.sqrt(3) * distances(x, y, 2) / 3)) * np.exp(-t),
    ),
    (
        ["-k", "matern52", "-L", "3"],
        lambda x, y: (1 + (t := np.sqrt(5) * distances(x, y, 2) / 3) + t**2 / 3) * np.exp(-t),
    ),
    (
        ["-k", "rational-quadratic", "-L", "3", "--alpha", "2"],
        lambda x, y: (1 + squared(x, y) / 36) ** -2,
    ),
    (["-k", "linear"], lambda x, y: x @ y.T),
    (
        ["-k", "polynomial", "--gamma", "0.5", "--coef0", "7", "--degree", "2"],
        lambda x, y: (0.5 * x @ y.T + 7) ** 2,
    ),
    (
        ["-k", "sigmoid", "--gamma", "0.1", "--coef0", "-0.2"],
        lambda x, y: np.tanh(0.1 * x @ y.T - 0.2),
    ),
    (
        ["-k", "cosine"],
        lambda x, y: x
        @ y.T
        / np.linalg.norm(x, axis=1)[:, None]
        / np.linalg.norm(y, axis=1)[None, :],
    ),
    (
        ["-e", "exp(-s / a) * (1 + b * s)", "--param", "a=2", "--param", "b=.5", "-p", 3],
        lambda x, y: np.exp(-distances(x, y, 3) / 2) * (1 + distances(x, y, 3) / 2),
    ),
    (
        ["-e", "s < 9 ? 1 - s / 9 : 0", "--of", "sum"],
        lambda x, y: np.maximum(1 - distances(x, y, 2) ** 2 / 9, 0),
    ),
    (
        ["-k", "laplace", "--metric", "canberra", "-L", 2],
        lambda x, y: np.exp(-canberra(x, y) / 2),
    ),
    (
        ["-e", "1 / (1 + s)", "--metric", "canberra"],
        lambda x, y: 1 / (1 + canberra(x, y)),
    ),
    (["-e", "pow(s + 1, 2)", "--of", "product"], lambda x, y: (x @ y.T + 1) ** 2),
]


WEIGHTS = np.array([0.5, 2.0, 0.0, 1.0])


def weighted_sum(p):
    return (WEIGHTS * np.abs(X[:, None] - Y) ** p).sum(-1)


WEIGHTED = [
    (["-k", "laplace", "-p", 1.5, "-L", 2], np.exp(-(weighted_sum(1.5) ** (1 / 1.5)) / 2)),
    (["-k", "product-laplace", "-q", 0.7, "-L", 2], np.exp(-weighted_sum(0.7) / 2**0.7)),
    (["-k", "gaussian", "-L", 2], np.exp(-weighted_sum(2) / 8)),
    (["-e", "1 / (1 + s)", "-p", 3], 1 / (1 + weighted_sum(3) ** (1 / 3))),
    (["-e", "1 / (1 + s)", "-p", 3, "--of", "sum"], 1 / (1 + weighted_sum(3))),
    (
        ["-k", "laplace", "-L", 2, "--metric", "canberra"],
        np.exp(
            -(WEIGHTS * np.abs(X[:, None] - Y) / (np.abs(X[:, None]) + np.abs(Y))).sum(-1) / 2
        ),
    ),
]


@pytest.mark.parametrize("arguments,expected", WEIGHTED, ids=[row[0][1] for row in WEIGHTED])
def test_kernel_of_a_weighted_distance(tmp_path, arguments, expected):
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y)
    weights = save_text(tmp_path / "w.csv", WEIGHTS[:, None])
    k = load_text(gram("kernel", x, y, *arguments, "--weights", weights))
    np.testing.assert_allclose(k, expected, rtol=1e-12)


@pytest.mark.parametrize("arguments,formula", KERNELS, ids=[row[0][1] for row in KERNELS])
def test_kernel(tmp_path, arguments, formula):
    x, y = save_text(tmp_path / "x.csv", X), save_text(tmp_path / "y.csv", Y)
    np.testing.assert_allclose(
        load_text(gram("kernel", x, y, *arguments)), formula(X, Y), rtol=1e-12, atol=1e-14
    )
    regularized = load_text(gram("kernel", x, *arguments, "--regularization", 0.25))
    np.testing.assert_allclose(
        regularized, formula(X, X) + 0.25 * np.eye(7), rtol=1e-12, atol=1e-13
    )


def test_kernel_median_bandwidth(tmp_path):
    x = save_text(tmp_path / "x.csv", X)
    d = distances(X, X, 1)
    bandwidth = np.median(d[np.triu_indices(7, 1)])
    np.testing.assert_allclose(
        load_text(gram("kernel", x, "-p", 1)), np.exp(-d / bandwidth), rtol=1e-12
    )
    batch = RNG.normal(size=(3, 6, 4))
    np.save(tmp_path / "b.npy", batch)
    gram("kernel", tmp_path / "b.npy", "-k", "gaussian", "-o", tmp_path / "k.npy")
    for item, k in zip(batch, np.load(tmp_path / "k.npy")):
        d = distances(item, item, 2)
        bandwidth = np.median(d[np.triu_indices(6, 1)])
        np.testing.assert_allclose(k, np.exp(-(d**2) / (2 * bandwidth**2)), rtol=1e-12)


REFUSED = {
    "empty.csv": (b"", "empty.csv: the file is empty"),
    "text.csv": (b"a,b\n1,2\n3,x\n", 'text.csv:3: column "b": "x" is not a number'),
    "ragged.csv": (b"1,2\n3\n", "ragged.csv:2: 1 field, but the first line has 2"),
    "quote.csv": (b'1,2\n"3,4\n', 'quote.csv:2: column "0": a quote is opened but never closed'),
    "nul.csv": (b"1,2\n3,\0\n", 'nul.csv:2: column "1": there is a NUL byte; is this a text file?'),
    "utf16.csv": ("1,2\n".encode("utf-16"), "utf16.csv: the text is UTF-16; save it as UTF-8"),
    "cut.npy": (b"\x93NUMPY\1\0", "cut.npy: the file ends inside the first 10 bytes"),
    "lies.npy": (
        b"\x93NUMPY\1\0\x3b\0{'descr': '<f8', 'fortran_order': False, 'shape': (9, 9)}\n ",
        "lies.npy has ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_input(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    said = refusal("cdist", name, "-o", "out.csv", status=BAD_DATA, cwd=tmp_path)
    assert said.startswith(f"gram cdist: {message}")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_refused_arrays(tmp_path):
    for array, message in [
        (np.array(["a"]), "elements of type"),
        (np.zeros(3, dtype="c16"), "elements of type"),
        (np.zeros(3, dtype=[("x", "f4")]), "a structured array"),
        (np.zeros(3), "1 dimension, expected a matrix"),
        (np.array(1.0), "0 dimensions, expected a matrix"),
    ]:
        np.save(tmp_path / "x.npy", array)
        assert message in refusal("cdist", "x.npy", status=BAD_DATA, cwd=tmp_path)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y[:, :3])
    assert "x.npy has 4 columns, but y.npy has 3" in refusal(
        "cdist", "x.npy", "y.npy", status=BAD_DATA, cwd=tmp_path
    )
    (tmp_path / "y.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    assert "216 bytes after the header, expected 224" in refusal(
        "cdist", "y.npy", status=BAD_DATA, cwd=tmp_path
    )


def test_inputs_that_are_not_there(tmp_path):
    assert "cannot open nope.csv: No such file or directory" in refusal(
        "cdist", "nope.csv", status=NO_INPUT, cwd=tmp_path
    )
    assert "it is a directory" in refusal("cdist", tmp_path, status=NO_INPUT)
