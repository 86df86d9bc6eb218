#!/usr/bin/env python3
"""compare_cuda.py - libgram, kermac and PyTorch on one GPU, side by side in one run

    bench/compare_cuda.py                  every row; writes bench/results/<date>-<gpu>-compare.json
    bench/compare_cuda.py --rows cdist-2   only rows whose key contains one of these words
    bench/compare_cuda.py --only gram      without the others: quick
    bench/compare_cuda.py --list           the keys of the rows, with what each must reach
    --library FILE   libgram.so; its plugin lies beside it (build/libgram.so)
    --bench FILE     bench_cuda, which measures a warm call from C (build/tests/bench_cuda)
    --repeats N      rounds, of which the median counts (7)
    --limit S        seconds a run that a slow contender may take; above, it gets a part of the rows
    --output FILE    the JSON to write; also written with --rows and --only if it is named

Needs PyTorch with CUDA.  kermac (0.1.4, with cuda-core 0.3.2) is left out and named where it is not
installed.  Each row's contenders are checked against f64 on sampled rows of the output and then
called in turn, round after round; times are medians by CUDA events, taken while the host is ahead
of the device.  Targets are those of an H200.  The rows `first` start new processes, with no cache
and with that of the process before; `host` is the host's time of a warm call.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
FIRST_TARGETS = {"cold": 200.0, "cached": 3.0}
HOST_TARGET_US = 5.0


def parse():
    parser = argparse.ArgumentParser(description="libgram, kermac and PyTorch on one GPU")
    parser.add_argument("--rows", nargs="*", default=[], metavar="WORD")
    parser.add_argument("--only", nargs="*", choices=["gram", "kermac", "torch"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--library", default=str(HERE.parent / "build" / "libgram.so"))
    parser.add_argument("--bench", default=str(HERE.parent / "build" / "tests" / "bench_cuda"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=0.3)
    parser.add_argument("--output")
    return parser.parse_args()


def load(args):
    """What there is of libgram and its peers; a missing one is None and has a reason."""
    import torch
    from gram_device import DeviceGram

    torch.backends.cuda.matmul.allow_tf32 = False
    tools = SimpleNamespace(gram=DeviceGram(args.library), kermac=None, missing={})
    try:
        import kermac

        kermac.cdist(torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda"), p=1.0)
        tools.kermac = kermac
    except Exception as error:  # whatever it lacks, the others are measured
        tools.missing["kermac"] = f"{type(error).__name__}: {error}"
    return tools


# ---- Rows that are timed by events ---------------------------------------------------------------


def event_ms(call, calls):
    """Milliseconds of one of several calls; the device is kept busy until they are all queued."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls


def fit(row, name, call, limit):
    """The call, on fewer rows of x where all of them take too long, and the share of the rows."""
    if name != "torch" or not hasattr(row, "shape"):
        return call, 1.0
    rows = row.shape[0]
    trial = max(1, rows // 64)
    call(trial)
    seconds = event_ms(lambda: call(trial), 1) * 1e-3 * rows / trial
    if seconds <= limit:
        return lambda: call(None), 1.0
    rows = max(trial, int(rows * limit / seconds))
    return lambda: call(rows), rows / row.shape[0]


def measure(row, args, tools):
    calls, results = {}, {}
    for name, call in row.prepare(tools).items():
        if args.only and name in ("gram", "kermac", "torch") and name not in args.only:
            continue
        call, share = fit(row, name, call, args.limit)
        results[name] = {"error": row.error(call()), "share": share}
        once = event_ms(call, 1)
        calls[name] = (call, max(1, min(20, round(4 / once))))
    times = {name: [] for name in calls}
    for _ in range(args.repeats):
        for name, (call, count) in calls.items():
            times[name].append(event_ms(call, count) / results[name]["share"])
    for name, ms in times.items():
        wrong = not results[name]["error"] <= row.limit
        results[name].update(ms=statistics.median(ms), least=min(ms), most=max(ms), wrong=wrong)
    return results


def clock_hertz():
    """The highest clock of the processors, as the driver says."""
    kilohertz, clock_rate = ctypes.c_int(), 13
    ctypes.CDLL("libcuda.so.1").cuDeviceGetAttribute(ctypes.byref(kilohertz), clock_rate, 0)
    return kilohertz.value * 1e3


def port_limit_ms(row):
    """What the units for f64 of an H100 or H200 need: two instructions a step, or, for p = 2, one
    fused step of their tensor cores."""
    import torch

    processors = torch.cuda.get_device_properties(0).multi_processor_count
    steps = processors * clock_hertz() * (128 if row.p == 2 else 64 / 2)
    return row.work() / steps * 1e3


def target_of(row, results):
    if row.key.startswith("agop"):
        return 1.1 * results["gradient"]["ms"]
    if row.key.startswith("f64"):
        return port_limit_ms(row) / 0.9
    return row.target


def run_row(row, args, tools):
    import torch

    results = measure(row, args, tools)
    report = {"key": row.key, "title": row.title, "results": results, "unit": row.unit}
    if "gram" in results:
        target = target_of(row, results)
        report["target_ms"] = target
        report["met"] = results["gram"]["ms"] <= target and not results["gram"]["wrong"]
    for name in list(vars(row)):  # the row's tensors: the next one's are as large
        if name in ("x", "y", "out", "a", "b", "c", "d", "sum", "kept", "gradient"):
            delattr(row, name)
    torch.cuda.empty_cache()
    return report


# ---- First calls, in processes of their own ------------------------------------------------------


def child(args, name, key, folder):
    """Milliseconds of a first call in a process of its own, None if it fails."""
    environment = dict(os.environ, GRAM_CACHE_DIR=str(folder / "gram"))
    environment.update(XDG_CACHE_HOME=str(folder), CUDA_CACHE_DISABLE="1")
    command = [sys.executable, HERE / "compare_cuda_first.py", name, key, args.library]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("first call")]
    if done.returncode or not lines:
        print(done.stderr[-500:], file=sys.stderr)
        return None
    return float(lines[-1].split()[-1])


def first_times(args, name, key):
    """Milliseconds of three processes of libgram's with an empty cache, and of the next ones."""
    times = {kind: [] for kind in FIRST_TARGETS}
    for _ in range(3 if name == "gram" else 1):
        with tempfile.TemporaryDirectory() as folder:
            for kept in times.values():
                kept.append(child(args, name, key, Path(folder)))
    return times


def first_rows(args, tools):
    """Cold: with an empty cache, NVIDIA's own switched off too.  Cached: in the next process."""
    from compare_cuda_first import SHAPES

    names = [name for name in ("gram", "kermac") if not args.only or name in args.only]
    names = [name for name in names if name not in tools.missing]
    for key in SHAPES:
        if not wanted(f"first-{key}", args):
            continue
        results = {kind: {} for kind in FIRST_TARGETS}
        for name in names:
            for kind, times in first_times(args, name, key).items():
                if None not in times:
                    results[kind][name] = {
                        "ms": statistics.median(times),
                        "least": min(times),
                        "most": max(times),
                    }
        for kind, target in FIRST_TARGETS.items():
            what = "p=1, gradient" if key == "gradient" else f"p={key}"
            title = f"first call, {kind}: {what}"
            report = {"key": f"first-{key}", "title": title, "results": results[kind]}
            report["target_ms"] = target
            if "gram" in results[kind]:
                report["met"] = results[kind]["gram"]["ms"] <= target
            yield report


# ---- The host's time of a warm call --------------------------------------------------------------


def host_us(call):
    import torch

    times = []
    for _ in range(5):
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(300):
            call()
        times.append((time.perf_counter() - start) / 300 * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def from_c(program):
    """Microseconds of a warm call as bench_cuda finds it; None without that program."""
    try:
        done = subprocess.run([program, "host"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next((row["host_us"] for row in rows if "host_us" in row), None)


def host_row(args, tools):
    import torch

    x, y = torch.rand(64, 16, device="cuda"), torch.rand(64, 16, device="cuda")
    out = torch.empty(64, 64, device="cuda")
    calls = {"gram through ctypes": tools.gram.cdist_of(x, y, 2.0, out)}
    if tools.kermac:
        calls["kermac"] = lambda: tools.kermac.cdist(x, y, out=out, p=2.0)
    calls["torch"] = lambda: torch.cdist(x, y)
    results = {
        name: {"ms": host_us(call) * 1e-3}
        for name, call in calls.items()
        if not args.only or name.split()[0] in args.only
    }
    c = from_c(args.bench)
    report = {"key": "host", "title": "the host's time of a warm call", "results": results}
    report["target_ms"] = HOST_TARGET_US * 1e-3
    if c is not None:
        results["gram"] = {"ms": c * 1e-3}
        report["met"] = c <= HOST_TARGET_US
    return report


# ---- The whole -----------------------------------------------------------------------------------


def wanted(key, args):
    return not args.rows or any(word in key for word in args.rows)


def show(report):
    verdict = {True: "met", False: "MISSED", None: "not measured"}[report.get("met")]
    print(f"{report['title']}: must be {report['target_ms']:.4g} ms, {verdict}")
    for name, r in report["results"].items():
        words = [f"    {name:20s} {r['ms']:10.4f} ms"]
        if "error" in r:
            wrong = ", WRONG" if r["wrong"] else ""
            words.append(f"error {r['error']:.2g} {report['unit']}{wrong}")
        if r.get("share", 1.0) < 1:
            words.append(f"from {r['share'] * 100:.1f} % of the rows")
        print("  ".join(words))
    sys.stdout.flush()


def table(rows):
    """All rows as one table in Markdown: milliseconds, and what was to be reached."""
    lines = ["| work | libgram | must be | | kermac | torch | error |", "|---" * 7 + "|"]
    for row in rows:
        results = row["results"]
        gram = results.get("gram", {})
        cells = [row["title"], number_of(gram), f"{row['target_ms']:.4g}"]
        cells.append({True: "met", False: "**missed**", None: ""}[row.get("met")])
        cells += [number_of(results.get(name, {})) for name in ("kermac", "torch")]
        cells.append(f"{gram['error']:.2g}" if "error" in gram else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number_of(result):
    if "ms" not in result:
        return "-"
    return f"{result['ms']:.4g}{' (wrong)' if result.get('wrong') else ''}"


def machine(tools):
    from importlib.metadata import PackageNotFoundError, version

    import torch

    versions = {}
    for package in ("torch", "kermac", "cuda-core"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    chip = torch.cuda.get_device_properties(0)
    return {
        "gpu": chip.name,
        "processors": chip.multi_processor_count,
        "cuda": torch.version.cuda,
        "gram": tools.gram.info,
        "versions": versions,
        "left_out": tools.missing,
        "load_at_start": os.getloadavg()[0],
    }


def reports_of(rows, args, tools):
    for row in rows:
        if wanted(row.key, args):
            try:
                yield run_row(row, args, tools)
            except Exception as error:  # one row's trouble is not the next one's
                print(f"{row.key}: {type(error).__name__}: {error}", file=sys.stderr)
    if wanted("host", args):
        yield host_row(args, tools)
    yield from first_rows(args, tools)


def main():
    args = parse()
    sys.path.insert(0, str(HERE))
    from compare_cuda_rows import ROWS

    if args.list:
        for row in ROWS:
            print(f"{row.key:18s} {row.title}, {row.target or '-'} ms")
        return 0
    tools = load(args)
    report = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine(tools)}
    print(json.dumps(report["machine"], indent=1))
    report["rows"] = []
    path = None
    if args.output or not (args.rows or args.only):
        chip = "".join(c if c.isalnum() else "-" for c in report["machine"]["gpu"].lower())
        path = Path(args.output or HERE / "results" / f"{report['date'][:10]}-{chip}-compare.json")
    for row in reports_of(ROWS, args, tools):
        show(row)
        report["rows"].append(row)
        if path:  # after every row: a run may be stopped
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    verdicts = [row["met"] for row in report["rows"] if "met" in row]
    print(table(report["rows"]))
    print(f"{sum(verdicts)} of {len(verdicts)} targets met")
    if path:
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
