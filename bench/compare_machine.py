"""compare_machine.py - `gram fit` and `gram predict` on the two real tables, scores and seconds

80 % of the rows are learned, the others predicted: scikit-learn's train_test_split with
random_state=0, the split of the published baselines.  With --slow scikit-learn's support vector
machine and gradient boosting run on the same rows.
"""

import csv
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def split(name, folder):
    from sklearn.model_selection import train_test_split

    header, rows = read(folder / name)
    train, test = train_test_split(rows, test_size=0.2, random_state=0)
    return header, train, test


def split_letters(folder):
    return split("letters.csv", folder)


def split_diamonds(folder):
    return split("diamonds.csv", folder)


def gram(program, *arguments):
    return subprocess.run(
        [str(program), *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout


def run_gram(program, threads, target, split, options, folder):
    """Fits, predicts and scores; seconds as a user waits for them, files included."""
    header, train, test = split
    train_file, test_file, model = folder / "train.csv", folder / "test.csv", folder / "model.gram"
    write(train_file, header, train)
    write(test_file, header, test)
    common = ["--threads", threads]
    start = time.perf_counter()
    fit = gram(
        program,
        "fit",
        train_file,
        "--target",
        target,
        "-o",
        model,
        "--seed",
        0,
        "--json",
        *common,
        *options,
    )
    fitted = time.perf_counter()
    gram(program, "predict", model, test_file, "-o", folder / "predictions.csv", *common)
    predicted = time.perf_counter()
    score = json.loads(gram(program, "score", model, test_file, "--json", *common))
    return {
        "options": " ".join(map(str, options)),
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "seconds": predicted - start,
        "metric": score["metric"],
        "score": score["score"],
        "fit": json.loads(fit).get("hyperparameters"),
    }


def encode(header, train, test, target):
    """Numbers as they are, categories as ordinal numbers: what gradient boosting takes."""
    at = header.index(target)
    columns = [i for i in range(len(header)) if i != at]
    x = np.empty((len(train) + len(test), len(columns)))
    for k, i in enumerate(columns):
        values = [row[i] for row in train + test]
        try:
            x[:, k] = [float(v) for v in values]
        except ValueError:
            names = sorted(set(values))
            x[:, k] = [names.index(v) for v in values]
    y = np.array([row[at] for row in train + test])
    n = len(train)
    return x[:n], y[:n], x[n:], y[n:]


def run_sklearn(model, split, target, number):
    x, y, x_test, y_test = encode(*split, target)
    start = time.perf_counter()
    model.fit(x, y.astype(float) if number else y)
    predicted = model.predict(x_test)
    seconds = time.perf_counter() - start
    if number:
        score = float(np.sqrt(np.mean((predicted - y_test.astype(float)) ** 2)))
    else:
        score = float(np.mean(predicted == y_test))
    return {"seconds": seconds, "metric": "rmse" if number else "accuracy", "score": score}


def peers_of_letters():
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return {
        "support vector machine": make_pipeline(StandardScaler(), SVC(C=10)),
        "gradient boosting": HistGradientBoostingClassifier(max_iter=500, random_state=0),
    }


def peers_of_diamonds():
    from sklearn.ensemble import HistGradientBoostingRegressor

    return {"gradient boosting": HistGradientBoostingRegressor(max_iter=500, random_state=0)}


# key, title, split, target, options of gram fit, peers; targets: member, direction, bound
ROWS = [
    (
        "machine-letters-plain",
        "letters, gram fit with fixed hyperparameters",
        split_letters,
        "letter",
        [],
        peers_of_letters,
        [("score", ">=", 0.979), ("seconds", "<=", 10.0)],
    ),
    (
        "machine-letters-rfm",
        "letters, recursive feature machine",
        split_letters,
        "letter",
        ["--iterations", 2, "--metric", "full"],
        None,
        [("score", ">=", 0.98)],
    ),
    (
        "machine-diamonds-auto",
        "diamonds, gram fit --auto",
        split_diamonds,
        "price",
        ["--auto", "--time-limit", 500],
        peers_of_diamonds,
        [("score", "<=", 548.0), ("seconds", "<=", 600.0)],
    ),
]


def measure(row, args, program):
    key, title, split_of, target, options, peers, targets = row
    data = Path(__file__).resolve().parent.parent / "examples" / "data"
    split = split_of(data)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.only != "peers":
            results["gram"] = run_gram(program, args.threads, target, split, options, Path(folder))
    if peers and args.slow and args.only != "gram":
        for name, model in peers().items():
            results[name] = run_sklearn(model, split, target, target == "price")
    verdicts = []
    for member, direction, bound in targets if "gram" in results else []:
        value = results["gram"][member]
        met = value >= bound if direction == ">=" else value <= bound
        verdicts.append(
            {"what": f"{member} {direction} {bound:g}", "value": value, "target": bound, "met": met}
        )
    print(f"{key:16s} {title}")
    for name, r in results.items():
        print(f"    {name:22s} {r['metric']} {r['score']:.5g}, {r['seconds']:.2f} s")
    for v in verdicts:
        print(f"    {v['what']}: {v['value']:.5g}: {'met' if v['met'] else 'missed'}")
    return {"key": key, "title": title, "results": results, "targets": verdicts}
