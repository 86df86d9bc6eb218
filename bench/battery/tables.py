"""battery/tables.py - the tables: real ones, and made ones with one named property each

A table is made from a seed and is the same, byte by byte, whenever it is made.  Its features are a
data frame of numbers, categories and dates; its target is an array of numbers, or of the classes
0, 1, 2, ...  Nothing here depends on a contender.
"""

import dataclasses
import hashlib
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"
SPLITS = 5
MOST_TESTED = 100_000  # of a quarter of the rows, which are kept apart to be predicted


@dataclasses.dataclass
class Table:
    """x: the features; y: numbers (classes = 0) or classes as the integers 0 to classes - 1."""

    name: str
    x: pd.DataFrame
    y: np.ndarray
    classes: int

    def split(self, number, most=None):
        """The rows of a split, to learn and to predict; most limits them together."""
        order = np.random.default_rng([19, number]).permutation(len(self.y))[:most]
        test = min(len(order) // 4, MOST_TESTED)
        return order[test:], order[:test]

    def digest(self):
        """Of all bytes, names of columns included."""
        found = hashlib.sha256(self.y.tobytes())
        for name, column in self.x.items():
            found.update(name.encode())
            values = column.to_numpy()
            if values.dtype == object:
                values = np.array([str(v) for v in values])
            found.update(values.tobytes())
        return found.hexdigest()


TABLES = {}  # name: (what it is, function of the seed that gives features, target, classes)


def table(name, about):
    def add(function):
        TABLES[name] = (about, function)
        return function

    return add


def make(name, seed=0):
    """The table of a name; real tables are the same for every seed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    x, y, classes = TABLES[name][1](rng)
    if not isinstance(x, pd.DataFrame):
        x = numbers(x)
    return Table(name, x, np.asarray(y, np.int64 if classes else np.float64), classes)


def numbers(x):
    """Columns x0, x1, ..., with as many digits as a file would have."""
    x = np.round(np.asarray(x, np.float64), 4)
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])


def noisy(rng, f, share):
    """f with normal noise, whose deviation is that share of f's; with as many digits as a file."""
    return np.round(f + share * f.std() * rng.standard_normal(len(f)), 5)


def levels(names):
    """A column of categories."""
    return pd.Categorical([f"level{i}" for i in names])


def codes(labels):
    """Classes as integers, and how many there are."""
    classes, y = np.unique(labels, return_inverse=True)
    return y, len(classes)


# ---- Real tables --------------------------------------------------------------------------------


@table("letters", "26 classes, 16 whole numbers")
def letters(rng):
    frame = pd.read_csv(DATA / "letters.csv", na_filter=False)
    y, classes = codes(frame.pop("letter").to_numpy(str))
    return frame.astype(np.float64), y, classes


@table("diamonds", "prices, 6 numbers and 3 categories")
def diamonds(rng):
    frame = pd.read_csv(DATA / "diamonds.csv", na_filter=False)
    y = frame.pop("price").to_numpy(np.float64)
    for name in ("cut", "color", "clarity"):
        frame[name] = pd.Categorical(frame[name].to_numpy(str))
    return frame, y, 0


def of_sklearn(name, about):
    @table(name, about)
    def load(rng):
        import sklearn.datasets

        data = getattr(sklearn.datasets, f"load_{name.replace('-', '_')}")()
        classes = len(data.target_names) if "target_names" in data else 0
        return np.asarray(data.data, np.float64), data.target, classes


of_sklearn("digits", "10 classes, 64 pixels")
of_sklearn("breast-cancer", "2 classes, 30 numbers, 569 rows")
of_sklearn("wine", "3 classes, 13 numbers, 178 rows")
of_sklearn("diabetes", "a regression, 10 numbers, 442 rows")


# ---- Made tables: regressions -------------------------------------------------------------------

ROWS = 8000


@table("rotated", "a function of three directions that no axis has, of 20 features")
def rotated(rng):
    x = rng.standard_normal((ROWS, 20))
    z = x @ np.linalg.qr(rng.standard_normal((20, 3)))[0]
    return x, noisy(rng, np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + np.abs(z[:, 2]), 0.1), 0


@table("sparse", "products of few of 24 features")
def sparse(rng):
    x = rng.standard_normal((ROWS, 24))
    f = x[:, 0] * x[:, 1] + x[:, 2] * np.tanh(x[:, 3] * x[:, 4]) + np.abs(x[:, 5]) * x[:, 6]
    return x, noisy(rng, f, 0.2), 0


@table("network", "a random network of two hidden layers, 12 features")
def network(rng):
    x = rng.standard_normal((ROWS, 12))
    hidden = x
    for width in (32, 16):
        weights = rng.standard_normal((hidden.shape[1], width)) / hidden.shape[1] ** 0.5
        hidden = np.tanh(2 * hidden @ weights + 0.5 * rng.standard_normal(width))
    return x, noisy(rng, hidden @ rng.standard_normal(16), 0.2), 0


@table("additive", "a sum of functions of one feature each, 10 features")
def additive(rng):
    x = rng.uniform(-1, 1, (ROWS, 10))
    parts = [
        np.sin(np.pi * x[:, 0]), x[:, 1] ** 2, np.abs(x[:, 2]), np.exp(x[:, 3]), x[:, 4],
        np.cos(2 * np.pi * x[:, 5]), np.tanh(4 * x[:, 6]), x[:, 7] ** 3, -x[:, 8],
        np.maximum(x[:, 9], 0),
    ]  # fmt: skip
    return x, noisy(rng, sum(p / p.std() for p in parts), 0.15), 0


@table("steps", "steps at thresholds, alone and in pairs, 10 features")
def steps(rng):
    x = rng.uniform(-1, 1, (ROWS, 10))
    above = x > rng.uniform(-0.5, 0.5, 10)
    f = above[:, :6] @ rng.uniform(0.5, 1.5, 6)
    f += 1.5 * (above[:, 0] & above[:, 1]) - 2.0 * (above[:, 2] ^ above[:, 6])
    return x, noisy(rng, f + (above[:, 7] & above[:, 8] & above[:, 3]), 0.15), 0


@table("categories", "categories of 4, 12 and 40 levels beside 5 numbers")
def categories(rng):
    x = rng.standard_normal((ROWS, 5))
    names = [rng.integers(0, many, ROWS) for many in (4, 12, 40)]
    f = sum(rng.standard_normal(many)[i] for many, i in zip((4, 12, 40), names, strict=True))
    f = f + rng.standard_normal(4)[names[0]] * x[:, 0] + np.sin(2 * x[:, 1]) + 0.5 * x[:, 2]
    frame = numbers(x)
    for many, i in zip((4, 12, 40), names, strict=True):
        frame[f"of{many}"] = levels(i)
    return frame, noisy(rng, f, 0.1), 0


@table("levels", "categories of 250 and 1,500 levels, most of them rare, beside 4 numbers")
def many_levels(rng):
    x = rng.standard_normal((ROWS, 4))
    frame, f = numbers(x), np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]
    for many in (250, 1500):
        shares = 1 / np.arange(1, many + 1) ** 0.7
        i = rng.choice(many, ROWS, p=shares / shares.sum())
        frame[f"of{many}"] = levels(i)
        f = f + rng.standard_normal(many)[i]
    return frame, noisy(rng, f, 0.2), 0


@table("prices", "lognormal features, a price that is a product")
def prices(rng):
    x = np.exp(rng.standard_normal((ROWS, 8)))
    logarithm = np.log(x) @ np.array([0.8, 0.5, -0.3, 0.2, 0, 0, 0, 0]) + 0.4 * (x[:, 4] > 2)
    y = np.exp(logarithm + 0.3 * rng.standard_normal(ROWS)) * (1 + 0.5 * np.tanh(x[:, 5] - 1))
    return x, np.round(1000 * y, 2), 0


@table("dates", "a trend, the season and the day of the week, from a date beside 3 numbers")
def dates(rng):
    day = rng.integers(0, 5 * 365, ROWS)
    x = rng.standard_normal((ROWS, 3))
    f = day / 365 + np.sin(2 * np.pi * day / 365.25) + 0.7 * (day % 7 >= 5)
    frame = numbers(x)
    frame["date"] = np.datetime64("2020-01-01", "s") + day.astype("timedelta64[D]")
    return frame, noisy(rng, f + np.sin(x[:, 0]) + 0.5 * x[:, 1], 0.15), 0


@table("noise", "a target that no feature tells anything of, 20 features")
def noise(rng):
    return rng.standard_normal((ROWS // 2, 20)), np.round(rng.standard_normal(ROWS // 2), 5), 0


@table("weak", "a signal of a third of the noise, 30 features, 2,000 rows")
def weak(rng):
    x = rng.standard_normal((2000, 30))
    f = x[:, 0] + np.sin(2 * x[:, 1])
    return x, np.round(f + 3 * rng.standard_normal(2000), 5), 0


@table("wide", "2,000 columns, of which 15 count, 2,000 rows")
def wide(rng):
    x = rng.standard_normal((2000, 2000))
    f = x[:, :12] @ rng.uniform(0.5, 1.5, 12) + 2 * x[:, 12] * x[:, 13] + np.abs(x[:, 14])
    return x, noisy(rng, f, 0.2), 0


def few_of_28(rng, rows):
    """A function of few of 28 features with noise of a tenth."""
    x = rng.standard_normal((rows, 28))
    f = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3] + x[:, 4]) + np.tanh(3 * x[:, 5])
    return x, noisy(rng, f + 0.5 * (x[:, 6] > 0) * x[:, 7], 0.1), 0


@table("rows-1e5", "100,000 rows to learn, a function of few of 28 features")
def rows_1e5(rng):
    return few_of_28(rng, 133_333)


@table("rows-1e6", "1,000,000 rows to learn, a function of few of 28 features")
def rows_1e6(rng):
    return few_of_28(rng, 1_100_000)


# ---- Made tables: classifications ---------------------------------------------------------------


@table("rare", "2 classes, one of them 3 % of the rows, 12 features")
def rare(rng):
    x = rng.standard_normal((ROWS, 12))
    f = x[:, 0] + x[:, 1] * x[:, 2] + 0.7 * x[:, 3] ** 2 - 0.5 * x[:, 4]
    f = noisy(rng, f, 0.2)
    return x, f > np.quantile(f, 0.97), 2


@table("noisy-classes", "4 classes that overlap, 15 features")
def noisy_classes(rng):
    x = rng.standard_normal((ROWS, 15))
    hidden = np.tanh(x @ rng.standard_normal((15, 10)) / 2)
    f = 2 * hidden @ rng.standard_normal((10, 4)) / 10**0.5
    return x, np.argmax(f + rng.gumbel(size=f.shape), axis=1), 4


@table("flipped", "3 classes of which a tenth of the labels is wrong, 8 features")
def flipped(rng):
    x = rng.standard_normal((ROWS, 8))
    radius = np.linalg.norm(x[:, :3], axis=1) + 0.5 * np.sin(2 * x[:, 3])
    y = np.digitize(radius, [1.3, 1.9])
    wrong = rng.random(ROWS) < 0.1
    y[wrong] = rng.integers(0, 3, wrong.sum())
    return x, y, 3
