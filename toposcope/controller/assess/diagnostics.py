"""Labels that look like a level and are none, or could be a level: which, on how many nodes, and what to do. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import unique_key
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY, Advice, Catalogue
from toposcope.hierarchy.coverage import MOST_NAMES, placeholder_words, some_names
from toposcope.hierarchy.node import OWN_VALUES
from toposcope.hierarchy.table import Table
from toposcope.text import plural

PARTLY_COVERED: Final = "PartlyCovered"
KEYS_DISAGREE: Final = "KeysDisagree"
PLACEHOLDER: Final = "PlaceholderValue"
NAMES_MIXED: Final = "NamesMixed"
MOST: Final = 16
"""As in the CRD."""

_IN_ORDER: Final = (
    NAMES_MIXED,
    NEAR_MISS,
    NOT_ACCEPTED,
    PLACEHOLDER,
    PARTLY_COVERED,
    KEYS_DISAGREE,
    RETIRED_KEY,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """About one label key; `nodes` is the number of selected nodes that carry it with a real value."""

    key: str
    domain: str
    """The level that it is about; empty for a key that is no level."""
    reason: str
    nodes: int
    message: str


def diagnostics(
    topology: Topology,
    nodes: Table,
    levels: Sequence[Level],
    catalogue: Catalogue,
    known: Container[str] = (),
    mixed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Diagnostic, ...]:
    """Findings about the labels of the selected nodes (at least one), most urgent first.

    `levels` are the effective ones. If the spec lists them, keys that could be further levels are
    not reported. Nor is it reported that keys in `known` are on some nodes only: a segment has
    them. `mixed` says by key of a level who goes by its value alone though others share it.
    """
    present = frozenset().union(*nodes.key_sets)
    results = [*_of_spec(topology, nodes, catalogue), *_advised(nodes, levels, present, catalogue)]
    for level in levels:
        if words := placeholder_words(nodes, level.key):
            names = nodes.first_names(
                [label in nodes.placeholders for label in nodes.labels(level.key)], MOST_NAMES
            )
            text = (
                f"{level.key} of level '{level.domain}' says unknown{words}: {', '.join(names)}; they lack the "
                "level until its writer has a value for them"
            )
            results.append(
                Diagnostic(level.key, level.domain, PLACEHOLDER, _carrying(nodes, level.key), text)
            )
    results += [_mixed(nodes, level, mixed[level.key]) for level in levels if level.key in mixed]
    if topology.levels is None:
        used = {level.domain: level.key for level in levels}
        for key in sorted(present & catalogue.level_keys, key=catalogue.rank.__getitem__):
            domain = catalogue.domain_of[key]
            if domain in used:
                results += _disagreeing(nodes, domain, used[domain], key)
            elif key not in known:
                results += _partly(nodes, domain, key)
    once = {(diagnostic.key, diagnostic.reason): diagnostic for diagnostic in reversed(results)}
    return tuple(
        sorted(once.values(), key=lambda one: (_IN_ORDER.index(one.reason), one.key))[:MOST]
    )


def _of_spec(topology: Topology, nodes: Table, catalogue: Catalogue) -> Iterator[Diagnostic]:
    for i, level in enumerate(topology.levels or ()):
        advice = catalogue.advise(level.key)
        carrying = _carrying(nodes, level.key)
        # A key that every node carries is no typo, whatever it looks like.
        if advice and (carrying < len(nodes) or advice.reason == RETIRED_KEY):
            text = f"spec.levels[{i}].key: {_text(nodes, level.key, advice, ())}"
            yield Diagnostic(level.key, level.domain, advice.reason, carrying, text)


def _advised(
    nodes: Table, levels: Sequence[Level], present: frozenset[str], catalogue: Catalogue
) -> Iterator[Diagnostic]:
    for key in sorted(present & catalogue.suspects):
        advice = catalogue.advise(key)
        if advice and all(level.key != key or advice.reason == RETIRED_KEY for level in levels):
            domain = next((level.domain for level in levels if level.key == key), "")
            yield Diagnostic(
                key, domain, advice.reason, _carrying(nodes, key), _text(nodes, key, advice, levels)
            )


def _text(nodes: Table, key: str, advice: Advice, levels: Sequence[Level]) -> str:
    where = f"{key} is on {_carrying(nodes, key)} of {len(nodes)} {plural(len(nodes), 'node')}"
    match advice.reason:
        case "RetiredKey":
            used = next(
                (
                    f"; level '{x.domain}' is taken from it as long as it is there"
                    for x in levels
                    if x.key == key
                ),
                "",
            )
            now = f"the key now is {advice.instead} (on {_carrying(nodes, advice.instead)})"
            return f"{where} and is retired: {advice.why}; {now}{used}"
        case "NotAccepted":
            return f"{where}, but {advice.why}"
        case _:
            right = (
                f"; the key is {advice.instead} (on {_carrying(nodes, advice.instead)})"
                if advice.instead
                else ""
            )
            return f"{where} and is not a level: {advice.why}{right}"


def _mixed(nodes: Table, level: Level, who: str) -> Diagnostic:
    """A level of which somebody takes two domains for one."""
    unique = unique_key(level.domain)
    text = (
        f"{level.key} of level '{level.domain}' has one value in several domains, and {who} goes by the value alone; "
        f"list {level.domain} in spec.uniqueValues, and let it ask for {unique}"
    )
    return Diagnostic(level.key, level.domain, NAMES_MIXED, _carrying(nodes, level.key), text)


def _partly(nodes: Table, domain: str, key: str) -> Iterator[Diagnostic]:
    """A level that is not in effect because nodes lack it."""
    column = nodes.column(key)
    if not column.missing:
        return
    lacking = nodes.first_names([value is None for value in column.values], MOST_NAMES)
    carrying = len(nodes) - column.missing
    text = (
        f"level '{domain}' ({key}) is on {carrying} of {len(nodes)} nodes, so it is not published: schedulers would "
        f"leave out the others; lacking: {some_names(lacking, column.missing)}{placeholder_words(nodes, key)}"
    )
    yield Diagnostic(key, domain, PARTLY_COVERED, carrying, text)


def _disagreeing(nodes: Table, domain: str, used: str, key: str) -> Iterator[Diagnostic]:
    """A second key of a level that groups the nodes differently."""
    if key == used:
        return
    ours, theirs = nodes.column(used), nodes.column(key)
    if _alike(ours.values, theirs.values, nodes.weights):
        return
    carrying = len(nodes) - theirs.missing
    text = (
        f"{key} (on {carrying} of {len(nodes)} nodes) stands for level '{domain}' as {used} does, and groups the nodes "
        f"differently; {used} is used. Is one of them out of date? To use the other, list it in spec.levels"
    )
    yield Diagnostic(key, domain, KEYS_DISAGREE, carrying, text)


def _alike(
    ours: Sequence[str | None], theirs: Sequence[str | None], weights: Sequence[int]
) -> bool:
    """Whether each value of one is always beside the same value of the other, where there are both."""
    pairs: set[tuple[str | int, str | int]] = set()
    for i, (mine, other, nodes) in enumerate(zip(ours, theirs, weights, strict=True)):
        if mine is None or other is None or (mine in OWN_VALUES and other in OWN_VALUES):
            continue
        if nodes > 1 and (mine in OWN_VALUES or other in OWN_VALUES):
            return False
        pairs.add((i if mine in OWN_VALUES else mine, i if other in OWN_VALUES else other))
    return len(pairs) == len({mine for mine, _ in pairs}) == len({other for _, other in pairs})


def _carrying(nodes: Table, key: str) -> int:
    """Nodes that carry the key with a real value."""
    return len(nodes) - nodes.column(key).missing
