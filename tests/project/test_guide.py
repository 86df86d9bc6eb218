"""test_guide.py - runs the examples of README.md and of the pages of docs/

A fenced block whose first line says "run" (```sh run, ```c run, ```python run) is executed, in the
order of the document and in one scratch folder a document; it must succeed.  A block ```text output
behind it is what it must print, where "..." stands for anything.  A comment <!-- run: COMMAND -->
prepares something that readers have already, such as their own data.
"""

import importlib.machinery
import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GRAM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["GRAM_BUILD_DIR"])
# The Python package as it is built, and PyTorch where scripts/bootstrap has put it.
PACKAGES = [str(BUILD / "python"), str(BUILD / "torch-packages")]
OPTIONAL = re.compile(r"^(?:import|from) (gram|torch|jax|gpytorch|sklearn|pandas)\b", re.M)
BLOCK = re.compile(r"^```(\w+) (run|output)\n(.*?)^```$|^<!-- run: (.*?) -->$", re.M | re.S)


class Example:
    """One block: its language, text, line in the document and the output it must have, if any."""

    def __init__(self, document, line, language, text):
        self.document, self.line, self.language, self.text, self.output = (
            document,
            line,
            language,
            text,
            None,
        )

    def __str__(self):
        return f"{self.document}:{self.line}"


def examples_of(document):
    text = (SOURCE / document).read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match.group(4):
            found.append(Example(document, line, "sh", match.group(4)))
        elif match.group(2) == "run":
            found.append(Example(document, line, match.group(1), match.group(3)))
        else:
            assert (
                found and found[-1].output is None
            ), f"{document}:{line}: an output without its example"
            found[-1].output = match.group(3)
    return found


PAGES = sorted(str(page.relative_to(SOURCE)) for page in SOURCE.glob("docs/**/*.md"))
DOCUMENTS = ["README.md"] + [page for page in PAGES if examples_of(page)]
EXAMPLES = [example for document in DOCUMENTS for example in examples_of(document)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder a document, with the project's examples in it as in a checkout."""
    made = {}
    for example in EXAMPLES:
        if example.document not in made:
            made[example.document] = tmp_path_factory.mktemp("guide")
            (made[example.document] / "examples").symlink_to(SOURCE / "examples")
    return made


def command_of(example, folder):
    if example.language == "sh":
        return ["bash", "-euo", "pipefail", "-c", example.text]
    if example.language == "python":
        return [sys.executable, "-c", example.text]
    assert example.language == "c", f"{example}: no way to run {example.language}"
    program = folder / f"example_{example.line}"
    source = program.with_suffix(".c")
    source.write_text(example.text, encoding="utf-8")
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            source,
            "-o",
            program,
        ]
        + [f"-I{SOURCE}/include", f"-L{BUILD}", "-lgram", f"-Wl,-rpath,{BUILD}", "-lm"],
        check=True,
    )
    return [program]


def matches(pattern, text):
    """White space at line ends aside; "..." is anything, any number of lines too."""
    parts = [
        re.escape(part) for part in re.sub(r"[ \t]+$", "", pattern.strip(), flags=re.M).split("...")
    ]
    return re.fullmatch(".*?".join(parts), re.sub(r"[ \t]+$", "", text.strip(), flags=re.M), re.S)


def missing_packages(example):
    """What a Python example imports and this machine or this build lacks."""
    path = PACKAGES + sys.path
    names = OPTIONAL.findall(example.text) if example.language == "python" else []
    return [name for name in names if not importlib.machinery.PathFinder.find_spec(name, path)]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example(example, folders):
    if missing := missing_packages(example):
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = folders[example.document]
    environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", COLUMNS="100")
    environment["PYTHONPATH"] = os.pathsep.join(PACKAGES)
    done = subprocess.run(
        command_of(example, folder),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, f"{example.text}\n{done.stdout}{done.stderr}"
    if example.output is not None:
        assert matches(
            example.output, done.stdout
        ), f"expected:\n{example.output}\ngot:\n{done.stdout}"


def test_documents_have_examples():
    assert len(DOCUMENTS) >= 3 and len(EXAMPLES) >= 20
    assert sum(example.document == "README.md" for example in EXAMPLES) >= 2
