#!/usr/bin/env python3
"""check_rows.py - the list of everything that the tests run, and what one list lacks of another

    python3 scripts/check_rows.py list [BUILD] >rows.txt
    python3 scripts/check_rows.py compare BEFORE AFTER

Whoever moves, splits or speeds up tests makes a list before and one after: the second must lack
nothing of the first.  A line of the list is one of

    test NAME                        of CTest
    row PROGRAM OPERATION ROW WHERE  of a table of cases, WHERE an instruction set or a device
    case PROGRAM FUNCTION WHERE      a function of a C program
    python TEST WHERE                a test that pytest collects
    kernel CHIP KERNEL               that test_cuda_compile compiles
    part NAME                        of scripts/check
    part NAME TEST                   a test that this part runs in a build of its own
    tidy FILE                        that clang-tidy reads, by its name without the folder
    checks FILE COUNT                CHECK() and assert of a file: the count must not fall

Nothing is run: programs say what rows they have, pytest what it collects.  Exit status of compare:
1 if something is lost.
"""

import glob
import json
import os
import re
import subprocess
import sys

DEVICE = {"0": "cuda", "1": "emulated"}


def output(command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def tests_of(build):
    """(name, the words of the command, environment) of every test of CTest."""
    for test in json.loads(output(["ctest", "--test-dir", build, "--show-only=json-v1"]))["tests"]:
        environment = {}
        for item in test.get("properties", []):
            if item["name"] == "ENVIRONMENT":
                environment = dict(pair.split("=", 1) for pair in item["value"])
        words = test.get("command")
        if not words:
            sys.exit(f"check_rows: {test['name']} is not built")
        if words[1:3] == ["-E", "env"]:
            environment.update(word.split("=", 1) for word in words[3:] if "=" in word)
            words = [word for word in words[3:] if "=" not in word]
        yield test["name"], words, environment


def where_of(environment):
    """"emulated", "cuda", "" for the CPU; and what else makes a run another one."""
    words = []
    if environment.get("GRAM_TEST_DEVICE") == "cuda":
        words.append(DEVICE[environment.get("GRAM_TEST_EMULATED", "0")])
    if "GRAM_FAKE_CUDA_DEVICES" in environment:
        words.append("devices=" + environment["GRAM_FAKE_CUDA_DEVICES"])
    return words


def source_of(program):
    """The file of a C program of tests/, or None."""
    return next(iter(glob.glob(f"tests/**/{program}.c", recursive=True)), None)


def functions_of(program):
    """The functions that a C program of tests/ is made of: those of its table, or all."""
    with open(source_of(program)) as file:
        text = file.read()
    tables = re.findall(r"struct test_function \w+\[\] = \{(.*?)\};", text, re.S)
    named = [name for table in tables for name in re.findall(r'\{\s*"([^"]+)"', table)]
    return named or re.findall(r"^(?:static )?\w[\w *]*?(\w+)\([^;]*?\)\n\{", text, re.M)


def rows_of(build):
    """Operation -> how many rows it has."""
    lines = output([f"{build}/tests/run_cases", "--list"]).split("\n")
    return {line.split()[0]: int(line.split()[1]) for line in lines if line}


def sets_of(build):
    """The instruction sets of this machine that the library has kernels for."""
    found = re.search(r"this processor has: ([\w ]*)", output([f"{build}/gram", "info"]))
    return found.group(1).split()


def table_rows(program, words, places, rows):
    for operation in words or sorted(rows):
        for row in range(rows.get(operation, 0)):
            for place in places:
                yield f"row {program} {operation} {row} {place}"


def python_tests(files, environment):
    """What pytest collects from the files: path -> its tests."""
    python = files[0][0]
    command = [python, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
               "--rootdir=tests"] + sorted({path for _, path in files})
    found = {}
    lines = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                           env={**os.environ, **environment}).stdout
    for line in lines.split("\n"):
        path, mark, test = line.partition("::")
        if mark:
            found.setdefault(os.path.basename(path), []).append(test)
    return found


def program_lines(build):
    """The rows, functions and tests of Python behind every test of CTest."""
    rows, sets, pytests = rows_of(build), sets_of(build), {}
    for name, words, environment in tests_of(build):
        part = re.fullmatch("check_(.*)", name)
        yield f"part {part.group(1)}" if part else f"test {name}"
        place = where_of(environment)
        program = os.path.basename(words[0])
        if "-m" in words and "pytest" in words:
            shared = pytests.setdefault(" ".join(place), ({}, []))
            shared[0].update(environment)
            shared[1].append((words[0], words[-1]))
        if program.startswith("mpiexec"):
            place = [f"ranks={words[2]}"] + place
            program = os.path.basename(words[3])
        if program in ("run_cases", "test_calls"):
            yield from table_rows(program, words[1:], [" ".join(place)] if place else sets, rows)
        elif source_of(program):
            for function in functions_of(program):
                yield f"case {program} {function} {' '.join(place)}".rstrip()
    for place, (environment, files) in pytests.items():
        found = python_tests(files, environment)
        for _, path in files:
            for test in found.get(os.path.basename(path), ["(none collected)"]):
                yield f"python {os.path.basename(path)}::{test} {place}".rstrip()


def part_lines(build):
    environment = {**os.environ, "BUILD": build}
    for part in output(["scripts/check", "--list"]).split():
        yield f"part {part}"
        for test in output(["scripts/check", "--tests", part], env=environment).split():
            yield f"part {part} {test}"


def file_lines(build):
    with open("tests/cuda/cuda_registers.txt") as file:
        for line in file:
            if not line.startswith("#"):
                yield "kernel " + line.split(" ", 1)[1].rstrip()
    with open(f"{build}/compile_commands.json") as file:
        sources = {os.path.relpath(entry["file"]) for entry in json.load(file)}
    for source in sources:
        if not os.path.abspath(source).startswith(os.path.abspath(build) + os.sep):
            yield f"tidy {os.path.basename(source)}"
    counts = {}
    for path in output(["scripts/files", "tests", "check", "tools"]).split("\n"):
        if path.endswith((".c", ".h", ".py")):
            with open(path) as file:
                count = len(re.findall(r"\bCHECK\(|\bassert\b|\braises\(", file.read()))
            name = os.path.basename(path)
            counts[name] = counts.get(name, 0) + count
    yield from (f"checks {name} {count}" for name, count in counts.items() if count)


def list_all(build):
    lines = set()
    for source in (program_lines, part_lines, file_lines):
        lines.update(source(build))
    print("\n".join(sorted(lines)))


def read_list(path):
    with open(path) as file:
        lines = {line.rstrip("\n") for line in file}
    counts = dict(line.split()[1:] for line in lines if line.startswith("checks "))
    return {line for line in lines if not line.startswith("checks ")}, counts


def compare(before, after):
    (old, old_counts), (new, new_counts) = read_list(before), read_list(after)
    lost = sorted(old - new)
    for path, count in sorted(old_counts.items()):
        if int(new_counts.get(path, 0)) < int(count):
            lost.append(f"checks {path}: {count}, now {new_counts.get(path, 0)}")
    for line in lost:
        print("lost:", line)
    print(f"{len(old)} lines before, {len(new)} after: {len(lost)} lost, {len(new - old)} new")
    return bool(lost)


def main(words):
    if words[:1] == ["list"] and len(words) <= 2:
        os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
        list_all(words[1] if len(words) == 2 else os.environ.get("BUILD", "build"))
        return 0
    if words[:1] == ["compare"] and len(words) == 3:
        return compare(words[1], words[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
