"""conftest.py - small parts of the two data sets, to learn and to read, and a model of each"""

import csv
import ctypes.util
import importlib.util
import itertools
import os
import sys

import numpy as np
import pytest
from gram_cli import DATA, SOURCE, gram_json, write_rows

sys.path.insert(0, str(SOURCE / "scripts"))
import cache_folder  # noqa: E402

# XLA keeps what it has compiled, by content, beside what other tests have; most of it takes less
# than the second that it takes for worth keeping.
if cache_folder.of_tests():
    os.environ.setdefault(
        "JAX_COMPILATION_CACHE_DIR", os.path.join(cache_folder.of_tests(), "jax")
    )
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


@pytest.fixture(scope="session")
def duckdb_environment():
    """For a gram that reads Parquet: DuckDB's package of Python holds its library of C."""
    module = importlib.util.find_spec("_duckdb") or importlib.util.find_spec("duckdb.duckdb")
    python = ctypes.util.find_library(f"python{sys.version_info[0]}.{sys.version_info[1]}")
    if module is None or python is None:
        pytest.skip("no library of DuckDB, or none of Python, which it needs")
    return os.environ | {"GRAM_DUCKDB": module.origin, "LD_PRELOAD": python}


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """1,500 letters to learn, 500 to read, and what a fit on them reported."""
    folder = tmp_path_factory.mktemp("letters")
    with open(DATA / "letters.csv", encoding="utf-8") as file:
        header, *rows = list(csv.reader(itertools.islice(file, 2001)))
    write_rows(folder / "train.csv", [header, *rows[:1500]])
    write_rows(folder / "test.csv", [header, *rows[1500:]])
    report = gram_json(
        "fit", folder / "train.csv", "--target", "letter", "-o", folder / "model", "--seed", 1
    )
    return folder, report, [row[0] for row in rows[1500:]]


@pytest.fixture(scope="session")
def diamonds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diamonds")
    with open(DATA / "diamonds.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    header, rows = rows[0], rows[1::45]
    test = rows[::4]
    write_rows(folder / "train.csv", [header, *(row for i, row in enumerate(rows) if i % 4)])
    write_rows(folder / "test.csv", [header, *test])
    report = gram_json("fit", folder / "train.csv", "-y", "price", "-o", folder / "model")
    return folder, report, np.array([float(row[header.index("price")]) for row in test])
