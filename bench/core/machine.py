"""core/machine.py - what a report says of the machine, of the code, and of the packages"""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def output(*command):
    """What a command prints, or None where it fails."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def compiler(library):
    """The compilers that the library's objects name."""
    lines = (output("readelf", "-p", ".comment", str(library)) or "").splitlines()
    return ", ".join(line.split("]", 1)[1].strip() for line in lines if "]" in line) or None


def package_version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def graphics():
    import torch

    chip = torch.cuda.get_device_properties(0)
    return {"gpu": chip.name, "multiprocessors": chip.multi_processor_count,
            "cuda": torch.version.cuda}  # fmt: skip


def describe(place, library, packages):
    """Everything of it, as a dict."""
    import gram

    found = {"processor": processor(), "processors": os.cpu_count()}
    if not place.on_cpu:
        found = graphics() | found
    return found | {
        "threads": place.threads,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": compiler(library),
        "commit": output("git", "describe", "--always", "--dirty"),
        "gram": gram.info(),
        "packages": {p: v for p in packages if (v := package_version(p))},
        "load": round(os.getloadavg()[0], 2),
    }


def title(about):
    """The machine in one line."""
    chip = about.get("gpu") or about["processor"]
    where = f"{chip}, {about['threads']} of {about['processors']} processors"
    return f"{where}; tiny problems" if about.get("tiny") else where
