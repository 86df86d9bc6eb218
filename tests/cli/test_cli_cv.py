"""test_cli_cv.py - gram cv: which rows are held out, and that its models and measures are right"""

import numpy as np
import pytest
from gram_cli import BAD_DATA, USAGE, gram, gram_json, refusal, rows_of, write_rows
from machine_tables import FAST

HEADER = ["a", "b", "who", "day", "w", "y", "label"]


def table(path, rows=90, missing=()):
    generator = np.random.default_rng(3)
    x = generator.normal(size=(rows, 2)).round(4)
    lines = [HEADER]
    for i in range(rows):
        y = "" if i in missing else round(float(x[i, 0] + x[i, 1] ** 2), 4)
        day = f"2026-01-{1 + (i * 7) % 25:02d}"
        label = ["common", "common", "rare"][i % 3 if i < 60 else 0]
        lines.append([*x[i], f"p{i % 11}", day, 1 + i % 3, y, label])
    return write_rows(path, lines)


def cv(path, *arguments):
    """The report, and the fold (from 1, 0: none) and the prediction of every row."""
    out = path.with_suffix(".out")
    report = gram_json("cv", path, *arguments, "-o", out, *FAST)
    rows = rows_of(out.read_text())
    assert rows[0] == ["fold", "prediction"]
    return report, np.array([int(r[0] or 0) for r in rows[1:]]), [r[1] for r in rows[1:]]


def test_a_fold_is_a_fit_and_a_score(tmp_path):
    """The report of a fold is what fit, predict and score say when its rows are kept apart."""
    data = table(tmp_path / "t.csv", missing=(4, 50))
    apart = ["--ignore", "label,who", "--weights", "w"]
    report, fold, said = cv(data, "-y", "y", "-k", "3", *apart)
    lines = rows_of(data.read_text())
    assert [i for i in range(90) if fold[i] == 0] == [4, 50]
    for k, got in enumerate(report["folds"]):
        held = fold == k + 1
        train = [lines[1 + i] for i in range(90) if not held[i] and fold[i]]
        test = [lines[1 + i] for i in range(90) if held[i]]
        write_rows(tmp_path / "train.csv", [lines[0], *train])
        write_rows(tmp_path / "test.csv", [lines[0], *test])
        gram("fit", "train.csv", "-y", "y", "-o", "m", *apart, *FAST, cwd=tmp_path)
        score = gram_json("score", "m", "test.csv", cwd=tmp_path)
        assert got["rows"] == len(train) and got["rows_scored"] == len(test)
        assert got["rmse"] == pytest.approx(score["score"], rel=1e-9)
        for name in ("mae", "r2", "median_absolute_error"):
            assert got[name] == pytest.approx(score[name], rel=1e-9), name
        assert got["coverage"] == score["interval"]["coverage"] and 0.6 < got["coverage"] <= 1
        predicted = [r[0] for r in rows_of(gram("predict", "m", "test.csv", cwd=tmp_path))[1:]]
        assert predicted == [said[i] for i in range(90) if held[i]]
    rmse = [f["rmse"] for f in report["folds"]]
    assert report["mean"]["rmse"] == pytest.approx(np.mean(rmse))
    assert report["mean"]["coverage"] == pytest.approx(
        np.mean([f["coverage"] for f in report["folds"]])
    )
    assert report["deviation"]["rmse"] == pytest.approx(np.std(rmse, ddof=1))


def test_classes_are_stratified(tmp_path):
    data = table(tmp_path / "t.csv")
    report, fold, said = cv(data, "-y", "label", "-k", "4", "--ignore", "who,day")
    truth = np.array([row[6] for row in rows_of(data.read_text())[1:]])
    for label in ("common", "rare"):
        counts = [np.sum(truth[fold == k] == label) for k in range(1, 5)]
        assert max(counts) - min(counts) <= 1 and min(counts) > 0
    right = np.array(said) == truth
    for k, got in enumerate(report["folds"]):
        assert got["accuracy"] == pytest.approx(right[fold == k + 1].mean())
        assert got["accuracy"] <= got["coverage"] <= 1  # a set has the class that is predicted
        assert 0 <= got["auc"] <= 1 and got["log_loss"] > 0
    assert report["task"] == "classification"
    again, same, _ = cv(data, "-y", "label", "-k", "4", "--ignore", "who,day")
    np.testing.assert_array_equal(same, fold)
    assert again["mean"] == report["mean"]
    _, other, _ = cv(data, "-y", "label", "-k", "4", "--ignore", "who,day", "--seed", "1")
    assert (other != fold).any()


def test_groups_stay_together(tmp_path):
    data = table(tmp_path / "t.csv")
    _, fold, said = cv(data, "-y", "y", "--groups", "who", "--ignore", "label")
    who = np.array([row[2] for row in rows_of(data.read_text())[1:]])
    assert all(len(set(fold[who == name])) == 1 for name in set(who)) and min(fold) == 1
    sizes = np.bincount(fold)[1:]
    assert len(sizes) == 5 and max(sizes) - min(sizes) <= 10
    # The column is no feature: the folds alone depend on it.
    alone, _, _ = cv(data, "-y", "y", "--groups", "who", "--ignore", "label,day")
    rest = gram_json("cv", data, "-y", "y", "--groups", "who", "--ignore", "label,day", *FAST)
    assert alone["mean"] == rest["mean"] and all(said)
    said = refusal("cv", data, "-y", "y", "--groups", "who", "-k", "12", status=BAD_DATA)
    assert said == f"gram cv: {data} has 11 groups, expected at least 12 for 12 folds"


def test_time_learns_from_the_past(tmp_path):
    data = table(tmp_path / "t.csv")
    report, fold, said = cv(data, "-y", "y", "--time", "day", "-k", "4", "--ignore", "label,who")
    day = np.array([row[3] for row in rows_of(data.read_text())[1:]])
    for k in range(4):
        assert max(day[fold == k]) < min(day[fold == k + 1])
        assert report["folds"][k]["rows"] == np.sum(fold <= k)
        assert report["folds"][k]["rows_scored"] == np.sum(fold == k + 1)
    assert all((text == "") == (f == 0) for text, f in zip(said, fold))
    said = refusal("cv", data, "-y", "y", "--time", "day", "-k", "30", status=BAD_DATA)
    assert said.endswith("has 25 different times, expected at least 31 for 30 folds")


def test_a_class_that_only_one_fold_has(tmp_path):
    lines = rows_of(table(tmp_path / "t.csv").read_text())
    lines[5][6] = "single"
    data = write_rows(tmp_path / "s.csv", lines)
    report, fold, said = cv(data, "-y", "label", "--ignore", "who,day")
    assert said[4] != "single" and sum(f["rows_scored"] for f in report["folds"]) == 90
    assert report["folds"][fold[4] - 1]["accuracy"] < 1


def test_text_and_refusals(tmp_path):
    data = table(tmp_path / "t.csv")
    text = gram("cv", data, "-y", "y", "-k", "2", "--ignore", "label,who", *FAST).splitlines()
    assert text[0].startswith("regression of y, 2 folds in ")
    names = ["fold", "learned", "scored", "rmse", "mae", "median_absolute_error", "r2", "coverage"]
    assert text[1].split() == names and len(text) == 9
    assert text[4].startswith("rmse ") and " +- " in text[4]
    both = refusal("cv", data, "-y", "y", "--groups", "who", "--time", "day", status=USAGE)
    assert both == "gram cv: --groups and --time are both given, expected one of them"
    assert "is the target or the weights" in refusal(
        "cv", data, "-y", "y", "--groups", "y", status=USAGE
    )
    assert "is also in --ignore" in refusal(
        "cv", data, "-y", "y", "--time", "day", "--ignore", "day", status=USAGE
    )
    assert "--target is missing" in refusal("cv", data, status=USAGE)
    lines = rows_of(data.read_text())
    lines[7][3] = ""
    gap = write_rows(tmp_path / "gap.csv", lines)
    said = refusal("cv", gap, "-y", "y", "--time", "day", "-o", tmp_path / "o.csv", status=BAD_DATA)
    assert f'{gap}:8: column "day": the value is missing' in said
    assert not (tmp_path / "o.csv").exists()
