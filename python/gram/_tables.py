"""Tables as _core takes them: lists of (name, vector of float64 or list of str and None)."""


def is_frame(table):
    """Is it a data frame?"""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def columns(table):
    """The columns of an array (rows by features), a dict, or a data frame."""
    import numpy

    if isinstance(table, dict):
        return [column(name, values) for name, values in table.items()]
    if is_frame(table):
        return [column(name, table[name]) for name in table.columns]
    array = numpy.asarray(table)
    if array.ndim != 2:
        raise ValueError(
            f"gram.Machine: table has {array.ndim} dimensions, expected 2, a dict or a data frame"
        )
    return [column(f"x{i}", array[:, i]) for i in range(array.shape[1])]


def rows(table):
    """The number of rows of what columns gave."""
    return len(table[0][1]) if table else 0


def column(name, values):
    """(name, values): numbers as float64, nan where missing; anything else as texts."""
    import numpy

    name = str(name)
    kind = getattr(values, "dtype", None)
    if str(kind) in ("category", "string", "str") or not isinstance(kind, numpy.dtype):
        values = _plain(values, kind)
    array = numpy.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"gram.Machine: column {name} has {array.ndim} dimensions, expected 1")
    if array.dtype.kind in "fiu":
        return name, numpy.ascontiguousarray(array, numpy.float64)
    if array.dtype.kind in "bUSTO":
        return name, [_label(value) for value in array.tolist()]
    raise TypeError(
        f"gram.Machine: column {name} has dtype {array.dtype}, expected numbers or texts"
    )


def _plain(values, kind):
    """Of pandas: numbers that may be missing as float64, all else as objects."""
    import numpy

    if kind is None or not hasattr(values, "to_numpy"):
        return values
    if getattr(kind, "kind", "O") in "fiu":
        return values.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
    return values.astype(object).to_numpy()


def _label(value):
    """A text, or None where it is missing (None, nan, pandas.NA)."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.decode() if isinstance(value, bytes) else str(value)
