"""test_signatures.py - inspect.signature of every public name, as its stub has it"""

import ast
import importlib
import inspect
import pathlib

import gram
import numpy as np
import pytest

MODULES = {
    "gram": None, "gram.cache": None, "gram.kernels": None, "gram.machine": None,
    "gram.sklearn": "sklearn",
    "gram.optim": "torch", "gram.torch": "torch", "gram.jax": "jax", "gram.gpytorch": "gpytorch",
    "gram.plot": "matplotlib", "gram.compat.scipy": "scipy", "gram.compat.sklearn": "sklearn",
    "gram.compat.torch": "torch", "gram.compat.kermac": "torch",
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_signature(name):
    if MODULES[name]:
        pytest.importorskip(MODULES[name], minversion={"torch": "2.4"}.get(MODULES[name]))
    module = importlib.import_module(name)
    values = [getattr(module, each) for each in module.__all__]
    for value in filter(callable, values):
        signature = inspect.signature(value)
        methods = vars(value).items() if inspect.isclass(value) else ()
        for each, method in methods:
            if inspect.isroutine(method) and callable(method) and not each.startswith("_"):
                inspect.signature(method)
        assert all(p.kind is not p.VAR_KEYWORD for p in signature.parameters.values()) or (
            name != "gram" or value in (gram.LinAlgError, gram.workspace)
        )


def stubs():
    path = pathlib.Path(gram.__file__).parent / "__init__.pyi"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name: n.args for n in tree.body if isinstance(n, ast.FunctionDef)}


def of_stub(arguments):
    """(name, kind, default) of each."""
    kinds = inspect.Parameter
    both = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(both) - len(arguments.defaults)) + arguments.defaults
    found = [(a.arg, kinds.POSITIONAL_OR_KEYWORD, d) for a, d in zip(both, defaults, strict=True)]
    for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((a.arg, kinds.KEYWORD_ONLY, d))
    return [(n, k, kinds.empty if d is None else ast.literal_eval(d)) for n, k, d in found]


@pytest.mark.parametrize("name", sorted(set(stubs()) - {"set_threads", "workspace"}))
def test_signatures_are_those_of_the_stubs(name):
    parameters = inspect.signature(getattr(gram, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in parameters] == of_stub(stubs()[name])


CALLS = {
    "cdist": lambda f, **o: f(np.eye(3), **o),
    "kernel": lambda f, **o: f(np.eye(3), **o),
    "eigh": lambda f, **o: f(np.eye(3), **o),
    "median_distance": lambda f, **o: f(np.eye(3), **o),
    "kernel_logdet": lambda f, **o: f(np.eye(3), **o),
    "nearest": lambda f, **o: f(np.eye(3), count=2, **o),
    "matrix_power": lambda f, **o: f(np.eye(3), **o),
    "krr_path": lambda f, **o: f(np.eye(3), np.ones(3), [1.0], **o),
    "krr_solve": lambda f, **o: f(np.eye(3), np.ones(3), **{"ridge": 1.0} | o),
    "krr_samples": lambda f, **o: f(
        np.eye(3), np.ones(3), **{"ridge": 1.0, "z": np.ones((2, 3))} | o
    ),
    "krr_variance": lambda f, **o: f(np.eye(3), np.ones((2, 3)), **{"ridge": 1.0} | o),
    "solve_operator": lambda f, **o: f(lambda v: 2 * v, np.ones(3), **o),
    "logdet_operator": lambda f, **o: f(lambda v: 2 * v, np.ones(3), **o),
    "solve_lu": lambda f, **o: f(np.eye(3), np.ones(3), **o),
    "solve_cholesky": lambda f, **o: f(np.eye(3), np.ones(3), **o),
    "matmul_batched": lambda f, **o: f(np.eye(3), np.eye(3), **o),
    "natural_gradient": lambda f, **o: f(np.eye(3), np.ones(3), 1.0, **o),
    "kron_matmul": lambda f, **o: f(np.eye(3), [np.eye(3)], **o),
    "kernel_matmul": lambda f, **o: f(np.eye(3), v=np.eye(3), **o),
    "kernel_reduce": lambda f, **o: f(np.eye(3), what="max", **o),
    "agop": lambda f, **o: f(*[np.eye(3)] * 4, **o),
    "sample_grad": lambda f, **o: f(np.eye(3), np.eye(3), **o),
}


@pytest.mark.parametrize("name", CALLS)
def test_defaults_of_signatures_are_what_a_call_without_them_does(name):
    """Each default alone, given by name: one that a kernel does not have is refused."""
    function, call = getattr(gram, name), CALLS[name]
    plain = call(function)
    for p in inspect.signature(function).parameters.values():
        if p.default is p.empty or p.name in ("y", "kernel"):
            continue
        try:
            given = call(function, **{p.name: p.default})
        except ValueError as e:
            assert "has no such number" in str(e) or "without an expression" in str(e)
            continue
        np.testing.assert_array_equal(np.concatenate([np.ravel(r) for r in flat(given)]),
                                      np.concatenate([np.ravel(r) for r in flat(plain)]))


def flat(result):
    return result if isinstance(result, tuple) else (result,)
