"""test_cli_targets.py - several targets in one model: fit, info, predict, score, refusals"""

import json

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
    assert "one target" in refusal(
        "score", "m.gram", "t.csv", "--chart", "o.svg", status=USAGE, cwd=folder
    )
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
    said = refusal("cv", "t.csv", "-y", "u,n", status=USAGE, cwd=folder)
    assert "--target names 2 columns, expected one" in said


def test_a_name_with_a_comma_is_one_target(tmp_path):
    rows = "\n".join(f"{i},{i % 7},{i * i % 11}" for i in range(60))
    (tmp_path / "t.csv").write_text('a,b,"a,b"\n' + rows + "\n")
    report = gram_json("fit", "t.csv", "-y", "a,b", "-o", "m", "--fixed", cwd=tmp_path)
    assert report["target"] == "a,b" and report["features"] == 2 and "targets" not in report
