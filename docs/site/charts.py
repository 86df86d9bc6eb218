"""charts.py - the charts and tables of docs/performance, from kept results in bench/results

    python docs/site/charts.py        lists the charts
    python docs/site/charts.py NAME   prints the Markdown of one, and where its pictures are

Nothing is measured here and no number is written here: a chart names a file of results and the rows
of it.  A row is a piece of work with the time, or the rate, of libgram and of its peers in one
measurement.  The pictures have the style of gram.plot, one for light pages and one for dark ones.
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import sys

import themed

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
OURS = "libgram"
DARK = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": "#d5d9de",
    "axes.labelcolor": "#d5d9de",
    "axes.titlecolor": "#d5d9de",
    "axes.edgecolor": "#8b939c",
    "xtick.color": "#aab2ba",
    "ytick.color": "#aab2ba",
    "grid.color": "#33383e",
}
LIGHT = {"figure.facecolor": "none", "axes.facecolor": "none"}
SIZES = {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "libgram"}
MARKERS = "os^Dv<>P"


@dataclasses.dataclass
class Row:
    """One piece of work: values by the name of the package, and those whose result is wrong."""

    work: str
    values: dict
    wrong: tuple = ()


@dataclasses.dataclass
class Chart:
    """What is drawn: rows() gives the rows, unit is that of the values."""

    title: str
    unit: str
    source: str
    rows: object
    more_is_better: bool = False


# ---- Reading results ----


def load(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def tables(name):
    """The tables of a Markdown file: lists of lists of cells, the first one the heading."""
    found, before = [], ""
    for line in (RESULTS / name).read_text(encoding="utf-8").split("\n"):
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                found[-1].append(cells)
        before = line
    return found


def table(name, *columns):
    """The first table of a file that has these columns."""
    for rows in tables(name):
        if all(any(column in cell for cell in rows[0]) for column in columns):
            return rows
    raise ValueError(f"{name} has no table with the columns {columns}")


def number(text):
    """The first number of a cell; None where there is none."""
    match = re.match(r"\d[\d.]*(?:e-?\d+)?", text.replace(",", ""))
    return float(match.group()) if match else None


def from_table(name, columns, label=None, heading=()):
    """Rows of a table of a file: columns has the package of each of its columns that counts."""

    def rows():
        first, *rest = table(name, *(heading or columns))
        places = {package: first.index(cell) for cell, package in columns.items()}
        found = []
        for cells in rest:
            values = {p: number(cells[i]) for p, i in places.items() if i < len(cells)}
            values = {p: v for p, v in values.items() if v is not None}
            work = label(cells) if label else cells[0]
            if len(values) > 1 and OURS in values and work:
                found.append(Row(work, values))
        return found

    return rows


NAMES = {
    "gram": OURS, "scipy": "SciPy", "numpy GEMM": "NumPy, by products", "torch": "PyTorch",
    "NumPy einsum": "NumPy einsum", "fastkron": "FastKron", "gemm": "NumPy, factor by factor",
    "scikit-learn, n_jobs": "scikit-learn, n_jobs=2",
}  # fmt: skip


SPELLED = {
    "K=M=10000": "10000 × 10000,",
    "K=4000 M=4000": "4000 × 4000,",
    "laplace kernel": "Laplace kernel, p = 1,",
    "gaussian kernel": "Gaussian kernel,",
    "Laplace-L2": "Laplace kernel, p = 2,",
    "product Laplace p=1.3": "product Laplace kernel, p = 1.3,",
    "Gaussian + 0.5 I": "Gaussian kernel + 0.5 I,",
    "f64 cdist": "f64, cdist",
    "p=inf": "p=∞",
}
POWERS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def readable(title):
    """The name of a piece of work, as "cdist [400, 400, 25] p=1" or "1024: 8^5", for readers."""
    for short, text in SPELLED.items():
        title = title.replace(short, text)
    title = re.sub(r"\[(.*?)\]", lambda m: m.group(1).replace(", ", " × ") + ",", title)
    title = re.sub(r"(\w+)=(\S+)", r"\1 = \2", title)
    title = re.sub(r"(?<=\d) ?x ?(?=\d)", " × ", title).replace("->", " → ")
    title = re.sub(r"\^(\d+)", lambda m: m.group(1).translate(POWERS), title)
    return title.strip().rstrip(",")


def of_compare(name, value, pattern):
    """Rows of a comparison's JSON whose key matches; value is "ns" or "ms"."""

    def rows():
        found = []
        for row in load(name)["rows"]:
            values = {
                NAMES.get(p, p): r[value] for p, r in row["results"].items() if value in r
            }  # fmt: skip
            wrong = tuple(NAMES.get(p, p) for p, r in row["results"].items() if r.get("wrong"))
            if re.fullmatch(pattern, row["key"]) and len(values) > 1:
                found.append(Row(row["title"], values, wrong))
        return found

    return rows


def kron_cpu():
    rows = load("2026-11-21-amd-epyc-zen4-kron.json")["rows"]
    return [
        Row(f"{row['shape']}, {row['dtype']}", {NAMES[p]: v for p, v in row["gflops"].items()})
        for row in rows
        if len(row["gflops"]) > 1
    ]


def kron_cuda():
    """The products of the library as it is, beside PyTorch's, which another table has."""
    name = "2026-11-22-h200-kron.md"
    peers = {cells[0]: number(cells[3]) for cells in table(name, "bmm", "error, torch's")[1:]}
    last = [rows for rows in tables(name) if rows[0][1] == "f32" and "bmm" not in rows[0]][-1]
    return [
        Row(
            f"{cells[0]}, float32",
            {OURS: number(cells[1]) / 1000, "PyTorch, factor by factor": peers[cells[0]] / 1000},
        )
        for cells in last[1:]
        if "us" not in cells[1] and not cells[0].startswith("left") and peers.get(cells[0])
    ]


def sample_grad(what, name):
    def rows():
        names = {f"gram {what}": OURS, f"vmap {what}": "PyTorch, vmap of grad"}
        return [
            Row(work, {names[key]: row[key]["ms"] for key in names})
            for work, row in load(name).items()
        ]

    return rows


def spelled(labels):
    """Labels such as "LU, the same" and "the same, f64" written out."""
    whole = ""
    for label in labels:
        text = label.replace("LU, the same", whole.replace("Cholesky", "LU"))
        text = text.replace("the same, f64", whole.replace("f32", "f64"))
        whole = text if "the same, f" not in label else whole
        yield re.sub(r"(64 × 512²), 1, f32", r"\1, f32", text)


def solves():
    """Times of two tables of one file; the later one has what changed since."""
    name = "2026-11-22-h200-solve.md"
    first = table(name, "gram, ms", "PyTorch, ms")[1:]
    second = table(name, "before, ms", "gram, ms")[1:]
    later = dict(zip(spelled(c[0] for c in second), (number(c[2]) for c in second), strict=True))
    return [
        Row(work, {OURS: later.get(work, number(cells[1])), "PyTorch": number(cells[4])})
        for work, cells in zip(spelled(c[0] for c in first), first, strict=True)
    ]


def python_calls(pattern):
    """Calls whose function matches, each beside its fastest peer."""

    def rows():
        found = []
        for row in load("2026-11-22-python-compare.json")["cpu"]:
            times = {p: 1000 * min(r["seconds"]) for p, r in row["peers"].items()}
            if times and re.match(pattern, row["function"]):
                best = min(times, key=times.get)
                what = row["what"].partition(";")[0]
                work = f"{row['function']}, {what} ({best})"
                values = {OURS: 1000 * min(row["gram"]), "the fastest peer": times[best]}
                found.append(Row(work, values))
        return found

    return rows


def machines():
    """Seconds of a fit; the rows of one problem follow each other in the table."""
    found, problem = [], ""
    for cells in table("2026-11-21-h200-machine.md", "fit, s")[1:]:
        problem = cells[0] or problem
        name = OURS if "libgram" in cells[1] else "xRFM"
        if not found or found[-1].work != problem:
            found.append(Row(problem, {}))
        found[-1].values[name if "Cholesky" not in cells[1] else "xRFM, Cholesky"] = number(
            cells[2]
        )
    return found


def roots():
    """One row for each size: a column of the table, whose rows are the methods."""
    first, *rest = table("2026-11-21-h200-linalg.md", "32 × 512², ms", "256 × 128², ms")
    methods = {
        "minimax, AUTO": OURS,
        "coupled Newton, AUTO": "libgram, coupled Newton",
        "PyTorch, coupled Newton of 22 steps, f32": "PyTorch, coupled Newton",
        "PyTorch, eigh in f64": "PyTorch, eigh, float64",
    }
    found = []
    for place, cell in enumerate(first):
        if cell.endswith(", ms"):
            cells = {methods[c[0]]: number(c[place]) for c in rest if c[0] in methods}
            values = {name: value for name, value in cells.items() if value is not None}
            if len(values) > 2:
                found.append(Row(cell.removesuffix(", ms"), values))
    return found


def few_pairs():
    name = "2026-11-21-eigh-krylov.md"
    return [
        Row(cells[0], {
            OURS: number(cells[2].split("/")[1].strip()),
            "SciPy, eigh of a subset": number(cells[1].split("/")[1].strip()),
        })
        for cells in table(name, "Krylov wall / cpu s")[1:]
    ]  # fmt: skip


def shampoo():
    first, *rest = table("2026-11-22-h200-optimizer-peers.md", "roots", "none")
    methods = {
        "libgram, minimax": OURS,
        "libgram, eigendecomposition": "libgram, eigendecomposition",
        "distributed_shampoo, eigendecomposition": "distributed_shampoo, eigendecomposition",
        "pytorch_optimizer, ScalableShampoo, Schur-Newton": "pytorch_optimizer, Schur-Newton",
    }
    works = {
        "roots": "a step that takes all roots",
        "none": "a step that takes none",
        "of 10": "mean of ten steps, one of which takes roots",
    }
    found = []
    for column, work in works.items():
        values = {}
        for cells in rest:  # the first of the lines of a name is of all tensors
            name = methods.get(cells[0])
            values.setdefault(name, number(cells[first.index(column)]))
        values.pop(None, None)
        found.append(Row(work, values))
    return found


ZEN4, H200 = "2026-11-21-amd-epyc-zen4.json", "2026-11-21-h200-compare.json"
CHARTS = {
    "distances-cpu": Chart(
        "Distances on two CPU cores",
        "nanoseconds per pair of coordinates", ZEN4, of_compare(ZEN4, "ns", "cdist-.*"),
    ),
    "kernels-cpu": Chart(
        "Kernels and gradients on two CPU cores",
        "nanoseconds per pair of coordinates", ZEN4, of_compare(ZEN4, "ns", "kernel-.*|grad-.*"),
    ),
    "distances-gpu": Chart(
        "Distances and kernels on an H200",
        "milliseconds", H200,
        of_compare(H200, "ms", "cdist-.*|small-.*|laplace|gaussian|product|f64-.*"),
    ),
    "gradients-gpu": Chart(
        "Gradients of distances on an H200",
        "milliseconds", H200, of_compare(H200, "ms", "grad-.*"),
    ),
    "solves-gpu": Chart("Solves on an H200", "milliseconds", "2026-11-22-h200-solve.md", solves),
    "small-cpu": Chart(
        "4096 matrices of order 16 on two CPU cores",
        "milliseconds", "2026-11-22-cpu-threads.md",
        from_table("2026-11-22-cpu-threads.md", {
            "two": OURS, "NumPy, one thread": "NumPy, one thread",
        }),
    ),
    "roots-gpu": Chart(
        "Inverse fourth roots on an H200, condition 1e6",
        "milliseconds", "2026-11-21-h200-linalg.md", roots,
    ),
    "eigen-gpu": Chart(
        "All eigenpairs on an H200, float32",
        "milliseconds", "2026-11-21-h200-eigh.md",
        from_table("2026-11-21-h200-eigh.md", {
            "libgram f32": OURS, "torch f32": "PyTorch", "CuPy f32": "CuPy", "JAX f32": "JAX",
        }, label=lambda cells: "" if cells[0].startswith("10^6") else cells[0]),
    ),
    "eigen-few": Chart(
        "Ten largest eigenpairs of order 4000, one CPU thread",
        "seconds of the processor", "2026-11-21-eigh-krylov.md", few_pairs,
    ),
    "kron-cpu": Chart(
        "Products with Kronecker factors, one CPU thread",
        "GFLOP/s", "2026-11-21-amd-epyc-zen4-kron.json", kron_cpu, True,
    ),
    "kron-gpu": Chart(
        "Products with Kronecker factors on an H200",
        "TFLOP/s", "2026-11-22-h200-kron.md", kron_cuda, True,
    ),
    "machines-gpu": Chart(
        "Training a recursive feature machine on an H200",
        "seconds", "2026-11-21-h200-machine.md", machines,
    ),
    "norms-gpu": Chart(
        "Norms of the gradients of every sample on an H200",
        "milliseconds", "2026-11-22-h200-sample-grad.json",
        sample_grad("norms", "2026-11-22-h200-sample-grad.json"),
    ),
    "gradients-of-samples-gpu": Chart(
        "Gradients of every sample on an H200",
        "milliseconds", "2026-11-22-h200-sample-grad.json",
        sample_grad("gradients", "2026-11-22-h200-sample-grad.json"),
    ),
    "shampoo-gpu": Chart(
        "A step of Shampoo on 124 million parameters, one H200",
        "milliseconds", "2026-11-22-h200-optimizer-peers.md", shampoo,
    ),
    "python-pairwise": Chart(
        "Distances and kernels from Python, 16 CPU cores",
        "milliseconds", "2026-11-22-python-compare.json",
        python_calls("cdist|compat|median|kernel|agop|sklearn"),
    ),
    "python-algebra": Chart(
        "Linear algebra and layers from Python, 16 CPU cores",
        "milliseconds", "2026-11-22-python-compare.json",
        python_calls("solve|eigh|matrix|optim|matmul|syrk|kron|sample|kfac|natural"),
    ),
}  # fmt: skip


# ---- Drawing ----


def packages(rows):
    """All packages of a chart, ours first, in the order in which they come."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    return sorted(names, key=lambda name: name != OURS)


def draw(chart, rows, path, colours):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from gram.plot import STYLE
    from matplotlib.ticker import LogLocator, NullLocator

    names = packages(rows)
    columns = 2 if max(len(name) for name in names) < 30 else 1
    legend = -(-len(names) // columns)
    with plt.rc_context(STYLE | SIZES | colours):
        palette = plt.rcParams["axes.prop_cycle"].by_key()["color"]
        height = 0.43 * len(rows) + 0.85 + 0.24 * legend
        figure, ax = plt.subplots(figsize=(5.2, height), layout="constrained")
        for i, row in enumerate(rows):
            low, high = min(row.values.values()), max(row.values.values())
            ax.plot([low, high], [i, i], color=plt.rcParams["grid.color"], linewidth=2, zorder=1)
            place = ax.get_yaxis_transform()
            ax.text(0, i - 0.3, row.work, transform=place, va="center", fontsize=9)
            for name, value in row.values.items():
                k = names.index(name)
                ax.scatter(
                    value, i, s=58 if name == OURS else 34, color=palette[k % len(palette)],
                    marker=MARKERS[k % len(MARKERS)], linewidths=0, zorder=3 if k == 0 else 2,
                    label=name,
                )  # fmt: skip
        ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.75), yticks=[])
        ax.grid(axis="y", visible=False)
        ax.spines["left"].set_visible(False)
        decades = math.log10(ax.get_xlim()[1] / ax.get_xlim()[0])
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter("{x:g}")
        better = "further right is faster" if chart.more_is_better else "further left is faster"
        ax.set_xlabel(f"{chart.unit}; {better}")
        handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        figure.legend(
            [handles[name] for name in names], names, ncols=columns, loc="outside lower left",
            fontsize=9,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def shown(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def as_table(chart, rows):
    names = packages(rows)
    peers = [name for name in names if not name.startswith(OURS)]
    best = max if chart.more_is_better else min
    lines = [
        f"| {chart.unit} | " + " | ".join(names) + " | advantage |",
        "|---|" + "---:|" * (len(names) + 1),
    ]
    for row in rows:
        cells = [
            shown(row.values[name]) + (" (wrong)" if name in row.wrong else "")
            if name in row.values
            else ""
            for name in names
        ]
        ours = best(v for name, v in row.values.items() if name.startswith(OURS))
        rest = [row.values[n] for n in peers if n in row.values and n not in row.wrong]
        ratio = ""
        if rest:
            other = best(rest)
            ratio = shown(float(f"{(ours / other if chart.more_is_better else other / ours):.2g}"))
        lines.append(f"| {row.work} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines)


def chart(name):
    """A picture for light pages and one for dark ones, with the table and its source."""
    what = CHARTS[name]
    rows = [dataclasses.replace(row, work=readable(row.work)) for row in what.rows()]
    if not rows:
        raise ValueError(f"{what.source} has no rows for {name}")
    folder = ROOT / os.environ.get("BUILD", "build") / "docs" / "charts"
    page = ROOT / "docs" / "performance" / "index.md"
    pictures = {kind: folder / f"{name}-{kind}.svg" for kind in ("light", "dark")}
    for kind, colours in (("light", LIGHT), ("dark", DARK)):
        draw(what, rows, pictures[kind], colours)
    source = f"[bench/results/{what.source}](../../bench/results/{what.source})"
    wrong = any(row.wrong for row in rows)
    note = (
        'The advantage is the speed of libgram as a multiple of that of the fastest peer: 2 means '
        'that libgram takes half the time, 0.5 that it takes twice as long.'
    )  # fmt: skip
    if wrong:
        note += ' "Wrong" marks an error above the bound of the comparison; it does not count.'
    return (
        f"**{what.title}**\n\n{themed.links(what.title, pictures, page)}\n"
        f":::{{dropdown}} The numbers\n"
        f"{note}\n\n{as_table(what, rows)}\n\nSource: {source}\n:::\n"
    )


def main():
    if len(sys.argv) < 2:
        for name, what in CHARTS.items():
            print(f"{name:26} {what.title}: {len(what.rows())} rows of {what.source}")
    else:
        print(chart(sys.argv[1]))


if __name__ == "__main__":
    main()
