"""tables/machine.py - kernel machines: the command on tables, and estimators, beside other packages

A call fits and predicts; its time is what a user waits for, files included where there are any.
The last column has the accuracy, or the root of the mean squared error, on rows kept apart.
"""

import csv
import json
import subprocess
import tempfile
import types
from pathlib import Path

import numpy as np
from core.place import relative
from core.tables import Call, Operation, Problem, Row, both

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"


def read(name):
    with open(DATA / name, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def command(program, *arguments):
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True,
                          check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def score(predicted, truth):
    predicted = np.ravel(predicted)
    if truth.dtype.kind in "OU":
        return {"accuracy": float(np.mean(predicted == truth))}
    if truth.dtype.kind == "i":
        return {"accuracy": float(np.mean(predicted.astype(int) == truth))}
    return {"rmse": float(np.sqrt(np.mean((predicted - truth) ** 2)))}


# ---- gram fit on the tables of examples/data ----------------------------------------------------


class FitTable(Operation):
    """80 % of the rows are learned, the others predicted, split as scikit-learn does (seed 0)."""

    name, limits = "fit_table", {}

    def make(self, place, table, target, options=(), number=False, most=None):
        from sklearn.model_selection import train_test_split

        header, rows = read(table)
        train, test = train_test_split(rows[:most], test_size=0.2, random_state=0)
        q = Problem(header=header, train=train, test=test)
        q.encoded, q.scored = (types.MethodType(f, q) for f in (encoded, scored))
        return q

    def tiny(self, parameters):
        limit = ["--time-limit", 1] if "--auto" in parameters["options"] else []
        return {**parameters, "most": 300, "options": [*parameters["options"], *limit]}

    def ours(self, q):
        program = q.place.build / "gram"
        common = ["--threads", q.place.threads, "--device", q.place.device]

        def run():
            with tempfile.TemporaryDirectory() as folder:
                train, test, model, out = (Path(folder) / n for n in (
                    "train.csv", "test.csv", "model.gram", "out.csv"))  # fmt: skip
                write(train, q.header, q.train)
                write(test, q.header, q.test)
                command(program, "fit", train, "--target", q.target, "-o", model, "--seed", 0,
                        *common, *q.options)  # fmt: skip
                command(program, "predict", model, test, "-o", out, *common)
                return json.loads(command(program, "score", model, test, "--json", *common))

        return Call(run, tell=lambda got: {got["metric"]: got["score"]})


def encoded(q):
    """Numbers as they are, categories as ordinal numbers: x, y, x of the test rows, their y."""
    at = q.header.index(q.target)
    columns = [i for i in range(len(q.header)) if i != at]
    rows = q.train + q.test
    x = np.empty((len(rows), len(columns)))
    for k, i in enumerate(columns):
        values = [row[i] for row in rows]
        try:
            x[:, k] = [float(v) for v in values]
        except ValueError:
            names = sorted(set(values))
            x[:, k] = [names.index(v) for v in values]
    y = np.array([row[at] for row in rows])
    y, n = y.astype(float) if q.number else y, len(q.train)
    return x[:n], y[:n], x[n:], y[n:]


def scored(q, predicted):
    return score(predicted, q.encoded()[3])


# ---- A recursive feature machine on a GPU, beside xRFM ------------------------------------------

P, Q, RIDGE, ROUNDS = 1.3, 1.0, 1e-3, 5
TEST_ROWS, MOST_HELD = 10000, 8000  # predicted; held out to choose the round by


def synthetic(rows, columns=100):
    """A function of five directions out of so many, and noise of a tenth of its deviation."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    directions = np.linalg.qr(rng.standard_normal((columns, 5)))[0]
    z = x @ directions.astype(np.float32)
    y = z[:, 0] * z[:, 1] + np.sin(2 * z[:, 2]) + np.abs(z[:, 3]) + 0.5 * z[:, 4]
    return x, y + 0.1 * y.std() * rng.standard_normal(rows).astype(np.float32)


def letters():
    """Features and classes 0 to 25."""
    header, rows = read("letters.csv")
    at = header.index("letter")
    y = np.array([ord(row[at]) - ord("A") for row in rows])
    return np.array([row[:at] + row[at + 1 :] for row in rows], np.float32), y


class FeatureMachine(Operation):
    """`gram fit` of the L_pq Laplace kernel, p = 1.3, with full metrics; xRFM learns the same.

    Both have the same ridge, rounds, and share of the rows to choose the round by.  libgram's time
    is that of whole processes; "fit" is what fitting alone took of it.
    """

    name, limits = "feature_machine", {}

    def make(self, place, rows, classes=0, solvers=("auto",)):
        test = min(TEST_ROWS, rows)
        held = min(rows // 4, MOST_HELD)
        if classes:
            x, y = letters()
            order = np.random.default_rng(0).permutation(len(y))
            x, y, held = x[order], y[order], rows // 5
            known = rows
        else:
            x, y = synthetic(rows + held + test)
            known = rows + held
        mean, deviation = x[:known].mean(axis=0), x[:known].std(axis=0)
        x = (x - mean) / deviation
        end = known + test if not classes else len(x)
        return Problem(x=x[:known], y=y[:known], x_test=x[known:end], y_test=y[known:end],
                       held=held, medians=1.0 if classes else 4.0, p=P, q=Q, ridge=RIDGE,
                       rounds=ROUNDS, score=score)  # fmt: skip

    def tiny(self, parameters):
        return {**parameters, "rows": 200}

    def ours(self, q):
        return {s: Call(lambda s=s: self.run(q, s), tell=lambda got: got) for s in q.solvers}

    @staticmethod
    def run(q, solver):
        program = q.place.build / "gram"
        columns = q.x.shape[1]
        options = ["-p", q.p, "-q", q.q, "-r", q.ridge, "-i", q.rounds, "--metric", "full",
                   "--metric-power", 0.5, "--target", columns, "--device", q.place.device,
                   "--task", "classification" if q.classes else "regression"]  # fmt: skip
        options += ["--solver", solver] if solver != "auto" else []
        with tempfile.TemporaryDirectory() as folder:
            train, test, model, out = (Path(folder) / n for n in (
                "train.npy", "test.npy", "model.gram", "out.npy"))  # fmt: skip
            np.save(train, np.column_stack([q.x, q.y]).astype(np.float32))
            np.save(test, q.x_test.astype(np.float32))
            about = json.loads(command(program, "fit", train, "-o", model, "--json", *options))
            command(program, "predict", model, test, "-o", out, "--device", q.place.device)
            found = q.score(np.load(out), q.y_test)
        return {**found, "fit s": about["stages"]["fit"],
                "solver": about["machine"].get("solver")}  # fmt: skip


class LettersClassifier(Operation):
    """RFMClassifier on letters; xRFM gets a quarter more rows to choose by, we hold rows out."""

    name, covers, limits = "letters_classifier", ("sklearn.RFMClassifier",), {}

    def make(self, place, rows, iterations=(0, 1, 3)):
        x, y = letters()
        order = np.random.default_rng(0).permutation(len(y))
        x, y, known = x[order], y[order], rows + rows // 4
        scaled = (x - x[:rows].mean(0)) / np.maximum(x[:rows].std(0), 1e-6)
        new = slice(16000, 16000 + min(4000, max(rows, 100)))
        return Problem(x=x, y=y, scaled=scaled, known=known, new=new, score=score)

    def tiny(self, parameters):
        return {**parameters, "rows": 200, "iterations": (1,)}

    def ours(self, q):
        return {f"iterations={i}": self.call(q, i) for i in q.iterations}

    @staticmethod
    def call(q, iterations):
        from gram.sklearn import RFMClassifier

        m = RFMClassifier(iterations=iterations, device=q.place.device, random_state=0)

        def run():
            return m.fit(q.x[: q.known], q.y[: q.known]).predict(q.x[q.new])

        return Call(run, tell=lambda got: q.score(got, q.y[q.new]))


# ---- Estimators ---------------------------------------------------------------------------------


class Ridge(Operation):
    name, covers = "ridge", ("sklearn.KernelRidge",)

    def make(self, place, n, k, bandwidth=4.0, alpha=0.1):
        x = np.random.default_rng(0).standard_normal((n, k)).astype(np.float32)
        return Problem(x=x, y=np.sin(x[:, 0]) + x[:, 1])

    def ours(self, q):
        from gram.sklearn import KernelRidge

        model = KernelRidge(kernel="gaussian", bandwidth=q.bandwidth, alpha=q.alpha)
        return lambda: model.fit(q.x, q.y).predict(q.x)

    def error(self, q, got):
        x = q.x.astype(np.float64)
        squares = (x * x).sum(1)
        k = np.exp(-(squares[:, None] + squares - 2 * x @ x.T) / (2 * q.bandwidth**2))
        return relative(got, k @ np.linalg.solve(k + q.alpha * np.eye(q.n), q.y))


class Estimator(Operation):
    """Fit alone, of an estimator that no other package has."""

    def __init__(self, name, fit):
        self.name, self.covers, self.fit = name, (f"sklearn.{name}",), fit

    def make(self, place, n, k):
        x = np.random.default_rng(0).standard_normal((n, k)).astype(np.float32)
        return Problem(x=x, y=np.sin(x[:, 0]) + x[:, 1])

    def tiny(self, parameters):
        return {"n": 60, "k": 3}

    def ours(self, q):
        import gram.sklearn

        return self.fit(getattr(gram.sklearn, self.name), q)


def transform(kind, q):
    return lambda: kind(kernel="gaussian", bandwidth=10.0).fit_transform(q.x)


def regress(kind, q):
    model = kind(iterations=1, device=q.place.device, random_state=0)
    return lambda: model.fit(q.x, q.y)


TABLE, FEATURES, LETTERS = FitTable(), FeatureMachine(), LettersClassifier()


def rows():
    plain = {"table": "letters.csv", "target": "letter", "options": []}
    yield both("gram fit letters", TABLE, **plain)
    yield both("gram fit letters, recursive features", TABLE,
               **{**plain, "options": ["--iterations", 2, "--metric", "full"]})  # fmt: skip
    yield Row("gram fit diamonds, searching", TABLE, {
        "table": "diamonds.csv", "target": "price", "number": True,
        "options": ["--auto", "--time-limit", 500]})  # fmt: skip
    for n in (5000, 50000):
        yield Row(f"feature machine, {n} x 100", FEATURES, None, {"rows": n})
    yield Row("feature machine, letters", FEATURES, None, {"rows": 16000, "classes": 26})
    for n in (3000, 12800):
        yield both(f"RFMClassifier, {n} letters and a quarter", LETTERS, rows=n)
    yield Row("KernelRidge, fit and predict, 2000 rows", Ridge(), {"n": 2000, "k": 16})
    yield Row("KernelTransformer, 4000 rows", Estimator("KernelTransformer", transform),
              {"n": 4000, "k": 64})  # fmt: skip
    yield both("RFMRegressor, fit, 2000 rows", Estimator("RFMRegressor", regress), n=2000, k=16)


SUBJECTS = {"machine": list(rows())}
