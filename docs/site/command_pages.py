"""command_pages.py - the reference of the command, from what `gram` says of itself

The help of the command has one form: a line of usage, paragraphs, groups whose titles end with a
colon, in them options indented by two with their text from column 26 on, and examples.
"""

import os
import pathlib
import re
import subprocess

TITLE = re.compile(r"^[A-Z][\w ,']*:$")


def program():
    build = os.environ.get("BUILD", "build")
    return pathlib.Path(__file__).parents[2] / build / "gram"


def said(*arguments):
    environment = dict(os.environ, COLUMNS="200", NO_COLOR="1")
    return subprocess.run(
        [program(), *arguments], env=environment, capture_output=True, text=True, check=True
    ).stdout


def escaped(text):
    """Plain text as Markdown; names of options become code."""
    parts = re.split(r"((?<![\w-])--[a-z][\w-]*)", text)
    for i, part in enumerate(parts):
        parts[i] = f"`{part}`" if i % 2 else re.sub(r"([\\*_`<>\[\]|$#~])", r"\\\1", part)
    return "".join(parts)


def paragraphs(lines):
    text = "\n".join(lines).strip("\n")
    return [escaped(" ".join(p.split())) for p in re.split(r"\n\s*\n", text) if p.strip()]


def entries(lines):
    """(head, text) of what is indented: options, commands and exit statuses."""
    found = []
    for line in lines:
        new = re.match(r"^ {2,6}(-\w, )?(\S.*?)(?: {2,}(.*))?$", line)
        if not line.startswith(" " * 20) and new:
            head = (new.group(1) or "") + new.group(2)
            found.append([head, new.group(3) or ""])
        elif line.strip() and found:
            found[-1][1] += " " + line.strip()
    return found


def definitions(lines):
    return "\n".join(f"`{h}`\n: {escaped(t.strip()) or '—'}\n" for h, t in entries(lines))


def sections(text):
    """(usage, lines before the first group, [(title, lines)])"""
    lines = text.rstrip().split("\n")
    usage = [lines[0]]
    while lines[len(usage)].startswith("  "):
        usage.append(lines[len(usage)])
    groups, before = [], []
    for line in lines[len(usage) :]:
        if TITLE.match(line):
            groups.append((line[:-1], []))
        else:
            (groups[-1][1] if groups else before).append(line)
    return usage, before, groups


def command_section(name):
    usage, before, groups = sections(said(name, "--help"))
    out = [f"## gram {name}", "```text\n" + "\n".join(usage)[len("usage: ") :] + "\n```"]
    out += paragraphs(before)
    for title, lines in groups:
        shown = [line for line in lines if line.strip()]
        out.append(f"**{title}**")
        if title == "Examples":
            out.append("```sh\n" + "\n".join(line.strip() for line in shown) + "\n```")
        elif all(line.startswith("  ") for line in shown):
            out.append(definitions(lines))
        else:
            out += paragraphs(lines)
    return "\n\n".join(out)


def names():
    _, _, groups = sections(said("help"))
    return [head for head, _ in entries(dict(groups)["Commands"])]


def commands():
    """One section for each command."""
    return "\n\n".join(command_section(name) for name in names() if name != "help") + "\n"


def overview():
    _, before, groups = sections(said("help"))
    rows = [
        f"| [gram {head}](#gram-{head}) | {escaped(text)} |"
        for head, text in entries(dict(groups)["Commands"])
        if head != "help"
    ]
    return "\n".join(["| command | what it does |", "|---|---|", *rows]) + "\n"


def exit_statuses():
    _, _, groups = sections(said("help"))
    rows = [f"| {head} | {escaped(text)} |" for head, text in entries(dict(groups)["Exit status"])]
    return "\n".join(["| status | meaning |", "|---|---|", *rows]) + "\n"


def manual(title):
    """A list of the manual page, as ENVIRONMENT, as a list of definitions."""
    page = said("help", "--man")
    part = re.search(rf'^\.SH "?{title}"?\n(.*?)(?=^\.SH|\Z)', page, re.M | re.S).group(1)
    out = []
    for item in part.split(".TP\n")[1:]:
        head, _, text = item.partition("\n")
        plain = re.sub(r"\\f[BRIP]|\\&", "", text).replace("\\-", "-").replace("\\(aq", "'")
        name = re.sub(r"^\.\w+ |\\&", "", head).replace("\\-", "-").strip('"')
        out.append(f"`{name}`\n: {escaped(' '.join(plain.split()))}\n")
    return "\n".join(out)


def environment():
    """The variables of the manual page; all that the library reads have to be among them."""
    text = manual("ENVIRONMENT")
    missing = [name for name in settings() if name.startswith("GRAM_") and f"`{name}`" not in text]
    if missing:
        raise ValueError(f"the manual page does not explain {missing}")
    return text


def files():
    return manual("FILES")


def settings():
    """Every variable that the library reads."""
    source = pathlib.Path(__file__).parents[2] / "src/core/settings.c"
    return sorted(set(re.findall(r'\{\s*"([A-Z_]+)"', source.read_text(encoding="utf-8"))))
