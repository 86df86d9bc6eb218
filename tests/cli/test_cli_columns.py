"""test_cli_columns.py - the columns of tables: names, kinds, categories, missing values, shapes"""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from gram_cli import BAD_DATA, USAGE, gram, gram_json, refusal, rows_of, write_rows
from machine_tables import FAST, NASTY, nasty_table, simple


def test_columns_are_found_by_name(diamonds, tmp_path):
    folder, _, _ = diamonds
    expected = gram("predict", folder / "model", folder / "test.csv")
    rows = rows_of((folder / "test.csv").read_text())
    order = list(reversed(range(len(rows[0]))))
    mixed = [["id"] + [row[i] for i in order] for row in rows]
    path = write_rows(tmp_path / "mixed.tsv", mixed, "\t")
    assert gram("predict", folder / "model", path) == expected
    path.write_text("\ufeff" + path.read_text().replace("\n", "\r\n"), encoding="utf-8")
    assert gram("predict", folder / "model", "-", input=path.read_text()) == expected


def test_missing_columns_and_wrong_kinds(diamonds, tmp_path):
    folder, _, _ = diamonds
    rows = rows_of((folder / "test.csv").read_text())
    without = write_rows(tmp_path / "w.csv", [row[1:] for row in rows])
    said = refusal("predict", folder / "model", without, status=BAD_DATA)
    assert said.startswith(
        f'gram predict: {without}: no column "carat", which the model needs; the columns are cut,'
    )
    rows[3][0] = "heavy"
    wrong = write_rows(tmp_path / "x.csv", rows)
    said = refusal("predict", folder / "model", wrong, status=BAD_DATA)
    assert said == f'gram predict: {wrong}:4: column "carat": "heavy" is not a number'
    blind = write_rows(tmp_path / "y.csv", [["carat"], ["1"]])
    assert 'no column "' in refusal("score", folder / "model", blind, status=BAD_DATA)


def test_unseen_categories_and_missing_values(diamonds, tmp_path):
    folder, _, _ = diamonds
    rows = rows_of((folder / "test.csv").read_text())[:3]
    for column, value in itertools.product(range(len(rows[0])), ["", "NA", "?"]):
        changed = [list(row) for row in rows]
        changed[1][column] = value
        path = write_rows(tmp_path / "m.csv", changed)
        values = rows_of(gram("predict", folder / "model", path))[1:]
        assert len(values) == 2 and all(np.isfinite(float(v[0])) for v in values)
    changed = [list(row) for row in rows]
    changed[1][rows[0].index("cut")] = "Splendid"
    path = write_rows(tmp_path / "m.csv", changed)
    values = rows_of(gram("predict", folder / "model", path))[1:]
    assert np.isfinite(float(values[0][0]))
    expected = rows_of(gram("predict", folder / "model", folder / "test.csv"))[2]
    assert abs(float(values[1][0]) / float(expected[0]) - 1) < 1e-3


def test_more_categories_than_allowed(tmp_path):
    rows = [[f"order-{i}", i % 7, 3 * (i % 7)] for i in range(400)]
    data = write_rows(tmp_path / "t.csv", [["id", "x", "y"], *rows])
    arguments = ["fit", data, "-y", "y", "-o", tmp_path / "m", *FAST]
    report = gram_json(*arguments)["machine"]
    assert report["most_frequent_categories"] == {"id": 255} and report["features"] == 257
    assert 'all others count as one: "id": 255' in gram(*arguments)
    report = gram_json(*arguments, "--max-categories", 10)["machine"]
    assert report["most_frequent_categories"] == {"id": 9} and report["features"] == 11
    ids = sorted(row[0] for row in rows)  # all as often: the first bytewise are told apart
    asked = write_rows(tmp_path / "a.csv", [["id", "x"], *([i, 3] for i in [*ids[8:11], "new"])])
    kept, *others = [row[0] for row in rows_of(gram("predict", tmp_path / "m", asked))[1:]]
    assert len(set(others)) == 1 and kept != others[0]
    report = gram_json(*arguments, "--max-categories", 400)["machine"]
    assert "most_frequent_categories" not in report and report["features"] == 401
    said = refusal(*arguments, "--max-categories", "1", status=USAGE)
    assert "--max-categories is 1, expected a whole number from 2" in said


def test_levels_of_a_category_get_the_mean_of_the_target(tmp_path):
    rows = [[f"shop{i % 30}", i % 7, (i % 30) ** 2 + 0.1 * (i % 7)] for i in range(300)]
    data = write_rows(tmp_path / "t.csv", [["shop", "x", "y"], *rows])
    few = ["fit", data, "-y", "y", "-o", tmp_path / "m", "--max-categories", 4, *FAST]
    report = gram_json(*few)["machine"]
    assert report["category_statistics"] == {"shop": 30} and report["features"] == 6
    assert 'mean of the target by level is a feature, too, with so many levels: "shop": 30' in gram(
        *few
    ).replace("\n", " ")
    assert "mean of the target by level" in gram("info", tmp_path / "m")
    asked = write_rows(tmp_path / "a.csv", [["shop", "x"], *([f"shop{i}", 3] for i in range(30))])
    found = [float(row[0]) for row in rows_of(gram("predict", tmp_path / "m", asked))[1:]]
    assert np.corrcoef(found, np.arange(30.0) ** 2)[0, 1] > 0.95
    without = gram_json(*few, "--category-statistics", "none")["machine"]
    assert "category_statistics" not in without and without["features"] == 5
    said = refusal(*few, "--category-statistics", "some", status=USAGE)
    assert "--category-statistics" in said


def test_names_that_need_escapes(tmp_path):
    data = nasty_table(tmp_path / "t.csv")
    target = 'goal; "x"'
    report = gram_json(
        "fit", data, "-y", target, "-o", tmp_path / "m", "--chart", tmp_path / "c.svg", *FAST
    )
    assert set(report["importance"]) == set(NASTY) and report["target"] == target
    assert report["classes"] == 2
    svg = ElementTree.parse(tmp_path / "c.svg").getroot()
    texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert set(NASTY[:3]) <= set(texts) and "x" * 35 + "…" in texts
    rows = rows_of(gram("predict", tmp_path / "m", data, "--proba"))
    assert rows[0] == ["prediction", "proba_no", 'proba_yes, "it"']
    assert {row[0] for row in rows[1:]} == {"no", 'yes, "it"'}
    rows = rows_of(gram("importance", tmp_path / "m", "-o", "-"))
    assert {row[0] for row in rows[1:]} == set(NASTY)


def test_columns_that_are_chosen(tmp_path):
    data = simple(tmp_path / "t.csv")
    arguments = ["fit", data, "-y", "y", "-o", tmp_path / "m", *FAST]
    report = gram_json(*arguments, "--ignore", "label,c", "--weights", "weight")
    assert set(report["importance"]) == {"a", "b", "kind"}
    plain = (tmp_path / "m").read_bytes()
    report = gram_json(*arguments, "--ignore", "label,c", "--categorical", "kind")
    assert set(report["importance"]) == {"a", "b", "kind", "weight"}
    assert (tmp_path / "m").read_bytes() != plain
    for option in ("--ignore", "--categorical", "--weights", "--target"):
        said = refusal(*arguments, option, "nope", status=BAD_DATA)
        assert (
            f'no column "nope"' in said
            and f"({'in ' if option[2] in 'ic' else ''}{option})" in said
        )
    said = refusal(*arguments, "--ignore", "y", status=USAGE)
    assert '--ignore names the target, "y"' in said


def test_npy_tables(tmp_path):
    generator = np.random.default_rng(4)
    x = generator.normal(size=(90, 3))
    table = np.column_stack([x, x @ [1, -2, 0]]).astype("f4")
    for order in "CF":
        np.save(tmp_path / "t.npy", np.asarray(table, order=order))
        report = gram_json("fit", tmp_path / "t.npy", "-y", "3", "-o", tmp_path / order, *FAST)
        assert list(report["importance"])[-1] == "2"
    assert (tmp_path / "C").read_bytes() == (tmp_path / "F").read_bytes()
    score = gram_json("score", tmp_path / "C", tmp_path / "t.npy")
    assert score["r2"] > 0.9
    np.savetxt(tmp_path / "t.csv", table.astype("f8"), delimiter=",", fmt="%.17g")
    assert gram("predict", tmp_path / "C", tmp_path / "t.csv", "--no-header") == gram(
        "predict", tmp_path / "C", tmp_path / "t.npy"
    )
    with open(tmp_path / "t.npy", "rb") as file:
        gram("predict", tmp_path / "C", "-", "-o", tmp_path / "o.csv", stdin=file)


FEW = [
    ("a,y\n", "no rows below the header"),
    ("y\n1\n2\n", ""),
    ("a,y\n1,\n2,NA\n", ""),
]


@pytest.mark.parametrize("text,message", FEW)
def test_tables_with_too_little(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    said = refusal("fit", "t.csv", "-y", "y", "-o", "m", status=BAD_DATA, cwd=tmp_path)
    assert message in said and not (tmp_path / "m").exists()


def test_one_row_is_learned_or_refused_in_words(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    refusal("fit", "t.csv", "-y", "y", "-o", "m", "--holdout", "0.5", status=BAD_DATA, cwd=tmp_path)
    assert not (tmp_path / "m").exists()
