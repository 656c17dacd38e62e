"""Nodes picked by labels, by the domain they are in and by what is wrong with them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum

from controller.spec import Requirement
from survey.health import Mark, marks
from survey.scope import Scope
from survey.snapshot import NodeView
from topology.hardware import State
from topology.hierarchy import level_value


class Condition(StrEnum):
    """What a node can be asked to be: one of the marks, or one of what follows."""

    OK = "ok"
    """Nothing marks it."""
    READY = "ready"
    LEFT_OUT = "left-out"
    """It lacks a level of the topology."""


CONDITIONS: tuple[str, ...] = tuple(each.value for each in (*Condition, *Mark))


def picked(
    scope: Scope,
    selector: Sequence[Requirement] = (),
    domains: Iterable[tuple[str, str]] = (),
    conditions: Iterable[str] = (),
) -> tuple[NodeView, ...]:
    """The nodes of a scope that meet the selector, lie in every domain (level, value) and meet any of `conditions`.

    Raises NoSuchLevel.
    """
    tests: list[Callable[[NodeView], bool]] = [requirement.holds for requirement in selector]
    tests += [_in_domain(scope.levels[scope.level(name)].key, value) for name, value in domains]
    wanted = frozenset(conditions)
    if wanted:
        tests.append(lambda node: not wanted.isdisjoint(states(scope, node)))
    return tuple(node for node in scope.nodes if all(test(node) for test in tests))


def unknown_domains(scope: Scope, domains: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each domain (level, value) that no node is in. Raises NoSuchLevel."""
    for name, value in domains:
        level = scope.levels[scope.level(name)]
        values = {node.label(level.key) or "" for node in scope.nodes}
        if value not in values:
            close = get_close_matches(value, values, 1)
            yield f"there is no {level.domain} {value!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def states(scope: Scope, node: NodeView) -> tuple[str, ...]:
    """Every condition that a node meets."""
    found: list[str] = list(marks(node))
    if not found and node.state is State.OK:
        found.append(Condition.OK)
    if node.ready:
        found.append(Condition.READY)
    if lacking(scope, node):
        found.append(Condition.LEFT_OUT)
    return tuple(found)


def lacking(scope: Scope, node: NodeView) -> tuple[str, ...]:
    """The levels that a node does not carry."""
    return tuple(level.domain for level in scope.levels if value_at(scope, node, level.key) is None)


def value_at(scope: Scope, node: NodeView, key: str) -> str | None:
    """The node's domain value at a level; what some tools write for "unknown" is none."""
    return level_value(node, key, scope.catalogue.placeholders)


def _in_domain(key: str, value: str) -> Callable[[NodeView], bool]:
    return lambda node: node.label(key) == value
