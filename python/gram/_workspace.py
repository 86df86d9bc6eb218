"""gram.Shape and gram.workspace: the scratch that a call needs, without arrays."""

from gram import _core

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64")


class Shape:
    """The description of an array (m, n, ...) for gram.workspace, without its memory.

    sizes are those of its dimensions.  dtype is a name, or an object whose str() ends with a name,
    such as numpy.float32 or torch.float64.  device is "cpu", "cuda" or "cuda:1".  gram.workspace
    takes it in the place of an array without gaps; calls that compute refuse it with TypeError.

    Raises ValueError for sizes below 0 and for unknown dtypes.

    >>> import gram, numpy as np
    >>> a = gram.Shape(30, 30)
    >>> gram.workspace(gram.eigh, a) == gram.workspace(gram.eigh, np.ones((30, 30)))
    True
    """

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, *sizes, dtype="float64", device="cpu"):
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
        name = name.rpartition(".")[2]
        if name not in _DTYPES:
            raise ValueError(f"gram.Shape: dtype is {dtype!r}, expected one of {_DTYPES}")
        if any(size < 0 for size in sizes):
            raise ValueError(f"gram.Shape: sizes are {sizes}, expected at least 0")
        self.shape, self.dtype, self.device = tuple(int(s) for s in sizes), name, str(device)

    @property
    def __gram_shape__(self):
        return self.shape, self.dtype, self.device

    def __repr__(self):
        sizes = "".join(f"{size}, " for size in self.shape)
        return f"gram.Shape({sizes}dtype={self.dtype!r}, device={self.device!r})"


def workspace(function, /, *arguments, **options):
    """The bytes of scratch that a call of gram.<function> with these arguments needs, as (host,
    device).

    function is a name ("eigh") or the function itself.  Arguments and errors are those of the
    function.  Only the shapes, dtypes and devices of arrays matter; their data are not read, and a
    gram.Shape may replace each of them.  For gram.eigh_multi, the second number is a dict with the
    bytes of each device.  Raises ValueError for a function without such a query.

    >>> import gram
    >>> host, device = gram.workspace(gram.eigh, gram.Shape(9, 9))
    >>> host > 0, device
    (True, 0)
    >>> gram.workspace("eigh_multi", gram.Shape(4, 4), devices=["cpu"])
    Traceback (most recent call last):
    NotImplementedError: gram.eigh_multi: the CPU shares no matrix: gram_eigh uses all its threads
    """
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    name = name.removeprefix("gram.")
    if name == "eigh_multi":
        return _eigh_multi(*arguments, **options)
    need = _core.workspace(name, *arguments, **options)
    if need is None:
        raise ValueError(f"gram.workspace: {function!r} is not a function that takes scratch")
    return need


def _eigh_multi(a, *, devices=None, lower=True, vectors=True, select="all", first=0, count=0):
    """The bytes of the host, and those of each device: it does not matter whether one device alone
    would be faster.
    """
    from gram import _many

    shape = _many._square("eigh_multi", a)
    choice = _many._choice("eigh_multi", "select", select, _many._SELECT, ("value",))
    pairs = shape[-1] if select == "all" else max(count, 0)
    dtype = _many._dtype(a)
    if devices is None:
        devices = [d for d in _core.devices() if d != "cpu"] or ["cpu"]
    devices = _many._devices(devices, (a,))
    values = Shape(*shape[:-2], pairs, dtype=dtype)
    columns = (Shape(*shape[:-1], pairs, dtype=dtype),) if vectors else None
    host, each = _core.eigh_multi_workspace(
        devices, (a,), (values,), columns, None, int(bool(lower)), choice, first, count, 1)
    return host, dict(zip(devices, each))
