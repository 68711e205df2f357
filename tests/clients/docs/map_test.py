"""docs/README.md is the map of the documentation: every page is on it, each link stands under the kind (how-to, reference,
explanation) that the page itself gives to that section, and every section of a page is in the list at the page's top. Every link
of every page leads to a file, and to a heading if it names one.
"""

from __future__ import annotations

import functools
import os
import re
import unittest
from collections.abc import Iterator

from manual import ROOT

MAP = "docs/README.md"
PAGES = sorted(path.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/*.md", "docs/compat/*.md", "docs/migrate/*.md",
                                                                 "examples/*/README.md",
                                                                 "bindings/*/README.md") for path in ROOT.glob(pattern))
KINDS = {"How to": "How to", "Reference": "Reference", "Explanation": "Explanation", "How it works": "Explanation"}
# Pages that are of one kind as a whole, and pages that have no list of their sections by kinds.
OF_ONE_KIND = {"docs/tasks.md": "How to", "docs/concepts.md": "Explanation", "README.md": "How to"}
WITHOUT_LIST = {"README.md", "CHANGELOG.md", "docs/tasks.md", MAP}
LINK = re.compile(r"\]\(([^)\s]+)\)")


@functools.cache
def text_of(page: str) -> str:
    """The text of a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchor_of(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    words = re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@functools.cache
def anchors_of(page: str, level: str = "#+") -> frozenset[str]:
    found: dict[str, int] = {}
    for heading in re.findall(rf"^{level} (.*)$", text_of(page), re.MULTILINE):
        anchor = anchor_of(heading)
        found[anchor] = found.get(anchor, 0) + 1
    return frozenset(name if i == 0 else f"{name}-{i}" for name, count in found.items() for i in range(count))


def target_of(page: str, link: str) -> tuple[str, str]:
    """The file and the heading that a link of `page` leads to."""
    path, _, anchor = link.partition("#")
    return os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page, anchor


def local_links(page: str, text: str) -> Iterator[tuple[str, str]]:
    return (target_of(page, link) for link in LINK.findall(text) if "://" not in link)


@functools.cache
def kinds_of(page: str) -> dict[str, str]:
    """The kind of each section by its anchor, as the list at the page's top says."""
    top = text_of(page).split("\n## ")[0]
    kinds = {}
    for kind, items in re.findall(r"^- ([A-Z][\w ]+): ((?:.|\n(?!- |\n))*)", top, re.MULTILINE):
        if kind in KINDS:
            kinds |= {anchor: KINDS[kind] for to, anchor in local_links(page, items) if to == page}
    return kinds


def sections_of_the_map() -> Iterator[tuple[str, str, str]]:
    """Kind, page and anchor of each of its links."""
    for part in re.split(r"^## ", text_of(MAP), flags=re.MULTILINE)[1:]:
        kind = part.splitlines()[0]
        for page, anchor in local_links(MAP, part):
            yield kind, page, anchor


class MapTest(unittest.TestCase):
    def test_every_page_is_on_the_map(self) -> None:
        on_it = {page for page, _ in local_links(MAP, text_of(MAP))}
        pages = {page for page in PAGES if "/" not in page or page.startswith("docs/")} - {MAP}
        self.assertEqual(pages - on_it, set())
        self.assertEqual(set(part[0] for part in sections_of_the_map()), {"How to", "Reference", "Explanation"})

    def test_each_link_of_the_map_is_of_its_kind(self) -> None:
        checked = 0
        for kind, page, anchor in sections_of_the_map():
            with self.subTest(kind=kind, page=page, anchor=anchor):
                if not page.endswith(".md") or page == "CHANGELOG.md":
                    self.assertEqual(kind, "Reference")
                elif page in OF_ONE_KIND:
                    self.assertEqual(kind, OF_ONE_KIND[page])
                elif anchor:
                    self.assertEqual(kinds_of(page).get(anchor), kind)
                else:
                    self.assertIn(kind, kinds_of(page).values())
                checked += 1
        self.assertGreater(checked, 60)

    def test_each_section_is_in_the_list_of_its_page(self) -> None:
        for page in PAGES:
            if page in WITHOUT_LIST or page.startswith(("examples/", "bindings/")):
                continue
            with self.subTest(page=page):
                listed = {anchor for to, anchor in local_links(page, text_of(page).split("\n## ")[0]) if to == page}
                self.assertEqual(anchors_of(page, "##") - listed, set())

    def test_every_link_leads_somewhere(self) -> None:
        checked = 0
        for page in PAGES:
            for to, anchor in local_links(page, text_of(page)):
                with self.subTest(page=page, to=to, anchor=anchor):
                    self.assertTrue((ROOT / to).exists())
                    if anchor and to.endswith(".md"):
                        self.assertIn(anchor, anchors_of(to))
                    checked += 1
        self.assertGreater(checked, 300)

    def test_every_page_opens_with_its_audience(self) -> None:
        for page in PAGES:
            if page.startswith("docs/"):
                with self.subTest(page=page):
                    self.assertRegex(text_of(page), r"\A# .*\n\nFor ")


if __name__ == "__main__":
    unittest.main()
