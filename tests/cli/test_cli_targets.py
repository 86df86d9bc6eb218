"""test_cli_targets.py - several targets in one model: fit, info, predict, score, refusals"""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from gram_cli import BAD_DATA, USAGE, gram, gram_json, refusal, rows_of

NAMES = ["u", 'v "w"', "n"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with two features and three targets, one of them noise; and a model of all three."""
    path = tmp_path_factory.mktemp("targets")
    random = np.random.default_rng(0)
    x, z = random.uniform(-2, 2, (2, 240))
    columns = [x, z, np.sin(2 * x) + z, 1e4 * x * z, random.standard_normal(240)]
    rows = [",".join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True)]
    rows[7] = rows[7].rsplit(",", 1)[0] + ","  # one target of one row is missing
    kinds = [f"{row},{'ab'[i % 2]},{i % 2}" for i, row in enumerate(rows)]
    head = 'x,z,u,"v ""w""",n,label,bit\n'
    (path / "t.csv").write_text(head + "\n".join(kinds) + "\n")
    (path / "new.csv").write_text(head + "\n".join(kinds[:40]) + "\n")
    return path


def fit(folder, *more, **options):
    arguments = ["fit", "t.csv", "-y", ",".join(NAMES), "-o", "m.gram", "--ignore", "label,bit"]
    return gram_json(*arguments, *more, cwd=folder, **options)


def test_the_first_look_is_at_all_targets(tmp_path):
    """What explains one of them is told of that one, and targets do not explain each other."""
    random = np.random.default_rng(1)
    a, b, y = random.standard_normal((3, 60))
    stars = np.arange(60) % 5
    rows = [f"{a[i]:.6f},{b[i]:.6f},{y[i]:.6f},{stars[i]},{2 * a[i]:.6f}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y,stars,twice", *rows]) + "\n")
    arguments = ["fit", "t.csv", "-y", "y,stars,twice", "-o", "m", "--fixed"]
    remarks = gram_json(*arguments, cwd=tmp_path)["remarks"]
    assert [(r["code"], r["column"]) for r in remarks] == [("whole-target", "stars"), ("leak", "a")]
    assert 'of the target "twice" alone' in remarks[1]["text"]


def test_fit_tells_each(folder):
    report = fit(folder, "--holdout", "0.25", "-i", "0")
    assert report["targets"] == NAMES and report["target"] == "u" and report["features"] == 2
    assert list(report["scores"]) == NAMES
    for measure in ("score", "mae", "r2"):
        each = [report["scores"][name][measure] for name in NAMES]
        assert report[measure] == pytest.approx(np.mean(each), rel=1e-9)
    assert report["scores"]["u"]["r2"] > 0.97 and report["scores"]["n"]["r2"] < 0.2
    told = report["machine"]["leave_one_out"]["targets"]
    assert [of["target"] for of in told] == NAMES
    arguments = ["fit", "t.csv", "-y", ",".join(NAMES), "-o", "m.gram", "--ignore", "label,bit"]
    said = gram(*arguments, "-i", "0", "--holdout", "0.25", cwd=folder)
    assert "regression of u, v" in said and "held out, means: rmse" in said and "  n: rmse" in said
    assert "leave-one-out, means: rmse" in said


def test_one_model_predicts_all(folder):
    fit(folder, "-i", "0")
    table = rows_of(gram("predict", "m.gram", "new.csv", cwd=folder))
    assert table[0] == [f"prediction_{name}" for name in NAMES] and len(table) == 41
    values = np.array(table[1:], float)
    more = rows_of(
        gram("predict", "m.gram", "new.csv", "--interval", "0.9", "--keep", "x", cwd=folder)
    )
    ends = [f"{end}_{name}" for name in NAMES for end in ("lower", "upper")]
    assert more[0] == ["x", *table[0], *ends]
    found = np.array([row[1:] for row in more[1:]], float)
    np.testing.assert_array_equal(found[:, :3], values)
    assert (found[:, 3::2] < values).all() and (values < found[:, 4::2]).all()
    gram("predict", "m.gram", "new.csv", "--interval", "0.9", "-o", "o.json", cwd=folder)
    said = json.loads((folder / "o.json").read_text())
    for t, name in enumerate(NAMES):
        np.testing.assert_allclose(said["prediction"][name], values[:, t])
        np.testing.assert_allclose(said["lower"][name], found[:, 3 + 2 * t])
        np.testing.assert_allclose(said["upper"][name], found[:, 4 + 2 * t])
    gram("predict", "m.gram", "new.csv", "-o", "o.npy", cwd=folder)
    np.testing.assert_allclose(np.load(folder / "o.npy"), values)
    gram("predict", "m.gram", "new.csv", "--interval", "0.9", "-o", "o.npy", cwd=folder)
    all_columns = np.load(folder / "o.npy").reshape(40, 3, 3)
    np.testing.assert_allclose(all_columns[:, :, 0], values)
    np.testing.assert_allclose(all_columns[:, 1, 2], found[:, 6])
    said = refusal("predict", "m.gram", "new.csv", "--proba", status=USAGE, cwd=folder)
    assert "is a regression" in said


def test_score_and_info(folder):
    fit(folder, "-i", "0")
    report = gram_json("score", "m.gram", "t.csv", cwd=folder)
    assert list(report["scores"]) == NAMES
    assert [report["scores"][name]["rows_scored"] for name in NAMES] == [240, 240, 239]
    assert report["rows_scored"] == 239 and report["scores"]["u"]["r2"] > 0.98
    assert report["r2"] == pytest.approx(np.mean([s["r2"] for s in report["scores"].values()]))
    assert 0.8 < report["scores"]["n"]["interval"]["coverage"] <= 1
    said = gram("score", "m.gram", "t.csv", cwd=folder)
    assert said.startswith("means: rmse") and "\nu: rmse" in said and "90 % intervals" in said
    assert gram_json("info", "m.gram", cwd=folder)["targets"] == NAMES
    assert "regression of u, v" in gram("info", "m.gram", cwd=folder)
    gram("score", "m.gram", "t.csv", "--chart", "o.svg", cwd=folder)
    svg = ElementTree.parse(folder / "o.svg").getroot()
    pairs = list(svg.iter("{http://www.w3.org/2000/svg}g"))
    assert len(pairs) == 3
    for name, pair, rows in zip(NAMES, pairs, (240, 240, 239), strict=True):
        texts = [t.text for t in pair.iter("{http://www.w3.org/2000/svg}text")]
        assert name in texts and "Residuals" in texts
        assert len(list(pair.iter("{http://www.w3.org/2000/svg}circle"))) == 2 * rows
    low = float(pairs[2].get("transform").split()[1].rstrip(")"))
    assert 0 < low < float(svg.get("height")) - 300
    shuffle = ["importance", "m.gram", "t.csv", "--permutation"]
    assert "with --target" in refusal(*shuffle, status=USAGE, cwd=folder)
    said = refusal(*shuffle, "--target", "x", status=USAGE, cwd=folder)
    assert '--target is "x", which is no target of the model' in said
    found = gram_json(*shuffle, "--target", NAMES[1], cwd=folder)["permutation"]
    assert found["error"] == pytest.approx(report["scores"][NAMES[1]]["score"])
    assert min(increase["mean"] for increase in found["increase"].values()) > 1000
    said = refusal("importance", "m.gram", "--target", "u", status=USAGE, cwd=folder)
    assert "--target is used with --permutation alone" in said
    (folder / "few.csv").write_text("x,z,u\n1,2,3\n")
    said = refusal("score", "m.gram", "few.csv", status=BAD_DATA, cwd=folder)
    assert 'no column "n", the target' in said


def test_what_is_no_regression_is_refused(folder):
    for targets, status, expected in (
        ("u,label", BAD_DATA, '"label" (in --target) holds texts'),
        ("u,bit", BAD_DATA, '"bit" (in --target) has two values'),
        ("u,u", USAGE, '--target names "u" twice'),
        ("u,nothing", BAD_DATA, 'no column "nothing" (in --target)'),
    ):
        said = refusal("fit", "t.csv", "-y", targets, "-o", "no", status=status, cwd=folder)
        assert expected in said, said
    arguments = ["fit", "t.csv", "-y", "u,bit", "-o", "no", "--ignore", "label"]
    gram(*arguments, "--task", "regression", "--fixed", cwd=folder)
    said = refusal(*arguments, "--task", "classification", status=USAGE, cwd=folder)
    assert "several targets are regressions" in said
    said = refusal(*arguments[:-1], "n,u", status=USAGE, cwd=folder)
    assert "--ignore names the target" in said


def test_folds_of_several_targets_are_fits_of_them(folder):
    rows = list(csv.DictReader((folder / "t.csv").open()))
    lacking = [not row["u"] or not row["n"] for row in rows]
    fixed = ["-i", 0, "--ensemble", 1, "--ignore", "label,bit"]
    report = gram_json("cv", "t.csv", "-y", "u,n", "-k", 3, "-o", "o.csv", *fixed, cwd=folder)
    assert report["targets"] == ["u", "n"] and report["target"] == "u"
    said = list(csv.DictReader((folder / "o.csv").open()))
    assert list(said[0]) == ["fold", "prediction_u", "prediction_n"]
    assert [not row["fold"] for row in said] == lacking and any(lacking)
    for name in ("u", "n"):
        errors = [[], [], []]
        for row, out in zip(rows, said, strict=True):
            if out["fold"]:
                error = float(row[name]) - float(out[f"prediction_{name}"])
                errors[int(out["fold"]) - 1].append(error**2)
        rmse = [np.sqrt(np.mean(e)) for e in errors]
        assert abs(report["scores"][name]["mean"]["rmse"] / np.mean(rmse) - 1) < 1e-6
    mean = np.mean([report["scores"][name]["mean"]["rmse"] for name in "un"])
    assert abs(report["mean"]["rmse"] / mean - 1) < 1e-12
    text = gram("cv", "t.csv", "-y", "u,n", "-k", 3, *fixed, cwd=folder)
    assert "regression of u, n, 3 folds" in text and "\nmeans of the targets:\n  rmse" in text
    assert "\nn:\n  rmse" in text


def test_a_name_with_a_comma_is_one_target(tmp_path):
    rows = "\n".join(f"{i},{i % 7},{i * i % 11}" for i in range(60))
    (tmp_path / "t.csv").write_text('a,b,"a,b"\n' + rows + "\n")
    report = gram_json("fit", "t.csv", "-y", "a,b", "-o", "m", "--fixed", cwd=tmp_path)
    assert report["target"] == "a,b" and report["features"] == 2 and "targets" not in report
