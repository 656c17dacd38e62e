"""Whether the running pods of a gang share the domain that the gang requires.

The labels of the nodes decide as they are now, so a label that changed under a running gang counts
too. What was not read is never a match, and never a violation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.api.placed_path import placed_path
from toposcope.hierarchy.coverage import level_value
from toposcope.integrations.framework.document import Field
from toposcope.snapshot.model import NodeView, PodView, Snapshot


class KeptResult(StrEnum):
    """What is observed of pods that require one domain."""

    MATCH = "MATCH"
    """All of them run, and all nodes carry the same path down to the required level."""
    VIOLATION = "VIOLATION"
    """Two of them are in different domains, or one shares its domain with a group that it must
    not share it with."""
    UNOBSERVABLE = "UNOBSERVABLE"
    """Neither is known."""


class UnreadReason(StrEnum):
    """Why the domain of a pod is not known."""

    NODE_GONE = "node-gone"
    NO_LABEL = "no-label"
    """The node lacks the label of a level, or carries a placeholder that means unknown."""
    NO_DOMAIN = "no-domain"
    """The node is in none of the objects that are the domains."""


class BrokenBy(StrEnum):
    """What put pods into several domains."""

    LABELS = "labels-changed"
    """Without the labels that changed since they were placed they would share a domain."""
    PLACEMENT = "placed-apart"
    """They did not share one when they were placed."""
    OTHERS = "shared-with-others"
    """They share one, but others are in it too."""
    UNKNOWN = "unknown"
    """Nothing says where the nodes were when the pods were placed."""


@dataclass(frozen=True, slots=True)
class RequiredDomain:
    """Pods that require one domain."""

    levels: Sequence[Level]
    """Broadest first, down to the required one; none: the required level is unknown."""
    placed: Sequence[PodView]
    """The pods that have a node."""
    expected: int
    """How many pods there should be; 0: unknown."""
    places: Mapping[str, str] | None = None
    """The domain of the required level by the name of a node, where no label says it."""


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
class ChangedLabel:
    """A label of a pod's node that had another value when the pod was placed."""

    pod: PodView
    key: str
    value_then: str
    value_now: str
    """Empty: the node has lost it."""


@dataclass(frozen=True, slots=True)
class Intruder:
    """A pod of another group in a domain that a group must have for itself."""

    pod: PodView
    domain: str


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
    changed: tuple[ChangedLabel, ...] = ()
    """Of the nodes of its pods, as far as pods say what these were when they were placed."""
    intruders: tuple[Intruder, ...] = ()
    """One for each domain that it shares with others against its will."""
    broken_by: BrokenBy | None = None
    """None: it is no violation."""

    @property
    def is_read(self) -> bool:
        """Whether the domains of all its pods are known."""
        return bool(self.domains) and not self.unread and not self.is_partly_scheduled

    @property
    def is_partly_scheduled(self) -> bool:
        """Whether some of its pods have no node, or do not exist."""
        return self.placed < self.expected

    def beside(self, intruders: Sequence[Intruder]) -> "KeptPlacement":
        """The same with pods of other groups in its domains: a violation, if there are any."""
        if not intruders:
            return self
        return replace(
            self,
            result=KeptResult.VIOLATION,
            intruders=tuple(intruders),
            broken_by=self.broken_by or BrokenBy.OTHERS,
        )

    def of_more(self, expected: int) -> "KeptPlacement":
        """The same where there should be as many pods, if these are more."""
        if expected <= self.expected:
            return self
        placement = replace(self, expected=expected)
        if self.result is KeptResult.MATCH and placement.is_partly_scheduled:
            return replace(placement, result=KeptResult.UNOBSERVABLE)
        return placement


@dataclass(frozen=True, slots=True)
class _PodPlace:
    """Where one pod is: the value by label key, of the levels that are known."""

    pod: PodView
    now: Mapping[str, str]
    then: Mapping[str, str]
    """When the pod was placed; what it does not say is missing."""


def kept_placement(snapshot: Snapshot, required: RequiredDomain) -> KeptPlacement:
    """Compare where pods run with the domain that they require.

    A domain is the path of values from the broadest level down, as schedulers distinguish domains:
    `r1` of block `b1` is not `r1` of block `b2`.
    """
    places = []
    unread = []
    keys = _keys_by_domain(snapshot, required)
    for pod in required.placed:
        node = snapshot.by_name.get(pod.node)
        if node is None:
            unread.append(UnreadPlace(pod, UnreadReason.NODE_GONE))
            continue
        now = _path(node, required, snapshot.catalogue.placeholders)
        place = _PodPlace(pod, now, _path_then(pod, required, keys))
        places.append(place)
        missing = next(_missing(now, required.levels), None)
        if missing and required.places is None:
            unread.append(UnreadPlace(pod, UnreadReason.NO_LABEL, missing.key))
        elif missing:
            unread.append(UnreadPlace(pod, UnreadReason.NO_DOMAIN))

    placement = KeptPlacement(
        result=KeptResult.UNOBSERVABLE,
        domains=_domains(places, required.levels),
        unread=tuple(unread),
        placed=len(required.placed),
        expected=required.expected,
        changed=tuple(_changed(places)),
    )
    if _are_apart(place.now for place in places):
        broken_by = _broken_by(places, required.levels)
        return replace(placement, result=KeptResult.VIOLATION, broken_by=broken_by)
    if placement.is_read:
        return replace(placement, result=KeptResult.MATCH)
    return placement


def _are_apart(paths: Iterable[Mapping[str, str]]) -> bool:
    """Whether two of these paths have different values at a level."""
    values: dict[str, str] = {}
    for path in paths:
        for key, value in path.items():
            if values.setdefault(key, value) != value:
                return True
    return False


def _broken_by(places: Sequence[_PodPlace], levels: Sequence[Level]) -> BrokenBy:
    """What put the pods apart."""
    without_changes = []
    for place in places:
        path = {**place.now, **place.then}
        without_changes.append(path)
    if not _are_apart(without_changes):
        return BrokenBy.LABELS

    keys = {level.key for level in levels}
    for place in places:
        if not place.then.keys() >= keys:
            return BrokenBy.UNKNOWN
    return BrokenBy.PLACEMENT


def _domains(places: Iterable[_PodPlace], levels: Sequence[Level]) -> tuple[SharedDomain, ...]:
    """The domains, the fullest first, of pods whose nodes have all levels."""
    by_path: dict[tuple[str, ...], list[PodView]] = {}
    for place in places:
        path = tuple(place.now.values())
        is_whole = len(path) == len(levels)
        if levels and is_whole:
            by_path.setdefault(path, []).append(place.pod)

    def fullest_first(path: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        return -len(by_path[path]), path

    domains = []
    for path in sorted(by_path, key=fullest_first):
        pods = tuple(by_path[path])
        domains.append(SharedDomain(path, pods))
    return tuple(domains)


def _path(
    node: NodeView, required: RequiredDomain, placeholders: frozenset[str]
) -> Mapping[str, str]:
    """The node's value by label key, of the levels that it carries."""
    path = {}
    for level in required.levels:
        value = level_value(node, level.key, placeholders)
        if level.key == HOSTNAME:
            value = node.name
        if required.places is not None:
            value = required.places.get(node.name)
        if value:
            path[level.key] = value
    return path


def _missing(path: Mapping[str, str], levels: Sequence[Level]) -> Iterator[Level]:
    for level in levels:
        if level.key not in path:
            yield level


def _keys_by_domain(snapshot: Snapshot, required: RequiredDomain) -> Mapping[str, set[str]]:
    """The label keys that levels of a domain have in any ClusterTopology."""
    keys: dict[str, set[str]] = {}
    for topology in snapshot.topologies:
        for level in topology.last_levels:
            keys.setdefault(level.domain, set()).add(level.key)
    for level in required.levels:
        keys.setdefault(level.domain, set()).add(level.key)
    return keys


def _path_then(
    pod: PodView, required: RequiredDomain, keys: Mapping[str, set[str]]
) -> Mapping[str, str]:
    """The values of the levels on the pod's node when the pod was placed, as far as it says them.

    An admission policy may have written its path, in the oldest ClusterTopology with its node: that
    says nothing where ClusterTopologies have several label keys for the domain. A node selector
    says it too, since no pod gets a node without the label: queues write the domains there that
    they assigned, and controllers of exclusive Jobs that of the first pod.
    """
    path: dict[str, str] = {}
    if required.places is not None:
        return path
    bound = placed_path(pod.annotations, pod.labels)
    selector: Mapping[str, str] = {}
    if "nodeSelector" in pod.wants:
        selector = Field(pod.wants["nodeSelector"]).texts()
    for level in required.levels:
        value = selector.get(level.key)
        if level.domain in bound and len(keys[level.domain]) == 1:
            value = bound[level.domain]
        if value:
            path[level.key] = value
    return path


def _changed(places: Iterable[_PodPlace]) -> Iterator[ChangedLabel]:
    """The labels of nodes that are not as they were when the pods were placed."""
    for place in places:
        for key, value in place.then.items():
            value_now = place.now.get(key, "")
            if value != value_now:
                yield ChangedLabel(place.pod, key, value, value_now)
