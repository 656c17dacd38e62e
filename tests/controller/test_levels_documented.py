"""What docs/levels.md shows is what the code has."""

import re

from tests.support.paths import CRD, DOCS
from toposcope.api.levels import INSIDE_A_NODE
from toposcope.controller.segments import MOST
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY
from toposcope.hierarchy.controller_config import read_config

PAGE = (DOCS / "levels.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_is_a_good_configuration() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = read_config(example.encode(), "docs/levels.md")
    assert found.problems == ()
    assert found.catalogue != BUILT_IN
    wrong = example.replace("domain: rack", "domain: rock").encode()
    (problem,) = read_config(wrong, "/etc/toposcope/config.yaml").problems
    assert f"{problem}; the other entries apply" in PAGE


def test_the_words_of_the_page_are_those_of_the_code() -> None:
    assert all(f"`{domain}`" in PAGE for domain in INSIDE_A_NODE)
    assert all(f"| `{reason}` |" in PAGE for reason in (NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY))
    assert {8: "Up to eight segments"}[MOST] in PAGE


def test_the_crd_refuses_the_same_domains() -> None:
    (listed,) = re.findall(r"!\(self in \[(.*?)\]\)", CRD.read_text(encoding="utf-8"))
    assert tuple(re.findall(r"'([^']+)'", listed)) == INSIDE_A_NODE
