"""test_cli_cache.py - gram cache: list, info, clear and warm, without a GPU"""

import contextlib
import os
import pathlib
import sqlite3

import pytest
from gram_cli import IO, USAGE, BAD_DATA, gram, gram_json, gram_run, refusal

UNSUPPORTED = 69
CHIP = "compute_80"  # PTX: no assembler, so quick


def environment(folder):
    return {**os.environ, "GRAM_CACHE_DIR": str(folder)}


@pytest.fixture(scope="module", autouse=True)
def needs_the_backend():
    if gram_run_status("cache", "info") == UNSUPPORTED:
        pytest.skip("no CUDA backend")


def gram_run_status(*arguments, **options):
    try:
        gram_run(*arguments, **options)
        return 0
    except AssertionError as error:
        return int(str(error).split()[1].rstrip(":"))


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with the common kernels, and what warming it said."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    if gram_run_status("cache", "warm", CHIP, env=environment(folder)) == UNSUPPORTED:
        pytest.skip("no NVRTC")
    return folder


def info(folder):
    return gram_json("cache", "info", env=environment(folder))


def test_no_cache_is_empty_and_stays_away(tmp_path):
    folder = tmp_path / "none"
    told = info(folder)
    assert told["path"] == str(folder / "kernels-1.db")
    assert (told["why_not"], told["kernels"], told["bytes"], told["file_bytes"]) == ("", 0, 0, 0)
    assert told["most_bytes"] == 256 << 20
    assert gram("cache", "list", env=environment(folder)) == ""
    assert gram("cache", "clear", env=environment(folder)) == "0 kernels removed\n"
    assert not folder.exists()


def test_the_cap_is_a_setting(tmp_path):
    told = gram_json("cache", "info", env={**environment(tmp_path), "GRAM_CACHE_MIB": "3"})
    assert told["most_bytes"] == 3 << 20
    for wrong in ("0", "x", "-1", "9999999999"):
        text = refusal(
            "cache", "info", status=BAD_DATA, env={**environment(tmp_path), "GRAM_CACHE_MIB": wrong}
        )
        assert "GRAM_CACHE_MIB" in text and wrong in text


def test_what_was_warmed_is_listed(warm):
    kernels = gram_json("cache", "list", env=environment(warm))
    told = info(warm)
    assert told["kernels"] == len(kernels) > 80
    files = {kernel["kernel"].removesuffix(".cu") for kernel in kernels}
    assert files >= {"cdist", "cdist_pack", "cdist_mma", "cdist_grad", "cdist_grad_mma", "cdist_grad_passes", "agop"}
    assert files >= {"kron_matmul", "kron_matmul_mma"}
    assert files >= {"kernel_vjp", "median", "solve_small", "solve_large", "krr_rows", "krr_cg"}
    assert told["bytes"] == sum(kernel["bytes"] for kernel in kernels) <= told["file_bytes"]
    assert {kernel["chip"] for kernel in kernels} == {CHIP}
    assert all(kernel["kernel"].endswith(".cu") for kernel in kernels)
    assert all(kernel["options"].startswith("-D") for kernel in kernels)
    assert len({kernel["kernel"] + kernel["options"] for kernel in kernels}) == len(kernels)
    lines = gram("cache", "list", env=environment(warm)).splitlines()
    assert len(lines) == len(kernels) and all(CHIP in line for line in lines)


def test_the_file_is_private(warm):
    assert pathlib.Path(info(warm)["path"]).stat().st_mode & 0o077 == 0


def test_warming_again_compiles_nothing(warm):
    before = info(warm)["kernels"]
    again = gram_json("cache", "warm", "--arch", CHIP, env=environment(warm))
    assert len(again) == before == info(warm)["kernels"]
    assert all(kernel["compile_ms"] == 0 for kernel in again)
    assert "present" in gram("cache", "warm", CHIP, env=environment(warm))


def test_clear_by_pattern_then_all(warm):
    before = gram_json("cache", "list", env=environment(warm))
    doubles = [kernel for kernel in before if "REAL=double" in kernel["options"]]
    assert gram("cache", "clear", "no such kernel", env=environment(warm)) == "0 kernels removed\n"
    pattern = f"cdist.cu {CHIP} *-DIS_DOUBLE=?[ ]*"
    kept = gram_json("cache", "clear", "REAL=double", env=environment(warm))
    assert kept == {"removed": len(doubles)}
    left = gram_json("cache", "list", env=environment(warm))
    assert len(left) == len(before) - len(doubles)
    assert not [kernel for kernel in left if "REAL=double" in kernel["options"]]
    # What was removed is compiled again, the rest is there.
    again = gram_json("cache", "warm", CHIP, env=environment(warm))
    assert sum(kernel["compile_ms"] > 0 for kernel in again) == len(doubles)
    cdist = sum(kernel["kernel"] == "cdist.cu" for kernel in again)
    assert gram_json("cache", "clear", pattern, env=environment(warm)) == {"removed": cdist}
    gram("cache", "clear", env=environment(warm))
    told = info(warm)
    assert told["kernels"] == 0 and told["file_bytes"] < 100_000


def test_tables_of_something_else_are_set_aside(tmp_path):
    """Nothing could be kept in such a file, and clear used to fail."""
    tmp_path.chmod(0o700)
    file = tmp_path / "kernels-1.db"
    for sql in (
        "CREATE TABLE kernel(a)",
        "CREATE VIEW tuned AS SELECT 1 AS key, 2 AS choice",
        "CREATE TABLE tuned(key, choice, more)",
    ):
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute(sql)
            database.commit()
        file.chmod(0o600)
        assert "tables of another program" in info(tmp_path)["why_not"]
        assert (tmp_path / "kernels-1.db.corrupt").exists() and not file.exists()
        assert info(tmp_path)["why_not"] == ""
        assert gram("cache", "clear", env=environment(tmp_path)) == "0 kernels removed\n"
        assert not (tmp_path / "kernels-1.db.corrupt").exists()


def test_a_corrupt_file(tmp_path):
    tmp_path.chmod(0o700)
    file = tmp_path / "kernels-1.db"
    file.write_bytes(b"this is no database" * 1000)
    file.chmod(0o600)
    assert "not a database" in info(tmp_path)["why_not"]
    assert (tmp_path / "kernels-1.db.corrupt").exists() and not file.exists()
    assert gram("cache", "list", env=environment(tmp_path)) == ""
    file.write_bytes(b"this is no database" * 1000)
    file.chmod(0o600)
    assert gram("cache", "clear", env=environment(tmp_path)) == "0 kernels removed\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write(tmp_path, mode):
    tmp_path.chmod(mode)
    assert "can be written by other users" in info(tmp_path)["why_not"]
    assert "in use    no: " in gram("cache", "info", env=environment(tmp_path))
    for action in ("list", "clear"):
        assert "can be written by other users" in refusal(
            "cache", action, status=IO, env=environment(tmp_path)
        )
    status = gram_run_status("cache", "warm", CHIP, env=environment(tmp_path))
    assert status in (IO, UNSUPPORTED) and list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("text")
    assert "is not a folder" in info(tmp_path / "file")["why_not"]
    assert (tmp_path / "file").read_text() == "text"


def test_without_any_folder():
    names = ("GRAM_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    env = {name: value for name, value in os.environ.items() if name not in names}
    told = gram_json("cache", "info", env=env)
    assert told["path"] == "" and "HOME" in told["why_not"]
    assert "XDG_CACHE_HOME" in refusal("cache", "list", status=IO, env=env)


def test_unknown_chips(tmp_path):
    for chip in ("sm_12", "sm_", "90", "sm_99999", "compute_20"):
        env = environment(tmp_path)
        status = gram_run_status("cache", "warm", "--arch", chip, env=env)
        assert status in (BAD_DATA, UNSUPPORTED)
        if status == BAD_DATA:
            text = refusal("cache", "warm", "--arch", f"{CHIP},{chip}", status=BAD_DATA, env=env)
            assert f'"{chip}"' in text and "sm_80" in text
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage():
    assert "expected list|info|clear|warm" in refusal("cache", status=USAGE)
    assert '"lost" is not one of list' in refusal("cache", "lost", status=USAGE)
    assert '"x"' in refusal("cache", "list", "x", status=USAGE)
    assert '"y"' in refusal("cache", "clear", "x", "y", status=USAGE)
    assert "--arch" in refusal("cache", "info", "--arch", "sm_90", status=USAGE)
    chips = ",".join(["sm_90"] * 40)
    assert "the 32 that are supported" in refusal("cache", "warm", "--arch", chips, status=USAGE)
