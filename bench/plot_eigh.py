"""plot_eigh.py - gram_eigh's drivers over n: time and workspace, as CSV and as pictures

  bench/plot_eigh.py measure --device cpu|cuda [--dtype float32] [--seconds 60] -o FILE.csv
  bench/plot_eigh.py plot FILE.csv... -o docs/eigh          docs/eigh-time.svg, -workspace.svg

All pairs of one random symmetric matrix, and of 64 up to n = 512; the least wall time of three or
more calls, until the device is done; the workspace is what gram_eigh_workspace says.  A driver
stops where a call takes longer than two seconds, all where the time is over.  Pictures need
matplotlib.
"""

import argparse
import csv
import ctypes as c
import io
import time

import numpy as np
from gram_library import DTYPES, Device, EighOptions, Gram, Tensor, random

DRIVERS = {"jacobi": 2, "divide": 3, "bisection": 4, "batched": 6}
SIZES = [4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
SIZES += [6144, 8192, 10000]
MOST_OF_MANY = 512
LIMIT_S = 2.0
FIELDS = ["device", "dtype", "driver", "items", "n", "seconds", "workspace_bytes"]


class Workspace(c.Structure):
    _fields_ = [("host_bytes", c.c_size_t), ("device_bytes", c.c_size_t)]


class Matrices:
    """Matrices, values and vectors in the memory of a context's device."""

    def __init__(self, gram, device, dtype, items, n):
        a = random((items, n, n), dtype, n)
        a = np.ascontiguousarray((a + a.swapaxes(1, 2)) / 2)
        self.gram, self.parts = gram, []
        self.a, self.w, self.v = (
            self.tensor(device, dtype, shape)
            for shape in ((items, n, n), (items, n), (items, n, n))
        )
        gram.check(
            gram.lib.gram_memory_copy(
                gram.context,
                c.c_void_p(self.a.data),
                c.c_void_p(a.ctypes.data),
                c.c_size_t(a.nbytes),
            )
        )

    def tensor(self, device, dtype, shape):
        gram, memory = self.gram, c.c_void_p()
        size = c.c_size_t(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        gram.check(gram.lib.gram_memory_allocate(gram.context, size, c.byref(memory)))
        self.parts.append((memory, size))
        t = Tensor(data=memory.value, dtype=DTYPES[dtype], device=device, ndim=len(shape))
        for i in range(len(shape)):
            t.shape[i] = shape[i]
            t.stride[i] = int(np.prod(shape[i + 1 :]))
        return t

    def free(self):
        for memory, size in self.parts:
            self.gram.lib.gram_memory_free(self.gram.context, memory, size)


def least_seconds(gram, m, options):
    """The least of some calls; None where the driver does not take the matrices."""
    least, begin, calls = np.inf, time.perf_counter(), 0
    while calls < 4 or (time.perf_counter() - begin < 0.2 and calls < 50):
        start = time.perf_counter()
        status = gram.lib.gram_eigh(
            gram.context, c.byref(m.a), c.byref(options), c.byref(m.w), c.byref(m.v), None
        )
        if status:
            return None
        gram.check(gram.lib.gram_context_synchronize(gram.context))
        took = time.perf_counter() - start
        least = min(least, took) if calls else least  # the first compiles
        calls += 1
        if took > LIMIT_S:
            return min(least, took)
    return least


def measure(arguments):
    device = Device(int(arguments.device == "cuda"), 0)
    gram = Gram(arguments.library, arguments.threads, device)
    rows, end = [], time.perf_counter() + arguments.seconds
    for items in (64, 1):
        slow = set()
        for n in SIZES:
            if (items > 1 and n > MOST_OF_MANY) or time.perf_counter() > end:
                break
            m = Matrices(gram, device, arguments.dtype, items, n)
            for name, driver in DRIVERS.items():
                options = EighOptions(size=c.sizeof(EighOptions), driver=driver)
                need = Workspace()
                refused = name in slow or gram.lib.gram_eigh_workspace(
                    gram.context,
                    c.byref(m.a),
                    c.byref(options),
                    c.byref(m.w),
                    c.byref(m.v),
                    c.byref(need),
                )
                seconds = None if refused else least_seconds(gram, m, options)
                if seconds is None:
                    continue
                if seconds > LIMIT_S:
                    slow.add(name)
                used = need.host_bytes + need.device_bytes
                rows.append(
                    [arguments.device, arguments.dtype, name, items, n, f"{seconds:.6g}", used]
                )
            m.free()
    with open(arguments.output, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])


def draw(lines, column, label, path):
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "gram"  # the same picture from the same numbers
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, items in zip(axes, (1, 64), strict=True):
        for (device, dtype, driver, count), points in sorted(lines.items()):
            if count != items:
                continue
            points = sorted((n, row[column]) for n, row in points.items() if row[column] > 0)
            style = {"cpu": "--", "cuda": "-"}[device]
            name = f"{device} {driver} {'f32' if dtype == 'float32' else 'f64'}"
            if points:
                axis.plot(*zip(*points, strict=True), style, marker=".", label=name)
        axis.set(xscale="log", yscale="log", xlabel="n", title=f"{items} of n x n")
        axis.grid(True, which="both", alpha=0.2)
        axis.legend(fontsize=7)
    axes[0].set_ylabel(label)
    figure.tight_layout()
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    with open(path, "w") as file:
        file.writelines(line.rstrip() + "\n" for line in picture.getvalue().splitlines())


def plot(arguments):
    lines = {}
    for name in arguments.files:
        with open(name, newline="") as file:
            for row in csv.DictReader(file):
                key = row["device"], row["dtype"], row["driver"], int(row["items"])
                lines.setdefault(key, {})[int(row["n"])] = (
                    float(row["seconds"]),
                    float(row["workspace_bytes"]),
                )
    draw(lines, 0, "seconds", f"{arguments.output}-time.svg")
    draw(lines, 1, "bytes of workspace", f"{arguments.output}-workspace.svg")


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
commands = parser.add_subparsers(required=True)
measuring = commands.add_parser("measure")
measuring.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
measuring.add_argument("--dtype", choices=["float32", "float64"], default="float32")
measuring.add_argument("--threads", type=int, default=2)
measuring.add_argument("--seconds", type=float, default=60)
measuring.add_argument("--library", default="build/libgram.so")
measuring.add_argument("-o", "--output", required=True)
measuring.set_defaults(run=measure)
plotting = commands.add_parser("plot")
plotting.add_argument("files", nargs="+")
plotting.add_argument("-o", "--output", required=True)
plotting.set_defaults(run=plot)
given = parser.parse_args()
given.run(given)
