"""Joins the neighbours of the NICs with the link matrix.

It remembers them for as long as they may be lost.
"""

import contextlib
from collections.abc import Mapping
from typing import Final

from toposcope.agent.annotation import annotation_for
from toposcope.agent.describe import Description
from toposcope.api.label_keys import MATRIX, RAILS, SWITCHES
from toposcope.hardware.compute_network import nic_paths
from toposcope.hardware.leaves import leaf_labels, rail_nics, rails_text
from toposcope.hardware.neighbours import Neighbour, Neighbours, parse_neighbours
from toposcope.hardware.rails import Rail, parse_rails
from toposcope.hardware.topology import NodeTopology
from toposcope.kube.runtime import Runtime
from toposcope.text import natural

GRACE_SECONDS: Final = 600.0
"""How long a neighbour may be lost.

Maintenance of a switch changes no label, and then it is unknown.
"""
STEADY_SECONDS: Final = 60.0
"""How long another switch must be there until it counts."""


class RailMemory:
    """What this agent knows of its rails.

    It begins with what the Node carries, as if that was seen until now.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._written: set[str | None] = set()
        self._rails: set[str] = set()
        """NICs, also those that have gone: the others alone would look like another group."""
        self._least = 0
        self._known_rails: dict[str, Rail] = {}
        self._lost: dict[str, float] = {}
        self._others: dict[str, tuple[str, float]] = {}
        self._matrix = ""
        self._matrix_inputs: tuple[NodeTopology, str] | None = None
        """What the matrix annotation was made of."""

    def join(
        self, description: Description, carried: Mapping[str, str], *, is_reset: bool = False
    ) -> Description:
        """The description with rails, their labels and the NICs' neighbours.

        `carried` are the Node's annotations. `is_reset` forgets earlier rails: today's are all that
        there should be.
        """
        topology = description.topology
        switches = carried.get(SWITCHES)
        if topology is None:
            return description
        if switches is None and RAILS not in carried:
            return description
        self._remember(carried, is_reset=is_reset)
        neighbours = _neighbours(switches, topology)
        self._look(topology, neighbours)
        rails = self._rails_in_order()
        if switches is None and not any(rails):
            return description
        text = rails_text(rails)
        self._written = {carried.get(RAILS), text}
        inputs = (topology, switches or "")
        if inputs != self._matrix_inputs:
            self._matrix_inputs = inputs
            self._matrix = annotation_for(topology, neighbours)
        labels = description.labels
        values = {**labels.by_key, **leaf_labels(rails)}
        annotations = {**description.annotations, MATRIX: self._matrix, RAILS: text}
        return description._replace(
            labels=labels._replace(by_key=values),
            annotations=annotations,
        )

    def _look(self, topology: NodeTopology, neighbours: Neighbours) -> None:
        """Take what the ports see now, and which NICs are rails by that."""
        cabled = set(self._rails)
        for nic, neighbour in neighbours.items():
            if neighbour:
                cabled.add(nic)
        paths = nic_paths(topology.matrix, topology.nics, topology.data_direct)
        self._rails |= rail_nics(paths, topology.nics, cabled)
        elsewhere = self._elsewhere(topology)
        for nic in self._rails:
            self._see(nic, neighbours.get(nic), is_elsewhere=nic in elsewhere)

    def _rails_in_order(self) -> list[Rail | None]:
        if len(self._rails) < self._least:  # which of them has gone is not known any more
            return [None] * self._least
        in_order = sorted(self._rails, key=natural)
        return [self._known_rails.get(nic) for nic in in_order]

    def _remember(self, carried: Mapping[str, str], *, is_reset: bool) -> None:
        """Go on from what the Node carries at the start, or when it was removed."""
        if is_reset:
            self._begin("")
        elif carried.get(RAILS) not in self._written:
            self._begin(carried.get(RAILS, ""))

    def _begin(self, carried: str) -> None:
        rails: tuple[Rail | None, ...] = ()
        with contextlib.suppress(ValueError):
            rails = parse_rails(carried)
        self._known_rails = {rail.nic: rail for rail in rails if rail}
        self._rails = set(self._known_rails)
        self._least = len(rails)
        self._lost, self._others = {}, {}

    def _elsewhere(self, topology: NodeTopology) -> set[str]:
        """Rails whose RDMA device a pod took along.

        Nobody sees their neighbours then, which does not mean that these are lost.
        """
        elsewhere = set(self._rails) if topology.hidden_nics else set()
        for nic in topology.nics:
            if nic.held:
                elsewhere.add(nic.name)
            else:
                elsewhere.discard(nic.name)
        return elsewhere

    def _see(self, nic: str, neighbour: Neighbour | None, *, is_elsewhere: bool) -> None:
        """Take what a rail's port sees now.

        Lost is unknown after a while, another switch counts once it is steady.
        """
        now = self._runtime.monotonic()
        if neighbour is None:
            self._lose(nic, now, is_elsewhere=is_elsewhere)
            return
        self._lost.pop(nic, None)
        rail = Rail(nic, neighbour.switch, neighbour.id, neighbour.port)
        last_rail = self._known_rails.get(nic)
        has_moved = last_rail is not None and last_rail.id != rail.id
        if has_moved and not self._is_steady(nic, rail.id, now):
            return

        self._others.pop(nic, None)
        self._known_rails[nic] = rail

    def _lose(self, nic: str, now: float, *, is_elsewhere: bool) -> None:
        self._others.pop(nic, None)
        if is_elsewhere:
            self._lost.pop(nic, None)
            return
        lost_at = self._lost.setdefault(nic, now)
        if now - lost_at >= GRACE_SECONDS:
            self._known_rails.pop(nic, None)

    def _is_steady(self, nic: str, switch: str, now: float) -> bool:
        """Whether a rail's port has seen this other switch for long enough to believe it."""
        other_switch, since = self._others.get(nic, ("", now))
        if other_switch != switch:
            self._others[nic] = switch, now
            return False
        return now - since >= STEADY_SECONDS


def _neighbours(switches: str | None, topology: NodeTopology) -> Neighbours:
    """What the program `switches` wrote on the Node.

    Other text counts as none.
    """
    try:
        neighbours = parse_neighbours(switches or "{}")
    except ValueError:
        return {}
    return _with_virtual(neighbours, topology)


def _with_virtual(neighbours: Neighbours, topology: NodeTopology) -> Neighbours:
    """The neighbours, with those of virtual functions: the cable is that of the physical one."""
    names = {nic.pci: nic.name for nic in topology.nics}
    joined = dict(neighbours)
    for nic in topology.nics:
        if nic.parent and nic.name not in joined:
            joined[nic.name] = neighbours.get(names.get(nic.parent, ""))
    return joined
