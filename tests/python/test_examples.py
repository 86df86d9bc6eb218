"""test_examples.py - the Python examples run as notebooks and check what they find; gram.plot"""

import ast
import json
import os
import pathlib
import subprocess
import sys

import gram
import numpy as np
import pytest

SOURCE = pathlib.Path(os.environ.get("GRAM_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
EXAMPLES = sorted((SOURCE / "examples/python").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    """The folder of the examples as notebooks."""
    folder = tmp_path_factory.mktemp("notebooks")
    subprocess.run([sys.executable, SOURCE / "scripts/notebooks.py", folder], check=True)
    return folder


# What a notebook does: its cells, one after the other, in one namespace.
RUN = """
import json, sys
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), globals())
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example(path, notebooks):
    """Run as a notebook, which holds every statement of the script."""
    for package in ("gpytorch", "torch"):
        if path.stem.endswith(f"_{package}"):
            pytest.importorskip(package)
    file = notebooks / f"{path.stem}.ipynb"
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert cells[0]["cell_type"] == "markdown" and len(cells) >= 4
    script = ast.parse(path.read_text(encoding="utf-8")).body
    again = ast.parse(code).body
    assert [ast.dump(node) for node in script[1:-1]] == [ast.dump(node) for node in again[:-1]]
    assert ast.dump(script[-1].body[0]) == ast.dump(again[-1])
    done = subprocess.run(
        [sys.executable, "-c", RUN, file], capture_output=True, text=True, check=False, cwd=SOURCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.fixture
def plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import gram.plot

    yield gram.plot
    plt.close("all")


def test_plots(plot, tmp_path):
    x = np.random.default_rng(0).standard_normal((60, 3))
    k = gram.kernel(x, kernel="gaussian")
    image = plot.kernel_matrix(k).get_images()[0]
    np.testing.assert_array_equal(image.get_array(), k)
    axes = plot.spectrum([-1.0, 4, 1, 2])
    assert axes.lines[0].get_ydata().tolist() == [4, 2, 1] and "1 of 4" in axes.get_title()
    machine = gram.Machine.fit(x, x[:, 1], iterations=1, seed=1)
    bars = plot.feature_importance(machine, top=2)
    assert len(bars.patches) == 2 and bars.get_yticklabels()[-1].get_text() == "x1"
    assert len(plot.feature_importance([0.1, 0.9, 0.0]).patches) == 3
    line = plot.convergence([0.5, 0.75]).lines[0]
    assert line.get_xydata().tolist() == [[0, 0.5], [1, 0.75]]
    lines = plot.training({"a": [(0, 2.0), (5, 1.0)], "b": [(0, 3.0)]})
    assert lines.lines[0].get_xydata().tolist() == [[0, 2], [5, 1]]
    assert [text.get_text() for text in lines.get_legend().get_texts()] == ["a", "b"]
    results = [
        {"op": "cdist", "sizes": {"M": 2, "N": 3}, "device": "cpu", "seconds": s} for s in (1, 2)
    ]
    path = tmp_path / "bench.json"
    path.write_text("\n".join(json.dumps(r) for r in results))
    axes = plot.bench(path, ax=bars)
    assert axes is bars and axes.get_xlabel() == "seconds"
    assert [bar.get_width() for bar in axes.patches[-2:]] == [2, 1]


def test_plots_of_eigenproblems(plot):
    """Of the files that are kept: a line a driver, a dtype and a number of matrices."""
    path = SOURCE / "bench/results/2026-11-21-h200-eigh-cpu-f32.csv"
    axes = plot.eigh(path)
    names = [line.get_label() for line in axes.lines]
    assert "jacobi (cpu float32, 64 items)" in names and "divide (cpu float32)" in names
    assert axes.lines[0].get_xydata()[0].tolist() == [4, 4.2062e-05]
    scratch = plot.eigh(path, value="workspace_bytes")
    assert scratch.get_ylabel() == "workspace bytes"
    assert scratch.lines[0].get_ydata()[0] == 64512
    assert not plot.eigh([]).lines
    with pytest.raises(KeyError):
        plot.eigh(path, value="joules")


def test_what_the_command_writes_can_be_drawn(plot, tmp_path):
    build = pathlib.Path(os.environ.get("GRAM_BUILD_DIR", SOURCE / "build"))
    if not (build / "gram").exists():
        pytest.skip("the command is not built")
    run = subprocess.run(
        [build / "gram", "bench", "eigh", "2", "8", "--seconds", "0.1", "--curve", "eigh.csv"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert plot.eigh(tmp_path / "eigh.csv").lines
    figure = plot.eigh_overview(tmp_path / "eigh.csv")
    assert [axes.get_title() for axes in figure.axes] == [
        "2 matrices: time of a call", "2 matrices: workspace",
    ]  # fmt: skip


def test_an_overview_has_a_row_of_panels_for_each_number_of_matrices_and_one_of_plans(plot):
    files = [SOURCE / f"bench/results/2026-11-21-h200-eigh-{d}-f32.csv" for d in ("cpu", "cuda")]
    plans = [
        {"device": f"cuda x{k}", "dtype": "float32", "driver": "divide", "items": "1", "n": str(n),
         "seconds": "", "workspace_bytes": str(8 * n * n // k)}
        for k in (1, 2) for n in (1024, 2048)
    ]  # fmt: skip
    figure = plot.eigh_overview(*files, plans)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "1 matrix: time of a call", "1 matrix: workspace",
        "64 matrices: time of a call", "64 matrices: workspace",
        "workspace of each GPU, 1 matrix", "",
    ]  # fmt: skip
    names = [line.get_label() for line in figure.axes[0].lines]
    assert "divide (cpu float32)" in names and "divide (cuda float32)" in names
    assert len(figure.axes[4].lines) == 2
    assert figure.axes[4].lines[1].get_ydata().tolist() == [8 * 1024 * 512, 8 * 2048 * 1024]
    assert not plot.eigh(plans).lines  # a plan has no time
