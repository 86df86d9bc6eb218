"""test_cli_kron.py - gram kron against NumPy, and its refusals"""

import functools
import json
import re

import numpy as np
import pytest
from gram_cli import BAD_DATA, USAGE, gram, gram_run, refusal

RNG = np.random.default_rng(6)
SIZES = [(2, 3), (4, 1), (3, 2)]


def kron(*factors):
    return functools.reduce(np.kron, factors)


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


@pytest.fixture(name="factors")
def fixture_factors(tmp_path):
    factors = [RNG.normal(size=size) for size in SIZES]
    save(tmp_path, a=factors[0], b=factors[1], c=factors[2])
    return factors


def run(folder, *arguments):
    gram("kron", *arguments, "-o", "y.npy", cwd=folder)
    return np.load(folder / "y.npy")


def test_sides(tmp_path, factors):
    x, z = RNG.normal(size=(5, 24)), RNG.normal(size=(6, 5))
    save(tmp_path, x=x, z=z)
    files = ("a.npy", "b.npy", "c.npy")
    np.testing.assert_allclose(run(tmp_path, "x.npy", *files), x @ kron(*factors), rtol=1e-12)
    np.testing.assert_allclose(
        run(tmp_path, "z.npy", *files, "--side", "left"), kron(*factors) @ z, rtol=1e-12
    )
    save(tmp_path, x=np.asfortranarray(x).T)
    np.testing.assert_allclose(
        run(tmp_path, "x.npy", *files, "--transpose-x"), x @ kron(*factors), rtol=1e-12
    )


def test_op(tmp_path, factors):
    a, b, c = factors
    x = RNG.normal(size=(5, 6))
    save(tmp_path, x=x)
    every = run(tmp_path, "x.npy", "a.npy", "b.npy", "c.npy", "--op", "T")
    np.testing.assert_allclose(every, x @ kron(a.T, b.T, c.T), rtol=1e-12)
    save(tmp_path, x=RNG.normal(size=(5, 9)))
    mixed = run(tmp_path, "x.npy", "a.npy", "b.npy", "c.npy", "--op", "TTN")
    np.testing.assert_allclose(mixed, np.load(tmp_path / "x.npy") @ kron(a.T, b.T, c), rtol=1e-12)


def test_written_out(tmp_path, factors):
    a, b, c = factors
    files = ("a.npy", "b.npy", "c.npy")
    np.testing.assert_allclose(run(tmp_path, "--written-out", *files), kron(a, b, c), rtol=1e-14)
    np.testing.assert_allclose(
        run(tmp_path, "--written-out", *files, "--op", "NTN"), kron(a, b.T, c), rtol=1e-14
    )


def test_vectors_text_and_batches(tmp_path, factors):
    (tmp_path / "x.csv").write_text("".join(f"{v}\n" for v in range(24)))
    (tmp_path / "f.csv").write_text("1,2\n3,4\n")
    save(tmp_path, v=np.arange(24.0), x=RNG.normal(size=(3, 1, 4, 6)), d=RNG.normal(size=(2, 2, 3)))
    y = run(tmp_path, "v.npy", "a.npy", "b.npy", "c.npy")
    np.testing.assert_allclose(y, np.arange(24.0) @ kron(*factors), rtol=1e-12)
    column = gram("kron", "x.csv", "a.npy", "b.npy", "c.npy", "--transpose-x", cwd=tmp_path)
    np.testing.assert_allclose(np.fromstring(column, sep=","), y, rtol=1e-12)
    assert gram("kron", "--written-out", "f.csv", "f.csv", cwd=tmp_path).startswith("1,2,2,4\n")
    x, d, c = (np.load(tmp_path / f"{name}.npy") for name in "xdc")
    want = np.stack([x[:, 0] @ kron(d[i], c) for i in range(2)], axis=1)
    np.testing.assert_allclose(run(tmp_path, "x.npy", "d.npy", "c.npy"), want, rtol=1e-12)


def test_float32_stays(tmp_path, factors):
    x = RNG.normal(size=(3, 2)).astype("f4")
    save(tmp_path, x=x, h=factors[0].astype("f2"))
    y = run(tmp_path, "x.npy", "h.npy")
    assert y.dtype == "f4"
    np.testing.assert_allclose(y, x @ factors[0].astype("f2").astype("f4"), rtol=1e-5)
    assert run(tmp_path, "x.npy", "a.npy").dtype == "f8"


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["x.npy"], USAGE, "there are 0 factors after X, expected 1 to 16"),
        (["x.npy", "a.npy", "--op", "NN"], USAGE, '--op is "NN", expected N or T, or 1 letters'),
        (["x.npy", "a.npy", "--op", "C"], USAGE, '--op is "C", expected N or T'),
        (["x.npy", "a.npy", "b.npy"], BAD_DATA, "x.npy has 6 columns, expected 8, the product"),
        (["x.npy", "a.npy", "-s", "left"], BAD_DATA, "x.npy has 5 rows, expected 3, the product"),
        (["x.npy", "v.npy"], BAD_DATA, "v.npy has 1 dimension, expected a matrix"),
    ],
)
def test_refusals(tmp_path, factors, arguments, status, message):
    save(tmp_path, x=RNG.normal(size=(5, 6)), v=np.ones(4))
    assert len(factors) == 3
    assert message in refusal("kron", *arguments, "-o", "y.npy", status=status, cwd=tmp_path)
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize("arguments", [["3", "2x5", "--dtype", "f64"], ["3x4", "2", "side=left"]])
def test_check_compares_every_way(arguments):
    said = gram("check", "kron", "4", *arguments)
    ways = re.findall(r"^(naive|explicit|shuffle|gram \w+) +\d", said, re.M)
    assert ways[:3] == ["naive", "explicit", "shuffle"] and len(ways) == len(set(ways)) >= 4
    pair = r"^(?:\w+ )+.*?((?: +True +[\d.e-]+)+)$"
    pairs = re.findall(pair, said, re.M)
    outputs = 2 + len([word for word in arguments if word[0].isdigit()])  # y, grad x, the factors'
    assert len(pairs) == len(ways) * (len(ways) - 1) // 2
    assert all(pair.count("True") == outputs for pair in pairs)
    assert "False" not in said and said.count(" grad f2\n") == 2


def test_check_of_integers_is_exact():
    said = gram("check", "kron", "5", "3", "4x2", "dtype=i64")
    assert "grad" not in said and "(at most 0)" in said and "False" not in said


def test_bench_times_every_way():
    lines = gram("bench", "kron", "4", "3", "2", "--json", "--seconds", "0.01").splitlines()
    told = [json.loads(line) for line in lines]
    assert {"naive", "explicit", "shuffle"} < {way["implementation"] for way in told}
    assert all(way["seconds"] > 0 and way["backward_seconds"] > 0 for way in told)
    assert "forward us" in gram("bench", "kron", "4", "3", "2", "--seconds", "0.01")


def test_profile_shows_the_stages(tmp_path):
    said = gram("profile", "kron", "8", "3", "2", "--trace", "t.json", cwd=tmp_path)
    stages = {event["name"] for event in json.loads((tmp_path / "t.json").read_text())}
    assert "kron gradient" in said and {"kron gradient", "kron back"} <= stages
    arguments = "profile kron 8 3 2 --implementation slow --trace t.json".split()
    done = gram_run(*arguments, status=USAGE, cwd=tmp_path)
    assert "implementation=slow, expected naive, explicit, shuffle or gram" in done.stderr


@pytest.mark.parametrize("size", ["3x", "x3", "3x4x5", "3x-4", "2.5"])
def test_sizes_that_are_none(size):
    done = gram_run("check", "kron", "4", size, status=USAGE)
    assert f"'{size}' is not a size of kron" in done.stderr
