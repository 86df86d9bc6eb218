"""conf.py - the documentation site: make docs builds it in build/docs/html

Sphinx reads Markdown (MyST).  Breathe shows what Doxygen finds in include/gram, myst-nb runs the
notebooks.  A line <!-- made: FILE.FUNCTION ARGUMENT --> stands for what a function of docs/site
makes: the reference of Python and of the command, the charts.  scripts/docs sets BUILD, the folder
in which the library, the command and Doxygen's XML are.
"""

import importlib
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
sys.path[:0] = [str(ROOT / "docs/site"), str(BUILD / "python")]
import themed  # noqa: E402

project = "libgram"
author = "the libgram authors"
project_copyright = author
version = re.search(
    r"project\(gram VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
).group(1)
release = version

extensions = ["myst_nb", "breathe", "sphinx_copybutton", "sphinx_design", "mathml"]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["site"]
# Pages that the tables of contents name by a pattern may come later.
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# A fence such as ```sh run says to the tests that it is run; readers see its language only.
highlight_language = "none"

os.environ["PYTHONPATH"] = str(BUILD / "python")  # for the notebooks' own process
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "docs/notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True

breathe_projects = {"libgram": str(BUILD / "docs/doxygen/xml")}
breathe_default_project = "libgram"
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False

python_maximum_signature_line_length = 76
c_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"libgram {version}"
html_baseurl = ""
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["site/static"]
html_css_files = ["libgram.css"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0f5c8c",
        "color-brand-content": "#0f5c8c",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
        "font-stack--monospace": "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Consolas, monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cc4f2",
        "color-brand-content": "#7cc4f2",
    },
    "footer_icons": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

MADE = re.compile(r"^<!-- made: (\w+)\.(\w+)(?: (.*?))? -->$", re.M)
LINK = re.compile(r"(?<!!)\[([^][`]+)\]\((\.\./[^)#\s]+)\)")


def fill_in(app, name, source):
    """Puts in what is made from the tree; links to files that are no pages become downloads."""
    folder = (pathlib.Path(app.srcdir) / name).parent
    inside = pathlib.Path(app.srcdir).resolve()

    def made(match):
        module, function, argument = match.groups()
        make = getattr(importlib.import_module(module), function)
        return make(*(argument.split() if argument else ()))

    def download(match):
        text, target = match.groups()
        path = (folder / target).resolve()
        if inside in path.parents or not path.is_file():
            return match.group()
        return f"{{download}}`{text} <{target}>`"

    page = pathlib.Path(app.srcdir) / f"{name}.md"
    text = themed.pair(MADE.sub(made, source[0]), page)
    source[0] = LINK.sub(download, text)


def setup(app):
    app.connect("source-read", fill_in)
