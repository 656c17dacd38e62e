"""Search for GPUs; nodes and domains are found by the page itself."""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from toposcope.ui import protocol
from toposcope.ui.facts import Facts

MAX_RESULTS: Final = 50
MAX_QUERY_CHARACTERS: Final = 256
"""The longest query, in characters; no UUID is longer."""
_MIN_QUERY_CHARACTERS: Final = 4
"""The shortest query, in characters; shorter ones match almost every UUID."""


def search(facts: Facts, query: str) -> protocol.SearchAnswer:
    """GPUs whose UUID contains the text: exact matches, then prefixes, then the rest."""
    text = query.strip().lower()
    if len(text) < _MIN_QUERY_CHARACTERS:
        return protocol.SearchAnswer([], more=False)

    best = nsmallest(MAX_RESULTS + 1, _matches(facts, text))
    gpus = []
    for _, uuid, node in best[:MAX_RESULTS]:
        gpus.append(protocol.GpuHit(uuid, node))
    has_more = len(best) > MAX_RESULTS
    return protocol.SearchAnswer(gpus, more=has_more)


def _matches(facts: Facts, text: str) -> Iterator[tuple[bool, str, str]]:
    """UUIDs that contain the text, with their nodes; False sorts first: they begin with it."""
    for node, uuids in facts.uuids():
        if text not in uuids.lower():
            continue
        for uuid in uuids.split("\n"):
            lower = uuid.lower()
            if text in lower:
                is_prefix = lower.startswith(text)
                yield not is_prefix, uuid, node
