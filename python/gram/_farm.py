"""A farm of tasks on an Executor: what gram.distributed gives to workers, and what comes back.

Results are taken in the order of the tasks, never in that in which they end, so that sums of them
have the same bits each time.
"""

import concurrent.futures
import hashlib
import itertools
import os
import queue

import numpy as np

from gram import _farm_tasks
from gram._farm_tasks import Shared

_MOST_ORDER = 31  # of a plane: 993 blocks
_LEAST_ROWS = 256  # of a block


# ---- Which pairs of blocks a task has ----


def _times_t(a, modulus, q):
    """A polynomial of degree 2 over GF(q) times t, modulo t^3 - modulus."""
    return tuple((low + a[2] * m) % q for low, m in zip((0, a[0], a[1]), modulus, strict=True))


def difference_set(q):
    """q + 1 numbers whose differences are all numbers but 0 modulo q^2 + q + 1, each once.

    q is a prime.  They are the exponents i for which t^i, a power of a generator of GF(q^3) over
    GF(q), has no t^2 (J. Singer, A theorem in finite projective geometry and some applications to
    number theory, Trans. Amer. Math. Soc. 43, 1938).
    """
    count = q * q + q + 1
    for code in range(q**3):
        modulus = (code % q, code // q % q, code // (q * q))
        power, found = (1, 0, 0), []
        for i in range(count):
            if power[2] == 0:
                found.append(i)
            power = _times_t(power, modulus, q)
        if len(found) != q + 1:
            continue
        differences = {(a - b) % count for a in found for b in found}
        if len(differences) == count:
            return found
    raise AssertionError(f"{q} is not a prime")


def lines(n, wanted):
    """The rows of every task: lists of ranges, so that each pair of blocks has one task.

    Tasks are lines of a projective plane, whose points are the blocks: each two blocks are in
    exactly one line.  The product of a line's rows with themselves, of which half is computed, has
    (q + 1)^2 pairs of blocks, and all lines together 1 + q / (q^2 + q + 1) times as many pairs as
    there are, where rows times all columns would take twice that time.  The pairs of a block with
    itself are in q + 1 lines, and line t takes those of block t away q times.
    """
    orders = [q for q in range(2, _MOST_ORDER + 1) if all(q % d for d in range(2, q))]
    fits = [q for q in orders if n // (q * q + q + 1) >= _LEAST_ROWS]
    if not fits or wanted <= 1:
        return [[(0, n)]]
    q = next((q for q in fits if q * q + q + 1 >= wanted), fits[-1])
    count = q * q + q + 1
    bounds = [n * i // count for i in range(count + 1)]
    offsets = difference_set(q)
    return [
        [(bounds[i], bounds[i + 1]) for i in ((t + o) % count for o in offsets)]
        for t in range(count)
    ]


def blocks(n, count):
    """At most count ranges of about equally many rows."""
    count = max(1, min(count, n // _LEAST_ROWS))
    return [(n * i // count, n * (i + 1) // count) for i in range(count)]


# ---- The farm ----


def _workers_of(executor):
    """How many tasks an executor runs at a time, or None."""
    client = getattr(executor, "_client", None)  # of Dask
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values()) or None
    for name in ("_max_workers", "num_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return None


def _cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Lost(Exception):
    """A task did not run to its end; the argument is the generation of its executor."""


class Farm:
    """Tasks on an executor, which are submitted again where they are lost."""

    def __init__(self, function, executor, retries, threads):
        self.function, self.retries, self.threads = function, retries, threads
        self.factory = None
        if not hasattr(executor, "submit"):
            if not callable(executor):
                raise TypeError(
                    f"{function}: executor is of type {type(executor).__name__}, expected an "
                    "object with submit, as of concurrent.futures, or a function that makes one"
                )
            self.factory, executor = executor, executor()
            if not hasattr(executor, "submit"):
                raise TypeError(
                    f"{function}: executor() is of type {type(executor).__name__}, expected an "
                    "object with submit"
                )
        self.executor = executor
        self.workers = _workers_of(executor) or 16
        if threads is None and isinstance(executor, concurrent.futures.ProcessPoolExecutor):
            self.threads = max(1, _cores() // self.workers)
        self.generation = 0  # of executors that the factory has made
        self.contents = {}  # token: an array that workers are sent where they lack it
        self.serial = itertools.count()  # Dask takes calls with equal arguments for one
        self.tasks = self.lost = 0
        self.seconds = 0.0  # of tasks, on the workers

    def close(self):
        if self.factory is not None:
            self.executor.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def share(self, name, value):
        """(what tasks are given, the array on this machine) of the path of a .npy file, or of an
        array of float32 or float64."""
        path = None
        if isinstance(value, (str, os.PathLike)):
            path = os.path.abspath(value)
            value = np.load(path, mmap_mode="r")
        elif not isinstance(value, np.ndarray):
            value = np.asarray(value)
        if path is None and value.dtype.kind in "iub":
            value = value.astype(np.float64)
        if value.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"{self.function}: {name} has dtype {value.dtype}, expected float32 or float64"
            )
        if value.ndim != 2:
            raise ValueError(f"{self.function}: {name} has {value.ndim} dimensions, expected 2")
        if path is not None:
            status = os.stat(path)
            token = f"{path} {status.st_size} {status.st_mtime_ns}"
        else:
            value = np.ascontiguousarray(value)
            token = hashlib.blake2b(value, digest_size=16).hexdigest() + str(value.shape)
            self.contents[token] = value
        return Shared(token, path, value.shape, value.dtype.str), value

    def _renew(self, generation, cause):
        """An executor for one that is broken."""
        if generation != self.generation:
            return
        if self.factory is None:
            raise RuntimeError(
                f"{self.function}: the executor is broken, and takes no more tasks ({cause}): a "
                "worker has died.  Give a function that makes an executor, and another one takes "
                "its place: krr_solve(lambda: ProcessPoolExecutor(2), ...)"
            ) from cause
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self.factory()
        self.generation += 1

    def _submit(self, kind, arguments, sent):
        for attempt in range(self.retries + 1):
            generation = self.generation
            try:
                future = self.executor.submit(
                    _farm_tasks.work, kind, self.threads, arguments, sent, next(self.serial)
                )
                return future, generation
            except concurrent.futures.BrokenExecutor as e:
                if attempt == self.retries:
                    raise
                self._renew(generation, e)

    def _sent(self, arguments):
        """The arrays that a worker lacks, or may lack."""
        tokens = [a.token for a in arguments if isinstance(a, Shared)]
        return {t: self.contents[t] for t in tokens if t in self.contents}

    def run(self, kind, items):
        """Yields what the tasks of a kind give, in the order of items, their arguments."""
        items = list(items)
        ended, results, losses = queue.SimpleQueue(), {}, [0] * len(items)
        pending = {}

        def submit(i, sent):
            pending[i] = self._submit(kind, items[i], sent)
            pending[i][0].add_done_callback(lambda _, i=i: ended.put(i))

        try:
            for i in range(len(items)):
                submit(i, {})
            for wanted in range(len(items)):
                while wanted not in results:
                    i = ended.get()
                    try:
                        result = self._result(pending.pop(i))
                    except _Lost as e:
                        losses[i] += 1
                        self._look(f"{kind} {i}", losses[i], e)
                        submit(i, {})
                        continue
                    if result is None:
                        submit(i, self._sent(items[i]))
                    else:
                        results[i] = result
                yield results.pop(wanted)
        finally:
            for future, _ in pending.values():
                future.cancel()

    def _result(self, submitted):
        """What a task gives, whose exception is raised; None where its worker lacks an array."""
        future, generation = submitted
        self.tasks += 1
        try:
            result, seconds = future.result()
        except (Exception, concurrent.futures.CancelledError) as e:
            raise _Lost(generation) from e
        self.seconds += seconds
        if isinstance(result, Exception):
            raise result
        return result

    def _look(self, task, losses, lost):
        """Whether a task that was lost may be submitted again, and to what."""
        cause = lost.__cause__
        self.lost += 1
        if losses > self.retries:
            raise RuntimeError(
                f"{self.function}: the task {task} was lost {losses} times, the last time with "
                f"{type(cause).__name__}: {cause}"
            ) from cause
        if isinstance(cause, concurrent.futures.BrokenExecutor):
            self._renew(lost.args[0], cause)
