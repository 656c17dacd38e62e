"""What PodGangs require of pods: all of a gang, of a scaling group's copy, of a clique.

Source: Grove v0.1.0-alpha.12 (scheduler/api/core/v1alpha1, PodGang). Constraints are label keys
there: Grove's operator has translated the domains of a PodCliqueSet.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import ViewedPod
from toposcope.integrations.framework.requiring import (
    RequiredPart,
    Requiring,
    RequiringObjects,
    by_object,
)
from toposcope.integrations.grove.api import CLIQUE_OF, GANG, GANG_OF


class _Grove(Requiring):
    kinds = (GANG,)
    constraint = "topologyConstraint"
    parts_in = ("topologyConstraintGroupConfigs", "podgroups")
    fields = (constraint, *parts_in)

    def of_objects(
        self, pods: Sequence[ViewedPod], objects: RequiringObjects
    ) -> Iterator[RequiredPart]:
        named = by_object(pods, lambda pod: pod.labels.get(GANG_OF))
        yield from objects.parts(GANG, named, _of_gang)


def _of_gang(root: Field, pods: tuple[ViewedPod, ...]) -> Iterator[RequiredPart]:
    spec = root / "spec"
    least: dict[str, int] = {}
    for clique in (spec / "podgroups").items():
        name = (clique / "name").text() or ""
        least[name] = (clique / "minReplicas").number(0)

    level = _required(spec)
    if level:
        expected = sum(least.values())
        yield RequiredPart(level, pods, least=expected)
    for config in (spec / "topologyConstraintGroupConfigs").items():
        names = config / "podGroupNames"
        cliques = [entry.text() or "" for entry in names.items()]
        yield from _of_cliques(config, cliques, least, pods)
    for clique in (spec / "podgroups").items():
        name = (clique / "name").text() or ""
        yield from _of_cliques(clique, [name], least, pods)


def _of_cliques(
    place: Field, cliques: Sequence[str], least: Mapping[str, int], pods: Sequence[ViewedPod]
) -> Iterator[RequiredPart]:
    """What a field of the gang requires of the pods of these cliques."""
    level = _required(place)
    if not level:
        return
    name = (place / "name").text() or "-".join(cliques)
    expected = 0
    for clique in cliques:
        expected += least.get(clique, 0)
    members = []
    for pod in pods:
        if pod.labels.get(CLIQUE_OF) in cliques:
            members.append(pod)
    yield RequiredPart(level, tuple(members), name, expected)


def _required(place: Field) -> str:
    """The label key of the level; empty if it requires none."""
    return (place / "topologyConstraint" / "packConstraint" / "required").text() or ""


REQUIRING: Final = _Grove()
