"""The nodes of a snapshot, as placement sees them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from toposcope.placement.room import PODS, Node
from toposcope.snapshot.model import NodeView, Snapshot

MOST_PODS: Final = 110
"""The kubelet's default for how many pods a node takes, where a node does not say."""


def nodes_of(snapshot: Snapshot, views: Iterable[NodeView] | None = None) -> Iterator[Node]:
    """The nodes with what is free on them; where pods are not known, everything counts as free.

    `views` are the nodes to look at, by default all.
    """
    unknown = snapshot.catalogue.placeholders
    for view in snapshot.nodes if views is None else views:
        total = view.allocatable if PODS in view.allocatable else {**view.allocatable, PODS: MOST_PODS}
        taken = snapshot.requested.get(view.name)
        free = {name: amount - taken.get(name, 0) for name, amount in total.items()} if taken else total
        yield Node(view.name, _Labels(view), free, total, view.taints, _obstacle(view), unknown)


class _Labels(Mapping[str, str]):
    """A node's labels without a dictionary of them for each of 100,000 nodes."""

    __slots__ = ("_view",)

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def __getitem__(self, key: str) -> str:
        return self._view.values[self._view.places[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.places)

    def __len__(self) -> int:
        return len(self._view.places)


def _obstacle(view: NodeView) -> str:
    if not view.ready:
        return "not Ready"
    return "" if view.schedulable else "cordoned"
