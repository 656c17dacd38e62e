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


def links(page: Path) -> Iterator[str]:
    """The relative links of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(CODE.sub("", text)):
        if not re.match(r"[a-z]+:", link):
            yield link


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those that GitHub and the site both give to headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    names = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        names.add(words.replace(" ", "-"))
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_the_repository_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:toposcope|tests|tools|docs|manifests|image)/[\w/.-]+)`", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_pages_are_found_and_each_has_one_title() -> None:
    names = {page.name for page in PAGES}
    assert names >= {"README.md", "CONTRIBUTING.md", "concepts.md", "kai.md"}
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        titles = re.findall(r"^# .*$", text, re.MULTILINE)
        assert len(titles) == (page.name != "PULL_REQUEST_TEMPLATE.md"), page


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert pages - listed == set()
