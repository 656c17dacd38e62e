"""Every relative link in every Markdown file of the repository leads to a file, and its anchor to a heading."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.support.paths import ROOT

FOLDERS = [
    ".",
    ".github",
    "docs",
    "docs/integrations",
    "docs/maintainers",
    "manifests/chart",
    "manifests/components",
    "tests/recordings",
]
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    text = page.read_text(encoding="utf-8")
    return FENCE.sub("", text)


def links(page: Path) -> Iterator[str]:
    """The relative links of a page."""
    text = CODE.sub("", prose(page))
    for link in LINK.findall(text):
        if not re.match(r"[a-z]+:", link):
            yield link


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those that GitHub and the site both give to headings."""
    names = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        names.add(words.replace(" ", "-"))
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page
        if path:
            target = (page.parent / path).resolve()
        has_anchor = not anchor or (target.exists() and anchor in anchors(target))
        if not target.exists() or not has_anchor:
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_the_repository_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:toposcope|tests|tools|docs|manifests|image)/[\w/.-]+)`", text)
    missing = []
    for path in paths:
        file = ROOT / path
        if not file.exists():
            missing.append(path)
    assert missing == []


def test_pages_are_found_and_each_has_one_title() -> None:
    names = {page.name for page in PAGES}
    assert names >= {"README.md", "CONTRIBUTING.md", "concepts.md", "kai.md"}
    for page in PAGES:
        titles = re.findall(r"^# .*$", prose(page), re.MULTILINE)
        expected = 0 if page.name == "PULL_REQUEST_TEMPLATE.md" else 1
        assert len(titles) == expected, page


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = ROOT / "mkdocs.yml"
    navigation = site.read_text(encoding="utf-8")
    listed = re.findall(r"[\w/-]+\.md", navigation)
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        path = page.relative_to(docs)
        assert str(path) in listed
    assert {"source/CHANGELOG.md", "source/CONTRIBUTING.md", "source/SECURITY.md"} <= set(listed)
