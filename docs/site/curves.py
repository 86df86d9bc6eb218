"""curves.py - the pictures of docs/performance that have lines: losses over steps, times over n

Like charts.py these are made from kept results when the site is built, one for light pages and one
for dark ones.  training() shows docs/performance/second-order.csv, which was written by
bench/train_second_order.py; eigenvalues() shows what `gram bench eigh --curve` has measured.
"""

import collections
import csv
import os
import pathlib
import statistics

import charts
import themed

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance" / "index.md"
METHODS = {"adamw": "AdamW", "kfac": "K-FAC", "shampoo": "Shampoo", "soap": "SOAP"}
TASKS = {
    "mlp": "A multilayer perceptron on digits",
    "conv": "A convolutional network on digits",
    "text": "A small transformer on text",
}
DRIVERS = {"jacobi": 0, "divide": 1, "bisection": 2, "batched": 3}


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def drawn(name, title, draw, height):
    """The lines of a page that show what draw(ax) draws, in the colours of both themes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from gram.plot import STYLE

    folder = ROOT / os.environ.get("BUILD", "build") / "docs" / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for kind, colours in (("light", charts.LIGHT), ("dark", charts.DARK)):
        with plt.rc_context(STYLE | charts.SIZES | colours):
            figure, ax = plt.subplots(figsize=(5.2, height), layout="constrained")
            palette = plt.rcParams["axes.prop_cycle"].by_key()["color"]
            draw(ax, palette)
            figure.legend(ncols=2, loc="outside lower left", fontsize=9)
            pictures[kind] = folder / f"{name}-{kind}.svg"
            figure.savefig(pictures[kind], metadata={"Date": None, "Creator": None})
            plt.close(figure)
    return f"**{title}**\n\n" + themed.links(title, pictures, PAGE)


def last(runs):
    """The last loss of runs with several seeds: the median."""
    return statistics.median(run[-1][1] for run in runs.values())


def schedules(task):
    """{method: {steps: {seed: [(step, loss)]}}} of a task."""
    found = {method: {} for method in METHODS}
    for row in rows_of(PAGE.with_name("second-order.csv")):
        if row["task"] == task:
            runs = found[row["method"]].setdefault(int(row["steps"]), {})
            runs.setdefault(row["seed"], []).append((int(row["step"]), float(row["loss"])))
    return found


def training(task):
    """The losses of each method with the shortest schedule that ends where AdamW's longest does."""
    found = schedules(task)
    goal = last(found["adamw"][max(found["adamw"])])

    def draw(ax, palette):
        for (method, label), colour in zip(METHODS.items(), palette, strict=False):
            runs = found[method]
            steps = min((n for n in runs if last(runs[n]) <= goal), default=max(runs))
            for run in runs[steps].values():
                ax.semilogy(*zip(*run, strict=True), color=colour, linewidth=0.6, alpha=0.5)
            middle = [
                (points[0][0], statistics.median(loss for _, loss in points))
                for points in zip(*runs[steps].values(), strict=True)
            ]
            ax.semilogy(
                *zip(*middle, strict=True), color=colour, linewidth=1.6,
                label=f"{label}, {steps} steps",
            )  # fmt: skip
        ax.axhline(goal, color=ax.xaxis.label.get_color(), linestyle=":", linewidth=1)
        ax.grid(visible=False, which="minor")
        ax.set(xlabel="step", ylabel="loss")

    return drawn(f"training-{task}", TASKS[task], draw, 3.3)


def eigenvalues(value, items):
    """The seconds or the workspace_bytes of the drivers over n, for a number of matrices."""
    files = ("2026-11-21-h200-eigh-cuda-f32.csv", "2026-11-21-h200-eigh-cpu-f32.csv")
    lines = collections.defaultdict(list)
    for name in files:
        for row in rows_of(charts.RESULTS / name):
            if row["items"] == items and row[value] and float(row[value]) > 0:
                key = (row["device"], row["driver"])
                lines[key].append((int(row["n"]), float(row[value])))
    what, unit = {
        "seconds": ("Time", "seconds of a call"),
        "workspace_bytes": ("Workspace", "bytes of workspace"),
    }[value]

    def draw(ax, palette):
        for (device, driver), points in sorted(lines.items(), reverse=True):
            on = "H200" if device == "cuda" else "16 cores"
            ax.loglog(
                *zip(*sorted(points), strict=True), "-" if device == "cuda" else "--",
                color=palette[DRIVERS[driver]], marker=".", linewidth=1.3,
                label=f"{driver}, {on}",
            )  # fmt: skip
        ax.grid(visible=False, which="minor")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set(xlabel="order of a matrix", ylabel=unit)

    matrices = "1 matrix" if items == "1" else f"{items} matrices"
    title = f"{what} of the drivers of eigh for {matrices}, float32"
    return drawn(f"eigh-{value.partition('_')[0]}-{items}", title, draw, 3.7)
