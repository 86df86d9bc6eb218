#!/usr/bin/env python3
"""torch_stubs.py FOLDER - lets PyTorch's CUDA build load on a machine without CUDA

PyPI's PyTorch for Linux links NVIDIA's libraries, 2.4 GB that only a GPU has work for.  FOLDER is
its torch/lib: for every library that is named there and is not in it, a small one of that name is
compiled into it, in which each function says that there is no device (cudaErrorNoDevice).  For
tests of what PyTorch does on the CPU, and for nothing else.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

OURS = re.compile(r"lib(cu|nccl|nvrtc|nvshmem|nv)")  # whose names begin like NVIDIA's
NO_DEVICE = 100


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(path):
    """The libraries that a library is linked to, and of which of them it wants which versions."""
    text = output("readelf", "-W", "-d", "-V", str(path))
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    versions = {}
    owner = None
    for line in text.splitlines():
        if m := re.search(r"Version: \d+\s+File: (\S+)", line):
            owner = m[1]
        elif m := re.search(r"Name: (\S+)\s+Flags", line):
            versions[m[1]] = owner
    return names, versions


def wanted(folder):
    """{library: {version or "": symbols}}"""
    libraries, undefined, owners = set(), set(), {}
    for path in folder.glob("*.so*"):
        names, versions = needed(path)
        libraries |= {n for n in names if OURS.match(n) and not (folder / n).exists()}
        owners |= versions
        for line in output("nm", "-D", "--undefined-only", str(path)).splitlines():
            undefined.add(line.split()[-1])
    found = {library: {} for library in sorted(libraries)}
    for symbol in sorted(undefined):
        name, _, version = symbol.replace("@@", "@").partition("@")
        if version and owners.get(version) in found:
            found[owners[version]].setdefault(version, []).append(name)
        elif found and not version and re.match(r"_*(cu[a-zA-Z]|nccl|nvrtc|nvshmem|nv[A-Z])", name):
            # Any library will do, as nothing says which one has it.
            found[min(found)].setdefault("", []).append(name)
    return found


def compile_stub(folder, library, symbols):
    with tempfile.TemporaryDirectory() as work:
        source, script = pathlib.Path(work, "stub.c"), pathlib.Path(work, "stub.map")
        names = sorted({name for group in symbols.values() for name in group})
        source.write_text(
            "".join(f"long {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names)
            + "typedef int not_empty;\n"
        )
        versions = {v: group for v, group in symbols.items() if v}
        script.write_text(
            "".join(f"{v} {{ global: {'; '.join(group)}; }};\n" for v, group in versions.items())
        )
        command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library}", str(source)]
        command += [f"-Wl,--version-script={script}"] if versions else []
        subprocess.run([*command, "-o", str(folder / library)], check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    for library, symbols in wanted(folder).items():
        compile_stub(folder, library, symbols)


if __name__ == "__main__":
    main()
