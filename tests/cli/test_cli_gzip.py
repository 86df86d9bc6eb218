"""test_cli_gzip.py - tables that are packed with gzip, whole, in parts, cut and damaged"""

import gzip
import os
import subprocess

import numpy as np
import pytest
from gram_cli import BAD_DATA, GRAM, gram, gram_json, refusal
from machine_tables import FAST, simple

UNSUPPORTED = 69


def test_a_packed_table_is_the_table(tmp_path):
    plain = simple(tmp_path / "t.csv")
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path, model in ((plain, "a"), (packed, "b")):
        gram("fit", path, "-y", "y", "-o", tmp_path / model, *FAST)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    expected = gram("predict", tmp_path / "a", plain)
    assert gram("predict", tmp_path / "a", packed) == expected
    with open(packed, "rb") as file:
        assert gram("predict", tmp_path / "a", "-", stdin=file) == expected


@pytest.mark.parametrize("rows", [1, 1000, 200000])
def test_matrices_of_any_size(tmp_path, rows):
    """The text is shorter, and much longer, than the pieces that are unpacked at a time."""
    x = np.arange(rows, dtype=float) % 7
    text = "".join(f"{v:g}\n" for v in x).encode()
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "q.csv").write_text("0\n")
    gram("cdist", tmp_path / "x.csv.gz", tmp_path / "q.csv", "-o", tmp_path / "d.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy").ravel(), x)


def test_members_and_padding(tmp_path):
    parts = [b"a,y\n1,2\n", b"", b"3,4\n5,", b"6\n"]
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"".join(map(gzip.compress, parts)) + bytes(512))
    (tmp_path / "whole.csv").write_bytes(b"".join(parts))
    got = [gram("cdist", tmp_path / name, "--json") for name in ("t.csv.gz", "whole.csv")]
    assert got[0] == got[1]


def test_every_cut_and_every_damaged_byte_is_noticed(tmp_path):
    text = simple(tmp_path / "t.csv", rows=20).read_bytes()
    packed = gzip.compress(text, mtime=0)
    gram("fit", tmp_path / "t.csv", "-y", "y", "-o", tmp_path / "m", *FAST)
    path = tmp_path / "x.gz"
    for size in (2, 3, 9, 10, 11, 100, len(packed) - 8, len(packed) - 1):
        path.write_bytes(packed[:size])
        said = refusal("predict", tmp_path / "m", path, status=BAD_DATA)
        assert said.startswith(f"gram predict: {path}: the gzip file is broken after ")
        assert said.endswith("it ends too early")
    for at in (2, 20, len(packed) // 2, len(packed) - 6, len(packed) - 2):
        path.write_bytes(packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :])
        assert "is broken" in refusal("predict", tmp_path / "m", path, status=BAD_DATA)
    path.write_bytes(packed + b"rest")
    assert "is broken" in refusal("predict", tmp_path / "m", path, status=BAD_DATA)
    path.write_bytes(gzip.compress(b""))
    assert refusal("predict", tmp_path / "m", path, status=BAD_DATA).endswith("the file is empty")


def test_without_zlib(tmp_path):
    needed = subprocess.run(["ldd", GRAM], capture_output=True, text=True, check=False).stdout
    if "libz.so.1" in needed:
        pytest.skip("another library of the program needs zlib")
    (tmp_path / "libz.so.1").write_text("this is no library\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1\n2\n"))
    (tmp_path / "t.csv").write_text("1\n2\n")
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    path = tmp_path / "t.csv.gz"
    said = refusal("cdist", path, status=UNSUPPORTED, env=environment)
    assert said == (
        f"gram cdist: {path}: this is gzip, and zlib (libz.so.1) is not on this machine; "
        f"unpack it, as in: zcat '{path}' | gram COMMAND -"
    )
    assert gram_json("cdist", tmp_path / "t.csv", env=environment)
