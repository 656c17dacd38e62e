"""Rails that end in another switch than their peers' rails, and switches that share a name: pure.

The peers of a rail are the nodes that share most of its node's other rails' switches, the nearest
first; what more than half of them have is expected. A neighbour that is not known shows nothing,
and neither do one or two nodes.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import NO_RAILS, RAILS_CONSISTENT, Condition
from toposcope.controller.memory import Memory
from toposcope.hardware.rails import LeafSwitch, Miscabled, reported
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.hierarchy.timers import Timers
from toposcope.text import listing, plural

MOST_FINDINGS: Final = 10
"""How many miscabled rails, and shared names, a status and a message have.

So many Events are recorded.
"""
MISCABLED: Final = "RailsMiscabled"
"""The reason of the condition, and of Events on Nodes."""
_MOST_NAMED_IDS: Final = 3
_LEAST_PEERS: Final = 3
_MOST_COMPARED_SETS: Final = 64
"""Sets of switches with a switch in common that are compared, those of most nodes.

A leaf has about as many ports.
"""

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


@dataclass(slots=True)
class _CabledNodes:
    """Ready nodes whose rails end in the same switches."""

    switches: tuple[LeafSwitch | None, ...]
    ids: Ids
    nodes: int = 0


def rails(topology: Topology, nodes: Table, memory: Memory, now: float) -> Rails:
    """The findings that have lasted for the topology's grace period at `now` (monotonic seconds).

    Nodes that are not Ready don't count: what their agents wrote may be outdated.
    """
    cabled_groups = _cabled_groups(nodes)
    # The groups with the same switches share one.
    cabled = {id(group): group for group in cabled_groups if group}.values()
    names = _switch_names(cabled)
    shared_names = _shared_names(names)
    display_names = _display_names(names, shared_names)
    node_counts: Counter[Ids] = Counter()
    for group in cabled:
        node_counts[group.ids] += group.nodes
    expected = expected_switches(node_counts)
    miscabled = _miscabled(nodes, cabled_groups, expected, display_names)

    grace = 0.0 if memory.is_single_look else topology.grace_seconds
    lasting_rails = _lasting(
        memory.miscabled_rails,
        {rail.key: rail for rail in miscabled},
        before={rail.key for rail in reported(topology.status)},
        now=now,
        grace=grace,
    )
    lasting_names = _lasting(
        memory.shared_switch_names,
        shared_names,
        before=_reported_names(topology.status),
        now=now,
        grace=grace,
    )
    return Rails(
        nodes=sum(node_counts.values()),
        miscabled=tuple(lasting_rails),
        shared_names=tuple(lasting_names),
    )


def _cabled_groups(nodes: Table) -> list[_CabledNodes | None]:
    """The cables of each group of the table; None for nodes not Ready or without a known switch."""
    # Mostly the decoder keeps equal tuples once, so that few are hashed by what is in them.
    by_identity: dict[int, _CabledNodes] = {}
    cabled: list[_CabledNodes | None] = []
    for group, weight in zip(nodes.groups, nodes.weights, strict=True):
        switches = group.switches
        if not group.is_ready or not any(switches):
            cabled.append(None)
            continue
        cabled_nodes = by_identity.get(id(switches))
        if cabled_nodes is None:
            ids = [switch.id if switch else None for switch in switches]
            cabled_nodes = _CabledNodes(switches, tuple(ids))
            by_identity[id(switches)] = cabled_nodes
        cabled_nodes.nodes += weight
        cabled.append(cabled_nodes)
    return cabled


def _switch_names(cabled: Iterable[_CabledNodes]) -> dict[str, str]:
    """The name of each switch, by its id."""
    names = {}
    for group in cabled:
        for switch in group.switches:
            if switch:
                names[switch.id] = switch.name
    return names


def _shared_names(names: Mapping[str, str]) -> dict[str, SharedName]:
    """The names, given by the switch's id, that several switches have, in their order."""
    ids_by_name: dict[str, list[str]] = {}
    for switch in sorted(names):
        name = names[switch]
        ids = ids_by_name.setdefault(name, [])
        ids.append(switch)
    shared = {}
    for name in sorted(ids_by_name):
        ids = ids_by_name[name]
        if name and len(ids) > 1:
            shared[name] = SharedName(name, tuple(ids))
    return shared


def _display_names(names: Mapping[str, str], shared_names: Container[str]) -> dict[str, str]:
    """What people call each switch, by its id: its name, with the id if several have that name."""
    shown = {}
    for switch, name in names.items():
        if name in shared_names:
            shown[switch] = f"{name} ({switch})"
        else:
            shown[switch] = name or switch
    return shown


def _miscabled(
    nodes: Table,
    cabled_groups: Sequence[_CabledNodes | None],
    expected: Mapping[Ids, Mapping[int, str]],
    display_names: Mapping[str, str],
) -> list[Miscabled]:
    """The rails that end in another switch than `expected`, sorted."""
    wrong_groups: dict[int, _CabledNodes] = {}
    for place, group in enumerate(cabled_groups):
        if group and group.ids in expected:
            wrong_groups[place] = group
    if not wrong_groups:
        return []
    miscabled: list[Miscabled] = []
    for node, place in zip(nodes, nodes.group_of_node, strict=True):
        if place not in wrong_groups:
            continue
        group = wrong_groups[place]
        miscabled += _miscabled_of(node, group, expected[group.ids], display_names)
    miscabled.sort()
    return miscabled


def _miscabled_of(
    node: NodeFacts,
    group: _CabledNodes,
    expected: Mapping[int, str],
    display_names: Mapping[str, str],
) -> Iterator[Miscabled]:
    """The rails of one node that end in another switch than `expected`, by the rail's number."""
    rails = zip(group.ids, node.ports, strict=False)
    for rail, (switch, port) in enumerate(rails):
        if switch and port and rail in expected:
            nic, switch_port = port
            yield Miscabled(
                node=node.name,
                uid=node.uid,
                nic=nic,
                switch=display_names[switch],
                port=switch_port,
                expected=display_names[expected[rail]],
            )


def _reported_names(status: Mapping[str, Any]) -> set[str]:
    """The shared names that a stored status reports."""
    reported_rails = status.get("rails") or {}
    shared_names = reported_rails.get("sharedNames") or ()
    return {shared["name"] for shared in shared_names}


def _lasting(
    timers: Timers[str],
    findings: Mapping[str, Finding],
    *,
    before: Container[str],
    now: float,
    grace: float,
) -> list[Finding]:
    """The findings that have lasted for the grace period, and those that the status names.

    A restarted controller has no memory.
    """
    timers.keep_only(findings)
    lasting = []
    for key, finding in findings.items():
        overdue = timers.is_overdue(key, now, grace)
        if overdue or key in before:
            lasting.append(finding)
    return lasting


def expected_switches(kinds: Mapping[Ids, int]) -> dict[Ids, dict[int, str]]:
    """The rails that end in another switch than expected, by number, with the expected one.

    `kinds`: how many nodes have which switches. Only nodes with equally many rails are compared.
    """
    compared = _compared(kinds)
    by_end: dict[_RailEnd, list[Ids]] = {}
    for ids in sorted(compared, key=lambda ids: (-kinds[ids], repr(ids))):
        for end in _rail_ends(ids):
            meeting = by_end.setdefault(end, [])
            meeting.append(ids)

    wrong = {}
    for ids in compared:
        shared_ends: Counter[Ids] = Counter()
        for end in _rail_ends(ids):
            most_common = by_end[end][:_MOST_COMPARED_SETS]
            shared_ends.update(most_common)
        expected = _unexpected_rails(ids, shared_ends, kinds)
        if expected:
            wrong[ids] = expected
    return wrong


def _compared(kinds: Mapping[Ids, int]) -> list[Ids]:
    """The sets of switches that have a switch in common with another one; mostly there are none."""
    times: Counter[str | None] = Counter()
    for ids in kinds:
        times.update(set(ids))
    del times[None]
    repeated = set()
    for switch, count in times.items():
        if count > 1:
            repeated.add(switch)
    return [ids for ids in kinds if not repeated.isdisjoint(ids)]


class _RailEnd(NamedTuple):
    """A rail: its number, how many its node has, and the switch that it is cabled to."""

    rails: int
    rail: int
    switch: str


def _rail_ends(ids: Ids) -> Iterator[_RailEnd]:
    """Where the rails end whose switch is known."""
    rails = len(ids)
    for rail, switch in enumerate(ids):
        if switch:
            yield _RailEnd(rails, rail, switch)


def _unexpected_rails(
    ids: Ids, shared_ends: Mapping[Ids, int], kinds: Mapping[Ids, int]
) -> dict[int, str]:
    """The rails that end in another switch than those of most peers, with that one.

    `shared_ends`: how many rails of other nodes end in the same switch as the same rail of these.
    """
    disputed: set[int] = set()
    for other in shared_ends:
        for rail, (ours, theirs) in enumerate(zip(ids, other, strict=True)):
            if ours and theirs and ours != theirs:
                disputed.add(rail)
    unexpected = {}
    for rail in disputed:
        expected = _expected(ids, rail, shared_ends, kinds)
        if expected and expected != ids[rail]:
            unexpected[rail] = expected
    return unexpected


def _expected(
    ids: Ids, rail: int, shared_ends: Mapping[Ids, int], kinds: Mapping[Ids, int]
) -> str | None:
    """The switch that most peers' rails end in, as in `_unexpected_rails`; None: not known."""
    peers_by_nearness = _peers_by_nearness(ids, rail, shared_ends)
    votes: Counter[str | None] = Counter()
    for same in sorted(peers_by_nearness, reverse=True):
        if 2 * same < len(ids):  # not most of the other rails
            return None
        for peer in peers_by_nearness[same]:
            switch = peer[rail]
            votes[switch] += kinds[peer]  # also its own: of two halves none is wrong
        if votes.total() > _LEAST_PEERS:
            return _voted_by_most(votes)
    return None


def _voted_by_most(votes: Counter[str | None]) -> str | None:
    """The switch with more than half of the votes, if any."""
    ((switch, most),) = votes.most_common(1)
    if 2 * most > votes.total():
        return switch
    return None


def _peers_by_nearness(ids: Ids, rail: int, shared_ends: Mapping[Ids, int]) -> dict[int, list[Ids]]:
    """Peers that know the rail's switch, by how many of the other rails end in the same switch."""
    peers: dict[int, list[Ids]] = {}
    for peer, same in shared_ends.items():
        if not peer[rail]:
            continue
        same_elsewhere = same
        if peer[rail] == ids[rail]:
            same_elsewhere -= 1
        as_near = peers.setdefault(same_elsewhere, [])
        as_near.append(peer)
    return peers


def rails_condition(rails: Rails) -> Condition:
    """The `RailsConsistent` condition."""
    if not rails.nodes:
        text = (
            "No Ready node knows which switches its rails are cabled to; "
            "docs/switches.md says how to find out"
        )
        return Condition(RAILS_CONSISTENT, "Unknown", NO_RAILS, text)
    reasons = []
    texts = []
    if rails.miscabled:
        reasons.append(MISCABLED)
        texts.append(_miscabled_words(rails.miscabled))
    if rails.shared_names:
        reasons.append("SwitchNamesNotUnique")
        texts.append(_shared_names_words(rails.shared_names))
    if reasons:
        return Condition(RAILS_CONSISTENT, "False", reasons[0], "; ".join(texts))
    text = "Every rail with a known switch is cabled to the same switch as its peers"
    return Condition(RAILS_CONSISTENT, "True", "RailsMeetPeers", text)


def _miscabled_words(miscabled: Sequence[Miscabled]) -> str:
    count = len(miscabled)
    several = f"{count} rails are cabled to other switches than their peers"
    what = plural(count, "1 rail is cabled to another switch than its peers", several)
    sentences = [rail.sentence for rail in miscabled]
    named = listing(sentences, MOST_FINDINGS)
    return f"{what}: {named}; move these cables, or all cables of a node that belongs elsewhere"


def _shared_names_words(shared_names: Sequence[SharedName]) -> str:
    called = []
    for shared in shared_names:
        ids = listing(shared.ids, _MOST_NAMED_IDS)
        count = len(shared.ids)
        called.append(f"{count} are called {shared.name} ({ids})")
    named = listing(called, MOST_FINDINGS)
    return f"switches share a name: {named}; give each a hostname of its own"


def rails_status(rails: Rails) -> dict[str, Any]:
    """The field `rails` of the status."""
    status: dict[str, Any] = {
        "nodes": rails.nodes,
        "miscabledRails": len(rails.miscabled),
    }
    if rails.miscabled:
        first_rails = rails.miscabled[:MOST_FINDINGS]
        status["miscabled"] = [_entry(rail) for rail in first_rails]
    if rails.shared_names:
        entries = []
        for shared in rails.shared_names[:MOST_FINDINGS]:
            entry = {"name": shared.name, "switches": len(shared.ids)}
            entries.append(entry)
        status["sharedNames"] = entries
    return status


def _entry(rail: Miscabled) -> dict[str, str]:
    entry = rail._asdict()
    del entry["uid"]
    return entry
