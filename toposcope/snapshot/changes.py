"""The changes between two snapshots of a cluster, grouped as an admin would tell them.

A missing rack is one change, not eighteen; so are nodes that moved together from one domain to
another.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from toposcope.api import label_keys
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import level_value
from toposcope.snapshot.filters import marks
from toposcope.snapshot.model import NodeView, PublishedTopology
from toposcope.snapshot.scope import Scope


class ChangeKind(StrEnum):
    """The kind of change, in the order in which changes are listed."""

    LEVEL = "level"
    CONDITION = "condition"
    PUBLISHED = "published"
    DOMAIN_GONE = "domain-gone"
    DOMAIN_NEW = "domain-new"
    NODE_GONE = "node-gone"
    NODE_NEW = "node-new"
    MOVED = "moved"
    STATE = "state"
    HARDWARE = "hardware"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the cluster."""

    kind: ChangeKind
    subject: str
    """A level, a domain, a condition or a hardware fact."""
    before: str
    after: str
    nodes: tuple[str, ...] = ()
    """The nodes that it affects, sorted."""


_HARDWARE: Final = (
    label_keys.GPUS,
    label_keys.GPU_PRODUCT,
    label_keys.INTERCONNECT,
    label_keys.NVLINK_LINKS,
    label_keys.SHAPE,
    label_keys.FABRIC,
    label_keys.RAIL_ALIGNED,
)
"""Labels that say what the hardware is."""

Path = tuple[str, ...]
"""A domain as its values from the broadest level down."""


def changes(
    before: Scope,
    after: Scope,
    published_before: Sequence[PublishedTopology] = (),
    published_after: Sequence[PublishedTopology] = (),
) -> list[Change]:
    """Everything that changed from `before` to `after`."""
    old = {node.name: node for node in before.nodes}
    new = {node.name: node for node in after.nodes}
    pairs = []
    for name in sorted(old.keys() & new.keys()):
        pairs.append(_Pair(old[name], new[name]))

    conditions = _conditions(before), _conditions(after)
    published = _published(published_before), _published(published_after)
    return [
        *_levels(before.levels, after.levels),
        *_differences(ChangeKind.CONDITION, *conditions),
        *_differences(ChangeKind.PUBLISHED, *published),
        *_gone(old, new, before),
        *_new(new, old, after),
        *_moved(pairs, before, after),
        *_grouped(pairs, ChangeKind.STATE, "state", _state),
        *_hardware(pairs),
    ]


class _Pair(NamedTuple):
    """A node before and after."""

    old: NodeView
    new: NodeView


def _levels(old: Sequence[Level], new: Sequence[Level]) -> Iterator[Change]:
    was = {level.domain: level.key for level in old}
    now = {level.domain: level.key for level in new}
    yield from _differences(ChangeKind.LEVEL, was, now)

    order_before = [domain for domain in was if domain in now]
    order_after = [domain for domain in now if domain in was]
    if order_before != order_after:
        yield Change(
            kind=ChangeKind.LEVEL,
            subject="order",
            before=" > ".join(order_before),
            after=" > ".join(order_after),
        )


def _differences(
    kind: ChangeKind, was: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Change]:
    """The differences between two states, which are texts by subject."""
    for subject in {**was, **now}:
        before = was.get(subject)
        after = now.get(subject)
        if before == after:
            continue
        yield Change(
            kind=kind,
            subject=subject,
            before=before or "",
            after=after or "",
        )


def _conditions(scope: Scope) -> dict[str, str]:
    if scope.topology is None:
        return {}

    conditions = {}
    for condition in scope.topology.status.get("conditions") or ():
        if isinstance(condition, dict):
            kind = str(condition.get("type"))
            status = condition.get("status")
            reason = condition.get("reason")
            conditions[kind] = f"{status} ({reason})"
    return conditions


def _published(resources: Sequence[PublishedTopology]) -> dict[str, str]:
    levels = {}
    for resource in resources:
        keys = [level.key for level in resource.levels]
        levels[resource.handle] = " > ".join(keys)
    return levels


def _gone(
    old: Mapping[str, NodeView], new: Mapping[str, NodeView], before: Scope
) -> Iterator[Change]:
    gone = _only_in(old, new, before)
    for domain in gone.domains:
        yield Change(
            kind=ChangeKind.DOMAIN_GONE,
            subject=domain.level,
            before=domain.name,
            after="",
            nodes=domain.nodes,
        )

    for domain in gone.nodes:
        yield Change(
            kind=ChangeKind.NODE_GONE,
            subject="node",
            before=domain.name,
            after="",
            nodes=domain.nodes,
        )


def _new(
    new: Mapping[str, NodeView], old: Mapping[str, NodeView], after: Scope
) -> Iterator[Change]:
    added = _only_in(new, old, after)
    for domain in added.domains:
        yield Change(
            kind=ChangeKind.DOMAIN_NEW,
            subject=domain.level,
            before="",
            after=domain.name,
            nodes=domain.nodes,
        )

    for domain in added.nodes:
        yield Change(
            kind=ChangeKind.NODE_NEW,
            subject="node",
            before="",
            after=domain.name,
            nodes=domain.nodes,
        )


class _Domain(NamedTuple):
    """A domain with nodes that the other snapshot lacks."""

    level: str
    """Empty where the domain stays, and only these nodes came or went."""
    name: str
    """The values on its path; empty: the nodes are in no domain."""
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _OnlyHere:
    """Nodes of one snapshot that the other one lacks."""

    domains: list[_Domain]
    """Whole domains, as broad as possible."""
    nodes: list[_Domain]
    """The remaining nodes, by the domain that they are in."""


def _only_in(
    here: Mapping[str, NodeView], there: Mapping[str, NodeView], scope: Scope
) -> _OnlyHere:
    """The nodes that are `here` and not `there`; `scope` is that of `here`."""
    # The last level is the host: a node is named as a node.
    levels = [level for level in scope.levels if level.key != label_keys.HOSTNAME]
    placeholders = scope.catalogue.placeholders
    staying: set[Path] = set()
    for name, node in there.items():
        staying.update(_paths(node, levels, placeholders))
        if name in here:
            staying.update(_paths(here[name], levels, placeholders))

    names_by_path: dict[Path, list[str]] = {}
    names_by_home: dict[str, list[str]] = {}
    for name in sorted(here.keys() - there.keys()):
        paths = list(_paths(here[name], levels, placeholders))
        broadest = _first_outside(staying, paths)
        if broadest is not None and broadest[-1] != name:
            names = names_by_path.setdefault(broadest, [])
        else:
            names = names_by_home.setdefault(_home(name, paths), [])
        names.append(name)

    return _OnlyHere(
        domains=list(_whole_domains(names_by_path, levels)),
        nodes=list(_homes(names_by_home)),
    )


def _first_outside(staying: Collection[Path], paths: Iterable[Path]) -> Path | None:
    """The first of the domains that does not stay."""
    for path in paths:
        if path not in staying:
            return path
    return None


def _whole_domains(
    names_by_path: Mapping[Path, Sequence[str]], levels: Sequence[Level]
) -> Iterator[_Domain]:
    for path, names in sorted(names_by_path.items()):
        depth = len(path) - 1
        yield _Domain(
            level=levels[depth].domain,
            name="/".join(path),
            nodes=tuple(names),
        )


def _homes(names_by_home: Mapping[str, Sequence[str]]) -> Iterator[_Domain]:
    for home, names in sorted(names_by_home.items()):
        yield _Domain(
            level="",
            name=home,
            nodes=tuple(names),
        )


def _paths(node: NodeView, levels: Iterable[Level], placeholders: frozenset[str]) -> Iterator[Path]:
    """The domains that a node is in, broadest first, down to where it lacks a level."""
    path: Path = ()
    for level in levels:
        value = level_value(node, level.key, placeholders)
        if value is None:
            return
        path = (*path, value)
        yield path


def _home(name: str, paths: Sequence[Path]) -> str:
    """The narrowest domain that does not carry the node's own name: such domains have one node."""
    for path in reversed(paths):
        if path[-1] != name:
            return "/".join(path)
    return ""


class _Move(NamedTuple):
    """A change that several nodes have in common."""

    subject: str
    before: str
    after: str


def _moved(pairs: Sequence[_Pair], before: Scope, after: Scope) -> Iterator[Change]:
    """The moves of nodes, each at the broadest level: the levels below moved along."""
    # Only the levels of before show the nodes of a level that has left the topology.
    levels = dict.fromkeys((*before.levels, *after.levels))
    names_by_move: dict[_Move, list[str]] = {}
    for old, new in pairs:
        for level in levels:
            was = level_value(old, level.key, before.catalogue.placeholders)
            now = level_value(new, level.key, after.catalogue.placeholders)
            if was != now:
                move = _Move(level.domain, was or "", now or "")
                names = names_by_move.setdefault(move, [])
                names.append(old.name)
                break

    yield from _of_groups(ChangeKind.MOVED, names_by_move)


def _hardware(pairs: Sequence[_Pair]) -> Iterator[Change]:
    for key in _HARDWARE:
        subject = key.removeprefix(label_keys.PREFIX)
        yield from _grouped(pairs, ChangeKind.HARDWARE, subject, _label(key))
    yield from _grouped(pairs, ChangeKind.HARDWARE, "allocatable GPUs", _allocatable_gpus)


def _grouped(
    pairs: Sequence[_Pair], kind: ChangeKind, subject: str, fact_of: Callable[[NodeView], str]
) -> Iterator[Change]:
    """The changes of a fact about nodes; nodes with the same change are one."""
    names_by_move: dict[_Move, list[str]] = {}
    for old, new in pairs:
        was = fact_of(old)
        now = fact_of(new)
        if was != now:
            names = names_by_move.setdefault(_Move(subject, was, now), [])
            names.append(old.name)

    yield from _of_groups(kind, names_by_move)


def _of_groups(kind: ChangeKind, names_by_move: Mapping[_Move, Sequence[str]]) -> Iterator[Change]:
    for move, names in names_by_move.items():
        yield Change(
            kind=kind,
            subject=move.subject,
            before=move.before,
            after=move.after,
            nodes=tuple(names),
        )


def _state(node: NodeView) -> str:
    return ", ".join(marks(node)) or "ok"


def _label(key: str) -> Callable[[NodeView], str]:
    return lambda node: node.label(key) or ""


def _allocatable_gpus(node: NodeView) -> str:
    return str(node.allocatable.get(label_keys.ALLOCATABLE_GPUS, 0))


def words(change: Change) -> str:
    """The change in a few words, without names of nodes."""
    count = len(change.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    was = change.before or "none"
    now = change.after or "none"
    if change.kind in _OF_NODES:
        return _words_of_nodes(change, nodes)

    match change.kind:
        case ChangeKind.LEVEL:
            return f"level {change.subject}: {was} -> {now}"
        case ChangeKind.CONDITION | ChangeKind.PUBLISHED:
            return f"{change.subject}: {was} -> {now}"
        case ChangeKind.MOVED:
            return f"{nodes} moved from {change.subject} {was} to {now}"
        case _:
            return f"{nodes}: {change.subject} {was} -> {now}"


_OF_NODES: Final = frozenset(
    {
        ChangeKind.DOMAIN_GONE,
        ChangeKind.DOMAIN_NEW,
        ChangeKind.NODE_GONE,
        ChangeKind.NODE_NEW,
    }
)


def _words_of_nodes(change: Change, nodes: str) -> str:
    """The change in a few words, for domains and nodes that came or went."""
    match change.kind:
        case ChangeKind.DOMAIN_GONE:
            return f"{change.subject} {change.before} is gone with {nodes}"
        case ChangeKind.DOMAIN_NEW:
            return f"{change.subject} {change.after} is new with {nodes}"
        case ChangeKind.NODE_GONE:
            of_domain = f" of {change.before}" if change.before else ""
            return f"{nodes}{of_domain} gone"
        case _:
            in_domain = f" in {change.after}" if change.after else ""
            return f"{nodes} new{in_domain}"
