"""test_cli_trouble.py - full disks, unwritable folders, Ctrl-C: nothing is left half-done"""

import itertools
import json
import os
import pty
import re
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from gram_cli import (
    BAD_DATA,
    USAGE,
    DATA,
    GRAM,
    INTERRUPTED,
    IO,
    NO_MEMORY,
    NO_OUTPUT,
    gram,
    gram_run,
    refusal,
    wait_for,
)

ROOT = os.geteuid() == 0
PATIENCE = 600  # seconds for a process that is about to end


@pytest.fixture
def points(tmp_path):
    """A matrix whose distances take 2 MB, in a folder that holds nothing else."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(500, 3)))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i},{i * i}\n" for i in range(40)))
    gram("fit", path, "-y", "y", "-o", path.with_name("m"), "--iterations", 0)
    return path.with_name("m"), path


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def names(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("output", ["d.npy", "d.csv", "d.json"])
def test_file_too_large(points, output):
    folder = points.parent
    (folder / output).write_text("old")
    said = refusal(
        "cdist", "x.npy", "-o", output, status=IO, cwd=folder, preexec_fn=limit_file_size
    )
    assert said == f"gram cdist: cannot write {output}: File too large"
    assert names(folder) == sorted([output, "x.npy"]) and (folder / output).read_text() == "old"


def limit_model_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))


def test_model_too_large(model, tmp_path):
    (tmp_path / "m").write_text("old")
    said = refusal(
        *["fit", model[1], "-y", "y", "-o", "m", "--iterations", "0"],
        status=IO,
        cwd=tmp_path,
        preexec_fn=limit_model_size,
    )
    assert "m: File too large" in said
    assert names(tmp_path) == ["m"] and (tmp_path / "m").read_text() == "old"


def test_full_disk(points):
    """A file system of 400 kB, in a mount namespace of its own."""
    folder = points.parent
    (folder / "disk").mkdir()
    script = (
        "mount -t tmpfs -o size=400k none disk && echo old >disk/d.npy && "
        f"{{ '{GRAM}' cdist x.npy -o disk/d.npy; echo $?; ls -A disk; cat disk/d.npy; }}"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("no mount namespaces here")
    assert done.stdout == "74\nd.npy\nold\n"
    assert done.stderr == "gram cdist: cannot write disk/d.npy: No space left on device\n"


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def test_out_of_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((30_000, 1)))
    (tmp_path / "d.npy").write_text("old")
    said = refusal(
        "cdist", "x.npy", "-o", "d.npy", status=NO_MEMORY, cwd=tmp_path, preexec_fn=limit_memory
    )
    assert said == "gram cdist: out of memory for a matrix of 30000 by 30000"
    assert names(tmp_path) == ["d.npy", "x.npy"] and (tmp_path / "d.npy").read_text() == "old"


def test_dev_full(points, model):
    folder = points.parent
    for command in (["cdist", points], ["predict", *model], ["importance", model[0]]):
        said = refusal(*command, "-o", "/dev/full", status=IO, cwd=folder)
        assert said.endswith("cannot write /dev/full: No space left on device")
        with open("/dev/full", "w", encoding="ascii") as full:
            said = refusal(*command, status=IO, stdout=full)
        assert said.endswith("cannot write standard output: No space left on device")
    said = refusal("fit", model[1], "-y", "y", "-o", "/dev/full", status=NO_OUTPUT)
    assert "/dev/full: it exists and is not a regular file" in said
    assert os.stat("/dev/full").st_rdev == os.makedev(1, 7) and names(folder) == ["x.npy"]


def test_outputs_that_cannot_be_created(points, model):
    folder = points.parent
    (folder / "dir").mkdir()
    for command in (["cdist", points], ["predict", *model], ["fit", model[1], "-y", "y"]):
        for output, reason in [
            ("no/such/folder", "No such file or directory"),
            ("dir", ""),
            ("x.npy/o", "Not a directory"),
            ("n" * 300, "File name too long"),
        ]:
            said = refusal(*command, "-o", output, status=NO_OUTPUT, cwd=folder)
            assert f"cannot create {output}: " in said and reason in said
    assert names(folder) == ["dir", "x.npy"] and not names(folder / "dir")


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_outputs_without_permission(points):
    folder = points.parent
    (folder / "o.csv").write_text("old")
    (folder / "o.csv").chmod(0o444)
    assert "Permission denied" in refusal(
        "cdist", "x.npy", "-o", "o.csv", status=NO_OUTPUT, cwd=folder
    )
    folder.chmod(0o555)
    assert "Permission denied" in refusal(
        "cdist", "x.npy", "-o", "p.csv", status=NO_OUTPUT, cwd=folder
    )
    folder.chmod(0o755)
    assert (folder / "o.csv").read_text() == "old" and names(folder) == ["o.csv", "x.npy"]


def test_replaced_files_keep_mode_and_links(points):
    folder = points.parent
    real = folder / "real.csv"
    real.write_text("old")
    real.chmod(0o640)
    (folder / "link.csv").symlink_to("real.csv")
    gram("cdist", "x.npy", "-o", "link.csv", cwd=folder)
    assert (folder / "link.csv").is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert len(real.read_text().splitlines()) == 500
    gram("cdist", "x.npy", "-o", "new.csv", cwd=folder, umask=0o027)
    assert (folder / "new.csv").stat().st_mode & 0o777 == 0o640
    assert names(folder) == ["link.csv", "new.csv", "real.csv", "x.npy"]


def test_models_and_predictions_do_not_replace_their_input(model, tmp_path):
    data = tmp_path / "t.csv"
    data.write_bytes(model[1].read_bytes())
    (tmp_path / "same.csv").symlink_to("t.csv")
    for output in (data, tmp_path / "same.csv"):
        for command in (["fit", data, "-y", "y"], ["predict", model[0], data]):
            said = refusal(*command, "-o", output, status=USAGE)
            assert f"--output is {output}, which is an input" in said
    refusal("predict", model[0], data, "-o", model[0], status=USAGE)
    assert data.read_bytes() == model[1].read_bytes()
    gram("score", model[0], data)


def test_messages_are_one_line_without_escapes(tmp_path):
    (tmp_path / "t.csv").write_text('"a\nb\x1b[31m",y\n1,2\n')
    said = refusal("fit", "t.csv", "-y", "zz", "-o", "m", status=BAD_DATA, cwd=tmp_path)
    assert "the columns are a?b?[31m, y" in said


def test_no_c1_control_reaches_the_terminal(tmp_path):
    """U+009B is ESC [ in one character; names keep all others: é, U+00A0, Ω."""
    name, shown = "a\x9b31m é\xa0Ω\x85", "a??31m é\xa0Ω??"
    rows = "".join(f"{i},c{i % 30}\x9b,{i % 3}\n" for i in range(60))
    (tmp_path / "t.csv").write_text(f"{name},b,y\n{rows}", encoding="utf-8")
    said = refusal("fit", "t.csv", "-y", "zz", "-o", "m", status=BAD_DATA, cwd=tmp_path)
    assert f"the columns are {shown}, b, y" in said
    fit = ["fit", "t.csv", "-y", "y", "-o", "m\x9bm", "--max-categories", 4, "-i", 0]
    texts = [gram(*fit, cwd=tmp_path), gram(*fit, "--json", cwd=tmp_path)]
    texts.append(gram("importance", "m\x9bm", cwd=tmp_path))
    assert not re.search("[\x7f-\x9f]", "".join(texts))
    assert shown in texts[0] and shown in texts[2] and "model written to m??m" in texts[0]
    assert name in json.loads(texts[1])["importance"]
    (tmp_path / "t.csv").write_text("x,y\n1,2\nc\x9b,3\n", encoding="utf-8")
    said = refusal("cdist", "t.csv", status=BAD_DATA, cwd=tmp_path)
    assert said == 'gram cdist: t.csv:3: column "x": "c??" is not a number'
    said = refusal("cdist", "no\x9b\udcff", status=66, cwd=tmp_path)  # \xff in the file system
    assert said.startswith("gram cdist: cannot open no???: ")


def test_a_bad_input_leaves_the_output_alone(points):
    folder = points.parent
    (folder / "bad.csv").write_text("1,2\n3\n")
    (folder / "o.csv").write_text("old")
    refusal("cdist", "bad.csv", "-o", "o.csv", status=65, cwd=folder)
    assert (folder / "o.csv").read_text() == "old"


def test_closed_standard_streams(points):
    def ends(command):
        done = subprocess.run(["sh", "-c", f"'{GRAM}' {command}"], cwd=points.parent, check=False)
        return done.returncode

    assert ends("info >&-") == IO and ends("cdist - <&-") == IO
    assert ends("cdist x.npy -o a.csv") == 0 == ends("cdist x.npy -o b.csv <&- >&- 2>&-")
    assert (points.parent / "a.csv").read_bytes() == (points.parent / "b.csv").read_bytes()
    assert ends("cdist nope.csv 2>&-") == 66


def test_closed_pipe(points):
    with subprocess.Popen(
        [GRAM, "cdist", points], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_while_writing(tmp_path, number):
    """In the middle of a temporary file of many numbers as text; of more of them if it is over
    before the signal comes."""
    for rows in (3000, 6000, 12000):
        np.save(tmp_path / "big.npy", np.random.default_rng(0).normal(size=(rows, 2)))
        (tmp_path / "d.csv").write_text("old")
        process = subprocess.Popen(
            [GRAM, "cdist", "big.npy", "-o", "d.csv"], cwd=tmp_path, stderr=subprocess.PIPE
        )
        wait_for(lambda: any(n.startswith(".gram-") for n in names(tmp_path)), process)
        process.send_signal(number)
        said = process.communicate(timeout=PATIENCE)[1]
        if process.returncode != 0:
            break
    assert process.returncode == 128 + number
    assert said == (b"\ngram: interrupted\n" if number == signal.SIGINT else b"")
    assert names(tmp_path) == ["big.npy", "d.csv"] and (tmp_path / "d.csv").read_text() == "old"


def test_ignored_signals_stay_ignored(tmp_path):
    """One signal after another from the first moment to the end."""
    np.save(tmp_path / "big.npy", np.random.default_rng(0).normal(size=(1200, 2)))
    process = subprocess.Popen(
        [GRAM, "cdist", "big.npy", "-o", "d.csv"],
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    sent = 0
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        sent += 1
        time.sleep(0.001)
    assert process.returncode == 0 and sent > 0 and "d.csv" in names(tmp_path)


class Terminal:
    """A process whose standard error is a terminal; seen is what a terminal has seen."""

    def __init__(self, arguments, folder):
        try:
            self.master, slave = pty.openpty()
        except OSError as error:
            pytest.skip(f"no terminal: {error}")
        self.seen = b""
        self.process = subprocess.Popen(
            [GRAM, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=slave,
            env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(slave)

    def read(self):
        """Whether there was more to read."""
        try:
            chunk = os.read(self.master, 4096)
        except OSError:
            chunk = b""
        self.seen += chunk
        return bool(chunk)

    def read_until(self, text):
        while text not in self.seen:
            assert self.read(), f"{text} is missing in {self.seen}"

    def end(self):
        """Reads what is left; standard output."""
        while self.read():
            pass
        os.close(self.master)
        return self.process.communicate(timeout=PATIENCE)[0]


BAR = rb"\r\[(#*)(\.*)\] +(\d+)% +(\d+):(\d\d)  ([^\x1b]*)\x1b\[K"
STOPPING = b"\r\ngram: stopping; Ctrl-C again ends at once\r\n"


def interrupted_fit(folder):
    """A search of hours, interrupted as soon as it says that it works."""
    terminal = Terminal(
        ["fit", DATA / "letters.csv", "-y", "letter", "-o", "m", "--auto", "--time-limit", "10000"],
        folder,
    )
    terminal.read_until(b"searching, ")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until(STOPPING)
    return terminal


def without_bars(seen):
    return re.sub(BAR, b"", seen).replace(b"\r\x1b[K", b"")


def test_interrupt_while_fitting(tmp_path):
    (tmp_path / "m").write_text("old")
    terminal = interrupted_fit(tmp_path)
    assert terminal.end() == b"" and terminal.process.returncode == INTERRUPTED
    said = without_bars(terminal.seen)
    assert said == STOPPING + b"gram fit: interrupted; nothing was written\r\n"
    assert names(tmp_path) == ["m"] and (tmp_path / "m").read_text() == "old"


def test_sigterm_while_fitting_ends_with_143(tmp_path):
    terminal = Terminal(
        ["fit", DATA / "letters.csv", "-y", "letter", "-o", "m", "--auto", "--time-limit", "10000"],
        tmp_path,
    )
    terminal.read_until(b"searching, ")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.end()
    assert terminal.process.returncode == 128 + signal.SIGTERM
    assert without_bars(terminal.seen) == b"gram fit: interrupted; nothing was written\r\n"
    assert not names(tmp_path)


def test_second_interrupt_ends_at_once(tmp_path):
    """Unless the fit has stopped by then, which is not likely: so it is tried again."""
    for _ in range(20):
        terminal = interrupted_fit(tmp_path)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == b"" and terminal.process.returncode == INTERRUPTED
        assert not names(tmp_path)
        said = without_bars(terminal.seen)
        if said == STOPPING + b"\r\ngram: interrupted\r\n":
            return
        assert said == STOPPING + b"gram fit: interrupted; nothing was written\r\n"
    pytest.fail("a second interrupt never ended it")


def fit_on_terminal(folder, *more):
    """Standard error of a fit that searches, seen as a terminal sees it."""
    table = folder / "t.csv"
    with open(DATA / "letters.csv", encoding="utf-8") as file:
        table.write_text("".join(itertools.islice(file, 1501)))
    terminal = Terminal(["fit", table, "-y", "letter", "-o", "m", "--auto", *more], folder)
    out = terminal.end()
    assert terminal.process.returncode == 0 and b"held out" not in out
    return terminal.seen


def bar_moves(folder, limit):
    """Checks the bars that are drawn within this time limit; whether they move."""
    seen = fit_on_terminal(folder, "--time-limit", limit)
    if seen == b"":
        return False
    assert seen.endswith(b"\r\x1b[K") and b"\n" not in seen
    drawn = re.findall(BAR, seen)
    percent = [int(done) for _, _, done, *_ in drawn]
    assert percent == sorted(percent)
    assert all(len(full) + len(left) == 30 for full, left, *_ in drawn)
    assert all(abs(len(full) / 30 - int(done) / 100) < 0.04 for full, _, done, *_ in drawn)
    stages = [stage for *_, stage in drawn]
    tried = [int(stage.split()[1]) for stage in stages if stage.startswith(b"searching, ")]
    assert tried == sorted(tried)
    return len(tried) > 0 and percent[0] < 50 and percent[-1] > percent[0]


def test_progress_bar(tmp_path):
    """Within the time that this machine takes to try more than one candidate."""
    assert any(bar_moves(tmp_path, limit) for limit in ("3", "12", "48", "192"))
    assert fit_on_terminal(tmp_path, "--time-limit", "3", "--progress", "never") == b""


def test_no_bar_without_a_terminal(model, tmp_path):
    done = gram_run("fit", model[1], "-y", "y", "-o", tmp_path / "m", "--progress", "auto")
    assert done.stderr == ""
