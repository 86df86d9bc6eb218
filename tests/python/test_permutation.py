"""test_permutation.py - gram importance --permutation, and Machine.permutation_importance"""

import gram as library
import numpy as np
import pytest
from gram_cli import USAGE, gram, gram_json, refusal, rows_of, write_rows

FAST = ["--iterations", "0", "--threads", "1"]


def rows(seed, count):
    """The target depends on a, kind, day and whether b is missing, and not on noise or same."""
    generator = np.random.default_rng(seed)
    effect = {"u": 0.0, "v": 2.0, "w": -1.5}
    lines = [["a", "b", "kind", "day", "noise", "same", "y"]]
    for _ in range(count):
        a, b, noise = generator.normal(size=3).round(4)
        kind = "uvw"[int(generator.integers(3))]
        month = int(generator.integers(1, 10))
        gone = generator.random() < 0.3
        y = 2 * a + effect[kind] + 0.3 * month + (1.5 if gone else 0)
        lines.append([a, "" if gone else b, kind, f"2024-0{month}-11", noise, 7, y.round(4)])
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permutation")
    write_rows(folder / "t.csv", rows(1, 300))
    write_rows(folder / "h.csv", rows(2, 150))
    gram("fit", "t.csv", "-y", "y", "-o", "m.gram", *FAST, cwd=folder)
    return folder


def permuted(folder, *arguments, data="h.csv"):
    command = ["importance", "m.gram", data, "--permutation", *arguments]
    return gram_json(*command, cwd=folder)["permutation"]


def test_what_matters_and_what_does_not(folder):
    found = permuted(folder)
    score = gram_json("score", "m.gram", "h.csv", cwd=folder)
    assert (found["metric"], found["repeats"], found["rows"]) == ("rmse", 5, 150)
    assert found["error"] == pytest.approx(score["score"], rel=1e-12)
    mean = {name: one["mean"] for name, one in found["increase"].items()}
    assert list(mean) == sorted(mean, key=lambda name: -mean[name])
    assert list(mean)[0] == "a" and mean["same"] == 0
    assert min(mean[name] for name in ("a", "b", "kind", "day")) > 0.1 > abs(mean["noise"])
    assert all(one["deviation"] > 0 for name, one in found["increase"].items() if name != "same")


def test_it_is_the_score_of_a_shuffled_file(folder):
    """The expectation of the increase is that of files in which a column is shuffled whole."""
    lines = rows_of((folder / "h.csv").read_text())
    generator = np.random.default_rng(3)
    errors = []
    for _ in range(40):
        order = generator.permutation(len(lines) - 1)
        mixed = [row[:] for row in lines]
        for i, k in enumerate(order):
            mixed[1 + i][2] = lines[1 + k][2]
        write_rows(folder / "mixed.csv", mixed)
        errors.append(gram_json("score", "m.gram", "mixed.csv", cwd=folder)["score"])
    found = permuted(folder, "--repeats", "40")
    one = found["increase"]["kind"]
    spread = np.hypot(one["deviation"], np.std(errors)) / 40**0.5
    assert abs(np.mean(errors) - found["error"] - one["mean"]) < 4 * spread
    assert one["deviation"] == pytest.approx(np.std(errors, ddof=1), rel=0.5)


def test_seeds_outputs_and_which_is_which(folder):
    assert permuted(folder) == permuted(folder, "--seed", "0")
    assert permuted(folder) != permuted(folder, "--seed", "1")
    assert permuted(folder, "--repeats", "1")["increase"]["a"]["deviation"] is None
    command = ["importance", "m.gram", "h.csv", "--permutation", "--threads", "1"]
    text = gram(*command, "--top", "3", cwd=folder).splitlines()
    assert text[0].startswith("increase of the rmse of ") and "on 150 rows" in text[0]
    assert text[1].split()[-1] == "a" and text[4] == "  and 3 more"
    assert text[5] == "share of the squared gradient of the predictions:"
    gram(*command, "-o", "p.csv", cwd=folder)
    table = rows_of((folder / "p.csv").read_text())
    assert table[0] == ["feature", "importance", "increase", "deviation"] and len(table) == 7
    share = gram_json("importance", "m.gram", cwd=folder)["importance"]
    found = permuted(folder, "--threads", "1")
    for name, importance, increase, deviation in table[1:]:
        assert float(importance) == share[name]
        assert float(increase) == found["increase"][name]["mean"]
        assert float(deviation) == found["increase"][name]["deviation"]


def test_classes_and_missing_targets(tmp_path):
    for seed, name in ((4, "t.csv"), (5, "h.csv")):
        lines = rows(seed, 200)
        for i, line in enumerate(lines[1:]):
            line[6] = "" if i % 10 == 0 else "high" if line[6] > 1.5 else "low"
        write_rows(tmp_path / name, lines)
    gram("fit", "t.csv", "-y", "y", "-o", "m.gram", *FAST, cwd=tmp_path)
    found = permuted(tmp_path)
    assert (found["metric"], found["rows"]) == ("log_loss", 180)
    assert next(iter(found["increase"])) == "a"
    machine = library.Machine.load(tmp_path / "m.gram")
    columns = {name: [line[i] for line in lines[1:]] for i, name in enumerate(lines[0])}
    for name in ("a", "b", "noise", "same"):
        columns[name] = [float(v) if v != "" else float("nan") for v in columns[name]]
    columns["y"] = [v or None for v in columns["y"]]
    ours = machine.permutation_importance(columns, "y")
    for name, one in found["increase"].items():
        assert ours[name].shape == (5,)
        assert ours[name].mean() == pytest.approx(one["mean"], rel=1e-9, abs=1e-12)
    with pytest.raises(ValueError, match="repeats is 0"):
        machine.permutation_importance(columns, "y", repeats=0)


def test_what_is_refused(folder):
    def said(*arguments):
        return refusal("importance", "m.gram", *arguments, cwd=folder, status=USAGE)

    assert said("--permutation") == (
        "gram importance: --permutation needs a table with the target: expected operands MODEL DATA"
    )
    assert said("h.csv").endswith("DATA is used with --permutation alone; give both or neither")
    assert said("--repeats", "3").endswith("--repeats is used with --permutation alone")
