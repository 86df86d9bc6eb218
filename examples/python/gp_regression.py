"""gp_regression.py - a Gaussian process on prices of diamonds, by marginal likelihood

500 rows of examples/data/diamonds.csv; the lengthscale and the noise are those of the greatest
likelihood, and 2000 other rows tell whether mean and deviation are right.  Run in the project's
folder.

The negative logarithm of the likelihood is y^T K^-1 y / 2 + log|K| / 2 + n log(2 pi) / 2 with
K = k(x, x) + noise I (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006).
"""

import csv

import gram
import numpy as np

GRADES = {  # from the worst to the best
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def diamonds():
    """Features with mean 0 and deviation 1, and the logarithm of the price."""
    with open("examples/data/diamonds.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    price = np.log([float(row.pop("price")) for row in rows])
    columns = []
    for name in rows[0]:
        grades = GRADES.get(name)
        columns.append([grades.index(r[name]) if grades else float(r[name]) for r in rows])
    x = np.array(columns).T
    x[:, 0] = np.log(x[:, 0])  # of the weight
    return (x - x.mean(0)) / x.std(0), price


def negative_log_likelihood(x, y, length, noise):
    k = gram.kernel(x, kernel="matern52", bandwidth=length, regularization=noise)
    factor = np.zeros_like(k)
    alpha = gram.solve_cholesky(k, y, factor=factor)
    return y @ alpha / 2 + np.log(factor.diagonal()).sum() + len(y) * np.log(2 * np.pi) / 2


def predict(x, y, new, length, noise):
    """The mean and the standard deviation of the function at new points."""
    k = gram.kernel(x, kernel="matern52", bandwidth=length, regularization=noise)
    cross = gram.kernel(x, new, "matern52", bandwidth=length)
    both = gram.solve_cholesky(k, np.column_stack([y, cross]))
    variance = 1 - np.einsum("ij,ij->j", cross, both[:, 1:])
    return cross.T @ both[:, 0], np.sqrt(np.maximum(variance, 0))


def main():
    x, price = diamonds()
    rows = np.random.default_rng(0).permutation(len(x))
    known, new = rows[:500], rows[500:2500]
    mean, scale = price[known].mean(), price[known].std()
    x, y = x[rows], (price[known] - mean) / scale
    candidates = [
        (negative_log_likelihood(x[:500], y, length, noise), length, noise)
        for length in gram.median_distance(x[:500]) * np.logspace(-0.5, 1, 7)
        for noise in (0.001, 0.003, 0.01, 0.03)
    ]
    _, length, noise = min(candidates)
    found, deviation = predict(x[:500], y, x[500:2500], length, noise)
    error = price[new] - (mean + scale * found)
    spread = scale * np.sqrt(deviation**2 + noise)
    size = np.sqrt(np.mean(error**2))
    inside = np.mean(np.abs(error) < 2 * spread)
    print(f"length {length:.2f}, noise {noise}: off by {size:.1%}, {inside:.1%} in two deviations")
    assert size < 0.2 and 0.9 < inside < 0.99


if __name__ == "__main__":
    main()
