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
    """Every copy of every group that has a level, outermost first; none where no pod has a node."""
    if not context.placed:
        return

    for workload in _workloads(context):
        levels = context.levels(workload)
        for top in workload.groups:
            for group, _ in top.everything():
                # The gang of a PodCliqueSet leaves some replicas of scaling groups out.
                gang = next(iter(workload.pod_groups), top) if group is top else group
                observed = replace(group, groups=gang.groups)
                yield from _of_group(context, workload, levels, observed, whole=group is top)


def _workloads(context: Context) -> Sequence[Workload]:
    """What the object closest to the pods asks for.

    The PodCliqueSet that Dynamo created for Grove is closer than the deployment itself.
    """
    workloads = []
    for _, document in context.members(POD_CLIQUE_SETS):
        for checked in context.checker.check(document, document):
            if checked.reading.workload:
                workloads.append(checked.reading.workload)

    return workloads or context.workloads


def _of_group(
    context: Context, workload: Workload, levels: Sequence[Level], group: Group, *, whole: bool
) -> Iterator[ObservedPlacement]:
    level = group.required or group.preferred
    if level is None or level not in levels:
        return

    copies = copies_of(workload.system, group, context.placed, whole=whole)
    if copies is None:
        yield ObservedPlacement(
            group=group.name,
            copy="",
            level=level,
            required=group.required is not None,
            domains=(),
            kept=None,
            note="cannot tell which pods belong to it",
        )

        return

    upper = levels[: levels.index(level) + 1]
    placements = []
    for copy, pods in copies.items():
        placements.append(_of_copy(context.snapshot, upper, group, copy, pods))

    if group.anti_affinity:
        yield from _exclusively(placements)
    else:
        yield from placements


def _exclusively(placements: Sequence[ObservedPlacement]) -> Iterator[ObservedPlacement]:
    """The same, where no two may share a domain: with exclusive placement that is the label's value alone."""
    holders: Counter[str] = Counter()
    for placement in placements:
        holders.update(domain for domain, _ in placement.domains)

    for placement in placements:
        shared = [domain for domain, _ in placement.domains if holders[domain] > 1]
        if shared:
            yield replace(placement, kept=False, note=f"shares {shared[0]} with another one")
        else:
            yield placement


def _of_copy(
    snapshot: Snapshot, upper: Sequence[Level], group: Group, copy: str, pods: Iterable[PodView]
) -> ObservedPlacement:
    """Where one copy runs; `upper` are the levels down to the one that it asks for.

    Domains are told apart by all values from the broadest level down, as schedulers do.
    """
    counts = Counter(_domain(snapshot, pod.node, upper) for pod in pods)
    names = Counter(path[-1] for path in counts)
    domains = []

    for path, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        domains.append((path[-1] if names[path[-1]] == 1 else "/".join(path), count))

    required = group.required is not None
    kept: bool | None = len(counts) == 1 and _NO_LABEL not in next(iter(counts))
    if not kept and not required:
        kept = None

    return ObservedPlacement(group.name, copy, upper[-1], required, tuple(domains), kept)


def _domain(snapshot: Snapshot, name: str, levels: Sequence[Level]) -> tuple[str, ...]:
    node = snapshot.by_name.get(name)
    if node is None:
        return (f"{name} (gone)",)

    placeholders = snapshot.catalogue.placeholders
    return tuple(level_value(node, level.key, placeholders) or _NO_LABEL for level in levels)


def copies_of(system: str, group: Group, pods: Iterable[PodView], *, whole: bool) -> Copies | None:
    """The pods of each copy of a group; None where they cannot be told apart.

    `whole`: it is the group of the whole workload.
    """
    copy_name = _copy_namer(system, group)
    copies: dict[str, list[PodView]] = {}
    for pod in pods:
        copy = copy_name(pod.labels)
        if copy is not None:
            copies.setdefault(copy, []).append(pod)

    if len(copies) == 1 and group.copies <= 1:
        return {"": next(iter(copies.values()))}
    if copies:
        return copies

    return {"": tuple(pods)} if whole and group.copies == 1 else None


CopyName = Callable[[Labels], str | None]
"""What names a pod's copy of a group by its labels.

None: the pod is in none, or is not labelled for that.
"""


def _copy_namer(system: str, group: Group) -> CopyName:
    kind, _, name = group.name.rpartition(" ")
    if system == "Grove":
        return _grove_copy_namer(group, kind, name)
    if kind == "job of":
        return lambda labels: labels.get(JOB_KEY) if labels.get(_JOB_KIND) == name else None
    if system == "Kueue" and kind == "pod set":
        return lambda labels: "" if labels.get(POD_SET_OF, name) == name else None

    label = ""
    if group.anti_affinity in (GROUP_KEY, SUBGROUP_KEY):
        label = group.anti_affinity
    elif group.copies > 1:
        label = GROUP_INDEX

    return lambda labels: labels.get(label)


def _grove_copy_namer(group: Group, kind: str, name: str) -> CopyName:
    def scaling_group(labels: Labels) -> str | None:
        label = labels.get(_SCALING_GROUP, "")
        if not _is_grove_name(label, name):
            return None

        return f"{label}-{labels.get(_SCALING_GROUP_COPY, '?')}"

    def clique(labels: Labels) -> str | None:
        label = labels.get(_CLIQUE, "")
        return label if _is_grove_name(label, name) else None

    gangs = []
    for part in group.groups:
        part_kind, _, part_name = part.name.rpartition(" ")
        if part_kind == "scaling group":
            gangs.append((part_name, part.copies))

    def whole_set(labels: Labels) -> str | None:
        return None if _is_apart(labels, gangs) else labels.get(_SET_COPY)

    if kind == "scaling group":
        return scaling_group

    return clique if kind == "clique" else whole_set


def _is_apart(labels: Labels, gangs: Iterable[tuple[str, int]]) -> bool:
    """Whether the pod is in a replica of a scaling group that is a gang of its own.

    `gangs`: how many replicas of each are not.
    """
    index = labels.get(_SCALING_GROUP_COPY, "")
    if not index.isdecimal() or len(index) > _MOST_DIGITS:
        return False

    scaling_group = labels.get(_SCALING_GROUP, "")
    for name, count in gangs:
        if _is_grove_name(scaling_group, name) and int(index) >= count:
            return True

    return False


def _is_grove_name(text: str, name: str) -> bool:
    """Grove puts the set and the index of its copy before a name: `llm-0-decode`."""
    return re.fullmatch(rf".*-\d+-{re.escape(name)}", text) is not None
