"""test_bench.py - bench/compare.py on tiny problems: every row that needs NumPy and SciPy alone

No time is asserted, only that each contender runs and gives what the row's check takes as right.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("scipy")

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
DRIVER = SOURCE / "bench" / "compare.py"
SUBJECTS = ["cdist", "kernel", "gradients", "solve", "power", "products", "eigh", "kron",
            "kron_vjp", "kron_solve", "batches", "layers", "kfac"]  # fmt: skip
# By products of matrices points that are near each other get wrong distances, which the row shows.
KNOWN_WRONG = "NumPy, by products"


def compare(*arguments, status=0):
    done = subprocess.run([sys.executable, DRIVER, *map(str, arguments)], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def library():
    """build/libgram.so of the package that the tests import."""
    import gram

    return pathlib.Path(gram.__file__).parents[2] / "libgram.so"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_row_runs_and_is_right(subject, tmp_path):
    out = tmp_path / "out.json"
    done = compare(subject, "--tiny", "--rounds", 1, "--threads", 1, "--library", library(),
                   "--peers", "numpy", "scipy", "--out", out)  # fmt: skip
    report = json.loads(out.read_text())
    listed = compare(subject, "--list").stdout.splitlines()
    assert len(report["rows"]) == len(listed), done.stderr
    for row in report["rows"]:
        assert row["contenders"], row["work"]
        for name, found in row["contenders"].items():
            assert "failed" not in found, (row["work"], name, found)
            assert not found["wrong"] or name == KNOWN_WRONG, (row["work"], name, found["error"])
            assert found["seconds"] >= 0


def test_report_names_machine_code_and_what_is_left_out(tmp_path):
    out = tmp_path / "out.md"
    text = compare("cdist", "--rows", "p = 0$", "--tiny", "--rounds", 1, "--peers", "scipy",
                   "nothing_of_this_name", "--out", out).stdout  # fmt: skip
    assert re.search(r"^# cdist: .+ processors; tiny problems$", text, re.MULTILINE)
    assert "libgram" in text and "scipy" in text and "Left out: nothing_of_this_name" in text
    assert out.read_text().splitlines()[0] == text.splitlines()[0]
    lines = [line for line in text.splitlines() if line.startswith("| cdist of 64 features")]
    assert [line.split("|")[2].strip() for line in lines] == ["gram", "SciPy"]


def test_contenders_run_in_processes_of_their_own():
    text = compare("eigh", "--rows", "^three orders$", "--tiny", "--rounds", 2, "--apart",
                   "--peers", "none").stdout  # fmt: skip
    line = text.splitlines()[-1]
    assert line.startswith("| three orders | gram |") and "MiB" in line


def test_several_numbers_of_threads_and_other_parameters():
    text = compare("eigh", "--rows", "^all pairs$", "--rounds", 1, "--threads", 1, 2, "--set",
                   "n=12", "--peers", "none").stdout  # fmt: skip
    assert "| gram, 1 threads |" in text and "| gram, 2 threads |" in text


def test_unknown_subjects_are_named():
    done = compare("cdist", "no-such-thing", status=1)
    assert "no subject no-such-thing; there are" in done.stderr


def test_every_function_of_the_package_has_a_row_or_a_reason():
    pytest.importorskip("torch")  # gram.compat.torch takes it
    compare("--coverage")


# ---- The battery of tables ----------------------------------------------------------------------

BATTERY = SOURCE / "bench" / "battery"
DIGESTS = """
import sys; sys.path.insert(0, sys.argv[1])
from battery import tables
names = [name for name in tables.TABLES if not name.startswith("rows-1e6")]
print("\\n".join(tables.make(name, int(sys.argv[2])).digest() for name in names))
"""


def battery(program, *arguments, status=0):
    done = subprocess.run([sys.executable, BATTERY / program, *map(str, arguments)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def battery_modules(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(str(SOURCE / "bench"))
    from battery import contenders, scores, tables

    return contenders, scores, tables


def digests(seed, hash_seed):
    done = subprocess.run([sys.executable, "-c", DIGESTS, SOURCE / "bench", str(seed)], check=True,
                          env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True,
                          text=True)  # fmt: skip
    return done.stdout.split()


def test_tables_of_the_battery_are_the_same_bytes_from_the_same_seed():
    pytest.importorskip("pandas")
    first = digests(0, "1")
    assert len(first) == len(set(first)) > 18
    assert digests(0, "2") == first
    changed = [a != b for a, b in zip(first, digests(1, "1"), strict=True)]
    assert changed == [False] * 6 + [True] * (len(first) - 6)  # six tables are real


def test_splits_of_the_battery_are_fixed_and_apart(battery_modules):
    _, _, tables = battery_modules
    table = tables.make("wine")
    learned, tested = table.split(0)
    assert sorted([*learned, *tested]) == list(range(178)) and len(tested) == 44
    assert (table.split(0)[1] == tested).all() and not (table.split(1)[1] == tested).all()
    assert [len(rows) for rows in table.split(2, most=40)] == [30, 10]


def test_scores_of_the_battery_are_those_of_their_formulas(battery_modules):
    _, scores, _ = battery_modules
    y = pytest.importorskip("numpy").array([1.0, 2.0, 3.0, 6.0])
    assert scores.score(y, y.mean() + 0 * y, 0) == {"error": pytest.approx(1)}
    found = scores.score(y[:2].astype(int) - 1, [[0.8, 0.2], [0.6, 0.4]], 2)
    assert found["error"] == 0.5
    assert found["log_loss"] == pytest.approx(-(0.5 * (math.log(0.8) + math.log(0.4))))
    assert found["calibration"] == pytest.approx((0.2 + 0.6) / 2)
    with pytest.raises(ValueError, match="expected finite"):
        scores.score(y, y * math.nan, 0)


def test_battery_measures_gram_and_goes_on(tmp_path):
    pytest.importorskip("pandas")
    out = tmp_path / "out.jsonl"
    arguments = [out, "--tables", "wine", "diabetes", "--rows", 60, "--contenders", "gram",
                 "--threads", 1, "--library", library()]  # fmt: skip
    battery("run.py", *arguments, "--splits", 0)
    lines = out.read_text().splitlines()
    about, *found = map(json.loads, lines)
    assert about["machine"]["threads"] == 1
    assert [(f["table"], f["split"], f["learned"], f["tested"]) for f in found] == [
        ("wine", 0, 45, 15), ("diabetes", 0, 45, 15)]  # fmt: skip
    assert found[0]["error"] < 0.3 and found[1]["error"] < 1.1
    out.write_text("\n".join([*lines, '{"table": "di']))  # stopped within a line
    battery("run.py", *arguments, "--splits", 0, 1)
    again = out.read_text().splitlines()
    assert again[: len(lines)] == lines
    assert [json.loads(line)["split"] for line in again[len(lines) + 1 :]] == [1, 1]
    assert "no table nothing; there are" in battery("run.py", out, "--tables", "nothing",
                                                    status=1).stderr  # fmt: skip


def test_contender_of_the_battery_is_gram_fit(battery_modules, tmp_path):
    import numpy as np

    contenders, _, tables = battery_modules
    battery("run.py", "--write", tmp_path, "--tables", "wine", "categories")
    for name in ("wine", "categories"):
        table = tables.make(name)
        rows = slice(0, 400)
        task = contenders.Task(table.x[rows], table.y[rows], table.classes, 1, 1.0, 0)
        ours = contenders.CONTENDERS["gram"][1](task)(table.x[400 if name != "wine" else 0 :][:50])
        text = (tmp_path / f"{name}.csv").read_text().splitlines()
        train, test, model = (tmp_path / n for n in ("train.csv", "test.csv", "model.gram"))
        train.write_text("\n".join(text[:401]) + "\n")
        first = 401 if name != "wine" else 1
        test.write_text("\n".join([text[0], *text[first : first + 50]]) + "\n")
        gram = library().parent / "gram"
        subprocess.run([gram, "fit", train, "-y", "target", "-o", model, "-t", "1"], check=True,
                       capture_output=True)  # fmt: skip
        proba = ["--proba"] if table.classes else []
        subprocess.run([gram, "predict", model, test, *proba, "-o", tmp_path / "out.npy"],
                       check=True)  # fmt: skip
        theirs = np.load(tmp_path / "out.npy")
        np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=1e-4, atol=1e-4)


def result(table, contender, split, error, **more):
    return {"table": table, "contender": contender, "rows": None, "seconds": None, "threads": 1,
            "split": split, "learned": 75, "tested": 25, "columns": 3, "classes": 0,
            "error": error, "fit": 9.0, "processor": 2.0, "predict": 0.1} | more  # fmt: skip


CLASSES = {"classes": 2, "log_loss": 0.5, "calibration": 0.125}
LINES = [
    *(result("sums", "gram", split, 0.3) for split in (0, 1, 2)),
    *(result("sums", "lightgbm", split, 0.2 + 0.1 * split) for split in (0, 1)),  # no third one
    *(result("sums", "catboost", split, 0.5, processor=8.0) for split in (0, 1)),
    result("kinds", "gram", 0, 0.9, **CLASSES),
    result("kinds", "gram", 0, 0.08, **CLASSES),  # measured again
    result("kinds", "lightgbm", 0, 0.0, **CLASSES),
    {"table": "kinds", "contender": "catboost", "rows": None, "seconds": None, "threads": 1,
     "split": 0, "failed": "more than 9 s"},
]  # fmt: skip


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_report_of_the_battery_has_means_ratios_and_losses(tmp_path):
    text = battery("report.py", write_lines(tmp_path / "a.jsonl", LINES)).stdout.splitlines()
    assert "| table | `gram fit` | LightGBM | CatBoost |" in text
    assert "| sums | .3000 | **.2500** | .5000 |" in text
    assert "| kinds | .0800 | **.0000** | failed |" in text
    # No error in 25 rows counts as 0.02: sqrt(1.2 * 4); sqrt(1 * 1); 2.
    assert "| `gram fit` | 2.191 | 2 of 2 | 2 |" in text
    assert "| LightGBM | 1.000 | 0 of 2 | 2 |" in text
    assert "| CatBoost | 2.000 | 1 of 1 | 8 |" in text
    worst = text.index("## What `gram fit` loses") + 4
    assert text[worst] == "| kinds | .0800 | .0000 | LightGBM | 4.00 |"
    assert text[worst + 1] == "| sums | .3000 | .2500 | LightGBM | 1.20 |"
    assert "| kinds | **.1250** | **.1250** | failed |" in text
    assert "| kinds | CatBoost | more than 9 s |" in text
    assert "| sums | a regression | 75 | 3 | 2 |" in text


def test_report_of_the_battery_sets_an_earlier_state_beside(tmp_path):
    before = write_lines(tmp_path / "a.jsonl", LINES)
    now = write_lines(tmp_path / "b.jsonl", [result("sums", "gram", 0, 0.15)])
    text = battery("report.py", now, "--before", before).stdout
    assert "| sums, `gram fit` | .3000 | .1500 | 0.500 |" in text
    assert "| geometric mean, `gram fit` |  |  | 0.500 |" in text
    empty = write_lines(tmp_path / "c.jsonl", [])
    assert "no results in" in battery("report.py", empty, status=1).stderr


def test_report_of_the_battery_says_where_the_search_is_worse_than_plain_fits(tmp_path):
    found = [result(table, who, 0, error, seconds=8.0 if who == "gram-auto" else None)
             for table, *errors in (("a", 0.5, 0.4, 0.5), ("b", 0.5, 0.6, 0.505))
             for who, error in zip(("gram", "gram-3-rounds", "gram-auto"), errors, strict=True)
             ]  # fmt: skip
    text = battery("report.py", write_lines(tmp_path / "a.jsonl", found)).stdout
    start = text.index("## Where `--auto` is worse than plain fits")
    part = text[start:].split("\n## ")[0]
    assert "| a | .5000 | .4000 | `--iterations 3` | 1.25 |" in part and "| b |" not in part


def test_picture_of_the_battery(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "a.svg"
    battery("report.py", write_lines(tmp_path / "a.jsonl", LINES), "--picture", picture,
            "--out", tmp_path / "a.md")  # fmt: skip
    assert "LightGBM" in picture.read_text() and "a.svg" in (tmp_path / "a.md").read_text()
