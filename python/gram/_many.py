"""Many matrices, or one, on several devices: gram.eigh_many, matrix_power_many, eigh_multi."""

from gram import _core
from gram._arrays import eigh_count, empty, numbers
from gram._powers import exponent

_SELECT = ("all", "index", "value", "largest", "smallest")
_DRIVERS = ("auto", "closed-form", "jacobi", "divide", "bisection", "krylov", "batched")
_METHODS = ("auto", "eigh", "coupled-newton", "newton-schulz", "minimax")
_PRECISIONS = ("auto", "f64", "f32", "tf32x3", "tf32")


def _choice(function, name, value, choices, refused=()):
    text = str(value).replace("_", "-")
    if text not in choices or text in refused:
        expected = ", ".join(repr(c) for c in choices if c not in refused)
        raise ValueError(f"gram.{function}: {name} is {value!r}, expected one of {expected}")
    return choices.index(text)


def _place(array):
    """The device of an array, (type, index) and its name."""
    device = getattr(array, "__dlpack_device__", None)
    kind, index = device() if device else (1, 0)
    return (1, index) if kind in (2, 13) else (0, 0)


def _dtype(array):
    return str(getattr(array, "dtype", "float64")).rpartition(".")[2]


def _devices(given, arrays):
    """Names of devices; by default all GPUs where a matrix is on one, else the CPU once."""
    if given is not None:
        return (given,) if isinstance(given, str) else tuple(str(d) for d in given)
    if any(_place(a)[0] for a in arrays):
        return tuple(d for d in _core.devices() if d != "cpu")
    return ("cpu",)


def _list(function, name, value):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise TypeError(f"gram.{function}: {name} is {value!r}, expected a list of arrays")
    return tuple(value)


def _optional(function, name, value, count):
    """A list of arrays or None, as long as that of the matrices; None: none of it."""
    if value is None:
        return None
    value = _list(function, name, value)
    if len(value) != count:
        raise ValueError(f"gram.{function}: {name} has {len(value)} arrays, expected {count}")
    return value


def _make(like, shape):
    array, finish = empty(like, tuple(shape), _dtype(like), *_place(like))
    return array, finish or (lambda result: result)


def _tell(report, items):
    if report is not None:
        names = ("status", "context", "message")
        report[:] = [dict(zip(names, item)) for item in items]


def _matrix(function, a):
    """Lists and integers as arrays of float64, as gram.eigh takes them."""
    if isinstance(a, (list, tuple)) or _dtype(a).startswith(("int", "uint", "bool")):
        return numbers(f"gram.{function}", "a", a, "float64")[0]
    return a


def _matrices(function, a):
    return tuple(_matrix(function, each) for each in _list(function, "a", a))


def _square(function, a):
    shape = tuple(getattr(a, "shape", ()))
    if len(shape) < 2:
        raise ValueError(f"gram.{function}: a has {len(shape)} dimensions, expected at least 2")
    return shape


def _pairs(function, arrays, select, count, vectors):
    """New arrays for values and vectors, and what makes the results of them."""
    values, columns = [], []
    for a in arrays:
        shape = _square(function, a)
        k = shape[-1] if select == "all" else max(count, 0)
        values.append(_make(a, (*shape[:-2], k)))
        columns.append(_make(a, (*shape[:-1], k)) if vectors else None)
    return values, columns


def eigh_many(a, *, devices=None, lower=True, vectors=True, select="all", first=0, count=None,
              driver="auto", info=None, report=None):
    """Eigenvalues and eigenvectors of a list of symmetric matrices, which several devices share.

    a is a list of arrays (..., n, n) of any orders, on the CPU or on any GPU.  devices is a list of
    names such as "cuda:0" or "cpu"; a name that is given twice stands for two contexts.  The
    default is all GPUs, or the CPU if no array is on a GPU.  Each matrix is computed by one device:
    matrices are assigned in the order of their work, the largest first, each to the device that
    would finish it first.  Returns a list of (values, vectors), or of values with vectors=False,
    each on the device of its matrix.

    select is "all", "largest" or "smallest" (count of them), or "index" (count from first).  info
    is a list of int32 arrays or None, as for gram.eigh.  report, a list, receives a dict for each
    matrix: status, context and message.  With report, a matrix that fails raises no exception; the
    others are computed in any case.  Shapes, dtypes and errors are the same as gram.eigh has for
    each matrix.

    >>> import gram, numpy as np
    >>> gram.eigh_many([np.diag([2.0, 1.0]), np.eye(3)], devices=["cpu", "cpu"], vectors=False)
    [array([1., 2.]), array([1., 1., 1.])]
    """
    a = _matrices("eigh_many", a)
    choice = _choice("eigh_many", "select", select, _SELECT, ("value",))
    count = eigh_count("eigh_many", select, count)
    values, columns = _pairs("eigh_many", a, select, count, vectors)
    items = _core.eigh_many(
        _devices(devices, a), a, tuple(v for v, _ in values),
        tuple(v for v, _ in columns) if vectors else None,
        _optional("eigh_many", "info", info, len(a)), int(bool(lower)), choice, first, count,
        _choice("eigh_many", "driver", driver, _DRIVERS), int(report is not None))
    _tell(report, items)
    if not vectors:
        return [finish(v) for v, finish in values]
    return [(f(v), g(w)) for (v, f), (w, g) in zip(values, columns)]


def matrix_power_many(a, numerator=-1, denominator=4, *, devices=None, method="auto", lower=True,
                      ridge=0.0, ridge_relative=False, condition=0.0, iterations=0, error=None,
                      tolerance=0.0, keep=False, precision="auto", power=None, floor=0.0, info=None,
                      out=None, report=None):
    """Powers of a list of symmetric positive semidefinite matrices, which several devices share.

    The list, devices and report are those of gram.eigh_many.  Everything else is the same as
    gram.matrix_power has, with a list of arrays or None for info, error and out, and a number for
    ridge.

    >>> import gram, numpy as np
    >>> gram.matrix_power_many([np.eye(2) * 16, np.eye(1) * 81])[1].round(3).tolist()
    [[0.333]]
    """
    a = _matrices("matrix_power_many", a)
    if power is not None:  # the library finds out by itself whether it is a fraction
        exponent("gram.matrix_power_many", numerator, denominator, power, 0.0)
        numerator = denominator = 0
    given = _optional("matrix_power_many", "out", out, len(a))
    if given is not None:
        made = [(o, lambda result: result) for o in given]
    else:
        made = [_make(m, _square("matrix_power_many", m)) for m in a]
    items = _core.matrix_power_many(
        _devices(devices, a), a, tuple(o for o, _ in made),
        _optional("matrix_power_many", "info", info, len(a)),
        _optional("matrix_power_many", "error", error, len(a)), numerator, denominator,
        _choice("matrix_power_many", "method", method, _METHODS), int(bool(lower)), float(ridge),
        int(bool(ridge_relative)), float(condition), float(tolerance), iterations, int(bool(keep)),
        _choice("matrix_power_many", "precision", precision, _PRECISIONS),
        0.0 if power is None else float(power), float(floor), int(report is not None))
    _tell(report, items)
    return [finish(o) for o, finish in made]


def eigh_multi(a, *, devices=None, lower=True, vectors=True, select="all", first=0, count=None,
               info=None, force=False):
    """The same as gram.eigh, for one matrix that several GPUs share because one cannot hold it.

    a is (n, n), on the CPU or on one of devices (default: all GPUs), and the results are on the
    device of a.  cusolverMg computes them.  Raises NotImplementedError, with the measured times, if
    one GPU can hold the matrix and is faster, unless force is True.

    >>> import gram, numpy as np
    >>> gram.eigh_multi(np.eye(2), devices=["cpu"])
    Traceback (most recent call last):
    NotImplementedError: gram.eigh_multi: the CPU shares no matrix: gram_eigh uses all its threads
    """
    a = _matrix("eigh_multi", a)
    choice = _choice("eigh_multi", "select", select, _SELECT, ("value",))
    count = eigh_count("eigh_multi", select, count)
    (value,), (column,) = _pairs("eigh_multi", (a,), select, count, vectors)
    if devices is None:
        devices = [d for d in _core.devices() if d != "cpu"] or ["cpu"]
    _core.eigh_multi(_devices(devices, (a,)), (a,), (value[0],),
                     (column[0],) if vectors else None, None if info is None else (info,),
                     int(bool(lower)), choice, first, count, int(bool(force)))
    return (value[1](value[0]), column[1](column[0])) if vectors else value[1](value[0])
