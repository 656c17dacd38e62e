"""What agents write to their own Nodes because a ClusterTopology asks for it.

Decided from one small object. The controller keeps the plan: the levels in effect of each
ClusterTopology that asks for something. Each agent reads it and its own Node's labels, and knows
what belongs there: labels whose value alone tells the domains of a level apart
(`spec.uniqueValues`), and Slinky's annotation (`spec.publish.slinky`). So each key has one writer,
and the plan changes only when the levels do. The controller compares Nodes with the same functions
to say which agents have not written yet.

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

from toposcope.api.label_keys import own_input, unique_key
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
    """One ClusterTopology that asks for something on nodes."""

    name: str
    selector: tuple[Requirement, ...]
    levels: tuple[Level, ...]
    """Those in effect, broadest first."""
    unique: tuple[str, ...] = ()
    """Domains of `spec.uniqueValues`."""
    annotates: bool = False
    """Whether nodes get Slinky's annotation."""
    slurm: SlurmNames | None = None
    """How Slurm's domains are named; None while that is not known: annotations stay as they are."""

    def selects(self, node: Labelled) -> bool:
        """Whether the node belongs to this topology.

        None does by a label that agents write because of the plan.
        """
        return all(
            requirement.holds(node) and not own_input(requirement.key)
            for requirement in self.selector
        )

    def input_keys(self) -> frozenset[str]:
        """The labels that decide what a node gets."""
        named = {level.key for level in self.levels}
        named.update(requirement.key for requirement in self.selector)
        if self.slurm:
            named.update(level.key for level in self.slurm.tree)
            named.update(level.key for level in self.slurm.above)
            named.update([self.slurm.block.key] if self.slurm.block else ())
        return frozenset(named)


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
        return key in self.kept or not self.complete


@dataclass(frozen=True, slots=True)
class NodePlan:
    """All that agents need to know, the oldest ClusterTopology first.

    Where several ask for a key, it decides.
    """

    topologies: tuple[PlannedTopology, ...] = ()
    placeholders: frozenset[str] = frozenset()
    """Label values that mean "unknown"; the node lacks the level."""
    complete: bool = True
    """False: some ClusterTopologies are not in it, so agents remove nothing on account of them."""

    def input_keys(self) -> frozenset[str]:
        """The labels that decide what a node gets."""
        return frozenset[str]().union(*(topology.input_keys() for topology in self.topologies))

    def wanted(self, name: str, node: Labelled) -> PlannedKeys:
        """What belongs on the node of this name with these labels."""
        selecting = [topology for topology in self.topologies if topology.selects(node)]
        deciding: dict[str, PlannedTopology] = {}
        for topology in selecting:
            for domain in topology.unique:
                deciding.setdefault(domain, topology)
        labels, kept = {}, set()
        for domain, topology in deciding.items():
            value = self._unique(topology, domain, node)
            if value is None:
                kept.add(unique_key(domain))
            elif value:
                labels[unique_key(domain)] = value
        annotating = next((topology for topology in selecting if topology.annotates), None)
        return PlannedKeys(
            labels=labels,
            kept=frozenset(kept),
            annotation=self._annotation(annotating, name, node) if annotating else None,
            keeps_annotation=annotating.slurm is None if annotating else not self.complete,
            complete=self.complete,
        )

    def _unique(self, topology: PlannedTopology, domain: str, node: Labelled) -> str | None:
        """The value at that level.

        Empty if the node lacks a level on the way, None if the level is not in effect.
        """
        path = []
        for level in topology.levels:
            if own_input(level.key):
                continue
            path.append(self._value(node, level.key) or "")
            if level.domain == domain:
                return unique_value(path) if all(path) else ""
        return None

    def _annotation(self, topology: PlannedTopology, name: str, node: Labelled) -> str | None:
        if topology.slurm is None:
            return None
        found = units(topology.name, topology.slurm, name, lambda key: self._value(node, key))
        return found if found and len(found) <= LONGEST_ANNOTATION else None

    def _value(self, node: Labelled, key: str) -> str | None:
        """The node's domain value at the level of this key.

        Never what agents write because of the plan itself.
        """
        value = None if own_input(key) else node.label(key)
        return None if value in self.placeholders else value


def unique_value(path: Sequence[str]) -> str:
    """The values of a path, broadest first, as one value.

    Where they do not fit, the end of the last and a hash.
    """
    joined = ".".join(path)
    if len(joined) <= LONGEST_VALUE and all(path) and "." not in "".join(path):
        return joined
    digest = hashlib.sha256("\0".join(path).encode()).hexdigest()[:_DIGITS]
    name = _NOT_IN_A_NAME.sub("-", path[-1])[-(LONGEST_VALUE - _DIGITS - 1) :].strip("-")
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
    return compact(document)


def fitting(plan: NodePlan, largest: int = LARGEST) -> NodePlan:
    """The plan, or as many of its oldest topologies as `largest` bytes of text hold."""
    if len(encode(plan).encode()) <= largest:
        return plan
    kept: list[PlannedTopology] = []
    room = largest - len(encode(NodePlan((), plan.placeholders, complete=False)).encode())
    for topology in plan.topologies:
        room -= len(compact(_topology(topology)).encode()) + 1
        if room < 0:
            break
        kept.append(topology)
    return NodePlan(tuple(kept), plan.placeholders, complete=False)


def decode(text: str) -> NodePlan:
    """The plan in a text of `encode`.

    Raises ValueError for any other, also for that of another version.
    """
    if len(text.encode()) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 10} KiB")
    try:
        document = parse(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise ValueError(f"it is of version {version!r}, and this program reads version {VERSION}")
    if wrong := problem(document, _PLAN):
        raise ValueError(wrong)
    return NodePlan(
        topologies=tuple(_read_topology(entry) for entry in document["topologies"]),
        placeholders=frozenset(document["placeholders"]),
        complete=document.get("complete") is not False,
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
        block = topology.slurm.block
        entry["slurm"] = {
            "tree": [_named(level) for level in topology.slurm.tree],
            "above": [_level(level) for level in topology.slurm.above],
            **({"block": _named(block)} if block else {}),
        }
    return entry


def _requirement(requirement: Requirement) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    return entry | ({"values": sorted(requirement.values)} if requirement.values else {})


def _level(level: Level) -> dict[str, str]:
    return {"domain": level.domain, "key": level.key}


def _named(level: NamedLevel) -> dict[str, Any]:
    entry: dict[str, Any] = {"domain": level.domain, "key": level.key, "style": level.style.value}
    return entry | ({"prefixed": True} if level.prefixed else {})


def _read_topology(entry: Mapping[str, Any]) -> PlannedTopology:
    return PlannedTopology(
        name=entry["name"],
        selector=tuple(_read_requirement(requirement) for requirement in entry["selector"]),
        levels=tuple(_read_level(level) for level in entry["levels"]),
        unique=tuple(entry.get("unique") or ()),
        annotates=entry.get("annotates") is True,
        slurm=_read_slurm(entry["slurm"]) if entry.get("slurm") else None,
    )


def _read_requirement(entry: Mapping[str, Any]) -> Requirement:
    return Requirement(entry["key"], entry["operator"], frozenset(entry.get("values") or ()))


def _read_level(entry: Mapping[str, Any]) -> Level:
    return Level(entry["domain"], entry["key"])


def _read_slurm(entry: Mapping[str, Any]) -> SlurmNames:
    return SlurmNames(
        tree=tuple(_read_named(level) for level in entry["tree"]),
        above=tuple(_read_level(level) for level in entry["above"]),
        block=_read_named(entry["block"]) if entry.get("block") else None,
    )


def _read_named(entry: Mapping[str, Any]) -> NamedLevel:
    prefixed = entry.get("prefixed") is True
    return NamedLevel(entry["domain"], entry["key"], Style(entry["style"]), prefixed)
