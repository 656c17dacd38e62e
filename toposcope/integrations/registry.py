"""All integrated systems, in the order of their answers; their parts are loaded when asked for.

A new system is a folder beside this file and its name in `FOLDERS`; `framework/plugin.py` says
what is in the folder. Nothing outside of a system's folder names it.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.level_requests import Annotated, LevelRequest, WatchedKind
from toposcope.integrations.framework.plugin import Plugin, PluginPart
from toposcope.integrations.framework.published import PublishedKind, finalizers
from toposcope.integrations.framework.publishing.publisher import Publishing, PublishSettings
from toposcope.kube.client import Caller

if TYPE_CHECKING:  # the controller loads none of these
    from toposcope.integrations.framework.configuration import Configuration
    from toposcope.integrations.framework.export import Format
    from toposcope.integrations.framework.making import Maker
    from toposcope.integrations.framework.placement import Placement
    from toposcope.integrations.framework.requiring import Requiring
    from toposcope.integrations.framework.system import System
    from toposcope.integrations.framework.waiting import Waiting

_T = TypeVar("_T")

FOLDERS: Final = (
    "dynamo",
    "grove",
    "runai",
    "kai",
    "kueue",
    "disaggregatedset",
    "lws",
    "jobset",
    "kuberay",
    "kubernetes",
    "kubeflow",
    "appwrapper",
    "volcano",
    "osmo",
    "slurm",
    "nccl",
)


def _plugins() -> Iterator[Plugin]:
    for folder in FOLDERS:
        module = importlib.import_module(f"{__package__}.{folder}.plugin")
        yield module.PLUGIN


def _joined(
    plugins: Sequence[Plugin], entries_of: Callable[[Plugin], Iterable[_T]]
) -> tuple[_T, ...]:
    """The values of one field of all plugins, in their order."""
    joined: list[_T] = []
    for plugin in plugins:
        joined += entries_of(plugin)
    return tuple(joined)


PLUGINS: Final = tuple(_plugins())
_ADMITTING_FIRST: Final = tuple(sorted(PLUGINS, key=attrgetter("admits"), reverse=True))
"""The same, starting with those that admit workloads before a scheduler sees their pods."""
_ANNOTATED: Final = tuple(plugin for plugin in PLUGINS if plugin.read_annotations)
"""The systems that read annotations of others' workloads."""

WATCHED: Final = _joined(PLUGINS, lambda plugin: plugin.watched)
"""Kinds whose objects request levels."""
ANNOTATING_GROUPS: Final = frozenset(
    kind.group for kind in _joined(_ANNOTATED, lambda plugin: plugin.watched)
)
"""API groups of the kinds whose systems read annotations of others' workloads."""
PUBLISHED: Final = _joined(PLUGINS, lambda plugin: plugin.published)
"""Kinds that publishers write, or compare with."""
FOLLOWED: Final = (*PUBLISHED, *_joined(PLUGINS, lambda plugin: plugin.followed))
"""Kinds that publishers read: those that they publish, and those that may hold these back."""
CHANGES_CHECKED: Final = _joined(PLUGINS, lambda plugin: plugin.changes_checked)
"""Kinds that have rules about updates."""
DECISIVE: Final = _joined(_ADMITTING_FIRST, lambda plugin: plugin.decisive)
"""Kinds that affect placement besides topologies."""
GANG_MARKS: Final = tuple(
    sorted(_joined(PLUGINS, lambda plugin: plugin.gang_marks), key=attrgetter("maker"))
)
"""How pods name their gang, innermost first."""
EXCLUSIVE_POD_LABELS: Final = _joined(PLUGINS, lambda plugin: plugin.exclusive_pod_labels)
"""Pods with one of these labels keep pods of other groups out of their domain."""

PUBLISHING_TITLES: Final = tuple(plugin.title for plugin in PLUGINS if plugin.published)
"""The systems with a published resource."""
LEAVING_OUT: Final = tuple(plugin.title for plugin in PLUGINS if plugin.leaves_out_incomplete_nodes)
"""The systems for which a node without one of the levels is not in the topology."""
LEAVING_OUT_FROM_ADMISSION: Final = tuple(
    plugin.title for plugin in _ADMITTING_FIRST if plugin.leaves_out_incomplete_nodes
)
"""The same systems, starting with those that admit workloads."""

_TRANSLATED: Final = frozenset(kind.translated_by for kind in WATCHED if kind.translated_by)
"""API groups of the bindings that translate the levels of workloads."""
TRANSLATING: Final = tuple(
    plugin for plugin in PLUGINS if any(kind.group in _TRANSLATED for kind in plugin.published)
)
"""The systems whose published resource is such a binding."""
_BINDINGS: Final = frozenset(
    kind.option for kind in _joined(TRANSLATING, lambda plugin: plugin.published)
)
"""Their fields in `spec.publish`."""


def read_annotations(places: Annotated) -> Iterator[LevelRequest]:
    """The levels that annotations request from any of the systems. Raises ValueError."""
    for plugin in PLUGINS:
        if plugin.read_annotations:
            yield from plugin.read_annotations(places)


def is_bound(topology: Topology) -> bool:
    """Whether a binding is published from the topology, which keeps levels that it lost."""
    return any(topology.publish.get(option) != "Never" for option in _BINDINGS)


def needed_groups(kind: WatchedKind) -> frozenset[str]:
    """The API groups of which one must be watched for the kind to be watched; empty for always."""
    if kind.needs_annotation_reader:
        return kind.only_with | ANNOTATING_GROUPS
    return kind.only_with


def parts(part: PluginPart) -> tuple[ModuleType, ...]:
    """The modules of one part, of every system that has it."""
    modules = []
    for plugin in PLUGINS:
        module = plugin.part(part)
        if module is not None:
            modules.append(module)
    return tuple(modules)


@cache
def readers() -> tuple["System", ...]:
    """The readers of documents by system: workloads, then topology resources."""
    systems: list[System] = []
    for plugin in PLUGINS:
        for part in (PluginPart.WORKLOAD, PluginPart.TOPOLOGY):
            systems += getattr(plugin.part(part), "READERS", ())
    return tuple(systems)


@cache
def makers() -> Mapping[tuple[str, str], "Maker"]:
    """The objects created from an object and checked instead of it, by API group and kind."""
    by_kind: dict[tuple[str, str], Maker] = {}
    for module in parts(PluginPart.MAKING):
        by_kind |= module.MADE
    return by_kind


def publishing(settings: PublishSettings) -> Publishing:
    """The publishing of the systems' resources during one term of leadership."""
    systems = []
    for module in parts(PluginPart.PUBLISHER):
        systems.append(module.PUBLISHING(settings))
    return Publishing(systems, settings)


def holders(client: Caller, kind: PublishedKind, document: Mapping[str, Any]) -> list[str]:
    """What must release a published object before it can be deleted. Raises KubeError."""
    for plugin in PLUGINS:
        if kind not in plugin.published:
            continue
        module = plugin.part(PluginPart.PUBLISHER)
        if module is not None:
            held: list[str] = module.PUBLISHING.holders(client, document)
            return held
    return finalizers(document)


@cache
def configurations() -> tuple["Configuration", ...]:
    """The systems' readers of configuration documents."""
    return tuple(module.CONFIGURATION for module in parts(PluginPart.CONFIGURATION))


@cache
def placements() -> tuple["Placement", ...]:
    """The placement parts of the systems."""
    return tuple(module.PLACEMENT for module in parts(PluginPart.PLACEMENT))


def placement_of(plugin: Plugin) -> "Placement":
    """The placement part of one system; `Placement` itself if it has none."""
    from toposcope.integrations.framework.placement import (  # noqa: PLC0415 - see above
        Placement,
    )

    module = plugin.part(PluginPart.PLACEMENT)
    if module is None:
        return Placement()
    placement: Placement = module.PLACEMENT
    return placement


@cache
def waiting() -> tuple["Waiting", ...]:
    """The waiting parts of the systems."""
    return tuple(module.WAITING for module in parts(PluginPart.WAITING))


@cache
def requiring() -> tuple["Requiring", ...]:
    """What the systems' objects and pods require of running pods."""
    return tuple(module.REQUIRING for module in parts(PluginPart.REQUIRING))


@cache
def formats() -> Mapping[str, "Format"]:
    """The formats of `toposcope export`, by name."""
    by_name: dict[str, Format] = {}
    for module in parts(PluginPart.EXPORT):
        for form in module.FORMATS:
            by_name[form.name] = form
    return by_name
