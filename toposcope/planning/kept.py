"""Whether the running pods of a gang share the domain that the gang requires.

The labels of the nodes decide as they are now, so a label that changed under a running gang counts
too. What was not read is never a match, and never a violation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import level_value
from toposcope.snapshot.model import NodeView, PodView, Snapshot


class KeptResult(StrEnum):
    """What is observed of pods that require one domain."""

    MATCH = "MATCH"
    """All of them run, and all nodes carry the same path down to the required level."""
    VIOLATION = "VIOLATION"
    """Two of them are in different domains."""
    UNOBSERVABLE = "UNOBSERVABLE"
    """Neither is known."""


class UnreadReason(StrEnum):
    """Why the domain of a pod is not known."""

    NODE_GONE = "node-gone"
    NO_LABEL = "no-label"
    """The node lacks the label of a level, or carries a placeholder that means unknown."""


@dataclass(frozen=True, slots=True)
class RequiredDomain:
    """Pods that require one domain."""

    levels: Sequence[Level]
    """Broadest first, down to the required one; none: the required level is unknown."""
    placed: Sequence[PodView]
    """The pods that have a node."""
    expected: int
    """How many pods there should be; 0: unknown."""


@dataclass(frozen=True, slots=True)
class SharedDomain:
    """A domain of the required level, and the pods in it."""

    path: tuple[str, ...]
    pods: tuple[PodView, ...]


@dataclass(frozen=True, slots=True)
class UnreadPlace:
    """A pod whose domain is not known."""

    pod: PodView
    reason: UnreadReason
    key: str = ""
    """The label that its node lacks."""


@dataclass(frozen=True, slots=True)
class KeptPlacement:
    """Whether pods share the domain that they require, and where they are."""

    result: KeptResult
    domains: tuple[SharedDomain, ...]
    """The fullest first; of pods whose node carries the whole path."""
    unread: tuple[UnreadPlace, ...]
    placed: int
    expected: int
    """0: unknown."""

    @property
    def is_read(self) -> bool:
        """Whether the domains of all its pods are known."""
        return bool(self.domains) and not self.unread and not self.is_partly_scheduled

    @property
    def is_partly_scheduled(self) -> bool:
        """Whether some of its pods have no node, or do not exist."""
        return self.placed < self.expected


def kept_placement(snapshot: Snapshot, required: RequiredDomain) -> KeptPlacement:
    """Compare where pods run with the domain that they require.

    A domain is the path of values from the broadest level down, as schedulers distinguish domains:
    `r1` of block `b1` is not `r1` of block `b2`.
    """
    by_path: dict[tuple[str, ...], list[PodView]] = {}
    values: dict[str, set[str]] = {}
    unread = []
    for pod in required.placed:
        node = snapshot.by_name.get(pod.node)
        if node is None:
            unread.append(UnreadPlace(pod, UnreadReason.NODE_GONE))
            continue

        path = _path(node, required.levels, snapshot.catalogue.placeholders)
        for key, value in path.items():
            values.setdefault(key, set()).add(value)
        missing = next(_missing(path, required.levels), None)
        if missing:
            unread.append(UnreadPlace(pod, UnreadReason.NO_LABEL, missing.key))
            continue
        by_path.setdefault(tuple(path.values()), []).append(pod)

    placement = KeptPlacement(
        result=KeptResult.UNOBSERVABLE,
        domains=_domains(by_path) if required.levels else (),
        unread=tuple(unread),
        placed=len(required.placed),
        expected=required.expected,
    )
    if any(len(names) > 1 for names in values.values()):
        return replace(placement, result=KeptResult.VIOLATION)
    if placement.is_read:
        return replace(placement, result=KeptResult.MATCH)
    return placement


def _domains(by_path: Mapping[tuple[str, ...], Sequence[PodView]]) -> tuple[SharedDomain, ...]:
    domains = []
    for path in sorted(by_path, key=lambda path: (-len(by_path[path]), path)):
        pods = tuple(by_path[path])
        domains.append(SharedDomain(path, pods))
    return tuple(domains)


def _path(
    node: NodeView, levels: Sequence[Level], placeholders: frozenset[str]
) -> Mapping[str, str]:
    """The node's value by label key, of the levels that it carries."""
    path = {}
    for level in levels:
        value = level_value(node, level.key, placeholders)
        if level.key == HOSTNAME:
            value = node.name
        if value:
            path[level.key] = value
    return path


def _missing(path: Mapping[str, str], levels: Sequence[Level]) -> Iterator[Level]:
    for level in levels:
        if level.key not in path:
            yield level
