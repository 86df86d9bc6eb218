"""c_pages.py - the reference of a public header, section by section in the header's own order

A section line of a header is a group of Doxygen (docs/reference/doxygen_filter.py); its page has a
heading and the members for each of them.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/reference"))

from doxygen_filter import SECTION, group_name  # noqa: E402


def header(name):
    """The sections of include/gram/NAME, as Markdown."""
    lines = (ROOT / "include/gram" / name).read_text(encoding="utf-8").split("\n")
    titles = [match.group(1) for match in map(SECTION.match, lines) if match]
    out = []
    for title in titles:
        out.append(f"## {plain(title)}\n")
        out.append(f"```{{doxygengroup}} {group_name(title)}\n:content-only:\n:members:\n```\n")
    return "\n".join(out)


def plain(text):
    return re.sub(r"([\\*_`<>\[\]|$#~])", r"\\\1", text)


def overview():
    """The first comment of gram.h: its table with links, and what holds for all calls."""
    source = (ROOT / "include/gram/gram.h").read_text(encoding="utf-8")
    lines = [line[3:] for line in source.split("*/")[0].split("\n")[1:]]
    rows = [re.fullmatch(r"  (\S.*?)  +(\w+)\.h  +(\S.*)", line) for line in lines]
    out = ["| I want | header | begin with |", "|---|---|---|"]
    for row in filter(None, rows):
        want, name, functions = row.groups()
        names = ", ".join(f"`{each}`" for each in functions.split(", "))
        out.append(f"| {plain(want)} | [{name}.h]({name}.md) | {names} |")
    last = max(i for i, row in enumerate(rows) if row)
    paragraphs = re.split(r"\n\n+", "\n".join(lines[last + 1 :]).strip())
    kept = [plain(p) for p in paragraphs if "SPDX" not in p]
    return "\n".join([*out, "", "## What holds for every call", "", "\n\n".join(kept)]) + "\n"
