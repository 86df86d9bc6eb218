"""arrow_samples.py - tables as CSV, and the Arrow files of tests/corpus/fuzz_arrow that hold them

The tests compare both.  Only writing the files anew needs pyarrow: python3 arrow_samples.py
"""

import datetime
import decimal
import math
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_arrow"
ROWS = 24
DAY = datetime.date(2020, 2, 20)
MOMENT = datetime.datetime(2019, 12, 31, 22, 0, 0, 250000)
LONG = "a text of more than twelve bytes"


def main_columns():
    """Name: the values, of which None is missing."""
    rows = range(ROWS)
    return {
        "number": [i - 5 for i in rows],
        "real": [None if i == 7 else math.sin(i) + i / 10 for i in rows],
        "te xt": [None if i % 9 == 4 else f"x\"{i % 3}" for i in rows],
        "kind": [None if i % 11 == 3 else f"{LONG}, {i % 2}" for i in rows],
        "truth": [None if i == 5 else i % 2 == 0 for i in rows],
        "day": [DAY + datetime.timedelta(days=3 * i) for i in rows],
        "moment": [MOMENT + datetime.timedelta(minutes=31 * i) for i in rows],
        "y": [i % 5 + i / 8 for i in rows],
    }


def type_columns():
    """One column for each type of numbers and times; the values that CSV has."""
    rows = range(ROWS)
    columns = {f"{sign}int{bits}": [i % 50 if sign else 9 - i for i in rows]
               for bits in (8, 16, 32, 64) for sign in ("", "u")}  # fmt: skip
    columns |= {f"float{bits}": [None if i == 2 else i / 4 for i in rows] for bits in (16, 32)}
    columns |= {
        f"decimal{bits}": [decimal.Decimal(7 * i - 30).scaleb(-2) for i in rows]
        for bits in (32, 64, 128, 256)
    }
    columns |= {f"timestamp_{unit}": [MOMENT.replace(microsecond=0)] * ROWS
                for unit in ("s", "ms", "us", "ns")}  # fmt: skip
    columns |= {f"time_{unit}": [datetime.time(i, 30, 1)] * ROWS
                for i, unit in enumerate(("s", "ms", "us", "ns"))}  # fmt: skip
    columns |= {"duration": [1000 * i for i in rows], "date64": [DAY] * ROWS}
    columns |= {"zone": [MOMENT] * ROWS, "null": [None] * ROWS}
    return columns | {"y": [i % 5 + i / 8 for i in rows]}


def cell(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" + (f".{value.microsecond:06}".rstrip("0").rstrip("."))
    return '"' + str(value).replace('"', '""') + '"'


def csv(columns):
    lines = [",".join(cell(name) for name in columns)]
    lines += [",".join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


# Every file, and the columns that it holds.
MAIN = ["file.arrow", "stream.arrows", "old.arrows", "large.arrow", "views.arrow"]
TYPES = ["types.arrow"]
PACKED = ["lz4.feather", "zstd.arrows"]


def table(large=False, views=False):
    import pyarrow as pa

    text = pa.large_string() if large else pa.string_view() if views else pa.string()
    index = pa.uint16() if large else pa.int8()
    types = {
        "te xt": text,
        "kind": text if views else pa.dictionary(index, text),
        "moment": pa.timestamp("us" if large else "ms"),
        "number": pa.int32(),
    }
    columns = {
        name: pa.array(values, types.get(name)) for name, values in main_columns().items()
    }
    return pa.table(columns)


def types_table():
    import pyarrow as pa

    types = {name: getattr(pa, name)() for name in ("int8", "uint8", "int16", "uint16", "int32",
             "uint32", "int64", "uint64", "float16", "float32", "date64")}  # fmt: skip
    types |= {f"decimal{b}": getattr(pa, f"decimal{b}")(9, 2) for b in (32, 64, 128, 256)}
    types |= {f"timestamp_{unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}
    types |= {f"time_{unit}": pa.time32(unit) for unit in ("s", "ms")}
    types |= {f"time_{unit}": pa.time64(unit) for unit in ("us", "ns")}
    types |= {"duration": pa.duration("ms"), "null": pa.null()}
    types |= {"zone": pa.timestamp("ms", "Europe/Berlin")}
    return pa.table(
        {name: pa.array(values, types.get(name)) for name, values in type_columns().items()}
    )


def nested_table():
    import pyarrow as pa

    rows = range(ROWS)
    union = pa.UnionArray.from_dense(pa.array([0] * ROWS, pa.int8()), pa.array(rows, pa.int32()),
                                     [pa.array(rows)])  # fmt: skip
    return pa.table({
        "a": pa.array([i % 7 for i in rows]),
        "list": pa.array([[str(i)] * (i % 3) for i in rows], pa.list_(pa.string_view())),
        "struct": pa.array([{"b": i, "c": str(i)} for i in rows]),
        "union": union,
        "map": pa.array([[("k", i)] for i in rows], pa.map_(pa.string(), pa.int8())),
        "fixed_size_list": pa.array([[i, i] for i in rows], pa.list_(pa.int8(), 2)),
        "binary": pa.array([b"\xff"] * ROWS),
        "binary_view": pa.array([b"\xff" * 14] * ROWS, pa.binary_view()),
        "fixed_size_binary": pa.array([b"ab"] * ROWS, pa.binary(2)),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays([ROWS], ["x"]),
        "interval": pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval()),
        "y": pa.array([i % 5 + i / 8 for i in rows]),
    })  # fmt: skip


NESTED = ("list struct union map fixed_size_list binary binary_view fixed_size_binary "
          "run_end_encoded interval").split()  # fmt: skip


def words_tables():
    """Two batches with dictionaries of their own, and one whose dictionary begins as the first."""
    import pyarrow as pa

    def batch(indices, words):
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words))
        return pa.record_batch({"word": array, "y": pa.array(range(len(indices)), pa.int8())})

    first = batch([0, 1, 0, None], ["north", "south"])
    return first, batch([1, 0, 0, 1], ["east", "west"]), batch([2, 1], ["north", "south", "east"])


WORDS = {
    "replaced.arrows": ["north", "south", "north", None, "west", "east", "east", "west"],
    "delta.arrows": ["north", "south", "north", None, "east", "south"],
    "delta.arrow": ["north", "south", "north", None, "east", "south"],
}


def words_columns(name):
    words = WORDS[name]
    first = len(words) - (4 if name.startswith("replaced") else 2)
    return {"word": words, "y": [*range(first), *range(len(words) - first)]}


def write():
    import pyarrow as pa

    def save(name, data, rows=None, **options):
        new = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        batches = data if isinstance(data, (list, tuple)) else data.to_batches(max_chunksize=rows)
        schema = batches[0].schema if batches else data.schema
        with new(FOLDER / name, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            for batch in batches:
                writer.write_batch(batch)

    FOLDER.mkdir(exist_ok=True)
    save("file.arrow", table(), rows=10)
    save("stream.arrows", table(), rows=23)
    save("old.arrows", table(), metadata_version=pa.ipc.MetadataVersion.V4,
         use_legacy_format=True)  # fmt: skip
    save("large.arrow", table(large=True))
    save("views.arrow", table(views=True))
    save("lz4.feather", table(), compression="lz4")
    save("zstd.arrows", table(views=True), compression="zstd")
    save("types.arrow", types_table())
    save("nested.arrow", nested_table())
    save("no_rows.arrow", table().slice(0, 0))
    save("no_columns.arrow", pa.table({}))
    first, second, longer = words_tables()
    save("replaced.arrows", [first, second])
    save("delta.arrows", [first, longer], emit_dictionary_deltas=True)
    save("delta.arrow", [first, longer], emit_dictionary_deltas=True)


if __name__ == "__main__":
    write()
