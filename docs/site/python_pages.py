"""python_pages.py - the reference of a Python module, from its stub and its docstrings

The stub (.pyi) has every name, argument, type and default; the docstrings are those of the source,
or, of functions that are written in C, those of the module that was built.  Nothing of PyTorch,
JAX or scikit-learn has to be installed.
"""

import ast
import importlib
import inspect
import pathlib
import re
import textwrap

PACKAGE = pathlib.Path(__file__).parents[2] / "python" / "gram"
# The pages of the functions of gram itself, which are too many for one.
TOPICS = {
    "distances": """cdist nearest median_distance cdist_grad agop""",
    "kernels": """kernel kernel_matmul kernel_matmul_vjp kernel_reduce kernel_reduce_vjp
        kernel_vjp""",
    "linear-algebra": """solve_cholesky solve_lu matmul_batched matmul_chunked syrk_ema matrix_power
        matrix_power_many krr_path krr_samples krr_solve krr_variance
        kernel_logdet solve_operator logdet_operator LinAlgError""",
    "eigen": """eigh eigh_kernel eigh_operator eigh_many eigh_multi Pending""",
    "kronecker": """kron kron_matmul kron_matmul_vjp kron_solve kron_logdet kron_trace kron_diagonal
        kron_matmul_multi kron_matmul_part Communicator KronPart nccl_id""",
    "layers": """sample_grad kfac_factors natural_gradient""",
    "devices": """devices best_device memory_info info get_threads set_threads workspace Shape tune
        tune_eigh tune_kron Module Tuning EighTuning KronTuning MemoryInfo Info""",
}
SPECIAL = re.compile(r"([\\*`|_<>\[\]])")


def escaped(text):
    """Plain text as reStructuredText; `name` and names of the package become code."""
    name = r"`[^`\n]+`|\bgram\.(?!h\b)\w+(?:\.\w+)*|\bdocs/[\w/-]+\.md"
    parts = re.split(f"({name})", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = SPECIAL.sub(r"\\\1", part)
        elif part[0] == "`":
            parts[i] = f"``{part[1:-1]}``"
        elif part.startswith("docs/"):
            parts[i] = f":doc:`/{part[len('docs/') : -len('.md')]}`"
        else:
            parts[i] = f":py:obj:`{part}`\\ " if parts[i + 1][:1] == "(" else f":py:obj:`{part}`"
    return re.sub(r"(?<=\w)(:py:obj:)", r"\\ \1", "".join(parts))


def is_example(line):
    return line.startswith(">>>")


def body(docstring):
    """A docstring, which is plain text with examples and tables, as reStructuredText."""
    lines = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        rows = block.split("\n")
        first = next((i for i, row in enumerate(rows) if is_example(row)), len(rows))
        text, example = rows[:first], rows[first:]
        if any(row.startswith("  ") or re.search(r"\S {3,}\S", row) for row in text):
            lines += ["::", ""] + [f"   {row}" for row in text] + [""]
        elif text:
            lines += [escaped("\n".join(text)), ""]
        if example:
            lines += [".. code-block:: pycon", ""] + [f"   {row}" for row in example] + [""]
    return "\n".join(lines)


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings_of(tree):
    """{"name" or "Class.method": docstring} of one source file."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.get_docstring(node)
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}.{inner.name}"] = ast.get_docstring(inner)
    return found


class Docstrings:
    """The docstrings of a module: of its own file, of the package's private ones, of the core."""

    def __init__(self, module):
        name = module.partition(".")[2]
        path = PACKAGE / (name.replace(".", "/") + ".py" if name else "__init__.py")
        self.module = ast.get_docstring(parsed(path))
        self.own = docstrings_of(parsed(path))
        self.others = {}
        if "compat" not in module:
            for other in sorted(PACKAGE.glob("_*.py")):
                wanted = not re.match(r"_(torch|jax)_", other.name)
                self.others |= docstrings_of(parsed(other)) if wanted else {}
        self.core = importlib.import_module("gram") if module == "gram" else None

    def of(self, name):
        if self.own.get(name):
            return self.own[name]
        value = self.core
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None and self.core is not None and part not in ("__init__", "__new__"):
            return inspect.getdoc(value)
        return self.others.get(name)


def arguments(node, method):
    """The arguments as they are written, without self, one line."""
    text = ast.unparse(node.args)
    return re.sub(r"^(self|cls)(, )?", "", text) if method else text


def result(node):
    return f" -> {ast.unparse(node.returns)}" if node.returns else ""


def unique(overloads):
    """Overloads that differ in nothing that a signature shows are shown once.

    Which library an array is of is known to type checkers alone; here it is an Array.
    """
    plain = [re.sub(r"_NumPyLike|_ArrayT|NDArray\[[\w.]+\]", "Array", text) for text in overloads]
    return list(dict.fromkeys(plain))


def directive(kind, signatures, text):
    head = f".. py:{kind}:: " + "\n".join(
        s if i == 0 else " " * (len(kind) + 10) + s for i, s in enumerate(signatures)
    )
    return f"{head}\n\n{textwrap.indent(text, '   ')}\n"


def is_public(name):
    return not name.startswith("_") or name in ("__enter__",)


def class_text(node, docs):
    constructor = [
        n for n in node.body if getattr(n, "name", "") in ("__init__", "__new__")
    ]  # fmt: skip
    short = node.name
    signatures = unique([f"{short}({arguments(n, True)})" for n in constructor]) or [short]
    base = ", ".join(ast.unparse(b) for b in node.bases if not ast.unparse(b).startswith("_"))
    parts = [f"Bases: ``{base}``\n" if base and base != "TypedDict" else ""]
    parts.append(body(docs.of(short)))
    methods = {}
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and is_public(inner.name):
            if inner.name != "__enter__":
                methods.setdefault(inner.name, []).append(inner)
        elif isinstance(inner, ast.AnnAssign) and is_public(inner.target.id):
            kind = ast.unparse(inner.annotation)
            parts.append(f".. py:attribute:: {inner.target.id}\n   :type: {kind}\n")
    for method, nodes in methods.items():
        marks = {ast.unparse(d) for n in nodes for d in n.decorator_list}
        if "property" in marks:
            text = body(docs.of(f"{short}.{method}"))
            parts.append(directive("property", [method], text))
            continue
        kind = "classmethod" if "classmethod" in marks else "method"
        kind = "staticmethod" if "staticmethod" in marks else kind
        shown = unique([f"{method}({arguments(n, True)}){result(n)}" for n in nodes])
        parts.append(directive(kind, shown, body(docs.of(f"{short}.{method}"))))
    return directive("class", signatures, "\n".join(parts))


def public_nodes(stub):
    """{name: [nodes]} of functions and classes, in the order of the stub."""
    found = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and is_public(node.name):
            found.setdefault(node.name, []).append(node)
    return found


def aliases(path):
    """The names that stand for types in the signatures of a stub, with what they stand for."""
    lines = path.read_text(encoding="utf-8").split("\n")
    out = []
    for node in parsed(path).body:
        if not isinstance(node, ast.AnnAssign) or "TypeAlias" not in ast.unparse(node.annotation):
            continue
        if not is_public(node.target.id):
            continue
        comment, at = [], node.lineno - 2
        while lines[at].startswith("#"):
            comment.insert(0, lines[at].lstrip("# "))
            at -= 1
        behind = re.search(r"  # (.*)", lines[node.end_lineno - 1])
        comment += [behind.group(1)] if behind else []
        value = "" if ast.unparse(node.value) == "Any" else f"``{ast.unparse(node.value)}``. "
        text = value + escaped(" ".join(comment))
        out.append(f"``{node.target.id}``\n   {text.strip() or 'Any object.'}\n")
    return out and [".. rubric:: Types in the signatures\n", *out]


def described(module, names):
    """The functions and classes of a module that have these names, in reStructuredText."""
    docs, out = Docstrings(module), []
    nodes_of = public_nodes(parsed(stub_path(module)))
    for short in names:
        nodes = nodes_of[short]
        if isinstance(nodes[0], ast.ClassDef):
            out.append(class_text(nodes[0], docs))
            continue
        shown = unique([f"{short}({arguments(n, False)}){result(n)}" for n in nodes])
        out.append(directive("function", shown, body(docs.of(short))))
    return out


def stub_path(module):
    name = module.partition(".")[2]
    return PACKAGE / (name.replace(".", "/") + ".pyi" if name else "__init__.pyi")


def fenced(module, parts):
    text = "\n".join([f".. py:currentmodule:: {module}\n", *parts])
    return "```{eval-rst}\n" + text + "\n```\n"


def page(module):
    """The reference of a module, as Markdown."""
    parts = [f".. py:module:: {module}\n", body(Docstrings(module).module)]
    parts += described(module, public_nodes(parsed(stub_path(module))))
    return fenced(module, parts + aliases(stub_path(module)))


def gram_overview():
    """What the docstring of gram says, and the names that stand for types."""
    parts = [".. py:module:: gram\n", body(Docstrings("gram").module)]
    return fenced("gram", parts + aliases(stub_path("gram")))


def topic(name):
    """The functions of gram of one topic; every public one has to be of one."""
    wanted = [each for names in TOPICS.values() for each in names.split()]
    public = set(public_nodes(parsed(stub_path("gram"))))
    if set(wanted) != public:
        raise ValueError(f"TOPICS: {set(wanted) ^ public} are not both there and public")
    return fenced("gram", described("gram", TOPICS[name].split()))


def topic_table():
    """All functions of gram, by topic, each with a link."""
    rows = []
    for name, words in TOPICS.items():
        links = ", ".join(f"[`{w}`](#gram.{w})" for w in words.split())
        rows.append(f"| [{name.replace('-', ' ')}]({name}.md) | {links} |")
    return "\n".join(["| topic | functions |", "|---|---|", *rows]) + "\n"
