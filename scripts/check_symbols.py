#!/usr/bin/env python3
"""check_symbols.py BUILD - what libgram exports, hides and calls

- libgram.so exports exactly the functions that include/gram declares, all with one version of the
  ABI, and each has a comment in its header.
- every other external name of libgram.a begins with gram_, or with cpu_ for a driver of the CPU.
- an isa_<isa>.c, compiled for its own processors, defines its table and nothing else: an extern
  function there could be the copy that the linker keeps for every processor.
- the library calls nothing that prints to standard output, ends the process or installs a signal
  handler.
"""

import glob
import re
import subprocess
import sys

FORBIDDEN = {
    "printf",
    "vprintf",
    "puts",
    "putchar",
    "perror",
    "abort",
    "exit",
    "_exit",
    "quick_exit",
    "signal",
    "sigaction",
    "raise",
    "kill",
    "system",
    "fesetround",
    "fesetenv",
    "feenableexcept",
}


def nm(*arguments):
    text = subprocess.run(["nm", *arguments], check=True, capture_output=True, text=True).stdout
    member = ""
    for line in text.splitlines():
        if line.endswith(":"):
            member = line[:-1]
            continue
        fields = line.split()
        if len(fields) >= 2:
            yield member, fields[-2], fields[-1]


def plain(name):
    """A name without its version, as in gram_cdist@@GRAM_0.1."""
    return name.split("@")[0]


def declared(header):
    """Public functions of the header, and those of them without a comment before their group."""
    text = open(header, encoding="utf-8").read()
    found, bare = set(), []
    for match in re.finditer(r"^GRAM_(?:API|PUBLIC)\b[^;(]*?\b(gram_\w+)\(", text, re.M):
        name = match.group(1)
        found.add(name)
        group = text[: match.start()].rstrip()
        while not group.endswith("*/"):  # functions declared one after the other share a comment
            previous = re.search(r"GRAM_(?:API|PUBLIC)\b[^;]*;$", group)
            if not previous:
                bare.append(name)
                break
            group = group[: previous.start()].rstrip()
    return found, bare


def main():
    build = sys.argv[1]
    problems = []
    public = set()
    for header in sorted(glob.glob("include/gram/*.h")):
        found, bare = declared(header)
        public |= found
        problems += [f"{name} has no comment in {header}" for name in bare]

    # The versions themselves are absolute symbols.
    dynamic = list(nm("-D", "--defined-only", f"{build}/libgram.so"))
    nodes = {name for _, kind, name in dynamic if kind == "A"}
    versioned = [name for _, kind, name in dynamic if kind != "A"]
    exported = {plain(name) for name in versioned}
    if len({name.partition("@@")[2] for name in versioned}) != 1:
        problems.append(f"libgram.so exports functions of several versions or of none: {nodes}")
    problems += [
        f"libgram.so exports {name}, which no header of include/gram declares"
        for name in sorted(exported - public)
    ]
    problems += [
        f"include/gram declares {name}, which libgram.so does not export"
        for name in sorted(public - exported)
    ]

    tables = {}
    for member, _, name in nm("-g", "--defined-only", f"{build}/libgram.a"):
        if not name.startswith(("gram_", "cpu_")):
            problems.append(f"{member}: external name {name} begins with neither gram_ nor cpu_")
        if member.startswith("isa_"):
            tables.setdefault(member, []).append(name)
    for member, names in tables.items():
        if len(names) != 1 or not names[0].startswith("gram_cpu_kernels_"):
            problems.append(f"{member} defines {', '.join(names)}; expected its table alone")
    if not tables:
        problems.append("libgram.a has no isa_*.c")

    called = {plain(name) for _, _, name in nm("-D", "--undefined-only", f"{build}/libgram.so")}
    problems += [f"libgram.so calls {name}()" for name in sorted(called & FORBIDDEN)]

    print("\n".join(problems + [f"symbols: {len(exported)} exported, {len(problems)} problems"]))
    return 1 if problems or not exported else 0


if __name__ == "__main__":
    sys.exit(main())
