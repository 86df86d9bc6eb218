"""arrow_stream.py - a producer of Arrow's C stream in ctypes, which needs no other package

Its batches lie in memory of Python's, and it counts what a consumer has not released yet.

SPDX-License-Identifier: MIT
"""

import ctypes

import numpy as np

WORD, POINTER = ctypes.c_int64, ctypes.c_void_p
TAKE = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER)
RELEASE = ctypes.CFUNCTYPE(None, POINTER)


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    _fields_ = [("get_schema", TAKE), ("get_next", TAKE), ("get_last_error", POINTER),
                ("release", POINTER), ("private_data", POINTER)]  # fmt: skip


Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
    ("flags", WORD), ("n_children", WORD),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))), ("dictionary", POINTER),
    ("release", POINTER), ("private_data", POINTER),
]  # fmt: skip
Array._fields_ = [
    ("length", WORD), ("null_count", WORD), ("offset", WORD), ("n_buffers", WORD),
    ("n_children", WORD), ("buffers", ctypes.POINTER(POINTER)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", POINTER),
    ("release", POINTER), ("private_data", POINTER),
]  # fmt: skip

capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [POINTER, ctypes.c_char_p, POINTER]


def pointers(kind, items):
    return (ctypes.POINTER(kind) * len(items))(*map(ctypes.pointer, items))


class Batches:
    """The rows of a matrix in f64, some of them a batch; `live` pieces are not released."""

    def __init__(self, x, rows):
        self.columns = [np.ascontiguousarray(c, np.float64) for c in x.T]
        self.count, self.rows, self.next, self.live = len(x), rows, 0, 1
        self.fields = [Schema(format=b"g", name=b"a") for _ in self.columns]
        self.children = pointers(Schema, self.fields)
        self.kept = []  # what batches point to
        self.releases = {kind: RELEASE(self.release_of(kind)) for kind in (Schema, Array, Stream)}
        self.stream = Stream(TAKE(self.get_schema), TAKE(self.get_next), None, self.at(Stream))

    def at(self, kind):
        return ctypes.cast(self.releases[kind], POINTER)

    def release_of(self, kind):
        def release(what):
            self.live -= 1
            POINTER.from_address(what + kind.release.offset).value = None

        return release

    def get_schema(self, _, out):
        self.live += 1
        kind = ctypes.POINTER(Schema)
        ctypes.cast(out, kind)[0] = Schema(
            format=b"+s", n_children=len(self.fields), children=self.children,
            release=self.at(Schema),
        )  # fmt: skip
        return 0

    def get_next(self, _, out):
        array = Array()
        count = min(self.rows, self.count - self.next)
        if count > 0:
            buffers = [(POINTER * 2)(None, c[self.next :].ctypes.data) for c in self.columns]
            columns = [Array(length=count, n_buffers=2, buffers=b) for b in buffers]
            children, own = pointers(Array, columns), (POINTER * 1)(None)
            array = Array(length=count, n_buffers=1, buffers=own, n_children=len(columns),
                          children=children, release=self.at(Array))  # fmt: skip
            self.kept.append((buffers, columns, children, own))
            self.next += count
            self.live += 1
        ctypes.cast(out, ctypes.POINTER(Array))[0] = array
        return 0

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)
