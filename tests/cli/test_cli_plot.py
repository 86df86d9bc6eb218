"""test_cli_plot.py - gram bench eigh --plot: the picture, the numbers beside it, wrong usage"""

import csv
from xml.etree import ElementTree

import pytest
from gram_cli import USAGE, gram, refusal

SVG = "{http://www.w3.org/2000/svg}"


def draw(tmp_path, *arguments):
    gram("bench", "eigh", *arguments, "--plot", "p.svg", "--seconds", 0, cwd=tmp_path)
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file)), ElementTree.parse(tmp_path / "p.svg").getroot()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_picture_and_numbers(tmp_path, dtype):
    rows, svg = draw(tmp_path, 2, 50, "--dtype", dtype)
    assert {r["driver"] for r in rows} == {"jacobi", "divide", "bisection"}
    assert [int(r["n"]) for r in rows if r["driver"] == "jacobi"] == [4, 6, 8, 12, 16, 24, 32]
    assert [int(r["n"]) for r in rows if r["driver"] == "divide"][-1] == 48
    assert {r["items"] for r in rows} == {"2"} and {r["device"] for r in rows} == {"cpu"}
    assert {r["dtype"] for r in rows} == {"float32" if dtype == "f32" else "float64"}
    assert all(float(r["seconds"]) > 0 and int(r["workspace_bytes"]) > 0 for r in rows)
    texts = [t.text for t in svg.iter(SVG + "text")]
    assert f"eigh: all pairs of 2 n x n, {dtype}, cpu" in texts and texts.count("divide") == 2
    lines = list(svg.iter(SVG + "polyline"))
    assert len(lines) == 6  # three drivers, time and workspace
    for line in lines:
        points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        assert len(points) in (7, 8) and points == sorted(points)
        assert all(0 < x < float(svg.get("width")) for x, y in points)
        assert all(0 < y < float(svg.get("height")) for x, y in points)
    bytes_of = {int(r["n"]): int(r["workspace_bytes"]) for r in rows if r["driver"] == "divide"}
    heights = [float(p.split(",")[1]) for p in lines[4].get("points").split()]
    assert heights == sorted(heights, reverse=True)
    assert list(bytes_of.values()) == sorted(bytes_of.values())


def test_one_order_and_none(tmp_path):
    rows, svg = draw(tmp_path, 1, 4)
    assert {r["n"] for r in rows} == {"4"} and len(list(svg.iter(SVG + "circle"))) == 6
    rows, svg = draw(tmp_path, 1, 3)
    assert rows == [] and not list(svg.iter(SVG + "polyline"))


def test_wrong_usage(tmp_path):
    for arguments, words in (
        (("eigh", "--plot", "p.png"), "ends with .svg"),
        (("eigh", "--plot", ".svg"), "ends with .svg"),
        (("eigh", 1, "--plot", "p.svg"), "with B N"),
        (("cdist", 1, 4, "--plot", "p.svg"), "is for eigh"),
        (("eigh", 1, 4, "--plot", "p.svg", "--json"), "without --json"),
        (("eigh", 1, 4, "--plot", "p.svg", "--dtype", "f16"), "takes f32 and f64"),
        (("eigh", 1, "x", "--plot", "p.svg"), "no number from 1"),
    ):
        assert words in refusal("bench", *arguments, status=USAGE, cwd=tmp_path)
    assert not list(tmp_path.iterdir())
