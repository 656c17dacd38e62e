"""OSMO's `topology_keys`, a part of a pool's configuration: OSMO makes KAI's Topology of them, in their order."""

from typing import Any, Final

import msgspec

from toposcope.integrations.framework.export import Hierarchy, checked, decoded
from toposcope.topology.levels import Level

UNNAMED: Final = "cluster"
"""A pool's name is not its topology's: this one stands for it."""


class _Key(msgspec.Struct, frozen=True):
    key: str
    label: str


class _Pool(msgspec.Struct, frozen=True):
    topology_keys: list[_Key]


def write(hierarchy: Hierarchy) -> dict[str, Any]:
    """The part of a pool's configuration. Raises Unwritable."""
    return {"topology_keys": [{"key": level.domain, "label": level.key} for level in checked(hierarchy).levels]}


def read(document: Any) -> Hierarchy:
    """A pool's configuration or that part of it. Raises Unreadable."""
    found = decoded(document, _Pool, "OSMO pool with topology_keys")
    return Hierarchy(UNNAMED, tuple(Level(entry.key, entry.label) for entry in found.topology_keys))
