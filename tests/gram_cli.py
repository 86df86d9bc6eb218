"""gram_cli.py - runs the command line that was built, for the tests

GRAM_BUILD_DIR names the build folder, `build` by default; GRAM_SOURCE_DIR the project's.
"""

import csv
import io
import json
import os
import pathlib
import subprocess
import time

import numpy as np

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parent.parent))
GRAM = str(pathlib.Path(os.environ.get("GRAM_BUILD_DIR", SOURCE / "build")) / "gram")
DATA = SOURCE / "examples" / "data"

OK, FAILURE, USAGE = 0, 1, 2
BAD_DATA, NO_INPUT, NO_MEMORY, NO_OUTPUT, IO, INTERRUPTED = 65, 66, 71, 73, 74, 130


def gram(*arguments, status=OK, **options):
    """Runs gram; returns its standard output as text, after checking how it ended."""
    return gram_run(*arguments, status=status, **options).stdout


def gram_run(*arguments, status=OK, text=True, **options):
    done = subprocess.run(
        [GRAM, *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=text,
        timeout=3600,
        check=False,
        **options,
    )
    assert done.returncode == status, f"status {done.returncode}: {done.stderr}"
    # Remarks on a table are no failure; done.notes has them without what they begin with.
    note, mark = f"gram {arguments[0] if arguments else ''}: note: ", "" if text else b""
    note = note if text else note.encode()
    lines = done.stderr.splitlines(keepends=True)
    done.notes = [line[len(note) : -1] for line in lines if line.startswith(note)]
    done.stderr = mark.join(line for line in lines if not line.startswith(note))
    if status == OK:
        assert not done.stderr, done.stderr
    return done


def gram_json(*arguments, **options):
    return json.loads(gram(*arguments, "--json", **options))


def refusal(*arguments, status, **options):
    """What gram says, on standard error and in one line, when it ends with this status."""
    done = gram_run(*arguments, status=status, **options)
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    return done.stderr[:-1]


def rows_of(text, delimiter=","):
    return list(csv.reader(io.StringIO(text), delimiter=delimiter))


def write_rows(path, rows, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def save_text(path, array, delimiter=",", header=None):
    np.savetxt(path, array, delimiter=delimiter, fmt="%.17g", header=header or "", comments="")
    return path


def load_text(text, delimiter=","):
    return np.loadtxt(io.StringIO(text), delimiter=delimiter, ndmin=2)


def wait_for(condition, process):
    """Whether the condition held while the process ran."""
    while not condition():
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    return True
