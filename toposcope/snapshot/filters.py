"""Nodes picked by labels, by the domain they are in and by what is wrong with them.

What is wrong with a node, in words that filters and tables share.

Label selectors as kubectl takes them: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from toposcope.api.cluster_topology import Requirement
from toposcope.errors import ToposcopeError
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Scope
from toposcope.topology.hardware import State
from toposcope.topology.hierarchy import level_value

_PART: Final = re.compile(r"[^,(]+(?:\([^)]*\))?")
_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_SET: Final = re.compile(_KEY + r"\s+(?P<how>in|notin)\s*\(\s*(?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(_KEY + r"\s*(?P<how>!=|==|=)\s*(?P<value>[-A-Za-z0-9_.]*)")
_THERE: Final = re.compile(r"(?P<absent>!?)\s*" + _KEY)


class SelectorError(ToposcopeError):
    """Text that is no label selector; the message names the part."""


def parse(text: str) -> tuple[Requirement, ...]:
    """The conditions of a selector, all of which must hold; none for an empty one. Raises NoSelector."""
    if text.strip() and _PART.sub("", text).strip(", "):
        raise SelectorError(f"label selector {text!r}: the brackets do not match")
    return tuple(_requirement(part.strip()) for part in _PART.findall(text) if part.strip())


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["how"] == "in" else "NotIn", values)
    if match := _EQUAL.fullmatch(part):
        return Requirement(match["key"], "NotIn" if match["how"] == "!=" else "In", frozenset({match["value"]}))
    if match := _THERE.fullmatch(part):
        return Requirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise SelectorError(
        f"label selector: {part!r} is none of key, !key, key=value, key!=value, key in (a,b), key notin (a,b)"
    )


class Mark(StrEnum):
    """One thing about a node that an admin would want to know before placing work on it."""

    NOT_READY = "not-ready"
    CORDONED = "cordoned"
    DEGRADED = "degraded"
    """Its agent finds fewer GPUs, links or worse paths than there should be."""
    UNKNOWN = "unknown"
    """Its agent gets no answer from the hardware."""
    NO_AGENT = "no-agent"
    """It has GPUs and no agent has labelled it."""


FAULTS = frozenset({Mark.NOT_READY, Mark.DEGRADED, Mark.UNKNOWN})
"""Marks that say that something is broken; the others may be meant."""


def marks(node: NodeView) -> tuple[Mark, ...]:
    """Everything that marks a node, worst first; empty for most."""
    state = node.state
    if node.ready and node.schedulable and state is State.OK:
        return ()
    found = []
    if not node.ready:
        found.append(Mark.NOT_READY)
    if state is State.DEGRADED:
        found.append(Mark.DEGRADED)
    elif state is State.UNKNOWN:
        found.append(Mark.UNKNOWN)
    elif state is None and node.has_gpus:
        found.append(Mark.NO_AGENT)
    if not node.schedulable:
        found.append(Mark.CORDONED)
    return tuple(found)


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
