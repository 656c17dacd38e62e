"""Every system has taken the steps of docs/maintainers/new-system.md; one that has not fails with their numbers."""

import pytest
from tests.support.recipe import missing_steps
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.registry import PLUGINS


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_system_has_taken_all_steps(plugin: Plugin) -> None:
    assert missing_steps(plugin) == []
