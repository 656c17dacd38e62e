"""Systems are plugins: what a folder must have, and that the registry loads only what is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from toposcope.integrations import registry
from toposcope.integrations.framework.export import LevelsFormat, NodeFormat, NodesFormat
from toposcope.integrations.framework.placement import Placement
from toposcope.integrations.framework.plugin import Plugin, PluginPart
from toposcope.integrations.framework.system import System
from toposcope.integrations.framework.waiting import Waiting

FOLDER = ROOT / "toposcope" / "integrations"
SHARED = {"framework"}
"""Folders that are no system."""
LIBRARIES = {"dra"}
"""What all systems build on, without a plugin of its own."""


def test_every_folder_is_registered() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert folders - SHARED - LIBRARIES == set(registry.FOLDERS)


@pytest.mark.parametrize("plugin", registry.PLUGINS, ids=lambda plugin: plugin.name)
def test_plugin_is_named_like_its_folder(plugin: Plugin) -> None:
    assert plugin.package == f"toposcope.integrations.{plugin.name}"


@pytest.mark.parametrize("plugin", registry.PLUGINS, ids=lambda plugin: plugin.name)
def test_part_has_what_its_file_is_for(plugin: Plugin) -> None:
    for part, name, kinds in (
        (PluginPart.WORKLOAD, "READERS", System),
        (PluginPart.EXPORT, "FORMATS", LevelsFormat | NodesFormat | NodeFormat),
    ):
        module = plugin.part(part)
        if module is not None:
            assert all(isinstance(entry, kinds) for entry in getattr(module, name)), module
    placement, waiting = plugin.part(PluginPart.PLACEMENT), plugin.part(PluginPart.WAITING)
    if placement is not None:
        assert isinstance(placement.PLACEMENT, Placement)
    if waiting is not None:
        assert isinstance(waiting.WAITING, Waiting)


def test_registry_loads_no_part() -> None:
    code = "import sys, toposcope.integrations.registry; print(*sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(answer.stdout.split())
    names = {f"toposcope.integrations.{plugin.name}.{part}" for plugin in registry.PLUGINS for part in PluginPart}
    assert loaded & names == set()
    assert "toposcope.integrations.framework.system" not in loaded


def test_files_are_where_the_plugin_says() -> None:
    for plugin in registry.PLUGINS:
        module = sys.modules[f"{plugin.package}.plugin"]
        assert Path(str(module.__file__)).parent.name == plugin.name
