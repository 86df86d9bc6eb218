"""test_same.py - scripts/same finds what differs between two records, and nothing else

The records are tiny ones made here; what fills real ones takes minutes.  Two readers are tried on
what the machine's compiler makes of a header and of a C file.
"""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/same"
LOADER = importlib.machinery.SourceFileLoader("same", str(SCRIPT))
same = importlib.util.module_from_spec(importlib.util.spec_from_loader("same", LOADER))
sys.dont_write_bytecode = True  # no scripts/__pycache__
LOADER.exec_module(same)

needs_tools = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("readelf") and shutil.which("objdump")),
    reason="no cc, readelf or objdump",
)


def record_of(**parts):
    return {"format": same.FORMAT, "machine": "m", "chips": ["sm_90a"], "failed": [], "parts": parts}


def told(part, before, after):
    return same.compare_part(part, before, after)


def test_a_record_is_the_same_as_itself():
    values = {"a.cu f": "text=1", "b.cu g": "text=2"}
    assert told("kernels", values, dict(values)) == ("kernels: 2 items, same", [])


def test_what_differs_is_lost_or_is_new():
    line, names = told("abi", {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"})
    assert line == "abi: 3 items, 1 differ, 1 lost, 1 new"
    assert names == ["b: 2 -> 4", "lost: c", "new: d"]


def test_a_kernel_in_another_file_is_moved():
    line, names = told("kernels", {"a.cu f sm_90a": "1"}, {"b.cu f sm_90a": "1"})
    assert (line, names) == ("kernels: 1 items, same (1 moved)", [])


def test_a_kernel_in_another_file_that_changed_is_no_move():
    line, names = told("kernels", {"a.cu f sm_90a": "1"}, {"b.cu f sm_90a": "2"})
    assert line == "kernels: 1 items, 1 lost, 1 new"
    assert names == ["lost: a.cu f sm_90a", "new: b.cu f sm_90a"]


@pytest.mark.parametrize(
    "now, anew, settled",
    [
        ("text=64:b regs=8", "text=64:a regs=8", True),  # another compilation is the same
        ("text=64:b regs=8", "text=64:c regs=8", True),  # no two are the same
        ("text=64:b regs=8", "text=64:b regs=8", False),
        ("text=64:b regs=9", "text=64:c regs=9", False),  # but their registers differ
        ("text=80:b regs=8", "text=80:c regs=8", False),
    ],
)
def test_a_kernel_that_nvrtc_makes_otherwise_every_time(now, anew, settled):
    before, after = {"a.cu f": "text=64:a regs=8"}, {"a.cu f": now}
    same.settle_kernels(before, after, lambda key: anew)
    assert (told("kernels", before, after)[1] == []) == settled


def test_two_files_of_one_function_do_not_both_move_to_one():
    before = {"a.c static_one": "1", "b.c static_one": "1"}
    assert told("code", before, {"c.c static_one": "1"})[0] == "code: 2 items, 1 lost (1 moved)"


def test_only_kernels_and_code_move():
    assert told("outputs", {"a x": ["1"]}, {"b x": ["1"]})[0] == "outputs: 1 items, 1 lost, 1 new"


@pytest.mark.parametrize(
    "before, after, words",
    [
        (["a", "b"], ["a", "c"], "line 2 of 2, b: b -> c"),
        (["a", "b"], ["a"], "2 -> 1 lines, from b"),
        (["a"], ["a", "b"], "1 -> 2 lines, from b"),
        ("1", "2", "1 -> 2"),
        ("text=1 frame=0", "text=2 frame=0", "text=1 -> text=2"),
        ("at 8: int", "at 8: unsigned int", "at 8: int -> at 8: unsigned int"),
        (
            ["launch f grid=1,1,1 shared=0"],
            ["launch f grid=2,1,1 shared=0"],
            "line 1 of 1, launch f: grid=1,1,1 -> grid=2,1,1",
        ),
    ],
)
def test_how_values_differ(before, after, words):
    assert same.difference(before, after) == words


TRACE = """\
launch early grid=1,1,1 block=32,1,1 shared=0 bytes=8 early=0 -DREAL=float -DB=2 -DA=1
row cdist 3 cuda threads=2
scratch host=0 device=512
launch cdist grid=2,1,1 block=64,1,1 shared=0 bytes=120 early=0 -DTM=8 -DREAL=float
tensor out out dtype=1 shape=3x4 0011223344556677
test streams cuda threads=2
fetch 16 0011223344556677"""


def test_a_trace_is_split_by_rows_and_options_are_sorted():
    out = {}
    same.split_trace("case_cdist_emulated", TRACE.split("\n"), out)
    assert sorted(what for _, what in out) == [
        "before the first",
        "cdist 3 cuda threads=2",
        "streams cuda threads=2",
    ]
    row = out["case_cdist_emulated", "cdist 3 cuda threads=2"]
    assert [line.split()[0] for line in row] == ["scratch", "launch", "tensor"]
    assert row[1].endswith(" early=0 -DREAL=float -DTM=8")
    early = out["case_cdist_emulated", "before the first"]
    assert early[0].endswith(" early=0 -DA=1 -DB=2 -DREAL=float")


def test_each_part_takes_its_lines_of_a_trace():
    tree = same.Tree(ROOT, ROOT, ["sm_90a"])
    tree.runs = {False: {}, True: {}}
    same.split_trace("t", TRACE.split("\n"), tree.runs[True])
    assert list(same.record_launches(tree)) == ["t before the first", "t cdist 3 cuda threads=2"]
    assert same.record_workspace(tree) == {
        "t cdist 3 cuda threads=2": ["scratch host=0 device=512"]
    }
    assert list(same.record_outputs(tree)) == [
        "t cdist 3 cuda threads=2",
        "t streams cuda threads=2",
    ]


def test_the_order_of_several_processes_does_not_count():
    one = ["test f", "launch a", "test f", "launch b", "test g", "launch c"]
    other = ["test f", "test f", "launch b", "test g", "launch c", "launch a"]
    records = []
    for lines in (one, other):
        tree = same.Tree(ROOT, ROOT, ["sm_90a"])
        tree.runs[True] = {}
        same.split_trace("test_mpi_kron_2_emulated", lines, tree.runs[True])
        records.append(same.record_launches(tree))
    assert records[0] == records[1]
    assert list(records[0].values()) == [["launch a", "launch b", "launch c"]]


def test_the_name_of_a_file_in_a_symbol_does_not_count():
    one = same.plain("_ZN52_INTERNAL_2f3a4b5c_8_cdist_cu_0a1b2c3d_1234EfooE")
    assert "cdist" not in one and one.endswith("EfooE")


def command(*words):
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=60
    )


def test_the_command_compares_two_files(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    many = {f"k{i}": "1" for i in range(30)}
    same.save(record_of(abi=many, launches={"a": ["x"]}), one)
    same.save(record_of(abi=dict.fromkeys(many, "2"), launches={"a": ["x"]}), other)
    done = command("diff", one, one)
    assert (done.returncode, done.stdout) == (0, "launches: 1 items, same\nabi: 30 items, same\n")
    done = command("diff", one, other)
    assert done.returncode == 1
    assert "abi: 30 items, 30 differ\n  k0: 1 -> 2\n" in done.stdout
    assert "  and 10 more (--all shows them)\n" in done.stdout
    assert "more" not in command("diff", one, other, "--all").stdout
    assert command("diff", one, other, "launches").returncode == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["record", "f", "kernel"], "'kernel' is not one of: kernels launches"),
        (["diff", "f"], "diff wants 2 files"),
        (["compare", "not-there"], "not-there is no record"),
    ],
)
def test_what_the_command_refuses(words, message):
    done = command(*words)
    assert done.returncode != 0 and message in done.stderr


def test_a_record_of_another_format_is_refused(tmp_path):
    file = tmp_path / "old"
    same.save({**record_of(), "format": 0}, file)
    assert "format 0, expected" in command("diff", file, file).stderr


def test_a_part_that_was_not_recorded_is_named(tmp_path):
    same.save(record_of(abi={"a": "1"}), tmp_path / "one")
    done = command("diff", tmp_path / "one", tmp_path / "one", "outputs")
    assert done.returncode == 1 and "no part outputs in the record" in done.stderr


HEADER = """
#define GRAM_WIDTH 8
typedef enum gram_kind { GRAM_ONE = 1, GRAM_TWO } gram_kind;
typedef struct gram_pair { gram_kind kind; %s void *data; double at[GRAM_WIDTH]; } gram_pair;
int gram_call(const gram_pair *pair, int number);
"""


def declared(folder, text):
    (folder / "include/gram").mkdir(parents=True, exist_ok=True)
    (folder / "include/gram/gram.h").write_text(text)
    (folder / "CMakeCache.txt").write_text("CMAKE_C_COMPILER:FILEPATH=cc\n")
    return same.declared(same.Tree(folder, folder, ["sm_90a"]))


@needs_tools
def test_a_new_member_of_a_struct_is_found(tmp_path):
    before = declared(tmp_path, HEADER % "")
    assert before["struct gram_pair"] == "80 bytes"
    assert before["gram_pair.data"] == "at 8: void *"
    assert before["gram_pair.at"] == "at 16: double[..7]"
    assert (before["GRAM_TWO"], before["#define GRAM_WIDTH"]) == ("2", "8")
    after = declared(tmp_path, HEADER % "long more;")
    assert told("abi", before, after)[1] == [
        "gram_pair.at: 16: -> 24:",
        "gram_pair.data: 8: -> 16:",
        "struct gram_pair: 80 -> 88",
        "new: gram_pair.more",
    ]


@needs_tools
def test_a_changed_constant_is_found_in_its_function_alone(tmp_path):
    objects = tmp_path / "CMakeFiles/gram_objects.dir"
    objects.mkdir(parents=True)
    tree, records = same.Tree(tmp_path, tmp_path, ["sm_90a"]), []
    for number in (7, 9):
        (tmp_path / "a.c").write_text(
            f"int f(int x) {{ return x * {number}; }}\nint g(int x) {{ return x + 1; }}\n"
        )
        subprocess.run(
            ["cc", "-O1", "-c", tmp_path / "a.c", "-o", objects / "a.c.o"], check=True
        )
        records.append(same.record_code(tree))
    _, lines = told("code", *records)
    assert [line.split(":")[0] for line in lines] == ["a.c f"]
