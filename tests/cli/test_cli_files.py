"""test_cli_files.py - no file is read and written by one command, and none is written twice

COMMANDS says how each option that names an output is tried; the options themselves are taken from
the completion of the command line, so that a new one without a row here fails.
"""

import itertools
import os
import re
import shutil

import numpy as np
import pytest
from gram_cli import USAGE, gram, gram_run, refusal

# command: the inputs that it is given, and what else it needs
COMMANDS = {
    "fit": (["d.csv"], ["-y", "y", "-i", "0"]),
    "cv": (["d.csv"], ["-y", "y", "-i", "0", "-k", "2"]),
    "predict": (["m.gram", "d.csv"], []),
    "score": (["m.gram", "d.csv"], []),
    "importance": (["m.gram"], []),
    "cdist": (["a.csv", "b.csv"], []),
    "nearest": (["a.csv", "b.csv"], ["-k", "1"]),
    "kernel": (["a.csv", "b.csv"], ["-L", "1"]),
    "krr": (["a.csv", "b.csv"], ["-r", "1"]),
    "solve": (["a.csv", "b.csv"], []),
    "power": (["a.csv"], ["-p", "2"]),
    "kron": (["a.csv", "b.csv"], []),
    "bench": (["eigh", "@problems.svg"], ["--seconds", "0.01"]),
    "profile": (["cdist", "@problems.svg"], []),
}
# What is written where PREFIX or NAME is given instead of a file.
DERIVED = {"eigh": "--output"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "d.csv").write_text("a,y\n" + "".join(f"{i},{i * i % 7}\n" for i in range(12)))
    (folder / "a.csv").write_text("4,1\n1,3\n")
    (folder / "b.csv").write_text("4,2\n1,3\n")
    (folder / "problems.svg").write_text("4 4 4\n")
    gram("fit", folder / "d.csv", "-y", "y", "-o", folder / "m.gram", "-i", "0")
    return folder


INPUTS = {("cdist", "--weights"), ("nearest", "--weights")}  # files that are read


def output_options():
    """(command, option) of every option whose value is completed as a path to write."""
    script = gram("help", "--completion", "bash")
    return {
        (command, option)
        for line in script.splitlines()
        if line.endswith("_gram_files; return ;;")
        for command, option in re.findall(r"(\w+):(--[a-z-]+)", line)
    } - INPUTS


PAIRS = sorted(output_options())


def test_every_output_is_tried():
    assert {command for command, _ in PAIRS} == set(COMMANDS)
    assert len(PAIRS) >= 13


def names_of(name, folder):
    """Names by which a file of the folder goes."""
    soft, hard = f"soft-{name}", f"hard-{name}"
    (folder / soft).symlink_to(name)
    os.link(folder / name, folder / hard)
    (folder / "there").symlink_to(".")
    return [name, f"./{name}", folder / name, soft, hard, f"there/{name}", f"there/there/{name}"]


@pytest.mark.parametrize("command,option", PAIRS)
def test_an_output_is_no_input(command, option, inputs, tmp_path):
    operands, more = COMMANDS[command]
    for which in operands:
        name = which.lstrip("@")
        if not (inputs / name).exists():
            continue
        folder = shutil.copytree(inputs, tmp_path / f"{name}-folder")
        required = ["-o", "other"] if command == "fit" and option != "--output" else []
        for output in names_of(name, folder):
            arguments = [command, *operands, *more, *required, option, output]
            said = refusal(*arguments, status=USAGE, cwd=folder)
            assert said == f"gram {command}: {option} is {output}, which is an input"
        assert (folder / name).read_bytes() == (inputs / name).read_bytes()
        assert not (folder / "other").exists()


def test_two_outputs_are_two_files(inputs, tmp_path):
    by_command = itertools.groupby(PAIRS, key=lambda pair: pair[0])
    tried = 0
    for command, pairs in by_command:
        operands, more = COMMANDS[command]
        for (_, one), (_, other) in itertools.combinations(list(pairs), 2):
            folder = shutil.copytree(inputs, tmp_path / f"{command}{one}{other}")
            (folder / "there").symlink_to(".")
            (folder / "dangling").symlink_to("there/new")
            for name in ("new", "./new", "there/new", folder / "new", "dangling"):
                said = refusal(
                    *[command, *operands, *more, one, "new", other, name], status=USAGE, cwd=folder
                )
                assert re.search(r"--[a-z]+ is .*, which --[a-z]+ also writes", said)
            assert not (folder / "new").exists()
            tried += 1
    assert tried >= 3


def test_files_made_from_a_prefix(inputs, tmp_path):
    folder = shutil.copytree(inputs, tmp_path / "e")
    np.save(folder / "e-values.npy", np.eye(2))
    said = refusal("eigh", "e-values.npy", "-o", "e", status=USAGE, cwd=folder)
    assert said == "gram eigh: --output is e-values.npy, which is an input"
    (folder / "e-values.npy").rename(folder / "e-vectors.npy")
    refusal("eigh", "e-vectors.npy", "-o", "./e", status=USAGE, cwd=folder)
    assert np.array_equal(np.load(folder / "e-vectors.npy"), np.eye(2))
    (folder / "problems.csv").symlink_to("curve.csv")
    said = refusal(
        *["bench", "eigh", "@problems.csv", "--curve", "./curve.csv"], status=USAGE, cwd=folder
    )
    assert "which is an input" in said


def test_standard_streams_are_files_too(inputs, tmp_path):
    folder = shutil.copytree(inputs, tmp_path / "s")
    with open(folder / "a.csv", encoding="ascii") as file:
        said = refusal("cdist", "-", "-o", "a.csv", status=USAGE, cwd=folder, stdin=file)
    assert said == "gram cdist: --output is a.csv, which is an input"
    with open(folder / "a.csv", "a", encoding="ascii") as file:
        said = refusal("cdist", "a.csv", status=USAGE, cwd=folder, stdout=file)
    assert said == "gram cdist: --output is standard output, which is an input"
    assert (folder / "a.csv").read_bytes() == (inputs / "a.csv").read_bytes()


def test_what_is_no_file_is_written_as_often_as_wanted(inputs):
    gram_run(
        *["solve", inputs / "a.csv", inputs / "b.csv", "-o", "/dev/null", "--report", "/dev/null"]
    )
    assert gram("cdist", inputs / "a.csv", inputs / "a.csv").count("\n") == 2
