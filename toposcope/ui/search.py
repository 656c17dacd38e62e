"""What a typed word may mean: a node, a domain of some view, a GPU."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Final

from toposcope.ui import protocol
from toposcope.ui.facts import Facts
from toposcope.ui.nodes import domain_path
from toposcope.ui.views import View

MOST: Final = 50
LONGEST: Final = 256
"""Characters of a query; no name or label value has more."""
_LEAST_OF_UUID: Final = 4
"""So many characters of a UUID at least: fewer are in every node's."""


class Searcher:
    """Searches what is known; the domains are gathered once for each state of the views."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._domains: tuple[Sequence[View], list[protocol.Found]] = ((), [])

    def search(self, views: Sequence[View], query: str) -> protocol.Search:
        """Nodes, domains and GPUs that have the text in them: whole, then at the beginning, then anywhere."""
        text = query.strip().lower()
        if not text:
            return protocol.Search(query, [], more=False)
        if self._domains[0] is not views:
            self._domains = views, [domain for view in views for domain in _domains(view)]
        found = [domain for domain in self._domains[1] if text in domain.text.lower()]
        found += [
            protocol.Found("node", name, None, [], "", name) for name in self._facts.names() if text in name.lower()
        ]
        found += _gpus(self._facts, text)
        ordered = nsmallest(MOST + 1, found, lambda each: (_rank(each, text), each.kind, len(each.path), each.text))
        return protocol.Search(query, ordered[:MOST], more=len(ordered) > MOST)


def _rank(found: protocol.Found, text: str) -> int:
    lower = found.text.lower()
    return 0 if lower == text else 1 if lower.startswith(text) else 2


def _domains(view: View) -> Iterator[protocol.Found]:
    """Every domain of a view, but for those that are a node: they are found as such."""
    levels = view.scope.levels
    seen: set[tuple[str, ...]] = set()
    for node in view.scope.nodes:
        path = tuple(domain_path(node, view))
        for depth, value in enumerate(path, 1):
            if value != node.name and path[:depth] not in seen:
                seen.add(path[:depth])
                yield protocol.Found("domain", value, view.summary.id, list(path[:depth]), levels[depth - 1].domain, "")


def _gpus(facts: Facts, text: str) -> Iterator[protocol.Found]:
    if len(text) < _LEAST_OF_UUID:
        return
    for name, uuids in facts.uuids():
        if text in uuids.lower():
            for uuid in uuids.split("\n"):
                if text in uuid.lower():
                    yield protocol.Found("gpu", uuid, None, [], "", name)
