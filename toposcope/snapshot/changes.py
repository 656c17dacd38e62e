"""What changed between two snapshots of a cluster, grouped into what matters.

A missing rack is one change, not eighteen; so are nodes that moved together from one domain to
another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from toposcope.api import label_keys
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import level_value
from toposcope.snapshot.filters import marks
from toposcope.snapshot.model import NodeView, Published
from toposcope.snapshot.scope import Scope


class Kind(StrEnum):
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
    """One change: `subject` is what it is about (a level, a domain, a condition, a hardware fact)."""

    kind: Kind
    subject: str
    before: str
    after: str
    nodes: tuple[str, ...] = ()
    """The nodes that it affects, sorted."""


_HARDWARE = (
    label_keys.GPUS,
    label_keys.GPU_PRODUCT,
    label_keys.INTERCONNECT,
    label_keys.NVLINK_LINKS,
    label_keys.SHAPE,
    label_keys.FABRIC,
    label_keys.RAIL_ALIGNED,
)


def changes(
    before: Scope,
    after: Scope,
    published_before: Sequence[Published] = (),
    published_after: Sequence[Published] = (),
) -> list[Change]:
    """Everything that changed from `before` to `after`."""
    old = {node.name: node for node in before.nodes}
    new = {node.name: node for node in after.nodes}
    found = [
        *_levels(before.levels, after.levels),
        *_differences(Kind.CONDITION, _conditions(before), _conditions(after)),
        *_differences(Kind.PUBLISHED, _published(published_before), _published(published_after)),
    ]
    found += _come_and_gone(old, new, before, Kind.DOMAIN_GONE, Kind.NODE_GONE)
    found += _come_and_gone(new, old, after, Kind.DOMAIN_NEW, Kind.NODE_NEW)
    both = [(old[name], new[name]) for name in sorted(old.keys() & new.keys())]
    # Only this shows the nodes of a level that has left the topology.
    levels = [*before.levels, *(level for level in after.levels if level not in before.levels)]
    found += _moved(both, levels, before.catalogue.placeholders, after.catalogue.placeholders)
    found += _grouped(both, Kind.STATE, "state", _state)
    for key in _HARDWARE:
        found += _grouped(both, Kind.HARDWARE, key.removeprefix(label_keys.PREFIX), _label(key))
    found += _grouped(
        both,
        Kind.HARDWARE,
        "allocatable GPUs",
        lambda node: str(node.allocatable.get(label_keys.ALLOCATABLE_GPUS, 0)),
    )
    return found


def _levels(old: Sequence[Level], new: Sequence[Level]) -> Iterator[Change]:
    was, now = ({level.domain: level.key for level in levels} for levels in (old, new))
    yield from _differences(Kind.LEVEL, was, now)
    kept = [
        [level.domain for level in levels if level.domain in was and level.domain in now]
        for levels in (old, new)
    ]
    if kept[0] != kept[1]:
        yield Change(Kind.LEVEL, "order", " > ".join(kept[0]), " > ".join(kept[1]))


def _differences(kind: Kind, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for subject in (*was, *(subject for subject in now if subject not in was)):
        if was.get(subject) != now.get(subject):
            yield Change(kind, subject, was.get(subject, ""), now.get(subject, ""))


def _conditions(scope: Scope) -> dict[str, str]:
    conditions = scope.topology.status.get("conditions") if scope.topology else ()
    return {
        str(c.get("type")): f"{c.get('status')} ({c.get('reason')})"
        for c in conditions or ()
        if isinstance(c, dict)
    }


def _published(resources: Sequence[Published]) -> dict[str, str]:
    return {
        resource.handle: " > ".join(level.key for level in resource.levels)
        for resource in resources
    }


def _come_and_gone(
    here: Mapping[str, NodeView],
    there: Mapping[str, NodeView],
    scope: Scope,
    domain: Kind,
    node: Kind,
) -> Iterator[Change]:
    """What is `here` and not `there`: whole domains, as broad as possible, and the remaining nodes."""
    only = sorted(here.keys() - there.keys())
    # The last level is the host: a node is named as a node.
    broad = replace(
        scope, levels=tuple(level for level in scope.levels if level.key != label_keys.HOSTNAME)
    )
    staying = {path for name in there for path in _paths(there[name], broad)}
    staying |= {path for name in here.keys() & there.keys() for path in _paths(here[name], broad)}
    whole: dict[tuple[str, ...], list[str]] = {}
    single: list[str] = []
    for name in only:
        path = next((path for path in _paths(here[name], broad) if path not in staying), None)
        if path is None or (path[-1] == name):
            single.append(name)
        else:
            whole.setdefault(path, []).append(name)
    gone = domain is Kind.DOMAIN_GONE
    for path, names in sorted(whole.items()):
        value = "/".join(path)
        yield Change(
            domain,
            broad.levels[len(path) - 1].domain,
            value if gone else "",
            "" if gone else value,
            tuple(names),
        )
    by_parent: dict[str, list[str]] = {}
    for name in single:
        by_parent.setdefault(_home(here[name], broad), []).append(name)
    for home, names in sorted(by_parent.items()):
        yield Change(node, "node", home if gone else "", "" if gone else home, tuple(names))


def _paths(node: NodeView, scope: Scope) -> Iterator[tuple[str, ...]]:
    """The domains that a node is in, broadest first, each as its path of values."""
    path: tuple[str, ...] = ()
    for level in scope.levels:
        value = level_value(node, level.key, scope.catalogue.placeholders)
        if value is None:
            return
        path = (*path, value)
        yield path


def _home(node: NodeView, scope: Scope) -> str:
    """The narrowest domain of the node that does not carry its own name: those have one node only."""
    paths = [path for path in _paths(node, scope) if path[-1] != node.name]
    return "/".join(paths[-1]) if paths else ""


def _moved(
    both: Sequence[tuple[NodeView, NodeView]],
    levels: Sequence[Level],
    before: frozenset[str],
    after: frozenset[str],
) -> Iterator[Change]:
    """Per node the broadest level at which it moved: the levels below moved along."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for old, new in both:
        for level in levels:
            was, now = level_value(old, level.key, before), level_value(new, level.key, after)
            if was != now:
                groups.setdefault((level.domain, was or "", now or ""), []).append(old.name)
                break
    for (domain, was, now), names in groups.items():
        yield Change(Kind.MOVED, domain, was, now, tuple(names))


def _grouped(
    both: Sequence[tuple[NodeView, NodeView]],
    kind: Kind,
    subject: str,
    of: Callable[[NodeView], str],
) -> Iterator[Change]:
    groups: dict[tuple[str, str], list[str]] = {}
    for old, new in both:
        was, now = of(old), of(new)
        if was != now:
            groups.setdefault((was, now), []).append(old.name)
    for (was, now), names in groups.items():
        yield Change(kind, subject, was, now, tuple(names))


def _state(node: NodeView) -> str:
    return ", ".join(marks(node)) or "ok"


def _label(key: str) -> Callable[[NodeView], str]:
    return lambda node: node.label(key) or ""


def words(change: Change) -> str:
    """The change in a few words, without names of nodes."""
    count = len(change.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    was, now = change.before or "none", change.after or "none"
    by_kind = {
        Kind.LEVEL: f"level {change.subject}: {was} -> {now}",
        Kind.CONDITION: f"{change.subject}: {was} -> {now}",
        Kind.PUBLISHED: f"{change.subject}: {was} -> {now}",
        Kind.DOMAIN_GONE: f"{change.subject} {was} is gone with {nodes}",
        Kind.DOMAIN_NEW: f"{change.subject} {now} is new with {nodes}",
        Kind.NODE_GONE: f"{nodes} of {was} gone" if change.before else f"{nodes} gone",
        Kind.NODE_NEW: f"{nodes} new in {now}" if change.after else f"{nodes} new",
        Kind.MOVED: f"{nodes} moved from {change.subject} {was} to {now}",
    }
    return by_kind.get(change.kind, f"{nodes}: {change.subject} {was} -> {now}")
