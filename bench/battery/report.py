#!/usr/bin/env python3
"""report.py - the results of bench/battery/run.py as tables in Markdown and as a picture

    python bench/battery/report.py FILE.jsonl... [--out FILE.md] [--picture FILE.svg]
                                   [--before FILE.jsonl]

An error is the mean over the splits that all contenders of a table have.  The ratio of a contender
on a table is its error over the least error of the default peers (LightGBM, CatBoost, XGBoost,
HistGB, extra trees); what is reported is the geometric mean of the ratios.  An error rate of zero
counts as half a wrong row.  Times are those of the processor where one thread ran, which other work
on the machine changes little, else those of the clock.

--before FILE.jsonl   results of an earlier state of libgram, beside which those of its contenders
                      are set
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
LABELS = {
    "gram": "`gram fit`", "gram-3-rounds": "`--iterations 3`", "gram-auto": "`--auto`",
    "lightgbm": "LightGBM", "catboost": "CatBoost", "xgboost": "XGBoost", "histgb": "HistGB",
    "extra-trees": "extra trees", "xrfm": "xRFM", "histgb-tuned": "HistGB, tuned",
    "xrfm-tuned": "xRFM, tuned",
}  # fmt: skip
OURS = ("gram", "gram-3-rounds", "gram-auto")
WORSE = 1.02  # a ratio above it is told as a loss


@dataclasses.dataclass
class Results:
    """cells: {table: {contender: means}}; tables have their rows in their names if there are
    several sizes."""

    cells: dict
    failed: dict  # {(table, contender): reason}
    abouts: list

    def whos(self):
        found = {who for row in self.cells.values() for who in row}
        return [who for who in LABELS if who in found]


def lines_of(paths):
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def read(paths):
    """The results of files; of two lines for one result the later one counts."""
    lines = lines_of(paths)
    found, failed = {}, {}
    sizes = {}
    for line in lines:
        if "table" in line:
            sizes.setdefault(line["table"], set()).add(line["rows"])
    for line in lines:
        if "table" not in line:
            continue
        name, who = line["table"], line["contender"]
        if len(sizes[name]) > 1:
            name += f", {line['rows']} rows" if line["rows"] else ", all rows"
        if "failed" in line:
            failed[name, who] = line["failed"]
        else:
            found.setdefault(name, {}).setdefault(who, {})[line["split"]] = line
    cells = {name: means(row) for name, row in found.items()}
    return Results(cells, {k: v for k, v in failed.items() if k[1] not in found.get(k[0], {})},
                   [line for line in lines if "machine" in line])  # fmt: skip


def means(row):
    """Of the splits that all contenders of a table have."""
    common = sorted(set.intersection(*(set(splits) for splits in row.values())))
    return {who: mean_of([splits[s] for s in common]) for who, splits in row.items() if common}


def mean_of(lines):
    first = lines[0]
    mean = {k: statistics.fmean(line[k] for line in lines)
            for k in ("error", "log_loss", "calibration") if k in first}  # fmt: skip
    clock = "processor" if first["threads"] == 1 else "fit"
    tested = sum(line["tested"] for line in lines)
    return mean | {
        "time": statistics.fmean(line[clock] for line in lines),
        "counted": max(mean["error"], 0.5 / tested) if first["classes"] else mean["error"],
        "learned": first["learned"],
        "columns": first["columns"],
        "classes": first["classes"],
        "splits": len(lines),
    }


# ---- Comparing ----------------------------------------------------------------------------------


def best_of(row, whos):
    """The contender with the least error among some, or None."""
    return min((who for who in whos if who in row), key=lambda who: row[who]["counted"],
               default=None)  # fmt: skip


def ratios(cells, who, peers):
    """{table: the error over that of the best of peers}"""
    found = {}
    for name, row in cells.items():
        best = best_of(row, peers)
        if who in row and best:
            found[name] = row[who]["counted"] / row[best]["counted"]
    return found


def geometric(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


# ---- Markdown -----------------------------------------------------------------------------------


def small(value):
    """Four digits, without the zero before the point where there is one."""
    return f"{value:.4f}".removeprefix("0") if value < 10 else f"{value:.3g}"


def table(head, rows):
    mark = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", mark,
                      *("| " + " | ".join(row) + " |" for row in rows)])  # fmt: skip


def grid(results, key, shown=small, wanted=lambda row: True):
    """A line for each table, a column for each contender; the least is bold."""
    whos = results.whos()
    rows = []
    for name, row in results.cells.items():
        if not wanted(row):
            continue
        texts = {who: shown(row[who][key]) for who in row}
        least = min(texts, key=lambda who: row[who][key])
        cells = [name]
        for who in whos:
            text = texts.get(who, "failed" if (name, who) in results.failed else "")
            cells.append(f"**{text}**" if text == texts[least] else text)
        rows.append(cells)
    return table(["table", *(LABELS[who] for who in whos)], rows)


def is_classes(row):
    return any(found["classes"] for found in row.values())


def sizes(results):
    rows = []
    for name, row in results.cells.items():
        one = next(iter(row.values()))
        kind = f"{one['classes']} classes" if one["classes"] else "a regression"
        numbers = (one[k] for k in ("learned", "columns", "splits"))
        rows.append([name, kind, *(f"{n:,}" for n in numbers)])
    return table(["table", "target", "rows learned", "columns", "splits"], rows)


def summary(results):
    """A line for each contender, beside two lists of peers."""
    from battery import DEFAULT_PEERS, TUNED_PEERS

    rows = []
    tuned = all(who in results.whos() for who in TUNED_PEERS)
    for who in results.whos():
        found = ratios(results.cells, who, DEFAULT_PEERS)
        cells = [LABELS[who], f"{geometric(found.values()):.3f}" if found else ""]
        if tuned:
            other = ratios(results.cells, who, TUNED_PEERS)
            cells.append(f"{geometric(other.values()):.3f}" if other else "")
        times = [row[who]["time"] for row in results.cells.values() if who in row]
        lost = sum(ratio > WORSE for ratio in found.values())
        rows.append([*cells, f"{lost} of {len(found)}", f"{geometric(times):.3g}"])
    head = ["contender", "over the best default peer"]
    head += ["over the best tuned peer"] * tuned
    head += ["tables lost by more than 2 %", "time to fit, s"]
    return table(head, rows)


def losses(results, who):
    """Where a contender is worse than the best default peer, the worst first."""
    from battery import DEFAULT_PEERS

    found = ratios(results.cells, who, DEFAULT_PEERS)
    rows = []
    for name, ratio in sorted(found.items(), key=lambda item: -item[1]):
        row = results.cells[name]
        best = best_of(row, DEFAULT_PEERS)
        if ratio > WORSE:
            rows.append([name, small(row[who]["error"]), small(row[best]["error"]), LABELS[best],
                         f"{ratio:.2f}"])  # fmt: skip
    return table(["table", "error", "best default peer's", "which", "ratio"], rows) if rows else ""


def search_losses(results):
    """Where the search is worse than the better of the two plain fits, which it contains."""
    plain = [who for who in OURS if who != "gram-auto"]
    rows = []
    for name, ratio in ratios(results.cells, "gram-auto", plain).items():
        row = results.cells[name]
        best = best_of(row, plain)
        if ratio > WORSE:
            rows.append([name, small(row["gram-auto"]["error"]), small(row[best]["error"]),
                         LABELS[best], f"{ratio:.2f}"])  # fmt: skip
    return table(["table", "`--auto`", "best plain fit", "which", "ratio"], rows) if rows else ""


def change(results, before):
    """libgram's errors before and now, on the tables and contenders that both have."""
    rows = []
    for who in OURS:
        both = [n for n in results.cells if who in results.cells[n] and who in
                before.cells.get(n, {})]  # fmt: skip
        for name in both:
            old, new = before.cells[name][who], results.cells[name][who]
            cells = [f"{name}, {LABELS[who]}", small(old["error"]), small(new["error"]),
                     f"{new['counted'] / old['counted']:.3f}"]  # fmt: skip
            for key in ("log_loss", "calibration"):
                cells.append(f"{small(old[key])}, {small(new[key])}" if key in old else "")
            rows.append([*cells, f"{old['time']:.3g}, {new['time']:.3g}"])
        if both:
            mean = geometric(results.cells[n][who]["counted"] / before.cells[n][who]["counted"]
                             for n in both)  # fmt: skip
            rows.append([f"geometric mean, {LABELS[who]}", "", "", f"{mean:.3f}", "", "", ""])
    return table(["table", "error before", "now", "ratio", "log loss", "calibration error",
                  "time, s"], rows)  # fmt: skip


def heading(results):
    from core.machine import title

    lines = []
    for about in results.abouts:
        m = about["machine"]
        packages = ", ".join(f"{k} {v}" for k, v in m["packages"].items())
        lines.append(f"{about['date'][:10]}, commit {m['commit']}; libgram {m['gram']['version']} "
                     f"({m['gram']['cpu_isa']}, {m['gram']['blas'].split(' NO_')[0]}); "
                     f"Python {m['python']}, {packages}; {m['memory_gib']} GiB.")  # fmt: skip
    where = title(results.abouts[-1]["machine"]) if results.abouts else "results"
    return [f"# The battery of tables: {where}", *dict.fromkeys(lines)]


def wrapped(part):
    """Prose in lines of 120 columns."""
    if part.startswith(("|", "#", "!")):
        return part
    return textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False)


def markdown(results, before=None, picture=None):
    parts = heading(results)
    if picture:
        parts.append(f"![error against time of all contenders]({picture})")
    parts += ["Errors are the share of wrong classes or, of a regression, the root of the mean "
              "squared error over the target's deviation. The best of a row is bold.",
              grid(results, "error"),
              "Geometric means over the tables; an error rate of zero counts as half a wrong row.",
              summary(results)]  # fmt: skip
    for who in OURS:
        if who in results.whos() and (lost := losses(results, who)):
            parts += [f"## What {LABELS[who]} loses", lost]
    if lost := search_losses(results):
        parts += ["## Where `--auto` is worse than plain fits by more than 2 %", lost]
    if any(is_classes(row) for row in results.cells.values()):
        parts += ["## Log loss", grid(results, "log_loss", wanted=is_classes),
                  "## Calibration error, 15 bins",
                  grid(results, "calibration", wanted=is_classes)]  # fmt: skip
    parts += ["## Time to fit, seconds", grid(results, "time", lambda v: f"{v:.3g}"), "## Tables",
              sizes(results)]  # fmt: skip
    if before:
        parts += ["## Before and now", change(results, before)]
    if results.failed:
        rows = [[name, LABELS[who], why.replace("|", "/")]
                for (name, who), why in results.failed.items()]  # fmt: skip
        parts += ["## Failed", table(["table", "contender", "why"], rows)]
    return "\n\n".join(map(wrapped, parts)) + "\n"


# ---- The picture --------------------------------------------------------------------------------


def whole_name(who):
    """A label as it stands alone."""
    text = LABELS[who].strip("`")
    return f"gram fit {text}" if text.startswith("-") else text


def scatter(results, ax, palette):
    """A point for each contender on axes of matplotlib, pale ones for its tables near it."""
    from battery import DEFAULT_PEERS
    from charts import MARKERS
    from matplotlib.ticker import LogLocator, NullLocator

    means = []
    for k, who in enumerate(results.whos()):
        found = ratios(results.cells, who, DEFAULT_PEERS)
        if not found:
            continue
        means.append(geometric(found.values()))
        times = [results.cells[name][who]["time"] for name in found]
        look = {"color": palette[k % len(palette)], "marker": MARKERS[k % len(MARKERS)],
                "linewidths": 0}  # fmt: skip
        ax.scatter(times, list(found.values()), s=12, alpha=0.3, zorder=2, **look)
        size = 90 if who in OURS else 60
        ax.scatter(geometric(times), means[-1], s=size, zorder=3, label=whole_name(who), **look)
    ax.set(xscale="log", yscale="log", xlabel="seconds to fit; further left is faster")
    ax.set_ylabel("error over the best default peer's; lower is better")
    # Single tables lie far outside, where they would hide how the means differ.
    ax.set_ylim(0.7 * min(means), 1.4 * max(means))
    ax.axhline(1, color=ax.spines["left"].get_edgecolor(), linewidth=0.8, zorder=1)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5, 7, 8, 9)))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")


def draw(results, path):
    """The picture as a file that is legible on light pages and on dark ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import themed
    from charts import SIZES
    from gram.plot import STYLE

    with plt.rc_context(STYLE | SIZES):
        figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
        scatter(results, ax, plt.rcParams["axes.prop_cycle"].by_key()["color"])
        figure.legend(loc="outside right upper", fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    lines = themed.dual(path.read_text("utf-8")).splitlines()
    path.write_text("".join(line.rstrip() + "\n" for line in lines), "utf-8")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", 1)[0], epilog="\n\n".join(__doc__.split("\n\n")[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--out", type=Path, metavar="FILE.md")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    parser.add_argument("--before", type=Path, metavar="FILE.jsonl")
    args = parser.parse_args()
    sys.path[0] = str(HERE.parent)
    sys.path.append(str(HERE.parents[1] / "docs" / "site"))
    results = read(args.files)
    if not results.cells:
        sys.exit(f"report.py: no results in {', '.join(map(str, args.files))}")
    before = read([args.before]) if args.before else None
    if args.picture:
        draw(results, args.picture)
    text = markdown(results, before, args.picture and args.picture.name)
    if args.out:
        args.out.write_text(text, "utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
