"""Kernel ridge regression by a farm of tasks: conjugate gradients, preconditioner, certificate.

The method is that of gram_krr_solve (src/krr/krr_solve_cg.c and krr_certificate.c): rounds of
conjugate gradients for the residual in float64, whose products come from the farm.
"""

import math
import time

import numpy as np

import gram
from gram import _farm
from gram._farm_tasks import kernel_of

_ROUNDS, _REFINING_ROUNDS = 3, 30
_REFINING_TOLERANCE = 1e-4  # of a round in float32 that refinement follows
_LOOK = 50  # iterations between two looks at the true residual, which are products too
_LEAST_LINES = 133  # with which a product takes 9 % more than half of all pairs
_SUBSET = 8  # rows, for each pivot that is drawn of them


class Matrix:
    """Products with the kernel matrix of the rows of x, by tasks of a farm."""

    def __init__(self, farm, x, kernel, tasks):
        self.farm, self.kernel = farm, kernel
        self.shared, self.x = farm.share("x", x)
        self.n, self.dtype = len(self.x), self.x.dtype
        self.lines = _farm.lines(self.n, tasks or max(_LEAST_LINES, 4 * farm.workers))
        self.parts = _farm.blocks(self.n, 4 * farm.workers)

    def multiply(self, v):
        """K v in the dtype of v; sums of tasks are in float64."""
        items = [
            (self.shared, self.kernel, line, np.concatenate([v[a:b] for a, b in line]))
            for line in self.lines
        ]
        out = np.zeros(v.shape)
        for line, part in zip(self.lines, self.farm.run("line", items), strict=True):
            at = 0
            for first, end in line:
                out[first:end] += part[at : at + end - first]
                at += end - first
        return out

    def diagonal(self):
        """The largest k(x_i, x_i)."""
        items = [(self.shared, self.kernel, where) for where in self.parts]
        most = 0.0
        for low, high, finite in self.farm.run("diagonal", items):
            if not finite:
                raise ValueError(f"{self.farm.function}: x has numbers that are not finite")
            if not low >= 0:
                raise ValueError(
                    f"{self.farm.function}: k(x_i, x_i) is {low:g} for a row, expected 0 or more: "
                    "the kernel is not positive definite"
                )
            most = max(most, high)
        return most

    def check_symmetry(self):
        """An expression, or a divergence, may be another one way than the other."""
        some = np.linspace(0, self.n - 1, min(self.n, 16)).astype(int)
        rows = np.asarray(self.x[np.unique(some)], np.float64)
        k = gram.kernel(rows, rows, **kernel_of(self.kernel, np.float64))
        if np.abs(k - k.T).max(initial=0) > 1e-9 * np.abs(k).max(initial=0):
            raise ValueError(f"{self.farm.function}: kernel is not symmetric for rows of x")

    def across(self, y, shared, v):
        """K(x, y) v of further rows y."""
        items = [(self.shared, self.kernel, where, shared, v) for where in self.parts]
        return np.concatenate(list(self.farm.run("product", items)))


def _pivots(matrix, rank, rng):
    """Rows of x that a randomly pivoted Cholesky factorisation of a random subset takes.

    After Chen, Epperly, Tropp and Webber, arXiv:2207.06503, by blocks.
    """
    n, kernel = matrix.n, matrix.kernel
    rows = np.sort(rng.choice(n, min(n, _SUBSET * rank), replace=False))
    x = np.asarray(matrix.x[rows], np.float64)
    kernel = kernel_of(kernel, np.float64)
    left = gram.kernel(x[:, None], x[:, None], **kernel)[:, 0, 0]
    factor, chosen = np.empty((0, len(x))), []
    while len(chosen) < rank and left.max() > 0:
        count = min(max(16, rank // 8), rank - len(chosen), np.count_nonzero(left))
        new = rng.choice(len(x), count, replace=False, p=left / left.sum())
        columns = gram.kernel(x[new], x, **kernel) - factor[:, new].T @ factor
        values, vectors = gram.eigh(columns[:, new])
        keep = values > 1e-12 * max(values.max(), 0)
        more = (vectors[:, keep] / np.sqrt(values[keep])).T @ columns
        factor = np.concatenate([factor, more])
        left = np.maximum(left - (more**2).sum(axis=0), 0)
        left[new] = 0
        chosen.extend(new)
    return x[np.sort(chosen)]


class Preconditioner:
    """(F F^T + mu I)^-1 for a Nystroem approximation F F^T = K(x, s) K(s, s)^-1 K(s, x).

    With K(s, s) = U L U^T, T = U L^(-1/2), T^T K(s, x) K(x, s) T = W M W^T, that is
        (I - K(x, s) Z Z^T K(s, x)) / mu,   Z = T W (M + mu I)^(-1/2).
    Nothing of n by rank is stored: both products are tasks, in float64.
    """

    def __init__(self, matrix, rank, mu, seed):
        self.matrix, self.mu = matrix, mu
        pivots = _pivots(matrix, rank, np.random.default_rng(seed))
        self.shared, self.pivots = matrix.farm.share("x", pivots)
        items = [(matrix.shared, matrix.kernel, where, self.shared) for where in matrix.parts]
        square = sum(matrix.farm.run("square", items))
        kernel = kernel_of(matrix.kernel, np.float64)
        values, vectors = gram.eigh(gram.kernel(self.pivots, **kernel))
        keep = values > 1e-14 * len(values) * values[-1]
        t = vectors[:, keep] / np.sqrt(values[keep])
        values, vectors = gram.eigh(t.T @ square @ t)
        self.z = t @ (vectors / np.sqrt(np.maximum(values, 0) + mu))
        self.rank = len(self.pivots)

    def apply(self, v):
        m = self.matrix
        wide = np.asarray(v, np.float64)
        items = [(m.shared, m.kernel, (a, b), self.shared, wide[a:b]) for a, b in m.parts]
        small = self.z @ (self.z.T @ sum(m.farm.run("transposed", items)))
        return ((wide - m.across(self.pivots, self.shared, small)) / self.mu).astype(v.dtype)


class Solve:
    """(K + diag(ridge / weights)) alpha = y, and how wrong alpha is."""

    def __init__(self, matrix, y, weights, options):
        self.matrix, self.y, self.options = matrix, np.asarray(y, np.float64), options
        self.began = time.monotonic()
        self.most_diagonal = matrix.diagonal()
        matrix.check_symmetry()
        self.ridge = np.full((matrix.n, 1), options["ridge"])
        if weights is not None:
            self.ridge /= np.asarray(weights, np.float64)[:, None]
        room = weights is not None and options["ridge"] > 0 and matrix.n > 0
        self.room = math.sqrt(max(weights) / min(weights)) if room else 1.0
        self.added = 0.0  # to the diagonal, where the matrix may be singular
        self.products, self.end = 0, "reached"
        self.norm_y = np.linalg.norm(self.y, axis=0)
        self.target = options["tolerance"] * self.norm_y
        if options["held_out_rmse"] > 0:
            least = options["held_out_rmse"] * math.sqrt(matrix.n) / self.room
            self.target = np.full(len(self.norm_y), options["tolerance"] * least)
        self.preconditioner = None

    # ---- The certificate ----

    def residual(self, alpha):
        """y - A alpha in float64, and the norms of its columns with an allowance for rounding."""
        r = self.y - self.ridge * alpha
        if alpha.any():
            self.products += 1
            r -= self.matrix.multiply(alpha)
        allowance = 16 * np.finfo(np.float64).eps * math.sqrt(self.matrix.n) * self.most_diagonal
        return r, np.linalg.norm(r, axis=0) + allowance * np.linalg.norm(alpha, axis=0)

    def excess(self, norms):
        """The largest norm over its target: at most 1 where all columns are good enough."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return max(np.where(norms == 0, 0, norms / self.target), default=0.0)

    def report(self, norms):
        n, most = self.matrix.n, max(norms, default=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = max(np.where(norms == 0, 0, norms / self.norm_y), default=0.0)
            least = 2 * np.sqrt(self.ridge.min(initial=math.inf))
            sup = np.divide(math.sqrt(self.most_diagonal) * most, least)
        rms = most / math.sqrt(n) if n else 0.0
        farm, reached = self.matrix.farm, bool(self.excess(norms) <= 1)
        return {
            "method": "cg",
            "reached": reached,
            "end": "reached" if reached else self.end,
            "rank": self.preconditioner.rank if self.preconditioner else 0,
            "products": self.products,
            "residual": float(relative),
            "residual_rms": float(rms),
            "prediction_rms": float(rms * self.room),
            "prediction_sup": float(sup) if most > 0 else 0.0,
            "seconds": time.monotonic() - self.began,
            "floor": 0.0,
            "tasks": farm.tasks,
            "lost": farm.lost,
            "task_seconds": farm.seconds,
        }

    # ---- Rounds ----

    def _seconds_left(self):
        limit = self.options["time_limit"]
        return limit - (time.monotonic() - self.began) if limit > 0 else math.inf

    def _products_left(self):
        return self.options["products"] - self.products - 3

    def _multiply(self, v):
        self.products += 1
        out = self.matrix.multiply(v)
        out += (self.ridge + self.added) * v
        return out.astype(v.dtype)

    def improve(self, alpha, r, norms):
        """alpha, closer to the solution by a round of conjugate gradients."""
        good, told = norms <= self.target, {}
        tolerance = min(0.9, *(0.9 * self.target[~good] / norms[~good]))
        if self.options["refine"] and self.matrix.dtype == np.float32:
            tolerance = max(tolerance, _REFINING_TOLERANCE)
        b = np.where(good, 0, r / np.where(norms > 0, norms, 1)).astype(self.matrix.dtype)
        seconds = self._seconds_left()
        limited = {"time_limit": seconds} if seconds < math.inf else {}
        e = gram.solve_operator(
            self._multiply,
            b,
            preconditioner=self.preconditioner and self.preconditioner.apply,
            tolerance=float(tolerance),
            iterations=max(1, self._products_left() * _LOOK // (_LOOK + 1) - 1),
            report=told,
            **limited,
        )
        message = told["message"]
        ends = {
            "options.iterations ended": "products",
            "options.time_limit ended": "time",
            "a is not positive definite": "indefinite",
        }
        self.end = next((end for words, end in ends.items() if words in message), "rounding")
        if message.startswith("preconditioner is not"):  # by rounding
            self.preconditioner = None
        return alpha + np.where(good, 0, norms * e)

    def run(self, alpha):
        options = self.options
        round_off = np.float32 if options["narrow"] else np.float64
        alpha = alpha.astype(round_off).astype(np.float64)
        r, norms = self.residual(alpha)
        if self.excess(norms) > 1 and options["rank"] > 0:
            mu = float(self.ridge.mean()) or np.finfo(self.matrix.dtype).eps * self.most_diagonal
            self.preconditioner = Preconditioner(self.matrix, options["rank"], mu, options["seed"])
        eps = np.finfo(self.matrix.dtype).eps
        shift = math.sqrt(eps) * self.most_diagonal
        for _ in range(_REFINING_ROUNDS if options["refine"] else _ROUNDS):
            before = self.excess(norms)
            if before <= 1:
                break
            if self._products_left() < 1 or self._seconds_left() <= 0:
                self.end = "products" if self._products_left() < 1 else "time"
                break
            found = self.improve(alpha, r, norms).astype(round_off).astype(np.float64)
            found_r, found_norms = self.residual(found)
            now = self.excess(found_norms)
            if now < before:
                alpha, r, norms = found, found_r, found_norms
            if self.end in ("products", "time"):
                break
            if now > 0.5 * before:
                if self.added or not self.ridge.min() < shift:
                    break
                self.added = shift
        return alpha, self.report(norms)
