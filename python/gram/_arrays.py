"""What _core asks of libraries of arrays that it has no quicker way to.

Every library is found among the modules that are loaded already: whoever passes its arrays has
imported it.
"""

import sys
from typing import NamedTuple


class KronPart(NamedTuple):
    """A rank's part of a Kronecker product: see gram.kron_matmul_part."""

    split: str
    rows: slice
    columns: slice
    outs: slice


def _package(array):
    return type(array).__module__.partition(".")[0]


def current_stream(array, index):
    """The stream on which the library of a CUDA array works now, as a number; 0 is the default."""
    package = _package(array)
    if package == "torch":
        return sys.modules["torch"].cuda.current_stream(index).cuda_stream
    if package == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0


def allocate(index, size, stream):
    """Scratch on a CUDA device, of PyTorch's caching allocator: an address, 0 if there is none."""
    torch = sys.modules["torch"]
    try:
        return torch.cuda.caching_allocator_alloc(size, index, stream)
    except torch.cuda.OutOfMemoryError:
        return 0


def release(address):
    """Gives it back, in the order of its stream."""
    sys.modules["torch"].cuda.caching_allocator_delete(address)


def numbers(function, name, values, dtype):
    """Lists and integers as an array of floating-point numbers of that dtype, of the library that
    they are of; tables whose numbers are floating-point ones already keep their dtype.

    Returns the array, and what it was: -1 for a list, which has no dtype of its own, 0 for
    floating-point numbers, and the bytes of an integer.
    """
    package = _package(values)
    if package in ("cupy", "jax", "jaxlib"):
        return values.astype(dtype if package == "cupy" else float), values.dtype.itemsize
    import numpy

    try:
        array = numpy.asarray(values)
    except ValueError as e:
        raise ValueError(f"{function}: {name} cannot be converted to an array: {e}") from e
    is_list = isinstance(values, (list, tuple))
    if array.dtype.kind in "biu":
        return array.astype(dtype), -1 if is_list else array.dtype.itemsize
    if array.dtype.kind != "f":
        raise TypeError(
            f"{function}: {name} is of type {type(values).__name__} and has elements of dtype "
            f"{array.dtype}, expected numbers"
        )
    return (array.astype(dtype), -1) if is_list else (array, 0)


def cast(values, dtype):
    """An array of the CPU as a NumPy array of that dtype."""
    import numpy

    return numpy.asarray(values).astype(dtype)


def row_major(array):
    """The elements of an array without gaps: the array itself, or a copy."""
    package = _package(array)
    if package == "torch":
        return array.detach().contiguous()
    if package == "cupy":
        return sys.modules["cupy"].ascontiguousarray(array)
    if package in ("jax", "jaxlib"):
        return array
    import numpy

    plain = numpy.asarray(array)
    return plain if plain.flags.c_contiguous else plain.copy()


def open_rows(function, rows, dtype, count):
    """See gram._rows, which calls with rows alone need."""
    from gram._rows import open_rows as opened

    return opened(function, rows, dtype, count)


def eigh_count(function, select, count):
    """How many eigenvalues: 0 of "all", which alone can do without the number."""
    if select != "all" and count is None:
        raise ValueError(
            f"gram.{function}: select is {select!r}, but count, the number of pairs, is not given"
        )
    return count or 0


def empty(like, shape, dtype, device_type, index):
    """An array to write into, and the function that makes the caller's result of it, or None."""
    package = _package(like)
    if package == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device), None
    if package == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(index):
            return cupy.empty(shape, dtype), None
    if device_type:
        raise TypeError(
            f"gram: cannot make an output like a {type(like).__name__} on a CUDA device; "
            "pass out=, or arrays of PyTorch or CuPy"
        )
    if package in ("jax", "jaxlib"):
        return _aligned(shape, dtype), sys.modules["jax"].numpy.from_dlpack
    namespace = getattr(like, "__array_namespace__", None)
    if namespace is not None and hasattr(namespace(), "from_dlpack"):
        return _aligned(shape, dtype), namespace().from_dlpack
    return _aligned(shape, dtype), None


def _aligned(shape, dtype):
    """A NumPy array at a multiple of 64 bytes, which others can take over without a copy."""
    import numpy

    count = 1
    for size in shape:
        count *= size
    dtype = numpy.dtype(dtype)
    memory = numpy.empty(count * dtype.itemsize + 64, numpy.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + count * dtype.itemsize].view(dtype).reshape(shape)
