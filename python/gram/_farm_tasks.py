"""What the workers of gram.distributed compute: one task is one call of work().

A worker keeps the arrays that it was sent, and the files that it has mapped, for further tasks.
"""

import collections
import os
import threading
import time
import typing

import numpy as np

import gram

_KEPT = 8  # arrays and maps of a worker; the one that was used last goes last
_kept = collections.OrderedDict()
_lock = threading.Lock()  # workers of Dask have threads


class Shared(typing.NamedTuple):
    """An array that workers keep: a file that each maps, or contents by their hash."""

    token: str
    path: str | None
    shape: tuple
    dtype: str


class Missing(Exception):
    """The worker has not been sent an array yet."""


def _open(shared):
    array = np.load(shared.path, mmap_mode="r")
    if array.shape != shared.shape or array.dtype.str != shared.dtype:
        raise ValueError(
            f"{shared.path} has shape {array.shape} and dtype {array.dtype} on this worker, "
            f"expected {shared.shape} and {np.dtype(shared.dtype)}"
        )
    return array


def _aligned(array):
    """What came by a network may lie anywhere."""
    return np.require(array, requirements="A") if isinstance(array, np.ndarray) else array


def _array(shared, sent):
    with _lock:
        array = _kept.pop(shared.token, None)
        if array is None and shared.path is not None:
            array = _open(shared)
        if array is None:
            array = _aligned(sent.get(shared.token))
        if array is None:
            raise Missing
        _kept[shared.token] = array
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
        return array


def _rows(array, ranges, dtype):
    """The rows of some ranges, one after another."""
    parts = [np.asarray(array[first:end], dtype) for first, end in ranges]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def kernel_of(options, dtype):
    """The options of a kernel, whose arrays have the dtype of the points."""
    return {k: v.astype(dtype) if isinstance(v, np.ndarray) else v for k, v in options.items()}


def line(x, kernel, ranges, v):
    """K v of the pairs of some blocks of rows.

    The first block's own pairs are taken away as often as the lines of all blocks have them more
    than once: see gram._farm.lines.
    """
    dtype, first = v.dtype, ranges[0][1] - ranges[0][0]
    rows = _rows(x, ranges, dtype)
    out = gram.kernel_matmul(rows, v=v, **kernel_of(kernel, dtype))
    if len(ranges) > 1 and first:
        own = gram.kernel_matmul(rows[:first], v=v[:first], **kernel_of(kernel, dtype))
        out[:first] -= (len(ranges) - 1) * own
    return out


def product(x, kernel, where, y, v):
    """K(x[where], y) v."""
    return gram.kernel_matmul(_rows(x, [where], v.dtype), np.asarray(y, v.dtype), v=v,
                              **kernel_of(kernel, v.dtype))  # fmt: skip


def transposed(x, kernel, where, y, v):
    """K(y, x[where]) v."""
    return gram.kernel_matmul(np.asarray(y, v.dtype), _rows(x, [where], v.dtype), v=v,
                              **kernel_of(kernel, v.dtype))  # fmt: skip


def square(x, kernel, where, y):
    """K(y, x[where]) K(x[where], y) in float64."""
    total = np.zeros((len(y), len(y)))
    y, kernel = np.asarray(y, np.float64), kernel_of(kernel, np.float64)
    for first in range(where[0], where[1], 2048):
        rows = _rows(x, [(first, min(first + 2048, where[1]))], np.float64)
        k = gram.kernel(rows, y, **kernel)
        total += k.T @ k
    return total


def diagonal(x, kernel, where):
    """The least and the largest k(x_i, x_i), and whether all rows are finite."""
    rows = _rows(x, [where], np.float64)[:, None]
    k = gram.kernel(rows, rows, **kernel_of(kernel, np.float64))
    return k.min(initial=np.inf), k.max(initial=-np.inf), bool(np.isfinite(rows).all())


_KINDS = {f.__name__: f for f in (line, product, transposed, square, diagonal)}


def work(kind, threads, arguments, sent, serial):
    """(what a task gives, seconds), or an exception in its place; None where arrays are missing.

    It raises nothing, so that an exception of a future means that the task was lost.  serial is
    another number for each call.
    """
    began = time.perf_counter()
    try:
        given = [_array(a, sent) if isinstance(a, Shared) else _aligned(a) for a in arguments]
        if threads:
            gram.set_threads(threads)
        result = _KINDS[kind](*given)
    except Missing:
        result = None
    except Exception as e:
        e.add_note(f"in a worker, process {os.getpid()}")
        result = e
    return result, time.perf_counter() - began
