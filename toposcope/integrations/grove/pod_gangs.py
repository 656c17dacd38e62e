"""The PodGangs of a PodCliqueSet, each of which KAI places at once.

Source: Grove v0.1.0-alpha.12 (podcliqueset/components/podgang/syncflow.go), KAI 0.17.0 (podgrouper, plugins/grove).
The base PodGang of a replica of the set holds its cliques and, of each scaling group, `minAvailable` replicas; every
further replica is a PodGang of its own, with the scaling group's constraint or else the set's. A PodGang starts with
`minAvailable` pods of each clique; KAI adds the others one by one, where the clique's constraint leaves room.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.kai.gang_size import starts_with

_SCALED: Final = (
    "KAI places replicas of a scaling group beyond its minAvailable by themselves: not always in the {} of the others"
)


def pod_gangs(whole: Group, least: Mapping[str, int], pods: Mapping[str, int]) -> Iterator[Group]:
    """What starts together; `least` is `minAvailable` of scaling groups, `pods` that of cliques, by name of group."""
    base, scaled = [], []
    for group in (_started(below, pods) for below in whole.groups):
        first = min(least.get(group.name, group.copies), group.copies)
        base.append(replace(group, copies=first))
        required, preferred = group.required, group.preferred
        if not (required or preferred):
            required, preferred = whole.required, whole.preferred
        copies = (group.copies - first) * whole.copies
        scaled.append(replace(group, required=required, preferred=preferred, copies=copies))
    yield replace(whole, groups=tuple(sorted(base, key=_name)))
    yield from (group for group in scaled if group.copies)


def notes_of(whole: Group, gangs: Sequence[Group]) -> Iterator[str]:
    """What `check` says of a set whose parts do not all start together."""
    minimum, total = (
        sum(group.total().get("pods", 0) * group.copies for group in groups) for groups in (gangs, (whole,))
    )
    if minimum < total:
        yield starts_with(minimum, total)
    if len(gangs) > 1 and whole.required:
        yield _SCALED.format(whole.required.domain)


def _started(group: Group, pods: Mapping[str, int]) -> Group:
    """The same with the pods of each clique that start together."""
    some = tuple(replace(one, count=min(one.count, pods.get(group.name, one.count))) for one in group.pods)
    return replace(group, pods=some, groups=tuple(_started(below, pods) for below in group.groups))


def _name(group: Group) -> str:
    return group.name.rpartition(" ")[2]
