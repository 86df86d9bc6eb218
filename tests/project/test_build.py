"""test_build.py - what scripts/build, and so make and make demo, says

The build itself is a program called cmake, made here, that writes as much as a real one.
"""

import os
import subprocess

import pytest
from gram_cli import SOURCE

CMAKE = """#!/bin/sh
case $1 in
-B)
    mkdir -p "$2"
    touch "$2/CMakeCache.txt"
    echo "-- gram: version 0.1.0"
    echo "-- tests: emulation of CUDA with c++"
    ;;
--build)
    for i in $(seq 300); do echo "[ $i%] Building C object $i.o"; done
    [ -z "$BROKEN" ] || { echo "x.c:3:1: error: expected ';' before 'return'" && exit 2; }
    ;;
esac
"""


@pytest.fixture
def build(tmp_path):
    """Runs scripts/build in a folder of its own: status, lines on both streams, the log's text."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text(CMAKE)
    (tmp_path / "bin" / "cmake").chmod(0o755)

    def run(broken=""):
        done = subprocess.run(
            [SOURCE / "scripts" / "build", "programs"],
            env={
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "BUILD": str(tmp_path / "build"),
                "BROKEN": broken,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        log = tmp_path / "build" / "build.log"
        return done.returncode, done.stdout.splitlines(), str(log), log.read_text()

    return run


def test_a_build_says_little_and_names_its_log(build):
    status, said, path, log = build()
    assert status == 0 and len(said) == 2
    assert said[0] == "-- gram: version 0.1.0" and path in said[1]
    assert log.count("\n") == 300


def test_a_build_that_fails_shows_the_error(build):
    status, said, path, _ = build(broken="yes")
    assert status == 1 and len(said) < 10
    assert "x.c:3:1: error: expected ';' before 'return'" in said
    assert said[-1].endswith(f"failed; the compiler's output is in {path}")
