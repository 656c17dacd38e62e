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
    text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    yield from (link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those that GitHub and the site both give to headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


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
    paths = re.findall(r"`((?:toposcope|tests|tools|docs|manifests|image)/[\w/.-]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_pages_are_found_and_each_has_one_title() -> None:
    assert {"README.md", "CONTRIBUTING.md", "concepts.md", "kai.md"} <= {page.name for page in PAGES}
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        titles = re.findall(r"^# .*$", text, re.MULTILINE)
        assert len(titles) == (page.name != "PULL_REQUEST_TEMPLATE.md"), page


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    missing = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - set(re.findall(r"[\w/-]+\.md", navigation))
    assert missing == set()
