"""What a snapshot keeps besides nodes, pods and ClusterTopologies, by kind, as the systems say."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from toposcope.integrations.dra import api as dra
from toposcope.integrations.framework.plugin import Plugin, PluginPart
from toposcope.integrations.registry import DECISIVE, PLUGINS, PUBLISHED

Keep = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Reduces an object to the fields that count; None: the object decides nothing."""

PUBLISHED_KEYS: Final = frozenset(kind.key for kind in PUBLISHED)
CONFIGURED: Final = tuple(plugin for plugin in PLUGINS if plugin.configuration)
"""Systems whose operator has a configuration that matters."""


def configuration_key(plugin: Plugin) -> tuple[str, str] | None:
    """Group and kind of an operator's configuration; None: it is no object that decides."""
    configuration = plugin.configuration
    if configuration is None or not configuration.group:
        return None
    return configuration.group, configuration.kind


def _configuration_keys() -> Iterator[tuple[str, str]]:
    for plugin in CONFIGURED:
        key = configuration_key(plugin)
        if key is not None:
            yield key


CONFIGURATION_KEYS: Final = frozenset(_configuration_keys())
"""Group and kind of the configurations of operators that decide about placement."""


def _object_keys() -> Iterator[tuple[str, str]]:
    for kind in (*DECISIVE, *dra.READ, *dra.ASKED):
        yield kind.key
    yield from CONFIGURATION_KEYS


OBJECT_KEYS: Final = frozenset(_object_keys())
"""Group and kind of the objects that decide about placement."""


@cache
def keepers() -> Mapping[tuple[str, str], Keep]:
    """How to reduce an object of each of `OBJECT_KEYS`."""
    keepers_by_key: dict[tuple[str, str], Keep] = {}
    for plugin in PLUGINS:
        for kind in plugin.decisive:
            keepers_by_key[kind.key] = _keeper(plugin)
        key = configuration_key(plugin)
        if key is not None:
            keepers_by_key[key] = _keeper(plugin)
    for kind in (*dra.READ, *dra.ASKED):
        keepers_by_key[kind.key] = dra.kept
    return keepers_by_key


def _keeper(plugin: Plugin) -> Keep:
    part = plugin.part(PluginPart.PLACEMENT)
    if part is None:
        return _whole
    keep: Keep = part.PLACEMENT.kept
    return keep


def _whole(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return document
