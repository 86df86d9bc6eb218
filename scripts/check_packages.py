#!/usr/bin/env python3
"""check_packages.py - packaging and automation against the tree

- The version stands in CMakeLists.txt; CITATION.cff, which cannot read it there, has the same one,
  and no template of a package has one of its own.
- Scripts that workflows, pre-commit and the devcontainer call are there, and so are the parts of
  scripts/check and scripts/release that they name.
- Every extra of pyproject.toml is in docs/reference/packages.md.
Prints FILE: what is wrong; status 1 if anything is.
"""

import glob
import pathlib
import re
import subprocess
import sys


def read(name):
    return pathlib.Path(name).read_text(encoding="utf-8")


def parts(script):
    done = subprocess.run([script, "--list"], check=True, capture_output=True, text=True)
    return set(done.stdout.split()) | {"quick", "thorough"}


def problems_of_versions(version):
    if not re.search(rf"^version: {re.escape(version)}$", read("CITATION.cff"), re.M):
        yield "CITATION.cff", f"the version is not {version}, which CMakeLists.txt has"
    templates = [f for f in glob.glob("packaging/**", recursive=True) if pathlib.Path(f).is_file()]
    for name in templates:
        if not name.startswith("packaging/abi/") and version in read(name):
            yield name, f"has the version {version}; scripts/release fills in @VERSION@"


def problems_of_calls(known):
    files = glob.glob(".github/workflows/*.yml")
    files += [".pre-commit-config.yaml", ".devcontainer/devcontainer.json"]
    for name in files:
        text = read(name)
        for script in sorted(set(re.findall(r"(?<![\w/])scripts/[\w.]+", text))):
            if not pathlib.Path(script).exists():
                yield name, f"{script} is not there"
        for script, words in re.findall(r"(scripts/(?:check|release)) ([a-z][a-z0-9 -]*)", text):
            for part in sorted(set(words.split()) - known[script]):
                yield name, f"{script} has no part {part}"


def problems_of_extras():
    extras = read("pyproject.toml").split("[project.optional-dependencies]")[1].split("\n[")[0]
    page = read("docs/reference/packages.md")
    for extra in re.findall(r"^([\w-]+) = ", extras, re.M):
        if f"`{extra}`" not in page:
            yield "docs/reference/packages.md", f"the extra `{extra}` is not described"


def main():
    version = re.search(r"^project\(gram VERSION ([0-9.]+)", read("CMakeLists.txt"), re.M).group(1)
    known = {script: parts(script) for script in ("scripts/check", "scripts/release")}
    problems = list(problems_of_versions(version))
    problems += problems_of_calls(known)
    problems += problems_of_extras()
    for name, what in problems:
        print(f"{name}: {what}")
    print(f"packages: version {version}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
