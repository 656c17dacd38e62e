"""Where the pods run that have a node, and whether what has to stay together does."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from toposcope.explain.context import Context
from toposcope.explain.copies import copies_of
from toposcope.explain.kinds import CLIQUE_SET
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.topology.hierarchy import level_value
from toposcope.topology.levels import Level

Path = tuple[str, ...]
_NO_LABEL = "no label"


@dataclass(frozen=True, slots=True)
class ObservedPlacement:
    """One copy of a group that is to be kept together, as far as it runs."""

    group: str
    copy: str
    """Which of several copies, as its pods tell; empty where there is one."""
    level: Level
    required: bool
    """False: it is only preferred."""
    domains: tuple[tuple[str, int], ...]
    """Domains and how many of the pods are in each, the fullest first."""
    respected: bool | None
    """None: not known, or no pod has a node yet, or nothing is broken by it as it is only preferred."""
    note: str = ""
    """Why it is not known, or what is wrong besides."""


def placements(context: Context) -> Iterator[ObservedPlacement]:
    """Every copy of every group that has a level, outermost groups first; none where no pod has a node."""
    if not context.placed:
        return
    for workload in _trees(context):
        levels = context.levels(workload)
        for top in workload.groups:
            for group, _ in top.everything():
                yield from _group(context, workload, levels, top, group)


def _trees(context: Context) -> Sequence[Workload]:
    """What Grove was told of a Dynamo deployment is nearer to its pods than the deployment itself."""
    found = []
    for _, document in context.members(CLIQUE_SET):
        found += [each.reading.workload for each in context.checker.check(document, document) if each.reading.workload]
    return found or context.workloads


def _group(
    context: Context, workload: Workload, levels: Sequence[Level], top: Group, group: Group
) -> Iterator[ObservedPlacement]:
    level = group.required or group.preferred
    if level is None or level not in levels:
        return
    required = group.required is not None
    copies = copies_of(workload.system, group, context.placed, whole=group is top)
    if copies is None:
        yield ObservedPlacement(group.name, "", level, required, (), None, "which pods belong to it cannot be told")
        return
    found = [_copy(context.snapshot, levels, level, group.name, copy, pods, required) for copy, pods in copies.items()]
    if not group.apart:
        yield from found
        return
    # A domain of exclusive placement is the label's value alone.
    holders = Counter(domain for each in found for domain, _ in each.domains)
    for each in found:
        shared = [domain for domain, _ in each.domains if holders[domain] > 1]
        yield replace(each, respected=False, note=f"shares {shared[0]} with another one") if shared else each


def _copy(
    snapshot: Snapshot,
    levels: Sequence[Level],
    level: Level,
    group: str,
    copy: str,
    pods: Iterable[PodView],
    required: bool,
) -> ObservedPlacement:
    """Domains are told apart by all values from the broadest level down, as schedulers do."""
    upto = levels[: list(levels).index(level) + 1]
    counts = Counter(_path(snapshot, pod.node, upto) for pod in pods)
    last = Counter(path[-1] for path in counts)
    domains = tuple(
        (path[-1] if last[path[-1]] == 1 else "/".join(path), count)
        for path, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    together = len(counts) == 1 and _NO_LABEL not in next(iter(counts))
    return ObservedPlacement(
        group, copy, level, required, domains, together if required else True if together else None
    )


def _path(snapshot: Snapshot, name: str, levels: Sequence[Level]) -> Path:
    node = snapshot.by_name.get(name)
    if node is None:
        return (f"{name} (gone)",)
    return tuple(level_value(node, level.key, snapshot.catalogue.placeholders) or _NO_LABEL for level in levels)
