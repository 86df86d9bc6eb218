"""compare_python.py - every function of the Python package beside the same in C and in its peers

    python bench/compare_python.py [--device cuda] [--threads 16] [--json FILE] [--only WORD...]

A line a function: milliseconds of gram from Python (NumPy's arrays on the CPU, PyTorch's on a GPU,
float32 unless the line says otherwise), of the same call in C (`gram bench`, random numbers of its
own), of the fastest peer that offers it (SciPy, scikit-learn, NumPy, PyTorch, pykeops, xRFM, CuPy:
those that are installed), the largest error of both against float64 over the largest element.
Times are medians of warm calls, on a GPU with the wait for it; "over C" compares the least ones.

The names come from the packages' __all__: a function that has neither a row nor a reason ends the
script before anything is measured.
"""

import argparse
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
MODULES = [
    "", "compat.scipy", "compat.sklearn", "compat.torch", "compat.kermac", "optim", "sklearn"
]  # fmt: skip
ON_CPU = ("compat.scipy", "compat.sklearn", "sklearn.Kernel")  # take NumPy's arrays alone
# What has no row, and why.
TOLD = {
    "Shape workspace": "asks for a number of bytes",
    "LinAlgError Machine Module Pending __version__ cache devices best_device memory_info info "
    "get_threads set_threads": "computes nothing, or what the caller brings",
    "tune tune_eigh": "measures candidates, for as long as they take",
    "eigh_multi": "for several devices: bench/bench_eigh_multi.c",
    "Communicator kron_matmul_multi kron_matmul_part nccl_id":
        "for several processes: bench/bench_kron_mpi.c, bench/bench_kron_nccl.c",
    "optim.State optim.Transform": "data",
    "compat.scipy.cdist compat.kermac.run_kernel compat.kermac.cdist_grad "
    "compat.kermac.cdist_expadd compat.kermac.cdist_grad_expadd compat.kermac.linalg":
        "calls of functions that have rows, under another name",
    "compat.kermac.FillMode compat.kermac.InnerOperator compat.kermac.KernelDescriptor "
    "compat.kermac.KernelType compat.kermac.PowerType compat.kermac.install "
    "compat.kermac.kernel_descriptor_*": "names and tables",
}  # fmt: skip


def told(name):
    for names in TOLD:
        for pattern in names.split():
            head, star, tail = pattern.partition("*")
            if name == pattern or (star and name.startswith(head) and name.endswith(tail)):
                return True
    return False


def names_of_package():
    for module in MODULES:
        path = "gram." + module if module else "gram"
        for name in importlib.import_module(path).__all__:
            yield f"{module}.{name}" if module else name


def check_coverage(rows):
    known = {row[0] for row in rows}
    missing = [n for n in names_of_package() if n not in known and not told(n)]
    if missing:
        sys.exit(f"compare_python.py: no row and no reason: {', '.join(missing)}")


def in_c(words, options):
    """Seconds of the same call through gram bench: the median and the least, or None."""
    command = [options.program, "bench", *words, "--json", "--seconds", str(options.seconds),
               "--threads", str(options.threads), "--device", options.device]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"    {' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)
        return None
    found = json.loads(done.stdout)
    return found["seconds"], found["seconds_min"]


def measure(row, options):
    from compare_python_place import Place, error_of, seconds_of

    name, what, make, words = row
    place = Place(options.device, options.threads, options.divide)
    place.keops = options.keops
    line = {"function": name, "what": what, "peers": {}}
    if not place.on_cpu and name.startswith(ON_CPU):
        return line | {"refused": "a CPU's"}
    try:
        work = make(place)
        line["gram"], result = seconds_of(work.ours, place, options.seconds, again=True)
    except NotImplementedError as refused:
        return line | {"refused": str(refused)}
    if callable(words):
        line["c"] = in_c(words(place), options)
    else:
        line["no_c"] = words
    exact = work.exact() if work.exact else None
    if exact is not None:
        line["error"] = error_of(work.part(result), work.part(exact))
    for peer, call in work.peers.items():
        try:
            times, result = seconds_of(call, place, options.seconds)
            found = {"seconds": times}
            if exact is not None:
                found["error"] = error_of(work.part(result), work.part(exact))
        except Exception as failed:  # noqa: BLE001 - a peer that cannot is told, not followed
            print(f"    {peer}: {type(failed).__name__}: {failed}", file=sys.stderr)
            continue
        line["peers"][peer] = found
    return line


def text(line):
    """The line of the table."""
    if "refused" in line:
        return f"| `{line['function']}` {line['what']} | not offered here | | | | | | |"
    ms = line["gram"][0] * 1e3
    c, over = line.get("c"), ""
    if c:
        over = f"{line['gram'][1] / c[1]:.2f}"
    best = min(line["peers"], key=lambda p: line["peers"][p]["seconds"][0], default=None)
    peer = ratio = wrong = ""
    if best:
        found = line["peers"][best]
        peer = f"{best} {found['seconds'][0] * 1e3:.4g}"
        ratio = f"{found['seconds'][0] / line['gram'][0]:.2f}"
        wrong = f"{found['error']:.1e}" if "error" in found else ""
    error = f"{line['error']:.1e}" if "error" in line else ""
    in_c_ms = f"{c[0] * 1e3:.4g}" if c else ""
    return (f"| `{line['function']}` {line['what']} | {ms:.4g} | {in_c_ms} | {over} | {peer} "
            f"| {ratio} | {error} | {wrong} |")  # fmt: skip


def settings():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=0.2, help="at least, of every call")
    parser.add_argument("--program", default="build/gram")
    parser.add_argument("--json", help="where all numbers go")
    parser.add_argument("--only", nargs="*", help="functions with one of these in their names")
    parser.add_argument("--divide", type=int, default=1, help="sizes by this, for a quick look")
    parser.add_argument("--keops", action="store_true", help="pykeops too, which compiles a while")
    return parser.parse_args()


def main():
    options = settings()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import gram
    import torch

    sys.path.insert(0, str(HERE))
    rows = []
    for module in ("pairs", "algebra", "training"):
        rows += importlib.import_module(f"compare_python_{module}").ROWS
    check_coverage(rows)
    torch.set_num_threads(options.threads)
    gram.set_threads(options.threads)
    where = torch.cuda.get_device_name() if options.device == "cuda" else platform.processor()
    info = f"gram {gram.__version__} ({gram.info()['cpu_isa']}), torch {torch.__version__}"
    print(f"{where}, {options.threads} threads, {info}\n")
    print("| function | gram, ms | C, ms | over C | best peer, ms | peer / gram | error | peer's |")
    print("|---|---|---|---|---|---|---|---|")
    lines = []
    for row in rows:
        if row[2] is None or (options.only and not any(w in row[0] for w in options.only)):
            continue
        lines.append(measure(row, options))
        print(text(lines[-1]), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(lines, indent=1) + "\n")
    slower = [f"{n['function']} ({n['what']})" for n in lines if n.get("gram") and n["peers"] and
              min(p["seconds"][0] for p in n["peers"].values()) < n["gram"][0]]  # fmt: skip
    print(f"\nSlower than a peer: {'; '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
