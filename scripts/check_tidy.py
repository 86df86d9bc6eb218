#!/usr/bin/env python3
"""check_tidy.py - clang-tidy on every C file, as many at a time as there are processors

    python3 scripts/check_tidy.py BUILD JOBS

A file that was clean is not read again until it, a header that it includes, its command, the
settings or clang-tidy change: for what was clean there is an empty file in BUILD/check/tidy and, so
that a fresh clone profits, in the folder of tools/cudaemu/compile_cache.h.  What the build
writes (device code as arrays of bytes) is not ours to mend.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

import cache_folder

INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:[^">]*/)?([^">/]+)[">]', re.M)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def headers_of(text, headers, found):
    """The headers that a text includes, one through another, by their basenames."""
    for name in INCLUDE.findall(text):
        if name in headers and name not in found:
            found.add(name)
            headers_of(headers[name], headers, found)
    return found


def is_test(path):
    """What only tests run; the reference loops are read like the library."""
    return path.startswith(("tests/", "check/", "tools/")) and not path.startswith(
        "check/reference/"
    )


def options_of(path):
    # The analyzer takes five sixths of the time; tests are run under the sanitizers.  Without it
    # the -Werror of a file's command counts for Clang's own warnings, which Checks leaves out.
    if is_test(path):
        return ["--checks=-clang-analyzer-*", "--extra-arg=-Wno-error"]
    return []


def commands_of(build):
    """File -> how it is compiled, for each file of the project."""
    commands = {}
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.relpath(entry["file"])
            if not os.path.abspath(path).startswith(os.path.abspath(build) + os.sep):
                commands.setdefault(path, entry["command"].replace(os.getcwd(), ""))
    return commands


def keys_of(commands):
    """File -> a hash of all that clang-tidy's answer depends on."""
    listed = subprocess.run(["scripts/files", "*.h"], check=True, text=True, stdout=subprocess.PIPE)
    headers = {os.path.basename(path): read(path) for path in listed.stdout.split()}
    version = subprocess.run(["clang-tidy", "--version"], check=True, stdout=subprocess.PIPE).stdout
    common = [read(".clang-tidy"), str(version)]
    keys = {}
    for path, command in commands.items():
        text = read(path)
        parts = [path, command, text, *options_of(path), *common]
        parts += [headers[name] for name in sorted(headers_of(text, headers, set()))]
        keys[path] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return keys


def is_clean(stamps):
    found = [path for path in stamps if os.path.exists(path)]
    for path in found:
        os.utime(path)
    return bool(found)


def tidy(build, path, stamps):
    """What clang-tidy says of a file; "" if it is clean."""
    command = ["nice", "clang-tidy", "--quiet", *options_of(path), "-p", build, path]
    run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode != 0:
        return run.stdout or run.stderr
    for stamp in stamps:
        with open(stamp, "w", encoding="utf-8"):
            pass
    return ""


def main(build, jobs):
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    os.makedirs(f"{build}/check/tidy", exist_ok=True)
    folders = [folder for folder in (f"{build}/check/tidy", cache_folder.of_tests()) if folder]
    keys = keys_of(commands_of(build))
    stamps = {path: [f"{folder}/tidy-{key}" for folder in folders] for path, key in keys.items()}
    # Those that the analyzer reads come first: the quick ones fill up the end.
    left = sorted((path for path in keys if not is_clean(stamps[path])),
                  key=lambda path: (is_test(path), -os.path.getsize(path)))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(lambda path: tidy(build, path, stamps[path]), left):
            if said:
                print(said, end="", flush=True)
                failed += 1
    print(f"tidy: {len(keys)} files, {len(left)} read, {failed} with problems")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
