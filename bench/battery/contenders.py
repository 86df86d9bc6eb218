"""battery/contenders.py - how each package learns a table, and what it is given

A contender is a function of a Task, which learns and returns a function of a data frame: numbers,
or probabilities of the classes (rows, classes).  All have the settings that their packages choose,
but for the searches, which end after task.seconds.  Each gets categories as its package wants them:
gram, LightGBM, CatBoost, XGBoost and HistGB as columns of categories, extra trees and xRFM one-hot.
gram gets dates as texts, which a file has; the others get them as days.
"""

import dataclasses
import time

import numpy as np
import pandas as pd

DAY = np.timedelta64(1, "D")


@dataclasses.dataclass
class Task:
    """x (rows, features), y (rows,): numbers, or the classes 0 to classes - 1."""

    x: pd.DataFrame
    y: np.ndarray
    classes: int
    threads: int
    seconds: float  # of a search
    seed: int

    def part(self, rows):
        return dataclasses.replace(self, x=self.x.iloc[rows], y=self.y[rows])

    def hold_out(self, share=0.2):
        """Rows to learn from and rows to choose by."""
        order = np.random.default_rng([23, self.seed]).permutation(len(self.y))
        held = int(share * len(order))
        return self.part(order[held:]), self.part(order[:held])


CONTENDERS = {}  # name: (packages that it needs, function)
SEARCHES = ("gram-auto", "histgb-tuned", "xrfm-tuned")  # they take task.seconds


def contender(name, *packages):
    def add(function):
        CONTENDERS[name] = (packages, function)
        return function

    return add


def spread(probabilities, known, classes):
    """Columns of known classes as columns of all classes; one that was not learned has 0."""
    out = np.zeros((len(probabilities), classes))
    out[:, np.asarray(known, int)] = probabilities
    return out


# ---- What packages are given --------------------------------------------------------------------


def is_category(column):
    return isinstance(column.dtype, pd.CategoricalDtype)


def dates_as(convert, x):
    found = [name for name, column in x.items() if column.dtype.kind == "M"]
    return x.assign(**{name: convert(x[name]) for name in found})


def days(x):
    return dates_as(lambda c: (c - pd.Timestamp("2000-01-01")) / DAY, x)


def texts(x):
    return dates_as(lambda c: c.dt.strftime("%Y-%m-%d"), x)


class OneHot:
    """Numbers, standardised if asked, and then zeros and ones for each level of the categories."""

    def __init__(self, x, standardised=False):
        self.levels = {name: list(c.cat.categories) for name, c in x.items() if is_category(c)}
        values = self.numbers(x)
        self.mean, self.deviation = 0.0, 1.0
        if standardised:
            self.mean, self.deviation = values.mean(axis=0), values.std(axis=0)
            self.deviation = np.where(self.deviation > 0, self.deviation, 1.0)

    def numbers(self, x):
        return x.drop(columns=list(self.levels)).to_numpy(np.float64)

    def __call__(self, x):
        parts = [(self.numbers(x) - self.mean) / self.deviation]
        for name, levels in self.levels.items():
            parts.append(x[name].to_numpy()[:, None] == np.array(levels, object))
        return np.hstack(parts).astype(np.float32)


# ---- gram ---------------------------------------------------------------------------------------


def gram_machine(task, **options):
    """What `gram fit` does, by the same function of the library and with the same defaults."""
    import gram

    gram.set_threads(task.threads)
    kind = "classification" if task.classes else "regression"
    y = [str(c) for c in task.y] if task.classes else task.y
    machine = gram.Machine.fit(texts(task.x), y, task=kind, seed=task.seed, **options)
    if not task.classes:
        return lambda x: machine.predict(texts(x))
    return lambda x: spread(machine.predict_proba(texts(x)), machine.classes, task.classes)


@contender("gram", "gram")
def gram_default(task):
    return gram_machine(task)


@contender("gram-3-rounds", "gram")
def gram_rounds(task):
    return gram_machine(task, iterations=3)


@contender("gram-auto", "gram")
def gram_auto(task):
    return gram_machine(task, search=1, time_limit=task.seconds)


# ---- Peers with their defaults ------------------------------------------------------------------


def learned(model, task, prepare, **options):
    """Fits a model with scikit-learn's methods; prepare makes what it is given."""
    model.fit(prepare(task.x), task.y, **options)
    if not task.classes:
        return lambda x: np.ravel(model.predict(prepare(x)))
    return lambda x: spread(model.predict_proba(prepare(x)), model.classes_, task.classes)


@contender("lightgbm", "lightgbm")
def lightgbm(task):
    import lightgbm

    kind = lightgbm.LGBMClassifier if task.classes else lightgbm.LGBMRegressor
    return learned(kind(n_jobs=task.threads, random_state=task.seed, verbose=-1), task, days)


@contender("catboost", "catboost")
def catboost(task):
    import catboost

    kind = catboost.CatBoostClassifier if task.classes else catboost.CatBoostRegressor
    names = [name for name, column in task.x.items() if is_category(column)]
    model = kind(thread_count=task.threads, random_seed=task.seed, verbose=False,
                 allow_writing_files=False, cat_features=names or None)  # fmt: skip
    return learned(model, task, lambda x: days(x).astype(dict.fromkeys(names, str)))


@contender("xgboost", "xgboost")
def xgboost(task):
    import xgboost

    kind = xgboost.XGBClassifier if task.classes else xgboost.XGBRegressor
    model = kind(n_jobs=task.threads, random_state=task.seed, enable_categorical=True)
    return learned(model, task, days)


MOST_LEVELS = 255  # of a category of HistGB; a column with more is given as whole numbers


def few_levels(x):
    many = [n for n, c in x.items() if is_category(c) and len(c.cat.categories) > MOST_LEVELS]
    return days(x).assign(**{name: x[name].cat.codes.astype(float) for name in many})


def histgb_model(task, **options):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if task.classes else HistGradientBoostingRegressor
    return learned(kind(random_state=task.seed, **options), task, few_levels)


@contender("histgb", "scikit-learn")
def histgb(task):
    return histgb_model(task)


@contender("extra-trees", "scikit-learn")
def extra_trees(task):
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind = ExtraTreesClassifier if task.classes else ExtraTreesRegressor
    encode = OneHot(days(task.x))
    model = kind(n_jobs=task.threads, random_state=task.seed)
    return learned(model, task, lambda x: encode(days(x)))


def xrfm_model(train, held, task, **options):
    """By README of xRFM: numbers standardised, categories one-hot with identities as vectors."""
    import torch
    from xrfm import xRFM

    torch.set_num_threads(task.threads)
    encode = OneHot(days(train.x), standardised=True)
    sizes = [len(levels) for levels in encode.levels.values()]
    ends = np.cumsum([train.x.shape[1] - len(sizes), *sizes])
    categories = {
        "numerical_indices": torch.arange(ends[0]),
        "categorical_indices": [torch.arange(ends[i], ends[i + 1]) for i in range(len(sizes))],
        "categorical_vectors": [torch.eye(size) for size in sizes],
    }
    mean, deviation = (0, 1) if task.classes else (train.y.mean(), train.y.std() or 1.0)

    def target(y):
        y = (y - mean) / deviation
        return torch.tensor(y, dtype=torch.int64 if task.classes else torch.float32)

    model = xRFM(device="cpu", tuning_metric="brier" if task.classes else "mse", verbose=False,
                 random_state=task.seed, n_threads=task.threads,
                 categorical_info=categories if sizes else None, **options)  # fmt: skip
    model.fit(torch.tensor(encode(days(train.x))), target(train.y),
              torch.tensor(encode(days(held.x))), target(held.y))  # fmt: skip

    def predict(x):
        x = torch.tensor(encode(days(x)))
        found = np.asarray(model.predict_proba(x) if task.classes else model.predict(x))
        if not task.classes:
            return found.ravel() * deviation + mean
        return spread(found, range(found.shape[1]), task.classes)

    return predict


@contender("xrfm", "xrfm", "torch")
def xrfm(task):
    return xrfm_model(*task.hold_out(), task)


# ---- Searches -----------------------------------------------------------------------------------


def loss(predict, held):
    """The mean squared error, or the log loss, which a search makes small."""
    from battery.scores import score

    found = score(held.y, predict(held.x), held.classes)
    return found["log_loss"] if held.classes else found["error"]


def search(task, draw, fit):
    """Random search: fit(task, settings) for the default ({}) and for draws until the time is used;
    the best settings and its model.  A draw that fails is left out."""
    rng = np.random.default_rng([29, task.seed])
    train, held = task.hold_out()
    end = time.perf_counter() + task.seconds
    best = None
    while best is None or time.perf_counter() < end:
        settings = draw(rng) if best else {}
        try:
            predict = fit(train, held, settings)
            found = loss(predict, held)
        except (RuntimeError, ValueError):
            if best is None:
                raise
            continue
        if best is None or found < best[0]:
            best = (found, settings, predict)
    return best[1:]


def logarithmic(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


@contender("histgb-tuned", "scikit-learn")
def histgb_tuned(task):
    """The best settings learn all rows once more."""

    def draw(rng):
        return {
            "learning_rate": logarithmic(rng, 0.02, 0.3),
            "max_iter": int(logarithmic(rng, 50, 1000)),
            "max_leaf_nodes": int(logarithmic(rng, 8, 128)),
            "min_samples_leaf": int(logarithmic(rng, 2, 100)),
            "l2_regularization": logarithmic(rng, 1e-3, 10),
            "max_features": rng.uniform(0.3, 1.0),
        }

    settings, _ = search(task, draw, lambda train, held, given: histgb_model(train, **given))
    return histgb_model(task, **settings)


@contender("xrfm-tuned", "xrfm", "torch")
def xrfm_tuned(task):
    """The space is that of TabArena's xRFM, with kernels of the p-norm where they run on a CPU."""

    def draw(rng):
        q = rng.uniform(0.7, 1.4)
        norm = {"kernel": "lpq", "norm_p": q + (2 - q) * rng.uniform(0, 0.8)}
        model = {
            **(norm if rng.random() < 0.8 else {"kernel": "l2"}),
            "exponent": q,
            "bandwidth": logarithmic(rng, 0.5, 200),
            "bandwidth_mode": "constant",
            "diag": bool(rng.random() < 0.5),
        }
        fit = {
            "reg": logarithmic(rng, 1e-6, 10),
            "iters": 5,
            "early_stop_rfm": True,
            "get_agop_best_model": True,
            "return_best_params": True,
            "verbose": False,
        }
        return {"rfm_params": {"model": model, "fit": fit}}

    _, predict = search(
        task, draw, lambda train, held, given: xrfm_model(train, held, task, **given)
    )
    return predict
