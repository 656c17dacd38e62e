"""Pages stay as short as they are: words written by hand, without generated tables."""

import re

import pytest
from tests.support.paths import ROOT

GENERATED = re.compile(r"<!-- generated: .*?<!-- end: [^>]*>", re.DOTALL)
MOST_WORDS = {
    "README.md": 900,
    "CONTRIBUTING.md": 1_500,
    "docs/runbooks.md": 2_900,
    "docs/performance.md": 900,
    "docs/reliability.md": 900,
    "docs/commands.md": 60,
    "docs/fields.md": 60,
    "docs/labels.md": 450,
    "docs/metrics.md": 500,
}
"""By page. Longer means that a fact stands twice, or that nobody acts on it."""


def words(path: str) -> int:
    """Words of a page that are written by hand."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return len(GENERATED.sub("", text).split())


LOOKED_UP = {"commands.md", "fields.md", "labels.md", "metrics.md"}
"""Pages that are generated, but for a few words."""


def test_pages_are_eighteen_of_twenty_eight_thousand_words() -> None:
    docs = ROOT / "docs"
    total = 0
    names = []
    for page in [*docs.glob("*.md"), *docs.glob("integrations/*.md")]:
        if page.name not in LOOKED_UP:
            names.append(page.name)
            total += words(str(page.relative_to(ROOT)))
    assert len(names) <= 18, sorted(names)
    assert total <= 28_000


@pytest.mark.parametrize(("page", "most"), MOST_WORDS.items())
def test_page_is_short(page: str, most: int) -> None:
    assert words(page) <= most


def test_pages_of_maintainers_are_few_and_short() -> None:
    pages = sorted((ROOT / "docs" / "maintainers").glob("*.md"))
    total = 0
    for page in pages:
        total += words(str(page.relative_to(ROOT)))
    assert len(pages) <= 5
    assert total <= 4_000
