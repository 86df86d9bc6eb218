#!/usr/bin/env python3
"""compare.py - libgram against other packages on this machine, in one run

    bench/compare.py                 every row; writes bench/results/<date>-<processor>.json
    bench/compare.py --quick         fewer repeats, smaller parts of slow peers, nothing written
    bench/compare.py --rows cdist    only rows whose key contains one of these words
    bench/compare.py --only peers    without libgram (or --only gram)
    bench/compare.py --slow          with the other packages' support vector machine and boosting

All contenders of a row are warmed up, checked, and then run in turn, round after round, so that a
disturbance hits all of them; times are medians.  Outputs are allocated once where the package lets
one do so.  A peer that would take more than --limit seconds a run gets a part of the rows of x (its
time is linear in them; the part is in the result).  Needs numpy, scipy, scikit-learn, faiss-cpu and
pykeops (which needs a C++ compiler): `make bench` installs them.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parse():
    parser = argparse.ArgumentParser(description="libgram against other packages, side by side")
    parser.add_argument(
        "--quick", action="store_true", help="smaller and fewer repeats; nothing is written"
    )
    parser.add_argument(
        "--rows", nargs="*", default=[], metavar="WORD", help="rows whose key contains a word"
    )
    parser.add_argument("--only", choices=["gram", "peers"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, help="rounds (default 5, quick 3)")
    parser.add_argument(
        "--limit", type=float, help="seconds that one run may take (default 5, quick 1)"
    )
    parser.add_argument(
        "--slow", action="store_true", help="run the other packages' machines too (minutes)"
    )
    parser.add_argument("--library", default=str(HERE.parent / "build" / "libgram.so"))
    parser.add_argument(
        "--output", help="the file to write instead of bench/results/<date>-<processor>.json"
    )
    args = parser.parse_args()
    args.repeats = args.repeats or (3 if args.quick else 5)
    args.limit = args.limit or (1.0 if args.quick else 5.0)
    return args


def timed(function, argument):
    start = time.perf_counter()
    result = function(argument)
    return time.perf_counter() - start, result


def wanted(key, args):
    return not args.rows or any(word in key for word in args.rows)


def rows_for(row, name, run, limit):
    """How many rows of x fit the limit: all, or as many as the best of three short trials says."""
    trial = min(row.rows, max(2, row.rows // 64))
    run(row.input(2))  # opens libraries, compiles formulas
    seconds = min(timed(run, row.input(trial))[0] for _ in range(3))
    if name.startswith("gram") or seconds / trial * row.rows <= limit:
        return row.rows
    return max(2, min(row.rows, int(limit / seconds * trial)))


def measure(row, args, gram):
    from compare_rows import TOLERANCE

    runs = row.prepare(gram, args.threads)
    if args.only == "gram":
        runs = {name: run for name, run in runs.items() if name.startswith("gram")}
    used, errors, seconds = {}, {}, {name: [] for name in runs}
    for name, run in runs.items():
        used[name] = rows_for(row, name, run, args.limit)
        errors[name] = row.error(name, run(row.input(used[name])))
    for _ in range(args.repeats):
        for name, run in runs.items():
            seconds[name].append(timed(run, row.input(used[name]))[0])
    result = {}
    for name in runs:
        times = sorted(seconds[name])
        work = row.work * used[name] / row.rows
        result[name] = {
            "seconds": times[len(times) // 2],
            "seconds_min": times[0],
            "seconds_max": times[-1],
            "repeats": len(times),
            "rows": used[name],
            "ns": times[len(times) // 2] / work * 1e9,
            "error": errors[name],
            "checked": errors[name] <= TOLERANCE[row.dtype],
        }
    return result


def judge(row, result):
    """For each target: who is compared, the ratio of times per element, and if it is reached."""
    verdicts = []
    for names, factor in row.targets:
        there = [name for name in names if name in result]
        if "gram" not in result or not there:
            continue
        best = min(there, key=lambda name: result[name]["ns"])
        ratio = result[best]["ns"] / result["gram"]["ns"]
        met = ratio >= factor and result["gram"]["checked"]
        verdicts.append({"peer": best, "ratio": ratio, "target": factor, "met": met})
    return verdicts


def show(row, result, verdicts):
    print(f"{row.key:16s} {row.title}")
    for name, r in sorted(result.items(), key=lambda item: item[1]["ns"]):
        part = "" if r["rows"] == row.rows else f" on {r['rows']} of {row.rows} rows"
        wrong = "" if r["checked"] else f"  WRONG: error {r['error']:.1e}"
        print(f"    {name:22s} {r['ns']:9.4f} ns  {r['seconds'] * 1e3:10.2f} ms{part}{wrong}")
    for v in verdicts:
        word = "met" if v["met"] else "missed"
        print(f"    {v['ratio']:6.2f} times {v['peer']}, must be {v['target']:.2f}: {word}")
    sys.stdout.flush()


def compiler_of(library):
    """The compiler that the library's objects name."""
    try:
        out = subprocess.run(
            ["readelf", "-p", ".comment", library], capture_output=True, text=True, check=True
        ).stdout
        return ", ".join(line.split("]", 1)[1].strip() for line in out.splitlines() if "]" in line)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine(args, gram):
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("numpy", "scipy", "scikit-learn", "faiss-cpu", "pykeops"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    flags = [
        line
        for line in open("/proc/cpuinfo", encoding="utf-8")
        if line.startswith(("flags", "Features"))
    ]
    return {
        "processor": processor(),
        "flags": flags[0].split(":", 1)[1].split() if flags else [],
        "processors": os.cpu_count(),
        "threads": args.threads,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": compiler_of(args.library) if gram else None,
        "gram": gram.info if gram else None,
        "versions": versions,
        "load_at_start": os.getloadavg()[0],
    }


def main():
    args = parse()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)  # before anything that reads them is imported
    sys.path.insert(0, str(HERE))
    import compare_machine
    from compare_rows import ROWS
    from gram_library import Gram

    gram = None if args.only == "peers" else Gram(args.library, args.threads)
    report = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(args, gram),
        "rows": [],
    }
    print(
        json.dumps(
            {key: value for key, value in report["machine"].items() if key != "flags"}, indent=1
        )
    )
    for row in ROWS:
        if not wanted(row.key, args):
            continue
        result = measure(row, args, gram)
        verdicts = judge(row, result)
        show(row, result, verdicts)
        report["rows"].append(
            {"key": row.key, "title": row.title, "results": result, "targets": verdicts}
        )
    for row in compare_machine.ROWS:
        if wanted(row[0], args) and (args.rows or not args.quick):
            report["rows"].append(
                compare_machine.measure(row, args, Path(args.library).parent / "gram")
            )
    verdicts = [v for row in report["rows"] for v in row["targets"]]
    print(f"{sum(v['met'] for v in verdicts)} of {len(verdicts)} targets met")
    if args.output or not (args.quick or args.rows or args.only):
        name = "".join(c if c.isalnum() else "-" for c in report["machine"]["processor"].lower())
        path = Path(args.output or HERE / "results" / f"{report['date'][:10]}-{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"written: {path}")
    return 0 if all(v["met"] for v in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
