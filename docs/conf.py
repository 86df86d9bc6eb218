"""conf.py - the documentation site: make docs builds it in build/docs/html

Sphinx reads Markdown (MyST).  Breathe shows what Doxygen finds in include/gram, autodoc what the
Python package says of itself, myst-nb runs the notebooks.  docs/build.py prepares all that is
made from the tree (the pages of the command, of the environment) and calls Sphinx.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]

project = "libgram"
author = "the libgram authors"
copyright = author
version = re.search(
    r"project\(gram VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
).group(1)
release = version

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False
# Pages that the tables of contents name by a pattern may come later.
suppress_warnings = ["toc.empty_glob"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist", "tasklist"]
myst_heading_anchors = 4

# A fence such as ```sh run says to the tests that it is run; readers see its language only.
highlight_language = "none"

html_theme = "furo"
html_title = f"libgram {version}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = []
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def link_files(app, name, source):
    """Links to files of the project that are no pages of the site become downloads."""
    folder = (pathlib.Path(app.srcdir) / name).parent
    inside = pathlib.Path(app.srcdir).resolve()

    def download(match):
        text, target = match.groups()
        path = (folder / target).resolve()
        if "://" in target or inside in path.parents or not path.is_file():
            return match.group()
        return f"{{download}}`{text} <{target}>`"

    source[0] = re.sub(r"(?<!!)\[([^][`]+)\]\((\.\./[^)#\s]+)\)", download, source[0])


def setup(app):
    app.connect("source-read", link_files)
