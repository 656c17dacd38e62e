"""Whether running gangs share the domains that they require.

What a gang requires is said by objects that its scheduler made for it, or by annotations of its
pods: each system says where in its `requiring.py`. `score`, the metric, the page and `explain` read
it here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.requiring import ApartFrom, RequiredPart, RequiringObjects
from toposcope.integrations.registry import requiring
from toposcope.planning.gangs import Gang
from toposcope.planning.kept import (
    Intruder,
    KeptPlacement,
    KeptResult,
    RequiredDomain,
    kept_placement,
)
from toposcope.snapshot.model import PodView, Snapshot

WORST_FIRST: Final = (KeptResult.VIOLATION, KeptResult.UNOBSERVABLE, KeptResult.MATCH)
_PodName = tuple[str, str]
_NO_OBJECTS: Final = RequiringObjects()


@dataclass(frozen=True, slots=True)
class KeptPart:
    """A gang, or a part of it, and whether it shares the domain that it requires."""

    name: str
    """Empty: the whole gang."""
    required: str
    """The level as the workload names it: a label key, or the name of a domain."""
    is_level_known: bool
    """Whether a ClusterTopology has the level, or it may be any label of nodes."""
    levels: Sequence[Level]
    """Broadest first, down to the required one."""
    is_labelled: bool
    """Whether labels of nodes say the domains; False: other objects do."""
    placement: KeptPlacement
    pods: tuple[PodView, ...]
    names: frozenset[tuple[str, str]]
    """Namespace and name of its pods."""
    unread: str = ""
    """The kind or object that cannot be read, so that the level is unknown; empty: it was read."""


@dataclass(frozen=True, slots=True)
class KeptGang:
    """A running gang that requires a level."""

    gang: Gang
    parts: tuple[KeptPart, ...]

    @property
    def result(self) -> KeptResult:
        """The worst result of its parts."""
        results = {part.placement.result for part in self.parts}
        return next(result for result in WORST_FIRST if result in results)


def kept_gangs(
    snapshot: Snapshot,
    levels: Sequence[Level],
    gangs: Sequence[Gang],
    objects: RequiringObjects = _NO_OBJECTS,
) -> tuple[KeptGang, ...]:
    """The running gangs that require a level, in their order.

    `levels` are those of the topology that is looked at; a level that it lacks is looked up in the
    other ClusterTopologies.
    """
    reader = KeptReader(snapshot, [levels], objects)
    kept = []
    for gang in gangs:
        if not gang.placed:
            continue
        parts = reader.parts(gang.pods)
        if parts:
            kept.append(KeptGang(gang, parts))
    return tuple(kept)


class KeptReader:
    """Reads what pods of one cluster require, and compares it with where they run."""

    def __init__(
        self,
        snapshot: Snapshot,
        hierarchies: Iterable[Sequence[Level]],
        objects: RequiringObjects,
    ) -> None:
        """A level is looked up in these hierarchies first, then in all ClusterTopologies."""
        self._snapshot = snapshot
        self._objects = objects
        self._hierarchies = list(hierarchies)
        for topology in snapshot.topologies:
            self._hierarchies.append(topology.last_levels)
        self._holders: dict[tuple[str, str], dict[str, list[PodView]]] = {}

    def parts(self, pods: Sequence[PodView]) -> tuple[KeptPart, ...]:
        """What these pods require, and whether it is kept: each requirement once."""
        required: dict[RequiredPart, None] = {}
        for pod in pods:
            name = _name(pod)
            of_objects = self._of_objects.get(name, ())
            required.update(dict.fromkeys(of_objects))
        for system in requiring():
            of_pods = system.of_pods(pods)
            required.update(dict.fromkeys(of_pods))
        observed = list(self._observed(required))
        return tuple(_without_repeats(observed))

    @cached_property
    def _of_objects(self) -> Mapping[_PodName, Sequence[RequiredPart]]:
        """What objects require of each pod of the cluster."""
        parts: dict[_PodName, list[RequiredPart]] = {}
        objects = self._objects
        if not objects.documents and not objects.forbidden:
            return parts
        pods = []
        for pod in self._snapshot.pods or ():
            if _may_name_an_object(pod):
                pods.append(pod)
        for system in requiring():
            for part in system.of_objects(pods, objects):
                for member in part.pods:
                    name = member.namespace, member.name
                    parts.setdefault(name, []).append(part)
        return parts

    def _observed(self, parts: Iterable[RequiredPart]) -> Iterator[KeptPart]:
        """Whether each part is kept; parts of which no pod has a node are left out."""
        for part in parts:
            pods = [pod for pod in part.pods if isinstance(pod, PodView)]
            placed = [pod for pod in pods if pod.node]
            if not placed:
                continue
            levels = self._levels(part)
            expected = max(len(pods), part.least)
            domain = RequiredDomain(levels, placed, expected, part.places)
            placement = kept_placement(self._snapshot, domain)
            if part.apart and levels:
                placement = self._apart(placement, part.apart, levels[-1], placed)
            yield KeptPart(
                name=part.name,
                required=part.level,
                is_level_known=bool(levels),
                levels=levels,
                is_labelled=part.places is None,
                placement=placement,
                pods=tuple(pods),
                names=frozenset(map(_name, pods)),
                unread=part.unread,
            )

    def _levels(self, part: RequiredPart) -> Sequence[Level]:
        """The levels from the broadest down to the required one; none: no topology has it."""
        if not part.level:
            return ()
        if part.places is not None:
            return (Level(part.level, part.key),)
        levels = _down_to(part.level, self._hierarchies)
        if part.by_value:
            return levels[-1:] or (Level(part.level, part.level),)
        return levels

    def _apart(
        self, placement: KeptPlacement, apart: ApartFrom, level: Level, placed: Sequence[PodView]
    ) -> KeptPlacement:
        """The placement with the pods of other groups in its domains."""
        own = placed[0]
        intruders = []
        for domain in placement.domains:
            value = domain.path[-1]
            for other in self._holders_of(apart.label, level).get(value, ()):
                if _must_be_apart(own, other, apart):
                    intruders.append(Intruder(other, value))
                    break
        return placement.beside(intruders)

    def _holders_of(self, label: str, level: Level) -> Mapping[str, Sequence[PodView]]:
        """The pods with a label, by the value of their nodes at a level."""
        key = label, level.key
        if key not in self._holders:
            holders: dict[str, list[PodView]] = {}
            for pod in self._snapshot.pods or ():
                node = self._snapshot.by_name.get(pod.node)
                if node is None or label not in pod.labels:
                    continue
                value = node.label(level.key)
                if value:
                    holders.setdefault(value, []).append(pod)
            self._holders[key] = holders
        return self._holders[key]


def _name(pod: PodView) -> _PodName:
    return pod.namespace, pod.name


def _must_be_apart(own: PodView, other: PodView, apart: ApartFrom) -> bool:
    """Whether a pod with the label must not be in a domain of another group's pod."""
    own_group = own.labels.get(apart.label)
    other_group = other.labels[apart.label]
    if other_group == own_group:
        return False
    if not apart.in_all_namespaces and other.namespace != own.namespace:
        return False
    own_class = own.labels.get(apart.among)
    other_class = other.labels.get(apart.among)
    return other_class == own_class


def _may_name_an_object(pod: PodView) -> bool:
    return bool(pod.labels or pod.annotations or "schedulingGroup" in pod.wants)


def _without_repeats(parts: Sequence[KeptPart]) -> Iterator[KeptPart]:
    """The parts without those that say nothing more than another one."""
    of_pod: dict[_PodName, list[KeptPart]] = {}
    for part in parts:
        for name in part.names:
            of_pod.setdefault(name, []).append(part)

    seen: set[int] = set()
    for part in parts:
        seen.add(id(part))
        some_name = next(iter(part.names))
        is_repeated = False
        for other in of_pod[some_name]:
            if other is not part and _says_as_much(other, part, first=id(other) in seen):
                is_repeated = True
        if not is_repeated:
            yield part


def _says_as_much(other: KeptPart, part: KeptPart, *, first: bool) -> bool:
    """Whether another part of the same level has all pods of this one; the first of equals does."""
    if not part.required or other.levels != part.levels:
        return False
    if part.placement.intruders and not other.placement.intruders:
        return False
    if part.names == other.names:
        return first
    return part.names < other.names


def _down_to(required: str, hierarchies: Sequence[Sequence[Level]]) -> Sequence[Level]:
    """The levels from the broadest down to the required one; none: no topology has it."""
    for levels in hierarchies:
        for depth, level in enumerate(levels, 1):
            if required in (level.key, level.domain):
                return levels[:depth]
    return ()
