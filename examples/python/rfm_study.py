"""rfm_study.py - does a recursive feature machine find the features that matter?

y depends on 3 of 20 features.  A kernel machine that learns features is compared with kernel ridge
regression on all of them, and with one that is told the truth.
"""

import gram
import numpy as np
from gram.sklearn import KernelRidge


def problem(random, n):
    x = random.standard_normal((n, 20))
    return x, x[:, 0] * x[:, 1] + np.tanh(2 * x[:, 2])


def main():
    random = np.random.default_rng(1)
    x, y = problem(random, 1200)
    new, truth = problem(random, 500)
    options = {"kernel": "laplace", "bandwidth": "median", "alpha": 1e-3}
    plain = KernelRidge(**options).fit(x, y).score(new, truth)
    told = KernelRidge(**options).fit(x[:, :3], y).score(new[:, :3], truth)
    machine = gram.Machine.fit(x, y, iterations=3, seed=1)
    learned = 1 - np.mean((machine.predict(new) - truth) ** 2) / np.var(truth)
    best = sorted(machine.importances, key=machine.importances.get, reverse=True)[:3]
    print(f"R2: all features {plain:.3f}, learned {learned:.3f}, told {told:.3f}; best {best}")
    assert learned > plain + 0.1 and sorted(best) == ["x0", "x1", "x2"]


if __name__ == "__main__":
    main()
