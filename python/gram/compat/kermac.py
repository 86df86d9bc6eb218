"""The functions of kermac, computed by libgram on the CPU or on CUDA, in float32 or float64.

Names, arguments and shapes are those of kermac 0.1.  cdist_expadd and cdist_grad_expadd are the two
functions that xRFM looks for.  Results have a batch dimension.  Matrices are row-major or
column-major, and may be padded.  A number is a float, or a tensor with one value or with L values,
one per item of the batch.  As in kermac, FillMode names a triangle of the matrix in the order of
its memory: LOWER is the upper triangle of a row-major matrix.

The following differences from kermac are intended:

- An int is accepted as a number.
- skip_epilogue affects only the call to which it is given.
- Coordinates that are equal contribute 0 to cdist_grad.
- A NaN on the diagonal stays NaN.
- offset_x belongs to the rows of the result and offset_y to its columns, for every layout.
- solve_lu solves with a itself, and not with the transpose of a row-major a.
- Every p >= 0 is accepted, including inf, and so are sizes of 0.
- try_to_align is accepted, but has no effect.
- No call waits for the device, except that debug=True asks the cache which kernels it compiled.
- CudaTimer measures wall-clock time on a machine without a GPU.

install() makes `import kermac` find this module, for programs that cannot be changed:

>>> import gram.compat.kermac
>>> gram.compat.kermac.install()
>>> import kermac, torch
>>> kermac.cdist(torch.zeros(1, 2), torch.ones(1, 2), p=1.0).tolist()
[[[2.0]]]
"""

import contextlib
import dataclasses
import enum
import itertools
import sys
import time
import types

import torch

import gram

__all__ = [
    "Alignment",
    "CudaTimer",
    "FillMode",
    "InnerOperator",
    "KernelDescriptor",
    "KernelType",
    "Majorness",
    "ModuleCache",
    "PowerType",
    "Symmetry",
    "TensorStats",
    "cdist",
    "cdist_expadd",
    "cdist_grad",
    "cdist_grad_expadd",
    "ceil_div",
    "install",
    "kernel_descriptor_l1_norm",
    "kernel_descriptor_l2_norm",
    "kernel_descriptor_laplace_l1",
    "kernel_descriptor_laplace_l2",
    "kernel_descriptor_mma",
    "kernel_descriptor_p_norm",
    "linalg",
    "pre_compile_descriptors",
    "run_kernel",
    "tensor_stats",
]

__version__ = "0.1.4"


class InnerOperator(enum.Enum):
    """The terms of the sum: powers of b - a, or products of a and b."""

    DIFF = 0
    DOT = 1


class PowerType(enum.Enum):
    """The power of a term, or of the sum; POW needs a number as its exponent."""

    NOOP = 0
    ABS = 1
    SQUARE = 2
    SQRT = 3
    POW = 4


class Symmetry(enum.Enum):
    """Has no effect, as in kermac; libgram recognises by itself that a and b are the same."""

    NonSymmetric = 0
    Symmetric = 1


class KernelType(enum.Enum):
    """The function of the sum s: s itself, exp(-s / bandwidth), or exp(-s / (2 bandwidth^2)), which
    does not square s."""

    NONE = 0
    LAPLACE = 1
    GAUSSIAN = 2


@dataclasses.dataclass(frozen=True)
class KernelDescriptor:
    """A kernel: s = outer(sum of inner(operator)), then s itself, exp(-s / L) or exp(-s / (2 L^2)),
    with L the bandwidth.

    Shapes, dtypes and errors, also for combinations that are not possible, are the same as
    gram.compat.kermac.run_kernel has.

    >>> half = KernelDescriptor(
    ...     InnerOperator.DIFF, PowerType.ABS, PowerType.SQRT, KernelType.LAPLACE)
    >>> run_kernel(half, torch.zeros(1, 4), torch.ones(1, 4), bandwidth=2.0).log().tolist()
    [[[-1.0]]]
    """

    inner_operator: InnerOperator
    inner_power: PowerType
    outer_power: PowerType
    kernel_type: KernelType

    # The names of kermac's own attributes.
    _inner_operator = property(lambda self: self.inner_operator)
    _inner_power = property(lambda self: self.inner_power)
    _outer_power = property(lambda self: self.outer_power)
    _kernel_type = property(lambda self: self.kernel_type)


_D, _P, _K = InnerOperator, PowerType, KernelType
kernel_descriptor_laplace_l1 = KernelDescriptor(_D.DIFF, _P.ABS, _P.NOOP, _K.LAPLACE)
kernel_descriptor_laplace_l2 = KernelDescriptor(_D.DIFF, _P.SQUARE, _P.SQRT, _K.LAPLACE)
kernel_descriptor_p_norm = KernelDescriptor(_D.DIFF, _P.POW, _P.POW, _K.NONE)
kernel_descriptor_l1_norm = KernelDescriptor(_D.DIFF, _P.ABS, _P.NOOP, _K.NONE)
kernel_descriptor_l2_norm = KernelDescriptor(_D.DIFF, _P.SQUARE, _P.SQRT, _K.NONE)
kernel_descriptor_mma = KernelDescriptor(_D.DOT, _P.NOOP, _P.NOOP, _K.NONE)


# ---- Tensors and time ------------------------------------------------------------------------


class Majorness(enum.Enum):
    """Which index of a matrix is contiguous in memory."""

    COL_MAJOR = 0
    ROW_MAJOR = 1


class Alignment(enum.Enum):
    """ALIGN_4 is a column-major matrix whose columns begin at multiples of 16 bytes; ALIGN_1 is any
    other."""

    ALIGN_1 = 0
    ALIGN_4 = 1


class TensorStats:
    """The layout in memory of a float32 or float64 tensor with two or three dimensions.

    Attributes: shape (batches, rows, columns), majorness, alignment, num_batches, and batch_stride
    and leading_dimension_stride, both in elements.  Raises TypeError for another dtype or an
    argument that is not a tensor, and ValueError if no dimension of the matrices is contiguous.

    >>> TensorStats(torch.zeros(3, 4)).majorness
    <Majorness.ROW_MAJOR: 1>
    """

    def __init__(self, tensor):
        matrix = _matrix("kermac.tensor_stats", "tensor", tensor)
        row_stride, column_stride = matrix.stride()[-2:]
        row_major = _row_major(matrix)
        self.shape = tuple(matrix.shape)
        self.num_batches = matrix.shape[0]
        self.batch_stride = matrix.stride(0) if matrix.shape[0] != 1 else 0
        self.majorness = Majorness.ROW_MAJOR if row_major else Majorness.COL_MAJOR
        self.leading_dimension_stride = max(row_stride, column_stride)
        step = self.leading_dimension_stride * matrix.element_size()
        aligned = not row_major and matrix.data_ptr() % 16 == 0 and step % 16 == 0
        self.alignment = Alignment.ALIGN_4 if aligned else Alignment.ALIGN_1


def tensor_stats(tensor):
    """The gram.compat.kermac.TensorStats of a tensor, with the same shapes, dtypes and errors.

    >>> tensor_stats(torch.zeros(2, 3, 4)).shape
    (2, 3, 4)
    """
    return TensorStats(tensor)


class CudaTimer:
    """Measures the milliseconds between start() and stop(), by events of the current CUDA stream,
    or by the clock on a machine without a GPU.

    >>> timer = CudaTimer()
    >>> timer.start()
    >>> timer.stop() >= 0
    True
    """

    def __init__(self):
        self._events = None
        if torch.cuda.is_available():
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.start()

    def start(self):
        """Begins to measure."""
        if self._events:
            self._events[0].record()
        self._begin = time.perf_counter()

    def stop(self):
        """Waits for the work since start() and returns the milliseconds that it took."""
        if not self._events:
            return 1e3 * (time.perf_counter() - self._begin)
        self._events[1].record()
        self._events[1].synchronize()
        return self._events[0].elapsed_time(self._events[1])


def ceil_div(x, d):
    """x / d as an int, rounded up.

    >>> ceil_div(10, 4)
    3
    """
    return int((x + d - 1) // d)


# ---- What debug=True prints ------------------------------------------------------------------


def _say(text):
    print(f"(Kermac Debug) {text}")


@contextlib.contextmanager
def _told(debug, function, *tensors):
    """With debug: the call and its tensors before it, and after it the kernels it had compiled."""
    if not debug:
        yield
        return
    shapes = " ".join(f"{tuple(t.shape)}" for t in tensors)
    _say(f"{function}: {shapes}, {tensors[0].dtype}, {tensors[0].device}")
    cached = tensors[0].is_cuda
    before = _kernels() if cached else set()
    if cached:
        _say(f"Using database at: {gram.cache.info()['path']}")
    yield
    for line in sorted(_kernels() - before) if cached else ():
        _say(f"Compiled: {line}")


def _kernels():
    return {f"{e['kernel']} {e['chip']} {e['options']}" for e in gram.cache.entries()}


# ---- Arguments -------------------------------------------------------------------------------


def _matrix(function, name, t, last_only=False):
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"{function}: {name} is of type {type(t).__name__}, expected a tensor")
    if t.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{function}: {name} has dtype {t.dtype}, expected float32 or float64")
    if t.dim() not in (2, 3):
        raise ValueError(f"{function}: {name} has {t.dim()} dimensions, expected 2 or 3")
    rows, cols = t.shape[-2:]
    row_major = _row_major(t)
    col_major = t.stride(-2) == 1 and (t.stride(-1) >= rows or cols < 2)
    if not (row_major or (col_major and not last_only) or rows * cols <= 1):
        raise ValueError(
            f"{function}: {name} has strides {t.stride()}, expected a row-major"
            f"{'' if last_only else ' or column-major'} matrix"
        )
    return t.detach() if t.dim() == 3 else t.detach()[None]


def _row_major(t):
    return t.stride(-1) == 1 and (t.stride(-2) >= t.shape[-1] or t.shape[-2] < 2)


def _number(function, name, value):
    """A float, or a tensor of one value, or one value per item."""
    if isinstance(value, torch.Tensor):
        if value.dim() > 1:
            raise ValueError(f"{function}: {name} has {value.dim()} dimensions, expected 0 or 1")
        return value.detach().reshape(()) if value.numel() == 1 else value.detach()
    if isinstance(value, int | float):
        return float(value)
    raise TypeError(f"{function}: {name} is of type {type(value).__name__}, expected a number")


def _items(function, *parts):
    """The number of items that matrices and numbers share; each has it or 1."""
    sizes = {1}
    for part in parts:
        if isinstance(part, torch.Tensor) and part.dim():
            sizes.add(part.shape[0])
    if len(sizes) > 2:
        raise ValueError(f"{function}: batches of {sorted(sizes - {1})} items do not fit together")
    return max(sizes) if 0 not in sizes else 0


def _output(function, out, like, shape):
    if out is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device), None
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"{function}: out is of type {type(out).__name__}, expected a tensor")
    view = out if out.dim() == len(shape) else out[None]
    if tuple(view.shape) != tuple(shape):
        raise ValueError(f"{function}: out has shape {tuple(out.shape)}, expected {tuple(shape)}")
    return view.detach(), out


# ---- Distances and kernels -------------------------------------------------------------------


def cdist(a, b, out=None, p=2.0, skip_epilogue=False, try_to_align=False, debug=False):
    """Distances out[l, m, n] = (sum_k |a[l, m, k] - b[l, n, k]|^p)^(1/p).  skip_epilogue omits the
    power 1/p.

    a is (M, K) or (L, M, K), b is (N, K) or (L, N, K), and out is (L, M, N); all are float32, or
    all are float64.  Raises TypeError for arguments that are not tensors and for other dtypes, and
    ValueError for shapes, strides or p that do not fit.

    >>> cdist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).tolist()
    [[[5.0]]]
    """
    x, y = _matrix("kermac.cdist", "a", a), _matrix("kermac.cdist", "b", b)
    p = _number("kermac.cdist", "p", p)
    items = _items("kermac.cdist", x, y, p)
    to, given = _output("kermac.cdist", out, x, (items, x.shape[-2], y.shape[-2]))
    with _told(debug, "cdist", x, y, to):
        gram.cdist(x, y, p, not skip_epilogue, out=to)
    return to if given is None else given


def _power(which, kind, value):
    """The exponent that a PowerType is."""
    if (kind is _P.POW) != (value is not None):
        raise ValueError(
            f"kermac.run_kernel: {which}_power is {kind.name} and {which}_p is {value!r}: "
            "POW needs a number, the others take none"
        )
    fixed = {_P.NOOP: 1.0, _P.ABS: 1.0, _P.SQUARE: 2.0, _P.SQRT: 0.5}
    return _number("kermac.run_kernel", f"{which}_p", value) if kind is _P.POW else fixed[kind]


def _powers(descriptor, p, inner_p, outer_p):
    if p is not None:
        if inner_p is not None or outer_p is not None:
            raise ValueError("kermac.run_kernel: p cannot be given with inner_p or outer_p")
        inner_p, outer_p = p, 1.0 / p
    inner = _power("inner", descriptor.inner_power, inner_p)
    outer = _power("outer", descriptor.outer_power, outer_p)
    difference = descriptor.inner_operator is _D.DIFF
    if difference and descriptor.inner_power in (_P.NOOP, _P.SQRT):
        raise ValueError("kermac.run_kernel: DIFF needs the inner power ABS, SQUARE or POW")
    if not difference and descriptor.inner_power is not _P.NOOP:
        raise ValueError("kermac.run_kernel: DOT needs the inner power NOOP")
    return inner, outer


def run_kernel(
    kernel_descriptor,
    a,
    b,
    out=None,
    p=None,
    inner_p=None,
    outer_p=None,
    bandwidth=None,
    epsilon=None,
    regularization=None,
    regularization_offset_x=0,
    regularization_offset_y=0,
    try_to_align=False,
    debug=False,
):
    """The kernel matrix (L, M, N) of a (L, M, K) and b (L, N, K) for a KernelDescriptor.

    All are float32, or all are float64.  In a kernel, s below epsilon (default: 1e-5) counts as 0.
    With regularization r, the elements with offset_x + row == offset_y + column are set to 1 + r.
    Both are as in kermac.

    Raises TypeError for arguments that are not tensors and for other dtypes, and ValueError for
    shapes and strides that do not fit, for a combination of powers that is not possible, and for an
    exponent or a bandwidth that is missing or that the descriptor does not use.

    >>> zero, one = torch.zeros(1, 2), torch.ones(1, 2)
    >>> run_kernel(kernel_descriptor_laplace_l1, zero, one, bandwidth=2).log().tolist()
    [[[-1.0]]]
    """
    name = "kermac.run_kernel"
    x, y = _matrix(name, "a", a), _matrix(name, "b", b)
    inner, outer = _powers(kernel_descriptor, p, inner_p, outer_p)
    kind = kernel_descriptor.kernel_type
    if kind is _K.NONE and (bandwidth, epsilon, regularization) != (None, None, None):
        raise ValueError(f"{name}: NONE takes no bandwidth, epsilon or regularization")
    if kind is not _K.NONE and bandwidth is None:
        raise ValueError(f"{name}: {kind.name} needs a bandwidth")
    numbers = {
        "l": 1.0 if bandwidth is None else _number(name, "bandwidth", bandwidth),
        "e": 1e-5 if epsilon is None else _number(name, "epsilon", epsilon),
        "q": outer,
    }
    r = 0.0 if regularization is None else _number(name, "regularization", regularization)
    shape = _items(name, x, y, inner, r, *numbers.values()), x.shape[-2], y.shape[-2]
    to, given = _output(name, out, x, shape)
    s = "s" if kernel_descriptor.outer_power is _P.NOOP else "pow(s, q)"
    if kind is not _K.NONE:
        bottom = "l" if kind is _K.LAPLACE else "(2 * l * l)"
        s = f"exp(-({s} < e ? 0 : {s}) / {bottom})"
    parameters = {n: v for n, v in numbers.items() if f"{n}" in _letters(s)}
    of = "product" if kernel_descriptor.inner_operator is _D.DOT else "sum"
    power = {} if of == "product" else {"p": inner}
    # Items that differ on the diagonal alone are one matrix.
    first = to[: min(len(to), _items(name, x, y, inner, *parameters.values()))]
    with _told(debug, "run_kernel", x, y, to):
        gram.kernel(x, y, expression=s, of=of, parameters=parameters, out=first, **power)
    to[len(first) :] = first[:1]
    if regularization is not None and not (isinstance(r, float) and r == 0):
        _set_diagonal(to, r, regularization_offset_x, regularization_offset_y)
    return to if given is None else given


def _letters(expression):
    return set(expression.replace("exp", " ").replace("pow", " "))


def _set_diagonal(k, r, offset_x, offset_y):
    diagonal = k.diagonal(offset_x - offset_y, -2, -1)
    value = r[:, None] if isinstance(r, torch.Tensor) and r.dim() else r
    diagonal.copy_(torch.where(diagonal.isnan(), diagonal, torch.as_tensor(1 + value).to(k)))


def pre_compile_descriptors(device, descriptors, try_to_align=False, debug=False):
    """Compiles the kernels of KernelDescriptors for a device, by running each on a small and on a
    larger float32 problem, in the four layouts of its inputs.

    The compiled kernels stay in gram.cache, for all processes.  On the CPU nothing is compiled.
    gram.cache.warm compiles kernels without a GPU.  Raises ValueError for a descriptor whose powers
    are not possible.

    >>> pre_compile_descriptors("cpu", [kernel_descriptor_laplace_l2])
    """
    device = torch.device(device)
    for descriptor in descriptors:
        words = {} if descriptor.kernel_type is _K.NONE else {"bandwidth": 1.0}
        if descriptor.inner_power is _P.POW:
            words["inner_p"] = 1.3
        if descriptor.outer_power is _P.POW:
            words["outer_p"] = 1 / 1.3
        if debug:
            _say(f"Compiling: {descriptor}")
        sizes = (8,) if device.type == "cpu" else (64, 1024)
        for size, turned in itertools.product(sizes, range(4)):
            a, b = (torch.ones(size, 64, device=device) for _ in range(2))
            a, b = (a, b.t().contiguous().t()) if turned & 1 else (a, b)
            a = a.t().contiguous().t() if turned & 2 else a
            run_kernel(descriptor, a, b, debug=debug, **words)


class ModuleCache:
    """A class with the name of kermac's cache.  libgram compiles kernels at their first use, and
    keeps them in gram.cache.

    kermac's names of kernels have no counterpart.  Raises NotImplementedError when one is used.

    >>> ModuleCache().get_function(0, "cute_build_kernel")
    Traceback (most recent call last):
    NotImplementedError: kermac.ModuleCache: kernels of libgram are launched only by its functions
    """

    def __init__(self, debug=False):
        if debug and len(gram.devices()) > 1:
            _say(f"Using database at: {gram.cache.info()['path']}")

    def compile_and_cache_functions(self, device, function_names, debug=False):
        """Raises NotImplementedError.

        >>> try:
        ...     ModuleCache().compile_and_cache_functions(0, ["cute_build_kernel"])
        ... except NotImplementedError:
        ...     pass
        """
        self.get_function(device, function_names, debug)

    def get_function(self, device, function_name, debug=False):
        """Raises NotImplementedError."""
        raise NotImplementedError(
            "kermac.ModuleCache: kernels of libgram are launched only by its functions"
        )


# ---- Gradients -------------------------------------------------------------------------------


def cdist_grad(a, b, c, d, out=None, p=2.0, eps=1e-8, debug=False):
    """Gradients of kernel expansions:
    out[l, o, n, m] = sum_k c[o, k] a[k, m] sgn(d[n, m] - b[n, k]) |d[n, m] - b[n, k]|^(p - 1).

    Coordinates that are equal contribute 0 for every p, so eps, with which kermac avoids a division
    by zero, has no effect.  Matrices have two or three dimensions; all are float32, or all are
    float64.  Raises TypeError for arguments that are not tensors and for other dtypes, and
    ValueError for shapes, strides or p that do not fit.  Shapes and source as gram.cdist_grad.

    >>> one = torch.ones(1, 1)
    >>> cdist_grad(one, 2 * one, 3 * one, 5 * one).item()
    9.0
    """
    name = "kermac.cdist_grad"
    parts = [_matrix(name, n, t, True) for n, t in zip("abcd", (a, b, c, d), strict=True)]
    p = _number(name, "p", p)
    shape = (_items(name, *parts, p), parts[2].shape[-2], *parts[3].shape[-2:])
    to, given = _output(name, out, parts[0], shape)
    with _told(debug, "cdist_grad", *parts, to):
        gram.cdist_grad(*parts, p, out=to)
    return to if given is None else given


def _scale(lengthscale, scale, p):
    if (lengthscale is None) == (scale is None):
        raise ValueError("kermac.cdist_expadd: expected exactly one of lengthscale and scale")
    return scale if lengthscale is None else -1.0 / lengthscale**p


def cdist_expadd(a, b, *, p, lengthscale=None, scale=None, out=None, debug=False):
    """The sum of one kernel matrix per feature:
    out[l, m, n] = sum_k exp(scale |a[m, k] - b[n, k]|^p), with scale = -1 / lengthscale^p.

    a is (M, K) or (L, M, K), b is (N, K) or (L, N, K), and out is (L, M, N); all are float32, or
    all are float64.  Raises TypeError for arguments that are not tensors and for other dtypes, and
    ValueError for shapes that do not fit, and unless exactly one of lengthscale and scale is given.

    >>> cdist_expadd(torch.zeros(1, 3), torch.zeros(1, 3), p=1.0, lengthscale=1.0).item()
    3.0
    """
    name = "kermac.cdist_expadd"
    x, y = _matrix(name, "a", a), _matrix(name, "b", b)
    scale = _scale(lengthscale, scale, p)
    to, given = _output(name, out, x, (_items(name, x, y), x.shape[-2], y.shape[-2]))
    part = torch.empty_like(to)
    to.zero_()
    for k in range(x.shape[-1]):
        u, v = x[..., k : k + 1], y[..., k : k + 1]
        to += gram.kernel(
            u, v, expression="exp(s * a)", of="sum", p=p, parameters={"a": scale}, out=part
        )
    return to if given is None else given


def cdist_grad_expadd(
    a, b, c, d, *, p, q, c0, scale=None, lengthscale=None, eps=1e-8, s_km=None, out=None,
    debug=False,
):  # fmt: skip
    """Gradients of sum_k c[o, k] a[k, m] (c0 + S[k, m])^q by d, where S = cdist_expadd(b^T, d^T)
    and a counts as a constant.  With t = d[n, m] - b[n, k]:

    out[o, n, m] = sum_k c[o, k] a[k, m] q (c0 + S[k, m])^(q - 1) exp(scale |t|^p) scale p sgn(t)
    |t|^(p - 1).

    Coordinates that are equal contribute 0.  The work is one cdist_grad per feature.  s_km may be
    given as S.  Shapes, dtypes and errors are those of gram.compat.kermac.cdist_grad.  After
    Beaglehole et al., xRFM, arXiv:2508.10053.

    >>> one = torch.ones(1, 1)
    >>> g = cdist_grad_expadd(one, one, one, 2 * one, p=2.0, q=1.0, c0=0.0, lengthscale=1.0)
    >>> round(g.item(), 3)  # -2 / e
    -0.736
    """
    name = "kermac.cdist_grad_expadd"
    parts = [_matrix(name, n, t) for n, t in zip("abcd", (a, b, c, d), strict=True)]
    a, b, c, d = parts
    scale = _scale(lengthscale, scale, p)
    if s_km is None:
        s_km = cdist_expadd(b.mT.contiguous(), d.mT.contiguous(), p=p, scale=scale)
    weight = a * (q * (c0 + s_km) ** (q - 1)) * (scale * p)
    shape = (_items(name, *parts), c.shape[-2], *d.shape[-2:])
    to, given = _output(name, out, a, shape)
    for n in range(d.shape[-2]):
        u, v = b[..., n : n + 1, :], d[..., n : n + 1, :]
        near = gram.kernel(
            u.mT, v.mT, expression="exp(s * a)", of="sum", p=p, parameters={"a": scale}
        )
        to[..., n : n + 1, :] = gram.cdist_grad(weight * near, u, c, v, p)
    return to if given is None else given


# ---- kermac.linalg ---------------------------------------------------------------------------


class FillMode(enum.Enum):
    """The triangle of the matrix that is read, in the order of its memory, as for cuSOLVER: LOWER
    is the upper triangle of a row-major matrix."""

    LOWER = 0
    UPPER = 1


def _reads_lower(a, fill_mode):
    return (fill_mode is FillMode.LOWER) != _row_major(a)


def _solve(name, a, b, overwrite_a, overwrite_b, check_errors, debug, solve):
    a3, b3 = _matrix(name, "a", a), _matrix(name, "b", b, True)
    items = a3.shape[0]
    if b3.shape[0] != items:
        raise ValueError(f"{name}: a has {items} items but b has {b3.shape[0]}")
    info = torch.zeros(items, dtype=torch.int32, device=a3.device)
    factor = a3 if overwrite_a else torch.empty_like(a3.contiguous())
    x = b3 if overwrite_b else torch.empty_like(b3.contiguous())
    # The right-hand sides are rows.
    with _told(debug, name, a3, b3):
        solve(a3, b3.mT, factor=factor, info=info, out=x.mT)
    _check(name, info, check_errors)
    return (b if overwrite_b else x), info, torch.zeros_like(info)


def _check(name, info, check_errors):
    if check_errors and bool(info.any()):
        raise ValueError(f"{name}: some items failed, info is {info.tolist()}")


def solve_cholesky(
    a, b, fill_mode=FillMode.LOWER, overwrite_a=False, overwrite_b=False, check_errors=False,
    debug=False,
):  # fmt: skip
    """Solves with symmetric positive definite a (L, N, N); the right-hand sides are the rows of b
    (L, C, N).  Returns the solutions, also as rows, and two int32 tensors (L,): the first has 0, or
    the order of the leading minor that is not positive definite; the second has zeros.

    overwrite_a writes the factor over a, and overwrite_b the solutions over b.  check_errors raises
    ValueError if an item fails, and waits for the device.  Other errors are those of
    gram.compat.kermac.cdist."""

    def solve(a, b, **words):
        gram.solve_cholesky(a, b, lower=_reads_lower(a, fill_mode), **words)

    return _solve("solve_cholesky", a, b, overwrite_a, overwrite_b, check_errors, debug, solve)


def solve_lu(a, b, overwrite_a=False, overwrite_b=False, check_errors=False, debug=False):
    """The same as gram.compat.kermac.solve_cholesky for any square a (L, N, N)."""

    def solve(a, b, **words):
        pivots = torch.empty(a.shape[:-1], dtype=torch.int32, device=a.device)
        gram.solve_lu(a, b, pivots=pivots, **words)

    return _solve("solve_lu", a, b, overwrite_a, overwrite_b, check_errors, debug, solve)


def eigh(a, fill_mode=FillMode.LOWER, overwrite_a=False, check_errors=False):
    """Returns the eigenvalues (L, N) of symmetric a (L, N, N) in ascending order, the eigenvectors
    (L, N, N) in columns, and an int32 tensor (L,), which has 0 for an item that converged.

    With overwrite_a the eigenvectors are written over a, which saves a copy.  check_errors raises
    ValueError if an item fails, and waits for the device."""
    a3 = _matrix("eigh", "a", a)
    info = torch.zeros(a3.shape[0], dtype=torch.int32, device=a3.device)
    values = torch.empty(a3.shape[:-1], dtype=a3.dtype, device=a3.device)
    vectors = a3 if overwrite_a else torch.empty_like(a3)
    gram.eigh(a3, lower=_reads_lower(a3, fill_mode), info=info, out=(values, vectors))
    _check("eigh", info, check_errors)
    return values, vectors, info


linalg = types.ModuleType("kermac.linalg", "Solves and eigenproblems of kermac, by libgram.")
for _function in (solve_cholesky, solve_lu, eigh, FillMode):
    setattr(linalg, _function.__name__, _function)


def install():
    """Makes `import kermac` and `import kermac.linalg` find this module in this process.

    >>> install()
    >>> import kermac.linalg
    >>> kermac.linalg.solve_lu is solve_lu
    True
    """
    sys.modules["kermac"] = sys.modules[__name__]
    sys.modules["kermac.linalg"] = linalg
