"""Tables as _core takes them: lists of (name, vector of float64 or list of str and None)."""

import numbers


def is_frame(table):
    """Is it a data frame: of pandas, of polars, a table of Arrow?"""
    ways = ("iloc", "get_column", "column_names")
    return hasattr(table, "columns") and any(hasattr(table, way) for way in ways)


def pairs(table):
    """(name, values) of every column of a data frame; names that come twice get .1, .2 and so on,
    as pandas.read_csv names them."""
    if hasattr(table, "iloc"):
        found = [(str(name), table.iloc[:, i]) for i, name in enumerate(table.columns)]
    elif hasattr(table, "get_column"):
        found = [(name, table.get_column(name)) for name in table.columns]
    else:
        found = list(zip(table.column_names, table.columns, strict=True))
    return list(zip(unique([name for name, _ in found]), [v for _, v in found], strict=True))


def unique(names):
    """The names, each but once."""
    taken, out = set(names), []
    for i, name in enumerate(names):
        again, new = 0, name
        while (again or name in names[:i]) and (again == 0 or new in taken):
            again += 1
            new = f"{name}.{again}"
        taken.add(new)
        out.append(new)
    return out


def distinct(X):
    """A data frame of pandas with each name but once; anything else as it is."""
    if hasattr(X, "iloc") and hasattr(X, "columns") and not X.columns.is_unique:
        return X.set_axis(unique([str(name) for name in X.columns]), axis=1)
    return X


def columns(table):
    """The columns of an array (rows by features), a dict, or a data frame."""
    import numpy

    if isinstance(table, dict):
        return [column(name, values) for name, values in table.items()]
    if is_frame(table):
        return [column(name, values) for name, values in pairs(table)]
    array = numpy.asarray(table)
    if array.ndim != 2:
        raise ValueError(
            f"gram.Machine: table has {array.ndim} dimensions, expected 2, a dict or a data frame"
        )
    return [column(f"x{i}", array[:, i]) for i in range(array.shape[1])]


def split(function, table, target):
    """The columns of a table, and a list of its targets: a column of their own, or the name of one
    of these; several are a matrix, a dict, a data frame, or a tuple of names."""
    found = columns(table)
    if not isinstance(target, (str, tuple)):
        return found, _targets(target, {name for name, _ in found})
    wanted = [target] if isinstance(target, str) else list(target)
    known = dict(found)
    for name in wanted:
        if name not in known:
            names = ", ".join(name for name, _ in found[:20])
            raise ValueError(
                f"gram.Machine.{function}: target is {name!r}, expected a column of the table "
                f"({names}) or values"
            )
    return [c for c in found if c[0] not in wanted], [(name, known[name]) for name in wanted]


def _targets(values, taken):
    """Columns of targets; what comes without names gets those that the table does not have."""
    if isinstance(values, dict) or is_frame(values):
        return columns(values)
    several = getattr(values, "ndim", 1) == 2
    numbers = range(values.shape[1]) if several else [""]
    stem = "target"
    while any(f"{stem}{i}" in taken for i in numbers):
        stem += "_"
    return [column(f"{stem}{i}", values[:, i] if several else values) for i in numbers]


def rows(table):
    """The number of rows of what columns gave."""
    return len(table[0][1]) if table else 0


def column(name, values):
    """(name, values): numbers as float64, nan where missing; anything else as texts."""
    import numpy

    name = str(name)
    kind = getattr(values, "dtype", None)
    if not isinstance(kind, numpy.dtype):
        values = _plain(values, kind)
    array = numpy.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"gram.Machine: column {name} has {array.ndim} dimensions, expected 1")
    if array.dtype.kind in "fiu":
        return name, numpy.ascontiguousarray(array, numpy.float64)
    if array.dtype.kind == "O":
        return name, _of_objects(array.tolist())
    if array.dtype.kind in "bUST":
        return name, [_label(value) for value in array.tolist()]
    raise TypeError(
        f"gram.Machine: column {name} has dtype {array.dtype}, expected numbers or texts"
    )


def _plain(values, kind):
    """Of pandas: numbers that may be missing as float64, all else as objects; of polars and Arrow
    what they make of it."""
    import numpy

    if hasattr(values, "to_pylist"):
        return values.to_numpy(zero_copy_only=False)
    if kind is None or not hasattr(values, "to_numpy"):
        return values
    if getattr(kind, "kind", "O") in "fiu":
        return values.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
    return values.astype(object).to_numpy() if hasattr(values, "astype") else values.to_numpy()


def _of_objects(values):
    """Numbers where all are that are not missing, else texts."""
    import numpy

    known = [value for value in values if not _is_missing(value)]
    if not known or not all(_is_number(value) for value in known):
        return [_label(value) for value in values]
    return numpy.array([numpy.nan if _is_missing(value) else float(value) for value in values])


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_missing(value):
    """None, nan, pandas.NA: this one cannot be compared."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _label(value):
    """A text, or None where it is missing."""
    if _is_missing(value):
        return None
    return value.decode() if isinstance(value, bytes) else str(value)
