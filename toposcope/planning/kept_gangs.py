"""Whether running gangs share the domains that they require.

What a gang requires is said by annotations of its pods, or by the object that its system made for
it; see `RequiredLevels`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.registry import PLUGINS
from toposcope.planning.gangs import Gang
from toposcope.planning.kept import KeptPlacement, KeptResult, RequiredDomain, kept_placement
from toposcope.snapshot.model import PodView, Snapshot

_WORST_FIRST: Final = (KeptResult.VIOLATION, KeptResult.UNOBSERVABLE, KeptResult.MATCH)


@dataclass(frozen=True, slots=True)
class KeptPart:
    """A gang, or a part of it, and whether it shares the domain that it requires."""

    name: str
    """Empty: the whole gang."""
    required: str
    """The level as the workload names it: a label key, or the name of a domain."""
    is_level_known: bool
    """Whether a ClusterTopology has the level."""
    placement: KeptPlacement


@dataclass(frozen=True, slots=True)
class KeptGang:
    """A running gang that requires a level."""

    gang: Gang
    parts: tuple[KeptPart, ...]

    @property
    def result(self) -> KeptResult:
        """The worst result of its parts."""
        results = {part.placement.result for part in self.parts}
        return next(result for result in _WORST_FIRST if result in results)


def kept_gangs(
    snapshot: Snapshot, levels: Sequence[Level], gangs: Sequence[Gang]
) -> tuple[KeptGang, ...]:
    """The running gangs that require a level, in their order.

    `levels` are those of the topology that is looked at; a level that it lacks is looked up in the
    other ClusterTopologies.
    """
    hierarchies = [levels, *(topology.last_levels for topology in snapshot.topologies)]
    kept = []
    for gang in gangs:
        if not gang.placed:
            continue
        parts = tuple(_parts(snapshot, hierarchies, gang))
        if parts:
            kept.append(KeptGang(gang, parts))
    return tuple(kept)


def _parts(
    snapshot: Snapshot, hierarchies: Sequence[Sequence[Level]], gang: Gang
) -> Iterator[KeptPart]:
    for (name, required), pods in _requirements(gang).items():
        placed = [pod for pod in pods if pod.node]
        if not placed:
            continue
        levels = _down_to(required, hierarchies)
        domain = RequiredDomain(levels, placed, expected=len(pods))
        yield KeptPart(
            name=name,
            required=required,
            is_level_known=bool(levels),
            placement=kept_placement(snapshot, domain),
        )


def _requirements(gang: Gang) -> dict[tuple[str, str], list[PodView]]:
    """The pods that require the same domain, by the name of their part and the level."""
    requirements: dict[tuple[str, str], list[PodView]] = {}
    if gang.required:
        requirements["", gang.required] = list(gang.pods)
    for plugin in PLUGINS:
        for annotation in plugin.requiring_annotations:
            for pod in gang.pods:
                required = pod.annotations.get(annotation)
                if not required or required == gang.required:
                    continue
                part = _part_of(pod, plugin.requiring_parts)
                requirements.setdefault((part, required), []).append(pod)
    return requirements


def _part_of(pod: PodView, keys: Sequence[str]) -> str:
    for key in keys:
        name = pod.annotations.get(key) or pod.labels.get(key)
        if name:
            return name
    return ""


def _down_to(required: str, hierarchies: Sequence[Sequence[Level]]) -> Sequence[Level]:
    """The levels from the broadest down to the required one; none: no topology has it."""
    for levels in hierarchies:
        for depth, level in enumerate(levels, 1):
            if required in (level.key, level.domain):
                return levels[:depth]
    return ()
