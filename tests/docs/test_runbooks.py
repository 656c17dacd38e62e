"""The messages on docs/runbooks.md are those that the programs have."""

import re
from functools import cache

import pytest
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
FIRST_CELLS = [span for span in re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE) if span.count(" ") > 3]
PACKAGES = ("agent", "controller", "explain", "hardware", "hierarchy", "integrations", "placement")
WORDS = 4
"""How many words in a row have to be those of the code; names and numbers stand between them."""
PUT_TOGETHER = {
    "3 of 30 nodes lack level 'rack' (cloud.google.com/gce-topology-subblock): h200-1, h200-2, h200-3",
    "topology constraint error: … does not contain a level with this name",
}
"""Made of pieces that are too short to be found: `controller/assess/` and `integrations/` have them."""


@cache
def code() -> str:
    """All sources, with strings that are broken over lines put together, and what tests expect to be printed."""
    pages = ROOT / "tests" / "documents" / "explain" / "pages"
    files = sorted(pages.glob("*.txt"))
    for package in PACKAGES:
        folder = ROOT / "toposcope" / package
        sources = sorted(folder.rglob("*.py"))
        assert sources, package
        files.extend(sources)
    text = ""
    for file in files:
        text += file.read_text(encoding="utf-8") + "\n"
    return re.sub(r'"\s*\n\s*f?"', "", text)


def is_in_code(message: str) -> bool:
    """Whether some words in a row are those of the code."""
    words = message.split()
    for start in range(len(words) - WORDS + 1):
        run = " ".join(words[start : start + WORDS])
        if run in code():
            return True
    return False


@pytest.mark.parametrize("message", [*BLOCKS, *FIRST_CELLS])
def test_message_is_one_of_the_code(message: str) -> None:
    assert is_in_code(message) or message in PUT_TOGETHER


def test_page_has_messages() -> None:
    assert len(BLOCKS) == 5
    assert len(FIRST_CELLS) >= 8


def test_message_that_no_program_has_is_found() -> None:
    assert not is_in_code("the flux capacitor of this node is empty")
