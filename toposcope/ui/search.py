"""Search by text: nodes, domains of any view, GPUs."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Final

from toposcope.ui import protocol
from toposcope.ui.facts import Facts
from toposcope.ui.nodes import domain_path
from toposcope.ui.views import View

MAX_RESULTS: Final = 50
MAX_QUERY: Final = 256
"""Characters; no name or label value has more."""
_MIN_UUID: Final = 4
"""Characters of a UUID; fewer are in almost every one."""


class Searcher:
    """Searches the facts; the domains are gathered once for each state of the views."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._domains: tuple[Sequence[View], list[protocol.Found]] = ((), [])

    def search(self, views: Sequence[View], query: str) -> protocol.Search:
        """Nodes, domains and GPUs that contain the text: exact matches, then prefixes, then the rest."""
        text = query.strip().lower()
        if not text:
            return protocol.Search(query, [], more=False)
        if self._domains[0] is not views:
            self._domains = views, [domain for view in views for domain in _domains(view)]
        matches = [domain for domain in self._domains[1] if text in domain.text.lower()]
        matches += [
            protocol.Found("node", name, None, [], "", name) for name, _ in self._facts.uuids() if text in name.lower()
        ]
        matches += _gpus(self._facts, text)
        ordered = nsmallest(
            MAX_RESULTS + 1, matches, lambda match: (_rank(match, text), match.kind, len(match.path), match.text)
        )
        return protocol.Search(query, ordered[:MAX_RESULTS], more=len(ordered) > MAX_RESULTS)


def _rank(match: protocol.Found, text: str) -> int:
    lower = match.text.lower()
    return 0 if lower == text else 1 if lower.startswith(text) else 2


def _domains(view: View) -> Iterator[protocol.Found]:
    """Every domain of a view except single nodes, which are listed as nodes."""
    levels = view.scope.levels
    seen: set[tuple[str, ...]] = set()
    for node in view.scope.nodes:
        path = tuple(domain_path(node, view))
        for depth, value in enumerate(path, 1):
            if value != node.name and path[:depth] not in seen:
                seen.add(path[:depth])
                yield protocol.Found("domain", value, view.id, list(path[:depth]), levels[depth - 1].domain, "")


def _gpus(facts: Facts, text: str) -> Iterator[protocol.Found]:
    if len(text) < _MIN_UUID:
        return
    for name, uuids in facts.uuids():
        if text in uuids.lower():
            for uuid in uuids.split("\n"):
                if text in uuid.lower():
                    yield protocol.Found("gpu", uuid, None, [], "", name)
