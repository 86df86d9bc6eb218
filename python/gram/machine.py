"""Kernel machines that learn which features matter, as `gram fit` trains them."""

import json
import os
import tempfile

from gram import _core, _tables

__all__ = ["Machine"]


class Machine:
    """A trained kernel machine: exp(-||W (x - z)||_p^q / L^q) with a learned W.

    Machine.fit or Machine.load creates it.  It is immutable, can be pickled, and may be used by
    several threads.  A table is an array of rows by features (named x0, x1, ...), a dict of
    columns, or a data frame of pandas, polars or Arrow.  Its columns hold numbers (nan: missing),
    or texts, categories or truth values (None: missing).  Texts that are all dates become days, and
    sines and cosines of the place in the year, the week and the day.  The model file is the same as
    that of the command `gram`.

    Attributes: target (its name, or that of the first), targets (all names), is_classification,
    classes (None for a regression), features (names), importances (by name; they sum to 1),
    description (hyperparameters, scores and times in seconds), trials (a dict for every setting
    that the fit has compared, the best first: rank, level, rows, score by leave-one-out, of which
    less is better, spread, hyperparameters; seconds too, unless the machine was loaded).

    Methods take tables of n rows and return arrays (n,) or (n, classes) of float64; with several
    targets, predictions are (n, targets), and intervals (n, targets, 2).  Raises ValueError for
    values that are not possible, and TypeError for arguments that are not tables.
    After Radhakrishnan et al., Science 383 (2024), and Beaglehole et al., xRFM, arXiv:2508.10053.

    >>> import gram, numpy as np
    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> machine = gram.Machine.fit(x, x[:, 0] ** 2, iterations=2, seed=1)
    >>> max(machine.importances, key=machine.importances.get)
    'x0'
    >>> machine.predict(x[:5]).shape
    (5,)
    >>> machine.score(x, x[:, 0] ** 2)["r2"] > 0.9
    True
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model")
    ...     machine.save(path)
    ...     again = gram.Machine.load(path)
    >>> bool((again.predict(x) == machine.predict(x)).all())
    True
    """

    def __init__(self, core):
        if not isinstance(core, _core.Machine):
            raise TypeError("gram.Machine is made by gram.Machine.fit or gram.Machine.load")
        self._core = core
        self._read()

    def _read(self):
        targets, is_classification, classes, numbers, text = self._core.facts()
        features = self._core.features()
        self.target = targets[0]
        self.targets = targets
        self.is_classification = is_classification
        self.classes = [float(c) if numbers else c for c in classes] if is_classification else None
        self.features = [name for name, _, _ in features]
        self.importances = {name: importance for name, _, importance in features}
        self.description = json.loads(text)
        self.trials = self.description.get("search", [])

    @classmethod
    def fit(
        cls, table, target, *, weights=None, device="cpu", progress=None, communicator=None,
        **options,
    ):  # fmt: skip
        """Trains a kernel ridge regression or a recursive feature machine.

        target is a column, or the name of a column of the table.  It holds numbers for a
        regression, and texts, categories or truth values for a classification
        (task="classification" for numbers).  A matrix (n, targets), a dict or a data frame of
        columns, or a tuple of names, are several targets, all regressions, which share the kernel,
        the metric and the regularization; a row that lacks one of them is left out.  weights are
        those of the rows, and are above 0.  progress(fraction, stage) is called from time to time;
        an exception that it raises ends the fit, as does Ctrl-C.

        What is not given is chosen by leave-one-out; description["leave_one_out"] has its score,
        and description["ensemble"] the machines and their weights if there are several.
        search=1 goes on with that until time_limit, and search=-1 takes fixed defaults instead.

        Options, as in gram/machine.h: task, search, p, q, bandwidth, regularization, iterations
        (rounds of feature learning; -1: none), metric ("diagonal", "full", "ard"), metric_power,
        target_transform ("none", "log", "sqrt"), solver ("cholesky", "cg"), tolerance, validation,
        leaf_rows, memory_limit, time_limit, seed, dtype ("float32", "float64"), max_categories,
        metric_rows, ensemble (the most machines whose weighted mean is the model; 1: one), centres
        (of the machine that learns from all rows of a large table; -1: none), category_statistics
        ("none": no means of the target by the levels of a category), trees (of leaves, whose mean
        predicts), temperature (of soft routing to leaves; -1: none), loss (of two classes:
        "squared", "logistic").

        Several may train the leaves of a large table: GPUs of this process, whose names are then a
        list for device, and the ranks of a communicator (gram.Communicator), each of which calls
        with the whole table.  The first rank gets the machine, and the others None.  The device is
        that of the communicator.

        Raises ValueError for values that are not possible, and TypeError for an argument that is no
        table and for an unknown option.
        """
        if weights is not None:
            weights = _tables.column("weights", weights)
        columns, target = _tables.split("fit", table, target)
        made = _core.machine_fit(columns, target, weights, device, progress, communicator, options)
        return None if made is None else cls(made)

    @classmethod
    def load(cls, path):
        """Reads a model file.  Raises OSError, and ValueError for a file that is not a model."""
        return cls(_core.machine_load(path))

    def save(self, path):
        """Writes the model file, completely or not at all.  Raises OSError."""
        self._core.save(path)

    def predict(self, table, *, device="cpu"):
        """One number per row (float64), or one for each of several targets; for a classification,
        one class per row.

        >>> import gram, numpy as np
        >>> x = np.random.default_rng(0).standard_normal((100, 2))
        >>> both = gram.Machine.fit(x, {"sum": x.sum(1), "product": x.prod(1)}, iterations=-1)
        >>> both.predict(x[:5]).shape, both.targets
        ((5, 2), ['sum', 'product'])
        """
        import numpy

        columns = _tables.columns(table)
        out = numpy.empty((_tables.rows(columns), *self._several()))
        self._core.predict(columns, out, device)
        if not self.is_classification:
            return out
        return numpy.asarray(self.classes)[out.astype(int)]

    def predict_proba(self, table, *, device="cpu"):
        """Probabilities, rows by classes; they sum to 1.  Raises ValueError for a regression.

        >>> import gram, numpy as np
        >>> x = np.arange(40.0)[:, None]
        >>> machine = gram.Machine.fit(x, ["low"] * 20 + ["high"] * 20, iterations=0, seed=1)
        >>> machine.predict_proba(x[:3]).shape
        (3, 2)
        """
        import numpy

        columns = _tables.columns(table)
        out = numpy.empty((_tables.rows(columns), len(self.classes or ())))
        self._core.predict_proba(columns, out, device)
        return out

    def predict_interval(self, table, level=0.9, *, device="cpu"):
        """Lower and upper ends of intervals (n, 2), or (n, targets, 2), that hold the target of a
        new row with a probability of at least level, on average over rows, if the rows are
        exchangeable with those of training.  They come from the errors of rows that were left out,
        and have one width (a factor, where target_transform is "log").  Raises ValueError for a
        classification and for a level that is too high for the number of training rows n (at most
        n / (n + 1)), and NotImplementedError for a machine of a file that has no such errors, which
        gram 0.1 wrote.

        >>> import gram, numpy as np
        >>> x = np.random.default_rng(0).standard_normal((100, 1))
        >>> machine = gram.Machine.fit(x, x[:, 0] ** 2, iterations=-1, seed=1)
        >>> lower, upper = machine.predict_interval(x[:3], 0.8).T
        >>> bool((lower < machine.predict(x[:3])).all() and (machine.predict(x[:3]) < upper).all())
        True
        """
        import numpy

        columns = _tables.columns(table)
        out = numpy.empty((_tables.rows(columns), 2 * len(self.targets)))
        self._core.predict_interval(columns, out, device, level)
        return out.reshape(len(out), *self._several(), 2)

    def predict_set(self, table, level=0.9, *, device="cpu"):
        """Places of classes in sets (n, classes), int32, that hold a new row's class with a
        probability of at least level, on average over rows, if the rows are exchangeable with those
        of training.  Element [i, k] is the place of classes[k] by its probability in row i, from 1,
        or 0 if the set does not have it.  The class that is predicted is in every set.  Raises as
        predict_interval does, and ValueError for a regression.

        >>> import gram, numpy as np
        >>> x = np.arange(40.0)[:, None]
        >>> machine = gram.Machine.fit(x, ["low"] * 20 + ["high"] * 20, iterations=-1, seed=1)
        >>> places = machine.predict_set(x[:1])
        >>> [machine.classes[k] for k in np.flatnonzero(places[0])]
        ['low']
        """
        import numpy

        columns = _tables.columns(table)
        out = numpy.empty((_tables.rows(columns), len(self.classes or ())), numpy.int32)
        self._core.predict_set(columns, out, device, level)
        return out

    def score(self, table, target, *, device="cpu"):
        """Compares predictions with target, which is a column or the name of one.  Returns a dict
        of metric, score and rows; also mae and r2 for a regression, and log_loss for a
        classification.  With several targets, which come as in fit, score, mae and r2 are means,
        and targets has such a dict by the name of each.
        """
        columns, targets = _tables.split("score", table, target)
        if len(targets) != len(self.targets):
            raise ValueError(
                f"gram.Machine.score: there are {len(targets)} targets, but the machine has "
                f"{len(self.targets)}"
            )
        theirs = ("mae", "r2") if self.is_classification else ("log_loss",)
        by_name = {}
        for name, values in targets:
            found = self._core.evaluate(columns, (name, values), device)
            by_name[name] = {key: value for key, value in found.items() if key not in theirs}
        if len(targets) == 1:
            return by_name[targets[0][0]]
        means = {key: sum(of[key] for of in by_name.values()) / len(by_name)
                 for key in ("score", "mae", "r2")}  # fmt: skip
        rows = min(of["rows"] for of in by_name.values())
        return {"metric": "rmse", "rows": rows, **means, "targets": by_name}

    def _several(self):
        """The dimension of the targets where there are several."""
        return () if len(self.targets) == 1 else (len(self.targets),)

    def permutation_importance(self, table, target, *, repeats=5, seed=0, device="cpu"):
        """How much the error grows when one column is shuffled: a dict from features to arrays of
        `repeats` increases, one per random order of the rows.

        The error is the root mean squared error of a regression and the log loss of a
        classification.  target is a column, or the name of one, and of a machine of several targets
        its name tells which one, as in {"name": values}; rows without a target do not count.
        Rows that the machine has not learned from tell what it would lose without the column.
        importances, in contrast, has shares of the squared gradient of the predictions.

        >>> import gram, numpy as np
        >>> x = np.random.default_rng(0).standard_normal((200, 2))
        >>> machine = gram.Machine.fit(x[:100], x[:100, 0], iterations=0)
        >>> found = machine.permutation_importance(x[100:], x[100:, 0], repeats=3)
        >>> first, second = found.values()
        >>> first.shape, bool(first.mean() > second.mean())
        ((3,), True)

        Raises ValueError for repeats below 1.
        """
        import numpy

        if repeats < 1:
            raise ValueError(
                f"gram.Machine.permutation_importance: repeats is {repeats}, expected at least 1"
            )
        out = numpy.empty((len(self.features), repeats))
        columns, targets = _tables.split("permutation_importance", table, target)
        if len(targets) != 1:
            raise ValueError(
                f"gram.Machine.permutation_importance: there are {len(targets)} targets, expected 1"
            )
        self._core.permutation(columns, targets[0], device, out, seed)
        return dict(zip(self.features, out, strict=True))

    def __getstate__(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    def __setstate__(self, state):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            with open(path, "wb") as file:
                file.write(state)
            self._core = _core.machine_load(path)
        self._read()

    def __repr__(self):
        kind = "classification" if self.is_classification else "regression"
        target = ", ".join(self.targets)
        return f"<gram.Machine: {kind} of {target} from {len(self.features)} features>"
