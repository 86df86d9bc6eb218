"""test_documents.py - what the pages of docs/ say in Python runs, stubs say what is there"""

import ast
import doctest
import importlib
import inspect
import os
import pathlib
import re

import gram
import numpy as np
import pytest

import gram.optim

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
PUBLIC = [name for name in gram.__all__ if callable(getattr(gram, name))]


def run(text, name):
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test)
    assert not runner.failures
    return len(test.examples)


def stub_functions(name):
    path = pathlib.Path(gram.__file__).parent / f"{name}.pyi"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}, tree


def test_stubs_know_every_name():
    functions, tree = stub_functions("__init__")
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    imported = {a.asname or a.name for node in imports for a in node.names}
    values = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    known = set(functions) | classes | imported | values
    assert set(gram.__all__) <= known, set(gram.__all__) - known


def arguments_of(node):
    a = node.args
    named = a.posonlyargs + a.args + [a.vararg] + a.kwonlyargs + [a.kwarg]
    return [each.arg for each in named if each]


def test_stubs_take_what_the_functions_take():
    """The functions refuse what their stub does not have, and know all that it has."""
    functions, _ = stub_functions("__init__")
    classes = {"Communicator", "LinAlgError", "Machine", "Module", "Pending", "Shape"}
    for name in set(PUBLIC) - classes:
        function, arguments = getattr(gram, name), arguments_of(functions[name])
        if inspect.isfunction(function):  # of Python, which refuses others itself
            assert list(inspect.signature(function).parameters) == arguments
            continue
        for argument in arguments:
            if name == "set_threads" or argument in arguments[:1]:
                continue
            with pytest.raises(TypeError) as e:
                function(**{argument: None})
            assert "has no argument" not in str(e.value), (name, argument)
        if arguments and name != "set_threads":
            with pytest.raises(TypeError, match="has no argument 'other'"):
                function(other=None)
        if function.__text_signature__:
            assert list(inspect.signature(function).parameters) == arguments


def test_stubs_of_the_optimizers():
    """Every name, and of the classes every argument and its default."""
    _, tree = stub_functions("optim")
    nodes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    assert set(nodes) - {"_Optimizer"} == set(gram.optim.__all__)
    pytest.importorskip("torch", minversion="1.13.0a0")
    for name in ("Shampoo", "SOAP", "Muon", "KFAC"):
        init = next(n for n in nodes[name].body if getattr(n, "name", "") == "__init__")
        known = inspect.signature(getattr(gram.optim, name).__init__).parameters
        assert arguments_of(init) == list(known), name
        given = [ast.literal_eval(d) for d in init.args.defaults + init.args.kw_defaults]
        assert given == [p.default for p in list(known.values())[2:]], name


MODULES = (
    "cache distributed fit gpytorch jax kernels machine plot sklearn torch compat/kermac "
    "compat/scipy compat/sklearn compat/torch"
).split()


def is_public(node):
    kind = ast.FunctionDef | ast.ClassDef
    return isinstance(node, kind) and (not node.name.startswith("_") or node.name == "__init__")


def signatures(tree, name=""):
    """{name: arguments as (name, how it is given, default)}, of classes and their methods too."""
    found = {}
    for node in filter(is_public, tree.body):
        path = f"{name}{node.name}"
        if isinstance(node, ast.ClassDef):
            found |= {path: [ast.unparse(base) for base in node.bases]}
            found |= signatures(node, f"{path}.")
            continue
        a = node.args
        plain = a.posonlyargs + a.args
        defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
        given = [(p.arg, "either", d) for p, d in zip(plain, defaults, strict=True)]
        given += [(p.arg, "name", d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
        given += [(p.arg, "rest", None) for p in (a.vararg, a.kwarg) if p]
        found[path] = [(n, how, d and ast.unparse(d)) for n, how, d in given]
    return found


def offered(module):
    """The signatures of a module, and of what __all__ takes from parts with an underscore."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    named = [n.value for n in tree.body if isinstance(n, ast.Assign) and is_all(n.targets[0])]
    names = ast.literal_eval(named[0]) if named else []
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gram._"):
            taken = {alias.name for alias in node.names} & set(names)
            if not taken or not part_of(node.module).exists():  # of C
                continue
            part = signatures(ast.parse(part_of(node.module).read_text(encoding="utf-8")))
            found |= {path: s for path, s in part.items() if path.partition(".")[0] in taken}
    return found | signatures(tree)


def is_all(target):
    return isinstance(target, ast.Name) and target.id == "__all__"


def part_of(name):
    return pathlib.Path(gram.__file__).parent / f"{name.partition('.')[2]}.py"


@pytest.mark.parametrize("name", MODULES)
def test_stubs_of_modules(name):
    """Every class, method, function, argument and default; ... stands for any default."""
    known = offered(pathlib.Path(gram.__file__).parent / f"{name}.py")
    stub = signatures(stub_functions(name)[1])
    assert list(stub) == list(known)
    for path, arguments in known.items():
        for mine, theirs in zip(stub[path], arguments, strict=True):
            assert mine == theirs or (mine[:2] == theirs[:2] and mine[2] == "..."), (path, mine)


def test_every_module_has_a_stub():
    folder = pathlib.Path(gram.__file__).parent
    public = [p for f in ("*.py", "compat/*.py") for p in folder.glob(f) if p.name[0] != "_"]
    stubs = {p for p in public if p.with_suffix(".pyi").exists()}
    assert stubs == set(public)
    assert {str(p.relative_to(folder).with_suffix("")) for p in public} == {*MODULES, "optim"}


def python_examples(path):
    """The blocks of a page that are sessions of Python, as one."""
    text = path.read_text(encoding="utf-8")
    blocks = [b.split("```")[0] for b in text.split("```python\n")[1:]]
    return "\n".join(b for b in blocks if b.startswith(">>>"))


PAGES = [p for p in sorted(SOURCE.glob("docs/**/*.md")) if python_examples(p)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(SOURCE)))
def test_examples_of_the_documents(page, tmp_path, monkeypatch):
    """In a folder that has examples/data, as the project's has; what a page writes stays there."""
    (tmp_path / "examples").symlink_to(SOURCE / "examples")
    monkeypatch.chdir(tmp_path)
    least = {"python.md": 10, "second-order.md": 4}
    assert run(python_examples(page), page.name) >= least.get(page.name, 1)


def test_documents_have_examples():
    assert {"python.md", "second-order.md"} <= {page.name for page in PAGES}


def test_what_the_page_of_other_packages_names_is_here():
    pages = sorted(SOURCE.glob("docs/coming-from/*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for package in (
        "scikit-learn", "SciPy", "GPyTorch", "LightGBM", "kermac", "FastKron", "kernel_tools",
        "torchium", "KeOps",
    ):  # fmt: skip
        assert re.search(rf"^#+ (Coming from )?{package}$", text, re.M), package
    names = set(re.findall(r"\b(?:gram|gt)(?:\.\w+)+", text))
    assert len(names) >= 30
    for name in sorted(names):
        value, path = gram, name.replace("gt.", "gram.torch.", 1).split(".")[1:]
        try:
            for i, part in enumerate(path):
                if path[0] == "compat" and i == 1:
                    value = importlib.import_module(f"gram.compat.{part}")
                else:
                    value = getattr(value, part)
        except ImportError:
            continue  # of a package that is not installed here


def test_typing_marker():
    assert (pathlib.Path(gram.__file__).parent / "py.typed").exists()
    assert importlib.import_module("gram.cache") is gram.cache
    assert np.isfinite(gram.cdist(np.ones((2, 2)))).all()
