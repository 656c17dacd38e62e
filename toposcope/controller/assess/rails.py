"""Rails that end in another switch than those of their peers, and switches that share a name. Pure.

The peers of a rail are the nodes that share most of its node's other rails' switches, the nearest
first; what more than half of them have is expected. A neighbour that is not known shows nothing,
and neither do one or two nodes.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import NO_RAILS, RAILS_CONSISTENT, Condition
from toposcope.controller.memory import Memory
from toposcope.hardware.rails import Miscabled, reported
from toposcope.hierarchy.table import Table, totals
from toposcope.hierarchy.timers import Timers
from toposcope.text import listing, plural

MOST_FINDINGS: Final = 10
"""How many miscabled rails, and shared names, a status and a message have, and so many Events are recorded."""
MISCABLED: Final = "RailsMiscabled"
"""The reason of the condition, and of Events on Nodes."""
_MOST_IDS: Final = 3
_PEERS: Final = 3
_MOST_ALIKE: Final = 64
"""Sets of switches with a switch in common that are compared, those of most nodes: a leaf has about as many ports."""

Ids: TypeAlias = tuple[str | None, ...]
"""The ids of the switches that the rails of a node end in; None where one is not known."""
Finding = TypeVar("Finding", Miscabled, "SharedName")


class SharedName(NamedTuple):
    """A system name of several switches."""

    name: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rails:
    """What the cables show, sorted by names."""

    nodes: int = 0
    """Ready nodes that know the switch of a rail."""
    miscabled: tuple[Miscabled, ...] = ()
    shared_names: tuple[SharedName, ...] = ()


def rails(topology: Topology, nodes: Table, memory: Memory, now: float) -> Rails:
    """The findings that have lasted for the topology's grace period at `now` (monotonic seconds).

    Nodes that are not Ready don't count: what their agents wrote may be of former days.
    """
    # Mostly the decoder keeps equal tuples once, so that few are hashed by what is in them.
    seen = [
        id(group.switches) if group.ready and any(group.switches) else 0 for group in nodes.groups
    ]
    weights = totals(
        (number, weight) for number, weight in zip(seen, nodes.weights, strict=True) if number
    )
    several = {
        number: group.switches for number, group in zip(seen, nodes.groups, strict=True) if number
    }
    ids = {
        number: tuple([switch and switch.id for switch in switches])
        for number, switches in several.items()
    }
    names = {
        switch.id: switch.name for switches in several.values() for switch in switches if switch
    }
    shared = _shared(names)

    def called(switch: str) -> str:
        name = names[switch]
        return f"{name} ({switch})" if name in shared else name or switch

    wrong = expected_switches(totals((ids[number], weight) for number, weight in weights.items()))
    groups = {i: ids[number] for i, number in enumerate(seen) if number and ids[number] in wrong}
    found = sorted(
        Miscabled(
            node.name,
            node.uid,
            port[0],
            called(switch),
            port[1],
            called(wrong[groups[group]][rail]),
        )
        for node, group in zip(nodes, nodes.group_of_node if groups else (), strict=False)
        for rail, (switch, port) in enumerate(zip(groups.get(group, ()), node.ports, strict=False))
        if switch and port and rail in wrong[groups[group]]
    )
    named = {rail.key for rail in reported(topology.status)}
    before = {
        shared["name"] for shared in (topology.status.get("rails") or {}).get("sharedNames") or ()
    }
    grace = 0.0 if memory.single_look else topology.grace
    by_key = {rail.key: rail for rail in found}
    lasting_rails = _lasting(memory.miscabled_rails, by_key, named, now, grace)
    lasting_names = _lasting(memory.shared_switch_names, shared, before, now, grace)
    return Rails(sum(weights.values()), tuple(lasting_rails), tuple(lasting_names))


def _shared(names: Mapping[str, str]) -> dict[str, SharedName]:
    """The names, given by the switch's id, that several switches have, in their order."""
    ids: dict[str, list[str]] = {}
    for switch, name in sorted(names.items()):
        ids.setdefault(name, []).append(switch)
    return {
        name: SharedName(name, tuple(same))
        for name, same in sorted(ids.items())
        if name and len(same) > 1
    }


def _lasting(
    timers: Timers[str],
    found: Mapping[str, Finding],
    before: Container[str],
    now: float,
    grace: float,
) -> list[Finding]:
    """Those found for as long as the grace period, or named by the status: a restarted controller has no memory."""
    timers.keep_only(found)
    lasting = []
    for key, finding in found.items():
        overdue = timers.overdue(key, now, grace)
        if overdue or key in before:
            lasting.append(finding)
    return lasting


def expected_switches(kinds: Mapping[Ids, int]) -> dict[Ids, dict[int, str]]:
    """The rails that end in another switch than expected, by number, with the expected one.

    `kinds`: how many nodes have which switches. Only nodes with equally many rails are compared.
    """
    # Mostly no switch is in two sets: then there is nothing to compare.
    repeated = {
        switch
        for switch, times in Counter(chain.from_iterable(map(set, kinds))).items()
        if times > 1
    } - {None}
    compared = [ids for ids in kinds if not repeated.isdisjoint(ids)]
    cabled: dict[tuple[int, int, str], list[Ids]] = {}
    for ids in sorted(compared, key=lambda ids: (-kinds[ids], repr(ids))):
        for place in _places(ids):
            cabled.setdefault(place, []).append(ids)
    wrong = {}
    for ids in compared:
        alike = Counter(other for place in _places(ids) for other in cabled[place][:_MOST_ALIKE])
        disputed = {
            rail
            for other in alike
            for rail, (ours, theirs) in enumerate(zip(ids, other, strict=True))
            if ours and theirs and ours != theirs
        }
        found = {
            rail: switch
            for rail in disputed
            if (switch := _expected(ids, rail, alike, kinds)) != ids[rail]
        }
        if any(found.values()):
            wrong[ids] = {rail: switch for rail, switch in found.items() if switch}
    return wrong


def _places(ids: Ids) -> list[tuple[int, int, str]]:
    return [(len(ids), rail, switch) for rail, switch in enumerate(ids) if switch]


def _expected(
    ids: Ids, rail: int, alike: Mapping[Ids, int], kinds: Mapping[Ids, int]
) -> str | None:
    """The switch that most peers' rails end in; `alike`: how many rails of others end in the same switch as these."""
    near = [
        (same - (other[rail] == ids[rail]), other) for other, same in alike.items() if other[rail]
    ]
    votes: Counter[str | None] = Counter()
    for same, others in groupby(sorted(near, key=itemgetter(0), reverse=True), itemgetter(0)):
        if 2 * same < len(ids):  # not most of the other rails
            return None
        for _, other in others:
            votes[other[rail]] += kinds[other]  # also its own: of two halves none is wrong
        if votes.total() > _PEERS:
            ((switch, most),) = votes.most_common(1)
            return switch if 2 * most > votes.total() else None
    return None


def rails_condition(found: Rails) -> Condition:
    """The `RailsConsistent` condition."""
    if not found.nodes:
        text = "No Ready node knows the switches that its rails end in; docs/switches.md says how to find them"
        return Condition(RAILS_CONSISTENT, "Unknown", NO_RAILS, text)
    parts = []
    if found.miscabled:
        count = len(found.miscabled)
        what = plural(
            count,
            "1 rail ends in another switch than its peers",
            f"{count} rails end in other switches",
        )
        named = listing([rail.sentence for rail in found.miscabled], MOST_FINDINGS)
        parts.append(
            (
                MISCABLED,
                f"{what}: {named}; move the cables, or give nodes that belong elsewhere all of theirs",
            )
        )
    if found.shared_names:
        called = [
            f"{len(ids)} are called {name} ({listing(ids, _MOST_IDS)})"
            for name, ids in found.shared_names
        ]
        text = f"switches share a name: {listing(called, MOST_FINDINGS)}; give each a hostname of its own"
        parts.append(("SwitchNamesNotUnique", text))
    if parts:
        return Condition(
            RAILS_CONSISTENT, "False", parts[0][0], "; ".join(text for _, text in parts)
        )
    text = "Every rail whose switch is known ends in that of its peers' rails"
    return Condition(RAILS_CONSISTENT, "True", "RailsMeetPeers", text)


def rails_status(found: Rails) -> dict[str, Any]:
    """The field `rails` of the status."""
    status: dict[str, Any] = {"nodes": found.nodes, "miscabledRails": len(found.miscabled)}
    if found.miscabled:
        status["miscabled"] = [
            {name: value for name, value in rail._asdict().items() if name != "uid"}
            for rail in found.miscabled[:MOST_FINDINGS]
        ]
    if found.shared_names:
        status["sharedNames"] = [
            {"name": shared.name, "switches": len(shared.ids)}
            for shared in found.shared_names[:MOST_FINDINGS]
        ]
    return status
