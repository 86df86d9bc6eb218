"""themed.py - pictures of matplotlib that are legible on light pages and on dark ones

dual() gives an SVG a second set of neutral colours (background, text, axes, grid), which a browser
takes where the reader prefers dark pages; a program without style sheets shows the first one.  That
is what README.md and pages of the tree show.  The site has a switch of its own: pair() makes two
pictures of such a file, one for each theme, of which Furo shows one.
"""

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]

# Neutral colours of gram.plot.STYLE and of scripts/pictures.py, and what is in their place on a
# dark page.  The background is that of Furo's dark theme.
DARK = {
    "#ffffff": "#131416",
    "#222222": "#d5d9de",
    "#333333": "#d5d9de",
    "#555555": "#aab2ba",
    "#777777": "#8b939c",
    "#bbbbbb": "#5a626b",
    "#dddddd": "#33383e",
    "#e3e3e3": "#33383e",
}
PREFERS = "@media (prefers-color-scheme: dark)"
IMAGE = re.compile(r"^!\[([^]]*)\]\(([^)\s]+\.svg)\)$", re.M)


def dual(svg):
    """An SVG with both sets of colours."""
    rules = [
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
        if f"{what}: {light}" in svg
    ]
    style = "".join(f"    {rule}\n" for rule in rules)
    block = f'  <style type="text/css">\n   {PREFERS} {{\n{style}   }}\n  </style>\n'
    return svg.replace(" </defs>", block + " </defs>", 1)


def links(title, pictures, page):
    """The lines of a page (a path) that show one of two pictures: {"light": path, "dark": path}."""
    lines = []
    for kind, path in pictures.items():
        place = os.path.relpath(path, page.parent)
        lines.append(f"![{title}]({place}){{.chart .only-{kind}}}\n")
    return "\n".join(lines)


def pair(source, page):
    """The source of a page in which images of two sets of colours have become two images each."""
    folder = ROOT / os.environ.get("BUILD", "build") / "docs" / "charts"

    def two(match):
        title, target = match.groups()
        path = page.parent / target
        svg = path.read_text(encoding="utf-8") if path.is_file() else ""
        if PREFERS not in svg:
            return match.group()
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {}
        for kind, rule in (("light", "@media not all"), ("dark", "@media all")):
            pictures[kind] = folder / f"{path.stem}-{kind}.svg"
            pictures[kind].write_text(svg.replace(PREFERS, rule), encoding="utf-8")
        return links(title, pictures, page)

    return IMAGE.sub(two, source)
