"""test_null.py - NULL for every pointer of every public function, one at a time

The functions are read from the header, so that none can be forgotten; each call is made in a child,
of which a crash is seen.  A context that is NULL is refused with a message of gram_message(NULL).
"""

import ctypes
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAM_BUILD_DIR", ROOT / "build"))
N, F64, I32 = 4, 2, 5
INVALID_ARGUMENT, UNSUPPORTED = 1, 2


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("index", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 8),
        ("stride", ctypes.c_int64 * 8),
    ]


class Scalar(ctypes.Structure):
    _fields_ = [("value", ctypes.c_double), ("tensor", ctypes.c_void_p)]


class Column(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("numbers", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
    ]


class Table(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("columns", ctypes.c_int64), ("column", ctypes.c_void_p)]


BY_VALUE = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "gram_scalar": Scalar,
    "gram_status": ctypes.c_int,
    "gram_optimizer_method": ctypes.c_int,
    "gram_reduction": ctypes.c_int,
    "gram_dtype": ctypes.c_int,
}
# What has no valid object here, and is always NULL: other arguments of the function are tried.
NO_OBJECT = {"gram_communicator", "gram_module", "gram_group", "gram_many", "gram_operator"}
VISIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def functions():
    """(name, type of the result, [(type, name)]) of every function of the headers."""
    headers = sorted((ROOT / "include/gram").glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", "".join(h.read_text() for h in headers), flags=re.S)
    found = []
    for match in re.finditer(r"^GRAM_(?:API|PUBLIC)\s([^;]*?)(\w+)\(([^;]*)\);", text, flags=re.M):
        result, name, arguments = match.groups()
        parsed = []
        for argument in arguments.split(","):
            argument = " ".join(argument.split())
            if argument == "void":
                continue
            kind, label = re.fullmatch(r"(.*?)(\w+)(?:\[\d*\])?", argument).groups()
            parsed.append((kind.strip() + (" *" if argument.endswith("]") else ""), label))
        found.append((name, " ".join(result.split()), parsed))
    assert len(found) == len(re.findall(r"^GRAM_(?:API|PUBLIC)\s", text, flags=re.M))
    return found


FUNCTIONS = functions()


@pytest.fixture(scope="module")
def library():
    name = "libgram.dylib" if os.uname().sysname == "Darwin" else "libgram.so"
    return ctypes.CDLL(str(BUILD / name))


class Objects:
    """Something valid for each type of pointer; what it points to is kept."""

    def __init__(self, library):
        self.library, self.keep = library, []
        self.context = ctypes.c_void_p()
        assert library.gram_context_create(None, ctypes.byref(self.context)) == 0

    def kept(self, thing):
        self.keep.append(thing)
        return ctypes.cast(ctypes.pointer(thing), ctypes.c_void_p)

    def tensor(self, label):
        shape = [] if label == "info" else [N] if label in ("values", "v") else [N, N]
        data = self.kept((ctypes.c_double * N**3)(*(9.0 * (i % (N + 1) == 0) for i in range(N**3))))
        tensor = Tensor(data.value, I32 if label == "info" else F64, Device(0, 0), len(shape))
        for i, size in enumerate(shape):
            tensor.shape[i], tensor.stride[i] = size, N ** (len(shape) - 1 - i)
        return self.kept(tensor)

    def table(self):
        numbers = self.kept((ctypes.c_double * 20)(*range(20)))
        column = self.kept(Column(b"a", numbers.value, None))
        return self.kept(Table(20, 1, column.value))

    def target(self):
        return self.kept(Column(b"y", self.kept((ctypes.c_double * 20)(*range(20))).value, None))

    def made(self, function, *arguments):
        out = ctypes.c_void_p()
        function = getattr(self.library, function)
        assert function(self.context, *arguments, ctypes.byref(out)) == 0
        return out

    def machine(self):
        return self.made("gram_machine_fit", self.table(), self.target(), None)

    def optimizer(self):
        list_of = self.kept((ctypes.c_void_p * 1)(self.tensor("w").value))
        return self.made("gram_optimizer_create", None, list_of, ctypes.c_int64(1))

    def kfac(self):
        one = self.kept((ctypes.c_int64 * 1)(N))
        layer = self.kept((ctypes.c_void_p * 1)(self.sized().value))
        return self.made("gram_kfac_create", layer, one, one, ctypes.c_int64(1), None)

    def plan(self):
        tensors = [self.tensor(name) for name in ("a", "values", "vectors")]
        return self.made("gram_eigh_plan", tensors[0], None, *tensors[1:], None)

    def sized(self, bytes_=4096):
        """A struct that begins with its size: 8 is the least, and everything else the default."""
        memory = (ctypes.c_size_t * (bytes_ // 8))()
        memory[0] = 8
        return self.kept(memory)

    def of(self, kind, label):
        base = kind.replace("const", "").replace("*", "").strip()
        if base in NO_OBJECT and label != "out":
            return None
        stars = kind.count("*")
        if base == "gram_context":
            return self.context if stars == 1 and label == "g" else self.kept(ctypes.c_void_p())
        if base == "gram_tensor":
            one = self.tensor(label)
            return one if stars == 1 else self.kept((ctypes.c_void_p * 2)(one.value, one.value))
        if base == "char" and stars == 2:
            return self.kept((ctypes.c_char_p * 2)(b"text", b"text"))
        if stars == 2:
            one = self.sized()
            return self.kept((ctypes.c_void_p * 2)(one.value, one.value))
        if base.endswith("_grads"):  # pointers, of which none is wanted
            return self.kept((ctypes.c_void_p * 16)())
        if base in ("void", "int64_t", "int", "gram_workspace"):
            return self.kept((ctypes.c_int64 * 512)(*[1] * 3))
        if base == "char":
            return ctypes.c_char_p(b"/nowhere/at/all" if label == "path" else b"text")
        make = {
            "gram_table": self.table,
            "gram_column": self.target,
            "gram_machine": self.machine,
            "gram_optimizer": self.optimizer,
            "gram_kfac": self.kfac,
            "gram_plan": self.plan,
        }
        return make.get(base, self.sized)()


def value(objects, kind, label):
    if kind == "gram_cache_visit":
        return objects.kept(VISIT(lambda user, entry: None))
    if kind in BY_VALUE:
        return BY_VALUE[kind](1)
    assert "*" in kind, f"a type that this test does not know: {kind} {label}"
    return objects.of(kind, label)


def call(library, name, result, arguments, null):
    """The result of a call with one argument NULL, in its own process; a signal is negative."""
    pid = os.fork()
    if pid == 0:
        code = 250
        try:
            objects = Objects(library)
            values = [
                ctypes.c_void_p() if i == null else value(objects, *argument)
                for i, argument in enumerate(arguments)
            ]
            function = getattr(library, name)
            function.restype = ctypes.c_int if result == "gram_status" else ctypes.c_void_p
            if result == "void":
                function.restype = None
            elif result == "gram_device":
                function.restype = Device
            said = function(*values)
            code = said if result == "gram_status" else 0
            if arguments[null][1] == "g" and result == "gram_status":
                library.gram_message.restype = ctypes.c_char_p
                if library.gram_message(None) != f"{name}: g is NULL".encode():
                    code = 251
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@pytest.mark.parametrize("name, result, arguments", FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_null_gives_a_status(library, name, result, arguments):
    for i, (kind, label) in enumerate(arguments):
        if kind in BY_VALUE:
            continue
        said = call(library, name, result, arguments, i)
        assert 0 <= said <= 8, f"{label} is NULL: {said}"
        if label == "g" and result == "gram_status":
            assert said == INVALID_ARGUMENT
