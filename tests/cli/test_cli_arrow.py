"""test_cli_arrow.py - tables of Arrow files and streams, beside the same tables as CSV

The files are those of tests/corpus/fuzz_arrow, which arrow_samples.py writes.
"""

import ctypes
import os
import struct
import subprocess

import arrow_samples as samples
import pytest
from gram_cli import BAD_DATA, GRAM, gram, refusal
from machine_tables import FAST

UNSUPPORTED = 69


def write_csv(path, columns):
    path.write_text(samples.csv(columns), encoding="utf-8")
    return path


def fitted(folder, path, *options):
    gram("fit", path, "-y", "y", "-o", folder / "model", *FAST, *options)
    return (folder / "model").read_bytes()


def bytes_of(name):
    return (samples.FOLDER / name).read_bytes()


def save(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", samples.MAIN)
def test_an_arrow_table_is_the_csv_table(tmp_path, name):
    csv, arrow = write_csv(tmp_path / "t.csv", samples.main_columns()), samples.FOLDER / name
    assert fitted(tmp_path, arrow) == fitted(tmp_path, csv)
    expected = gram("predict", tmp_path / "model", csv, "--keep", "te xt")
    assert gram("predict", tmp_path / "model", arrow, "--keep", "te xt") == expected
    with open(arrow, "rb") as file:  # a file too may come through a pipe: all of it is read
        assert gram("predict", tmp_path / "model", "-", "--keep", "te xt", stdin=file) == expected
    numbers = ["--categorical", "number,real", "--ignore", "kind"]
    assert fitted(tmp_path, arrow, *numbers) == fitted(tmp_path, csv, *numbers)


def library_of(name):
    """The library that unpacks the buffers of a file."""
    return "liblz4.so.1" if name.startswith("lz4") else "libzstd.so.1"


def need_library_of(name):
    try:
        ctypes.CDLL(library_of(name))
    except OSError:
        pytest.skip(f"no {library_of(name)}")


@pytest.mark.parametrize("name", samples.PACKED)
def test_compressed_buffers(tmp_path, name):
    need_library_of(name)
    csv, arrow = write_csv(tmp_path / "t.csv", samples.main_columns()), samples.FOLDER / name
    assert fitted(tmp_path, arrow) == fitted(tmp_path, csv)
    columns = ["--categorical", "number,real", "--ignore", "kind"]
    assert fitted(tmp_path, arrow, *columns) == fitted(tmp_path, csv, *columns)


def test_a_buffer_that_is_not_compressed_beside_others_that_are(tmp_path):
    """Its size is -1.  The bitmap of truth values, in which one is missing, gets that form."""
    need_library_of("zstd.arrows")
    whole, bits = bytes_of("zstd.arrows"), b"\xdf\xff\xff"
    at = whole.index(bits) - 17  # the size, and what a frame has before its first bytes
    changed = whole[:at] + struct.pack("<q", -1) + bits + whole[at + 11 :]
    csv = write_csv(tmp_path / "t.csv", samples.main_columns())
    assert fitted(tmp_path, save(tmp_path / "t.arrows", changed)) == fitted(tmp_path, csv)


@pytest.mark.parametrize("name, codec", [("lz4.feather", "LZ4"), ("zstd.arrows", "Zstandard")])
def test_damaged_buffers_are_noticed(tmp_path, name, codec):
    """A frame begins with four bytes that tell what it is, and behind the size of the values."""
    need_library_of(name)
    frame = b"\x04\x22\x4d\x18" if codec == "LZ4" else b"\x28\xb5\x2f\xfd"
    whole = bytes_of(name)
    at = whole.index(frame)
    path = tmp_path / "t.arrow"
    for place, byte in ((at, 0), (at + 6, 0xFF), (at - 8, whole[at - 8] + 1)):
        path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        said = refusal("fit", path, "-y", "y", "-o", "m", status=BAD_DATA)
        assert said.endswith(f"this Arrow file is broken: a buffer cannot be unpacked by {codec}")
    path.write_bytes(whole[: at - 8] + struct.pack("<q", 1 << 40) + whole[at:])
    said = refusal("fit", path, "-y", "y", "-o", "m", status=BAD_DATA)
    assert said.endswith(f" bytes cannot be unpacked to {1 << 40}")


@pytest.mark.parametrize("name, codec", [("lz4.feather", "LZ4"), ("zstd.arrows", "Zstandard")])
def test_without_the_library_of_the_compression(tmp_path, name, codec):
    library = library_of(name)
    needed = subprocess.run(["ldd", GRAM], capture_output=True, text=True, check=False).stdout
    if library in needed:
        pytest.skip(f"another library of the program needs {library}")
    (tmp_path / library).write_text("this is no library\n")
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    path = samples.FOLDER / name
    said = refusal("fit", path, "-y", "y", "-o", "m", status=UNSUPPORTED, env=environment)
    assert said == (
        f"gram fit: {path}: {codec} has compressed this Arrow file, and its library ({library}) "
        "is not on this machine; install it, or write the file without compression, as in pandas: "
        'to_feather(..., compression="uncompressed")'
    )


@pytest.mark.parametrize("name", samples.TYPES)
@pytest.mark.parametrize("options", [[], ["--categorical", "uint8,decimal128,time_us,int64"]])
def test_every_type_of_numbers_and_times(tmp_path, name, options):
    csv, arrow = write_csv(tmp_path / "t.csv", samples.type_columns()), samples.FOLDER / name
    assert fitted(tmp_path, arrow, *options) == fitted(tmp_path, csv, *options)


@pytest.mark.parametrize("name", samples.WORDS)
def test_dictionaries_that_are_replaced_or_grow(tmp_path, name):
    columns = samples.words_columns(name)
    csv, arrow = write_csv(tmp_path / "t.csv", columns), samples.FOLDER / name
    assert fitted(tmp_path, arrow) == fitted(tmp_path, csv)
    kept = gram("predict", tmp_path / "model", arrow, "--keep", "word")
    assert kept == gram("predict", tmp_path / "model", csv, "--keep", "word")
    assert [line.split(",")[0] for line in kept.splitlines()[1:]] == [
        word or "" for word in columns["word"]
    ]


def test_types_that_are_no_columns_of_a_table(tmp_path):
    ignored = []
    path = samples.FOLDER / "nested.arrow"
    for name in samples.NESTED:
        said = refusal("fit", path, "-y", "y", "-o", tmp_path / "m", "--ignore",
                       ",".join(ignored), status=BAD_DATA)  # fmt: skip
        assert said == (f'gram fit: {path}: column "{name}" is of type {name}, expected numbers, '
                        "text or dates")  # fmt: skip
        ignored.append(name)
    columns = {"a": [i % 7 for i in range(24)], "y": [i % 5 + i / 8 for i in range(24)]}
    csv = write_csv(tmp_path / "t.csv", columns)
    assert fitted(tmp_path, path, "--ignore", ",".join(ignored)) == fitted(tmp_path, csv)


def test_matrices(tmp_path):
    """A matrix of texts that are numbers, of truth values and of texts that are none."""
    path = samples.FOLDER / "types.arrow"
    numbers = {"a": ["3", "4"], "b": ["1.5", "0"]}
    csv = write_csv(tmp_path / "t.csv", numbers)
    assert gram("cdist", csv).count("\n") == 2
    said = refusal("cdist", path, status=BAD_DATA)
    assert said == (f'gram cdist: {path}: row 0, counted from 0: column "timestamp_s": the value '
                    'is "2019-12-31 22:00:00", expected a number')  # fmt: skip
    path = samples.FOLDER / "delta.arrow"
    said = refusal("cdist", path, status=BAD_DATA)
    assert said.endswith('column "word": the value is "north", expected a number')


@pytest.mark.parametrize("name", ["no_rows.arrow", "no_columns.arrow"])
def test_tables_of_nothing(tmp_path, name):
    empty = write_csv(tmp_path / "e.csv", dict.fromkeys(samples.main_columns(), []))
    fitted(tmp_path, samples.FOLDER / "file.arrow")
    if name == "no_rows.arrow":
        expected = gram("predict", tmp_path / "model", empty)
        assert gram("predict", tmp_path / "model", samples.FOLDER / name) == expected
    else:
        refusal("predict", tmp_path / "model", samples.FOLDER / name, status=BAD_DATA)


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrows", "old.arrows", "views.arrow"])
def test_every_cut_is_noticed(tmp_path, name):
    whole = bytes_of(name)
    path = tmp_path / "t.arrow"
    least = 1000 if name == "old.arrows" else 16  # bytes that tell it from text
    for size in {8, 9, 12, 15, 16, 17, 100, 1000, len(whole) // 2, len(whole) - 9, len(whole) - 1}:
        said = refusal("cdist", save(path, whole[:size]), status=BAD_DATA)
        if size >= least:
            assert said.startswith(f"gram cdist: {path}: this Arrow file is broken: ")
            assert "\n" not in said


def test_what_follows_the_end_of_a_stream_is_refused(tmp_path):
    path = save(tmp_path / "t.arrows", bytes_of("stream.arrows") * 2)
    said = refusal("fit", path, "-y", "y", "-o", tmp_path / "m", status=BAD_DATA)
    assert said.endswith("this Arrow file is broken: more bytes follow the end of the stream")
    csv = write_csv(tmp_path / "t.csv", samples.main_columns())
    save(path, bytes_of("stream.arrows") + bytes(512))
    assert fitted(tmp_path, path) == fitted(tmp_path, csv)


def test_texts_that_no_table_can_hold(tmp_path):
    for new, said in (
        (b"\xff", "this Arrow file is broken: a text has the byte 0xff, which is not UTF-8"),
        (b"\0", "a text has a NUL byte"),
    ):
        data = bytes_of("stream.arrows").replace(b'x"1', b"x" + new + b"1")
        path = save(tmp_path / "t.arrows", data)
        assert refusal("fit", path, "-y", "y", "-o", "m", status=BAD_DATA).endswith(said)


def test_names_of_columns(tmp_path):
    def renamed(name):
        assert len(name) == len("number")
        data = bytes_of("stream.arrows").replace(b"number", name)
        path = save(tmp_path / "t.arrows", data)
        return refusal("fit", path, "-y", "none", "-o", "m", status=BAD_DATA)

    assert renamed(b"moment").endswith('two columns are called "moment"')
    assert renamed(b"\xff" * 6).endswith("the name of a column is not UTF-8")
    assert renamed(b"n\0mber").endswith("a text has a NUL byte")


@pytest.mark.parametrize("at, value, reason", [
    (30, 9, "the version of its Arrow metadata is 10, expected 4 or 5"),
    (304, 4, "its values are big-endian"),  # the schema gets that field, in the place of another
])  # fmt: skip
def test_other_versions_and_big_endian_files_are_refused_by_name(tmp_path, at, value, reason):
    changed = bytearray(bytes_of("stream.arrows"))
    changed[at] = value
    path = save(tmp_path / "t.arrows", bytes(changed))
    said = refusal("cdist", path, status=UNSUPPORTED)
    assert said.startswith(f"gram cdist: {path}: {reason}; write the file ")


def test_feather_of_version_1_is_refused(tmp_path):
    path = save(tmp_path / "t.feather", b"FEA1" + bytes(16))
    said = refusal("cdist", path, status=BAD_DATA)
    assert "this is Feather of version 1, not text; make CSV of it" in said


def test_a_text_that_begins_with_the_length_of_metadata_is_text(tmp_path):
    path = save(tmp_path / "t", struct.pack("<i", 16) + b"a,b\n1,2\n" * 4)
    assert "there is a NUL byte" in refusal("cdist", path, status=BAD_DATA)
