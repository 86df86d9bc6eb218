#!/usr/bin/env python3
"""check_docs.py - links, places and lines of the Markdown files

A link to a file names one that is there, and its #place a heading of that file; a line outside of
tables has at most 120 columns; a fence is closed; what a page takes from docs/site exists.  Reads
file names, one per line, on standard input; prints FILE:LINE: what is wrong; status 1 if anything
is.  The examples on the pages are run by tests/project/test_guide.py and
tests/python/test_documents.py; scripts/docs checks the links of the site that is built.
"""

import os
import re
import sys

MAX_COLUMNS = 120
LINK = re.compile(r"\[[^][]*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
MADE = re.compile(r"<!-- made: (\w+)\.(\w+)")
LEFT_OUT = ("tests/corpus/",)


def place_of(heading):
    """The anchor that a heading gets."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def outside_of_fences(text):
    """(number, line) of the lines that are not code; a fence that is never closed is told last."""
    fence, opened = None, 0
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(`{3,}|~{3,}|:{3,})", line)
        if mark and fence is None and not mark.group(1).startswith(":"):
            fence, opened = mark.group(1), number
        elif mark and fence and line.strip() == fence:
            fence = None
        elif fence is None:
            yield number, line
    if fence:
        yield opened, None


def places(path):
    found = set()
    with open(path, encoding="utf-8") as file:
        for _, line in outside_of_fences(file.read()):
            heading = re.match(r"#+ (.*)", line or "")
            name = re.match(r"\(([\w-]+)\)=$", line or "")
            found |= {place_of(heading.group(1))} if heading else set()
            found |= {name.group(1)} if name else set()
    return found


def problems_of_link(name, target):
    if re.match(r"[a-z]+:", target) or target.startswith("#gram."):
        return
    path, _, place = target.partition("#")
    whole = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
    if not os.path.exists(whole):
        yield f"dead link {target}"
    elif place and whole.endswith(".md") and place not in places(whole):
        with open(whole, encoding="utf-8") as file:
            if "<!-- made:" not in file.read():
                yield f"{whole} has no heading #{place}"


def problems_of_line(name, line):
    if line is None:
        yield "a fence that is never closed"
        return
    plain = re.sub(r"`[^`]*`", "", line)
    for target in LINK.findall(plain):
        yield from problems_of_link(name, target)
    for module, function in MADE.findall(line):
        path = f"docs/site/{module}.py"
        if not os.path.exists(path) or f"\ndef {function}(" not in open(path).read():
            yield f"{path} has no {function}"


def problems_of_file(name):
    with open(name, encoding="utf-8") as file:
        text = file.read()
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_COLUMNS and not line.startswith("|"):
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
    for number, line in outside_of_fences(text):
        for problem in problems_of_line(name, line):
            yield number, problem


def main():
    names = [n for n in sys.stdin.read().split("\n") if n.endswith(".md")]
    names = [n for n in names if not n.startswith(LEFT_OUT)]
    found = [(name, *problem) for name in names for problem in problems_of_file(name)]
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    print(f"docs: {len(names)} documents, {len(found)} problems")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
