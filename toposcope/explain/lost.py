"""Levels that a ClusterTopology had and has lost, as its condition tells: names for them, to find them in messages."""

import re
from collections.abc import Mapping
from typing import Final

from toposcope.api.conditions import LEVELS_AVAILABLE, unavailable_levels
from toposcope.explain.context import Context
from toposcope.explain.object_store import condition

_WORD: Final = r"(?<![\w./-]){}(?![\w./-])"


def lost_levels(context: Context) -> Mapping[str, str]:
    """Domains that are no longer available, with the message of the ClusterTopology that says so.

    Where a workload names a topology that is not known, those of all ClusterTopologies count.
    """
    found = {}
    for topology in context.snapshot.topologies:
        if context.topologies and topology.name not in context.topologies:
            continue
        said = condition({"status": topology.status}, LEVELS_AVAILABLE)
        if said is None:
            continue
        for domain in unavailable_levels({"status": said.status, "message": said.message}):
            found[domain] = f"ClusterTopology {topology.name}: {said.message}"
    return found


def mentions(context: Context, text: str, domain: str) -> bool:
    """Whether a message is about a level: its domain, or a label key that usually carries it."""
    keys = context.snapshot.catalogue.keys.get(domain, ())
    return any(re.search(_WORD.format(re.escape(name)), text) for name in (domain, *keys))
