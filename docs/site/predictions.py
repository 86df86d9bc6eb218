"""predictions.py - how well machines predict: kept results of bench/battery as a picture and tables

battery() makes its part of a page from a file of bench/results when the site is built, by the
report of bench/battery; nothing is measured here.
"""

import sys

import charts
import curves

sys.path.append(str(charts.ROOT / "bench"))

from battery import report  # noqa: E402


def battery(name):
    """Error against time, the means of all contenders, and the error on each table."""
    results = report.read([charts.RESULTS / name])
    lost = report.losses(results, "gram")
    return "\n".join([
        curves.drawn("battery", "Error against time to fit, all contenders",
                     lambda ax, palette: report.scatter(results, ax, palette), 4.6),
        report.summary(results), "",
        "Tables on which `gram fit` loses more than 2 % to the best default peer:", "",
        lost or "None.", "",
        ":::{dropdown} The error on each table", report.grid(results, "error"), "",
        f"Source: [bench/results/{name}](../../bench/results/{name})", ":::", "",
    ])  # fmt: skip
