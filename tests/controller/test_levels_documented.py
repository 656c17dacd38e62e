"""What docs/concepts.md shows is what the code has."""

import re

from tests.support.paths import CRD, DOCS
from toposcope.api.levels import INSIDE_A_NODE
from toposcope.controller.segments import MOST_SEGMENTS
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY
from toposcope.hierarchy.controller_config import read_config

PAGE = (DOCS / "concepts.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_is_a_good_configuration() -> None:
    (example,) = re.findall(r"```yaml\n(apiVersion: config\.gpu\.topology.*?)```", PAGE, re.DOTALL)
    found = read_config(example.encode(), "docs/concepts.md")
    assert found.problems == ()
    assert found.catalogue != BUILT_IN
    wrong = example.replace("domain: rack", "domain: rock")
    found = read_config(wrong.encode(), "/etc/toposcope/config.yaml")
    (problem,) = found.problems
    assert f"{problem}; the other entries apply" in PAGE


def test_the_words_of_the_page_are_those_of_the_code() -> None:
    for domain in INSIDE_A_NODE:
        assert f"`{domain}`" in PAGE
    for reason in (NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY):
        assert f"| `{reason}` |" in PAGE
    number_words = {8: "eight"}
    assert f"Up to {number_words[MOST_SEGMENTS]} segments" in PAGE


def test_the_crd_refuses_the_same_domains() -> None:
    crd = CRD.read_text(encoding="utf-8")
    (listed,) = re.findall(r"!\(self in \[(.*?)\]\)", crd)
    domains = re.findall(r"'([^']+)'", listed)
    assert tuple(domains) == INSIDE_A_NODE
