"""What agents write to their own Nodes because a ClusterTopology asks for it.

Decided from one small object. The controller keeps the plan: the levels in effect of each
ClusterTopology. Each agent reads it and its own Node's labels, and knows what belongs there: labels
whose value alone tells the domains of a level apart (`spec.uniqueValues`), and Slinky's annotation
(`spec.publish.slinky`). So each key has one writer, and the plan changes only when the levels do.
The controller compares Nodes with the same functions to say which agents have not written yet.
`toposcope.integrations.node_path` derives from it where a node is.

kube-scheduler's gangs and pod affinity group nodes by the value of one label, so `rack-1` of two
blocks is one rack to them. With `spec.uniqueValues: [rack]` each selected node gets
`gpu.topology/unique-rack`: the values of all levels down to the rack. Without msgspec, because
agents import this.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.label_keys import is_own_input, unique_key
from toposcope.api.levels import Level
from toposcope.api.requirement import Labelled, Requirement
from toposcope.integrations.slurm.names import NamedLevel, SlurmNames, Style, units
from toposcope.kube.shapes import Optional, problem
from toposcope.text import compact, parse

CONFIG_MAP: Final = "toposcope-node-plan"
"""The ConfigMap in the controller's namespace."""
FIELD: Final = "plan.json"
VERSION: Final = 1
LARGEST: Final = 768 << 10
"""Bytes; the API server takes a ConfigMap of 1 MiB."""

LONGEST_VALUE: Final = 63
"""Characters of a label value."""
LONGEST_ANNOTATION: Final = 1024
"""Characters of Slinky's annotation; the admission policy allows no more."""
_DIGITS: Final = 12
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class PlannedTopology:
    """One ClusterTopology: its levels, and what it asks for on nodes, if anything."""

    name: str
    selector: tuple[Requirement, ...]
    levels: tuple[Level, ...]
    """The levels in effect, broadest first."""
    unique: tuple[str, ...] = ()
    """Domains of `spec.uniqueValues`."""
    annotates: bool = False
    """Whether nodes get Slinky's annotation."""
    slurm: SlurmNames | None = None
    """How Slurm's domains are named; None while that is not known: annotations stay as they are."""

    @property
    def asks_for_keys(self) -> bool:
        """Whether agents write something because of it."""
        return bool(self.unique) or self.annotates

    def selects(self, node: Labelled) -> bool:
        """Whether the node belongs to this topology.

        Labels that agents write because of the plan do not count.
        """
        for requirement in self.selector:
            if is_own_input(requirement.key) or not requirement.holds(node):
                return False
        return True

    def path_keys(self) -> frozenset[str]:
        """The labels that decide which path a node has."""
        keys = {requirement.key for requirement in self.selector}
        keys |= {level.key for level in self.levels}
        return frozenset(key for key in keys if not is_own_input(key))

    def input_keys(self) -> frozenset[str]:
        """The labels that decide what a node gets."""
        keys = set(self.path_keys())
        slurm = self.slurm
        if slurm is not None:
            for named_level in slurm.tree:
                keys.add(named_level.key)
            for level in slurm.above:
                keys.add(level.key)
            if slurm.block is not None:
                keys.add(slurm.block.key)
        return frozenset(keys)


@dataclass(frozen=True, slots=True)
class PlannedKeys:
    """What belongs on one node."""

    labels: Mapping[str, str]
    kept: frozenset[str] = frozenset()
    """Labels that stay as they are, because their level is not in effect."""
    annotation: str | None = None
    keeps_annotation: bool = False
    """Whether the annotation stays as it is, because its names are not known."""
    complete: bool = True
    """False: labels that are not named here may be wanted all the same."""

    def keeps(self, key: str) -> bool:
        """Whether a label that is there stays, if `labels` does not name it."""
        if not self.complete:
            return True
        return key in self.kept


@dataclass(frozen=True, slots=True)
class NodePlan:
    """All that agents need to know.

    The oldest ClusterTopology is the first, and decides where several ask for a key.
    """

    topologies: tuple[PlannedTopology, ...] = ()
    placeholders: frozenset[str] = frozenset()
    """Label values that mean "unknown"; the node lacks the level."""
    complete: bool = True
    """False: some ClusterTopologies that ask for keys may be missing: agents remove nothing."""
    has_all_paths: bool = True
    """False: some ClusterTopologies that ask for nothing are missing, so paths may be too."""

    def input_keys(self) -> frozenset[str]:
        """The labels that decide what a node gets."""
        keys: set[str] = set()
        for topology in self.topologies:
            if topology.asks_for_keys:
                keys |= topology.input_keys()
        return frozenset(keys)

    def wanted(self, name: str, node: Labelled) -> PlannedKeys:
        """What belongs on the node of this name with these labels."""
        by_domain: dict[str, PlannedTopology] = {}
        annotating: PlannedTopology | None = None
        for topology in self.topologies:
            if not topology.selects(node):
                continue
            for domain in topology.unique:
                by_domain.setdefault(domain, topology)
            if topology.annotates and annotating is None:
                annotating = topology

        labels = {}
        kept = set()
        for domain, topology in by_domain.items():
            key = unique_key(domain)
            value = self._unique(topology, domain, node)
            if value is None:
                kept.add(key)
            elif value:
                labels[key] = value

        annotation = None
        keeps_annotation = not self.complete
        if annotating is not None:
            annotation = self._annotation(annotating, name, node)
            keeps_annotation = annotating.slurm is None
        return PlannedKeys(
            labels=labels,
            kept=frozenset(kept),
            annotation=annotation,
            keeps_annotation=keeps_annotation,
            complete=self.complete,
        )

    def _unique(self, topology: PlannedTopology, domain: str, node: Labelled) -> str | None:
        """The value at that level; None if the level is not in effect.

        It is empty if the node lacks a level on the way.
        """
        path = []
        for level in topology.levels:
            if is_own_input(level.key):
                continue
            value = self.value(node, level.key)
            path.append(value or "")
            if level.domain != domain:
                continue
            if not all(path):
                return ""
            return unique_value(path)
        return None

    def _annotation(self, topology: PlannedTopology, name: str, node: Labelled) -> str | None:
        if topology.slurm is None:
            return None

        def value_of(key: str) -> str | None:
            return self.value(node, key)

        annotation = units(topology.name, topology.slurm, name, value_of)
        if not annotation or len(annotation) > LONGEST_ANNOTATION:
            return None
        return annotation

    def value(self, node: Labelled, key: str) -> str | None:
        """The node's domain value at the level of this key.

        Never what agents write because of the plan itself.
        """
        if is_own_input(key):
            return None
        value = node.label(key)
        if value in self.placeholders:
            return None
        return value


def unique_value(path: Sequence[str]) -> str:
    """The values of a path, broadest first, as one value.

    Where they do not fit, it is the end of the last and a hash.
    """
    joined = ".".join(path)
    is_distinct = all(path) and "." not in "".join(path)
    if is_distinct and len(joined) <= LONGEST_VALUE:
        return joined

    whole_path = "\0".join(path).encode()
    hashed = hashlib.sha256(whole_path).hexdigest()
    digest = hashed[:_DIGITS]
    longest_name = LONGEST_VALUE - len(f"-{digest}")
    name = _NOT_IN_A_NAME.sub("-", path[-1])
    name = name[-longest_name:].strip("-")
    return f"{name or 'domain'}-{digest}"


# The text of the plan: short, and the same for the same plan.

_LEVEL: Final = {"domain": str, "key": str}
_NAMED: Final = {"domain": str, "key": str, "style": str}
_SLURM: Final = Optional({"tree": [_NAMED], "above": [_LEVEL], "block": Optional(_NAMED)})
_TOPOLOGY: Final = {
    "name": str,
    "selector": [{"key": str, "operator": str, "values": Optional([str])}],
    "levels": [_LEVEL],
    "unique": Optional([str]),
    "slurm": _SLURM,
}
_PLAN: Final = {"topologies": [_TOPOLOGY], "placeholders": [str]}


def encode(plan: NodePlan) -> str:
    """The plan as compact JSON."""
    document: dict[str, Any] = {
        "version": VERSION,
        "placeholders": sorted(plan.placeholders),
        "topologies": [_topology(topology) for topology in plan.topologies],
    }
    if not plan.complete:
        document["complete"] = False
    if not plan.has_all_paths:
        document["hasAllPaths"] = False
    return compact(document)


def fitting(plan: NodePlan, largest: int = LARGEST) -> NodePlan:
    """The plan, or as much of it as `largest` bytes of text hold.

    Topologies that ask for keys come first, then the older ones: keys would be wrong without them,
    and a path is only unknown.
    """
    if _size(encode(plan)) <= largest:
        return plan

    empty = NodePlan((), plan.placeholders, complete=False, has_all_paths=False)
    room = largest - _size(encode(empty))
    kept: set[str] = set()
    asking, others = _by_need(plan.topologies)
    kept_asking, room = _fill(asking, room, kept)
    if kept_asking:
        _fill(others, room, kept)
    topologies = []
    for topology in plan.topologies:
        if topology.name in kept:
            topologies.append(topology)
    return NodePlan(
        topologies=tuple(topologies),
        placeholders=plan.placeholders,
        complete=plan.complete and kept_asking,
        has_all_paths=False,
    )


def _by_need(
    topologies: Sequence[PlannedTopology],
) -> tuple[list[PlannedTopology], list[PlannedTopology]]:
    """Those that ask for keys, and those that do not."""
    asking, others = [], []
    for topology in topologies:
        if topology.asks_for_keys:
            asking.append(topology)
        else:
            others.append(topology)
    return asking, others


def _fill(topologies: Sequence[PlannedTopology], room: int, kept: set[str]) -> tuple[bool, int]:
    """Add names to `kept` while they have room; whether all had, and the bytes that are left."""
    for topology in topologies:
        text = compact(_topology(topology))
        room -= _size(text) + len(",")
        if room < 0:
            return False, 0
        kept.add(topology.name)
    return True, room


def _size(text: str) -> int:
    return len(text.encode())


def decode(text: str) -> NodePlan:
    """The plan in a text of `encode`.

    Raises ValueError for any other, also for that of another version.
    """
    if _size(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 10} KiB")
    try:
        document = parse(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error

    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise ValueError(f"it is of version {version!r}, and this program reads version {VERSION}")
    wrong = problem(document, _PLAN)
    if wrong:
        raise ValueError(wrong)

    topologies = []
    for entry in document["topologies"]:
        topologies.append(_read_topology(entry))
    return NodePlan(
        topologies=tuple(topologies),
        placeholders=frozenset(document["placeholders"]),
        complete=document.get("complete") is not False,
        has_all_paths=document.get("hasAllPaths") is not False,
    )


def _topology(topology: PlannedTopology) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": topology.name,
        "selector": [_requirement(requirement) for requirement in topology.selector],
        "levels": [_level(level) for level in topology.levels],
    }
    if topology.unique:
        entry["unique"] = list(topology.unique)
    if topology.annotates:
        entry["annotates"] = True
    if topology.slurm:
        entry["slurm"] = _slurm(topology.slurm)
    return entry


def _slurm(names: SlurmNames) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "tree": [_named(level) for level in names.tree],
        "above": [_level(level) for level in names.above],
    }
    if names.block:
        entry["block"] = _named(names.block)
    return entry


def _requirement(requirement: Requirement) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": requirement.key,
        "operator": requirement.operator,
    }
    if requirement.values:
        entry["values"] = sorted(requirement.values)
    return entry


def _level(level: Level) -> dict[str, str]:
    return {"domain": level.domain, "key": level.key}


def _named(level: NamedLevel) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "domain": level.domain,
        "key": level.key,
        "style": level.style.value,
    }
    if level.is_prefixed:
        entry["prefixed"] = True
    return entry


def _read_topology(entry: Mapping[str, Any]) -> PlannedTopology:
    selector = []
    for requirement in entry["selector"]:
        selector.append(_read_requirement(requirement))
    slurm = None
    if entry.get("slurm"):
        slurm = _read_slurm(entry["slurm"])
    return PlannedTopology(
        name=entry["name"],
        selector=tuple(selector),
        levels=_read_levels(entry["levels"]),
        unique=tuple(entry.get("unique") or ()),
        annotates=entry.get("annotates") is True,
        slurm=slurm,
    )


def _read_requirement(entry: Mapping[str, Any]) -> Requirement:
    values = entry.get("values") or ()
    return Requirement(
        key=entry["key"],
        operator=entry["operator"],
        values=frozenset(values),
    )


def _read_levels(entries: Sequence[Mapping[str, Any]]) -> tuple[Level, ...]:
    levels = []
    for entry in entries:
        level = Level(entry["domain"], entry["key"])
        levels.append(level)
    return tuple(levels)


def _read_slurm(entry: Mapping[str, Any]) -> SlurmNames:
    tree = []
    for level in entry["tree"]:
        tree.append(_read_named(level))
    block = None
    if entry.get("block"):
        block = _read_named(entry["block"])
    return SlurmNames(
        tree=tuple(tree),
        above=_read_levels(entry["above"]),
        block=block,
    )


def _read_named(entry: Mapping[str, Any]) -> NamedLevel:
    return NamedLevel(
        domain=entry["domain"],
        key=entry["key"],
        style=Style(entry["style"]),
        is_prefixed=entry.get("prefixed") is True,
    )
