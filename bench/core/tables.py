"""core/tables.py - the forms of the two kinds of tables: operations with their rows, and peers

A file of tables/ defines operations and lists rows in SUBJECTS.  An operation knows how a problem
is made, how libgram is called, and how a result is checked.  A row is an operation with its
parameters on the CPU and on a GPU.

A file of peers/ says how one package does the same: CALLS maps the name of an operation to a
function of the problem.  The file imports the package at its head; where that fails the peer is
left out, and the report says so.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peers
import tables
from core.place import TINY, NotOffered


@dataclasses.dataclass
class Call:
    """One way to do the work of a row."""

    run: Callable[[], Any] | None = None
    error: Callable[[Any], float] | None = None  # of its result; None: the operation's
    tell: Callable[[Any], dict] | None = None  # of its result: numbers for the last column
    prepare: Callable[[], Any] | None = None  # before every sample, not timed
    units: int = 1  # of work that one run does, such as steps: times are per unit
    part: float = 1.0  # of the problem; times are multiplied by 1 / part
    sample: Callable[[], dict] | None = None  # instead of run: measures itself, "seconds" and more


@dataclasses.dataclass
class Row:
    """A line of a table: the operation, and its parameters on each device that has the row."""

    title: str
    operation: "Operation"
    cpu: dict | None = None
    cuda: dict | None = None
    apart: bool = False  # every contender in processes of its own

    def parameters(self, device, tiny=False, override=()):
        given = self.cpu if device == "cpu" else self.cuda
        if given is None:
            return None
        given = {**given, **{k: v for k, v in dict(override).items() if k in given}}
        return self.operation.tiny(given) if tiny else given


def both(title, operation, apart=False, **parameters):
    """A row that is the same on the CPU and on a GPU."""
    return Row(title, operation, parameters, parameters, apart)


class Operation:
    """The defaults of an operation; the name is what peers' CALLS have."""

    name = ""
    covers = ()  # functions of the Python package that its rows measure
    limits = {"float32": 1e-4, "float64": 1e-6}  # of errors; above them a result is wrong

    def tiny(self, parameters):
        """The parameters of a quick trial: no number is above TINY."""
        return {k: min(v, TINY) if type(v) is int else v for k, v in parameters.items()}

    def make(self, place, **parameters):
        """The problem: its arrays and parameters as members."""
        raise NotImplementedError

    def ours(self, q):
        """libgram's calls: one, or several as {what distinguishes them: call}."""
        raise NotImplementedError

    def error(self, q, got):
        """How far a result is from float64; None: there is nothing to compare."""
        return None

    def limit(self, q):
        return self.limits.get(getattr(q, "dtype", "float32"))

    def work(self, q):
        """The amount of work and its unit, for the column of rates, or None."""
        return None

    def cut(self, q, rows):
        """The problem on the first rows alone, for contenders that take too long, or None."""
        return None

    def rows(self, q):
        """How many rows there are to cut."""
        return 0

    def words(self, q):
        """What stands behind `gram bench` to measure the same in C, or None."""
        return None


Problem = SimpleNamespace  # the arrays of a row and its parameters


def problem(operation, place, parameters):
    """A row's problem, with the parameters, and the defaults of the others, as members."""
    q = operation.make(place, **parameters)
    q.place, q.operation = place, operation
    given = inspect.signature(operation.make).bind(place, **parameters)
    given.apply_defaults()
    for name, value in given.arguments.items():
        q.__dict__.setdefault(name, value)
    q.__dict__.setdefault("dtype", "float32")
    return q


def derived(q, **members):
    """The same problem with other members."""
    return Problem(**{**vars(q), **members})


def calls_of(name, made):
    """{name of the contender: Call} of what a table's function returned."""
    if made is None:
        return {}
    made = made if isinstance(made, dict) else {"": made}
    return {
        f"{name}, {what}" if what else name: c if isinstance(c, Call) else Call(c)
        for what, c in made.items()
    }


def subjects():
    """{subject: its rows}, of all files of tables/."""
    found = {}
    for module in modules(tables):
        for subject, rows in importlib.import_module(f"tables.{module}").SUBJECTS.items():
            found.setdefault(subject, []).extend(rows)
    return found


def modules(package):
    return [m.name for m in pkgutil.iter_modules([str(Path(package.__file__).parent)])]


def peer_names():
    return modules(peers)


def load_peer(name):
    """The module of a peer, or the reason why it is not here."""
    try:
        return importlib.import_module(f"peers.{name}"), None
    except Exception as error:  # noqa: BLE001 - whatever a package lacks, the others are measured
        return None, f"{type(error).__name__}: {error}".splitlines()[0]


def peer_calls(module, q):
    """The calls of a peer for a problem; empty where it has none."""
    make = module.CALLS.get(q.operation.name)
    if make is None or q.place.device not in module.DEVICES:
        return {}
    try:
        return calls_of(module.NAME, make(q))
    except (NotOffered, ImportError):
        return {}
