"""test_abi.py - scripts/abi accepts what docs/reference/abi.md allows, and nothing else"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GRAM_SOURCE_DIR"])
pytestmark = pytest.mark.skipif(
    not (shutil.which("abidiff") and shutil.which("abidw") and shutil.which("cc")),
    reason="needs libabigail and a C compiler",
)

KEPT = """
typedef struct gram_sized_options { unsigned long size; int a; double b; } gram_sized_options;
typedef struct gram_tensor { void *data; long stride[2]; } gram_tensor;
typedef enum { GRAM_ONE = 1, GRAM_TWO = 2 } gram_choice;
int gram_call(const gram_sized_options *o, const gram_tensor *t, gram_choice c);
int gram_call(const gram_sized_options *o, const gram_tensor *t, gram_choice c)
{
    return o->a + (t->data != 0) + (int)c;
}
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the script with a library of its own, whose interface is kept."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "packaging/abi").mkdir(parents=True)
    shutil.copy(SOURCE / "scripts/abi", tmp_path / "scripts")
    for rules in (SOURCE / "packaging/abi").glob("*.ini"):
        shutil.copy(rules, tmp_path / "packaging/abi")
    (tmp_path / "CMakeLists.txt").write_text("project(gram VERSION 0.1.0 LANGUAGES C)\n")
    assert compare(tmp_path, KEPT, "--keep").returncode == 0
    return tmp_path


def compare(tree, source, *options):
    (tree / "build").mkdir(exist_ok=True)
    (tree / "gram.c").write_text(source)
    command = ["cc", "-g", "-O0", "-shared", "-fPIC", "-Wl,-soname,libgram.so.0.1"]
    subprocess.run([*command, "gram.c", "-o", "build/libgram.so"], cwd=tree, check=True)
    return subprocess.run(
        [tree / "scripts/abi", *options, "build"], cwd=tree, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "old, new",
    [
        ("", ""),
        ("double b;", "double b; int appended;"),
        ("GRAM_TWO = 2", "GRAM_TWO = 2, GRAM_THREE = 3"),
        ("int gram_call(", "int gram_added(void) { return 0; }\nint gram_call("),
    ],
    ids=["same", "appended member", "added enumerator", "added function"],
)
def test_allowed_changes_pass(tree, old, new):
    result = compare(tree, KEPT.replace(old, new, 1))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "old, new",
    [
        ("int a;", "int inserted; int a;"),
        ("double b;", "float b;"),
        ("int a; double b;", "double b; int a;"),
        ("long stride[2];", "long stride[2]; int appended;"),
        ("GRAM_TWO = 2", "GRAM_TWO = 3"),
        ("gram_call(", "gram_renamed("),
        ("gram_choice c)", "gram_choice c, int more)"),
    ],
    ids=[
        "inserted member",
        "another type",
        "another order",
        "unsized struct",
        "enumerator's value",
        "function",
        "parameter",
    ],
)
def test_breaking_changes_fail(tree, old, new):
    result = compare(tree, KEPT.replace(old, new))
    assert result.returncode == 1, result.stdout + result.stderr
    assert "would not work with this library" in result.stderr


def test_every_struct_with_a_size_may_grow():
    rules = (SOURCE / "packaging/abi/appended.ini").read_text(encoding="utf-8")
    grows = re.compile(re.search(r"name_regexp = (.*)", rules)[1])
    headers = "".join(h.read_text() for h in sorted((SOURCE / "include/gram").glob("*.h")))
    sized = set(re.findall(r"typedef struct (\w+) {\n    size_t size;", headers))
    others = set(re.findall(r"typedef struct (\w+) {\n    (?!size_t size;)", headers))
    assert len(sized) > 30 and all(map(grows.search, sized))
    assert list(filter(grows.search, others)) == ["gram_kernel_grads"]
