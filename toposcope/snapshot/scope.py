"""The scope of a command: a topology, its levels and nodes, as the controller sees them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from toposcope.api.cluster_topology import USUAL_COVERAGE_PERCENT, Topology
from toposcope.api.conditions import READY, STATUS_REFUSED
from toposcope.api.label_keys import GPUS, PREFIX
from toposcope.api.levels import Level
from toposcope.errors import ToposcopeError
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.coverage import cover, nodes_needed, partly_carried, some_names
from toposcope.hierarchy.effective_levels import LevelTimers, effective_levels, inferred_levels
from toposcope.hierarchy.fault_domains import ZONE_KEYS, zone_of
from toposcope.hierarchy.node import OWN_NAME, NodeFacts, Traits
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.features import condition
from toposcope.integrations.registry import is_bound
from toposcope.kube.gpu_shares import LABELS as SHARE_LABELS
from toposcope.snapshot.model import NodeView, Snapshot

MAIN: Final = "cluster"
"""The ClusterTopology of the base manifests: the default when there are several."""


class Origin(StrEnum):
    """The source of the levels."""

    SPEC = "spec"
    """`spec.levels`."""
    OBSERVED = "observed"
    """Inferred from node labels, and kept as in the status of the ClusterTopology."""
    INFERRED = "inferred"
    """Inferred from node labels alone: there is no ClusterTopology."""


class TopologyNotFoundError(ToposcopeError):
    """No such ClusterTopology, or several to choose from; the message lists them."""


@dataclass(frozen=True, slots=True)
class LevelDisagreement:
    """The controller's status and the labels of the nodes tell of different levels."""

    is_by_status: bool
    """Whether the levels are those of the status; else of labels, because the status is stale."""
    others: tuple[Level, ...]
    """The levels that the scope does not use."""

    @property
    def note(self) -> str:
        """Which levels are shown, and what the others are."""
        others = _path(self.others)
        if self.is_by_status:
            return f"the levels are those of the controller's status; node labels say {others}"
        return (
            "the levels are inferred from labels, because the controller's status is of an "
            f"earlier spec; it has {others}"
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """Levels, broadest first, and the nodes they apply to, by name."""

    topology: Topology | None
    origin: Origin
    levels: tuple[Level, ...]
    nodes: tuple[NodeView, ...]
    catalogue: Catalogue = BUILT_IN
    """Which label carries which level."""
    without_agent: tuple[NodeView, ...] = ()
    """Nodes with GPUs that are not among `nodes` only because no agent has labelled them."""
    disagreement: LevelDisagreement | None = None
    _tables: dict[frozenset[str], Table] = field(default_factory=dict, compare=False, repr=False)
    """Tables built so far, by their labels."""

    def within(self, nodes: Iterable[NodeView]) -> "Scope":
        """The same levels for only these nodes."""
        return replace(self, nodes=tuple(nodes), _tables={})

    @property
    def name(self) -> str:
        """The ClusterTopology's name, empty where there is none."""
        return self.topology.name if self.topology else ""

    @property
    def path(self) -> str:
        """The levels in one line."""
        return _path(self.levels)

    @property
    def is_before_agents(self) -> bool:
        """Whether no agent has labelled a node yet, and there is no ClusterTopology either."""
        return self.topology is None and bool(self.nodes) and self.nodes[0].is_without_agent

    @property
    def lacks_topology(self) -> bool:
        """Whether there is no ClusterTopology although agents label nodes: nothing is published."""
        return self.topology is None and not self.is_before_agents

    def table(self) -> Table:
        """The nodes by their level labels, for everything that counts domains."""
        return self.table_with(level.key for level in self.levels)

    def table_with(self, keys: Iterable[str]) -> Table:
        """The nodes by these labels."""
        wanted = frozenset(keys)
        for table_keys, table in self._tables.items():
            if wanted <= table_keys:
                return table

        table = table_of(self.nodes, wanted, self.catalogue)
        self._tables[wanted] = table
        return table

    def level(self, name: str) -> int:
        """The position of the level with this domain or key. Raises LevelNotFoundError."""
        for position, level in enumerate(self.levels):
            if name in (level.domain, level.key):
                return position

        why = self._why_none(name) or _near(name, self.levels)
        raise LevelNotFoundError(f"there is no level {name!r}{why}; the levels are: {self.path}")

    def _why_none(self, name: str) -> str:
        """Why a known level is not one of the levels; empty if the level is unknown."""
        catalogue = self.catalogue
        if self.origin is Origin.SPEC:
            domain = catalogue.domain_of.get(name, name)
            is_known = domain in catalogue.keys
            return ": spec.levels does not list it" if is_known else ""

        table = self.table_with(catalogue.level_keys)
        for level in partly_carried(self.levels, table, catalogue):
            if name in (level.domain, level.key):
                return self._too_few(level, table)
        return ""

    def _too_few(self, level: Level, table: Table) -> str:
        """Why a level is none: too few nodes carry it."""
        nodes = len(table)
        percent = self.topology.min_coverage_percent if self.topology else USUAL_COVERAGE_PERCENT
        needed = nodes_needed(nodes, percent)
        (coverage,) = cover([level], table)
        missing = coverage.missing
        names = some_names(coverage.missing_nodes, missing)
        everybody = "all" if needed == nodes else "at least"
        return (
            f", because {missing:,} of {nodes:,} nodes lack {level.key} and "
            f"{everybody} {needed:,} must carry it; lacking: {names}"
        )


class LevelNotFoundError(ToposcopeError):
    """A level that the topology does not have; the message lists its levels."""


def select_scope(snapshot: Snapshot, name: str | None = None) -> Scope:
    """The levels and nodes of the topology with this name.

    Without a name it is the only topology, or the one called `cluster`; without any topology the
    labels decide. Raises TopologyNotFoundError.
    """
    topology = choose_topology(snapshot.topologies, name)
    if topology is None:
        return _inferred(snapshot)

    bare = Scope(
        topology=topology,
        origin=Origin.SPEC,
        levels=(),
        nodes=tuple(filter(topology.selects, snapshot.nodes)),
        catalogue=snapshot.catalogue,
        without_agent=tuple(_awaited(topology, snapshot.nodes)),
    )

    scope = _under(topology, bare)
    if scope.origin is not Origin.OBSERVED or snapshot.has_changed_nodes:
        return scope
    return _as_reported(topology, scope)


def _inferred(snapshot: Snapshot) -> Scope:
    """The levels and nodes of a cluster without a ClusterTopology."""
    catalogue = snapshot.catalogue
    nodes = with_gpus(snapshot.nodes)
    table = table_of(nodes, catalogue.level_keys, catalogue)

    without_agent = []
    # Where there is no agent at all, these nodes are the nodes of the scope.
    if not nodes or not nodes[0].is_without_agent:
        without_agent = [node for node in snapshot.nodes if node.is_without_agent]
    return Scope(
        topology=None,
        origin=Origin.INFERRED,
        levels=inferred_levels(None, table, catalogue),
        nodes=nodes,
        catalogue=catalogue,
        without_agent=tuple(without_agent),
        _tables={catalogue.level_keys: table},
    )


def _under(topology: Topology, scope: Scope) -> Scope:
    """The scope with the levels that the topology has on its nodes; its tables are kept."""
    if topology.levels is not None:
        return replace(scope, origin=Origin.SPEC, levels=topology.levels)
    if not scope.nodes:
        return replace(scope, origin=Origin.OBSERVED, levels=topology.last_levels)

    last_keys = {level.key for level in topology.last_levels}
    table = scope.table_with(scope.catalogue.level_keys | last_keys)
    # Timers begin now: a level that no node carries stays until the controller drops it.
    effective = effective_levels(
        topology,
        table,
        LevelTimers(),
        0.0,
        catalogue=scope.catalogue,
        retains=is_bound(topology),
    )
    return replace(scope, origin=Origin.OBSERVED, levels=effective.levels)


def _as_reported(topology: Topology, scope: Scope) -> Scope:
    """The scope with the levels of the controller's status, unless that is stale."""
    reported = topology.last_levels
    if "levels" not in topology.status or reported == scope.levels:
        return scope

    ready = condition({"status": topology.status}, READY)
    is_refused = ready is not None and ready.reason == STATUS_REFUSED
    if topology.has_current_status and not is_refused:
        disagreement = LevelDisagreement(is_by_status=True, others=scope.levels)
        return replace(scope, levels=reported, disagreement=disagreement)
    if not reported:
        return scope

    return replace(scope, disagreement=LevelDisagreement(is_by_status=False, others=reported))


def _path(levels: Iterable[Level]) -> str:
    return " > ".join(level.domain for level in levels) or "no levels"


def _awaited(topology: Topology, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
    """Nodes without an agent that the topology may select as soon as one has labelled them."""
    on_other_labels = []
    for requirement in topology.selector:
        if not requirement.key.startswith(PREFIX):
            on_other_labels.append(requirement)

    for node in nodes:
        if not node.is_without_agent or topology.selects(node):
            continue
        if all(requirement.holds(node) for requirement in on_other_labels):
            yield node


def with_gpus(nodes: Sequence[NodeView]) -> tuple[NodeView, ...]:
    """The nodes that agents have labelled; before there are agents, those with signs of GPUs."""
    labelled = [node for node in nodes if node.label(GPUS) is not None]
    if labelled:
        return tuple(labelled)
    return tuple([node for node in nodes if node.has_gpus])


def table_of(
    nodes: Sequence[NodeView], keys: Collection[str], catalogue: Catalogue = BUILT_IN
) -> Table:
    """The nodes as a table of these labels."""
    return Table(facts(nodes, keys), catalogue.placeholders)


def facts(nodes: Sequence[NodeView], keys: Collection[str]) -> list[NodeFacts]:
    """The nodes with these labels only, as `toposcope.hierarchy` takes them.

    Equal nodes share traits.
    """
    picks: dict[int, _Pick] = {}
    traits_by_content: dict[object, Traits] = {}
    all_facts = []
    for node in nodes:
        # Nodes with equal label keys share one mapping, which they keep alive; the same goes for
        # `allocatable`.
        keys_id = id(node.places)
        pick = picks.get(keys_id)
        if pick is None:
            pick = picks[keys_id] = _pick(node, keys)

        name = node.name
        values = pick.values_of(node.values)
        if node.is_of_azure:
            values = _without_fault_domain(pick.keys, values)
        if name in values:
            values = tuple([OWN_NAME if value == name else value for value in values])
        content = keys_id, values, node.is_ready, node.is_schedulable, id(node.allocatable)
        traits = traits_by_content.get(content)
        if traits is None:
            traits = traits_by_content[content] = Traits(
                pick.keys,
                values[: len(pick.keys)],
                node.is_ready,
                node.is_schedulable,
                node.gpus,
            )
        all_facts.append(NodeFacts(name, node.uid, traits))

    return all_facts


def _without_fault_domain(keys: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    """The values of a node of Azure, with words for a fault domain in place of a zone.

    More values may follow than there are keys.
    """
    zones = list(values)
    for place, key in enumerate(keys):
        if key in ZONE_KEYS:
            zones[place] = zone_of(values[place])
    return tuple(zones)


class _Pick(NamedTuple):
    """The labels to take from nodes with equal label keys."""

    keys: tuple[str, ...]
    values_of: Callable[[tuple[str, ...]], tuple[str, ...]]
    """Gets the values of `keys`, then those of the labels that say how many GPUs there are."""


def _pick(node: NodeView, keys: Collection[str]) -> _Pick:
    position = node.places
    carried = [key for key in position if key in keys]
    places = [position[key] for key in carried]
    # Where no agent has counted the GPUs, other labels say how many there are.
    counted = (GPUS,) if GPUS in position else SHARE_LABELS
    for key in counted:
        if key in position:
            places.append(position[key])
    return _Pick(tuple(carried), _picker(places))


def _picker(places: Sequence[int]) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Gets the values at these places of a row."""
    if not places:
        return lambda _row: ()
    if len(places) == 1:
        (place,) = places
        return lambda row: (row[place],)

    values_of: Callable[[tuple[str, ...]], tuple[str, ...]] = itemgetter(*places)
    return values_of


def choose_topology(topologies: Sequence[Topology], name: str | None) -> Topology | None:
    """The ClusterTopology of this name, or as `select_scope` chooses one without a name.

    Raises TopologyNotFoundError.
    """
    by_name = {topology.name: topology for topology in topologies}
    if name:
        if name not in by_name:
            raise TopologyNotFoundError(_no_such_topology(name, by_name))
        return by_name[name]
    if MAIN in by_name:
        return by_name[MAIN]

    # The controller makes topologies for segments, which belong to another topology.
    by_people = [topology for topology in topologies if not topology.owner]
    if len(by_people) == 1:
        return by_people[0]
    if topologies:
        names = ", ".join(sorted(by_name))
        raise TopologyNotFoundError(f"there are several ClusterTopologies; name one of: {names}")
    return None


def _no_such_topology(name: str, names: Collection[str]) -> str:
    hint = _did_you_mean(name, names)
    existing = ", ".join(sorted(names))
    if not existing:
        existing = "none"
    return f"there is no ClusterTopology {name!r}{hint}; existing: {existing}"


def _near(name: str, levels: Sequence[Level]) -> str:
    names: list[str] = []
    for level in levels:
        names += (level.domain, level.key)
    return _did_you_mean(name, names)


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, names, 1)
    if not close:
        return ""
    return f" (did you mean {close[0]!r}?)"
