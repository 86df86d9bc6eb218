"""test_docstrings.py - what every public docstring says: shapes, dtypes, units, errors, where a
method is from, and an example that runs

A docstring also says what that of "as gram.NAME" or "of gram.NAME" says, and a method's what that
of its class says.
"""

import doctest
import enum
import importlib
import inspect
import re

import gram
import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
SAYS = {
    "shapes": r"\((\.\.\.|[a-zA-Z]\w*),[^()]*\)",
    "dtypes": r"\b(b?float(16|32|64)|int32|dtypes?)\b",
    "errors": r"\bRaises\b",
    "source": r"\b(After|Sources?:) ",
    "bytes": r"\b[Bb]ytes\b",
    "seconds": r"\b(seconds|[Mm]illiseconds)\b",
}
NAMED = re.compile(r"\b(?:[Aa]s|of|[Ss]ee) (gram(?:\.\w+)+)")

MODULES = {
    "gram": None,
    "gram.cache": None,
    "gram.distributed": None,
    "gram.kernels": None,
    "gram.machine": None,
    "gram.sklearn": "sklearn",
    "gram.optim": "torch",
    "gram.torch": "torch",
    "gram.jax": "jax",
    "gram.gpytorch": "gpytorch",
    "gram.plot": "matplotlib",
    "gram.compat.scipy": "scipy",
    "gram.compat.sklearn": "sklearn",
    "gram.compat.torch": "torch",
    "gram.compat.kermac": "torch",
}
ARRAYS = ("shapes", "dtypes", "errors")
# What is owed by names that take no arrays, or cannot fail.
OTHERS = {
    "Communicator": ("errors", "seconds"),
    "LinAlgError": (),
    "Shape": ("shapes", "dtypes", "errors"),
    "Module": ("dtypes", "errors"),
    "best_device": (),
    "devices": (),
    "get_threads": (),
    "set_threads": ("errors",),
    "info": (),
    "memory_info": ("bytes", "errors"),
    "nccl_id": ("bytes", "errors"),
    "workspace": ("bytes", "errors"),
    "cache.clear": ("errors",),
    "cache.entries": ("bytes", "errors"),
    "cache.info": ("bytes", "errors"),
    "cache.warm": ("errors", "seconds"),
    "distributed.RayExecutor": ("errors",),
    "gpytorch.max_stored_bytes": ("bytes", "dtypes"),
    "compat.kermac.CudaTimer": ("seconds",),
    "compat.kermac.ModuleCache": ("errors",),
    "compat.kermac.TensorStats": ("shapes", "dtypes", "errors"),
    "compat.kermac.ceil_div": (),
    "compat.kermac.install": (),
    "compat.kermac.pre_compile_descriptors": ("dtypes", "errors"),
    "compat.kermac.tensor_stats": (),
    "plot.bench": ("errors", "seconds"),
    "plot.convergence": ("shapes", "errors"),
    "plot.eigh": ("errors", "seconds", "bytes"),
    "plot.eigh_overview": ("errors", "bytes"),
    "plot.feature_importance": ("errors",),
    "plot.training": ("errors",),
    "tune": (*ARRAYS, "seconds"),
    "tune_eigh": (*ARRAYS, "seconds"),
    "tune_kron": (*ARRAYS, "seconds"),
}
# Everything that computes is after somebody, but these, which are what they are by definition.
PLAIN = set(
    "cdist kernel_matmul kernel_matmul_vjp kron kron_diagonal kron_logdet kron_matmul_vjp "
    "kron_trace matmul_batched matmul_chunked syrk_ema nearest torch.nearest kernel_reduce "
    "kernel_reduce_vjp "
    "torch.kernel_reduce jax.kernel_reduce "
    "tune tune_eigh tune_kron Pending "
    "torch.per_sample_gradients plot.kernel_matrix plot.spectrum plot.convergence "
    "compat.scipy.pdist compat.sklearn.pairwise_distances compat.kermac.KernelDescriptor "
    "compat.kermac.cdist compat.kermac.run_kernel compat.kermac.cdist_expadd "
    "sklearn.KernelTransformer sklearn.KNeighborsTransformer "
    "optim.State gpytorch.KernelOperator compat.scipy.cdist "
    "compat.torch.cdist torch.cdist jax.cdist torch.kernel_matmul jax.kernel_matmul kernel_vjp "
    "kron_matmul_part torch.kron torch.matmul_batched torch.syrk_ema".split()
)


def found(name):
    """The object of a name as gram.sklearn.RFMRegressor, or None."""
    value = gram
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def sentences(thing, seen=()):
    """The docstring in one line, and those that it stands on."""
    text = " ".join((inspect.getdoc(thing) or "").split())
    for name in set(NAMED.findall(text)) - set(seen):
        other = found(name)
        if other is not None and other is not thing and callable(other):
            text += " " + sentences(other, (*seen, name))
    return text


def owed(name):
    """name as in OTHERS, without "gram."."""
    wants = OTHERS.get(name, ARRAYS)
    return wants if name in PLAIN or name in OTHERS else (*wants, "source")


def examples(thing):
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


def methods(thing):
    """The public methods of a class but those that a class of another package describes."""
    bases = inspect.getmro(thing)
    ours = [base for base in bases if base.__module__.startswith("gram")]
    theirs = {name for base in bases if base not in ours for name in dir(base)}
    for name in sorted({name for base in ours for name in vars(base)} - theirs):
        value = getattr(thing, name)
        place = getattr(value, "__module__", None) or "gram"  # of C: none
        if not name.startswith("_") and callable(value) and place.startswith("gram"):
            yield name, value


def problems(module, name, thing):
    """What a docstring lacks, in words."""
    short = f"{module}.{name}".partition(".")[2]
    if not inspect.getdoc(thing):
        return [f"{short} has no docstring"]
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        return []
    lacks = [w for w in owed(short) if not re.search(SAYS[w], sentences(thing))]
    lacks = [f"{short} says nothing of {what}" for what in lacks]
    if not examples(thing):
        lacks.append(f"{short} has no example")
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        calls = "".join(e.source for e in examples(thing))
        for method, value in methods(thing):
            if not inspect.getdoc(value):
                lacks.append(f"{short}.{method} has no docstring")
            elif not examples(value) and f".{method}(" not in calls:
                lacks.append(f"{short}.{method} is in no example")
    return lacks


def documented(module):
    """The names and values that a module offers and that have docstrings of their own."""
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value):
            yield name, value


def imported(name):
    if MODULES[name]:
        minimum = {"torch": "2.4"}.get(MODULES[name])
        pytest.importorskip(MODULES[name], minversion=minimum)
    return importlib.import_module(name)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_say_what_one_needs(name):
    module = imported(name)
    lacks = [] if module.__doc__ else [f"{name} has no docstring"]
    for each, value in documented(module):
        lacks += problems(name, each, value)
    assert not lacks, "\n".join(lacks)


def run(text, name, names):
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test)
    return runner.failures


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = imported(name)
    failed, texts = 0, {name: module.__doc__}
    for each, value in documented(module):
        texts[f"{name}.{each}"] = inspect.getdoc(value)
        if inspect.isclass(value):
            for method, function in methods(value):
                texts[f"{name}.{each}.{method}"] = inspect.getdoc(function)
    for each, text in texts.items():
        names = {} if name == "gram" else vars(module) | {"gram": gram}
        failed += run(text or "", each, names)
    assert not failed


def test_the_check_notices_what_is_missing():
    def bare(x):
        """Takes x (n, k), float32."""

    def kept(x):
        """As gram.agop, twice.

        >>> 1 + 1
        2
        """

    lacks = problems("gram", "bare", bare)
    assert [what.rpartition(" ")[2] for what in lacks] == ["errors", "source", "example"]
    assert problems("gram", "kept", kept) == []
    assert run(">>> 1 + 1\n3\n", "wrong", {}) == 1
