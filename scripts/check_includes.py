#!/usr/bin/env python3
"""check_includes.py - who may include whom, the table in ARCHITECTURE.md

Reads file names, one a line, on standard input.  An #include "..." of host code is resolved from
the including file's folder, from include/, src/ and the root; device code, for which NVRTC knows no
folders, names files of its own folder and of src/cuda.  Each layer may see only the layers named
here, and each domain only the domains below it.  A file outside of the domains' folders is named.
"""

import os
import re
import sys

MAY_SEE = {
    "public": set(),
    "core": {"public"},
    "front": {"public", "core"},
    "cpu": {"public", "core", "front"},
    "device": set(),
    "cuda": {"public", "core", "front", "device"},
    "mpi": {"public", "core", "front"},
    "reference": {"public"},
    "check": {"public", "reference"},
    "cli": {"public"},
    "tools": {"public", "core", "cpu", "check"},
    "tests": {
        "public", "core", "front", "cpu", "cuda", "device", "reference", "check", "cli", "tools",
        "python",
    },
    "examples": {"public"},
    "python": {"public"},
    "bench": {"public", "check"},
}
# `gram check`, `gram bench` and `gram profile` run the tables of cases through this one header, and
# `gram fit` remarks on dates with the parser that the library reads them with, which is inline.
ALSO = {("cli", "check/harness/harness.h"), ("cli", "src/machine/date.h")}

# domain -> the domains it stands on, in all layers; everything stands on the frame.
FRAME = {"core", "cpu", "cuda"}
STANDS_ON = {
    "multi": set(),
    "pairwise": {"linalg", "kron", "multi"},
    "kron": {"multi"},
    "linalg": {"kron"},
    "eigh": {"pairwise", "linalg", "multi"},
    "layers": {"kron"},
    "optim": {"linalg"},
    "krr": {"kron", "multi"},
    "machine": {"krr", "multi"},
    "core": set(),
    # The tables of the backends name what the domains bring.
    "cpu": {"pairwise", "linalg", "eigh", "kron", "krr"},
    "cuda": {"pairwise", "linalg", "eigh", "kron", "krr", "layers"},
}
# An application sees, besides the public headers, these alone: messages and memory of a context,
# parallel loops, BLAS on the host, random numbers, files.  So it cannot reach a backend's table.
SERVICES = {
    "machine": {
        "src/core/context.h", "src/core/view.h", "src/core/threads.h", "src/core/blas.h",
        "src/core/random.h", "src/core/json_text.h", "src/core/model_file.h", "src/krr/krr.h",
        "src/multi/communicator.h",
    },
}

# Written when a kernel is compiled.
GENERATED = {"pair_expression.cuh"}

INCLUDE = re.compile(r'^\s*#\s*(?:include|define TEMPLATE)\s+([<"])([^">]+)[">]')
DEVICE = (".cu", ".cuh", "_params.h")


def place_problem(name):
    """CMake finds files two folders deep: elsewhere they would be left out in silence."""
    parts = name.split("/")
    if parts[0] == "src" and len(parts) != 3:
        return "a file of src/ lies in the folder of its domain, src/<domain>/"
    if parts[0] == "tests" and len(parts) == 2 and parts[1].startswith(("test_", "fuzz_")):
        return "a test lies in the folder of its domain, tests/<domain>/"
    return None


def layer_of(name):
    top, _, rest = name.partition("/")
    if top == "include":
        return "public"
    if name.startswith("check/reference/"):
        return "reference"
    if top != "src":
        return top if top in MAY_SEE else None
    folder, base = rest.split("/", 1)[0], os.path.basename(name)
    if base.endswith(DEVICE):
        return "device"
    if folder == "cuda" or base.startswith("cuda_"):
        return "cuda"
    if folder == "cpu" or base.startswith("cpu_") or base.endswith(("_tile.h", "_kernels.h")):
        return "cpu"
    if base.startswith("mpi"):
        return "mpi"
    return "core" if folder == "core" else "front"


def resolve(name, target):
    folders = ["include", "src", "."]
    if name.endswith(DEVICE):
        folders = ["src/cuda"]
    for folder in [os.path.dirname(name)] + folders:
        path = os.path.normpath(os.path.join(folder, target))
        if os.path.isfile(path):
            return path
    return None


def domain_problem(name, path):
    """What is wrong with an include from one folder of src/ in another, or None."""
    domain, other = (part.split("/")[1] for part in (name, path))
    if domain in SERVICES and domain != other and path not in SERVICES[domain]:
        return f"{path} is not one of the services that {domain} may see"
    if domain == other or other in FRAME or other in STANDS_ON.get(domain, ()):
        return None
    if domain not in STANDS_ON or other not in STANDS_ON:
        return f"the domains {domain} and {other} are not both in scripts/check_includes.py"
    return f"{domain} does not stand on {other} ({path})"


def problems(name):
    layer = layer_of(name)
    if layer is None:
        return
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            path = resolve(name, match.group(2))
            if match.group(1) == "<" and (path is None or not match.group(2).startswith("gram/")):
                continue  # a system header
            if path is None and match.group(2) not in GENERATED:
                yield number, f'"{match.group(2)}" is not a file of the project'
            if path is None:
                continue
            other = layer_of(path)
            if other != layer and other not in MAY_SEE[layer] and (layer, path) not in ALSO:
                yield number, f"{layer} may not include {path} ({other})"
            if not (name.startswith("src/") and path.startswith("src/")):
                continue
            if domain_problem(name, path):
                yield number, domain_problem(name, path)


def main():
    names = [n for n in sys.stdin.read().split("\n") if n]
    found = [(name, 0, place_problem(name)) for name in names if place_problem(name)]
    named = [name for name in names if not place_problem(name)]
    found += [(name, line, what) for name in named for line, what in problems(name)]
    for name, line, what in found:
        print(f"{name}:{line}: {what}")
    print(f"includes: {len(names)} files, {len(found)} problems")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
