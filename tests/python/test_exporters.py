"""test_exporters.py - everything of the standard library and NumPy that exports a buffer, as an
argument and as out: right values, or an exception that says why not; never a crash"""

import array
import ctypes
import mmap
import struct

import gram
import numpy as np
import pytest

X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
D = np.array([[0.0, 5.0, 10.0], [5.0, 0.0, 5.0], [10.0, 5.0, 0.0]])
INTEGERS = "bBhHiIlLqQ"
REFUSED = (TypeError, ValueError)


def of_ctypes(kind, rows=X.tolist()):
    return (kind * len(rows[0]) * len(rows))(*[tuple(kind(v).value for v in row) for row in rows])


def shaped(exporter, code, shape=X.shape):
    return memoryview(exporter).cast("B").cast(code, shape)


def mapped(values):
    """The elements in memory of mmap, which begins at a page."""
    memory = mmap.mmap(-1, values.nbytes)
    memory.write(values.tobytes())
    return memory


def with_format(code, values=X):
    """X as NumPy's array of what struct packs."""
    packed = struct.pack(f"{code[:-1]}{values.size}{code[-1]}", *values.ravel())
    return np.frombuffer(packed, np.dtype(code.replace("@", "="))).reshape(values.shape)


def record(**options):
    return np.zeros(3, np.dtype([("a", "f8"), ("b", "f8")], **options))


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def unaligned(values):
    memory = np.zeros(values.nbytes + 8, np.uint8)[1 : values.nbytes + 1]
    view = memory.view(values.dtype).reshape(values.shape)
    view[...] = values
    return view


GOOD = {
    "ctypes double": lambda: of_ctypes(ctypes.c_double),
    "ctypes float": lambda: of_ctypes(ctypes.c_float),
    "ctypes int": lambda: of_ctypes(ctypes.c_int, X.astype(int).tolist()),
    "ctypes byte": lambda: of_ctypes(ctypes.c_int8, X.astype(int).tolist()),
    "ctypes of arrays of no rows": lambda: (ctypes.c_double * 2 * 0)(),
    "ctypes through memoryview": lambda: memoryview(of_ctypes(ctypes.c_double)),
    "memoryview of bytes": lambda: shaped(X.tobytes(), "d"),
    "memoryview of bytearray": lambda: shaped(bytearray(X.tobytes()), "d"),
    "memoryview of an array of floats": lambda: shaped(array.array("f", X.ravel()), "f"),
    "memoryview of mmap": lambda: shaped(mapped(X), "d"),
    "memoryview reversed": lambda: memoryview(np.ascontiguousarray(X[::-1]))[::-1],
    "memoryview stepped": lambda: memoryview(X.repeat(2, 0))[::2],
    "memoryview of truth values": lambda: shaped(bytes([0, 1, 1, 1]), "?", (2, 2)),
    "half": lambda: X.astype(np.float16),
    "list": lambda: X.tolist(),
    "list of integers": lambda: X.astype(int).tolist(),
    "tuple of tuples": lambda: tuple(map(tuple, X.tolist())),
    "list of arrays": lambda: list(X),
    "read-only": lambda: read_only(X),
    "broadcast": lambda: np.broadcast_to(X[1], (3, 2)),
    "negative strides": lambda: X[::-1, ::-1],
    "Fortran's order": lambda: np.asfortranarray(X),
    "no rows": lambda: X[:0],
    "no columns": lambda: X[:, :0],
    "field of a record": lambda: record()[["a", "b"]].view(np.float64).reshape(3, 2),
    "matrix of truth values": lambda: X > 3,
    "numpy.recarray": lambda: X.view(np.recarray),
    "memory map": lambda: np.frombuffer(mapped(X)).reshape(3, 2),
    **{f"array {code}": lambda c=code: shaped(array.array(c, X.astype(int).ravel().tolist()), c)
       for code in INTEGERS},
    **{f"dtype {code}": lambda c=code: X.astype(c) for code in INTEGERS + "fdep?"},
    **{f"format {code}": lambda c=code: with_format(c) for code in ("<f", "<d", "=d", "@d", "<e")},
    **{f"format {code}": lambda c=code: with_format(c, X.astype(int)) for code in ("<i", "=q", "@l")},
}  # fmt: skip

BAD = {
    "ctypes structure": lambda: (type("S", (ctypes.Structure,), {"_fields_": [
        ("a", ctypes.c_double), ("b", ctypes.c_double)]}) * 3)(),
    "ctypes pointer": lambda: ctypes.pointer(ctypes.c_double(1)),
    "ctypes big endian": lambda: (ctypes.c_double.__ctype_be__ * 2 * 3)(),
    "ctypes long double": lambda: (ctypes.c_longdouble * 2 * 3)(),
    "ctypes number": lambda: ctypes.c_double(1),
    "ctypes vector": lambda: (ctypes.c_double * 4)(),
    "ctypes characters": lambda: (ctypes.c_char * 2 * 3)(),
    "ctypes 9 dimensions": lambda: (
        ctypes.c_double * 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1)(),
    "bytes": lambda: X.tobytes(),
    "bytearray": lambda: bytearray(X.tobytes()),
    "mmap": lambda: mapped(X),
    "array of characters": lambda: array.array("u", "text"),
    "memoryview without a shape": lambda: memoryview(X.tobytes()),
    "memoryview of characters": lambda: shaped(bytes(4), "c", (2, 2)),
    "memoryview of addresses": lambda: shaped(bytes(32), "P", (2, 2)),
    "list of texts": lambda: [["a", "b"]],
    "list with None": lambda: [[1.0, None]],
    "ragged list": lambda: [[1.0], [1.0, 2.0]],
    "empty list": lambda: [],
    "list of complex": lambda: [[1j]],
    "list of huge integers": lambda: [[10**400, 1]],
    "dict": lambda: {"a": 1},
    "set": lambda: {1.0},
    "range": lambda: range(4),
    "generator": lambda: (i for i in range(3)),
    "big endian": lambda: X.astype(">d"),
    "format >f": lambda: with_format(">f"),
    "unaligned": lambda: unaligned(X),
    "packed field": lambda: np.zeros((3, 2), [("t", "u1"), ("v", "f8")])["v"],
    "record": lambda: record(),
    "aligned record": lambda: record(align=True),
    "void": lambda: np.zeros((3, 2), "V8"),
    "void of no bytes": lambda: np.zeros((3, 2), "V0"),
    "text of no bytes": lambda: np.zeros((3, 2), "U0"),
    "subarrays": lambda: np.zeros(3, [("a", "f8", (2,))]),
    "objects": lambda: X.astype(object),
    "texts": lambda: X.astype("U"),
    "bytes of NumPy": lambda: X.astype("S"),
    "dates": lambda: X.astype("M8[s]"),
    "durations": lambda: X.astype("m8[s]"),
    "complex": lambda: X.astype(complex),
    "long double": lambda: X.astype(np.longdouble),
    "masked": lambda: np.ma.masked_equal(X, 3),
    "a number": lambda: np.float64(1),
    "zero dimensions": lambda: np.array(1.0),
}  # fmt: skip
if np.dtype(np.longdouble).itemsize == 8:
    del BAD["long double"], BAD["ctypes long double"]


def released():
    view = memoryview(X.copy())
    view.release()
    return view


def distances(x):
    x = np.asarray(x)
    x = x.astype(np.float64) if x.dtype != np.float64 else x
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))


@pytest.mark.parametrize("name", GOOD)
def test_read(name):
    x = GOOD[name]()
    got = gram.cdist(x)
    np.testing.assert_allclose(got, distances(x), rtol=1e-6)
    kind = np.asarray(x).dtype
    wide = kind == np.float64 or kind.kind in "biu"
    assert got.dtype == (np.float64 if wide else np.float32)


@pytest.mark.parametrize("name", BAD)
def test_refused_as_an_argument(name):
    with pytest.raises(REFUSED, match=r"gram\.cdist: x ") as e:
        gram.cdist(BAD[name]())
    assert type(e.value) in REFUSED
    with pytest.raises(REFUSED, match=r"gram\.solve_lu: (a is 3 by 3 but )?b "):
        gram.solve_lu(np.eye(3), BAD[name]())


def test_released_memory_is_refused():
    with pytest.raises(REFUSED, match="gram.cdist: x "):
        gram.cdist(released())
    with pytest.raises(REFUSED, match="gram.cdist: out "):
        gram.cdist(X, out=released())


WRITABLE = {
    "ctypes double": lambda: (ctypes.c_double * 3 * 3)(),
    "ctypes through memoryview": lambda: memoryview((ctypes.c_double * 3 * 3)()),
    "memoryview of bytearray": lambda: shaped(bytearray(72), "d", (3, 3)),
    "memoryview of an array": lambda: shaped(array.array("d", [0] * 9), "d", (3, 3)),
    "memoryview of mmap": lambda: shaped(mapped(D), "d", (3, 3)),
    "memoryview reversed": lambda: memoryview(np.zeros((3, 3)))[::-1],
    "negative strides": lambda: np.zeros((3, 3))[::-1, ::-1],
    "Fortran's order": lambda: np.zeros((3, 3), order="F"),
    "field of an aligned record": lambda: np.zeros((3, 3), [("a", "f8"), ("b", "f8")])["b"],
}
UNWRITABLE = {
    "ctypes float": lambda: (ctypes.c_float * 3 * 3)(),
    "ctypes integers": lambda: (ctypes.c_long * 3 * 3)(),
    "ctypes of another shape": lambda: (ctypes.c_double * 3 * 2)(),
    "memoryview of bytes": lambda: shaped(bytes(72), "d", (3, 3)),
    "read-only memoryview": lambda: memoryview(np.zeros((3, 3))).toreadonly(),
    "bytes": lambda: bytes(72),
    "bytearray": lambda: bytearray(72),
    "array": lambda: array.array("d", [0] * 9),
    "mmap": lambda: mapped(D),
    "list": lambda: D.tolist(),
    "integers": lambda: np.zeros((3, 3), int),
    "small integers": lambda: np.zeros((3, 3), np.int8),
    "truth values": lambda: np.zeros((3, 3), bool),
    "float32": lambda: np.zeros((3, 3), np.float32),
    "big endian": lambda: np.zeros((3, 3), ">f8"),
    "unaligned": lambda: unaligned(np.zeros((3, 3))),
    "broadcast": lambda: np.broadcast_to(np.zeros(3), (3, 3)),
    "overlapping itself": lambda: np.lib.stride_tricks.as_strided(np.zeros(9), (3, 3), (8, 8)),
    "void of no bytes": lambda: np.zeros((3, 3), "V0"),
    "masked": lambda: np.ma.zeros((3, 3)),
    "objects": lambda: np.zeros((3, 3), object),
    "zero dimensions": lambda: np.array(0.0),
}


@pytest.mark.parametrize("name", WRITABLE)
def test_written(name):
    out = WRITABLE[name]()
    assert gram.cdist(X, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), D)


@pytest.mark.parametrize("name", UNWRITABLE)
def test_refused_as_an_output(name):
    out = UNWRITABLE[name]()
    before = np.array(out).tobytes()
    with pytest.raises(REFUSED, match=r"gram\.cdist: out "):
        gram.cdist(X, out=out)
    assert np.array(out).tobytes() == before


def test_lists_and_integers_take_the_dtype_of_the_first_array():
    assert gram.cdist([[0, 0], [3, 4]]).tolist() == [[0, 5], [5, 0]]
    x = X.astype(np.float32)
    for y in (X.tolist(), X.astype(np.int16), X.astype(np.uint8), X.astype(int).tolist()):
        got = gram.cdist(x, y)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, D)
    assert gram.cdist(X.tolist(), X).dtype == np.float64
    # Numbers of a call stay float64.
    three = gram.cdist(np.stack([x, x]), p=[1.3, 2])
    np.testing.assert_allclose(three[0], gram.cdist(x, p=1.3), rtol=1e-7)
    big = 2**53 - 1
    assert gram.cdist([[big]], [[0]], 1).tolist() == [[big]]


WHOLE = (bool, "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


@pytest.mark.parametrize("floats", ["f2", "f4", "f8"])
@pytest.mark.parametrize("whole", WHOLE)
def test_integers_that_meet_floats_are_promoted_as_numpy_does(floats, whole):
    x, y = X.astype(floats), X.astype(whole)
    wanted = np.result_type(x, y)
    wanted = np.float32 if wanted == np.float16 else wanted  # halves give float32
    exact = gram.cdist(x.astype(float), y.astype(float))
    for first, second in ((x, y), (y, x), (y.tolist(), x), (x, y.tolist())):
        got = gram.cdist(first, second)
        assert got.dtype == (wanted if y is first or y is second else gram.cdist(x).dtype)
        np.testing.assert_allclose(got, exact if first is x else exact.T, rtol=1e-6, atol=0)


def test_every_function_promotes():
    """float32 with int64 is float64, and stays float32 with int8; three arrays go together."""
    m = np.array([[2, 1], [1, 2]], np.float32)
    for whole, wanted in ((np.int64, np.float64), (np.int8, np.float32)):
        w = m.astype(whole)
        for got in (
            gram.solve_lu(w, m),
            gram.solve_cholesky(m, w[0]),
            gram.kernel_matmul(m, v=w[0]),
            gram.kernel_matmul(w, m, v=m),
            gram.kernel_vjp(m, grad=w),
            gram.matmul_batched(m, m, c=w, beta=1.0),
            gram.natural_gradient(w, m[0], 1.0),
            gram.cdist_grad(m, w, m, m),
            gram.agop(w, m, m, m),
            gram.kernel(m, kernel="gaussian", lengths=w[0]),
            gram.nearest(m, w, count=1)[0],
            gram.nearest(w, m, count=1)[0],
            gram.sample_grad(m, w)[0],
            gram.sample_grad(m, m, output="sum", coefficients=w[0])[0],
            gram.kfac_factors(w, m)[1],
        ):
            assert got.dtype == wanted
        np.testing.assert_array_equal(gram.matmul_batched(w, m), m @ m)
        assert gram.matmul_batched(w, m).dtype == gram.solve_lu(m, w).dtype == wanted
    out = np.empty((2, 2), np.float32)
    with pytest.raises(ValueError, match="out has dtype f32, expected f64"):
        gram.cdist(m, m.astype(int), out=out)
    assert gram.cdist(m, m.astype(np.int16), out=out) is out


def test_integers_stay_integers_where_they_are_computed_with():
    a = np.array([[1, 2], [3, 4]])
    for got, wanted in (
        (gram.kron([a, a]), np.kron(a, a)),
        (gram.kron_matmul(np.kron(a, a), [a, a]), np.kron(a, a) @ np.kron(a, a)),
        (gram.kron_trace([a, a]), 25),
        (gram.kron_diagonal([a, a]), [1, 4, 4, 16]),
    ):
        assert got.dtype == np.int64 and np.array_equal(got, wanted)
    with pytest.raises(TypeError, match="a factor has dtype int8, expected"):
        gram.kron([a.astype(np.int8)])


def test_every_function_takes_lists():
    a = [[2, 1], [1, 2]]
    m = np.array(a, float)
    for got, wanted in (
        (gram.kernel(a), gram.kernel(m)),
        (gram.solve_lu(a, [1, 2]), np.linalg.solve(m, [1, 2])),
        (gram.solve_cholesky(a, [[1], [2]]), np.linalg.solve(m, [[1], [2]])),
        (gram.eigh(a, vectors=False), [1, 3]),
        (gram.eigh_many([a, [[1]]], vectors=False)[0], [1, 3]),
        (gram.matrix_power(a, 1, 1), a),
        (gram.matrix_power_many([a], 1, 1)[0], a),
        (gram.kron([a, [[1, 0], [0, 1]]]), np.kron(a, np.eye(2))),
        (gram.kron_matmul([[1, 0, 0, 0]], [a, [[1, 0], [0, 1]]]), [[2, 0, 1, 0]]),
        (gram.kernel_matmul(a, v=[1, 1]), gram.kernel(m).sum(1)),
        (gram.kernel_vjp(a, grad=[[0, 1], [1, 0]]), gram.kernel_vjp(m, grad=1 - np.eye(2))),
        (gram.median_distance([[0], [1], [5]]), 4),
        (gram.matmul_batched(a, a), m @ m),
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-12)


def test_tables_of_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0, 3, 6], "b": [0.0, 4.0, 8.0]})
    np.testing.assert_array_equal(gram.cdist(frame), D)
    np.testing.assert_array_equal(gram.cdist(X, frame), D)
    frame["c"] = ["x", "y", "z"]
    with pytest.raises(TypeError, match="x is of type DataFrame .* object, expected numbers"):
        gram.cdist(frame)


class Raising:
    """An exporter that is interrupted while it works."""

    def __init__(self, exception, where):
        self.exception, self.where = exception, where

    def __getattr__(self, name):
        if name == self.where:
            raise self.exception
        raise AttributeError(name)

    def __dlpack_device__(self):
        if self.where == "device":
            raise self.exception
        return 1, 0


class OfDlpack(Raising):
    def __dlpack__(self, **options):
        raise self.exception


class OfArray(Raising):
    """A table whose conversion raises."""

    def __array__(self, dtype=None, copy=None):
        raise self.exception


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("where", ["export", "device", "__dlpack__", "__array__"])
def test_exceptions_that_nobody_may_drop_pass_through(exception, where):
    made = exception("by the exporter")
    exporter = {"__dlpack__": Raising, "__array__": OfArray}.get(where, OfDlpack)(made, where)
    with pytest.raises(exception) as e:
        gram.cdist(exporter)
    assert e.value is made
    with pytest.raises(exception if where != "__array__" else TypeError) as e:
        gram.cdist(X, out=exporter)
    assert where == "__array__" or e.value is made


def test_exceptions_of_the_type_itself_pass_through():
    class Meta(type):
        def __getattr__(cls, name):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gram.cdist(Meta("Type", (), {})())
