"""test_cli_address_space.py - under ulimit -v every command ends: it works, or says what is short

OpenBLAS makes a thread for every processor before main() begins, and asks for ever for the buffer
of each.
"""

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from gram_cli import GRAM, NO_MEMORY, OK, gram, gram_json

MIB = 1 << 20
SECONDS = 60  # a run takes 0.1; one that takes so long hangs
SIZES = [100, 190, 230, 320, 600]  # MiB: without a buffer of OpenBLAS, with one, with several

COMMANDS = {
    "eigh": "eigh a.npy -o o",
    "solve": "solve a.npy b.csv -o o.npy",
    "power": "power a.npy -o o.npy",
    "cdist": "cdist a.npy -o o.npy",
    "kron": "kron a.npy k.npy k.npy -o o.npy",
    "fit": "fit d.csv -y y -o o.gram",
    "predict": "predict m.gram d.csv -o o.csv",
    "score": "score m.gram d.csv",
    "info": "info",
}
WITHOUT_BLAS = {"cdist", "info"}


def is_sanitized():
    with open(GRAM, "rb") as file:
        text = file.read()
    return b"__asan_init" in text or b"__tsan_init" in text


pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or is_sanitized(),
    reason="needs Linux, and no sanitizer, which wants the address space",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("space")
    generator = np.random.default_rng(0)
    a = generator.random((196, 196))
    np.save(folder / "a.npy", a + a.T + 400 * np.eye(196))
    np.save(folder / "k.npy", generator.random((14, 14)))
    np.savetxt(folder / "b.csv", generator.random((196, 2)), delimiter=",")
    d = generator.random((300, 3))
    table = np.column_stack([d, d[:, 0] + np.sin(3 * d[:, 1])])
    np.savetxt(folder / "d.csv", table, delimiter=",", header="p,q,r,y", comments="")
    gram("fit", folder / "d.csv", "-y", "y", "-o", folder / "m.gram")
    return folder


def limited(command, folder, mib, environment=None):
    """Runs gram with so many MiB: its status and what it wrote.  One that hangs is killed."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    done = subprocess.run(
        [GRAM, *command.split()],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        timeout=SECONDS,
        check=False,
        env=environment,
    )
    return done.returncode, done.stderr, done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_ends_with_a_status_under_ulimit(name, folder):
    for mib in SIZES:
        status, text, _ = limited(COMMANDS[name], folder, mib)
        assert status in (OK, NO_MEMORY), f"{mib} MiB: status {status}: {text}"
        assert (status == OK) == (text == ""), f"{mib} MiB: status {status}: {text}"
    assert status == OK, text


@pytest.mark.parametrize("name", COMMANDS)
def test_says_that_the_buffer_does_not_fit(name, folder):
    status, text, _ = limited(COMMANDS[name], folder, SIZES[0])
    if name in WITHOUT_BLAS or not gram_json("info")["blas"].startswith("OpenBLAS"):
        assert status == OK, text
    else:
        assert status == NO_MEMORY
        assert "a buffer of" in text and f"limit of {SIZES[0]} MiB" in text


@pytest.mark.parametrize("set_by_user", [None, "1", "2"])
def test_threads_of_the_user_are_kept(set_by_user, folder):
    """OpenBLAS begins with one thread there; the command still counts what the user has set."""
    environment = dict(os.environ)
    environment.pop("OPENBLAS_NUM_THREADS", None)
    if set_by_user:
        environment["OPENBLAS_NUM_THREADS"] = set_by_user
    status, _, output = limited("info --json", folder, SIZES[1], environment)
    assert status == OK
    assert json.loads(output)["threads"] == gram_json("info", env=environment)["threads"]
