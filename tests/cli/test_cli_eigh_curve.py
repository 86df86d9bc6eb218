"""test_cli_eigh_curve.py - gram bench eigh --curve: the table, wrong usage"""

import csv

import pytest
from gram_cli import USAGE, gram, refusal


def curve(tmp_path, *arguments):
    gram("bench", "eigh", *arguments, "--curve", "c.csv", "--seconds", 0, cwd=tmp_path)
    with open(tmp_path / "c.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_numbers_of_every_driver(tmp_path, dtype):
    rows = curve(tmp_path, 2, 50, "--dtype", dtype)
    assert {r["driver"] for r in rows} == {"jacobi", "divide", "bisection"}
    assert [int(r["n"]) for r in rows if r["driver"] == "jacobi"] == [4, 6, 8, 12, 16, 24, 32]
    assert [int(r["n"]) for r in rows if r["driver"] == "divide"][-1] == 48
    assert {r["items"] for r in rows} == {"2"} and {r["device"] for r in rows} == {"cpu"}
    assert {r["dtype"] for r in rows} == {"float32" if dtype == "f32" else "float64"}
    assert all(float(r["seconds"]) > 0 and int(r["workspace_bytes"]) > 0 for r in rows)
    bytes_of = {int(r["n"]): int(r["workspace_bytes"]) for r in rows if r["driver"] == "divide"}
    assert list(bytes_of) == sorted(bytes_of)
    assert list(bytes_of.values()) == sorted(bytes_of.values())


def test_one_order_and_none(tmp_path):
    rows = curve(tmp_path, 1, 4)
    assert {r["n"] for r in rows} == {"4"} and len(rows) == 3
    assert curve(tmp_path, 1, 3) == []


def test_wrong_usage(tmp_path):
    for arguments, words in (
        (("eigh", 1, "--curve", "c.csv"), "with B N"),
        (("cdist", 1, 4, "--curve", "c.csv"), "only with eigh"),
        (("eigh", 1, 4, "--curve", "c.csv", "--json"), "without --json"),
        (("eigh", 1, 4, "--curve", "c.csv", "--dtype", "f16"), "is not f32 or f64"),
        (("eigh", 1, "x", "--curve", "c.csv"), "is not a number from 1"),
    ):
        assert words in refusal("bench", *arguments, status=USAGE, cwd=tmp_path)
    assert not list(tmp_path.iterdir())
