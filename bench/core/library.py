"""core/library.py - libgram.so through ctypes, for what the Python package has no function for

A call is made ready once, with all that C wants of it, and then made as often as wanted.  The
structs are those of include/gram/.
"""

import ctypes as c

DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int32": 5, "int64": 6}
MAX_DIMS = 8
CUDA = 1


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


class ContextOptions(c.Structure):  # the library takes a struct without its last members
    _fields_ = [("size", c.c_size_t), ("device", Device), ("threads", c.c_int)]


class Layer(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        *[(name, c.c_int) for name in ("kind", "bias", "spatial")],
        *[(name, c.c_int64 * 3) for name in ("kernel", "stride", "padding", "dilation")],
        *[(name, c.c_int64) for name in ("groups", "rows", "padding_row")],
        ("normalized", c.c_int),
        ("epsilon", c.c_double),
    ]


class KfacOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        *[(name, c.c_int) for name in ("corrected", "damping")],
        *[(name, c.c_double) for name in ("lambda_", "decay", "kl_clip")],
        ("setting", c.c_int),
        ("scale", c.c_double),
        ("state", c.c_int),
    ]


def view(x):
    """A NumPy array or a PyTorch tensor as the library's; it has to outlive the calls."""
    if hasattr(x, "data_ptr"):
        dtype, data, strides = str(x.dtype).removeprefix("torch."), x.data_ptr(), x.stride()
        device = Device(CUDA, x.device.index or 0) if x.is_cuda else Device()
    else:
        dtype, data, device = x.dtype.name, x.ctypes.data, Device()
        strides = [s // x.itemsize for s in x.strides]
    dims = c.c_int64 * MAX_DIMS
    return Tensor(data, DTYPES[dtype], device, x.ndim, dims(*x.shape), dims(*strides))


class Library:
    """A context of libgram.so on a device."""

    def __init__(self, path, device="cpu", threads=1):
        self.lib = c.CDLL(str(path))
        self.lib.gram_message.restype = c.c_char_p
        place = Device(CUDA, 0) if device == "cuda" else Device()
        options = ContextOptions(c.sizeof(ContextOptions), place, threads)
        self.context = c.c_void_p()
        self.check(self.lib.gram_context_create(c.byref(options), c.byref(self.context)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.gram_message(self.context).decode())

    def ready(self, function, *arguments):
        """The call, without arguments."""
        call, given = getattr(self.lib, function), (self.context, *arguments)

        def run():
            self.check(call(*given))

        return run


class Kfac:
    """gram_kfac_* of one layer."""

    def __init__(self, library, layer, inputs, outputs, corrected, state, damping, decay):
        self.library, self.handle = library, c.c_void_p()
        options = KfacOptions(c.sizeof(KfacOptions), corrected, corrected, damping, decay, 0, 0, 1,
                              DTYPES[state])  # fmt: skip
        one = c.c_int64 * 1
        library.check(library.lib.gram_kfac_create(
            library.context, (c.POINTER(Layer) * 1)(c.pointer(layer)), one(inputs), one(outputs),
            c.c_int64(1), c.byref(options), c.byref(self.handle)))  # fmt: skip

    def update(self, a, g):
        a, g = view(a), view(g)
        return self.library.ready(
            "gram_kfac_update", self.handle, c.c_int64(0), c.byref(a), c.byref(g)
        )

    def refresh(self):
        return self.library.ready("gram_kfac_refresh", self.handle)

    def precondition(self, gradient, out):
        lists = [(c.POINTER(Tensor) * 1)(c.pointer(view(t))) for t in (gradient, out)]
        return self.library.ready("gram_kfac_precondition", self.handle, c.c_double(1), lists[0],
                                  None, lists[1], None)  # fmt: skip


def linear():
    """gram_layer of a linear layer without a bias."""
    return convolution(1, kind=0)


def convolution(order, kind=1):
    """gram_layer of a convolution of order by order, padded to keep its input's size."""
    three = c.c_int64 * 3
    half = order // 2
    return Layer(c.sizeof(Layer), kind, 0, 2, three(order, order, 1), three(1, 1, 1),
                 three(half, half, 0), three(1, 1, 1), 1, 0, -1, 1, 1e-5)  # fmt: skip
