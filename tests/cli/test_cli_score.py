"""test_cli_score.py - the measures of `gram score`, beside those of scikit-learn"""

import csv
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from gram_cli import gram, gram_json, rows_of, write_rows
from machine_tables import FAST

metrics = pytest.importorskip("sklearn.metrics")
SVG = "{http://www.w3.org/2000/svg}"


def table(path, classes, rows=240, seed=0, absent=None):
    """A noisy table of few different rows, so that many probabilities are equal."""
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 4, size=(rows, 2))
    label = (x.sum(1) + generator.integers(0, 3, size=rows)) % classes
    lines = [[*x[i], f"c{label[i]}"] for i in range(rows) if label[i] != absent]
    return write_rows(path, [["a", "b", "y"], *lines])


def predictions(folder, data):
    rows = rows_of(gram("predict", folder / "m", data, "--proba"))
    names = [name.removeprefix("proba_") for name in rows[0][1:]]
    with open(data, encoding="utf-8") as file:
        truth = [row["y"] for row in csv.DictReader(file)]
    return names, truth, [row[0] for row in rows[1:]], np.array([r[1:] for r in rows[1:]], float)


def calibration_error(truth, said, proba):
    """Over 15 bins of equal width that are open on the left, as by their definition."""
    confidence, right = proba.max(1), np.array(truth) == np.array(said)
    total = 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return total


@pytest.mark.parametrize("classes,absent", [(2, None), (3, None), (5, None), (5, 2)])
def test_classes(tmp_path, classes, absent):
    train = table(tmp_path / "train.csv", classes)
    data = table(tmp_path / "test.csv", classes, seed=1, absent=absent)
    gram("fit", train, "-y", "y", "-o", tmp_path / "m", *FAST)
    names, truth, said, proba = predictions(tmp_path, data)
    got = gram_json("score", tmp_path / "m", data)
    assert len(np.unique(proba[:, 0])) < len(truth) / 4  # there are ties
    assert len(names) == classes and len(set(truth)) == classes - (absent is not None)
    one_hot = np.array([[t == name for name in names] for t in truth], float)
    present = one_hot.any(0)
    expected = {
        "score": metrics.accuracy_score(truth, said),
        "balanced_accuracy": np.mean(
            [metrics.recall_score(truth, said, labels=[n], average="macro") for n in set(truth)]
        ),
        "f1": metrics.f1_score(truth, said, average="macro", zero_division=0),
        "log_loss": metrics.log_loss(truth, proba, labels=names),
        "auc": np.mean(
            [metrics.roc_auc_score(one_hot[:, k], proba[:, k]) for k in np.flatnonzero(present)]
        ),
        "brier": ((proba - one_hot) ** 2).sum(1).mean() / (2 if classes == 2 else 1),
        "calibration_error": calibration_error(truth, said, proba),
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, abs=1e-12), name
    if classes == 2:
        assert got["brier"] == pytest.approx(metrics.brier_score_loss(one_hot[:, 1], proba[:, 1]))
    if absent is None and classes > 2:
        auc = metrics.roc_auc_score(truth, proba, multi_class="ovr", average="macro", labels=names)
        assert got["auc"] == pytest.approx(auc, abs=1e-12)
    np.testing.assert_array_equal(
        got["confusion"], metrics.confusion_matrix(truth, said, labels=names)
    )
    each = metrics.precision_recall_fscore_support(truth, said, labels=names, zero_division=np.nan)
    for k, name in enumerate(names):
        c = got["classes"][k]
        assert c["class"] == name and c["rows"] == each[3][k]
        for member, values in zip(("precision", "recall", "f1"), each):
            wanted = None if np.isnan(values[k]) else pytest.approx(values[k], abs=1e-12)
            assert c[member] == wanted, (name, member)


def test_regression(diamonds):
    folder, _, truth = diamonds
    rows = rows_of(gram("predict", "model", "test.csv", cwd=folder))
    said = np.array([float(row[0]) for row in rows[1:]])
    got = gram_json("score", "model", "test.csv", cwd=folder)
    for name, measure in {
        "score": metrics.root_mean_squared_error,
        "mae": metrics.mean_absolute_error,
        "median_absolute_error": metrics.median_absolute_error,
        "r2": metrics.r2_score,
    }.items():
        assert got[name] == pytest.approx(measure(truth, said), rel=1e-9), name
    text = gram("score", "model", "test.csv", cwd=folder)
    assert text.splitlines()[1] == f"median absolute error {got['median_absolute_error']:.6g}"


def test_coverage_of_intervals(diamonds):
    folder, _, truth = diamonds
    rows = rows_of(gram("predict", "model", "test.csv", "--interval", "0.9", cwd=folder))
    lower, upper = np.array([row[1:] for row in rows[1:]], float).T
    got = gram_json("score", "model", "test.csv", cwd=folder)["interval"]
    assert got["level"] == 0.9
    assert got["coverage"] == pytest.approx(np.mean((lower <= truth) & (truth <= upper)))
    assert got["mean_width"] == pytest.approx(np.mean(upper - lower))
    assert 0.8 < got["coverage"] < 0.97
    line = gram("score", "model", "test.csv", cwd=folder).splitlines()[2]
    share, width = 100 * got["coverage"], got["mean_width"]
    assert line == f"90 % intervals: {share:.1f} % coverage, mean width {width:.6g}"


def test_coverage_of_sets(tmp_path):
    gram("fit", table(tmp_path / "t.csv", 3), "-y", "y", "-o", tmp_path / "m", *FAST)
    data = table(tmp_path / "d.csv", 3, seed=4)
    truth = [row[2] for row in rows_of(data.read_text())[1:]]
    rows = rows_of(gram("predict", tmp_path / "m", data, "--set", "0.9"))
    sets = [row[1].split("|") for row in rows[1:]]
    got = gram_json("score", tmp_path / "m", data)["set"]
    assert got["coverage"] == pytest.approx(np.mean([t in s for t, s in zip(truth, sets)]))
    assert got["mean_size"] == pytest.approx(np.mean([len(s) for s in sets]))
    assert "\n90 % sets: " in gram("score", tmp_path / "m", data)
    few = write_rows(tmp_path / "few.csv", [["a", "y"], *[[i, "uv"[i // 4]] for i in range(8)]])
    gram("fit", few, "-y", "y", "-o", tmp_path / "m", *FAST)  # 8 errors allow 8/9
    assert gram_json("score", tmp_path / "m", few)["set"] is None
    assert "sets" not in gram("score", tmp_path / "m", few)


def test_labels_that_are_unknown_or_missing(tmp_path):
    gram("fit", table(tmp_path / "t.csv", 3), "-y", "y", "-o", tmp_path / "m", *FAST)
    data = table(tmp_path / "d.csv", 3, rows=40, seed=2)
    lines = data.read_text().splitlines()
    lines[1:5] = ["0,1,new", "0,2,new", "1,1,", "2,2,"]
    data.write_text("\n".join(lines) + "\n")
    got = gram_json("score", tmp_path / "m", data)
    assert got["unknown_labels"] == 2 and got["rows_scored"] == 38
    assert np.sum(got["confusion"]) == 36 and sum(c["rows"] for c in got["classes"]) == 36
    right = sum(got["confusion"][k][k] for k in range(3))
    assert got["score"] == pytest.approx(right / 38) and got["log_loss"] > 0
    text = gram("score", tmp_path / "m", data)
    assert "\n2 labels are no class of the model\n" in text and "\n  (no class)" in text


def test_text(letters, tmp_path):
    folder, _, _ = letters
    got = gram_json("score", "model", "test.csv", cwd=folder)
    text = gram("score", "model", "test.csv", cwd=folder)
    assert f"AUC {got['auc']:.4f}, F1 {got['f1']:.4f} (means over the classes), " in text
    counts = np.array(got["confusion"])
    np.fill_diagonal(counts, 0)
    shown = [line for line in text.splitlines() if " taken for " in line]
    assert len(shown) == 10
    names = [c["class"] for c in got["classes"]]
    times = [int(line.split(": ")[1].split()[0]) for line in shown]
    assert times == sorted(counts.ravel())[::-1][:10]
    for line, count in zip(shown, times):
        true, said = line.split(":")[0].strip().split(" taken for ")
        assert counts[names.index(true), names.index(said)] == count
    assert len(set(shown)) == 10
    # With few classes the whole matrix is shown.
    gram("fit", table(tmp_path / "t.csv", 3), "-y", "y", "-o", tmp_path / "m", *FAST)
    text = gram("score", tmp_path / "m", tmp_path / "t.csv").splitlines()
    at = text.index("confusion (rows: true class, columns: predicted class):")
    square = [[int(v) for v in line.split()[1:]] for line in text[at + 2 :]]
    assert square == gram_json("score", tmp_path / "m", tmp_path / "t.csv")["confusion"]


def test_one_class_and_no_rows(tmp_path):
    gram("fit", table(tmp_path / "t.csv", 2), "-y", "y", "-o", tmp_path / "m", *FAST)
    one = write_rows(tmp_path / "one.csv", [["a", "b", "y"], [1, 2, "c0"], [2, 2, "c0"]])
    got = json.loads(gram("score", tmp_path / "m", one, "--json"))
    assert got["auc"] is None and got["classes"][1]["recall"] is None
    none = write_rows(tmp_path / "none.csv", [["a", "b", "y"], [1, 2, ""]])
    got = json.loads(gram("score", tmp_path / "m", none, "--json"))
    assert got["rows_scored"] == 0 and got["score"] is None and got["brier"] is None


def drawn(path):
    """The cells of the matrix, the circles and the texts of a chart."""
    svg = ElementTree.parse(path).getroot()
    assert not re.search('="-?(nan|inf)', path.read_text())
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in svg.iter(f"{SVG}circle")]
    for x, y in circles:
        assert 0 < x < float(svg.get("width")) and 0 < y < float(svg.get("height"))
    texts = [t.text for t in svg.iter(f"{SVG}text")]
    return list(svg.iter(f"{SVG}rect"))[1:], np.array(circles), texts


def is_linear(pixels, values):
    """Pixels are rounded to a tenth."""
    values = (values - values.mean()) / values.std()
    line = np.polyfit(values, pixels, 1)
    return abs(line[0]) > 1 and np.abs(np.polyval(line, values) - pixels).max() < 0.11


def test_chart_of_classes(tmp_path):
    gram("fit", table(tmp_path / "t.csv", 5), "-y", "y", "-o", tmp_path / "m", *FAST)
    data = table(tmp_path / "d.csv", 5, seed=5)
    text = gram("score", tmp_path / "m", data, "--chart", tmp_path / "c.svg")
    assert text == gram("score", tmp_path / "m", data)
    confusion = np.array(gram_json("score", tmp_path / "m", data)["confusion"])
    cells, circles, texts = drawn(tmp_path / "c.svg")
    shares = (confusion / confusion.sum(1, keepdims=True)).ravel()
    np.testing.assert_allclose([float(c.get("fill-opacity")) for c in cells], shares, atol=6e-4)
    for column in range(5):  # predicted classes are columns, from left to right
        assert len({cells[5 * row + column].get("x") for row in range(5)}) == 1
    assert float(cells[1].get("x")) > float(cells[0].get("x"))
    assert texts[0] == "Predictions of y" and texts[1].startswith("accuracy ")
    counts = [str(count) for count in confusion.ravel() if count]
    assert set(counts) <= set(texts)
    _, truth, said, proba = predictions(tmp_path, data)
    confidence, right = proba.max(1), np.array(truth) == np.array(said)
    bins = np.ceil(confidence * 15).astype(int)
    points = [(confidence[bins == b].mean(), right[bins == b].mean()) for b in np.unique(bins)]
    assert len(circles) == len(points)
    assert is_linear(circles[:, 0], np.array(points)[:, 0])
    assert is_linear(circles[:, 1], np.array(points)[:, 1])


def test_chart_of_many_classes(tmp_path):
    lines = [[i % 50, i // 50, f"<{i % 50}>"] for i in range(200)]
    data = write_rows(tmp_path / "t.csv", [["a", "b", "y"], *lines])
    gram("fit", data, "-y", "y", "-o", tmp_path / "m", *FAST)
    gram("score", tmp_path / "m", data, "--chart", tmp_path / "c.svg")
    cells, _, texts = drawn(tmp_path / "c.svg")
    assert len(cells) == 40 * 40 and "the 40 most frequent of 50 classes" in texts[1]


def test_chart_of_numbers(diamonds, tmp_path):
    folder, _, truth = diamonds
    gram("score", "model", "test.csv", "--chart", tmp_path / "c.svg", cwd=folder)
    rows = rows_of(gram("predict", "model", "test.csv", cwd=folder))
    said = np.array([float(row[0]) for row in rows[1:]])
    _, circles, texts = drawn(tmp_path / "c.svg")
    assert {"Predictions", "true", "predicted", "Residuals", "true - predicted"} <= set(texts)
    first, second = circles[: len(said)], circles[len(said) :]
    assert len(second) == len(said)
    assert is_linear(first[:, 0], truth) and is_linear(first[:, 1], said)
    assert is_linear(second[:, 0], said) and is_linear(second[:, 1], truth - said)
    assert first[:, 0].max() < second[:, 0].min()


def test_chart_of_far_and_of_no_numbers(tmp_path):
    lines = [[i, -1e308 if i % 2 else 1e308] for i in range(40)]
    data = write_rows(tmp_path / "t.csv", [["a", "y"], *lines])
    gram("fit", data, "-y", "y", "-o", tmp_path / "m", "--task", "regression", *FAST)
    gram("score", tmp_path / "m", data, "--chart", tmp_path / "c.svg")
    (tmp_path / "none.csv").write_text("a,y\n")
    gram("score", tmp_path / "m", tmp_path / "none.csv", "--chart", tmp_path / "n.svg")
    assert len(drawn(tmp_path / "n.svg")[1]) == 0
