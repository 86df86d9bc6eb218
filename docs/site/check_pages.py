"""check_pages.py FOLDER - no page of the site has a dead link, or more than 500 KB

Followed are links and images within the site, and the places on a page that links name.  Prints
PAGE: what is wrong; status 1 if anything is.
"""

import html.parser
import pathlib
import sys
import urllib.parse

MOST_BYTES = 500_000
# Pages that no reader opens for their text.
LONG = {"genindex.html"}


class Page(html.parser.HTMLParser):
    """The links and the places of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[name] for name in ("href", "src") if given.get(name)]
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}


def problems(folder):
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        size = path.stat().st_size
        if size > MOST_BYTES and path.name not in LONG:
            yield path, f"{size} bytes, at most {MOST_BYTES}"
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)) if parts.path else path
            target = target.resolve()
            target = target / "index.html" if target.is_dir() else target
            place = urllib.parse.unquote(parts.fragment)
            if not target.is_file():
                yield path, f"dead link {link}"
            elif place and target in pages and place not in pages[target].places:
                yield path, f"no such place: {link}"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    found = sorted(set(problems(folder)))
    for path, what in found:
        print(f"{path.relative_to(folder)}: {what}")
    pages = list(folder.rglob("*.html"))
    total = sum(path.stat().st_size for path in pages)
    print(f"site: {len(pages)} pages, {total // 1024} KB, {len(found)} problems")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
