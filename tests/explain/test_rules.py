"""Each step of an explanation knows the rules that it reports: they are rules of the system that lists them."""

from pathlib import Path

import pytest
from toposcope.integrations.framework.plugin import Part
from toposcope.integrations.registry import PLUGINS

LISTS = ("topology_rules", "topology_warnings", "level_rules", "hierarchy_rules", "feature_rules")
LISTED = [
    (plugin.package, rule)
    for plugin in PLUGINS
    if (part := plugin.part(Part.WAITING))
    for name in LISTS
    for rule in getattr(part.WAITING, name)
]


@pytest.mark.parametrize(("package", "rule"), LISTED)
def test_a_listed_rule_is_one_of_the_system(package: str, rule: str) -> None:
    folder = Path(__file__).parents[2].joinpath(*package.split("."))
    sources = [file.read_text() for file in folder.glob("*.py") if file.name != "waiting.py"]
    assert any(f'"{rule}"' in source for source in sources)


def test_no_rule_is_in_two_lists_of_errors() -> None:
    rules = [rule for name in LISTS if name != "topology_warnings" for rule in listed(name)]
    assert len(rules) == len(set(rules))


def listed(name: str) -> list[str]:
    parts = [plugin.part(Part.WAITING) for plugin in PLUGINS]
    return [rule for part in parts if part for rule in getattr(part.WAITING, name)]
