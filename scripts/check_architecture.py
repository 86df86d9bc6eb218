#!/usr/bin/env python3
"""check_architecture.py - ARCHITECTURE.md, READMEs and docs/how-it-works name what is there

Looked at is what stands between backquotes:
- a path or a pattern of one (`src/core/view.c`, `cpu_*`, `*_tile.h`) names a file or a folder of
  the tree, from the root, src/, include/ or the folder of the document, or by its basename;
- a name that begins with gram_, cpu_ or cuda_ stands in the sources;
- in a walk, whose lines begin with "N. `function` in `file`", the file defines the function, and a
  walk has at most MOST_HOPS of them.
ARCHITECTURE.md has at most MOST_LINES lines.  Reads file names, one per line, on standard input;
prints FILE:LINE: what is wrong; status 1 if anything is.
"""

import fnmatch
import os
import re
import sys

MOST_LINES = 250
MOST_HOPS = 7
MAX_COLUMNS = 120
ENDINGS = r"c|h|cu|cuh|py|pyi|md|txt|cmake|def|so|toml|tsv"
PATH = re.compile(rf"[\w*./<>-]*[\w*>]\.(?:{ENDINGS})|(?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]*\*[\w-]*")
NAME = re.compile(r"(?:gram|cpu|cuda)_\w+")
HOP = re.compile(r"(\d+)\. `(\w+)` in `([^`]+)`")
MADE = {"libgram.so", "libgram_cuda.so", "libgram_mpi.so", "gram.1"}


def matches(pattern, names, folder):
    """Whether a file or a folder of the tree is called so."""
    pattern = re.sub(r"<\w+>", "*", pattern)
    if pattern.endswith("/"):
        starts = (pattern, os.path.join(folder, pattern))
        return any(name.startswith(starts) or f"/{pattern}" in name for name in names)
    if "/" in pattern:
        places = ("", folder, "src", "include")
        wanted = [os.path.normpath(os.path.join(place, pattern)) for place in places]
        return any(fnmatch.fnmatch(name, one) for name in names for one in wanted)
    return any(fnmatch.fnmatch(os.path.basename(name), pattern) for name in names)


def defines(path, function):
    try:
        text = open(path, encoding="utf-8").read()
    except OSError:
        return False
    return re.search(rf"^(?!.*;\s*$)[\w *]*\b{function}\(|\b(?:TILE|def) *{function}\b", text, re.M)


def problems_of(document, names, words):
    folder, hops, table = os.path.dirname(document), 0, False
    for number, line in enumerate(open(document, encoding="utf-8").read().split("\n"), 1):
        if line.startswith("```"):
            table = not table
        if len(line) > MAX_COLUMNS and not table and not line.startswith("|"):
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
        if line.startswith("#"):
            hops = 0
        hop = HOP.match(line)
        if hop:
            hops += 1
            if not defines(hop.group(3), hop.group(2)):
                yield number, f"{hop.group(3)} does not define {hop.group(2)}"
            if hops > MOST_HOPS:
                yield number, f"hop {hops} of a walk, at most {MOST_HOPS}"
        for quoted in re.findall(r"`([^`]+)`", line):
            if PATH.fullmatch(quoted) and quoted not in MADE:
                if not matches(quoted, names, folder):
                    yield number, f"{quoted} is not in the tree"
            elif NAME.fullmatch(quoted) and quoted not in words and quoted not in MADE:
                yield number, f"{quoted} is not in the sources"
    if document == "ARCHITECTURE.md" and number - 1 > MOST_LINES:
        yield number, f"{number - 1} lines, at most {MOST_LINES}"


def main():
    names = sys.stdin.read().split()
    words = set()
    for name in names:
        if name.startswith(("src/", "include/", "check/", "python/", "cli/", "tools/", "cmake/")):
            with open(name, encoding="utf-8", errors="replace") as file:
                words.update(NAME.findall(file.read()))
    documents = ["ARCHITECTURE.md"]
    others = re.compile(r"(src/\w+|tools/\w+)/README\.md|docs/how-it-works/[\w-]+\.md")
    documents += [name for name in names if others.fullmatch(name)]
    problems = 0
    for document in documents:
        for number, what in problems_of(document, names, words):
            print(f"{document}:{number}: {what}")
            problems += 1
    print(f"architecture: {len(documents)} documents, {problems} problems")
    return problems > 0


if __name__ == "__main__":
    sys.exit(main())
