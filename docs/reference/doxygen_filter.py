#!/usr/bin/env python3
"""doxygen_filter.py FILE - a header with plain comments as Doxygen wants it, on standard output

The header is written for people who read it in an editor.  Here a comment before a declaration
becomes /** */, one behind a member /**< */, a section line a group, and the first comment
of gram.h the main page.  Formulas, which are indented, keep their lines.
"""

import re
import sys

SECTION = re.compile(r"^/\* ---- (.*?) -+ \*/$")
WORKSPACE = re.compile(r"^GRAM_API gram_status (gram_\w+)_workspace\(")


def escape(text):
    """Nothing in the comments is a Doxygen command or HTML."""
    return re.sub(r"([\\@<>&#$%])", r"\\\1", text)


def keep_formulas(lines):
    """The escaped lines of a comment; indented ones, which are formulas, become verbatim text."""
    out, verbatim, text_at = [], False, 0
    for line in lines:
        text = re.match(r" \*( +)(\S.*)$", line)
        indent = len(text.group(1)) - 1 if text else 0
        if text and text.group(2).startswith("- "):  # an item, whose own text is indented by two
            text_at = indent + 2
        elif indent == 0:
            text_at = 0
        formula = bool(text) and indent > text_at and not line.endswith("*/")
        if formula != verbatim:
            command = "@verbatim" if formula else "@endverbatim"
            out.append((" * " if formula else "   ") + " " * text_at + command)
            verbatim = formula
        out.append("  " + line[2:] if formula else escape(line))
    return out


def group_name(title):
    return re.sub(r"\W+", "_", title.lower()).strip("_")


def comment_lines(lines, start):
    """Index behind the comment that begins at start."""
    end = start
    while "*/" not in lines[end]:
        end += 1
    return end + 1


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    out, i, first, open_group = [], 0, True, False
    documented = False  # does a comment end right above this line?
    while i < len(lines):
        line = lines[i]
        section = SECTION.match(line)
        if "/* clang-format o" in line:
            i += 1
            continue
        if section:
            if open_group:
                out.append("/** @} */")
            title = section.group(1)
            out.append(f"/** @defgroup {group_name(title)} {escape(title)}\n * @{{ */")
            open_group = True
            i += 1
        elif line.startswith("/*"):
            end = comment_lines(lines, i)
            body = keep_formulas(lines[i:end])
            body[0] = "/**" + body[0][2:]
            if first:
                name, text = re.match(r" \* (\S+) - (.*)", body[1]).groups()
                page = f"@mainpage libgram: {text}\n *\n * @file {name}\n *"
                if name != "gram.h":
                    page = f"@file {name}\n * @brief {text}\n *"
                body[1] = f" * {page}"
                body = [text for text in body if "SPDX" not in text]
                first = False
            out += body
            documented = True
            i = end
            continue
        else:
            workspace = WORKSPACE.match(line)
            if workspace and not documented:
                call = workspace.group(1) + "()"
                out.append(f"/** The scratch memory that {call} needs with these arguments. */")
            if line.lstrip().startswith("/*"):  # inside a struct, before a member
                end = comment_lines(lines, i)
                body = [escape(text) for text in lines[i:end]]
                out += [re.sub(r"/\*", "/**", body[0], count=1)] + body[1:]
                i = end
                continue
            behind = re.match(r"^(\s+\S.*?)/\*(.*)$", line)
            if behind and not line.lstrip().startswith("#"):
                end = comment_lines(lines, i)
                rest = [escape(text) for text in [behind.group(2)] + lines[i + 1 : end]]
                out += [behind.group(1) + "/**<" + rest[0]] + rest[1:]
                i = end
                documented = False
                continue
            out.append(line)
            i += 1
        documented = False
    text = "\n".join(out)
    if open_group:  # before the closing of extern "C"
        text = text.replace("\n#ifdef __cplusplus\n}", "\n/** @} */\n#ifdef __cplusplus\n}", 1)
    print(text)


if __name__ == "__main__":
    main()
