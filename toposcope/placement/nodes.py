"""The nodes of a snapshot as placement sees them: free resources, and why some take no pods."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.system import Held
from toposcope.placement.room import Obstacle, RoomNode
from toposcope.snapshot.model import NodeView, Snapshot

MAX_PODS: Final = 110
"""The kubelet's default, for nodes that don't report it."""
_PRESSURE: Final = frozenset(
    {
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
    }
)
"""The control plane's taints for conditions of a node."""


def nodes_of(
    snapshot: Snapshot, placeholders: frozenset[str] | None, held: Held
) -> Iterator[RoomNode]:
    """The nodes with what is free and not held; everything is free if pods are unknown."""
    if placeholders is None:
        placeholders = snapshot.catalogue.placeholders
    held_on = _held_on(held)
    for view in snapshot.nodes:
        total = view.allocatable
        if PODS not in total:
            total = {**total, PODS: MAX_PODS}

        free = total
        requested = snapshot.requested.get(view.name)
        if requested:
            free = {name: amount - requested.get(name, 0) for name, amount in total.items()}
        held_here = None
        if held_on:
            held_here = held_on.get(view.label(HOSTNAME))
        if held_here:
            free = {name: amount - held_here[name] for name, amount in free.items()}
        yield RoomNode(
            name=view.name,
            labels=_Labels(view),
            free=free,
            total=total,
            taints=view.taints,
            obstacle=_obstacle(view),
            placeholders=placeholders,
        )


def by_state(node: RoomNode) -> RoomNode:
    """The node as schedulers see it that check its state and not its taints."""
    obstacle = node.obstacle
    if not obstacle and any(taint.key in _PRESSURE for taint in node.taints):
        obstacle = "under pressure"
    return replace(node, obstacle=obstacle, is_strict=True)


def _held_on(held: Held) -> dict[str | None, Counter[str]]:
    """What is held on each node, by hostname, which is all that an assignment names."""
    held_on: dict[str | None, Counter[str]] = {}
    for domains in held.values():
        for values, amounts in domains.items():
            if len(values) != 1:
                continue
            (hostname,) = values
            on_host = held_on.setdefault(hostname, Counter())
            on_host.update(amounts)
    return held_on


def _obstacle(view: NodeView) -> Obstacle:
    if not view.is_ready:
        return "not Ready"
    if not view.is_schedulable:
        return "cordoned"
    return ""


class _Labels(Mapping[str, str]):
    """A node's labels, without a dictionary for each of 100,000 nodes."""

    __slots__ = ("_view",)

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def __getitem__(self, key: str) -> str:
        return self._view.values[self._view.places[key]]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a label, without an exception for each missing one."""
        place = self._view.places.get(key)
        return default if place is None else self._view.values[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.places)

    def __len__(self) -> int:
        return len(self._view.places)
