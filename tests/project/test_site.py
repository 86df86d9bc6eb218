"""test_site.py - what docs/site makes of the tree for the documentation site, without Sphinx"""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GRAM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["GRAM_BUILD_DIR"])


@pytest.fixture
def made(monkeypatch):
    """A module of docs/site by its name, as docs/conf.py imports it."""
    monkeypatch.setenv("BUILD", str(BUILD))
    monkeypatch.syspath_prepend(str(SOURCE / "docs/site"))
    monkeypatch.syspath_prepend(str(BUILD / "python"))
    return importlib.import_module


def test_charts_have_rows(made):
    charts = made("charts")
    assert len(charts.CHARTS) >= 15
    for name, chart in charts.CHARTS.items():
        rows = chart.rows()
        assert rows, name
        assert all(charts.OURS in row.values and len(row.values) > 1 for row in rows), name
        assert all(value > 0 for row in rows for value in row.values.values()), name
        assert charts.as_table(chart, rows).count("\n") == len(rows) + 1


def test_curves_have_data(made):
    curves = made("curves")
    for task in curves.TASKS:
        found = curves.schedules(task)
        assert all(found[method] for method in curves.METHODS), task
        assert all(len(runs) > 1 for run in found.values() for runs in run.values()), task


def test_curves_are_drawn_for_both_themes(made):
    pytest.importorskip("matplotlib")
    curves = made("curves")
    page = curves.training("mlp") + curves.eigenvalues("workspace_bytes", "64")
    assert page.count(".only-light") == page.count(".only-dark") == 2


def test_advantage_leaves_wrong_results_out(made):
    charts = made("charts")
    rows = [charts.Row("a", {charts.OURS: 2.0, "fast": 1.0, "right": 6.0}, wrong=("fast",))]
    chart = charts.Chart("", "ms", "", lambda: rows)
    assert charts.as_table(chart, rows).endswith("| a | 2 | 1 (wrong) | 6 | 3 |")


def test_titles_are_readable(made):
    readable = made("charts").readable
    assert readable("cdist [400, 300, 25] p=1.3 f32") == "cdist 400 × 300 × 25, p = 1.3 f32"
    assert readable("1024: 8->16^4") == "1024: 8 → 16⁴"


def test_every_command_and_variable_has_its_place(made):
    pages = made("command_pages")
    text = pages.commands()
    for name in pages.names():
        assert name == "help" or f"\n## gram {name}\n" in f"\n{text}"
    assert "`-y, --target COLUMN`\n: " in text and "| 65 | " in pages.exit_statuses()
    assert "`GRAM_NUM_THREADS`" in pages.environment() and "kernels-1.db" in pages.files()


def test_every_function_of_python_is_on_a_page(made):
    pages = made("python_pages")
    for name in pages.TOPICS:
        assert ".. py:function::" in pages.topic(name)
    text = pages.page("gram.torch")  # of the stub, without PyTorch
    assert ".. py:function:: per_sample_norms(" in text and ">>> gram.torch.cdist" in text
    assert pages.escaped("a_b and gram.cdist(x)") == "a\\_b and :py:obj:`gram.cdist`\\ (x)"


def test_sections_of_headers_have_unique_names(made):
    pages = made("c_pages")
    groups = [
        line
        for header in (SOURCE / "include/gram").glob("*.h")
        for line in pages.header(header.name).split("\n")
        if "doxygengroup" in line
    ]
    assert len(groups) >= 15 and len(set(groups)) == len(groups)
    assert "[pairwise.h](pairwise.md)" in pages.overview()


def check_docs(folder, name):
    script = SOURCE / "scripts/check_docs.py"
    return subprocess.run(
        [sys.executable, script], input=f"{name}\n", cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[a](b.md)\n", "dead link b.md"),
        ("# One\n\n[a](#two)\n", "no heading #two"),
        ("x" * 121 + "\n", "121 columns"),
        ("```sh\n", "never closed"),
        ("# One\n\n[a](#one)\n\n```sh\n[no](link.md)\n```\n", None),
    ],
)
def test_links_and_lines(tmp_path, text, problem):
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    done = check_docs(tmp_path, "page.md")
    assert done.returncode == (problem is not None)
    assert problem is None or problem in done.stdout


def test_pictures_have_colours_for_both_themes(made, tmp_path):
    themed = made("themed")
    plain = ' <defs>\n </defs>\n<path style="fill: #ffffff"/><path style="stroke: #2f6db3"/>'
    svg = themed.dual(plain)
    assert svg.count("prefers-color-scheme") == 1
    assert '[style*="fill: #ffffff"]' in svg and "#2f6db3" not in svg.split("</style>")[0]
    (tmp_path / "a.svg").write_text(svg)
    (tmp_path / "b.svg").write_text(plain)
    page = themed.pair("![A](a.svg)\n\n![B](b.svg)\n", tmp_path / "page.md")
    assert "{.chart .only-light}" in page and "{.chart .only-dark}" in page
    assert "![B](b.svg)\n" in page
    dark = (BUILD / "docs/charts/a-dark.svg").read_text()
    light = (BUILD / "docs/charts/a-light.svg").read_text()
    assert "@media all {" in dark and "@media not all {" in light
    for picture in (SOURCE / "docs/images").glob("*.svg"):
        assert "prefers-color-scheme" in picture.read_text(), picture.name


def readme_on_pypi(*address):
    return subprocess.run(
        [sys.executable, SOURCE / "scripts/pypi_readme.py", *address],
        input=(SOURCE / "README.md").read_text(encoding="utf-8"),
        check=True, capture_output=True, text=True, encoding="utf-8",
    ).stdout  # fmt: skip


def test_page_on_pypi_has_no_path_within_the_tree():
    page = readme_on_pypi()
    assert "](" not in page.replace("](http", "") and "\n[" not in page
    assert "```python\nimport gram" in page and "<!--" not in page
    page = readme_on_pypi("https://example.org/tree/")
    assert "(https://example.org/tree/docs/images/speed.svg?raw=true)" in page
    assert "[FAQ](https://example.org/tree/docs/faq.md)" in page
