#!/usr/bin/env python3
"""run.py - learns the battery's tables with every contender and writes one line for each result

    python bench/battery/run.py FILE.jsonl [--tables NAME...] [--contenders NAME...] [--splits N...]
                                [--rows N] [--seconds S] [--threads N] [--limit S] [--list]
                                [--write FOLDER]

A result that FILE already has is not measured again, so that a run goes on where it was stopped.
Each contender of a table is a process of its own, which keeps its memory and its libraries apart
and is ended where a fit takes longer than --limit.  A contender whose package is not installed is
left out, and named.  bench/battery/report.py makes tables and a picture of the file.
"""

import argparse
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY = ("table", "contender", "split", "rows", "seconds", "threads")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", 1)[0], epilog="\n\n".join(__doc__.split("\n\n")[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--splits", type=int, nargs="+", metavar="N", help="default: 0 1 2 3 4")
    parser.add_argument("--rows", type=int, metavar="N", help="the most rows of a table, of which "
                        "three quarters are learned (default: all)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S",
                        help="of a search (default: 30)")  # fmt: skip
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--limit", type=int, default=900, metavar="S",
                        help="of one fit with its predictions (default: 900)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the made tables (default: 0)")
    parser.add_argument("--library", type=Path, default=HERE.parents[1] / "build" / "libgram.so",
                        help="whose compiler is told")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="the tables, and the contenders")
    parser.add_argument("--write", type=Path, metavar="FOLDER",
                        help="write the tables as CSV files, the target last")  # fmt: skip
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (args.file or args.list or args.write or args.worker):
        parser.error("FILE.jsonl is missing")
    return args


MODULES = {"scikit-learn": "sklearn.ensemble"}  # the others are called as their packages


def chosen(kind, known, wanted):
    unknown = sorted(set(wanted or ()) - set(known))
    if unknown:
        sys.exit(f"run.py: no {kind} {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if wanted is None or name in wanted]


def lacking(packages):
    """The packages that are not installed."""
    found = []
    for package in packages:
        if importlib.util.find_spec(MODULES.get(package, package).partition(".")[0]) is None:
            found.append(package)
    return found


def warm(packages):
    """Imports what a contender needs, which is no part of a fit."""
    for package in packages:
        importlib.import_module(MODULES.get(package, package))


# ---- One contender of a table, in a process of its own ------------------------------------------


def worker(args):
    """Prints a result for each split, as soon as it is there."""
    from battery import contenders, tables

    (name,), (who,) = args.tables, args.contenders
    packages, fit = contenders.CONTENDERS[who]
    table = tables.make(name, args.seed)
    warm(packages)
    for split in args.splits:
        # The default action ends the process even where it is inside of a library.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(args.limit)
        train, test = table.split(split, args.rows)
        task = contenders.Task(table.x.iloc[train].reset_index(drop=True), table.y[train],
                               table.classes, args.threads, args.seconds, split)  # fmt: skip
        try:
            found = measured(fit, task, table, test)
        except Exception as error:  # noqa: BLE001 - a contender that cannot is told, not followed
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        signal.alarm(0)
        sizes = {"learned": len(train), "tested": len(test), "columns": table.x.shape[1]}
        print(json.dumps({"split": split, **sizes, "classes": table.classes, **found}), flush=True)


def measured(fit, task, table, test):
    """Scores and times; processor is the time of all threads of the process."""
    from battery.scores import score

    x = table.x.iloc[test].reset_index(drop=True)
    start, busy = time.perf_counter(), time.process_time()
    predict = fit(task)
    learned, processor = time.perf_counter(), time.process_time() - busy
    predicted = predict(x)
    end = time.perf_counter()
    found = score(table.y[test], predicted, table.classes)
    times = {"fit": learned - start, "processor": processor, "predict": end - learned}
    return {k: float(f"{v:.6g}") for k, v in (found | times).items()}


# ---- All of them --------------------------------------------------------------------------------


class Results:
    """The file: its lines so far, and the end to which lines are added."""

    def __init__(self, path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text and not text.endswith("\n"):  # a run was stopped while it wrote
            text = text[: text.rfind("\n") + 1]
            path.write_text(text, encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        self.done = {tuple(line[k] for k in KEY) for line in lines if "table" in line}

    def add(self, line):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def ask(args, table, who, splits):
    """Yields the results of a process; where it ends too early the last one says so."""
    command = [sys.executable, str(HERE / "run.py"), "--worker", "--tables", table, "--contenders",
               who, "--splits", *map(str, splits), "--seconds", str(args.seconds), "--threads",
               str(args.threads), "--limit", str(args.limit), "--seed", str(args.seed)]  # fmt: skip
    command += ["--rows", str(args.rows)] if args.rows else []
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
    environment = os.environ | {name: str(args.threads) for name in names}
    left = list(splits)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment) as process:  # fmt: skip
        for line in process.stdout:
            if line.startswith("{"):  # some packages print on standard output
                found = json.loads(line)
                left.remove(found["split"])
                yield found
        said = process.stderr.read().strip().splitlines()[-1:]
    if left:
        late = process.returncode == -signal.SIGALRM
        why = f"more than {args.limit} s" if late else f"status {process.returncode} {said}"
        yield from ({"split": split, "failed": why} for split in left)


def run(args, names, whos):
    from battery import contenders, tables
    from core.machine import describe
    from core.place import Place

    results = Results(args.file)
    absent = {who: missing for who in whos if (missing := lacking(contenders.CONTENDERS[who][0]))}
    for who, missing in absent.items():
        print(f"{who} is left out: no {', '.join(missing)}", file=sys.stderr)
    packages = ("numpy", "scikit-learn", "pandas", "lightgbm", "catboost", "xgboost", "xgboost-cpu",
                "xrfm", "torch")  # fmt: skip
    about = describe(Place("cpu", args.threads), args.library, packages)
    told = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": about}
    splits = range(tables.SPLITS) if args.splits is None else args.splits
    for name in names:
        for who in whos:
            # A search says what it was given; for the others its seconds do not count.
            seconds = args.seconds if who in contenders.SEARCHES else None
            key = {"table": name, "contender": who, "rows": args.rows, "seconds": seconds,
                   "threads": args.threads}  # fmt: skip
            left = [s for s in splits
                    if tuple((key | {"split": s})[k] for k in KEY) not in results.done]  # fmt: skip
            if who in absent or not left:
                continue
            if told:  # once, above the first result of this run
                results.add(told)
                told = None
            for found in ask(args, name, who, left):
                results.add(key | found)
                error = found.get("failed") or f"{found['error']:.4f} in {found['fit']:.2f} s"
                print(f"{name} {who} {found['split']}: {error}", flush=True)


def show(names, whos, seed):
    from battery import contenders, tables

    for name in names:
        table = tables.make(name, seed)
        kind = f"{table.classes} classes" if table.classes else "a regression"
        print(f"{name:14} {len(table.y):8} rows {table.x.shape[1]:5} columns, {kind}: "
              f"{tables.TABLES[name][0]}")  # fmt: skip
    for who in whos:
        missing = lacking(contenders.CONTENDERS[who][0])
        print(who + (f" (not installed: {', '.join(missing)})" if missing else ""))


def write(names, folder, seed):
    from battery import tables

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        table = tables.make(name, seed)
        y = [f"class{c}" for c in table.y] if table.classes else table.y
        table.x.assign(target=y).to_csv(folder / f"{name}.csv", index=False)


def main():
    args = parse()
    sys.path[0] = str(HERE.parent)
    from battery import contenders, tables

    names = chosen("table", tables.TABLES, args.tables)
    whos = chosen("contender", contenders.CONTENDERS, args.contenders)
    wrong = [s for s in args.splits or () if not 0 <= s < tables.SPLITS]
    if wrong:
        sys.exit(f"run.py: no split {wrong[0]}; there are 0 to {tables.SPLITS - 1}")
    if args.worker:
        worker(args)
    elif args.list:
        show(names, whos, args.seed)
    elif args.write:
        write(names, args.write, args.seed)
    else:
        run(args, names, whos)


if __name__ == "__main__":
    main()
