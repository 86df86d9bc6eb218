#!/usr/bin/env python3
"""pictures.py - draws the pictures of README.md and of docs/choosing.md into docs/images

    PYTHONPATH=build/python scripts/pictures.py [BUILD]

speed.svg shows the time of distances and kernels beside that of other packages, from the kept
measurement in bench/results; nothing is measured here.  fit.svg shows what `gram fit` makes of the
diamonds in examples/data: BUILD/gram (build/gram) learns from one row in six, and prices as many
others.  norms.svg, kernels.svg, bandwidths.svg and ridges.svg show what the parameters of a kernel
do, computed by the Python package.  All have the style of gram.plot, and colours for light pages
and for dark ones (docs/site/themed.py).  Needs matplotlib.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import gram
import matplotlib
import numpy as np

matplotlib.use("Agg")
import gram.plot  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))
import themed  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MEASURED = ROOT / "bench" / "results" / "2026-11-21-amd-epyc-zen4.json"

COLOURS = [row["color"] for row in gram.plot.STYLE["axes.prop_cycle"]]

# What is drawn: the key of a row in MEASURED, its label, and the peers in the order of the legend.
WORK = (
    ("cdist-p1", "distances, p = 1"),
    ("cdist-p1.3", "distances, p = 1.3"),
    ("cdist-p0.5", "distances, p = 0.5"),
    ("cdist-inf", "distances, p = ∞"),
    ("cdist-p2", "distances, p = 2"),
    ("kernel-laplace", "L1-Laplace kernel"),
    ("kernel-gaussian", "Gaussian kernel"),
)
PEERS = {
    "gram": ("libgram", COLOURS[0], "o"),
    "KeOps": ("KeOps", COLOURS[1], "s"),
    "faiss": ("faiss", COLOURS[2], "^"),
    "scikit-learn": ("scikit-learn", COLOURS[4], "D"),
    "scipy": ("SciPy", COLOURS[7], "v"),
}
STYLE = gram.plot.STYLE | {
    "font.size": 10,
    "axes.grid": False,
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "svg.hashsalt": "libgram",  # the same numbers give the same file
}


def save(figure, name):
    path = IMAGES / name
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    lines = themed.dual(path.read_text(encoding="utf-8")).splitlines()
    path.write_text("".join(line.rstrip() + "\n" for line in lines), encoding="utf-8")
    print(f"docs/images/{name}")


def draw_speed():
    rows = {row["key"]: row["results"] for row in json.loads(MEASURED.read_text())["rows"]}
    figure, ax = plt.subplots(figsize=(7.6, 3.5), layout="constrained")
    for i, (key, _) in enumerate(WORK):
        times = {peer: rows[key][peer]["ns"] for peer in PEERS if peer in rows[key]}
        ax.plot([min(times.values()), max(times.values())], [i, i], color="#dddddd", zorder=1)
        for peer, ns in times.items():
            _, colour, marker = PEERS[peer]
            size = 62 if peer == "gram" else 38
            ax.scatter(ns, i, s=size, color=colour, marker=marker, zorder=2, linewidths=0)
    for label, colour, marker in PEERS.values():
        ax.scatter([], [], color=colour, marker=marker, s=40, label=label, linewidths=0)
    ax.set_xscale("log")
    ax.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    ax.set_yticks(range(len(WORK)), [label for _, label in WORK])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x", color=STYLE["grid.color"], zorder=0)
    ax.set_xlabel("nanoseconds per pair of coordinates; further left is faster")
    ax.set_title("Distances and kernels in float32 on two CPU cores")
    ax.legend(ncols=5, loc="upper center", bbox_to_anchor=(0.42, -0.17))
    save(figure, "speed.svg")


def learn(gram, folder):
    """What the model says of rows that it has not seen, and what the features weigh in it."""
    with open(ROOT / "examples" / "data" / "diamonds.csv", newline="") as file:
        head, *rows = csv.reader(file)
    for name, part in (("train.csv", rows[0::6]), ("new.csv", rows[3::6])):
        with open(folder / name, "w", newline="") as file:
            csv.writer(file).writerows([head, *part])
    for command in (
        "fit train.csv --target price -o diamonds.gram --progress never",
        "predict diamonds.gram new.csv -o predictions.csv",
        "importance diamonds.gram -o importance.csv",
    ):
        subprocess.run([gram, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    score = json.loads(
        subprocess.run(
            [gram, "score", "diamonds.gram", "new.csv", "--json"],
            cwd=folder, check=True, capture_output=True, text=True,
        ).stdout
    )  # fmt: skip
    price = head.index("price")
    with open(folder / "predictions.csv", newline="") as file:
        predicted = [float(row["prediction"]) for row in csv.DictReader(file)]
    with open(folder / "importance.csv", newline="") as file:
        shares = [(row["feature"], float(row["importance"])) for row in csv.DictReader(file)]
    return [float(row[price]) for row in rows[3::6]], predicted, shares, score


def draw_fit(gram):
    with tempfile.TemporaryDirectory() as folder:
        actual, predicted, shares, score = learn(gram, pathlib.Path(folder))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.6, 3.1), layout="constrained", width_ratios=(1.1, 1)
    )
    shown = range(0, len(actual), 12)  # enough to see the shape, and a small file
    left.scatter(
        [actual[i] for i in shown], [predicted[i] for i in shown], s=5, color=COLOURS[0], alpha=0.5,
        linewidths=0,
    )  # fmt: skip
    left.plot([0, 19000], [0, 19000], color="#777777", linewidth=0.8)
    left.set(xlim=(0, 19500), ylim=(0, 19500), xlabel="price, dollars", ylabel="predicted")
    left.set_title(f"{len(actual):,} diamonds it has not seen: R² {score['r2']:.3f}")
    shares = sorted(shares, key=lambda pair: pair[1])
    right.barh([name for name, _ in shares], [100 * share for _, share in shares], color=COLOURS[0])
    right.tick_params(axis="y", length=0)
    right.spines["left"].set_visible(False)
    right.set_xlabel("share of the gradient, %")
    right.set_title("What the prediction depends on")
    save(figure, "fit.svg")


def draw_norms():
    """The points at distance 1 from the centre, for several p."""
    figure, axes = plt.subplots(1, 5, figsize=(7.6, 1.9), layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 721)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    for ax, p in zip(axes, (0.5, 1, 1.5, 2, np.inf), strict=True):
        length = gram.cdist(circle, np.zeros((1, 2)), p)
        ball = circle / length
        ax.fill(*ball.T, color=COLOURS[0], alpha=0.18, linewidth=0)
        ax.plot(*ball.T, color=COLOURS[0], linewidth=1.4)
        ax.set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.set_title(f"p = {'∞' if np.isinf(p) else f'{p:g}'}", loc="center")
    save(figure, "norms.svg")


def draw_kernels():
    """Kernels as functions of the distance, and what a machine with each of them makes of data."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3), layout="constrained")
    kernels = (
        ("Laplace (q = 1)", {"kernel": "laplace"}),
        ("q = 1.4", {"kernel": "lpq-laplace", "exponent": 1.4}),
        ("Matérn 5/2", {"kernel": "matern52"}),
        ("Gaussian (q = 2)", {"kernel": "gaussian"}),
    )
    origin, d = np.zeros((1, 1)), np.linspace(0, 3, 301)[:, None]
    x, grid = np.linspace(0, 6, 13)[:, None], np.linspace(-0.3, 6.3, 500)[:, None]
    y = np.where(x < 3, 0.2, 1) + 0.25 * np.sin(3 * x)
    for (label, options), colour in zip(kernels, COLOURS, strict=False):
        left.plot(d, gram.kernel(d, origin, bandwidth=1.0, **options), color=colour, label=label)
        k = gram.kernel(x, bandwidth=0.9, regularization=1e-3, **options)
        alpha = gram.solve_cholesky(k, y)
        fit = gram.kernel(grid, x, bandwidth=0.9, **options) @ alpha
        right.plot(grid, fit, color=colour, linewidth=1.2)
    right.plot(x, y, "o", color="#333333", markersize=4)
    left.set(xlabel="distance / bandwidth", ylabel="kernel", xlim=(0, 3), ylim=(0, 1.02))
    left.legend()
    left.set_title("Four kernels")
    right.set(xlabel="x", ylim=(-0.3, 1.6))
    right.set_title("What they make of the same points")
    save(figure, "kernels.svg")


def noisy():
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0, 6, 60))[:, None]
    return x, np.sin(2 * x) + rng.normal(scale=0.3, size=x.shape)


def draw_fits(name, cases):
    """The same noisy points, learned with each (title, bandwidth, regularization)."""
    x, y = noisy()
    grid = np.linspace(0, 6, 600)[:, None]
    size = {"figsize": (7.6, 2.3), "layout": "constrained"}
    figure, axes = plt.subplots(1, len(cases), sharey=True, **size)
    for ax, (title, bandwidth, ridge) in zip(axes, cases, strict=True):
        alpha = gram.solve_cholesky(gram.kernel(x, bandwidth=bandwidth, regularization=ridge), y)
        ax.plot(x, y, ".", color="#999999", markersize=4)
        ax.plot(grid, np.sin(2 * grid), color="#bbbbbb", linewidth=1)
        ax.plot(grid, gram.kernel(grid, x, bandwidth=bandwidth) @ alpha, color=COLOURS[0])
        ax.set(ylim=(-2, 2), xticks=[], yticks=[])
        ax.set_title(title)
    save(figure, name)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    plt.rcParams.update(STYLE)
    IMAGES.mkdir(parents=True, exist_ok=True)
    draw_speed()
    draw_fit(build / "gram")
    draw_norms()
    draw_kernels()
    draw_fits(
        "bandwidths.svg",
        (("L = 0.1: too small", 0.1, 0.1), ("L = 3", 3, 0.1), ("L = 1000: too large", 1000, 0.1)),
    )
    draw_fits(
        "ridges.svg",
        (("r = 0.0001: too little", 3, 1e-4), ("r = 0.1", 3, 0.1), ("r = 10: too much", 3, 10)),
    )


if __name__ == "__main__":
    main()
