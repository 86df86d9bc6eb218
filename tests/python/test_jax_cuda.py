"""test_jax_cuda.py - the handler of gram.jax for CUDA without JAX: a runtime of XLA made of ctypes

It runs with the emulation of CUDA (tools/cudaemu/run), whose driver gives the memory.  On a GPU
with JAX test_jax.py runs as it is.
"""

import ctypes as c
import os
import pathlib

import gram
import numpy as np
import pytest
from gram import _core

if not os.environ.get("GRAM_TEST_EMULATED"):
    pytest.skip("needs the emulation of CUDA", allow_module_level=True)

HEAD = [("size", c.c_size_t), ("extensions", c.c_void_p)]
VOID = c.c_void_p


def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": [*HEAD, *fields]})


Version = struct("Version", ("major", c.c_int), ("minor", c.c_int))
ErrorRequest = struct("ErrorRequest", ("message", c.c_char_p), ("code", c.c_int))
ErrorEnd = struct("ErrorEnd", ("error", VOID))
Stream = struct("Stream", ("context", VOID), ("stream", VOID))
Ordinal = struct("Ordinal", ("context", VOID), ("ordinal", c.c_int))
Allocation = struct(
    "Allocation", ("context", VOID), ("bytes", c.c_size_t), ("alignment", c.c_size_t),
    ("data", VOID),
)  # fmt: skip
Release = struct("Release", ("context", VOID), ("bytes", c.c_size_t), ("data", VOID))
Buffer = struct(
    "Buffer", ("dtype", c.c_int), ("data", VOID), ("rank", c.c_int64), ("dims", VOID)
)
Values = struct("Values", ("count", c.c_int64), ("kinds", VOID), ("items", VOID))
Attributes = struct(
    "Attributes", ("count", c.c_int64), ("kinds", VOID), ("names", VOID), ("items", VOID)
)


class Text(c.Structure):
    _fields_ = [("at", c.c_char_p), ("length", c.c_size_t)]


class Numbers(c.Structure):
    _fields_ = [("dtype", c.c_int), ("count", c.c_size_t), ("data", VOID)]


def function(of):
    return c.CFUNCTYPE(VOID, c.POINTER(of))


FUNCTIONS = [
    ("create_error", function(ErrorRequest)), ("error_message", VOID),
    ("destroy_error", function(ErrorEnd)), ("register_handler", VOID),
    ("get_stream", function(Stream)), ("of_types_and_states", VOID * 4),
    ("allocate", function(Allocation)), ("release", function(Release)),
    ("of_threads_futures_and_runs", VOID * 6), ("get_ordinal", function(Ordinal)),
]  # fmt: skip
Api = struct("Api", ("version", Version), ("internal", VOID), *FUNCTIONS)
Frame = struct(
    "Frame", ("api", c.POINTER(Api)), ("context", VOID), ("stage", c.c_int),
    ("arguments", Values), ("results", Values), ("attributes", Attributes),
)  # fmt: skip
DTYPES = {"float32": 11, "float64": 12, "int32": 4}


def made(kind, *values):
    return kind(c.sizeof(kind), None, *values)


class Driver:
    """Memory of the device, as a program of XLA has it."""

    def __init__(self):
        folder = pathlib.Path(os.environ["GRAM_CUDA_LIB_DIR"])
        self.library = c.CDLL(str(folder / "libcuda.so.1"))
        context, device = VOID(), c.c_int()
        self.library.cuInit(0)
        self.library.cuDeviceGet(c.byref(device), 0)
        self.library.cuDevicePrimaryCtxRetain(c.byref(context), device)
        assert self.library.cuCtxSetCurrent(context) == 0

    def take(self, size):
        address = VOID()
        bad = self.library.cuMemAlloc_v2(c.byref(address), c.c_size_t(size)) if size else 0
        return None if bad else address.value

    def put(self, array):
        address = self.take(array.nbytes)
        self.library.cuMemcpyHtoD_v2(VOID(address), VOID(array.ctypes.data), array.nbytes)
        return address

    def get(self, address, like):
        out = np.empty_like(like)
        assert self.library.cuCtxSynchronize() == 0
        self.library.cuMemcpyDtoH_v2(VOID(out.ctypes.data), VOID(address), out.nbytes)
        return out


class Runtime:
    """What the handler asks of XLA: what went wrong, the stream, the device, scratch."""

    def __init__(self):
        self.driver = Driver()
        self.errors, self.scratch, self.peak, self.full = [], {}, 0, False
        members = {n: kind() for n, kind in FUNCTIONS} | {
            "create_error": FUNCTIONS[0][1](self.create_error),
            "destroy_error": FUNCTIONS[2][1](self.destroy_error),
            "get_stream": FUNCTIONS[4][1](lambda request: None),
            "allocate": FUNCTIONS[6][1](self.allocate),
            "release": FUNCTIONS[7][1](self.release),
            "get_ordinal": FUNCTIONS[9][1](lambda request: None),
        }
        self.api = made(Api, made(Version, 0, 1), None, *members.values())
        get = c.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = VOID, [c.py_object, c.c_char_p]
        self.handler = c.CFUNCTYPE(VOID, c.POINTER(Frame))(get(_core.xla_handlers()["CUDA"], None))

    def create_error(self, request):
        self.errors.append(request.contents.message.decode())
        return len(self.errors)

    def destroy_error(self, end):
        assert self.errors.pop() == "full" and end.contents.error
        return None

    def allocate(self, request):
        r = request.contents
        assert r.alignment in (1, 2, 4, 8, 16)  # XLA refuses others
        if self.full:
            self.errors.append("full")
            return 1
        r.data = self.driver.take(r.bytes)
        self.scratch[r.data] = r.bytes
        self.peak = max(self.peak, sum(self.scratch.values()))
        return None

    def release(self, request):
        r = request.contents
        assert self.scratch.pop(r.data) == r.bytes
        self.driver.library.cuStreamSynchronize(None)
        self.driver.library.cuMemFree_v2(VOID(r.data))
        return None

    def call(self, op, arrays, results, integers=(), numbers=(), text=""):
        """The results of an operation, arrays like those given."""
        kept = []

        def keep(thing):
            kept.append(thing)
            return c.addressof(thing)

        def values(addresses, like):
            buffers = []
            for address, a in zip(addresses, like, strict=True):
                dims = keep((c.c_int64 * a.ndim)(*a.shape))
                buffers.append(
                    keep(made(Buffer, DTYPES[a.dtype.name], address, a.ndim, dims))
                )
            kinds = keep((c.c_int * len(like))(*[1] * len(like)))
            return made(Values, len(like), kinds, keep((VOID * len(like))(*buffers)))

        def words(word):
            raw = word.encode()
            return keep(Text(raw, len(raw)))

        integers = np.array([*integers, 0], np.int64)
        numbers = np.array([*numbers, 0.0])
        attributes = {
            "op": (4, words(op)),
            "integers": (1, keep(Numbers(5, len(integers), integers.ctypes.data))),
            "numbers": (1, keep(Numbers(12, len(numbers), numbers.ctypes.data))),
            "text": (4, words(text)),
        }
        count = len(attributes)
        inputs = [self.driver.put(a) for a in arrays]
        outputs = [self.driver.take(a.nbytes) for a in results]
        frame = made(
            Frame, c.pointer(self.api), None, 3, values(inputs, arrays), values(outputs, results),
            made(Attributes, count, keep((c.c_int * count)(*[k for k, _ in attributes.values()])),
                 keep((VOID * count)(*[words(n) for n in attributes])),
                 keep((VOID * count)(*[a for _, a in attributes.values()]))),
        )  # fmt: skip
        failed = self.handler(c.byref(frame))
        assert not self.scratch
        if failed:
            raise RuntimeError(self.errors.pop())
        return [self.driver.get(a, like) for a, like in zip(outputs, results, strict=True)]


@pytest.fixture(scope="module")
def runtime():
    return Runtime()


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_distances_are_those_of_the_cpu(runtime):
    x, y = draw(20, 5), draw(12, 5, seed=1)
    (found,) = runtime.call("cdist", [x, y], [np.empty((20, 12))], [1], [1.5])
    np.testing.assert_allclose(found, gram.cdist(x, y, 1.5), rtol=1e-9)


def test_reductions_are_those_of_the_cpu(runtime):
    """bandwidth, regularization, v, log-weights, x, y; places are pairs of 32 bits."""
    x, y, v, logs = draw(9, 3), draw(7, 3, seed=1), draw(7, 2, seed=2), draw(7, seed=3)
    one, none = np.array(1.0), np.array(0.0)
    kernel, numbers = (2, 1, 0, 0, 0), (2.0, 1.0, 1.0, 1.0, 1.0, 0.0, 3.0)
    (found,) = runtime.call("kernel_reduce", [one, none, v, logs, x, y], [np.empty((9, 2))],
                            [*kernel, 4, 0, 1, 1], [*numbers, 2.5])  # fmt: skip
    options = {"what": "softmax", "v": v, "log_weights": logs, "scale": 2.5}
    np.testing.assert_allclose(found, gram.kernel_reduce(x, y, "gaussian", **options), rtol=1e-9)
    (places,) = runtime.call("kernel_reduce", [one, none, x, y], [np.empty((9, 2), np.int32)],
                             [*kernel, 2, 1, 0, 0], [*numbers, 1.0])  # fmt: skip
    wanted = gram.kernel_reduce(x, y, "gaussian", what="argmax")
    np.testing.assert_array_equal(places.view(np.int64)[:, 0], wanted)


def test_scratch_is_the_runtimes(runtime):
    shapes = (40, 40), (6, 40), (2, 40), (6, 40)
    inputs = [draw(*s, seed=i) for i, s in enumerate(shapes)]
    runtime.peak = 0
    for _ in range(2):
        (found,) = runtime.call("agop", inputs, [np.empty((6, 6))], [0, 0], [2.0])
        np.testing.assert_allclose(found, gram.agop(*inputs), rtol=1e-9)
    assert runtime.peak > 0
    runtime.full = True
    try:
        with pytest.raises(RuntimeError, match="gram.jax.agop: cannot allocate"):
            runtime.call("agop", inputs, [np.empty((6, 6))], [0, 0], [2.0])
    finally:
        runtime.full = False
    assert not runtime.errors


def test_a_factor_alone(runtime):
    """Its right-hand side has no columns: what gram.jax keeps for the solves that follow."""
    s = draw(3, 6, 6)
    a = s @ s.swapaxes(1, 2) + np.eye(6)
    a[1] = -a[1]
    factor, info = runtime.call("cholesky", [a], [a, np.empty(3, np.int32)], [1])
    assert info.tolist() == [0, 1, 0]
    np.testing.assert_allclose(np.tril(factor[2]), np.linalg.cholesky(a[2]), rtol=1e-9)
    b = draw(3, 6, 2)
    x, info = runtime.call("solve_factored", [factor[::2].copy(), b[::2].copy()],
                           [b[::2].copy(), np.empty(2, np.int32)], [1])  # fmt: skip
    np.testing.assert_allclose(a[::2] @ x, b[::2], atol=1e-9)


def test_what_is_wrong_is_said(runtime):
    x = draw(4, 3)
    with pytest.raises(RuntimeError, match="no such operation"):
        runtime.call("none", [x], [x])
    with pytest.raises(RuntimeError, match="gram.jax.cdist: p"):
        runtime.call("cdist", [x], [np.empty((4, 4))], [1], [-1.0])
    runtime.api.size -= 8  # a jaxlib that cannot say which device a call is for
    try:
        with pytest.raises(RuntimeError, match="newer jaxlib"):
            runtime.call("cdist", [x], [np.empty((4, 4))], [1], [1.0])
    finally:
        runtime.api.size += 8
