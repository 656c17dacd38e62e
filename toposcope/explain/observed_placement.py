"""Where the pods that have a node run, and whether what has to stay together does.

Systems label the pods of each copy of a group in their own ways. Labels: Grove 0.1.0-alpha.9,
LeaderWorkerSet 0.7, JobSet 0.9, Kueue 0.19.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.levels import Level
from toposcope.explain.context import Context
from toposcope.hierarchy.coverage import level_value
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.grove.api import POD_CLIQUE_SETS
from toposcope.integrations.jobset.api import JOB_KEY
from toposcope.integrations.kueue.api import POD_SET_OF
from toposcope.integrations.lws.api import GROUP_INDEX, GROUP_KEY, SUBGROUP_KEY
from toposcope.snapshot.model import PodView, Snapshot

_NO_LABEL: Final = "no label"
_SET_COPY: Final = "grove.io/podcliqueset-replica-index"
_SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
_SCALING_GROUP_COPY: Final = "grove.io/podcliquescalinggroup-replica-index"
_CLIQUE: Final = "grove.io/podclique"
_MOST_DIGITS: Final = 9
_JOB_KIND: Final = "jobset.sigs.k8s.io/replicatedjob-name"

Labels = Mapping[str, str]
Copies = Mapping[str, Sequence[PodView]]
"""The pods of each copy by its name."""


@dataclass(frozen=True, slots=True)
class ObservedPlacement:
    """One copy of a group that is to be kept together, as far as it runs."""

    group: str
    copy: str
    """Which copy, by the labels of its pods; empty where there is only one."""
    level: Level
    required: bool
    """False: it is only preferred."""
    domains: tuple[tuple[str, int], ...]
    """Domains and how many of the pods are in each, the fullest first."""
    kept: bool | None
    """Whether it is kept together. None: unknown, or it is not but only prefers to be."""
    note: str = ""
    """Why that is unknown, or what else is wrong."""


def observed_placements(context: Context) -> Iterator[ObservedPlacement]:
    """Every copy of every group that has a level, outermost groups first; none where no pod has a node."""
    if not context.placed:
        return
    for workload in _workloads(context):
        levels = context.levels(workload)
        for top in workload.groups:
            for group, _ in top.everything():
                # The gang of a PodCliqueSet leaves some replicas of scaling groups out.
                gang = next(iter(workload.pod_groups), top) if group is top else group
                yield from _of_group(
                    context,
                    workload,
                    levels,
                    replace(group, groups=gang.groups),
                    whole=group is top,
                )


def _workloads(context: Context) -> Sequence[Workload]:
    """The PodCliqueSet that Dynamo created for Grove is closer to the pods than the deployment itself."""
    sets = context.members(POD_CLIQUE_SETS)
    readings = [
        checked.reading
        for _, document in sets
        for checked in context.checker.check(document, document)
    ]
    return [reading.workload for reading in readings if reading.workload] or context.workloads


def _of_group(
    context: Context, workload: Workload, levels: Sequence[Level], group: Group, *, whole: bool
) -> Iterator[ObservedPlacement]:
    level = group.required or group.preferred
    if level is None or level not in levels:
        return
    copies = copies_of(workload.system, group, context.placed, whole=whole)
    if copies is None:
        required = group.required is not None
        yield ObservedPlacement(
            group.name, "", level, required, (), None, "cannot tell which pods belong to it"
        )
        return
    placements = [
        _of_copy(context.snapshot, levels, level, group, copy, pods)
        for copy, pods in copies.items()
    ]
    if not group.anti_affinity:
        yield from placements
        return
    # With exclusive placement, a domain is the label's value alone.
    holders = Counter(domain for placement in placements for domain, _ in placement.domains)
    for placement in placements:
        shared = [domain for domain, _ in placement.domains if holders[domain] > 1]
        yield (
            replace(placement, kept=False, note=f"shares {shared[0]} with another one")
            if shared
            else placement
        )


def _of_copy(
    snapshot: Snapshot,
    levels: Sequence[Level],
    level: Level,
    group: Group,
    copy: str,
    pods: Iterable[PodView],
) -> ObservedPlacement:
    """Domains are told apart by all values from the broadest level down, as schedulers do."""
    upper = levels[: list(levels).index(level) + 1]
    counts = Counter(_domain(snapshot, pod.node, upper) for pod in pods)
    values = Counter(path[-1] for path in counts)
    largest_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    domains = tuple(
        (path[-1] if values[path[-1]] == 1 else "/".join(path), count)
        for path, count in largest_first
    )
    together = len(counts) == 1 and _NO_LABEL not in next(iter(counts))
    required = group.required is not None
    return ObservedPlacement(
        group.name, copy, level, required, domains, together if required else together or None
    )


def _domain(snapshot: Snapshot, name: str, levels: Sequence[Level]) -> tuple[str, ...]:
    node = snapshot.by_name.get(name)
    if node is None:
        return (f"{name} (gone)",)
    return tuple(
        level_value(node, level.key, snapshot.catalogue.placeholders) or _NO_LABEL
        for level in levels
    )


def copies_of(system: str, group: Group, pods: Iterable[PodView], *, whole: bool) -> Copies | None:
    """The pods of each copy of a group (`whole`: of the workload); None where they cannot be told apart."""
    copy_name = _copy_namer(system, group)
    copies: dict[str, list[PodView]] = {}
    for pod in pods:
        copy = copy_name(pod.labels)
        if copy is not None:
            copies.setdefault(copy, []).append(pod)
    if copies:
        return copies if len(copies) > 1 or group.copies > 1 else {"": next(iter(copies.values()))}
    return {"": tuple(pods)} if whole and group.copies == 1 else None


def _copy_namer(system: str, group: Group) -> Callable[[Labels], str | None]:
    """What names a pod's copy of the group by its labels; None: the pod is in none, or is not labelled for that."""
    kind, _, name = group.name.rpartition(" ")
    if system == "Grove":
        if kind == "scaling group":
            return lambda labels: (
                f"{labels[_SCALING_GROUP]}-{labels.get(_SCALING_GROUP_COPY, '?')}"
                if _is_grove_name(labels.get(_SCALING_GROUP, ""), name)
                else None
            )
        if kind == "clique":
            return lambda labels: (
                labels[_CLIQUE] if _is_grove_name(labels.get(_CLIQUE, ""), name) else None
            )
        gangs = [
            (part.name.rpartition(" ")[2], part.copies)
            for part in group.groups
            if "scaling group " in part.name
        ]
        return lambda labels: None if _is_apart(labels, gangs) else labels.get(_SET_COPY)
    if kind == "job of":
        return lambda labels: labels.get(JOB_KEY) if labels.get(_JOB_KIND) == name else None
    if system == "Kueue" and kind == "pod set":
        return lambda labels: "" if labels.get(POD_SET_OF, name) == name else None
    exclusive = group.anti_affinity in (GROUP_KEY, SUBGROUP_KEY)
    label = group.anti_affinity if exclusive else GROUP_INDEX if group.copies > 1 else ""
    return lambda labels: labels.get(label)


def _is_apart(labels: Labels, gangs: Iterable[tuple[str, int]]) -> bool:
    """Whether the pod is in a replica of a scaling group that is a gang of its own; `gangs`: how many are not."""
    index = labels.get(_SCALING_GROUP_COPY, "")
    return (
        index.isdecimal()
        and len(index) <= _MOST_DIGITS
        and any(
            _is_grove_name(labels.get(_SCALING_GROUP, ""), name) and int(index) >= count
            for name, count in gangs
        )
    )


def _is_grove_name(text: str, name: str) -> bool:
    """Grove puts the set and the index of its copy before a name: `llm-0-decode`."""
    return re.fullmatch(rf".*-\d+-{re.escape(name)}", text) is not None
