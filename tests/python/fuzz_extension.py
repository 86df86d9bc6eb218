"""fuzz_extension.py - calls of the package's functions with arguments drawn at random

    fuzz_extension.py [SEED] [CALLS]     the same calls for the same seed; 1 and 20000

Arguments are arrays of every layout, dtype and exporter, of shapes that fit more often than not,
lists, numbers, words and nonsense.  A call may raise what the documentation says.  Anything else is
a finding: another exception, an input that changed, memory beside an output that was written, and,
under the sanitizers (scripts/check python-asan), whatever these see.
"""

import ctypes
import inspect
import random
import sys
import traceback

import gram
import numpy as np


def takes_scratch(name):
    """Whether gram.workspace knows the function: any other answer than that it does not."""
    try:
        gram.workspace(name)
    except ValueError as e:
        return "takes scratch" not in str(e)
    except TypeError:
        return True
    return True


MAY = (TypeError, ValueError, NotImplementedError, OverflowError, MemoryError)
CALLS = [
    name
    for name in gram.__all__
    if name == "kron_trace" or takes_scratch(name)
    if name not in ("eigh_multi", "kron_matmul_multi")
]
# gram.workspace of them, under names of their own.
QUERIES = [f"{name}_workspace" for name in CALLS if name != "kron_trace"]
FUNCTIONS = CALLS + QUERIES
WORDS = (
    "all largest smallest index value laplace gaussian lpq-laplace product-laplace matern32 linear "
    "polynomial cosine distance auto divide jacobi krylov left right x y factors bandwidth sum "
    "product weight gradient norm lu cholesky eigen newton-schulz coupled-newton embedding linear "
    "convolution layer_norm reduce nonsense"
).split()
NUMBERS = (0, 1, 2, 3, -1, 0.5, 1.5, 1e-300, 1e300, 2**31, 2**63, 10**30, True, float("nan"),
           float("inf"), np.float32(2), np.int64(3))  # fmt: skip
TEXTS = ("", "s", "exp(-s)", "a * s", "s +", "\0", "pow(s, a)")
DTYPES = ("f8", "f8", "f8", "f4", "f4", "f2", "i4", "i8", "i1", "u2", "?", ">f8", "c16", "O", "V8")
# Arguments that are arrays, and those that are written.
ARRAYS = "x y a b c d v z grad gradients activations coefficients".split()
WRITTEN = "out info found factor pivots rcond backward refinings jittered error l".split()


class Drawn:
    """A random argument maker; size is what most dimensions of a call have."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.inputs, self.outputs = [], []

    def shape(self, dims=None):
        r = self.random
        dims = r.choice((2, 2, 2, 2, 1, 3, 0, 4, 8, 9)) if dims is None else dims
        last = [r.choice((self.size,) * 6 + (0, 1, 2, 3)) for _ in range(min(dims, 3))]
        return (1,) * (dims - len(last)) + tuple(last)

    def memory(self, dtype, shape):
        """An array in some layout, with guards around its memory."""
        r = self.random
        steps = [r.choice((1, 1, 1, 2, -1)) for _ in shape]
        whole = [n * abs(s) for n, s in zip(shape, steps, strict=True)]
        count = int(np.prod(whole, dtype=np.int64))
        if dtype in ("O", "V8", "c16"):
            return None, np.zeros(shape, dtype)
        rows = np.random.default_rng(r.getrandbits(32)).integers(-3, 4, count + 32)
        memory = rows.astype(dtype)
        order = r.sample(range(len(shape)), len(shape))
        view = memory[16 : 16 + count].reshape([whole[i] for i in order])
        view = view.transpose(np.argsort(order))
        view = view[(*(slice(None, None, s) for s in steps), ...)]
        if r.random() < 0.3 and view.ndim >= 2 and view.shape[-1] == view.shape[-2]:
            view = view + 9 * np.eye(view.shape[-1], dtype=view.dtype if dtype != "?" else "f8")
            memory = None
        return memory, view

    def array(self, dtype=None, dims=None):
        r = self.random
        dtype = dtype or r.choice(DTYPES)
        shape = self.shape(dims)
        _, view = self.memory(dtype, shape)
        way = r.randrange(12)
        if way == 0 and dtype in ("f8", "i4", "i1"):
            kind = {"f8": ctypes.c_double, "i4": ctypes.c_int, "i1": ctypes.c_int8}[dtype]
            for n in reversed(shape):
                kind = kind * n
            return kind()
        if way == 1 and dtype not in (">f8", "c16", "O", "V8"):
            return memoryview(view)
        if way == 2:
            return view.tolist()
        if way == 3 and dtype not in ("O", "V8"):
            view.flags.writeable = False
        if way == 4:
            view = np.broadcast_to(view, (2, *view.shape)) if view.ndim < 8 else view
        self.inputs.append((view, view.copy()))
        return view

    def output(self, dtype=None):
        """Memory to write into, whose guards are looked at afterwards."""
        dtype = dtype or self.random.choice(("f8", "f8", "f4", "i4", "i8"))
        memory, view = self.memory(dtype, self.shape())
        if memory is not None:
            inside = np.zeros(memory.shape, bool)
            base, size = memory.ctypes.data, memory.itemsize
            for at in np.ndindex(view.shape):
                offset = sum(i * s for i, s in zip(at, view.strides, strict=True))
                inside[(view.ctypes.data + offset - base) // size] = True
            self.outputs.append((memory, memory.copy(), ~inside))
        return view

    def anything(self):
        r = self.random
        return r.choice((
            lambda: None, lambda: r.choice(NUMBERS), lambda: r.choice(NUMBERS),
            lambda: r.choice(WORDS), lambda: r.choice(TEXTS), lambda: self.array(),
            lambda: (), lambda: {}, lambda: {"a": 2}, lambda: [1, 2], lambda: (1.0, 2.0),
            lambda: b"bytes", lambda: object(), lambda: (self.array("f8"), self.array("f8")),
        ))()  # fmt: skip

    def value(self, name):
        r = self.random
        if r.random() < 0.06:
            return self.anything()
        if name == "factors":
            return [self.array(self.dtype, 2) for _ in range(r.choice((1, 1, 2, 3, 0)))]
        if name in ARRAYS:
            return self.array(self.dtype if r.random() < 0.9 else None,
                              2 if r.random() < 0.8 else None)  # fmt: skip
        if name in WRITTEN:
            return self.output()
        if name in ("count", "first", "points", "rows", "seed", "iterations"):
            return r.choice((0, 1, 2, 5, -1))
        if r.random() < 0.5:
            return r.choice(NUMBERS)
        return r.choice((r.choice(WORDS), True, False, None, r.choice(TEXTS), (0.5, 1.5)))

    def call(self):
        """A function, or the query of its workspace, and its arguments."""
        r = self.random
        self.inputs, self.outputs = [], []
        self.size, self.dtype = r.choice((1, 2, 3, 4, 5, 17)), r.choice(("f8", "f8", "f4", None))
        name = r.choice(FUNCTIONS)
        given = {}
        function = getattr(gram, name.removesuffix("_workspace"))
        for p in inspect.signature(function).parameters.values():
            if p.default is p.empty or r.random() < 0.12:
                given[p.name] = self.value(p.name)
        return name, given


def changed(drawn):
    """What was written that should not have been, in words, or None."""
    for view, before in drawn.inputs:
        if view.dtype != object and view.tobytes() != before.tobytes():
            return "an input has changed"
    for memory, before, outside in drawn.outputs:
        if memory[outside].tobytes() != before[outside].tobytes():
            return "memory beside an output was written"
    return None


def run(seed, calls):
    """Makes the calls; (how many succeeded, the findings as texts)."""
    drawn, done, findings = Drawn(seed), 0, []
    for i in range(calls):
        name, given = drawn.call()
        try:
            if name in QUERIES:
                gram.workspace(name.removesuffix("_workspace"), **given)
            else:
                getattr(gram, name)(**given)
            done += 1
        except MAY:
            pass
        except Exception:  # noqa: BLE001: what else there may be is what is looked for
            findings.append(f"call {i} of seed {seed}: gram.{name}\n{traceback.format_exc()}")
        # x and y are left alone; what may be an input and an output at once is not among these.
        trouble = changed(drawn) if "l" not in given else None
        if trouble:
            findings.append(f"call {i} of seed {seed}: gram.{name}({given}): {trouble}")
    return done, findings


def main(arguments):
    seed, calls = [*map(int, arguments), 1, 20000][:2] if len(arguments) != 1 else (
        int(arguments[0]), 20000)  # fmt: skip
    gram.set_threads(1)
    done, findings = run(seed, calls)
    print(f"{calls} calls, {done} without an exception, {len(findings)} findings")
    print("\n".join(findings[:20]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
