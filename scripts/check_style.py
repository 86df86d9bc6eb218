#!/usr/bin/env python3
"""check_style.py - the house rules that clang-format and clang-tidy do not know

Reads file names, one a line, on standard input; prints FILE:LINE: what is wrong; status 1 if
anything is.
"""

import os
import re
import sys

MAX_LINES = 800
MAX_COLUMNS = 100

UNFINISHED = re.compile(r"#\s*if\s+0\b|\b(TODO|FIXME|XXX)\b")
FAST_MATH = re.compile(
    r"-ffast-math|-Ofast|_MM_SET_(FLUSH_ZERO|DENORMALS)|\bfesetround\b|\bfesetenv\b"
)
# clang-format aligns the columns of a table, past the limit if it must.
TABLE_ROW = re.compile(r"^\s*(\{.*|.*\}),?;?(\s*/[/*].*)?$")
MACHINE_PATH = re.compile(r"(?<![\w./])/(work|root|home/\w+)/")
LICENCE = "SPDX-License-" + "Identifier: MIT"  # in two parts: tools read it even here
SCRIPTS = ("scripts/", ".ci/", "CMakeLists.txt", "Makefile")
CODE = (".c", ".h", ".py", ".sh", ".cmake", ".cu", ".cuh")


def problems_of_line(name, line):
    if line.endswith((" ", "\t")):
        yield "white space at the end of the line"
    if name.endswith(CODE) or name.startswith(SCRIPTS):
        if "\t" in line and os.path.basename(name) != "Makefile":
            yield "a tab"
        if len(line) > MAX_COLUMNS and not TABLE_ROW.match(line):
            yield f"{len(line)} columns, at most {MAX_COLUMNS}"
    if name.endswith(CODE) and not name.startswith("scripts/check_"):
        if UNFINISHED.search(line):
            yield "unfinished or dead code"
        if FAST_MATH.search(line):
            yield "changes floating-point modes"
    if MACHINE_PATH.search(line):
        yield "a path of one machine"


def problems_of_header(name, text):
    """The first comment names the file, says what it is, and ends with the licence."""
    base = os.path.basename(name)
    comment = re.match(r"/\*.*?\*/", text, re.S)
    if not comment:
        yield 1, "no header comment"
        return
    words = comment.group()
    if not re.match(rf"/\*\s*(\*\s*)?{re.escape(base)} - \S", words):
        yield 1, f"the header comment does not begin with '{base} - what it is'"
    if not re.search(rf"{LICENCE}\s*\*/$", words):
        yield 1, f"the header comment does not end with '{LICENCE}'"


def problems_of_file(name, text):
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end of the file"
    for number, line in enumerate(text.split("\n"), 1):
        for problem in problems_of_line(name, line):
            yield number, problem
    if name.endswith((".c", ".h")):
        yield from problems_of_header(name, text)
        lines = text.count("\n")
        if lines > MAX_LINES:
            yield lines, f"{lines} lines, at most {MAX_LINES}: split by idea"


def problems_of_names(names):
    """One operation, one stem: a basename stands for one file.

    The public headers, which are included as gram/NAME.h, have the names of the domains.
    """
    seen = {}
    for name in names:
        if name.endswith((".c", ".h")) and not name.startswith("include/gram/"):
            other = seen.setdefault(os.path.basename(name), name)
            if other != name:
                yield name, 1, f"the same basename as {other}"


def main():
    names = [n for n in sys.stdin.read().split("\n") if n]
    found = list(problems_of_names(names))
    checked = 0
    for name in names:
        if name.startswith(("examples/data/", "tests/corpus/", "bench/results/")):
            continue
        with open(name, "rb") as file:
            data = file.read()
        if b"\0" in data:
            continue
        checked += 1
        found += [
            (name, line, what)
            for line, what in problems_of_file(name, data.decode("utf-8", "replace"))
        ]
    for name, line, what in found:
        print(f"{name}:{line}: {what}")
    print(f"style: {checked} files, {len(found)} problems")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
