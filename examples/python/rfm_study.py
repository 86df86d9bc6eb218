"""rfm_study.py - which features of a diamond make its price, and what does learning them gain?

Four columns of noise are added to the nine of examples/data/diamonds.csv.  A recursive feature
machine is compared, round by round, with kernel ridge regression on all columns (no rounds), on
held-out rows; what it found is compared with what is noise.  Run in the project's folder.
"""

import csv

import gram
import numpy as np

CATEGORIES = ("cut", "color", "clarity")


def diamonds(random):
    """The columns by name, four of noise among them, and the logarithm of the price."""
    with open("examples/data/diamonds.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = {}
    for name in rows[0]:
        column = [row[name] for row in rows]
        table[name] = np.array(column, object if name in CATEGORIES else float)
    price = np.log(table.pop("price"))
    for i in range(4):
        table[f"noise{i}"] = random.standard_normal(len(price))
    return table, price


def main():
    random = np.random.default_rng(1)
    table, price = diamonds(random)
    rows = random.permutation(len(price))
    train, test = rows[:1200], rows[1200:4200]
    known = {name: column[train] for name, column in table.items()}
    new = {name: column[test] for name, column in table.items()}
    rounds = {}
    for iterations in (-1, 1, 2, 3):
        # One machine each: a mean of several would have members that learned no features.
        machine = gram.Machine.fit(
            known, price[train], iterations=iterations, ensemble=1, seed=1
        )
        rounds[max(iterations, 0)] = machine.score(new, price[test])["r2"]
    for count, r2 in rounds.items():
        print(f"{count} rounds: {1 - r2:.4f} of the variance of the logarithm is left")
    order = sorted(machine.importances, key=machine.importances.get, reverse=True)
    print("by importance:", ", ".join(f"{n} {machine.importances[n]:.3f}" for n in order))
    assert 1 - rounds[3] < 0.95 * (1 - rounds[0]) < 0.02
    noise = max(machine.importances[f"noise{i}"] for i in range(4))
    assert all(machine.importances[name] > 3 * noise for name in ("carat", "clarity", "color"))


if __name__ == "__main__":
    main()
