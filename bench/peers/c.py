"""peers/c.py - the same call in C, by `gram bench` or another program, with inputs of its own

`gram bench` makes random inputs of the same shape, and measures without Python.
"""

import json
import subprocess

from core.place import NotOffered
from core.tables import Call

NAME, PACKAGES, DEVICES = "C", [], ("cpu", "cuda")
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}


def printed(command):
    """The last line that a program prints, as JSON."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1] if "\n{" in done.stdout else done.stdout)


def bench(q):
    words = q.operation.words(q)
    program = q.place.build / "gram"
    if words is None or not program.exists():
        raise NotOffered("gram bench has no such problem")
    seconds = 0 if q.place.tiny else 0.2
    command = [program, "bench", *words, "--json", "--seconds", seconds, "--dtype",
               DTYPES[q.dtype], "--threads", q.place.threads, "--device", q.place.device]

    def sample():
        return {"seconds": printed(command)["seconds"]}

    return Call(sample=sample)


NAMES = ["cdist", "kernel", "cdist_grad", "agop", "kernel_matmul", "kernel_vjp",
         "kernel_matmul_vjp", "median_distance", "solve", "eigh", "eigh_top", "eigh_kernel",
         "matrix_power", "matmul_batched", "syrk_ema", "kron_matmul", "kron_matmul_vjp",
         "kron_solve", "sample_norms", "kfac_factors"]
CALLS = dict.fromkeys(NAMES, bench)


def warm_call(q):
    """bench_call on the CPU, bench_cuda on a GPU."""
    name = "bench_call" if q.place.on_cpu else "bench_cuda"
    program = q.place.build / "tests" / name
    if not program.exists():
        raise NotOffered(f"{program} is not built")

    def sample():
        if q.place.on_cpu:
            return {"seconds": printed([program, q.calls])["best_ns"] * 1e-9}
        lines = subprocess.run([program, "host"], capture_output=True, text=True, check=True).stdout
        rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        host = next(row["host_us"] for row in rows if "host_us" in row) * 1e-6
        return {"seconds": host, "host": host}

    return Call(sample=sample)


def step(q):
    """bench_optimizer, which knows SOAP and Muon with their defaults."""
    program = q.place.build / "tests" / "bench_optimizer"
    if not (q.place.on_cpu and program.exists() and q.method in ("SOAP", "Muon")):
        raise NotOffered("bench_optimizer measures SOAP and Muon on the CPU")
    shapes = ["x".join(map(str, s)) for s in q.shapes if len(s) == 2 or q.method == "SOAP"]

    def sample():
        found = printed([program, q.method.lower(), 10, 2 if q.place.tiny else 40, *shapes])
        return {"seconds": found["mean"] * 1e-3, "processor": found["cpu"] * 1e-3,
                "first ms": found["first"], "most ms": found["most"]}  # fmt: skip

    return Call(sample=sample)


CALLS |= {"warm_call": warm_call, "step": step}
