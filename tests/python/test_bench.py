"""test_bench.py - bench/compare.py on tiny problems: every row that needs NumPy and SciPy alone

No time is asserted, only that each contender runs and gives what the row's check takes as right.
"""

import json
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
