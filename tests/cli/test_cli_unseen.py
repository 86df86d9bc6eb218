"""test_cli_unseen.py - what gram predict remarks on, and the kinds in which it reads columns"""

import json

import numpy as np
import pytest
from gram_cli import BAD_DATA, gram, gram_json, gram_run, refusal, rows_of, write_rows
from machine_tables import FAST


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Training rows: a in 0 to 12, half missing b, three kinds, dates of nine months, nothing."""
    folder = tmp_path_factory.mktemp("model")
    lines = [["a", "b", "kind", "day", "none", "same", "y"]]
    for i in range(60):
        day = f"2024-0{1 + i % 9}-1{i % 10}"
        lines.append(
            [i % 13, "" if i % 2 else i, "uvw"[i % 3], day, "", "s", 0.5 + i % 13 + i % 3]
        )
    write_rows(folder / "t.csv", lines)
    gram("fit", "t.csv", "-y", "y", "-o", "m.gram", *FAST, cwd=folder)
    return folder


NAMES = ["a", "b", "kind", "day", "none", "same"]
GOOD = [3, "", "u", "2024-03-12", "", "s"]


def predict(model, rows, *arguments, **options):
    write_rows(model / "q.csv", [NAMES, *rows])
    return gram_run("predict", "m.gram", "q.csv", *arguments, cwd=model, **options)


def test_rows_like_those_of_training_have_no_remarks(model):
    lines = [row[:6] for row in rows_of((model / "t.csv").read_text())[1:]]
    assert predict(model, lines, "--strict").notes == []
    assert json.loads(predict(model, lines, "--json").stdout)["remarks"] == []
    # No farther outside of the range than that range is wide: 0 to 12.
    assert predict(model, [[-12, *GOOD[1:]], [24, *GOOD[1:]]], "--strict").notes == []


def test_what_training_did_not_have(model):
    rows = [
        GOOD,
        ["", "", "x", "2024-03-12", "", "s"],
        [24.5, 900, "x, y", "no date", "", "s"],
        [-99, "", "", "2044-03-12", "text", "other"],
        [5, "", "w", "", 7, ""],
    ]
    done = predict(model, rows)
    assert sorted(done.notes) == [
        'q.csv:3: column "a": 1 of 5 values is missing, and none was in the training table',
        'q.csv:3: column "kind": 2 of 5 values are of a category that the training table did not '
        'have; the first is "x"',
        'q.csv:4: column "a": 2 of 5 values are far outside of 0 to 12, the range of the training '
        "table; the first is 24.5",
        'q.csv:4: column "b": 1 of 5 values is far outside of 0 to 58, the range of the training '
        "table; the first is 900",
        'q.csv:4: column "day": 1 of 5 values is no date in the order of the training table; the '
        'first is "no date"',
        'q.csv:5: column "day": 1 of 5 values is far outside of the dates of the training table; '
        "the first is 2044-03-12",
        'q.csv:5: column "kind": 1 of 5 values is missing, and none was in the training table',
        'q.csv:6: column "day": 1 of 5 values is missing, and none was in the training table',
    ]
    assert len(done.stdout.splitlines()) == 6
    remarks = json.loads(predict(model, rows, "--json").stdout)["remarks"]
    assert [(r["code"], r["column"], r["line"]) for r in remarks] == [
        ("missing", "a", 3),
        ("far", "a", 4),
        ("far", "b", 4),
        ("unknown-category", "kind", 3),
        ("missing", "kind", 5),
        ("unknown-date", "day", 4),
        ("missing", "day", 6),
        ("far", "day", 5),
    ]
    said = refusal("predict", "m.gram", "q.csv", "--strict", cwd=model, status=BAD_DATA)
    assert said == "gram predict: q.csv: 8 remarks on the table, which --strict refuses"


def test_rare_categories_are_not_unknown(tmp_path):
    """Categories beyond --max-categories share a feature; which they were is not kept."""
    lines = [["kind", "b", "y"]] + [[f"k{i % 9}", i % 7, i % 9 + i % 2] for i in range(90)]
    data = write_rows(tmp_path / "t.csv", lines)
    model = tmp_path / "m"
    gram("fit", data, "-y", "y", "-o", model, "--max-categories", "4", *FAST)
    write_rows(tmp_path / "q.csv", [["kind", "b"], ["k8", 1], ["new", 2]])
    assert gram_run("predict", model, tmp_path / "q.csv").notes == []


def test_a_column_without_values_in_training(tmp_path):
    """It is read as what it is later, whether --categorical said in training that it has texts."""
    lines = [["a", "late", "y"]] + [[i % 11, "", 0.5 + i % 11] for i in range(40)]
    data = write_rows(tmp_path / "t.csv", lines)
    texts = write_rows(tmp_path / "q.csv", [["a", "late"], [1, "words"], [2, ""]])
    numbers = write_rows(tmp_path / "n.csv", [["a", "late"], [1, 3], [2, ""]])
    for arguments, kind in (([], "number"), (["--categorical", "late"], "text")):
        model = tmp_path / "m.gram"
        gram("fit", data, "-y", "y", "-o", model, *arguments, *FAST)
        columns = {c["name"]: c for c in gram_json("info", model)["columns"]}
        assert columns["late"]["kind"] == kind
        assert gram("predict", model, texts) == gram("predict", model, numbers)


def test_dates_that_are_asked_to_be_categories(tmp_path):
    generator = np.random.default_rng(1)
    effect = generator.normal(size=6)
    lines = [["day", "b", "y"]]
    for i in range(120):
        k = int(generator.integers(6))
        lines.append([f"2024-0{1 + k}-11", i % 5, (effect[k] + 0.01 * (i % 5)).round(4)])
    data = write_rows(tmp_path / "t.csv", lines)
    model = tmp_path / "m.gram"
    gram("fit", data, "-y", "y", "-o", model, *FAST)
    kinds = {c["name"]: c["kind"] for c in gram_json("info", model)["columns"]}
    assert kinds == {"day": "date", "b": "number"}
    gram("fit", data, "-y", "y", "-o", model, "--categorical", "day", *FAST)
    columns = {c["name"]: c for c in gram_json("info", model)["columns"]}
    assert columns["day"]["kind"] == "text" and columns["day"]["categories"] == 6
    query = write_rows(tmp_path / "q.csv", [["day", "b"], ["2024-07-11", 1]])
    (note,) = gram_run("predict", model, query).notes
    assert "of a category that the training table did not have" in note
    report = gram_json("cv", data, "-y", "y", "-k", "3", "--categorical", "day", *FAST)
    assert report["mean"]["r2"] > 0.99


def test_a_score_has_the_same_remarks(model):
    write_rows(model / "s.csv", [[*NAMES, "y"], [*GOOD, 4], [24.5, "", "x", *GOOD[3:], 5]])
    done = gram_run("score", "m.gram", "s.csv", "--json", cwd=model)
    found = [(r["code"], r["column"], r["line"]) for r in json.loads(done.stdout)["remarks"]]
    assert sorted(found) == [("far", "a", 3), ("unknown-category", "kind", 3)]
    assert len(done.notes) == 2
    done = gram_run("score", "m.gram", "s.csv", "--strict", cwd=model, status=BAD_DATA)
    assert done.stdout == "" and "2 remarks" in done.stderr
