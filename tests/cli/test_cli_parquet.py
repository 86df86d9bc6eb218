"""test_cli_parquet.py - tables of Parquet files, beside the same tables as CSV

DuckDB writes the files.  Its package of Python holds the library of C too, which needs Python's own
library beside it.
"""

import os

import pytest
from gram_cli import BAD_DATA, USAGE, gram, refusal
from machine_tables import FAST

UNSUPPORTED = 69
duckdb = pytest.importorskip("duckdb")

COLUMNS = """
    i::INTEGER AS number, sin(i) + i / 100 AS "real one", (i % 7)::DECIMAL(10, 2) AS price,
    CASE WHEN i % 30 = 0 THEN NULL ELSE 'x''"' || i % 3 END AS "te""xt", i % 2 = 0 AS truth,
    ('abc'[1 + i % 3])::ENUM('a', 'b', 'c') AS "enum", DATE '2020-01-01' + (i * 3)::INTEGER AS day,
    TIMESTAMP '2020-01-01 10:00:00' + INTERVAL 1 HOUR * i AS moment,
    'a text that is longer than twelve bytes, ' || i % 5 AS long,
    CASE WHEN i % 11 = 0 THEN NULL ELSE i::SMALLINT END AS some,
    cos(i / 10) + i % 3 AS y"""


@pytest.fixture(scope="module", name="environment")
def fixture_environment(duckdb_environment):
    return duckdb_environment


def write(folder, columns=COLUMNS, rows=2500, name="t"):
    """The same table as Parquet and as CSV."""
    parquet, csv = folder / f"{name}.parquet", folder / f"{name}.csv"
    with duckdb.connect() as connection:
        query = f"SELECT {columns} FROM range({rows}) AS r(i)"
        for path, form in ((parquet, "parquet"), (csv, "csv, header")):
            quoted = str(path).replace("'", "''")
            connection.execute(f"COPY ({query}) TO '{quoted}' (FORMAT {form})")
    return parquet, csv


def test_a_parquet_table_is_the_csv_table(tmp_path, environment):
    """2,500 rows are two of DuckDB's chunks of 2,048."""
    parquet, csv = write(tmp_path)
    for path, model in ((parquet, "a"), (csv, "b")):
        gram("fit", path, "-y", "y", "-o", tmp_path / model, *FAST, env=environment)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    expected = gram("predict", tmp_path / "a", csv)
    assert gram("predict", tmp_path / "a", parquet, env=environment) == expected
    for path in (parquet, csv):  # numbers as categories, and texts as what is kept
        gram("fit", path, "-y", "y", "-o", tmp_path / path.suffix, *FAST, "--categorical", "some",
             env=environment)  # fmt: skip
    assert (tmp_path / ".csv").read_bytes() == (tmp_path / ".parquet").read_bytes()


def test_matrices(tmp_path, environment):
    parquet, csv = write(tmp_path, "i / 7 AS a, i % 5 AS b, (i % 2)::VARCHAR AS c", rows=30)
    assert gram("cdist", parquet, env=environment) == gram("cdist", csv)
    parquet, _ = write(tmp_path, "i AS a, 'x' || i AS b", rows=3, name="text")
    said = refusal("cdist", parquet, status=BAD_DATA, env=environment)
    assert said.endswith('row 0, counted from 0: column "b": the value is "x0", expected a number')


def test_names_of_files_are_neither_patterns_nor_addresses(tmp_path, environment):
    folder = tmp_path / "a*[b]? it's"
    folder.mkdir()
    parquet, csv = write(folder, "i AS a, i % 5 AS b", rows=4)
    assert gram("cdist", parquet, env=environment) == gram("cdist", csv)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(tmp_path, environment, rows):
    parquet, csv = write(tmp_path, rows=3)
    gram("fit", csv, "-y", "y", "-o", tmp_path / "m", *FAST)
    parquet, csv = write(tmp_path, rows=rows)
    expected = gram("predict", tmp_path / "m", csv)
    assert gram("predict", tmp_path / "m", parquet, env=environment) == expected


def test_types_that_are_no_columns_of_a_table(tmp_path, environment):
    parquet, _ = write(tmp_path, "i AS a, [i, i] AS list, {'b': i} AS struct, 'x'::BLOB AS bytes, "
                       "i * 2.0 AS y", rows=40)  # fmt: skip
    ignored = []
    for name, kind in (("list", "BIGINT[]"), ("struct", "STRUCT("), ("bytes", "BLOB")):
        said = refusal("fit", parquet, "-y", "y", "-o", tmp_path / "m", "--ignore",
                       ",".join(ignored), status=BAD_DATA, env=environment)  # fmt: skip
        assert f'column "{name}" is of type {kind}' in said
        assert said.endswith("expected numbers, text or dates")
        ignored.append(name)
    gram("fit", parquet, "-y", "y", "-o", tmp_path / "m", "--ignore", "list,struct,bytes", *FAST,
         env=environment)  # fmt: skip
    assert gram("predict", tmp_path / "m", parquet, env=environment).count("\n") == 41


def test_a_broken_file_is_told(tmp_path, environment):
    parquet, csv = write(tmp_path, rows=50)
    gram("fit", csv, "-y", "y", "-o", tmp_path / "m", *FAST)
    whole = parquet.read_bytes()
    for size in (4, 5, 100, len(whole) - 1):
        parquet.write_bytes(whole[:size])
        said = refusal("predict", tmp_path / "m", parquet, status=BAD_DATA, env=environment)
        assert said.startswith(f"gram predict: {parquet}: DuckDB cannot read this Parquet file: ")
        assert "\n" not in said
    parquet.write_bytes(whole)
    with open(parquet, "rb") as file:
        said = refusal("predict", tmp_path / "m", "-", status=BAD_DATA, stdin=file)
    assert "such a file cannot be read from a pipe" in said
    assert "reads tables" not in refusal("predict", tmp_path / "m", status=USAGE)


@pytest.mark.parametrize("library, reason", [
    ("/nowhere/libduckdb.so", "/nowhere/libduckdb.so cannot be opened on this machine"),
    ("libc.so.6", "libc.so.6 lacks functions of DuckDB 1.0"),
])  # fmt: skip
def test_without_duckdb(tmp_path, library, reason):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and no more")
    said = refusal("cdist", path, status=UNSUPPORTED, env=os.environ | {"GRAM_DUCKDB": library})
    assert said == (
        f"gram cdist: {path}: this is Parquet, and {reason}; install DuckDB's library of C, or "
        f"make CSV of the file, as in: python3 -c 'import pandas; "
        f'pandas.read_parquet("{path}").to_csv("data.csv", index=False)\''
    )
