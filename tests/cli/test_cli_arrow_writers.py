"""test_cli_arrow_writers.py - Arrow files of the programs that write them, where these are there

The tests of test_cli_arrow.py need none of them.
"""

import ctypes.util
import importlib.util
import os
import sys

import arrow_samples as samples
import numpy as np
import pytest
from gram_cli import gram
from machine_tables import FAST


def compare(folder, path, columns, *options, **more):
    """The model of a file is that of the same columns as CSV."""
    csv = folder / "t.csv"
    csv.write_text(samples.csv(columns), encoding="utf-8")
    models = []
    for data in (path, csv):
        gram("fit", data, "-y", "y", "-o", folder / "model", *FAST, *options, **more)
        models.append((folder / "model").read_bytes())
    assert models[0] == models[1]


def many_columns(rows):
    """Main columns again and again, so that there are several batches and larger buffers."""
    columns = samples.main_columns()
    return {
        name: [values[i * i % samples.ROWS] for i in range(rows)]
        for name, values in columns.items()
    }


@pytest.mark.parametrize("rows, codec", [(1, None), (7, "lz4"), (8, "zstd"), (64, "lz4")])
def test_batches_of_any_size(tmp_path, rows, codec):
    pa = pytest.importorskip("pyarrow")
    columns = many_columns(150)
    table = pa.table(columns).cast(samples.table().schema)
    path = tmp_path / "t.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        for batch in table.slice(13).to_batches(max_chunksize=rows):  # bitmaps that begin in a byte
            writer.write_batch(batch)
    compare(tmp_path, path, {name: values[13:] for name, values in columns.items()})


def test_frames_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    columns = many_columns(60)
    frame = pandas.DataFrame(columns)
    frame["kind"] = frame["kind"].astype("category")
    frame["moment"] = frame["moment"].dt.tz_localize("UTC")
    for options in ({}, {"compression": "zstd"}, {"compression": "uncompressed"}):
        frame.to_feather(tmp_path / "t.feather", **options)
        compare(tmp_path, tmp_path / "t.feather", columns)


@pytest.mark.parametrize("codec", ["uncompressed", "lz4", "zstd"])
def test_frames_of_polars(tmp_path, codec):
    polars = pytest.importorskip("polars")
    columns = many_columns(60)
    frame = polars.DataFrame(columns).with_columns(polars.col("kind").cast(polars.Categorical))
    for write, name in ((frame.write_ipc, "t.arrow"), (frame.write_ipc_stream, "t.arrows")):
        write(tmp_path / name, compression=codec)
        compare(tmp_path, tmp_path / name, columns)
    words = polars.Series(["north", "south", "north", None] * 6)
    frame = polars.DataFrame({"word": words.cast(polars.Enum(["north", "south"]))})
    frame = frame.with_columns(y=polars.Series(range(24)))
    frame.write_ipc(tmp_path / "t.arrow", compression=codec)
    compare(tmp_path, tmp_path / "t.arrow", {"word": words.to_list(), "y": list(range(24))})


def test_categories_of_numbers_and_dates(tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = {
        name: samples.main_columns()[name] for name in ("number", "real", "truth", "day", "y")
    }
    arrays = {name: pa.array(values) for name, values in columns.items()}
    encoded = {name: array.dictionary_encode() for name, array in arrays.items()}
    with pa.OSFile(str(tmp_path / "t.arrows"), "wb") as file:
        table = pa.table(encoded | {"y": arrays["y"]})
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    compare(tmp_path, tmp_path / "t.arrows", columns)
    compare(tmp_path, tmp_path / "t.arrows", columns, "--categorical", "number,real")


def duckdb_environment():
    module = importlib.util.find_spec("_duckdb") or importlib.util.find_spec("duckdb.duckdb")
    python = ctypes.util.find_library(f"python{sys.version_info[0]}.{sys.version_info[1]}")
    if module is None or python is None:
        pytest.skip("no library of DuckDB, or none of Python, which it needs")
    return os.environ | {"GRAM_DUCKDB": module.origin, "LD_PRELOAD": python}


def test_an_arrow_table_is_the_parquet_table(tmp_path):
    """Also what CSV writes otherwise: seconds of times, digits of numbers, years, nanoseconds."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    environment = duckdb_environment()
    generator = np.random.default_rng(3)
    rows = 100
    whole = generator.integers(-(2**61), 2**61, rows)
    moments = {unit: generator.integers(-(10**high), 10**high, rows)
               for unit, high in (("s", 10), ("ms", 13), ("us", 16), ("ns", 18))}  # fmt: skip
    columns = {f"t_{unit}": pa.array(v, pa.timestamp(unit)) for unit, v in moments.items()}
    columns |= {f"z_{unit}": pa.array(v, pa.timestamp(unit, "Europe/Berlin"))
                for unit, v in moments.items()}  # fmt: skip
    columns |= {
        "day": pa.array(generator.integers(-900000, 3000000, rows, np.int32), pa.date32()),
        "clock": pa.array(generator.integers(0, 86400 * 10**6, rows), pa.time64("us")),
        "clock_ns": pa.array(generator.integers(0, 86400 * 10**9, rows), pa.time64("ns")),
        "short": pa.array(generator.integers(0, 86400, rows, np.int32), pa.time32("s")),
        "whole": pa.array(whole),
        "unsigned": pa.array(generator.integers(0, 2**64, rows, np.uint64)),
        "f32": pa.array(generator.normal(size=rows).astype("f")),
        "f64": pa.array(generator.normal(size=rows) * 10.0 ** generator.integers(-20, 20, rows)),
        "round": pa.array(10.0 ** (np.arange(rows) % 40 - 20)),
        "price": pa.array(whole // 10**10).cast(pa.decimal128(38, 0)),
        "fine": pa.array(whole // 10**12).cast(pa.decimal128(30, 7)),
        "duration": pa.array(generator.integers(0, 10**12, rows), pa.duration("us")),
        "null": pa.nulls(rows),
        "y": pa.array(generator.normal(size=rows)),
    }
    table = pa.table(columns)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    parquet.write_table(table, tmp_path / "t.parquet")
    kept = ["t_s", "t_ns", "z_ns", "day", "clock", "clock_ns", "short", "fine"]
    texts = ["whole", "unsigned", "f32", "f64", "round", "price", "fine", "duration"]
    for options in ([], ["--categorical", ",".join(texts)]):
        said = []
        for name in ("t.arrow", "t.parquet"):
            gram("fit", tmp_path / name, "-y", "y", "-o", tmp_path / name[2:], *FAST, *options,
                 env=environment)  # fmt: skip
            said.append(
                gram("predict", tmp_path / name[2:], tmp_path / name, "--keep", ",".join(kept),
                     env=environment)  # fmt: skip
            )
        assert (tmp_path / "arrow").read_bytes() == (tmp_path / "parquet").read_bytes()
        assert said[0] == said[1]
