#!/usr/bin/env python3
"""pypi_readme.py - README.md as the page of the project on PyPI

    scripts/pypi_readme.py [ADDRESS] <README.md

PyPI shows the text alone: a path within the tree leads nowhere there.  ADDRESS is where the files
of the tree are read, such as https://github.com/OWNER/NAME/blob/v1.2.3; links and images get it in
front, and images the ?raw=true with which GitHub serves them.  Without an address images are left
out, and links within the tree become plain text.
"""

import re
import sys

# [text](target) or [text][name], with an image's exclamation mark or without it.
LINK = re.compile(r"(!?)\[([^][]*)\](?:\(([^)\s]+)\)|\[([^][]+)\])")
NAMED = re.compile(r"^\[([^][]+)\]: (\S+)$", re.M)
COMMENT = re.compile(r"^<!--.*?-->\n", re.M | re.S)


def outside(target):
    return re.match(r"[a-z]+:", target) or target.startswith("#")


def page(text, address):
    names = dict(NAMED.findall(text))
    text = COMMENT.sub("", NAMED.sub("", text))

    def link(match):
        image, label, target, name = match.groups()
        target = target or names.get(name)
        if target is None:
            return match.group()
        if outside(target):
            return f"{image}[{label}]({target})"
        if not address:
            return "" if image else label
        return f"{image}[{label}]({address}/{target}{'?raw=true' if image else ''})"

    parts = re.split(r"^(```.*?^```$)", text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        parts[i] = LINK.sub(link, parts[i])
    for i in range(1, len(parts), 2):  # code; that the tests run it is no language for PyPI
        parts[i] = re.sub(r"^```(\w+) \w+$", r"```\1", parts[i], flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


if __name__ == "__main__":
    given = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else ""
    sys.stdout.write(page(sys.stdin.read(), given))
