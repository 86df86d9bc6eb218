"""gp_regression.py - a Gaussian process on noisy samples, its lengthscale by marginal likelihood

The negative logarithm of the likelihood is y^T K^-1 y / 2 + log|K| / 2 + n log(2 pi) / 2 with
K = k(x, x) + noise I (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006).
"""

import gram
import numpy as np


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
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(0, 10, 200))[:, None]
    truth = np.sin(x[:, 0]) + 0.5 * np.sin(3 * x[:, 0])
    y = truth + 0.1 * random.standard_normal(200)
    noise = 0.01
    lengths = gram.median_distance(x) * np.logspace(-2, 1, 25)
    scores = [negative_log_likelihood(x, y, length, noise) for length in lengths]
    length = lengths[np.argmin(scores)]
    mean, deviation = predict(x, y, x, length, noise)
    error = np.sqrt(np.mean((mean - truth) ** 2))
    inside = np.mean(np.abs(mean - truth) < 2 * deviation)
    print(f"length {length:.3f}, error {error:.3f} (noise 0.100), {inside:.0%} within two sigma")
    assert error < 0.06 and inside > 0.8


if __name__ == "__main__":
    main()
