#!/usr/bin/env python3
"""check_reading.py - how easily the pages of docs/ that teach are read

    scripts/check_reading.py [FILE.md]...

Prints Flesch's reading ease of the prose of each page (code, tables, headings and links' targets
left out) and fails where a page has less than LEAST.  Syllables are counted as groups of vowels,
which is good to a few points; names in backticks count as one word of two syllables.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = "docs/start/*.md docs/guide/*.md docs/coming-from/*.md docs/choosing.md docs/faq.md"
LEAST = 60
WORDS = 150  # a page with less prose than that has no figure worth the name


def prose(text):
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    text = re.sub(r"^(#|\||!\[|:::).*$", "", text, flags=re.M)
    text = re.sub(r"!?\[([^]]*)\](\([^)]*\)|\[[^]]*\])", r"\1", text)
    text = re.sub(r"`[^`]+`", "namely", text)
    return re.sub(r"^\s*([-*]|\d+\.) ", "\n", text, flags=re.M)


def syllables(word):
    word = re.sub(r"(?<=[^aeiouyl])e[ds]?$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def reading_ease(text):
    sentences = [s for s in re.split(r"[.:;?!]\s|\n\s*\n", prose(text)) if re.search("[a-z]{2}", s)]
    words = [w for s in sentences for w in re.findall(r"[A-Za-z][A-Za-z'-]*", s)]
    if len(words) < WORDS:
        return None
    count = sum(map(syllables, words))
    return 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * count / len(words)


def main():
    given = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    pages = given or sorted(page for pattern in PAGES.split() for page in ROOT.glob(pattern))
    failed = False
    for page in pages:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT)
        ease = reading_ease(text)
        if ease is not None:
            print(f"{name}: reading ease {ease:.0f}" + (f", at least {LEAST}" * (ease < LEAST)))
            failed |= ease < LEAST
    sys.exit(failed)


if __name__ == "__main__":
    main()
