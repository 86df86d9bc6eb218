"""machine_tables.py - made-up tables for the tests of fit, predict, score and importance"""

import numpy as np
from gram_cli import write_rows

FAST = ["--iterations", "0", "--threads", "1"]

NASTY = ['<b>&"quote"</b>', "naïve 数", "a, b", "x" * 80]


def nasty_table(path, target=True):
    """Names and categories that every format has to escape."""
    generator = np.random.default_rng(1)
    rows = [[*NASTY, 'goal; "x"']]
    for i in range(60):
        kind = ["<&>", 'say "hi"', "a,b;c", "two\nlines"][i % 4]
        rows.append([i, kind, f"{generator.normal():.3f}", i % 7, ['yes, "it"', "no"][i % 2]])
    return write_rows(path, rows if target else [row[:-1] for row in rows])


def simple(path, rows=80):
    generator = np.random.default_rng(2)
    x = generator.normal(size=(rows, 3))
    y = x[:, 0] + 2 * x[:, 1]
    kind = generator.integers(0, 3, size=rows)
    lines = [["a", "b", "c", "kind", "weight", "y", "label"]]
    for i in range(rows):
        label = int(y[i] > 0)
        lines.append([*x[i].round(6), kind[i], 1 + i % 3, (y[i] + kind[i]).round(6), label])
    return write_rows(path, lines)
