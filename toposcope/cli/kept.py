"""Whether a gang shares the domain that it requires, in words and as a document."""

from collections.abc import Iterator
from typing import Any, Final

from toposcope.planning.kept import (
    KeptPlacement,
    KeptResult,
    SharedDomain,
    UnreadPlace,
    UnreadReason,
)
from toposcope.planning.kept_gangs import KeptGang

_MOST_UNREAD: Final = 3


def kept_lines(kept: KeptGang) -> Iterator[str]:
    """A line for each part of a gang that does not match, or is not known to."""
    for part in kept.parts:
        if part.placement.result is KeptResult.MATCH:
            continue
        name = f"{kept.gang.handle} {part.name}".rstrip()
        line = f"{name}: one {part.required} required: {part.placement.result}"
        if not part.is_level_known:
            line += "; no ClusterTopology has this level"
        for detail in kept_details(part.placement):
            line += f"; {detail}"
        yield line


def kept_gang_document(kept: KeptGang) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of a gang; docs/check.md describes it."""
    parts = []
    for part in kept.parts:
        parts.append(
            {
                "name": part.name or None,
                "required": part.required,
                "levelKnown": part.is_level_known,
                "result": part.placement.result.value,
                **kept_document(part.placement),
            }
        )
    return {
        "kind": kept.gang.kind,
        "namespace": kept.gang.namespace,
        "name": kept.gang.name,
        "result": kept.result.value,
        "parts": parts,
    }


def kept_details(observed: KeptPlacement) -> Iterator[str]:
    """A pod of each of two domains where it is a violation, and what is not known."""
    if observed.result is KeptResult.MATCH:
        return
    if len(observed.domains) > 1:
        one, another = observed.domains[:2]
        yield f"{_example(one)}, {_example(another)}"
    for place in observed.unread[:_MOST_UNREAD]:
        yield _unread(place)
    more = len(observed.unread) - _MOST_UNREAD
    if more > 0:
        yield f"the domain of {more:,} more is unknown"
    if observed.is_partly_scheduled:
        yield f"{observed.placed:,} of {observed.expected:,} pods have a node"


def _example(domain: SharedDomain) -> str:
    pod = domain.pods[0]
    path = "/".join(domain.path)
    return f"pod/{pod.name} on {pod.node} is in {path}"


def _unread(place: UnreadPlace) -> str:
    pod = place.pod
    match place.reason:
        case UnreadReason.NODE_GONE:
            return f"node {pod.node} of pod/{pod.name} is gone"
        case UnreadReason.NO_LABEL:
            return f"node {pod.node} of pod/{pod.name} has no usable label {place.key}"


def kept_document(observed: KeptPlacement) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of it; docs/check.md describes it."""
    domains = []
    for domain in observed.domains:
        pods = [{"pod": pod.name, "node": pod.node} for pod in domain.pods]
        domains.append({"domain": list(domain.path), "pods": pods})

    unread = []
    for place in observed.unread:
        unread.append(
            {
                "pod": place.pod.name,
                "node": place.pod.node,
                "reason": place.reason.value,
                "key": place.key or None,
            }
        )
    return {
        "placed": observed.placed,
        "expected": observed.expected or None,
        "domains": domains,
        "unread": unread,
    }
