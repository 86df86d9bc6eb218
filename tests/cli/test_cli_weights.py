"""test_cli_weights.py - --class-weight of gram fit and gram cv"""

import numpy as np
import pytest
from gram_cli import BAD_DATA, USAGE, gram, gram_json, refusal, rows_of, write_rows
from machine_tables import FAST


def table(path, names=("no", "yes"), rows=240, weights=None):
    """A class in eight is the second one, and the classes overlap."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(rows, 2)).round(4)
    second = x[:, 0] + x[:, 1] + generator.normal(size=rows) > 2.0
    lines = [["a", "b", "w", "label"]]
    for i in range(rows):
        w = 1 if weights is None else weights(i, second[i])
        lines.append([*x[i], w, names[int(second[i])]])
    return write_rows(path, lines), second


def fit(path, *arguments):
    return gram_json("fit", path, "-y", "label", "-o", path.with_suffix(".gram"), *arguments, *FAST)


def predicted(path):
    said = rows_of(gram("predict", path.with_suffix(".gram"), path, "--proba"))
    return np.array([[float(v) for v in row[1:]] for row in said[1:]])


def test_they_are_weights_of_the_rows(tmp_path):
    """A fit with weights of classes is the one with those weights in a column."""
    data, second = table(tmp_path / "a.csv")
    fit(data, "--class-weight", "yes=3.5", "--ignore", "w")
    found = predicted(data)
    same, _ = table(tmp_path / "b.csv", weights=lambda _, yes: 3.5 if yes else 1)
    fit(same, "--weights", "w")
    np.testing.assert_array_equal(found, predicted(same))
    # They multiply the weights of a column.
    both, _ = table(tmp_path / "c.csv", weights=lambda i, _: 1 + i % 3)
    fit(both, "--weights", "w", "--class-weight", "no=0.5,yes=2")
    found = predicted(both)
    product, _ = table(
        tmp_path / "d.csv", weights=lambda i, yes: (1 + i % 3) * (2 if yes else 0.5)
    )
    fit(product, "--weights", "w")
    np.testing.assert_array_equal(found, predicted(product))


def test_balanced_gives_all_classes_the_same_weight(tmp_path):
    data, second = table(tmp_path / "a.csv")
    plain = fit(data, "--ignore", "w")
    before = predicted(data)
    report = fit(data, "--class-weight", "balanced", "--ignore", "w")
    after = predicted(data)
    wanted = {"no": 240 / (2 * (~second).sum()), "yes": 240 / (2 * second.sum())}
    assert report["class_weight"] == pytest.approx(wanted, rel=1e-12)
    assert report["machine"]["class_weight"] == report["class_weight"]
    assert "class_weight" not in plain
    # Calibration keeps what the weights are for.
    recall = [np.mean(p[second].argmax(axis=1)) for p in (before, after)]
    assert recall[1] > recall[0] + 0.1
    assert after[:, 1].mean() > 1.5 * before[:, 1].mean()
    weighted, _ = table(tmp_path / "w.csv", weights=lambda i, yes: 2 + i % 2 + 3 * int(yes))
    report = fit(weighted, "--class-weight", "balanced", "--weights", "w")
    w = np.array([float(row[2]) for row in rows_of(weighted.read_text())[1:]])
    wanted = {"no": w.sum() / (2 * w[~second].sum()), "yes": w.sum() / (2 * w[second].sum())}
    assert report["class_weight"] == pytest.approx(wanted, rel=1e-12)


def test_the_model_knows_them(tmp_path):
    data, _ = table(tmp_path / "a.csv", names=("1", "2"))
    fit(data, "--class-weight", "2.0=4", "--ignore", "w")
    model = data.with_suffix(".gram")
    assert gram_json("info", model)["class_weight"] == {"1": 1, "2": 4}
    assert 'weights of the classes: "1": 1, "2": 4\n' in gram("info", model)
    text = gram(
        "fit", data, "-y", "label", "-o", model, "--class-weight", "1=2", "--ignore", "w", *FAST
    )
    assert 'weights of the classes: "1": 2, "2": 1\n' in text


def test_cross_validation_takes_them(tmp_path):
    data, second = table(tmp_path / "a.csv")
    arguments = ["cv", data, "-y", "label", "-k", "3", "--ignore", "w", *FAST]
    plain = gram_json(*arguments)
    balanced = gram_json(*arguments, "--class-weight", "balanced")
    assert balanced["mean"]["balanced_accuracy"] > plain["mean"]["balanced_accuracy"] + 0.05
    lines = rows_of(data.read_text())
    lines[3][3] = "single"  # of which all folds but one learn
    lone = write_rows(tmp_path / "s.csv", lines)
    report = gram_json("cv", lone, *arguments[2:], "--class-weight", "single=2,yes=3")
    assert sum(f["rows_scored"] for f in report["folds"]) == 240


def test_what_is_refused(tmp_path):
    data, _ = table(tmp_path / "a.csv")
    arguments = ["-y", "label", "-o", tmp_path / "m.gram", "--ignore", "w", *FAST]

    def said(value, status):
        return refusal("fit", data, *arguments, "--class-weight", value, status=status)

    assert said("yess=2", BAD_DATA) == (
        'gram fit: --class-weight names "yess", which is no class of "label"; the classes are no, '
        'yes; did you mean "yes"?'
    )
    expected = 'gram fit: --class-weight holds "%s", expected balanced or LABEL=WEIGHT,...'
    assert said("even", USAGE) == expected % "even"
    assert said("yes=2,", USAGE) == expected % ""
    assert said("=2", USAGE) == expected % "=2"
    for weight in ("0", "-1", "inf", "nan", "two", "", "2x"):
        assert said(f"no=1,yes={weight}", USAGE) == (
            f'gram fit: --class-weight of "yes" is "{weight}", expected a number of more than 0'
        )
    assert said("yes=1,yes=2", USAGE) == 'gram fit: --class-weight names "yes" twice'
    regression = refusal(
        "cv", data, "-y", "a", "--class-weight", "balanced", "--ignore", "w", *FAST, status=USAGE
    )
    assert regression == (
        'gram cv: --class-weight is given for a regression of "a"; --task classification takes '
        "its numbers as classes"
    )
    assert not (tmp_path / "m.gram").exists()
