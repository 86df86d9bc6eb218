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
        plain = re.sub(r"([\\*_`<>\[\]|$#~])", r"\\\1", title)
        out.append(f"## {plain}\n")
        out.append(f"```{{doxygengroup}} {group_name(title)}\n:content-only:\n:members:\n```\n")
    return "\n".join(out)
