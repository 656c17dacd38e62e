"""Hints about the labels of nodes: keys that look like a level and are none, or disagree."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from toposcope.cli.terminal import Screen
from toposcope.controller.assess.diagnostics import (
    KEYS_DISAGREE,
    OWN_NAME,
    PLACEHOLDER,
    Diagnostic,
    diagnostics,
)
from toposcope.hierarchy.catalogue import NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY
from toposcope.snapshot.scope import Scope

_SHOWN: Final = frozenset({NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY, KEYS_DISAGREE, OWN_NAME})
"""Reasons that nothing else in the output of commands tells."""


def hints_of(scope: Scope) -> tuple[Diagnostic, ...]:
    """What the controller would note in `status.hints`, and labels whose name is that of a level.

    The controller keeps only the labels that its catalogue knows; a command has all of them.
    """
    if not scope.nodes:
        return ()
    table = scope.table_with(_keys_to_judge(scope))
    all_hints = diagnostics(scope.topology, table, scope.levels, scope.catalogue)
    used = {level.domain for level in scope.levels}
    hints = []
    for hint in all_hints:
        is_new_placeholder = hint.reason == PLACEHOLDER and hint.domain not in used
        if is_new_placeholder or hint.reason in _SHOWN:
            hints.append(hint)
    return tuple(hints)


def _keys_to_judge(scope: Scope) -> set[str]:
    """The keys of levels, and those that nodes carry and that there is advice about."""
    catalogue = scope.catalogue
    keys = {level.key for level in scope.levels}
    keys |= catalogue.level_keys
    # Nodes with equal label keys share one mapping.
    mappings: dict[int, Mapping[str, int]] = {id(node.places): node.places for node in scope.nodes}
    for places in mappings.values():
        for key in places.keys() - keys:
            if catalogue.advise(key) or catalogue.advise_by_name(key):
                keys.add(key)
    return keys


def hints_field(scope: Scope) -> dict[str, list[dict[str, Any]]]:
    """The field `hints` of a document; none where there are none."""
    hints = []
    for hint in hints_of(scope):
        hints.append(
            {
                "key": hint.key,
                "domain": hint.domain or None,
                "reason": hint.reason,
                "nodes": hint.nodes,
                "message": hint.message,
            }
        )
    return {"hints": hints} if hints else {}


def hint_lines(screen: Screen, scope: Scope) -> Iterator[str]:
    """A line for each hint."""
    for hint in hints_of(scope):
        yield screen.paint(f"hint: {hint.message}", "dim")
