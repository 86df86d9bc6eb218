"""test_cli_terminal.py - what a terminal shows: lines that fit its width, colours where wanted"""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest
from gram_cli import GRAM, gram
from machine_tables import FAST, simple

ESCAPE = "\033["


def on_terminal(*arguments, columns=80, **environment):
    """What a terminal of so many columns is sent, by standard output and standard error."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [GRAM, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=plain | {"TERM": "xterm"} | environment,
    )
    os.close(theirs)
    sent = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not more:
            break
        sent += more
    process.wait(timeout=600)
    os.close(ours)
    return sent.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    data = simple(folder / "t.csv")
    gram("fit", data, "-y", "y", "-o", folder / "m", *FAST)
    return folder / "m"


def test_colours_are_for_terminals(model):
    for arguments in (["--help"], ["fit", "--help"], ["importance", model], ["frobnicate"]):
        assert ESCAPE in on_terminal(*arguments)
        assert ESCAPE not in on_terminal(*arguments, NO_COLOR="1")
        assert ESCAPE not in on_terminal(*arguments, TERM="dumb")
        assert ESCAPE not in on_terminal(*arguments, TERM="")
    assert ESCAPE in on_terminal("--help", NO_COLOR="")
    for arguments in (["--help"], ["fit", "--help"], ["importance", model]):
        assert ESCAPE not in gram(*arguments)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_help_fits_the_terminal(columns):
    for arguments in (["--help"], ["help", "fit"], ["help", "cache"]):
        text = on_terminal(*arguments, columns=columns, NO_COLOR="1")
        if columns == 80:
            assert text == gram(*arguments)
        text = text.partition("Examples:")[0]  # command lines, which are not broken
        assert max(map(len, text.splitlines())) <= min(columns - 1, 100)


@pytest.mark.parametrize("columns", [24, 40, 60])
def test_importances_fit_the_terminal(model, columns):
    lines = on_terminal("importance", model, columns=columns, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) < columns
    whole = gram("importance", model).splitlines()
    assert len(lines) == len(whole)
    assert [line.split("%")[0] for line in lines] == [line.split("%")[0] for line in whole]


def test_long_names_are_cut_on_a_terminal_alone(tmp_path):
    name = "the number of points that are left of the middle"
    rows = "".join(f"{i % 7},{i % 5},{i % 7 + i % 5}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(f"{name},b,y\n{rows}")
    gram("fit", tmp_path / "t.csv", "-y", "y", "-o", tmp_path / "m", *FAST)
    assert name in gram("importance", tmp_path / "m")
    shown = on_terminal("importance", tmp_path / "m", columns=40, NO_COLOR="1")
    assert name[:20] in shown and name not in shown and ".." in shown
    assert max(map(len, shown.splitlines())) < 40


def test_machine_of_fit_fits_the_terminal(tmp_path):
    data = simple(tmp_path / "t.csv")
    arguments = ["fit", data, "-y", "y", "-o", tmp_path / "m", *FAST]
    text = on_terminal(*arguments, columns=50, NO_COLOR="1")
    machine = text[text.index("machine:") : text.index("features that")]
    assert machine.count("\n") > 1 and max(map(len, machine.splitlines())) < 50
    (line,) = [line for line in gram(*arguments).splitlines() if line.startswith("machine:")]
    assert machine.split() == line.split()


def test_progress_is_not_drawn_where_the_cursor_cannot_be_moved(tmp_path):
    data = simple(tmp_path / "t.csv")
    assert "\r" not in on_terminal("fit", data, "-y", "y", "-o", tmp_path / "m", TERM="dumb")
