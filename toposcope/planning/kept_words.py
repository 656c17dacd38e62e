"""What is said of gangs that are not, or may not be, within the domain that they require.

The commands and the page say it with the same words.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.planning.kept import (
    BrokenBy,
    ChangedLabel,
    KeptPlacement,
    KeptResult,
    SharedDomain,
    UnreadPlace,
    UnreadReason,
)
from toposcope.planning.kept_gangs import KeptGang, KeptPart

_MOST_UNREAD: Final = 3
_MOST_CHANGED: Final = 3


def kept_lines(kept: KeptGang) -> Iterator[str]:
    """A line for each part of a gang that does not match, or is not known to, after its name.

    There is one for a match too where a label has changed since.
    """
    for part in kept.parts:
        details = list(kept_details(part.placement))
        if part.placement.result is KeptResult.MATCH and not details:
            continue
        line = f"{part.name}: {requirement(part)}" if part.name else requirement(part)
        for detail in details:
            line += f"; {detail}"
        yield line


def requirement(part: KeptPart) -> str:
    """What a part requires, and whether that is kept."""
    result = part.placement.result
    if part.unread:
        return f"{result}: the level that it requires is unknown: {part.unread} cannot be read"
    line = f"one {part.required} required: {result}"
    if not part.is_level_known:
        line += "; no ClusterTopology has this level"
    return line


def kept_details(observed: KeptPlacement) -> Iterator[str]:
    """A pod of each of two domains where it is a violation, what is not known, what changed."""
    if observed.result is not KeptResult.MATCH:
        yield from _differences(observed)
    for changed in observed.changed[:_MOST_CHANGED]:
        yield _changed(changed)
    more = len(observed.changed) - _MOST_CHANGED
    if more > 0:
        yield f"{more:,} more labels changed"


def _differences(observed: KeptPlacement) -> Iterator[str]:
    if len(observed.domains) > 1:
        one, another = observed.domains[:2]
        first = _example(one)
        second = _example(another)
        yield f"{first}, {second}"
    for intruder in observed.intruders[:1]:
        pod = intruder.pod
        yield f"pod/{pod.name} -n {pod.namespace} of another group is in {intruder.domain} too"
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
        case UnreadReason.NO_DOMAIN:
            return f"node {pod.node} of pod/{pod.name} is in none of the domains"


def _changed(changed: ChangedLabel) -> str:
    pod = changed.pod
    label = f"label {changed.key} of node {pod.node}"
    if not changed.value_now:
        return f"{label} was {changed.value_then} when pod/{pod.name} was placed and is gone"
    return (
        f"{label} changed from {changed.value_then} to {changed.value_now} "
        f"after pod/{pod.name} was placed"
    )


def kept_advice(observed: KeptPlacement) -> Iterator[str]:
    """Who broke it, and what to do about it, a sentence each; nothing where nobody did."""
    match observed.broken_by:
        case BrokenBy.LABELS:
            yield "cause: its scheduler kept it in one domain; labels of nodes changed after that"
            yield (
                "fix: set the label back where the node did not move; where it did, restart the "
                "gang after a checkpoint"
            )
        case BrokenBy.PLACEMENT:
            yield "cause: its scheduler placed it in several domains; no label changed after that"
            yield (
                "fix: restart the gang after a checkpoint; if it is placed like that again, check "
                "it with toposcope check -f FILE"
            )
        case BrokenBy.OTHERS:
            yield "cause: two groups that must not share a domain are in one"
            yield "fix: restart one of the two groups, after correcting a label that is wrong"
        case BrokenBy.UNKNOWN:
            yield (
                "cause: its scheduler placed it in several domains, or the label of a node changed "
                "after that; the pods do not say which"
            )
            yield (
                "fix: correct the label if it is wrong; else restart the gang after a checkpoint"
            )
