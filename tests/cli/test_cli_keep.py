"""test_cli_keep.py - columns that predict copies, and what gram info says about a model"""

import json

import numpy as np
import pytest
from gram_cli import BAD_DATA, NO_INPUT, USAGE, gram, gram_json, refusal, rows_of, write_rows
from machine_tables import FAST, NASTY, nasty_table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keep")
    generator = np.random.default_rng(5)
    lines = [["id", "a", "kind", "note", "y"]]
    for i in range(40):
        a = generator.normal()
        note = ['say "hi"', "a, b", "", "two\nlines"][i % 4]
        lines.append([f"{i:05d}", f"{a:.4f}", "uv"[i % 2], note, f"{2 * a:.4f}"])
    lines[3][1] = ""
    write_rows(folder / "t.csv", lines)
    gram("fit", "t.csv", "-y", "y", "-o", "m", "--ignore", "id,note", *FAST, cwd=folder)
    return folder, lines


def test_columns_are_copied(made):
    folder, lines = made
    plain = rows_of(gram("predict", "m", "t.csv", cwd=folder))
    rows = rows_of(gram("predict", "m", "t.csv", "--keep", "note,id,a", cwd=folder))
    assert rows[0] == ["note", "id", "a", "prediction"]
    assert [row[3:] for row in rows] == plain
    for line, row in zip(lines[1:], rows[1:]):
        assert row[:2] == [line[3], line[0]]  # 00007 stays 00007
        assert row[2] == "" if not line[1] else float(row[2]) == float(line[1])
    everything = rows_of(gram("predict", "m", "t.csv", "--keep", "all", cwd=folder))
    assert everything[0] == [*lines[0], "prediction"]
    assert [row[5:] for row in everything] == plain
    assert [row[0] for row in everything[1:]] == [line[0] for line in lines[1:]]


def test_columns_are_copied_as_json(made):
    folder, lines = made
    told = json.loads(gram("predict", "m", "t.csv", "--keep", "id,a,note", "--json", cwd=folder))
    assert list(told["keep"]) == ["id", "a", "note"]
    assert told["keep"]["id"] == [line[0] for line in lines[1:]]
    assert told["keep"]["a"] == [float(line[1]) if line[1] else None for line in lines[1:]]
    assert told["keep"]["note"] == [line[3] or None for line in lines[1:]]
    assert "keep" not in json.loads(gram("predict", "m", "t.csv", "--json", cwd=folder))


def test_columns_of_every_name(tmp_path):
    path = nasty_table(tmp_path / "t.csv")
    gram("fit", path, "-y", 'goal; "x"', "-o", tmp_path / "m", *FAST)
    rows = rows_of(gram("predict", tmp_path / "m", path, "--proba", "--keep", "all"))
    assert rows[0][:5] == [*NASTY, 'goal; "x"'] and rows[0][5] == "prediction"
    original = rows_of(path.read_text())
    assert [row[1] for row in rows] == [row[1] for row in original]


def test_refusals(made, tmp_path):
    folder, _ = made
    said = refusal("predict", "m", "t.csv", "--keep", "id,nobody", status=BAD_DATA, cwd=folder)
    assert said.startswith('gram predict: t.csv: no column "nobody" (in --keep); the columns are')
    said = refusal("predict", "m", "t.csv", "--keep", "id,id", status=USAGE, cwd=folder)
    assert said == 'gram predict: --keep names "id" twice'
    out = tmp_path / "p.npy"
    said = refusal("predict", "m", "t.csv", "--keep", "id", "-o", out, status=USAGE, cwd=folder)
    assert "--keep: .npy cannot hold the columns" in said and not out.exists()
    twice = write_rows(tmp_path / "t.csv", [["a", "kind", "prediction"], [1, "u", 3]])
    said = refusal("predict", folder / "m", twice, "--keep", "all", status=BAD_DATA)
    assert said.endswith('the column "prediction" has the name of a column of the output')


def test_info_of_a_regression(made):
    folder, _ = made
    told = gram_json("info", "m", cwd=folder)
    assert told["target"] == "y" and told["task"] == "regression" and told["rows"] == 40
    assert "classes" not in told and told["model"] == "m"
    assert [(c["name"], c["kind"]) for c in told["columns"]] == [("a", "number"), ("kind", "text")]
    assert told["columns"][1]["categories"] == 2
    assert sum(c["importance"] for c in told["columns"]) == pytest.approx(1)
    assert told["hyperparameters"]["regularization"] > 0
    assert told["hyperparameters"] == told["machine"]["hyperparameters"]
    text = gram("info", "m", cwd=folder).splitlines()
    assert text[0] == "regression of y from 2 columns, learned from 40 rows"
    assert text[-2].split()[0] == "a" and text[-2].endswith(" number")
    assert text[-1].split()[0] == "kind" and text[-1].endswith("text, 2 categories")


def test_info_of_a_classification(letters):
    folder, report, _ = letters
    told = gram_json("info", folder / "model")
    assert told["classes"] == [chr(c) for c in range(65, 91)] and told["rows"] == 1500
    assert {c["name"]: c["importance"] for c in told["columns"]} == report["importance"]
    assert told["hyperparameters"] == report["hyperparameters"]
    text = gram("info", folder / "model")
    assert "\n26 classes: A, B, C, " in text and ", T, ...\n" in text


def test_info_of_what_is_no_model(made):
    folder, _ = made
    said = refusal("info", "t.csv", status=BAD_DATA, cwd=folder)
    assert "it is not a model file" in said
    assert "cannot open nothing" in refusal("info", "nothing", status=NO_INPUT, cwd=folder)
    assert "version" in gram_json("info")
