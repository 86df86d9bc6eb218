"""gram_library.py - the few functions of libgram.so that the benchmark calls, through ctypes

Arrays are NumPy's; nothing is copied.  The structs are those of gram/gram.h.
"""

import ctypes as c

import numpy as np

DTYPES = {"float32": 1, "float64": 2}
MAX_DIMS = 8
LAPLACE, GAUSSIAN = 1, 2


class Device(c.Structure):
    _fields_ = [("type", c.c_int), ("index", c.c_int32)]


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_int),
        ("device", Device),
        ("ndim", c.c_int32),
        ("shape", c.c_int64 * MAX_DIMS),
        ("stride", c.c_int64 * MAX_DIMS),
    ]


class Scalar(c.Structure):
    _fields_ = [("value", c.c_double), ("tensor", c.POINTER(Tensor))]


class CdistOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("no_root", c.c_int)]


class KernelOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("inner", c.c_int),
        ("p", Scalar),
        ("outer_power", Scalar),
        ("function", c.c_int),
        ("bandwidth", Scalar),
        ("exponent", Scalar),
        ("alpha", Scalar),
        ("gamma", Scalar),
        ("coef0", Scalar),
        ("degree", Scalar),
        ("regularization", Scalar),
        ("row_offset", c.c_int64),
        ("column_offset", c.c_int64),
        ("output", c.c_int),
    ]


class PowerOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("numerator", c.c_int),
        ("denominator", c.c_int),
        ("method", c.c_int),
        ("uplo", c.c_int),
        ("ridge", Scalar),
        ("ridge_relative", c.c_int),
        ("condition", c.c_double),
        ("iterations", c.c_int),
        ("error", c.POINTER(Tensor)),
        ("tolerance", c.c_double),
        ("keep", c.c_int),
    ]


class SolveOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("uplo", c.c_int),
        ("factored", c.c_int),
        ("factor", c.POINTER(Tensor)),
        ("pivots", c.POINTER(Tensor)),
        ("rcond", c.POINTER(Tensor)),
        ("jitter", c.POINTER(c.c_double)),
        ("jitters", c.c_int),
        ("jittered", c.POINTER(Tensor)),
        ("refine", c.c_int),
        ("backward", c.POINTER(Tensor)),
        ("refinings", c.POINTER(Tensor)),
    ]


class EighReport(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("driver", c.c_int),
        ("products", c.c_int64),
        ("residual", c.c_double),
        ("dense", c.c_int64),
    ]


class EighOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("uplo", c.c_int),
        ("select", c.c_int),
        ("first", c.c_int64),
        ("count", c.c_int64),
        ("lower", c.c_double),
        ("upper", c.c_double),
        ("found", c.c_void_p),
        ("driver", c.c_int),
        ("tolerance", c.c_double),
        ("products", c.c_int64),
        ("seed", c.c_uint64),
        ("report", c.POINTER(EighReport)),
    ]


class KronOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("side", c.c_int),
        ("transpose_x", c.c_int),
        ("transpose_factors", c.c_uint32),
        ("alpha", Scalar),
        ("beta", Scalar),
        ("z", c.c_void_p),
    ]


class KronTuning(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("candidates", c.c_int),
        ("launches", c.c_int),
        ("table_launches", c.c_int),
        ("kept", c.c_int),
        ("ms", c.c_double),
        ("table_ms", c.c_double),
    ]


class KronGrads(c.Structure):
    _fields_ = [("x", c.POINTER(Tensor)), ("factors", c.c_void_p)]


class KronSolveOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("side", c.c_int),
        ("method", c.c_int),
        ("uplo", c.c_int),
        ("shift", Scalar),
    ]


class ContextOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("device", Device),
        ("threads", c.c_int),
        ("cpu_isa", c.c_char_p),
        ("allocate", c.c_void_p),
        ("release", c.c_void_p),
        ("user", c.c_void_p),
        ("trace", c.c_void_p),
        ("trace_user", c.c_void_p),
        ("stream", c.c_void_p),
        ("scratch_limit", c.c_size_t),
    ]


class Info(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("version", c.c_char_p),
        ("cpu_isa", c.c_char_p),
        ("cpu_isas", c.c_char_p),
        ("blas", c.c_char_p),
        ("threads", c.c_int),
        ("cuda_devices", c.c_int),
        ("memory_total", c.c_int64),
        ("memory_available", c.c_int64),
    ]


def tensor(array):
    t = Tensor(data=array.ctypes.data, dtype=DTYPES[array.dtype.name], ndim=array.ndim)
    for i in range(array.ndim):
        t.shape[i] = array.shape[i]
        t.stride[i] = array.strides[i] // array.itemsize
    return t


def number(value):
    return Scalar(value=value)


class Gram:
    """A context of the library at a path, on the CPU or on another device."""

    def __init__(self, path, threads, device=Device()):
        self.lib = c.CDLL(path)
        self.lib.gram_message.restype = c.c_char_p
        options = ContextOptions(size=c.sizeof(ContextOptions), threads=threads, device=device)
        self.context = c.c_void_p()
        self.check(self.lib.gram_context_create(c.byref(options), c.byref(self.context)))
        info = Info(size=c.sizeof(Info))
        self.check(self.lib.gram_context_info(self.context, c.byref(info)))
        self.info = {
            "version": info.version.decode(),
            "isa": info.cpu_isa.decode(),
            "isas": info.cpu_isas.decode(),
            "blas": info.blas.decode(),
            "threads": info.threads,
        }

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.gram_message(self.context).decode())

    def cdist(self, x, y, p, out, no_root=False):
        options = CdistOptions(c.sizeof(CdistOptions), int(no_root))
        tx, to = tensor(x), tensor(out)
        ty = c.byref(tensor(y)) if y is not None else None
        self.check(
            self.lib.gram_cdist(
                self.context, c.byref(tx), ty, number(p), c.byref(options), c.byref(to)
            )
        )

    def kernel(self, x, y, out, function, bandwidth, p=2.0):
        options = KernelOptions(
            size=c.sizeof(KernelOptions),
            inner=1,
            p=number(p),
            outer_power=number(1),
            function=function,
            bandwidth=number(bandwidth),
            exponent=number(1),
            alpha=number(1),
            gamma=number(1),
            coef0=number(0),
            degree=number(3),
            regularization=number(0),
        )
        tx, ty, to = tensor(x), tensor(y), tensor(out)
        self.check(
            self.lib.gram_kernel(
                self.context, c.byref(tx), c.byref(ty), c.byref(options), c.byref(to)
            )
        )

    def cdist_grad(self, a, b, coefficients, d, p, out):
        ts = [tensor(t) for t in (a, b, coefficients, d, out)]
        ta, tb, tc, td, to = (c.byref(t) for t in ts)
        self.check(self.lib.gram_cdist_grad(self.context, ta, tb, tc, td, number(p), to))

    def matrix_power(self, a, out, power=(-1, 4), method=0, condition=0.0):
        options = PowerOptions(
            size=c.sizeof(PowerOptions),
            numerator=power[0],
            denominator=power[1],
            method=method,
            condition=condition,
        )
        ta, to = tensor(a), tensor(out)
        self.check(
            self.lib.gram_matrix_power(
                self.context, c.byref(ta), c.byref(options), c.byref(to), None
            )
        )

    def solve(self, a, b, x, lu=False, refine=False):
        options = SolveOptions(size=c.sizeof(SolveOptions), refine=int(refine))
        ta, tb, tx = tensor(a), tensor(b), tensor(x)
        call = self.lib.gram_solve_lu if lu else self.lib.gram_solve_cholesky
        self.check(
            call(self.context, c.byref(ta), c.byref(tb), c.byref(options), c.byref(tx), None)
        )


def random(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
