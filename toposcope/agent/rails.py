"""Joins the neighbours of the NICs with the link matrix, and remembers them for as long as they may be lost."""

import contextlib
from collections.abc import Mapping
from typing import Final

from toposcope.agent.annotation import annotation_for
from toposcope.agent.describe import Description
from toposcope.api.label_keys import MATRIX, RAILS, SWITCHES
from toposcope.hardware.compute_network import nic_paths
from toposcope.hardware.leaves import leaf_labels, rail_nics, rails_text
from toposcope.hardware.neighbours import Neighbour, parse_neighbours
from toposcope.hardware.rails import Rail, parse_rails
from toposcope.hardware.topology import NodeTopology
from toposcope.kube.runtime import Runtime
from toposcope.text import natural

GRACE_SECONDS: Final = 600.0
"""How long a neighbour may be lost: maintenance of a switch changes no label, and then it is unknown."""
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
        self._known: dict[str, Rail] = {}
        self._lost: dict[str, float] = {}
        self._others: dict[str, tuple[str, float]] = {}
        self._matrix: tuple[NodeTopology, str, str] | None = None

    def join(
        self, description: Description, carried: Mapping[str, str], *, anew: bool = False
    ) -> Description:
        """The description with rails, their labels and the NICs' neighbours, given the Node's annotations.

        `anew` forgets what was: the rails of today are all that there should be.
        """
        topology, switches = description.topology, carried.get(SWITCHES)
        if topology is None or (switches is None and RAILS not in carried):
            return description
        if anew or carried.get(RAILS) not in self._written:  # at the start, or somebody removed it
            self._begin("" if anew else carried.get(RAILS, ""))
        neighbours: dict[str, Neighbour | None] = {}
        with contextlib.suppress(ValueError):  # as good as none
            neighbours = _with_virtual(parse_neighbours(switches or "{}"), topology)
        cabled = {nic for nic, neighbour in neighbours.items() if neighbour} | self._rails
        paths = nic_paths(topology.matrix, topology.nics, topology.data_direct)
        self._rails |= rail_nics(paths, topology.nics, cabled)
        elsewhere = self._elsewhere(topology)
        for nic in self._rails:
            self._see(nic, neighbours.get(nic), elsewhere=nic in elsewhere)
        rails = [self._known.get(nic) for nic in sorted(self._rails, key=natural)]
        if len(rails) < self._least:  # nobody knows any more which of them has gone
            rails = [None] * self._least
        if switches is None and not any(rails):
            return description
        text = rails_text(rails)
        self._written = {carried.get(RAILS), text}
        if self._matrix is None or self._matrix[:2] != (topology, switches):
            self._matrix = topology, switches or "", annotation_for(topology, neighbours)
        known = {**description.labels.known, **leaf_labels(rails)}
        annotations = {**description.annotations, MATRIX: self._matrix[2], RAILS: text}
        return description._replace(
            labels=description.labels._replace(known=known), annotations=annotations
        )

    def _begin(self, carried: str) -> None:
        rails: tuple[Rail | None, ...] = ()
        with contextlib.suppress(ValueError):
            rails = parse_rails(carried)
        self._known = {rail.nic: rail for rail in rails if rail}
        self._rails, self._least = {*self._known}, len(rails)
        self._lost, self._others = {}, {}

    def _elsewhere(self, topology: NodeTopology) -> set[str]:
        """Rails whose RDMA device a pod took along: that nobody sees their neighbour does not mean that it is lost."""
        elsewhere = {nic.name for nic in topology.nics if nic.held}
        if topology.hidden_nics:
            elsewhere |= self._rails - {nic.name for nic in topology.nics}
        return elsewhere

    def _see(self, nic: str, found: Neighbour | None, *, elsewhere: bool) -> None:
        """Take what a rail's port sees now: lost is unknown after a while, another switch counts once it is steady."""
        now, held = self._runtime.monotonic(), self._known.get(nic)
        if found is None:
            self._others.pop(nic, None)
            if elsewhere:
                self._lost.pop(nic, None)
            elif now - self._lost.setdefault(nic, now) >= GRACE_SECONDS:
                self._known.pop(nic, None)
            return
        self._lost.pop(nic, None)
        if held and held.id != found.id:
            other, since = self._others.get(nic, ("", now))
            self._others[nic] = found.id, since if other == found.id else now
            if other != found.id or now - since < STEADY_SECONDS:
                return
        self._others.pop(nic, None)
        self._known[nic] = Rail(nic, found.switch, found.id, found.port)


def _with_virtual(
    neighbours: Mapping[str, Neighbour | None], topology: NodeTopology
) -> dict[str, Neighbour | None]:
    """The neighbours, with those of virtual functions: the cable is that of the physical one."""
    names = {nic.pci: nic.name for nic in topology.nics}
    found = dict(neighbours)
    for nic in topology.nics:
        if nic.parent and nic.name not in found:
            found[nic.name] = neighbours.get(names.get(nic.parent, ""))
    return found
