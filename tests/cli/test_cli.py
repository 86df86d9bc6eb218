"""test_cli.py - help, the manual page, completion, wrong usage and exit statuses"""

import json
import os
import re
import shutil
import subprocess

import pytest
from gram_cli import FAILURE, GRAM, NO_INPUT, USAGE, gram, gram_json, gram_run, refusal

COMMANDS = (
    "fit cv predict score importance cdist nearest kernel krr solve eigh power kron info cache "
    "tune check bench profile help"
).split()


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def test_version():
    assert re.fullmatch(r"gram \d+\.\d+\.\d+ \(libgram \d+\.\d+\.\d+\)\n", gram("--version"))


def test_help_lists_every_command():
    text = gram("--help")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", text, re.M)
    assert gram("help") == text == gram("-h")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    text = gram(command, "--help")
    assert text.startswith(f"usage: gram {command} ") and "  " not in text.splitlines()[0]
    assert gram("help", command) == text
    assert max(map(len, text.splitlines())) <= 79
    for line in re.findall(r"^  (gram .*)$", text, re.M):  # the examples use options that exist
        assert options_in(line) <= options_in(gram(line.split()[1], "--help"))


def test_exit_statuses_are_listed():
    text = gram("--help")
    for status in (0, 1, 2, 65, 66, 69, 71, 73, 74, 130, 143):
        assert re.search(rf"^ +{status}  \S", text, re.M)


def test_manual_has_every_option():
    page = gram("help", "--man")
    assert page.startswith(".TH GRAM 1")
    plain = page.replace("\\-", "-")
    for command in COMMANDS:
        assert f'.SS "gram {command}"' in page
        assert options_in(gram(command, "--help")) <= options_in(re.sub(r"\\f[BRI]", " ", plain))


def test_manual_is_accepted_by_groff():
    groff = shutil.which("groff")
    if not groff:
        pytest.skip("no groff")
    done = subprocess.run(
        [groff, "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=100n"],
        input=gram("help", "--man"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not [line for line in done.stderr.splitlines() if "adjust line" not in line]
    assert "EXIT STATUS" in done.stdout


def complete(*words):
    """What bash offers for the last word."""
    script = gram("help", "--completion", "bash") + (
        f"COMP_WORDS=(gram {' '.join(map(repr, words))}); COMP_CWORD={len(words)}\n"
        '_gram; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_completion_bash():
    assert complete("") == {*COMMANDS, "--help", "--version"}
    assert complete("im") == {"importance"}
    assert complete("fit", "--tar") == {"--target"}
    assert options_in(gram("kernel", "--help")) <= complete("kernel", "--") | {"--p"}
    assert complete("kernel", "x", "--kernel", "mat") == {"matern32", "matern52"}
    assert complete("kernel", "x", "-k", "lin") == {"linear"}
    assert {"cdist", "kernel"} <= complete("bench", "")
    assert not complete("fit", "--seed", "")


def test_completion_offers_files(tmp_path, monkeypatch):
    (tmp_path / "points.csv").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    assert complete("cdist", "poi") == {"points.csv"}
    assert complete("fit", "x.csv", "-o", "poi") == {"points.csv"}


def test_completion_offers_columns(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text('size,"of two, words",price\n1,2,3\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{os.path.dirname(GRAM)}:{os.environ['PATH']}")
    assert complete("fit", "t.csv", "-y", "p") == {"price"}
    assert complete("fit", "t.csv", "--weights", "s") == {"size"}
    assert complete("fit", "t.csv", "--ignore", "size,p") == {"size,price"}
    quoted = {"of\\", "two\\,\\", "words"}  # one word for bash, which complete() splits
    assert complete("fit", "t.csv", "--target", "of") == quoted
    assert not complete("fit", "nowhere.csv", "--target", "")
    assert gram("help", "--columns", "t.csv").splitlines() == ["size", "of two, words", "price"]
    refusal("help", "--columns", "nowhere.csv", status=NO_INPUT)


def fish_completions(folder, *words):
    """What fish offers for the last word."""
    script = folder / "gram.fish"
    script.write_text(gram("help", "--completion", "fish"))
    line = f"source {script}; complete -C 'gram {' '.join(words)}'"
    done = subprocess.run(
        [shutil.which("fish"), "--no-config", "-c", line],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert not done.stderr
    return {offer.split("\t")[0] for offer in done.stdout.splitlines()}


def test_completion_fish():
    script = gram("help", "--completion", "fish")
    for command in COMMANDS:
        rows = re.findall(rf"^complete -c gram -n '__gram_is {command}' (.*)$", script, re.M)
        assert {f"--{row.split()[1]}" for row in rows} >= options_in(gram(command, "--help")) - {
            "--p" if command == "tune" else ""
        }
    # Every explanation is one quoted word.
    for line in script.splitlines():
        if line.startswith("complete"):
            assert len(re.findall(r"(?<!\\)'", line)) % 2 == 0


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
def test_completion_fish_in_fish(tmp_path):
    (tmp_path / "points.csv").write_text("1\n")
    (tmp_path / "gram.fish").write_text(gram("help", "--completion", "fish"))
    subprocess.run([shutil.which("fish"), "-n", tmp_path / "gram.fish"], check=True)
    assert fish_completions(tmp_path, "") == {*COMMANDS}
    assert fish_completions(tmp_path, "im") == {"importance"}
    assert fish_completions(tmp_path, "fit", "--tar") == {"--target"}
    assert fish_completions(tmp_path, "kernel", "x", "-k", "mat") == {"matern32", "matern52"}
    assert {"cdist", "kernel"} <= fish_completions(tmp_path, "bench", "")
    assert fish_completions(tmp_path, "bench", "cdist", "--form") == set()
    assert "points.csv" in fish_completions(tmp_path, "cdist", "poi")
    assert "points.csv" in fish_completions(tmp_path, "fit", "x.csv", "-o", "poi")


def test_completion_zsh():
    script = gram("help", "--completion", "zsh")
    assert script.startswith("#compdef gram\n")
    zsh = shutil.which("zsh")
    if zsh:
        subprocess.run([zsh, "-n"], input=script, text=True, check=True)
    for command in COMMANDS:
        found = re.search(rf"^    {command}\) _arguments(.*?);;$", script, re.M | re.S)
        assert options_in(gram(command, "--help")) <= options_in(found.group(1))


WRONG = [
    (["fti"], 'unknown command "fti"; did you mean gram fit? (see gram --help)'),
    (["Kernle"], 'unknown command "Kernle"; did you mean gram kernel? (see gram --help)'),
    (["frobnicate"], 'unknown command "frobnicate" (see gram --help)'),
    (["--fit"], 'unknown command "--fit"'),
    (["help", "fti"], 'unknown command "fti"; did you mean gram fit? (see gram --help)'),
    (["fit"], "expected DATA, got 0 operands (see gram fit --help)"),
    (["predict", "m"], "expected MODEL DATA, got 1 operand"),
    (["info", "x", "y"], "expected [MODEL], got 2 operands"),
    (["cdist", "a", "b", "c"], "expected X [Y], got 3 operands"),
    (["cdist", "-", "-"], "standard input (-) can be read only once"),
    (["cdist", "x", "--nope"], "unknown option --nope (see gram cdist --help)"),
    (["cdist", "x", "-z"], "unknown option -z (see gram cdist --help)"),
    (["fit", "--traget", "y"], "unknown option --traget; did you mean --target? (see gram fit"),
    (["fit", "--Targte=y"], "unknown option --Targte; did you mean --target? (see gram fit"),
    (["fit", "--metric-", "y"], "--metric- could be --metric-power or --metric-rows"),
    (["cdist", "x", "--json=yes"], "--json takes no value"),
    (["info", "--threads", "2"], "unknown option --threads (see gram info --help)"),
    (["info", "m", "-t", "2"], "unknown option -t (see gram info --help)"),
    (["help", "--progress", "never"], "unknown option --progress (see gram help --help)"),
    (["cdist", "x", "--progress", "never"], "unknown option --progress (see gram cdist --help)"),
    (["cdist", "x", "--dtype"], "--dtype needs a value"),
    (["cdist", "x", "-p"], "-p needs a value"),
    (["cdist", "x", "-p", "two"], '--p is "two", which is not a number'),
    (["cdist", "x", "-p", "-1"], "--p is -1, expected a number from 0 to inf"),
    (["cdist", "x", "-p", "nan"], '--p is "nan", which is not a number'),
    (["cdist", "x", "--dtype", "f16"], '--dtype is "f16", expected one of auto|f32|f64'),
    (["cdist", "x", "--threads", "0"], "--threads is 0, expected a whole number from 1 to 1024"),
    (["cdist", "x", "-t", "1025"], "--threads is 1025, expected a whole number from 1 to 1024"),
    (["cdist", "x", "--threads", "1.5"], '--threads is "1.5", which is not a whole number'),
    (["cdist", "x", "--delimiter", "ab"], '--delimiter is "ab", expected one character'),
    (["cdist", "x", "--delimiter", "1"], '--delimiter is "1", expected one character'),
    (["kernel", "x", "--kernel", "rbf"], '--kernel is "rbf", expected one of laplace|'),
    (["kernel", "x", "-L", "0"], "--bandwidth is 0, expected"),
    (["kernel", "x", "-e", "s", "--param", "a"], '--param is "a", expected a name, = and a number'),
    (["kernel", "x", "-e", "s", "--param", "a=b"], '--param is "a=b", expected a name, = and'),
    (["kernel", "x", "--param", "a=1"], "--param is given without --expression"),
    (["kernel", "x", "-k", "laplace", "-e", "s"], "--kernel and --expression are given, expected"),
    (["kernel", "x", "-e", "s"] + 9 * ["--param", "a=1"], '--param "a=1" is one too many'),
    (["fit", "x.csv", "-o", "m"], "--target is missing"),
    (["fit", "x.csv", "--target", "y"], "--output is missing"),
    (["fit", "x.csv", "--target", "y", "-o", "-"], "--output is -, expected a file"),
    (["fit", "x.csv", "--target", "y", "-o", "m", "--holdout", "1"], "--holdout is 1, expected"),
    (["fit", "x.csv", "--target", "y", "-o", "m", "--seed", "-3"], "--seed is -3, expected"),
    (
        ["fit", "x.csv", "-y", "y", "-o", "m", "--kernel", "gaussian", "-p", "1"],
        "--kernel determines --p and --exponent",
    ),
    (
        ["fit", "x.csv", "-y", "y", "-o", "m", "-p", "1", "-q", "1.5"],
        "--exponent is 1.5, expected at most --p, which is 1",
    ),
]


@pytest.mark.parametrize("arguments,message", WRONG, ids=lambda x: " ".join(x))
def test_wrong_usage(arguments, message, tmp_path):
    said = refusal(*arguments, status=USAGE, cwd=tmp_path)
    assert said.startswith("gram") and message in said
    assert not list(tmp_path.iterdir())


def test_options_may_be_shortened_and_come_anywhere(tmp_path):
    (tmp_path / "x.csv").write_text("0,0\n3,4\n")
    for arguments in (["x.csv", "-p1"], ["--p=1", "x.csv"], ["-p", "1", "--form", "csv", "x.csv"]):
        assert gram("cdist", *arguments, cwd=tmp_path) == "0,7\n7,0\n"
    (tmp_path / "-x").write_text("0,0\n3,4\n")
    assert gram("cdist", "-p1", "--", "-x", cwd=tmp_path) == "0,7\n7,0\n"


def test_gram_alone_prints_help():
    done = gram_run(status=USAGE)
    assert done.stdout == "" and done.stderr == gram("--help")


def test_info(monkeypatch):
    monkeypatch.setenv("GRAM_NUM_THREADS", "1")
    info = gram_json("info")
    assert info["isa"] in info["isas"] and "base" in info["isas"]
    assert info["threads"] == 1 and info["blas"]
    assert 0 < info["memory_available"] <= info["memory_total"]
    text = gram("info")
    assert info["isa"] in text and info["blas"] in text
    assert ("slow: " in text) == bool(info["blas_slow"])


def test_info_names_a_slow_blas():
    few, many = (
        json.loads(gram("info", "--json", env=os.environ | {"GRAM_NUM_THREADS": count}))
        for count in ("1", "16")
    )
    release = re.match(r"OpenBLAS (\d+)\.(\d+)\.(\d+)", many["blas"])
    old = release is not None and tuple(map(int, release.groups())) < (0, 3, 26)
    always = many["blas"] == "BLAS" or "OPENBLAS_CORETYPE" in (few["blas_slow"] or "")
    assert bool(many["blas_slow"]) == (old or always)
    assert bool(few["blas_slow"]) == always


def test_info_names_kernels_of_an_older_processor():
    # What OpenBLAS 0.3.21 takes by itself on a Xeon whose model a hypervisor hides.
    environment = os.environ | {"GRAM_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Prescott"}
    info = json.loads(gram("info", "--json", env=environment))
    if " Prescott" not in info["blas"] or "avx2" not in info["isas"]:
        pytest.skip("no OpenBLAS with kernels of several processors, or none of them has FMA")
    advice = "SKYLAKEX" if "avx512" in info["isas"] else "HASWELL"
    assert f"OPENBLAS_CORETYPE={advice}" in info["blas_slow"]


def test_bench_and_check():
    timed = gram_json("bench", "cdist", 60, 50, 7, "p=1.3", "--seconds", 0.02, "--threads", 1)
    assert 0 < timed["seconds_min"] <= timed["seconds"]
    assert timed["checked"] is True and timed["threads"] == 1 and timed["isa"]
    gram_run("check", "cdist", 30, 20, 5, "p=1.3")


def test_profile_writes_a_trace(tmp_path):
    gram_run("profile", "cdist", 60, 50, 7, "--trace", tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())
    assert any(event["name"] == "cdist" and event["dur"] > 0 for event in events)


def test_harness_refuses_nonsense():
    for command in ("check", "bench", "profile"):
        done = subprocess.run([GRAM, command, "nope", "3"], capture_output=True, check=False)
        assert done.returncode in (FAILURE, USAGE) and b"nope" in done.stderr


def test_output_that_nobody_can_take():
    with open("/dev/full", "w", encoding="ascii") as full:
        for arguments in (["--help"], ["--version"], ["info"], ["help", "--man"]):
            said = refusal(*arguments, status=74, stdout=full)
            assert "cannot write standard output: No space left on device" in said
