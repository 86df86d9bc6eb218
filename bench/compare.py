#!/usr/bin/env python3
"""compare.py - libgram beside other packages, in one run

    python bench/compare.py SUBJECT... [--device cpu|cuda] [--rows REGEX] [--peers NAME...]
                            [--threads N...] [--out FILE] [--list]

A subject is a list of rows, such as cdist, solve, kron or optimizers; "all" is every one.  bench/
tables/ says what is measured, bench/peers/ how other packages do the same, bench/README.md which
command measures what.  Needs the Python package (PYTHONPATH=build/python); a peer that is not
installed is left out, and named.

--rows REGEX      only rows whose title matches
--peers NAME...   only these of bench/peers/; "none": libgram alone
--threads N...    of libgram and of the peers; of several numbers libgram is timed with each, and
                  the peers with the first
--set NAME=VALUE  another value of a parameter in all rows that have it (n=2000, dtype=float64)
--rounds N        samples of each contender
--limit S         seconds that a call may take: where rows can be left out a slower peer gets a part
                  of them, else it is timed once
--apart           every contender in processes of its own; on the CPU with the memory it takes
--tiny            problems of a few numbers, to see that everything runs
--out FILE        the table in Markdown, or all numbers where FILE ends in .json
--list            the rows and their parameters; with no subject, the subjects
--coverage        what of the Python package no row measures; fails if there is such a function
"""

import argparse
import ast
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def setting(text):
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", 1)[0], epilog="\n\n".join(__doc__.split("\n\n")[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rows", default="", metavar="REGEX")
    parser.add_argument("--peers", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+", default=[os.cpu_count()], metavar="N")
    parser.add_argument("--set", type=setting, nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=2.0, metavar="S")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--library", type=Path, default=HERE.parent / "build" / "libgram.so",
                        help="whose compiler is told, with programs beside it")  # fmt: skip
    parser.add_argument("--out", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    return parser.parse_args()


class Run:
    """The arguments, the place and the peers."""

    def __init__(self, args):
        from core.place import Place
        from core.tables import load_peer, peer_names

        self.args = args
        self.place = Place(args.device, args.threads[0], args.tiny)
        self.place.build = args.library.parent
        self.peers, self.absent = {}, {}
        names = peer_names() if args.peers is None else [p for p in args.peers if p != "none"]
        for name in names:
            module, reason = load_peer(name)
            if module is None:
                self.absent[name] = reason
            elif args.device in module.DEVICES:
                self.peers[name] = module
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(args.threads[0])
        self.packages = sorted({p for m in self.peers.values() for p in m.PACKAGES} | {"numpy"})

    def rows(self, subjects):
        """The rows that are wanted, with their parameters."""
        for subject in subjects:
            for row in self.table[subject]:
                given = row.parameters(self.args.device, self.args.tiny, self.args.set)
                if given is not None and re.search(self.args.rows, row.title):
                    yield subject, row, given

    def ours(self, q):
        """libgram's calls, with each number of threads."""
        import gram
        from core.tables import calls_of

        made = calls_of("gram", q.operation.ours(q))
        if len(self.args.threads) == 1 or not q.place.on_cpu:
            return made
        found = {}
        for n in self.args.threads:
            for name, call in calls_of("gram", q.operation.ours(q)).items():
                call.prepare = self.before(n, call.prepare)
                found[f"{name}, {n} threads"] = call
        return found

    @staticmethod
    def before(threads, prepare):
        import gram

        def run():
            gram.set_threads(threads)
            if prepare:
                prepare()

        return run

    def contenders(self, q):
        from core.tables import peer_calls
        from core.timing import fitted

        found = self.ours(q)
        for module in self.peers.values():
            try:
                found |= fitted(lambda p, m=module: peer_calls(m, p), q, self.args.limit)
            except Exception as error:  # noqa: BLE001 - a peer that cannot is told, not followed
                print(f"{module.NAME}: {type(error).__name__}: {error}", file=sys.stderr)
        return found

    def row(self, subject, row, given):
        """The results of a row, or None where libgram does not offer it here."""
        from core import apart
        from core.place import NotOffered
        from core.tables import problem
        from core.timing import measure

        args = self.args
        try:
            q = problem(row.operation, self.place, given)
            calls = self.contenders(q)
        except (NotOffered, ImportError, NotImplementedError) as reason:
            print(f"{row.title}: left out: {reason}", file=sys.stderr)
            return None
        if args.contender:
            return apart.child(args.contender, calls[args.contender], q, 1, args.limit)
        if row.apart or args.apart:
            calls = apart.calls(calls, self.again(subject, row))
        results = measure(calls, q, args.rounds, args.limit)
        found = {name: result.numbers() for name, result in results.items()}
        other = ", ".join(f"{k}={v}" for k, v in args.set if k in given)
        work = f"{row.title} [{other}]" if other else row.title
        return {"subject": subject, "work": work, "parameters": given,
                "amount": q.operation.work(q), "contenders": found}  # fmt: skip

    def again(self, subject, row):
        """The arguments by which a process measures one contender of a row."""
        args = self.args
        given = [subject, "--device", args.device, "--rows", f"^{re.escape(row.title)}$"]
        given += ["--threads", *map(str, args.threads), "--limit", str(args.limit)]
        given += ["--library", str(args.library)] + ["--tiny"] * args.tiny
        if args.peers is not None:
            given += ["--peers", *args.peers]
        if args.set:
            given += ["--set", *(f"{k}={v}" for k, v in args.set)]
        return given


def show(table, wanted, args):
    if not wanted:
        for subject, rows in table.items():
            print(f"{subject:14} {len(rows)} rows")
    for subject in wanted:
        for row in table[subject]:
            given = row.parameters(args.device, args.tiny, args.set)
            if given is not None and re.search(args.rows, row.title):
                print(f"{subject}: {row.title}: {given}")


def main():
    args = parse()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads[0])  # before anything that reads them is imported
    sys.path.insert(0, str(HERE))
    from core.tables import subjects

    table = subjects()
    unknown = [s for s in args.subjects if s != "all" and s not in table]
    if unknown:
        sys.exit(f"compare.py: no subject {', '.join(unknown)}; there are {', '.join(table)}")
    wanted = list(table) if "all" in args.subjects else args.subjects
    if args.coverage:
        from core.coverage import missing

        sys.exit(missing(table))
    if args.list or not wanted:
        return show(table, wanted, args)
    compare(args, table, wanted)


def compare(args, table, wanted):
    import gram
    from core import report
    from core.machine import describe

    gram.set_threads(args.threads[0])
    run = Run(args)
    run.table = table
    about = None if args.contender else describe(run.place, args.library, run.packages)
    if about:
        about["tiny"] = args.tiny
        print(report.begin(wanted, about, run.absent), flush=True)
    rows = []
    for subject, row, given in run.rows(wanted):
        found = run.row(subject, row, given)
        if found is None:
            continue
        rows.append(found)
        print(report.markdown(report.cells(found)), flush=True)
        if args.out:
            report.write(args.out, wanted, about, run.absent, rows)


if __name__ == "__main__":
    main()
