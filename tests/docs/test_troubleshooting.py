"""The messages on docs/troubleshooting.md are those that the programs have."""

import re
from functools import cache

import pytest
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
FIRST_CELLS = [span for span in re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE) if span.count(" ") > 3]
PACKAGES = ("agent", "controller", "explain", "integrations", "placement", "topology")
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
    files = [path for package in PACKAGES for path in sorted((ROOT / "toposcope" / package).rglob("*.py"))]
    files += sorted((ROOT / "tests" / "explain" / "pages").glob("*.txt"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def known(message: str) -> bool:
    words = message.split()
    runs = (" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1))
    return any(run in code() for run in runs)


@pytest.mark.parametrize("message", [*BLOCKS, *FIRST_CELLS])
def test_a_message_is_one_of_the_code(message: str) -> None:
    assert known(message) or message in PUT_TOGETHER


def test_there_are_messages_and_a_wrong_one_is_found() -> None:
    assert len(BLOCKS) > 5
    assert len(FIRST_CELLS) > 10
    assert not known("the flux capacitor of this node is empty")
