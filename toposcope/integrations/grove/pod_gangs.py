"""The PodGangs of a PodCliqueSet, each of which KAI places at once.

Source: Grove v0.1.0-alpha.12 (podcliqueset/components/podgang/syncflow.go), KAI 0.17.0 (podgrouper, plugins/grove).
The base PodGang of a replica of the set holds its cliques and, of each scaling group, `minAvailable` replicas; every
further replica is a PodGang of its own, with the scaling group's constraint or else the set's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Group

SCALED: Final = (
    "KAI places replicas of a scaling group beyond its minAvailable by themselves: not always in the {} of the others"
)


def pod_gangs(whole: Group, least: Mapping[str, int]) -> Iterator[Group]:
    """The PodGangs of the set's tree; `least` is `minAvailable` of each scaling group, by the name of its group."""
    base, scaled = [], []
    for group in whole.groups:
        first = min(least.get(group.name, group.copies), group.copies)
        base.append(replace(group, copies=first))
        required, preferred = group.required, group.preferred
        if not (required or preferred):
            required, preferred = whole.required, whole.preferred
        copies = (group.copies - first) * whole.copies
        scaled.append(replace(group, required=required, preferred=preferred, copies=copies))
    yield replace(whole, groups=tuple(sorted(base, key=_name)))
    yield from (group for group in scaled if group.copies)


def _name(group: Group) -> str:
    return group.name.rpartition(" ")[2]
