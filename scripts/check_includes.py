#!/usr/bin/env python3
"""check_includes.py - who may include whom, the table in ARCHITECTURE.md

Reads file names, one a line, on standard input.  An #include "..." is resolved as the compiler does
it, from the including file's folder and then from the include folders; each layer may see only the
layers named here.
"""

import os
import re
import sys

# layer -> the layers it may include besides itself; the first matching prefix names a file's layer
LAYERS = [
    ("reference", "src/reference/"),
    ("cpu", "src/cpu/"),
    ("cuda", "src/cuda/"),
    ("mpi", "src/mpi/"),
    ("front", "src/"),
    ("public", "include/"),
    ("cli", "cli/"),
    ("tests", "tests/"),
    ("examples", "examples/"),
    ("python", "python/"),
    ("bench", "bench/"),
]
MAY_SEE = {
    "public": set(),
    "reference": {"public"},
    "front": {"public"},
    "cpu": {"public", "front"},
    "cuda": {"public", "front"},
    "mpi": {"public", "front"},
    "tests": {"public", "front", "cpu", "cuda", "reference", "cli", "python"},
    "examples": {"public"},
    "python": {"public"},
    "bench": {"public", "tests"},
    "cli": {"public"},
}
# `gram check`, `gram bench` and `gram profile` run the tests' tables through this one header.
ALSO = {("cli", "tests/harness.h")}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')
FOLDERS = ["include", "src", "tests", "cli"]


def layer_of(name):
    for layer, prefix in LAYERS:
        if name.startswith(prefix):
            return layer
    return None


def resolve(name, target):
    for folder in [os.path.dirname(name)] + FOLDERS:
        path = os.path.normpath(os.path.join(folder, target))
        if os.path.isfile(path):
            return path
    return None


def problems(name):
    layer = layer_of(name)
    if layer is None:
        return
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            path = resolve(name, match.group(2))
            if match.group(1) == "<" and (path is None or not match.group(2).startswith("gram/")):
                continue  # a system header
            if path is None:
                yield number, f'"{match.group(2)}" is not a file of the project'
                continue
            other = layer_of(path)
            if other != layer and other not in MAY_SEE[layer] and (layer, path) not in ALSO:
                yield number, f"{layer} may not include {path} ({other})"


def main():
    names = [n for n in sys.stdin.read().split("\n") if n]
    found = [(name, line, what) for name in names for line, what in problems(name)]
    for name, line, what in found:
        print(f"{name}:{line}: {what}")
    print(f"includes: {len(names)} files, {len(found)} problems")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
