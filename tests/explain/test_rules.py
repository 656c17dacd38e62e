"""Each step of an explanation knows the rules that it reports: they are rules of the system that lists them."""

from pathlib import Path

import pytest
from tests.support.paths import ROOT
from toposcope.integrations.framework.plugin import PluginPart
from toposcope.integrations.registry import PLUGINS

LISTS_OF_ERRORS = ("topology_rules", "level_rules", "hierarchy_rules", "feature_rules")


def listed_rules(*lists: str) -> list[tuple[str, str]]:
    """The package of each system with the rules that it lists."""
    rules = []
    for plugin in PLUGINS:
        part = plugin.part(PluginPart.WAITING)
        if not part:
            continue
        for name in lists:
            rules += [(plugin.package, rule) for rule in getattr(part.WAITING, name)]
    return rules


def sources(package: str) -> list[Path]:
    """The modules of a system, but for the one with the lists."""
    folder = ROOT.joinpath(*package.split("."))
    return [file for file in folder.glob("*.py") if file.name != "waiting.py"]


@pytest.mark.parametrize(("package", "rule"), listed_rules(*LISTS_OF_ERRORS, "topology_warnings"))
def test_listed_rule_is_one_of_the_system(package: str, rule: str) -> None:
    modules = [file.name for file in sources(package) if f'"{rule}"' in file.read_text()]
    assert modules != []


def test_no_rule_is_in_two_lists_of_errors() -> None:
    rules = [rule for _, rule in listed_rules(*LISTS_OF_ERRORS)]
    assert sorted(rules) == sorted(set(rules))
