"""Filters on nodes: label selectors, domains and states.

Selectors are kubectl's: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from operator import attrgetter
from typing import Final

from toposcope.api.label_keys import GPUS
from toposcope.api.requirement import Requirement
from toposcope.errors import ToposcopeError
from toposcope.hardware.rails import reported
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import level_value
from toposcope.hierarchy.fault_domains import FAULT_DOMAINS, ZONE_KEYS, zone_of
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.kube.pod_resources import is_gpu
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Scope
from toposcope.text import by_numbers, enumerated, first_few, plural

_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_SET: Final = re.compile(_KEY + r"\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(_KEY + r"\s*(?P<how>!=|==|=)\s*(?P<value>[-A-Za-z0-9_.]*)")
_PRESENCE: Final = re.compile(r"(?P<absent>!?)\s*" + _KEY)


_NEAREST: Final = 3
"""How many similar names are offered for one that there is not."""


class SelectorError(ToposcopeError):
    """Text that is not a label selector; the message quotes the part."""


def parse(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector, all of which must hold; none for an empty selector.

    Raises SelectorError.
    """
    requirements = []
    for part in _parts(text):
        if part:
            requirements.append(_requirement(part))
    return tuple(requirements)


def _parts(text: str) -> Iterator[str]:
    """The parts of a selector between its commas, apart from commas within brackets.

    Raises SelectorError where brackets do not match.
    """
    begin = 0
    is_inside = False
    for position, character in enumerate(text):
        if character in "()":
            opens = character == "("
            if is_inside == opens:
                raise _unmatched(text)
            is_inside = opens
        elif character == "," and not is_inside:
            yield text[begin:position].strip()
            begin = position + 1

    if is_inside:
        raise _unmatched(text)
    yield text[begin:].strip()


def _unmatched(text: str) -> SelectorError:
    return SelectorError(f"label selector {text!r}: the brackets do not match")


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        operator = "In" if match["how"] == "in" else "NotIn"
        values = map(str.strip, match["values"].split(","))
        return Requirement(match["key"], operator, frozenset(values))

    if match := _EQUAL.fullmatch(part):
        operator = "NotIn" if match["how"] == "!=" else "In"
        return Requirement(match["key"], operator, frozenset({match["value"]}))

    if match := _PRESENCE.fullmatch(part):
        operator = "DoesNotExist" if match["absent"] else "Exists"
        return Requirement(match["key"], operator)

    raise SelectorError(
        f"label selector: {part!r} is not one of "
        "key, !key, key=value, key!=value, key in (a,b), key notin (a,b)"
    )


class Mark(StrEnum):
    """A fact about a node that an admin wants to know before using it."""

    NOT_READY = "not-ready"
    CORDONED = "cordoned"
    DEGRADED = "degraded"
    """Its agent finds missing GPUs, missing links or worse paths than expected."""
    UNKNOWN = "unknown"
    """The hardware does not answer its agent."""
    NO_AGENT = "no-agent"
    """It has GPUs and no agent has labelled it."""
    TAINTED = "tainted"
    """It takes only pods that tolerate a taint of its own, see `repelling`."""


FAULTS = frozenset({Mark.NOT_READY, Mark.DEGRADED, Mark.UNKNOWN})
"""Marks of something broken; the others may be intended."""


TAINTS_OF_STATES: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
    }
)
"""Keys of the taints that Kubernetes adds where a node is cordoned or not Ready."""
_AKS: Final = ("sku", "gpu")


def is_fence(taint: Taint) -> bool:
    """Whether a taint keeps only pods without GPUs away.

    Its key is a resource of GPUs, which pods that request GPUs tolerate
    (ExtendedResourceToleration), or it is AKS' `sku=gpu`.
    """
    return is_gpu(taint.key) or (taint.key, taint.value) == _AKS


def repelling(node: NodeView) -> tuple[Taint, ...]:
    """The taints of a node that a pod has to tolerate explicitly.

    Taints that repeat a mark don't count, nor do those that fence all nodes with GPUs.
    """
    return own_taints(node.taints)


def own_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Those of the taints that neither repeat a mark nor fence all nodes with GPUs."""
    if not taints:
        return ()
    own = []
    for taint in taints:
        if taint.key not in TAINTS_OF_STATES and not is_fence(taint):
            own.append(taint)
    return tuple(own)


def marks(node: NodeView) -> tuple[Mark, ...]:
    """The marks of a node, worst first; empty for most nodes."""
    if _is_plain(node):
        return ()

    state = node.state
    node_marks = []
    if not node.is_ready:
        node_marks.append(Mark.NOT_READY)
    if state is State.DEGRADED:
        node_marks.append(Mark.DEGRADED)
    elif state is State.UNKNOWN:
        node_marks.append(Mark.UNKNOWN)
    if (state is None and node.has_gpus) or node.is_without_agent:
        node_marks.append(Mark.NO_AGENT)
    if not node.is_schedulable:
        node_marks.append(Mark.CORDONED)
    if repelling(node):
        node_marks.append(Mark.TAINTED)
    return tuple(node_marks)


def _is_plain(node: NodeView) -> bool:
    """Whether a quick look shows that it has no mark, as most nodes."""
    has_agent = GPUS in node.places and node.state is State.OK
    return has_agent and node.is_usable and not node.taints


class StateFilter(StrEnum):
    """States to filter by, besides the marks."""

    OK = "ok"
    """It has no marks."""
    READY = "ready"
    LEFT_OUT = "left-out"
    """It lacks a level of the topology."""
    MISCABLED = "miscabled"
    """The topology's status names a rail of it."""


CONDITIONS: tuple[str, ...] = tuple(state.value for state in (*StateFilter, *Mark))


def filter_nodes(
    scope: Scope,
    nodes: Iterable[NodeView],
    selector: Sequence[Requirement] = (),
    domains: Iterable[tuple[str, str]] = (),
    conditions: Iterable[str] = (),
) -> tuple[NodeView, ...]:
    """The nodes that match the selector, every domain (level, value) and any of `conditions`.

    They are sorted by name. Raises LevelNotFoundError.
    """
    tests: list[Callable[[NodeView], bool]] = []
    for requirement in selector:
        tests.append(requirement.holds)
    for name, value in domains:
        level = scope.levels[scope.level(name)]
        tests.append(_in_domain(level.key, value))
    wanted = frozenset(conditions)
    if wanted:
        tests.append(lambda node: not wanted.isdisjoint(states(scope, node)))

    matching = []
    for node in nodes:
        if all(test(node) for test in tests):
            matching.append(node)
    matching.sort(key=attrgetter("name"))
    return tuple(matching)


class DomainNotFoundError(ToposcopeError):
    """A domain that no node is in; the message names the nearest, or some of those there are."""


def check_domains(scope: Scope, domains: Iterable[tuple[str, str]]) -> None:
    """Raise DomainNotFoundError for a domain (level, value) that no node is in.

    Raises LevelNotFoundError.
    """
    for name, value in domains:
        level = scope.levels[scope.level(name)]
        nodes = (*scope.nodes, *scope.without_agent)
        values = {node.label(level.key) or "" for node in nodes}
        if value in values:
            continue
        values.discard("")
        raise DomainNotFoundError(_unknown_domain(level.domain, value, values))


def _unknown_domain(domain: str, value: str, values: Collection[str]) -> str:
    sentence = f"there is no {domain} {value!r}"
    near = get_close_matches(value, values, _NEAREST)
    if near:
        return f"{sentence}; did you mean {enumerated([repr(name) for name in near], 'or')}?"
    names = sorted(values, key=by_numbers)
    domain_names = plural(len(names), f"the only {domain} is", f"the {len(names):,} {domain}s are")
    return f"{sentence}; {domain_names} {first_few(names)}"


def states(scope: Scope, node: NodeView) -> tuple[str, ...]:
    """All states of a node."""
    node_states: list[str] = list(marks(node))
    if not node_states and node.state is State.OK:
        node_states.append(StateFilter.OK)
    if node.is_ready:
        node_states.append(StateFilter.READY)
    if not is_awaited(scope, node) and lacking(scope, node):
        node_states.append(StateFilter.LEFT_OUT)
    if wrong_cables(scope, node):
        node_states.append(StateFilter.MISCABLED)
    return tuple(node_states)


def wrong_cables(scope: Scope, node: NodeView) -> list[str]:
    """A sentence for each rail of the node that the topology's status calls miscabled."""
    if scope.topology is None:
        return []
    sentences = []
    for rail in reported(scope.topology.status):
        if rail.node == node.name:
            sentences.append(rail.sentence)
    return sentences


def is_awaited(scope: Scope, node: NodeView) -> bool:
    """Whether a node waits for an agent, and is not in the topology until then."""
    if not node.is_without_agent or scope.topology is None:
        return False
    return not scope.topology.selects(node)


def lacking(scope: Scope, node: NodeView) -> tuple[str, ...]:
    """The levels that a node lacks."""
    missing = []
    for level in scope.levels:
        if value_at(scope, node, level.key) is None:
            missing.append(level.domain)
    return tuple(missing)


def value_at(scope: Scope, node: NodeView, key: str) -> str | None:
    """The node's domain value at a level; None also for what some tools write for "unknown"."""
    value = level_value(node, key, scope.catalogue.placeholders)
    if value is not None and node.is_of_azure and key in ZONE_KEYS:
        return None if zone_of(value) in FAULT_DOMAINS else value
    return value


def _in_domain(key: str, value: str) -> Callable[[NodeView], bool]:
    return lambda node: node.label(key) == value
