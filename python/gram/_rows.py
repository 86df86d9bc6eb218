"""Rows of gram.krr_solve that are read in blocks, from whatever has them."""

import os


def open_rows(function, rows, dtype, count):
    """(n, d, read) of rows, where read(first, count, memory) fills memory with rows of that dtype.

    n is count where nobody knows it before the end: then as many must be there.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    if isinstance(rows, (str, os.PathLike)):
        rows = numpy.load(rows, mmap_mode="r")
    if all(hasattr(rows, name) for name in ("shape", "dtype", "__getitem__")):
        source = _Slices(function, rows, dtype)
    elif callable(rows):
        source = _Blocks(function, rows, dtype, count)
    else:
        raise TypeError(
            f"{function}: rows is of type {type(rows).__name__}, expected the path of a .npy file, "
            "an object with shape, dtype and slices, or a function that returns an iterator"
        )
    return source.rows, source.columns, source.read


def _check(function, what, shape, given, dtype):
    import numpy

    if len(shape) != 2:
        raise ValueError(f"{function}: {what} has {len(shape)} dimensions, expected 2")
    if not numpy.can_cast(numpy.dtype(given), dtype, "safe"):
        raise ValueError(f"{function}: {what} has dtype {given}, expected {dtype} as y")


def _room(memory, dtype, count, columns):
    import numpy

    return numpy.frombuffer(memory, dtype, count * columns).reshape(count, columns)


class _Slices:
    """An array, a memory map, a data set of h5py or zarr."""

    def __init__(self, function, array, dtype):
        _check(function, "rows", array.shape, array.dtype, dtype)
        self.function, self.array, self.dtype = function, array, dtype
        self.rows, self.columns = (int(size) for size in array.shape)

    def read(self, first, count, memory):
        block = self.array[first : first + count]
        if tuple(block.shape) != (count, self.columns):
            raise ValueError(
                f"{self.function}: rows[{first}:{first + count}] has the shape "
                f"{tuple(block.shape)}, expected {(count, self.columns)}"
            )
        _room(memory, self.dtype, count, self.columns)[...] = block


class _Blocks:
    """A function whose iterators give all rows in order, in blocks of any number of them."""

    def __init__(self, function, begin, dtype, rows):
        self.function, self.begin, self.dtype = function, begin, dtype
        self.rows, self.columns = rows, None
        self._again()
        self.block = self._next()
        self.columns = 0 if self.block is None else self.block.shape[1]

    def _again(self):
        self.blocks, self.at, self.block = iter(self.begin()), 0, None

    def _next(self):
        import numpy

        block = next(self.blocks, None)
        if block is None:
            return None
        block = numpy.asarray(block)
        _check(self.function, "a block of rows", block.shape, block.dtype, self.dtype)
        if self.columns is not None and block.shape[1] != self.columns:
            raise ValueError(
                f"{self.function}: a block of rows has {block.shape[1]} columns, expected "
                f"{self.columns} as the first one"
            )
        return block

    def _take(self, most):
        """At most so many rows, one at least; None behind the last one."""
        while self.block is None or len(self.block) == 0:
            self.block = self._next()
            if self.block is None:
                return None
        taken, self.block = self.block[:most], self.block[most:]
        self.at += len(taken)
        return taken

    def read(self, first, count, memory):
        if first < self.at:
            self._again()
        room = _room(memory, self.dtype, count, self.columns)
        while self.at < first + count:
            skipped = self.at < first
            taken = self._take((first if skipped else first + count) - self.at)
            if taken is None:
                raise ValueError(
                    f"{self.function}: rows end after {self.at} of them, expected {self.rows} as y"
                )
            if not skipped:
                end = self.at - first
                room[end - len(taken) : end] = taken
        if self.at == self.rows and self._take(1) is not None:
            raise ValueError(
                f"{self.function}: rows go on after {self.rows} of them, which are those of y"
            )
