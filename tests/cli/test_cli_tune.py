"""test_cli_tune.py - gram tune: on the emulation of a GPU where there is one; wrong usage"""

import os
import pathlib
import re
import sqlite3
import subprocess

import pytest
from gram_cli import GRAM, USAGE, gram, gram_json, refusal

UNSUPPORTED, BAD_DATA = 69, 65


@pytest.fixture
def emulation(tmp_path):
    """An environment in which the emulation is the GPU, with a cache of its own."""
    fake = pathlib.Path(GRAM).parent / "fake_cuda"
    if not (fake / "libcuda.so.1").exists():
        pytest.skip("no emulation of CUDA")
    tmp_path.chmod(0o700)
    return {**os.environ, "GRAM_CUDA_LIB_DIR": str(fake), "GRAM_CACHE_DIR": str(tmp_path)}


def test_what_is_measured_is_kept(emulation):
    found = gram_json("tune", "cdist", 40, 50, 30, "--p", "1", env=emulation)
    assert found["candidates"] == 3 and found["kept"] is True
    assert found["tile"] in (32, 64, 128) and found["table_tile"] in (32, 64, 128)
    assert 0 < found["tile_ms"] <= found["table_ms"]
    assert gram_json("cache", "info", env=emulation)["tuned"] == 1
    text = gram("tune", "cdist", 40, 50, 30, "--p", "1", env=emulation)
    assert "the fastest of 3" in text and "the table's choice" in text
    assert gram_json("cache", "info", env=emulation)["tuned"] == 1
    gram_json("tune", "kernel", 40, 40, 30, "--p", "1", "--symmetric", "--dtype", "f64",
              env=emulation)  # fmt: skip
    assert gram_json("cache", "info", env=emulation)["tuned"] == 2
    gram("cache", "clear", env=emulation)
    assert gram_json("cache", "info", env=emulation)["tuned"] == 0


def test_without_a_cache(emulation):
    env = {**emulation, "GRAM_CACHE_DIR": "/proc/nowhere"}
    assert "not kept" in gram("tune", "cdist", 20, 20, 8, "--p", "1", env=env)


def test_the_processor_has_nothing_to_tune():
    text = refusal("tune", "cdist", 4, 5, 6, "--device", "cpu", status=UNSUPPORTED)
    assert "nothing to tune" in text


def check_drivers(found, names):
    assert set(found["ms"]) == names and found["candidates"] == len(names)
    assert found["driver"] in names and found["table_driver"] in names
    assert found["kept"] is True and all(ms >= 0 for ms in found["ms"].values())


@pytest.mark.skipif(not pathlib.Path(GRAM).with_name("libgram_cuda.so").exists(),
                    reason="gram cache is of the CUDA backend")  # fmt: skip
def test_drivers_of_the_processor(tmp_path):
    tmp_path.chmod(0o700)
    env = {**os.environ, "GRAM_CACHE_DIR": str(tmp_path)}
    sizes = ("tune", "eigh", 2, 24, "--device", "cpu", "--threads", 2)
    check_drivers(gram_json(*sizes, env=env), {"jacobi", "divide", "bisection", "krylov"})
    assert gram_json("cache", "info", env=env)["tuned"] == 1
    text = gram(*sizes, "--no-vectors", "--smallest", 3, "--dtype", "f64", env=env)
    assert "the fastest" in text and "the table's choice" in text and "not kept" not in text
    found = gram_json("tune", "eigh", 1, 60, "--matrix", "kernel", "--largest", 2, "--device",
                      "cpu", env=env)  # fmt: skip
    check_drivers(found, {"divide", "bisection", "krylov"})
    assert gram_json("cache", "info", env=env)["tuned"] == 3
    gram("cache", "clear", env=env)
    assert gram_json("cache", "info", env=env)["tuned"] == 0


def test_tiles_of_kronecker_factors_on_the_processor(tmp_path):
    tmp_path.chmod(0o700)
    env = {**os.environ, "GRAM_CACHE_DIR": str(tmp_path)}
    sizes = ("tune", "kron", 3, 8, 8, 8, 8, 8, "--device", "cpu", "--threads", 2)
    found = gram_json(*sizes, env=env)
    assert 2 <= found["candidates"] <= 6 and 0 < found["ms"] <= found["table_ms"]
    assert found["launches"] >= 1 and found["table_launches"] >= 1
    text = gram(*sizes, "--dtype", "f64", "--side", "left", "--op", "T", env=env)
    assert "groups of factors" in text and "the library's own choice" in text
    with sqlite3.connect(tmp_path / "kernels-1.db") as db:
        assert db.execute("SELECT COUNT(*) FROM tuned").fetchone() == (2,)
    assert found["kept"] is True and "not kept" not in text


def test_drivers_of_the_gpu(emulation):
    check_drivers(gram_json("tune", "eigh", 2, 6, env=emulation),
                  {"jacobi", "divide", "bisection", "batched", "krylov"})  # fmt: skip


def test_groups_of_kronecker_factors(emulation):
    sizes = (6, 2, 4, "3x2", 2)
    found = gram_json("tune", "kron", *sizes, env=emulation)
    assert found["candidates"] >= 1 and found["kept"] is True
    assert found["launches"] >= 1 and found["table_launches"] >= 1
    assert 0 < found["ms"] <= found["table_ms"]
    text = gram("tune", "kron", 3, 64, "5x7", "--dtype", "f64", env=emulation)
    assert "the library's own choice" in text
    assert gram_json("cache", "info", env=emulation)["tuned"] == 2


def test_products_from_the_left_and_transposed_factors(emulation):
    """What is kept is for the sizes of the factors as they are used, and for a side."""
    kinds = [([], 1), (["--op", "T"], 1), (["--op", "TN"], 1)]
    kinds += [(["--side", "left"], 2), (["--side", "left", "--op", "T"], 2)]
    for more, kept in kinds:
        found = gram_json("tune", "kron", 6, "3x2", 4, *more, env=emulation)
        assert found["kept"] is True and 0 < found["ms"]
        assert gram_json("cache", "info", env=emulation)["tuned"] == kept
    said = refusal("tune", "kron", 6, 3, 4, "--op", "TTT", status=USAGE)
    assert '--op is "TTT", expected N or T, or 2 letters' in said
    for more in (["--op", "T"], ["--side", "left"]):
        said = refusal("tune", "cdist", 3, 4, 5, *more, status=USAGE)
        assert "--side and --op apply only to kron" in said


def kernels_of_choice(choice, folder, env):
    """What is compiled for a product, found right, where the file has this choice for it."""
    with sqlite3.connect(folder / "kernels-1.db") as db:
        assert db.execute("UPDATE tuned SET choice=?", (choice,)).rowcount == 1
    db.close()
    done = subprocess.run(
        [GRAM, *"check kron_matmul 2 8 8 5 --device cuda".split()],
        env={**env, "GRAM_LOG": "debug"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ": right" in done.stdout
    used = re.findall(r"-DP_OF=[\d,]+.*?-DTB=\d+ -DTA=\d+", done.stderr)
    assert used
    return tuple(sorted(used))


def test_choices_of_groups(emulation, tmp_path):
    """Every choice that can stand in the file is right; what is none of them is not taken."""
    found = gram_json("tune", "kron", 2, 8, 8, 8, 8, 8, env=emulation)
    assert found["candidates"] >= 2
    used = [kernels_of_choice(choice, tmp_path, emulation) for choice in range(13)]
    assert len(set(used)) == found["candidates"]
    for none in (13, -1, 2**40):
        assert kernels_of_choice(none, tmp_path, emulation) == used[0]


def test_wrong_usage():
    assert "not one of cdist, kernel" in refusal("tune", "median", 1, 2, 3, status=USAGE)
    for size in ("0", "-1", "1.5", "x", "1e30"):
        assert "is not a number from 1" in refusal("tune", "cdist", "--", 1, size, 3, status=USAGE)
    assert "--symmetric" in refusal("tune", "cdist", 3, 4, 5, "--symmetric", status=USAGE)
    assert "expected the operands" in refusal("tune", "cdist", 3, 4, status=USAGE)
    assert "expected the operands eigh B N" in refusal("tune", "eigh", 3, 4, 5, status=USAGE)
    assert "apply only to eigh" in refusal("tune", "cdist", 3, 4, 5, "--largest", 1, status=USAGE)
    assert "only to cdist and kernel" in refusal("tune", "eigh", 3, 4, "--p", 1, status=USAGE)
    assert "is more than" in refusal("tune", "eigh", 3, 4, "--largest", 5, status=USAGE)
    assert "not of the form P or PxQ" in refusal("tune", "kron", 3, "4y5", status=USAGE)
    assert "not of the form P or PxQ" in refusal("tune", "kron", 3, "4x0", status=USAGE)
    assert "is not a number from 1" in refusal("tune", "kron", "3x2", 4, status=USAGE)
    assert "apply only to eigh" in refusal("tune", "kron", 3, 4, "--largest", 1, status=USAGE)
    both = ("--largest", 1, "--smallest", 1)
    assert "expected only one of them" in refusal("tune", "eigh", 3, 4, *both, status=USAGE)
    assert "--device" in refusal("tune", "cdist", 3, 4, 5, "--device", "x", status=USAGE)
