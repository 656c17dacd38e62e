"""Where the pods that have a node run, and whether what has to stay together does.

Systems label the pods of each copy of a group in their own ways, see `Waiting.copy_namer`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.explain.context import Context
from toposcope.hierarchy.coverage import level_value
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.requiring import RequiringObjects
from toposcope.integrations.framework.waiting import CopyName
from toposcope.integrations.registry import waiting
from toposcope.kube.discovery import Kind
from toposcope.planning.kept import (
    Intruder,
    KeptPlacement,
    KeptResult,
    RequiredDomain,
    UnreadReason,
    kept_placement,
)
from toposcope.planning.kept_gangs import KeptPart, KeptReader
from toposcope.planning.required import requiring_kinds
from toposcope.snapshot.model import PodView, Snapshot

_NO_LABEL: Final = "no label"
_ALL: Final = "all pods"
_UNREAD: Final = {
    UnreadReason.NO_LABEL: _NO_LABEL,
    UnreadReason.NO_DOMAIN: "no domain",
    UnreadReason.NODE_GONE: "node gone",
}
_IS_KEPT: Final = {
    KeptResult.MATCH: True,
    KeptResult.VIOLATION: False,
    KeptResult.UNOBSERVABLE: None,
}
Copies = Mapping[str, Sequence[PodView]]
"""The pods of each copy by its name."""


@dataclass(frozen=True, slots=True)
class ObservedPlacement:
    """Where the running pods of one copy of a group are, and whether they are kept together."""

    group: str
    copy: str
    """The copy's name by the labels of its pods; empty where there is only one copy."""
    level: Level
    is_required: bool
    """False: it is only preferred."""
    domains: tuple[tuple[str, int], ...]
    """Each domain and its number of pods, the fullest domain first."""
    is_kept: bool | None
    """Whether its pods share a domain. None: unknown, or they don't, but that is only preferred."""
    note: str = ""
    """Why `is_kept` is unknown, or what else is wrong."""
    result: KeptResult | None = None
    """Whether what it requires is observed; None: it requires nothing."""
    observed: KeptPlacement | None = None
    """Its pods by domain; None: it requires nothing, or its pods are not known."""
    pods: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of its pods that have a node; empty: not known."""
    is_labelled: bool = True
    """Whether labels of nodes say the domains; False: other objects do."""

    @property
    def domain_names(self) -> list[str]:
        """The domains that it is in."""
        return [name for name, _ in self.domains]


def observed_placements(context: Context) -> Iterator[ObservedPlacement]:
    """The placement of each copy of each group with a level, outermost groups first.

    What the scheduler's own objects and the pods require comes as `score` reads it. Where the
    workload's document says the same of the same pods, the placement has the names of that.
    """
    if not context.placed:
        return

    parts = list(_kept_parts(context))
    keys = {part.levels[-1].key for part in parts if part.levels}
    for placement in _documented_placements(context):
        part = _same_part(placement, parts)
        if part is not None:
            parts.remove(part)
            yield _joined(placement, part)
            continue
        has_pods = bool(placement.pods) or not placement.is_required
        if has_pods or placement.level.key not in keys:
            yield placement
    for part in parts:
        yield _of_part(part)


def _kept_parts(context: Context) -> Iterator[KeptPart]:
    """What its pods require, and whether it is kept."""
    snapshot = context.snapshot
    documents = []
    for kind in requiring_kinds():
        for _, document in context.every(kind):
            documents.append(document)
        for resource in context.all_published(kind):
            documents.append(dict(resource.document))
    objects = RequiringObjects.of(documents, snapshot.by_name)
    hierarchies = [context.levels(workload) for workload in context.workloads]
    reader = KeptReader(snapshot, hierarchies, objects)
    yield from reader.parts(context.ownership.pods)


def _same_part(placement: ObservedPlacement, parts: Iterable[KeptPart]) -> KeptPart | None:
    """The part of the same pods and the same level, or of domains that no label says."""
    if not placement.is_required:
        return None
    for part in parts:
        placed = {(pod.namespace, pod.name) for pod in part.pods if pod.node}
        key = part.levels[-1].key if part.levels else ""
        is_same_level = key == placement.level.key or not part.is_labelled
        if placed == placement.pods and is_same_level:
            return part
    return None


def _joined(placement: ObservedPlacement, part: KeptPart) -> ObservedPlacement:
    """The placement of a group as its scheduler's object or its pods require it."""
    expected = placement.observed.expected if placement.observed else 0
    observed = part.placement.of_more(expected)
    if observed.result is KeptResult.MATCH and placement.result is KeptResult.VIOLATION:
        return placement
    domains = placement.domains
    if not part.is_labelled:
        domains = tuple(_counted(observed))
    return replace(
        placement,
        domains=domains,
        is_kept=_IS_KEPT[observed.result],
        result=observed.result,
        observed=observed,
        note="",
        is_labelled=part.is_labelled,
    )


def _of_part(part: KeptPart) -> ObservedPlacement:
    """The placement that only the scheduler's object requires, or the pods do."""
    observed = part.placement
    level = Level(part.required, part.required)
    note = ""
    if part.levels:
        level = part.levels[-1]
    elif part.unread:
        note = f"{part.unread} cannot be read"
    else:
        note = "no topology that was read has this level"
    return ObservedPlacement(
        group=part.name or _ALL,
        copy="",
        level=level,
        is_required=True,
        domains=tuple(_counted(observed)),
        is_kept=_IS_KEPT[observed.result],
        note=note,
        result=observed.result,
        observed=observed,
        is_labelled=part.is_labelled,
    )


def _counted(observed: KeptPlacement) -> Iterator[tuple[str, int]]:
    """Each domain and its number of pods, and the pods whose domain is not known."""
    names: Counter[str] = Counter()
    for domain in observed.domains:
        name = domain.path[-1]
        names[name] += 1
    for domain in observed.domains:
        name = domain.path[-1]
        if names[name] > 1:
            name = "/".join(domain.path)
        yield name, len(domain.pods)
    reasons = Counter(place.reason for place in observed.unread)
    for reason, count in reasons.items():
        yield _UNREAD[reason], count


def _documented_placements(context: Context) -> Iterator[ObservedPlacement]:
    """The placements of what the workload's document asks for."""
    for workload in _workloads(context):
        levels = context.levels(workload)
        for top in workload.groups:
            for group, _ in top.everything():
                # What is placed at once may leave some copies out.
                gang = next(iter(workload.pod_groups), top) if group is top else group
                observed = replace(group, groups=gang.groups)
                yield from _of_group(
                    context, workload, levels, observed, is_whole_workload=group is top
                )


def _workloads(context: Context) -> Sequence[Workload]:
    """The demands of the objects closest to the pods."""
    workloads = []
    for kind in _made_for_pods():
        for _, document in context.members(kind):
            for checked in context.checker.check(document, document):
                if checked.reading.workload:
                    workloads.append(checked.reading.workload)
    return workloads or context.workloads


def _made_for_pods() -> Iterator[Kind]:
    for system in waiting():
        yield from system.made_for_pods


def _of_group(
    context: Context,
    workload: Workload,
    levels: Sequence[Level],
    group: Group,
    *,
    is_whole_workload: bool,
) -> Iterator[ObservedPlacement]:
    level = group.required or group.preferred
    if level is None:
        return
    if level not in levels:
        if group.required:
            yield _unobservable(group, level, "no topology that was read has this level")
        return

    copies = copies_of(workload.system, group, context.placed, is_whole_workload=is_whole_workload)
    if copies is None:
        yield _unobservable(group, level, "cannot tell which pods belong to it")
        return

    upper = levels[: levels.index(level) + 1]
    placements = []
    for copy, pods in copies.items():
        placements.append(_of_copy(context.snapshot, upper, group, copy, pods))

    if group.anti_affinity:
        yield from _exclusively(placements)
    else:
        yield from placements


def _unobservable(group: Group, level: Level, why: str) -> ObservedPlacement:
    """A group of whose pods nothing is known."""
    return ObservedPlacement(
        group=group.name,
        copy="",
        level=level,
        is_required=group.required is not None,
        domains=(),
        is_kept=None,
        note=why,
        result=KeptResult.UNOBSERVABLE if group.required else None,
    )


def _exclusively(placements: Sequence[ObservedPlacement]) -> Iterator[ObservedPlacement]:
    """The placements of copies that must not share a domain, as the label's value alone says."""
    holders: dict[str, list[PodView]] = {}
    for placement in placements:
        for value, pod in _holders(placement).items():
            holders.setdefault(value, []).append(pod)

    for placement in placements:
        intruders = []
        for value, own in _holders(placement).items():
            others = [pod for pod in holders[value] if pod is not own]
            intruders += [Intruder(pod, value) for pod in others[:1]]
        observed = placement.observed
        if observed is None or not intruders:
            yield placement
            continue
        observed = observed.beside(intruders)
        yield replace(placement, is_kept=False, result=observed.result, observed=observed)


def _holders(placement: ObservedPlacement) -> Mapping[str, PodView]:
    """One of its pods by each value of the level's label that its nodes have."""
    holders: dict[str, PodView] = {}
    if placement.observed is None:
        return holders
    for domain in placement.observed.domains:
        value = domain.path[-1]
        holders.setdefault(value, domain.pods[0])
    return holders


def _of_copy(
    snapshot: Snapshot, upper: Sequence[Level], group: Group, copy: str, pods: Sequence[PodView]
) -> ObservedPlacement:
    """The placement of one copy; `upper` are the levels down to the one that it asks for.

    Domains are distinguished by all values from the broadest level down, as schedulers do.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for pod in pods:
        counts[_domain(snapshot, pod.node, upper)] += 1
    names: Counter[str] = Counter()
    for path in counts:
        names[path[-1]] += 1

    domains = []
    for path in sorted(counts, key=lambda path: (-counts[path], path)):
        is_unique = names[path[-1]] == 1
        name = path[-1] if is_unique else "/".join(path)
        domains.append((name, counts[path]))

    placement = ObservedPlacement(
        group=group.name,
        copy=copy,
        level=upper[-1],
        is_required=group.required is not None,
        domains=tuple(domains),
        is_kept=None,
        pods=frozenset((pod.namespace, pod.name) for pod in pods),
    )
    if not placement.is_required:
        is_kept = len(counts) == 1 and _NO_LABEL not in next(iter(counts))
        return replace(placement, is_kept=is_kept or None)

    expected = group.total().get("pods", 0)
    observed = kept_placement(snapshot, RequiredDomain(upper, pods, expected))
    return replace(
        placement,
        is_kept=_IS_KEPT[observed.result],
        result=observed.result,
        observed=observed,
    )


def _domain(snapshot: Snapshot, name: str, levels: Sequence[Level]) -> tuple[str, ...]:
    node = snapshot.by_name.get(name)
    if node is None:
        return (f"{name} (gone)",)

    placeholders = snapshot.catalogue.placeholders
    path = []
    for level in levels:
        value = level_value(node, level.key, placeholders)
        if level.key == HOSTNAME:
            value = node.name
        path.append(value or _NO_LABEL)
    return tuple(path)


def copies_of(
    system: str, group: Group, pods: Iterable[PodView], *, is_whole_workload: bool
) -> Copies | None:
    """The pods of each copy of a group; None where copies cannot be distinguished.

    Where it `is_whole_workload`, the group stands for all of the workload.
    """
    copy_name = _copy_namer(system, group)
    copies: dict[str, list[PodView]] = {}
    for pod in pods:
        copy = copy_name(pod.labels)
        if copy is None:
            continue
        pods_of_copy = copies.setdefault(copy, [])
        pods_of_copy.append(pod)

    if len(copies) == 1 and group.copies <= 1:
        (only_copy,) = copies.values()
        return {"": only_copy}
    if copies:
        return copies
    if is_whole_workload and group.copies == 1:
        return {"": tuple(pods)}
    return None


def _copy_namer(system: str, group: Group) -> CopyName:
    """A function that returns the name of the copy which a pod belongs to, by its labels."""
    for part in waiting():
        copy_name = part.copy_namer(system, group)
        if copy_name:
            return copy_name
    labels = (part.copy_label(group) for part in waiting())
    label = next(filter(None, labels), "")
    return lambda pod_labels: pod_labels.get(label)
