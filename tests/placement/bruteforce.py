"""An independent reference for tiny clusters: tries every assignment of pods. Shares no code with placement."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods

Unit = tuple[Pods, tuple[tuple[int, Level], ...]]
"""One pod, and the (group copy, level) pairs that it has to share a domain with."""


class Plain(NamedTuple):
    """A node: its value at each level, broadest first, and what is free."""

    path: tuple[str, ...]
    free: Mapping[str, int]


def units(groups: Sequence[Group]) -> tuple[list[Unit], dict[int, str]]:
    """Every single pod, and for each group copy that stays apart from others the word that they share."""
    found: list[Unit] = []
    exclusive: dict[int, str] = {}
    numbers = itertools.count()

    def walk(group: Group, bonds: tuple[tuple[int, Level], ...]) -> None:
        for _ in range(group.copies):
            number = next(numbers)
            if group.anti_affinity:
                exclusive[number] = group.anti_affinity
            inner = (*bonds, (number, group.required)) if group.required else bonds
            found.extend((pods, inner) for pods in group.pods for _ in range(pods.count))
            for below in group.groups:
                walk(below, inner)

    for group in groups:
        walk(group, ())
    return found, exclusive


def possible(groups: Sequence[Group], levels: Sequence[Level], nodes: Sequence[Plain]) -> bool:
    """Whether any assignment satisfies everything."""
    pods, exclusive = units(groups)
    tries = itertools.product(range(len(nodes)), repeat=len(pods))
    return not pods or any(_valid(pods, exclusive, levels, nodes, assignment) for assignment in tries)


def _valid(
    pods: Sequence[Unit],
    exclusive: Mapping[int, str],
    levels: Sequence[Level],
    nodes: Sequence[Plain],
    assignment: Sequence[int],
) -> bool:
    used: dict[tuple[int, str], int] = {}
    domain_of: dict[int, tuple[str, ...]] = {}
    for (unit, bonds), where in zip(pods, assignment, strict=True):
        for resource, amount in (*unit.requests, ("pods", 1)):
            used[where, resource] = used.get((where, resource), 0) + amount
        for number, level in bonds:
            domain = nodes[where].path[: levels.index(level) + 1]
            if domain_of.setdefault(number, domain) != domain:
                return False
    if any(amount > nodes[where].free.get(resource, 0) for (where, resource), amount in used.items()):
        return False
    apart = [(exclusive[number], domain[-1]) for number, domain in domain_of.items() if number in exclusive]
    return len(apart) == len(set(apart))
