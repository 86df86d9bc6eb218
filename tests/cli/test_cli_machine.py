"""test_cli_machine.py - fit, predict, score and importance, from table to prediction"""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from gram_cli import (
    BAD_DATA,
    NO_INPUT,
    NO_OUTPUT,
    SOURCE,
    USAGE,
    gram,
    gram_json,
    refusal,
    rows_of,
    write_rows,
)
from machine_tables import FAST, NASTY, nasty_table, simple
from safetensors.numpy import load_file

SVG = "{http://www.w3.org/2000/svg}"


def test_fit_reports(letters):
    _, report, _ = letters
    assert report["task"] == "classification" and report["target"] == "letter"
    assert report["rows"] == 1500 and report["features"] == 16 and report["classes"] == 26
    assert report["metric"] == "accuracy" and 0.75 < report["score"] < 1
    assert report["leave_one_out"]["score"] == report["score"]
    assert 0 < report["stages"]["fit"] <= report["seconds"]
    assert isinstance(report["hyperparameters"], dict) and report["hyperparameters"]
    shares = list(report["importance"].values())
    assert len(shares) == 16 and shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 1e-9 and min(shares) >= 0


def test_a_named_kernel_keeps_its_exponent(tmp_path):
    """A Laplace kernel has exponent 1, and is not chosen to be a Gaussian one."""
    rows = "\n".join(f"{i / 50},{(i / 50) ** 2}" for i in range(100))
    (tmp_path / "t.csv").write_text("x,y\n" + rows + "\n")
    report = gram_json("fit", "t.csv", "-y", "y", "-o", "m", "--kernel", "laplace", cwd=tmp_path)
    assert report["hyperparameters"]["p"] == 2 and report["hyperparameters"]["q"] == 1


def test_centres_hold_rows_out(tmp_path):
    """Their score is of rows that were not learned from, and 0 centres are none."""
    simple(tmp_path / "t.csv", 300)
    arguments = ["fit", "t.csv", "-y", "y", "--ignore", "label,weight", "-o", "m"]
    report = gram_json(*arguments, "--centres", "20", cwd=tmp_path)
    assert report["machine"].get("centres") in (20, None) and report["held_out"]["rows"] == 30
    assert report["held_out"]["score"] == report["score"] and "leave_one_out" not in report
    assert "rows held out: rmse" in gram(*arguments, "--centres", "20", cwd=tmp_path)
    trials = report["machine"]["search"]
    assert trials[0]["centres"] == 20 and trials[0]["held_out"] == 30 and trials[0]["weight"] == 1
    assert sum(t["weight"] for t in trials) == 1 and "centres" not in trials[-1]
    order = [(-t["level"], t["score"]) for t in trials]
    assert order == sorted(order)
    gram(*arguments, "--centres", "20", "--trials", "trials.csv", cwd=tmp_path)
    header, first, *_ = rows_of((tmp_path / "trials.csv").read_text())
    told = dict(zip(header, first))
    assert told["centres"] == "20" and told["held_out"] == "30" and 0 < float(told["spread"])
    assert "leave_one_out" in gram_json(*arguments, "--centres", "0", cwd=tmp_path)
    said = refusal(*arguments, "--centres", "20", "--fixed", status=USAGE, cwd=tmp_path)
    assert "--centres and --fixed" in said


def test_trees_and_a_temperature_are_told(tmp_path):
    simple(tmp_path / "t.csv", 200)
    arguments = ["fit", "t.csv", "-y", "y", "--ignore", "label,weight", "--fixed", "-o", "m"]
    routing = ["--leaf-rows", "80", "--trees", "2", "--temperature", "0.25"]
    report = gram_json(*arguments, *routing, cwd=tmp_path)
    assert report["machine"]["trees"] == 2 and report["machine"]["temperature"] == 0.25
    assert ", trees: 2, temperature: 0.25, " in gram("info", "m", cwd=tmp_path)
    gram(*arguments, "--leaf-rows", "80", "--temperature", "0", cwd=tmp_path)
    assert ", trees: 1, temperature: 0, " in gram("info", "m", cwd=tmp_path)
    gram(*arguments, cwd=tmp_path)
    assert "trees" not in gram("info", "m", cwd=tmp_path)


def test_the_trials_of_a_search(tmp_path):
    """All of them, the best first: those of the last level, of which one is what was chosen."""
    simple(tmp_path / "t.csv", 120)
    arguments = ["fit", "t.csv", "-y", "y", "--ignore", "label,weight", "-o", "m"]
    report = gram_json(*arguments, "--trials", "trials.csv", cwd=tmp_path)
    header, *rows = rows_of((tmp_path / "trials.csv").read_text())
    trials = [dict(zip(header, row)) for row in rows]
    assert [int(t["rank"]) for t in trials] == list(range(1, len(trials) + 1))
    assert sorted(int(t["trial"]) for t in trials) == list(range(1, len(trials) + 1))
    order = [(-int(t["level"]), float(t["score"])) for t in trials]
    assert order == sorted(order) and len(order) > 20
    chosen, best = report["hyperparameters"], trials[0]
    for name in ("p", "q", "bandwidth_in_medians", "iterations"):
        assert float(best[name]) == chosen[name], name
    assert best["target_transform"] == chosen["target_transform"] and best["bandwidth"] == ""
    assert abs(float(best["score"]) / report["score"] - 1) < 1e-6
    assert abs(float(best["spread"]) / report["leave_one_out"]["spread"] - 1) < 0.02
    assert 0 < sum(float(t["seconds"]) for t in trials) <= report["stages"]["fit"]
    assert {t["metric"] for t in trials} == {"none", "full", "diagonal", "ard"}
    for t, told in zip(trials, report["machine"]["search"], strict=True):
        assert float(t["score"]) == told["score"] and t["metric"] == told["metric"]
        assert (t["metric"] in ("none", "ard")) == (t["metric_power"] == "")
    printed = gram(*arguments, "--fixed", "--trials", "-", cwd=tmp_path)
    assert printed.splitlines()[0] == ",".join(header)
    assert printed.splitlines()[1].startswith("1,1,1,120,")
    said = refusal(*arguments, "--trials", "no/trials", status=NO_OUTPUT, cwd=tmp_path)
    assert "no/trials" in said


def test_an_ensemble_is_told(tmp_path):
    generator = np.random.default_rng(5)
    x = generator.uniform(-1, 1, (300, 6))
    y = np.sin(3 * x[:, 0] + x[:, 1]) + np.abs(x[:, 2]) * x[:, 3] + x[:, 4]
    y = y + 0.05 * generator.normal(size=300)
    write_rows(tmp_path / "t.csv", [[*"abcdef", "y"], *np.column_stack([x, y]).round(6).tolist()])
    arguments = ["fit", "t.csv", "-y", "y", "-o", "m"]
    report = gram_json(*arguments, "--trials", "trials.csv", cwd=tmp_path)
    members = report["machine"]["ensemble"]
    assert 1 < len(members) <= 6 and abs(sum(m["weight"] for m in members) - 1) < 1e-12
    header, *rows = rows_of((tmp_path / "trials.csv").read_text())
    weights = [float(row[header.index("weight")]) for row in rows]
    assert sorted(w for w in weights if w > 0) == sorted(m["weight"] for m in members)
    listed = ", ".join(f"{m['weight']:.3g}" for m in members)
    for text in (gram(*arguments, cwd=tmp_path), gram("info", "m", cwd=tmp_path)):
        assert f"mean of machines with the weights {listed}; of the first one:\n" in text
    assert gram_json("info", "m", cwd=tmp_path)["machine"]["ensemble"] == members
    alone = gram_json(*arguments, "--ensemble", "1", cwd=tmp_path)
    assert "ensemble" not in alone["machine"]
    assert alone["leave_one_out"]["score"] > report["leave_one_out"]["score"]
    said = refusal(*arguments, "--ensemble", "2", "--fixed", status=USAGE, cwd=tmp_path)
    assert "--ensemble and --fixed exclude each other" in said


def test_model_is_safetensors(letters):
    folder, _, _ = letters
    tensors = load_file(folder / "model")
    assert tensors and all(np.isfinite(t).all() for t in tensors.values())


def test_predict_classes(letters):
    folder, _, truth = letters
    gram("predict", "model", "test.csv", "-o", "out.csv", cwd=folder)
    rows = rows_of((folder / "out.csv").read_text())
    assert rows[0] == ["prediction"] and len(rows) == 501
    accuracy = np.mean([row[0] == letter for row, letter in zip(rows[1:], truth)])
    assert accuracy > 0.8
    score = gram_json("score", "model", "test.csv", cwd=folder)
    assert score["metric"] == "accuracy" and score["rows_scored"] == 500
    assert abs(score["score"] - accuracy) < 1e-12 and score["log_loss"] > 0
    assert f"accuracy {accuracy:.6g}," in gram("score", "model", "test.csv", cwd=folder)


def test_predict_proba(letters):
    folder, _, _ = letters
    plain = rows_of(gram("predict", "model", "test.csv", cwd=folder))
    rows = rows_of(gram("predict", "model", "test.csv", "--proba", cwd=folder))
    names = [name.removeprefix("proba_") for name in rows[0][1:]]
    assert names == [chr(c) for c in range(ord("A"), ord("Z") + 1)]
    assert [row[0] for row in rows] == [row[0] for row in plain]
    proba = np.array([row[1:] for row in rows[1:]], dtype=float)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-9)
    assert (proba >= 0).all()
    assert [names[i] for i in proba.argmax(1)] == [row[0] for row in rows[1:]]
    gram("predict", "model", "test.csv", "--proba", "-o", "p.npy", cwd=folder)
    np.testing.assert_array_equal(np.load(folder / "p.npy"), proba)
    told = json.loads(gram("predict", "model", "test.csv", "--proba", "--json", cwd=folder))
    assert told["classes"] == names and told["prediction"] == [row[0] for row in rows[1:]]
    np.testing.assert_array_equal(told["probability"], proba)
    said = refusal("predict", "model", "test.csv", "-o", "q.npy", status=USAGE, cwd=folder)
    assert "the classes are text" in said and not (folder / "q.npy").exists()


def test_predict_numbers(diamonds):
    folder, report, truth = diamonds
    assert report["task"] == "regression" and report["metric"] == "rmse"
    rows = rows_of(gram("predict", "model", "test.csv", cwd=folder))
    values = np.array([float(row[0]) for row in rows[1:]])
    rmse = np.sqrt(np.mean((values - truth) ** 2))
    assert rmse < 0.35 * truth.std()
    score = gram_json("score", "model", "test.csv", cwd=folder)
    assert abs(score["score"] / rmse - 1) < 1e-9
    assert abs(score["mae"] / np.abs(values - truth).mean() - 1) < 1e-9
    assert abs(score["r2"] - (1 - rmse**2 / truth.var())) < 1e-9
    gram("predict", "model", "test.csv", "-o", "out.npy", cwd=folder)
    np.testing.assert_array_equal(np.load(folder / "out.npy"), values)
    told = json.loads(gram("predict", "model", "test.csv", "--json", cwd=folder))
    np.testing.assert_array_equal(told["prediction"], values)
    assert "which has no classes" in refusal(
        "predict", "model", "test.csv", "--proba", status=USAGE, cwd=folder
    )


def test_predict_intervals(diamonds):
    folder, _, _ = diamonds
    plain = rows_of(gram("predict", "model", "test.csv", cwd=folder))
    rows = rows_of(gram("predict", "model", "test.csv", "--interval", "0.8", cwd=folder))
    assert rows[0] == ["prediction", "lower", "upper"]
    assert [row[:1] for row in rows] == plain
    values, lower, upper = np.array(rows[1:], float).T
    wide = rows_of(gram("predict", "model", "test.csv", "--interval", "0.95", cwd=folder))
    least, most = np.array(wide[1:], float)[:, 1:].T
    assert (least < lower).all() and (lower <= values).all()
    assert (values <= upper).all() and (upper < most).all()
    gram("predict", "model", "test.csv", "--interval", "0.8", "-o", "i.npy", cwd=folder)
    np.testing.assert_array_equal(np.load(folder / "i.npy"), np.array(rows[1:], float))
    told = gram_json("predict", "model", "test.csv", "--interval", "0.8", cwd=folder)
    np.testing.assert_array_equal(told["lower"], lower)
    np.testing.assert_array_equal(told["upper"], upper)
    for level in ("0", "1", "90"):
        refusal("predict", "model", "test.csv", "--interval", level, status=USAGE, cwd=folder)
    said = refusal("predict", "model", "test.csv", "--set", "0.9", status=USAGE, cwd=folder)
    assert "--set: model is a regression, which has no classes" in said


def test_predict_sets(letters, tmp_path):
    folder, _, _ = letters
    rows = rows_of(
        gram("predict", "model", "test.csv", "--set", "0.99", "--proba", cwd=folder)
    )
    assert rows[0][:2] == ["prediction", "set"]
    names = [name.removeprefix("proba_") for name in rows[0][2:]]
    sizes = set()
    for row in rows[1:]:
        proba, members = dict(zip(names, map(float, row[2:]))), row[1].split("|")
        assert members[0] == row[0] and len(set(members)) == len(members)
        assert [proba[m] for m in members] == sorted((proba[m] for m in members), reverse=True)
        outside = [p for name, p in proba.items() if name not in members]
        assert max(outside, default=0) <= proba[members[-1]]
        sizes.add(len(members))
    assert len(sizes) > 1
    told = json.loads(gram("predict", "model", "test.csv", "--set", "0.99", "--json", cwd=folder))
    assert ["|".join(members) for members in told["set"]] == [row[1] for row in rows[1:]]
    said = refusal("predict", "model", "test.csv", "--set", "0.9", "-o", "s.npy", status=USAGE,
                   cwd=folder)  # fmt: skip
    assert ".npy cannot hold the sets" in said
    said = refusal("predict", "model", "test.csv", "--interval", "0.9", status=USAGE, cwd=folder)
    assert "--set is for classes" in said
    lines = ["x,set,y", *[f"{i},{i},{'a|b' if i < 15 else 'c'}" for i in range(30)]]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    gram("fit", "t.csv", "-y", "y", "-o", "m", *FAST, cwd=tmp_path)
    said = refusal("predict", "m", "t.csv", "--set", "0.9", status=USAGE, cwd=tmp_path)
    assert 'the class "a|b" has the separator of classes, |' in said
    told = json.loads(gram("predict", "m", "t.csv", "--set", "0.9", "--json", cwd=tmp_path))
    assert told["set"][0][0] == "a|b"
    said = refusal("predict", "m", "t.csv", "--set", "0.99", "--json", status=USAGE, cwd=tmp_path)
    assert "--set is 0.99, expected at most 0.967742, because m remembers the errors of 30" in said
    said = refusal("predict", "m", "t.csv", "--set", "0.9", "--json", "--keep", "set",
                   status=BAD_DATA, cwd=tmp_path)  # fmt: skip
    assert 'the column "set" has the name of a column of the output' in said


def test_models_of_before_have_no_intervals(tmp_path):
    rows = "\n".join(f"{i / 50},{(i / 50) ** 2}" for i in range(50))
    (tmp_path / "t.csv").write_text("x,y\n" + rows + "\n")
    gram("fit", "t.csv", "-y", "y", "-o", "m", *FAST, cwd=tmp_path)
    data = (tmp_path / "m").read_bytes()
    assert data.count(b"target.scores") == 1
    (tmp_path / "old").write_bytes(data.replace(b"target.scores", b"target.before"))
    assert gram("predict", "old", "t.csv", cwd=tmp_path) == gram(
        "predict", "m", "t.csv", cwd=tmp_path
    )
    said = refusal("predict", "old", "t.csv", "--interval", "0.9", status=BAD_DATA, cwd=tmp_path)
    assert "old does not remember the errors of left-out rows" in said
    assert "make the model again with gram fit" in said
    assert gram_json("score", "old", "t.csv", cwd=tmp_path)["interval"] is None


def test_no_rows_and_one_row(letters, tmp_path):
    folder, _, truth = letters
    lines = (folder / "test.csv").read_text().splitlines(keepends=True)
    path = tmp_path / "t.csv"
    path.write_text(lines[0])
    assert gram("predict", folder / "model", path) == "prediction\n"
    gram("predict", folder / "model", path, "-o", tmp_path / "p.npy", "--proba")
    assert np.load(tmp_path / "p.npy").shape == (0, 26)
    path.write_text(lines[0] + lines[1])
    assert gram("predict", folder / "model", path) in {
        f"prediction\n{chr(c)}\n" for c in range(65, 91)
    }
    assert gram_json("score", folder / "model", path)["rows_scored"] == 1
    path.write_text("")
    for command in ("predict", "score"):
        said = refusal(command, folder / "model", path, status=BAD_DATA)
        assert said == f"gram {command}: {path}: the file is empty"


def test_holdout(letters, tmp_path):
    folder, _, _ = letters
    arguments = ["fit", folder / "train.csv", "-y", "letter", "--holdout", "0.2", *FAST]
    first = gram_json(*arguments, "-o", tmp_path / "a")
    assert first["rows"] == 1200 and first["rows_scored"] == 300
    assert 0.7 < first["score"] <= 1 and first["metric"] == "accuracy"
    again = gram_json(*arguments, "-o", tmp_path / "b")
    assert again["score"] == first["score"] and again["importance"] == first["importance"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    other = gram_json(*arguments, "-o", tmp_path / "c", "--seed", 5)
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    assert 0.7 < other["score"] <= 1
    said = refusal(*arguments[:4], "--holdout", "0.0001", "-o", "d", status=BAD_DATA, cwd=tmp_path)
    assert "1500 rows, which --holdout 0.0001 cannot divide" in said


def test_text_report(letters, tmp_path):
    folder, _, _ = letters
    text = gram(
        *["fit", folder / "train.csv", "-y", "letter", "-o", tmp_path / "m", "--holdout", "0.1"],
        *["--top", "3", *FAST],
    )
    assert "classification of letter from 16 features, 1350 rows, 26 classes" in text
    assert "held out: accuracy 0." in text and "on 150 rows" in text
    assert "and 13 more" in text and f"model written to {tmp_path / 'm'}" in text


def test_importance(letters, tmp_path):
    folder, report, _ = letters
    told = gram_json("importance", folder / "model")["importance"]
    assert told == report["importance"] and list(told) == list(report["importance"])
    text = gram("importance", folder / "model", "-n", 4).splitlines()
    assert len(text) == 5 and text[4] == "  and 12 more"
    assert [line.split()[0] for line in text[:4]] == list(told)[:4]
    gram("importance", folder / "model", "-o", tmp_path / "i.csv")
    rows = rows_of((tmp_path / "i.csv").read_text())
    assert rows[0] == ["feature", "importance"]
    assert {name: float(value) for name, value in rows[1:]} == told


def test_chart(letters, tmp_path):
    folder, report, _ = letters
    gram("importance", folder / "model", "--chart", tmp_path / "i.svg", "-n", 5)
    svg = ElementTree.parse(tmp_path / "i.svg").getroot()
    texts = [t.text for t in svg.iter(f"{SVG}text")]
    assert texts[0] == "Feature importance" and "letter" in texts[1]
    names = [t.text for t in svg.iter(f"{SVG}text") if t.get("text-anchor") == "end"]
    assert names == list(report["importance"])[:5]
    bars = list(svg.iter(f"{SVG}rect"))[1:]
    widths = [float(bar.get("width")) for bar in bars]
    shares = list(report["importance"].values())[:5]
    np.testing.assert_allclose(
        np.array(widths) / widths[0], np.array(shares) / shares[0], atol=0.01
    )
    ends = [float(b.get("x")) + float(b.get("width")) for b in bars]
    assert max(ends) < float(svg.get("width"))
    # The grid is where its numbers say, and ends before the longest bar does.
    lines = [float(line.get("x1")) for line in svg.iter(f"{SVG}line")]
    below = [t.text for t in svg.iter(f"{SVG}text") if t.get("text-anchor") == "middle"]
    percent = [float(text[:-1]) for text in below]
    left = float(bars[0].get("x"))
    expected = left + np.array(percent) / 100 / shares[0] * widths[0]
    np.testing.assert_allclose(lines, expected, atol=0.2)
    assert 3 <= len(lines) <= 7 and max(lines) <= ends[0] + 0.1


def test_chart_is_drawn_in_the_style_of_gram_plot():
    source = (SOURCE / "cli" / "chart.c").read_text(encoding="utf-8")
    colours = dict(re.findall(r'(\w+)\[\] = "(#[0-9a-f]{6})"', source))
    style = (SOURCE / "python" / "gram" / "plot.py").read_text(encoding="utf-8")
    said = dict(re.findall(r'"([a-z.]+)": "(#[0-9a-f]{6})"', style))
    assert colours["ink"] == said["text.color"] == said["axes.labelcolor"]
    assert colours["muted"] == said["xtick.color"] == said["axes.edgecolor"]
    assert colours["paper"] == said["figure.facecolor"] and colours["grid"] == said["grid.color"]
    assert colours["first_colour"] == re.search(r"color=\[\s*\"(#\w+)\"", style).group(1)
    fonts = re.search(r'"font.sans-serif": \[(.*)\]', style).group(1).replace('"', "")
    assert re.search(r'FONTS "(.*), sans-serif"', source).group(1).replace("'", "") == fonts


def test_task(tmp_path):
    data = simple(tmp_path / "t.csv")
    arguments = ["fit", data, "-o", tmp_path / "m", "--ignore", "weight", *FAST]
    assert gram_json(*arguments, "-y", "y")["task"] == "regression"
    assert gram_json(*arguments, "-y", "label")["task"] == "classification"
    values = {row[0] for row in rows_of(gram("predict", tmp_path / "m", data))[1:]}
    assert values <= {"0", "1"}
    gram("predict", tmp_path / "m", data, "-o", tmp_path / "p.npy")
    assert set(np.load(tmp_path / "p.npy")) <= {0.0, 1.0}
    told = json.loads(gram("predict", tmp_path / "m", data, "--json"))
    assert set(told["prediction"]) <= {0, 1}
    assert gram_json(*arguments, "-y", "label", "--task", "regression")["task"] == "regression"
    report = gram_json(*arguments, "-y", "kind", "--task", "classification")
    assert report["classes"] == 3
    said = refusal(
        "fit",
        nasty_table(tmp_path / "n.csv"),
        "-y",
        NASTY[1],
        "-o",
        tmp_path / "m",
        "--task",
        "regression",
        status=BAD_DATA,
    )
    assert "is not a number" in said


@pytest.mark.parametrize(
    "options",
    [
        ["--kernel", "laplace"],
        ["--kernel", "l1-laplace", "--bandwidth", "4"],
        ["--kernel", "lpq-laplace", "-p", "1.5", "-q", "0.8"],
        ["--kernel", "product-laplace", "-q", "1.2"],
        ["--kernel", "gaussian", "-r", "0.01"],
        ["--dtype", "f64"],
        ["--solver", "cg", "--tolerance", "1e-6"],
        ["--solver", "cholesky"],
        ["--leaf-rows", "60"],
        ["--leaf-rows", "60", "--trees", "2", "--temperature", "0.2"],
        ["--iterations", "2", "--metric", "diagonal", "--metric-power", "0.5"],
        ["--iterations", "2", "--metric", "full", "--validation", "0.3"],
        ["--iterations", "2", "--metric-rows", "60"],
        ["--transform", "none"],
        ["--memory", "0.5"],
        ["--auto", "--time-limit", "2"],
    ],
    ids=" ".join,
)
def test_hyperparameters(tmp_path, options):
    data = simple(tmp_path / "t.csv", rows=200)
    report = gram_json(
        *["fit", data, "-y", "y", "-o", tmp_path / "m", "--holdout", "0.3", "--ignore"],
        *["weight,label", *options],
    )
    assert report["r2"] > 0.6
    assert gram_json("score", tmp_path / "m", data)["r2"] > 0.6


def test_models_that_are_none(letters, tmp_path):
    folder, _, _ = letters
    model = (folder / "model").read_bytes()
    bad = tmp_path / "bad"
    for content in (
        b"",
        b"x",
        model[:8],
        model[: len(model) // 2],
        model[:-1],
        model + b"x",
        b"\xff" * 8 + model[8:],
        model[:8] + b"[" + model[9:],
    ):
        bad.write_bytes(content)
        for command in (["predict", bad, folder / "test.csv"], ["importance", bad]):
            assert str(bad) in refusal(*command, status=BAD_DATA)
    for command in (["predict", "nope", folder / "test.csv"], ["importance", "nope"]):
        assert "cannot open nope: No such file" in refusal(*command, status=NO_INPUT, cwd=tmp_path)
