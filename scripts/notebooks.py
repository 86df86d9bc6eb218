#!/usr/bin/env python3
"""notebooks.py FOLDER [SCRIPT...] - the examples in Python as Jupyter notebooks

FOLDER gets an .ipynb for each SCRIPT, by default all of examples/python: what the script says at
its top as text, then its imports, functions and the call of main() as cells.  The scripts are what
is kept and tested; a notebook is one of them cut into pieces.
"""

import ast
import json
import pathlib
import sys


def cells(source):
    """[(kind, text)]: the pieces of a script, in its order."""
    tree = ast.parse(source)
    lines = source.splitlines()
    title, _, rest = ast.get_docstring(tree).partition("\n")
    found = [("markdown", f"# {title}\n{rest}".strip())]
    group, was_import = [], False
    for node in tree.body[1:]:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.If) and "__main__" in text:
            text = "main()"
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        if is_import and was_import:
            group[-1] += "\n" + text
        else:
            group.append(text)
        was_import = is_import
    return found + [("code", text) for text in group]


def notebook(source):
    """The notebook (format 4.5) of a script, as JSON."""
    made = []
    for i, (kind, text) in enumerate(cells(source)):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).parents[1]
    scripts = sys.argv[2:] or sorted((root / "examples/python").glob("*.py"))
    folder.mkdir(parents=True, exist_ok=True)
    for script in map(pathlib.Path, scripts):
        path = folder / f"{script.stem}.ipynb"
        path.write_text(notebook(script.read_text(encoding="utf-8")), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
