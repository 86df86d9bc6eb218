"""Plots with matplotlib (pip install "libgram[plot]").  Each function takes or makes an Axes, and
returns it.

>>> import matplotlib, numpy as np, gram, gram.plot
>>> matplotlib.use("Agg")
>>> x = np.linspace(0, 1, 20)[:, None]
>>> gram.plot.kernel_matrix(gram.kernel(x, kernel="gaussian", bandwidth=0.2)).get_ylabel()
'i'
"""

import csv
import json
import os

import matplotlib.pyplot as plt
import numpy as np

__all__ = [
    "STYLE",
    "bench",
    "convergence",
    "eigh",
    "eigh_overview",
    "feature_importance",
    "kernel_matrix",
    "spectrum",
    "training",
]


#: The look of all figures of this project, as parameters of matplotlib: the functions of this
#: module draw with it when they make the axes, and the charts of the `gram` command (cli/chart.c)
#: have the same colours, fonts and grid.  ``matplotlib.rcParams.update(gram.plot.STYLE)`` gives
#: it to figures of your own.
STYLE = {
    "axes.prop_cycle": plt.cycler(
        color=[
            "#2f6db3",
            "#d9822b",
            "#3a8f5c",
            "#b5413b",
            "#7a5ba6",
            "#7f6a4f",
            "#c26a9b",
            "#6b7480",
        ]
    ),
    "figure.facecolor": "#ffffff",
    "axes.facecolor": "#ffffff",
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "axes.titlecolor": "#222222",
    "axes.edgecolor": "#555555",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.which": "both",
    "legend.frameon": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "image.cmap": "viridis",
}


def _figure(*size, **options):
    with plt.rc_context(STYLE):
        return plt.subplots(*size, **options)


def _axes(ax):
    return _figure()[1] if ax is None else ax


def kernel_matrix(k, ax=None, *, colorbar=True):
    """A matrix (m, n) of any real dtype as an image, its first row at the top.

    Raises TypeError and ValueError as matplotlib does.

    >>> gram.plot.kernel_matrix(np.eye(3), colorbar=False).get_xlabel()
    'j'
    """
    ax = _axes(ax)
    image = ax.imshow(np.asarray(k), interpolation="nearest", aspect="auto")
    ax.grid(False)
    if colorbar:
        ax.figure.colorbar(image, ax=ax)
    ax.set(xlabel="j", ylabel="i")
    return ax


def spectrum(values, ax=None):
    """Eigenvalues (n,), the largest first, on a logarithmic scale.

    values have any real dtype and any shape, which is flattened.  Values that are not positive are
    left out, and the title has their number.  Raises ValueError for values that are not numbers.

    >>> gram.plot.spectrum([4.0, 1.0, -1e-9]).get_title()
    '1 of 3 are not positive'
    """
    ax = _axes(ax)
    values = np.sort(np.asarray(values, float).ravel())[::-1]
    positive = values[values > 0]
    ax.semilogy(np.arange(1, positive.size + 1), positive)
    ax.set(xlabel="number", ylabel="eigenvalue")
    if positive.size < values.size:
        ax.set_title(f"{values.size - positive.size} of {values.size} are not positive")
    return ax


def feature_importance(importances, ax=None, *, top=20):
    """Bars of the `top` most important features, beginning with the most important one.

    importances is a gram.Machine, an estimator of gram.sklearn, a dict, or numbers in the order of
    the features.  Raises TypeError for anything else.

    >>> gram.plot.feature_importance({"size": 0.7, "colour": 0.3}).get_xlabel()
    'importance'
    """
    ax = _axes(ax)
    machine = getattr(importances, "machine_", importances)
    found = getattr(machine, "importances", machine)
    if not isinstance(found, dict):
        found = {f"x{i}": value for i, value in enumerate(found)}
    best = sorted(found.items(), key=lambda item: item[1], reverse=True)[:top][::-1]
    ax.barh([name for name, _ in best], [value for _, value in best])
    ax.set(xlabel="importance")
    return ax


def convergence(scores, ax=None):
    """Scores (n,) after every round, for example of fits with iterations=0, 1, 2 and so on.

    Raises TypeError for an argument without a length.

    >>> gram.plot.convergence([0.5, 0.75, 0.8]).get_xlabel()
    'round'
    """
    ax = _axes(ax)
    ax.plot(np.arange(len(scores)), scores, marker="o")
    ax.set(xlabel="round", ylabel="score")
    return ax


def training(curves, ax=None):
    """Losses over steps, on a logarithmic scale.

    curves is a dict of lists of (step, loss) pairs by name.  Raises ValueError for a curve without
    pairs, and AttributeError for an argument that is not a dict.

    >>> gram.plot.training({"SOAP": [(0, 2.0), (10, 1.0)]}).get_ylabel()
    'loss'
    """
    ax = _axes(ax)
    for name, points in curves.items():
        steps, losses = zip(*points, strict=True)
        ax.semilogy(steps, losses, label=name)
    ax.set(xlabel="step", ylabel="loss")
    ax.legend(frameon=False)
    return ax


def bench(results, ax=None, *, value="seconds"):
    """The results of `gram bench --json`, as one bar per result.

    value is the name of any number of the results.  results is a list of dicts or of lines of JSON,
    or the path of a file of such lines.  Times are in seconds.  Raises KeyError for a value that a
    result does not have, and OSError for a file that cannot be read.

    >>> result = {"op": "cdist", "sizes": {"M": 100}, "device": "cpu", "seconds": 2e-5}
    >>> gram.plot.bench([result]).get_xlabel()
    'seconds'
    """
    ax = _axes(ax)
    if isinstance(results, str | os.PathLike):
        with open(results, encoding="utf-8") as file:
            results = [line for line in file if line.strip()]
    results = [json.loads(r) if isinstance(r, str | bytes) else r for r in results]
    names = []
    for r in results:
        sizes = " ".join(str(size) for size in r["sizes"].values())
        names.append(f"{r['op']} {sizes} {r['device']}")
    ax.barh(names[::-1], [r[value] for r in results][::-1])
    ax.set(xlabel=value.replace("_", " "))
    return ax


def _table_of_eigh(results):
    if isinstance(results, str | os.PathLike):
        with open(results, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    return list(results)


def eigh(results, ax=None, *, value="seconds"):
    """The time or the scratch of gram.eigh over n, with one line per driver, dashed for the CPU.

    value is "seconds" or "workspace_bytes", per call.  results is the path of a file that `gram
    bench eigh 64 512 --curve FILE.csv` has written, or its rows as dicts with the columns device,
    dtype, driver, items, n, seconds and workspace_bytes (bytes).  A row without the value is left
    out.  Raises KeyError for a missing column, and OSError for a file that cannot be read.

    >>> rows = [{"device": "cpu", "dtype": "float32", "driver": "divide", "items": 1, "n": n,
    ...          "seconds": 1e-9 * n**3, "workspace_bytes": 8 * n * n} for n in (64, 128)]
    >>> gram.plot.eigh(rows, value="workspace_bytes").get_ylabel()
    'workspace bytes'
    """
    ax = _axes(ax)
    lines = {}
    for row in _table_of_eigh(results):
        if row[value] == "":
            continue
        items = "" if int(row["items"]) == 1 else f", {row['items']} items"
        name = f"{row['driver']} ({row['device']} {row['dtype']}{items})"
        style = "--" if row["device"] == "cpu" else "-"
        lines.setdefault((name, style), []).append((int(row["n"]), float(row[value])))
    for (name, style), points in lines.items():
        ax.loglog(*zip(*sorted(points), strict=True), style, marker=".", label=name)
    ax.set(xlabel="n", ylabel=value.replace("_", " "))
    if lines:
        ax.legend(fontsize="small", frameon=False)
    return ax


def eigh_overview(*results):
    """A figure of gram.eigh over n: the time and the workspace of a call, for each number of
    matrices.

    results are files or tables as gram.plot.eigh takes them, for example one of the CPU and one of
    a GPU.  Rows without a time, which the table of a GPU has, give a last row of panels: the bytes
    of workspace of each of 1, 2, 4, ... GPUs that share one matrix, as plans state them.  Raises
    KeyError for a missing column, and OSError for a file that cannot be read.

    >>> rows = [{"device": "cpu", "dtype": "float32", "driver": "divide", "items": 1, "n": n,
    ...          "seconds": 1e-9 * n**3, "workspace_bytes": 8 * n * n} for n in (64, 128)]
    >>> [axes.get_title() for axes in gram.plot.eigh_overview(rows).axes]
    ['1 matrix: time of a call', '1 matrix: workspace']
    """
    rows = [row for table in results for row in _table_of_eigh(table)]
    measured = [row for row in rows if row["seconds"] != ""]
    planned = [row for row in rows if row["seconds"] == ""]
    counts = sorted({int(row["items"]) for row in measured})
    height = max(len(counts) + bool(planned), 1)
    figure, axes = _figure(height, 2, figsize=(11, 4.5 * height), squeeze=False)
    for items, (time, scratch) in zip(counts, axes, strict=False):
        some = [row for row in measured if int(row["items"]) == items]
        name = "1 matrix" if items == 1 else f"{items} matrices"
        eigh(some, time).set_title(f"{name}: time of a call")
        eigh(some, scratch, value="workspace_bytes").set_title(f"{name}: workspace")
    if planned:
        last = eigh(planned, axes[-1][0], value="workspace_bytes")
        last.set_title("workspace of each GPU, 1 matrix")
        axes[-1][1].set_axis_off()
    figure.tight_layout()
    return figure
