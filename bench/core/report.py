"""core/report.py - results as one table in Markdown, printed row by row, or as JSON

A line is a contender of a row.  "ms" is the median of its samples; "rate" the work of a second;
"times" how often the first contender's time fits in; "error" the operation's, against float64.
"""

import json
import time

from core.machine import title

HEAD = ["work", "who", "ms", "least", "most", "processor", "rate", "times", "error", "more"]


def number(value):
    return "" if value is None else f"{value:.4g}"


def rate(value, unit):
    """With a prefix, so that the number is between 1 and 1000."""
    for prefix in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:.4g} {prefix}{unit}"
        value /= 1000
    return f"{value:.4g} T{unit}"


def line(work, who, found, first, amount):
    """The cells of a contender."""
    if "failed" in found:
        return [work, who, f"failed: {found['failed']}".replace("|", "/"), *[""] * 7]
    part = "" if found["part"] >= 1 else f"from {100 * found['part']:.3g} % of the rows"
    more = [f"{k} {number(v) if isinstance(v, float) else v}" for k, v in found["extra"].items()]
    if "host_min" in found:
        more.append(f"host {1e6 * found['host_min']:.3g} us")
    busy = found.get("processor_min")
    return [
        work,
        who,
        *(number(1e3 * found[k]) for k in ("seconds", "seconds_min", "seconds_max")),
        "" if busy is None else number(1e3 * busy),
        rate(amount[0] / found["seconds"], amount[1]) if amount else "",
        number(found["seconds"] / first["seconds"]) if first else "",
        ("**wrong** " if found["wrong"] else "") + number(found["error"]),
        "; ".join([part] * bool(part) + more),
    ]


def cells(row):
    """The lines of a row's contenders, as lists of cells."""
    contenders = row["contenders"]
    first = next((f for f in contenders.values() if "failed" not in f), None)
    return [line(row["work"], who, found, first, row["amount"])
            for who, found in contenders.items()]  # fmt: skip


def markdown(lines):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def head():
    return f"{markdown([HEAD])}\n|{'---|' * len(HEAD)}"


def begin(subjects, about, absent):
    """What stands above the table."""
    packages = ", ".join(f"{k} {v}" for k, v in about["packages"].items())
    g = about["gram"]
    text = [
        f"# {', '.join(subjects)}: {title(about)}",
        "",
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {about['commit']}; "
        f"libgram {g['version']} ({g['cpu_isa']}, {g['blas']}; {about['compiler']}); "
        f"Python {about['python']}, {packages}; {about['system']}, {about['memory_gib']} GiB, "
        f"load {about['load']}.",
    ]
    if absent:
        text += ["", "Left out: " + "; ".join(f"{k} ({v})" for k, v in absent.items()) + "."]
    return "\n".join([*text, "", head()])


def write(path, subjects, about, absent, rows):
    """The whole so far: a run may be stopped."""
    if path.suffix == ".json":
        whole = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "subjects": subjects,
                 "machine": about, "absent": absent, "rows": rows}  # fmt: skip
        text = json.dumps(whole, indent=1, default=str)
    else:
        lines = [c for row in rows for c in cells(row)]
        text = begin(subjects, about, absent) + ("\n" + markdown(lines) if lines else "")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
