"""Labels that look like a level but are not, or could be one, and what to do about them: pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import HOSTNAME, unique_key
from toposcope.api.levels import LISTING_NODE_LABELS, LOSING_OWN_NAMES, Level
from toposcope.hierarchy.catalogue import NEAR_MISS, NOT_ACCEPTED, RETIRED_KEY, Advice, Catalogue
from toposcope.hierarchy.coverage import MOST_NAMES, idle_levels, placeholder_words, some_names
from toposcope.hierarchy.fault_domains import FAULT_DOMAINS, ZONE_KEYS
from toposcope.hierarchy.node import OWN_VALUES
from toposcope.hierarchy.table import Table
from toposcope.text import plural

PARTLY_COVERED: Final = "PartlyCovered"
KEYS_DISAGREE: Final = "KeysDisagree"
PLACEHOLDER: Final = "PlaceholderValue"
NAMES_MIXED: Final = "NamesMixed"
OWN_NAME: Final = "OwnName"
MOST_DIAGNOSTICS: Final = 16
"""As in the CRD."""

_IN_ORDER: Final = (
    NAMES_MIXED,
    NEAR_MISS,
    NOT_ACCEPTED,
    PLACEHOLDER,
    OWN_NAME,
    PARTLY_COVERED,
    KEYS_DISAGREE,
    RETIRED_KEY,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """About one label key."""

    key: str
    domain: str
    """The level that it is about; empty for a key that is no level."""
    reason: str
    nodes: int
    """Selected nodes that carry it with a real value."""
    message: str


def diagnostics(
    topology: Topology | None,
    nodes: Table,
    levels: Sequence[Level],
    catalogue: Catalogue,
    *,
    segment_keys: Container[str] = (),
    mixed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Diagnostic, ...]:
    """Findings about the labels of the selected nodes (at least one), most urgent first.

    Without a topology, all levels are inferred. `levels` are the effective ones. If the spec lists
    them, keys that could be further levels are not reported. Nor is it reported that keys in
    `segment_keys` are on some nodes only: a segment has them. `mixed` names, by level key, the
    workload that groups by its value alone, though other domains share it.
    """
    present = frozenset().union(*nodes.key_sets)
    listed = topology.levels if topology else None
    results = [
        *_of_spec(listed or (), nodes, catalogue),
        *_fault_domains(nodes, levels),
        *_own_names(topology, nodes, levels),
        *_advised(nodes, levels, present, catalogue),
        *_placeholders(nodes, levels),
    ]
    for level in levels:
        who = mixed.get(level.key)
        if who is not None:
            results.append(_mixed(nodes, level, who))
    if listed is None:
        results += _further(nodes, levels, present, catalogue, segment_keys=segment_keys)
    return _most_urgent(results)


def _further(
    nodes: Table,
    levels: Sequence[Level],
    present: frozenset[str],
    catalogue: Catalogue,
    *,
    segment_keys: Container[str],
) -> Iterator[Diagnostic]:
    """Keys of levels that are not used: of the same domain as a used one, or of another."""
    used = {level.domain: level.key for level in levels}
    for key in sorted(present & catalogue.level_keys, key=catalogue.rank.__getitem__):
        domain = catalogue.domain_of[key]
        if domain in used:
            yield from _disagreeing(nodes, domain, used[domain], key)
        elif key not in segment_keys:
            yield from _partly(nodes, domain, key)


def _most_urgent(results: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The first ones in the order of their reasons; once for each key and reason."""
    once: dict[tuple[str, str], Diagnostic] = {}
    for diagnostic in results:
        finding = diagnostic.key, diagnostic.reason
        once.setdefault(finding, diagnostic)
    ranked = sorted(once.values(), key=_urgency)
    return tuple(ranked[:MOST_DIAGNOSTICS])


def _urgency(diagnostic: Diagnostic) -> tuple[int, str]:
    place = _IN_ORDER.index(diagnostic.reason)
    return place, diagnostic.key


def _of_spec(listed: Sequence[Level], nodes: Table, catalogue: Catalogue) -> Iterator[Diagnostic]:
    """Keys of the spec that are no level, or should no longer be one."""
    for place, level in enumerate(listed):
        advice = catalogue.advise(level.key)
        if not advice:
            continue
        carrying = _carrying(nodes, level.key)
        # A key that every node carries is no typo, whatever it looks like.
        if carrying == len(nodes) and advice.reason != RETIRED_KEY:
            continue
        text = _text(nodes, level.key, advice)
        yield Diagnostic(
            key=level.key,
            domain=level.domain,
            reason=advice.reason,
            nodes=carrying,
            message=f"spec.levels[{place}].key: {text}",
        )


def _advised(
    nodes: Table, levels: Sequence[Level], present: frozenset[str], catalogue: Catalogue
) -> Iterator[Diagnostic]:
    """Keys that nodes carry and that are no level, or should no longer be one."""
    domain_of = {level.key: level.domain for level in levels}
    for key in sorted(present):
        advice = catalogue.advise(key) or catalogue.advise_by_name(key)
        if not advice:
            continue
        if key in domain_of and advice.reason != RETIRED_KEY:
            continue
        carrying = _carrying(nodes, key)
        if not carrying:
            continue
        domain = domain_of.get(key, "")
        yield Diagnostic(
            key=key,
            domain=domain,
            reason=advice.reason,
            nodes=carrying,
            message=_text(nodes, key, advice, domain),
        )


def _text(nodes: Table, key: str, advice: Advice, domain: str = "") -> str:
    """The advice in words; `domain` is that of the level that is taken from the key, if any."""
    total = len(nodes)
    carrying = _carrying(nodes, key)
    carrying_instead = _carrying(nodes, advice.instead)
    where = f"{key} is on {carrying} of {total} {plural(total, 'node')}"
    instead = f"{advice.instead} (on {carrying_instead})"
    match advice.reason:
        case "RetiredKey":
            text = f"{where} and is retired: {advice.why}; its successor is {instead}"
            if domain:
                text += f"; level '{domain}' uses it for as long as nodes carry it"
            return text
        case "NotAccepted":
            return f"{where}, but {advice.why}"
        case _:
            text = f"{where} and is not a level: {advice.why}"
            if advice.instead:
                text += f"; the key is {instead}"
            return text


def _placeholders(nodes: Table, levels: Sequence[Level]) -> Iterator[Diagnostic]:
    """Levels in effect whose label is a placeholder on some nodes."""
    for level in levels:
        words = placeholder_words(nodes, level.key)
        if not words:
            continue
        labels = nodes.labels(level.key)
        is_placeholder = [label in nodes.no_places for label in labels]
        names = ", ".join(nodes.first_names(is_placeholder, MOST_NAMES))
        text = (
            f"{level.key} of level '{level.domain}' has no real value{words} on {names}; "
            "these nodes lack the level until the label has a real value"
        )
        yield Diagnostic(
            key=level.key,
            domain=level.domain,
            reason=PLACEHOLDER,
            nodes=_carrying(nodes, level.key),
            message=text,
        )


def _fault_domains(nodes: Table, levels: Sequence[Level]) -> Iterator[Diagnostic]:
    """Zone labels that are no level because they say Azure's fault domains."""
    used = {level.key for level in levels}
    for key in ZONE_KEYS:
        count = 0
        for label, weight in zip(nodes.labels(key), nodes.weights, strict=True):
            if label in FAULT_DOMAINS:
                count += weight
        if not count or key in used:
            continue
        text = (
            f"{key} is a fault domain of Azure on {count} of {len(nodes)} "
            f"{plural(len(nodes), 'node')}, so it is not a level: "
            "these VMs are in no availability zone, and nodes of one fault domain are not closer "
            "to each other than to other nodes"
        )
        yield Diagnostic(
            key=key,
            domain="",
            reason=PLACEHOLDER,
            nodes=_carrying(nodes, key),
            message=text,
        )


def _own_names(
    topology: Topology | None, nodes: Table, levels: Sequence[Level]
) -> Iterator[Diagnostic]:
    """The broadest level where it says of nodes what the host level says."""
    if len(levels) < 2 or levels[-1].key != HOSTNAME:  # noqa: PLR2004 - it and the host
        return
    top = levels[0]
    column = nodes.column(top.key)
    if not column.own:
        return
    is_idle = top in idle_levels(levels, nodes)
    is_wanted = topology is not None and (
        topology.levels is not None or top.domain in topology.required
    )
    text = (
        f"{top.key} of level '{top.domain}' is the node's own name on {column.own} of {len(nodes)} "
        f"{plural(len(nodes), 'node')}"
    )
    loses = f"{LOSING_OWN_NAMES} leaves such nodes out of a topology that begins with it"
    if is_idle and not is_wanted:
        text += (
            f", so it adds nothing above host, and {LISTING_NODE_LABELS[-1]} gets the levels "
            f"without it: {loses}; to publish it all the same, name it in spec.required"
        )
    else:
        text += f": {loses}; update it, or give the nodes a label of a level above, such as a zone"
    yield Diagnostic(
        key=top.key,
        domain=top.domain,
        reason=OWN_NAME,
        nodes=_carrying(nodes, top.key),
        message=text,
    )


def _mixed(nodes: Table, level: Level, who: str) -> Diagnostic:
    """A level whose values repeat, used by a workload that cannot tell its domains apart."""
    unique = unique_key(level.domain)
    text = (
        f"{level.key} of level '{level.domain}' has the same value in several domains, "
        f"and {who} groups by this label alone; "
        f"list {level.domain} in spec.uniqueValues and use {unique}"
    )
    return Diagnostic(
        key=level.key,
        domain=level.domain,
        reason=NAMES_MIXED,
        nodes=_carrying(nodes, level.key),
        message=text,
    )


def _partly(nodes: Table, domain: str, key: str) -> Iterator[Diagnostic]:
    """A level that is not in effect because nodes lack it."""
    column = nodes.column(key)
    if not column.missing:
        return
    is_lacking = [value is None for value in column.values]
    lacking = nodes.first_names(is_lacking, MOST_NAMES)
    carrying = len(nodes) - column.missing
    text = (
        f"level '{domain}' ({key}) is on {carrying} of {len(nodes)} nodes, "
        "so it is not published: schedulers would skip the others; "
        f"lacking: {some_names(lacking, column.missing)}{placeholder_words(nodes, key)}"
    )
    yield Diagnostic(
        key=key,
        domain=domain,
        reason=PARTLY_COVERED,
        nodes=carrying,
        message=text,
    )


def _disagreeing(nodes: Table, domain: str, used: str, key: str) -> Iterator[Diagnostic]:
    """A second key of a level that groups the nodes differently."""
    if key == used or _has_same_groups(nodes, used, key):
        return
    carrying = _carrying(nodes, key)
    text = (
        f"{key} (on {carrying} of {len(nodes)} nodes) is a key of level '{domain}', "
        f"but groups the nodes differently from {used}, which is used; "
        f"check which of them is out of date; to use {key}, list it in spec.levels"
    )
    yield Diagnostic(
        key=key,
        domain=domain,
        reason=KEYS_DISAGREE,
        nodes=carrying,
        message=text,
    )


def _has_same_groups(nodes: Table, used: str, other_key: str) -> bool:
    """Whether each value of one key is always beside the same value of the other.

    Nodes that lack one of the two show nothing.
    """
    pairs: set[tuple[str | int, str | int]] = set()
    values: set[str | int] = set()
    others: set[str | int] = set()
    ours = nodes.column(used).values
    theirs = nodes.column(other_key).values
    groups = zip(ours, theirs, nodes.weights, strict=True)
    for place, (our_value, their_value, weight) in enumerate(groups):
        if our_value is None or their_value is None:
            continue
        value = _own_as_place(our_value, place)
        beside = _own_as_place(their_value, place)
        pair = value, beside
        if pair == (place, place):  # both are own values
            continue
        if weight > 1 and place in pair:
            return False
        pairs.add(pair)
        values.add(value)
        others.add(beside)
    return len(pairs) == len(values) == len(others)


def _own_as_place(value: str, place: int) -> str | int:
    """The value; for a node's own one, which is another one in each group, the group's place."""
    return place if value in OWN_VALUES else value


def _carrying(nodes: Table, key: str) -> int:
    """Nodes that carry the key with a real value."""
    return len(nodes) - nodes.column(key).missing
