"""A verdict in plain sentences: the answer first, then what to do."""

from collections.abc import Iterator
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.amounts import amount, amounts, is_bytes, number_of, unit_of
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.verdict import (
    Best,
    Lack,
    Placed,
    Remedy,
    Shortage,
    Step,
    Verdict,
)
from toposcope.placement.shortage import Offer
from toposcope.placement.tolerating import as_yaml
from toposcope.text import listing, plural

_MOST_NAMES: Final = 5
_MOST_LINES: Final = 20
_TOO_LITTLE: Final = {
    ALLOCATABLE_GPUS: "too few GPUs",
    "cpu": "too little CPU",
    PODS: "too few pods left",
}
_EXCLUSIONS: Final = {
    ExclusionKind.SELECTOR: "does not match nodeSelector {}",
    ExclusionKind.AFFINITY: "does not match the node affinity",
    ExclusionKind.TAINT: "has taint {}",
    ExclusionKind.OBSTACLE: "is {}",
    ExclusionKind.LEVEL: "lacks label {}",
}


def answer(verdict: Verdict) -> str:
    """The answer in one line."""
    match verdict.kind:
        case "fits":
            shares = ", on shares of GPUs and not on GPUs" if verdict.on_shares else ""
            return f"fits: {_fits(verdict)}{shares}"
        case "full":
            return f"does not fit now: {_refusal(verdict)}"
        case "never":
            return f"cannot fit: {_refusal(verdict)}"
        case "unclear" if verdict.limitation:
            return f"unclear: {verdict.limitation}"
        case "unclear":
            return (
                "unclear: there is enough room in total, but no placement of all groups "
                "was found in the time allowed; the scheduler may find one"
            )


def advice(verdict: Verdict) -> Iterator[str]:
    """What would help, one sentence for each remedy."""
    for remedy in verdict.remedies:
        if remedy.act == "tolerate":
            yield from _tolerations(remedy)
        else:
            yield _with_more_nodes(remedy, verdict.name(remedy.domain))


def _tolerations(remedy: Remedy) -> Iterator[str]:
    names = listing([str(taint) for taint in remedy.taints], _MOST_NAMES)
    taints = f"{plural(len(remedy.taints), 'taint')} {names}"
    nodes = f"{_nodes(len(remedy.nodes))}: {listing(remedy.nodes, _MOST_NAMES)}"
    yield f"would fit if its pods tolerated {taints} of {nodes}"
    yield "  add to the spec of its pod template, if these nodes are meant for it:"
    for line in as_yaml(remedy.taints):
        yield f"    {line}"


def _with_more_nodes(remedy: Remedy, domain: str) -> str:
    act = "were Ready and not cordoned" if remedy.act == "open" else "were drained"
    if remedy.pods:
        act = f"{act} of {listing(remedy.pods, _MOST_NAMES)}"
    nodes = listing(remedy.nodes, _MOST_NAMES)
    return f"would fit if {_nodes(len(remedy.nodes))} of {domain} {act}: {nodes}"


def _nodes(count: int) -> str:
    return f"{count} {plural(count, 'node')}"


def _pods(count: int) -> str:
    return f"{count} {plural(count, 'pod')}"


def _fits(verdict: Verdict) -> str:
    if verdict.best:
        return _in_domains(verdict, verdict.best)
    pods = 0
    used = set()
    for placed in verdict.placed:
        for name, count in placed.nodes:
            pods += count
            used.add(name)
    return f"{_pods(pods)} on {_nodes(len(used))}"


def _in_domains(verdict: Verdict, best: Best) -> str:
    resource = unit_of(best.resource, best.free) if best.whole else best.resource
    domain = verdict.name(best.domain)
    text = f"{domain} ({_nodes(best.nodes)}, {best.free} free {resource})"
    if verdict.roomy == 1 and verdict.roomy_exact:
        return f"{best.level.domain} {text}"
    least = "" if verdict.roomy_exact else "at least "
    domains = plural(verdict.roomy, best.level.domain)
    return f"{least}{verdict.roomy} {domains} could take it now, best {text}"


def _refusal(verdict: Verdict) -> str:
    if verdict.limitation:
        return verdict.limitation
    if verdict.shortage is None:
        return "there is too little room"
    return _short(verdict, verdict.shortage)


def _short(verdict: Verdict, shortage: Shortage) -> str:
    """What is missing of what is asked for."""
    group = shortage.group.name
    one = f"one {shortage.level.domain}" if shortage.level else ""
    inside = f" in {one}" if one else ""
    match shortage.counted:
        case "pieces":
            return (
                f"there is enough of everything for {group}{inside}, "
                "but not where all of its pods fit at once"
            )
        case "domains":
            copies = _copies(shortage.copies, group)
            return f"{copies} need {one} each to themselves; there are {shortage.room_for}"
        case "pod":
            return _for_one_pod(verdict, shortage)
        case _ if shortage.room_for:
            return _for_too_few_copies(shortage, one)
        case "several":
            lacking = ", ".join([_lacks(lack) for lack in shortage.lacking])
            return f"{group} needs {_needs(shortage)}{inside}: {lacking}"
        case _:
            there = _largest(verdict, shortage)
            return f"{group} needs {_needs(shortage)}{inside}, {there}"


def _for_one_pod(verdict: Verdict, shortage: Shortage) -> str:
    free = " free" if verdict.kind == "full" else ""
    has = f"any{free}"
    if shortage.largest:
        most = number_of(shortage.resource, shortage.largest, shortage.needs)
        has = f"more than {most}{free} ({verdict.name(shortage.best)})"
    needs = f"a pod of {shortage.group.name} needs {_needs(shortage)}"
    return f"{needs}, and no node that it may use has {has}"


def _for_too_few_copies(shortage: Shortage, one: str) -> str:
    needs = _needs(shortage)
    each = f"{one} each with {needs}" if one else f"{needs} each"
    copies = _copies(shortage.copies, shortage.group.name)
    return f"{copies} need {each}; there is room for {shortage.room_for}"


def _largest(verdict: Verdict, shortage: Shortage) -> str:
    """What there is for one copy in the best domain: too little."""
    there = str(shortage.largest or "none")
    if shortage.counted != "resource":
        there = f"room for {there}"
    elif shortage.largest:
        there = number_of(shortage.resource, shortage.largest, shortage.needs)
    has = "largest has" if shortage.level else "the nodes it may use have"
    if shortage.largest and shortage.best:
        return f"{has} {there} ({verdict.name(shortage.best)})"
    return f"{has} {there}"


def _needs(shortage: Shortage) -> str:
    """What one copy needs, of what is short."""
    match shortage.counted:
        case "resource" | "pod":
            return amount(shortage.resource, shortage.needs)
        case "groups":
            inner = shortage.inner or shortage.group
            room = f"room for {_copies(shortage.needs, inner.name)}"
            if inner.required and inner.required != shortage.level:
                return f"{room}, one {inner.required.domain} each,"
            return room
        case "pods":
            room = f"room for {_pods(shortage.needs)}"
            return f"{room} with {amounts(shortage.each)}" if shortage.each else room
        case _:
            return amounts(shortage.each)


def _copies(count: int, name: str) -> str:
    """`3 slices of workers`, `3 copies of decode`."""
    part, of, whole = name.partition(" of ")
    if of and " " not in part:
        return f"{count} {plural(count, part)} of {whole}"
    return f"{count} {plural(count, 'copy', 'copies')} of {name}"


def _lacks(lack: Lack) -> str:
    has = f"{lack.domains} {plural(lack.domains, 'has', 'have')}"
    match lack.counted:
        case "resource":
            return f"{has} {_TOO_LITTLE.get(lack.what, f'too little {lack.what}')}"
        case "pods":
            return f"{has} too few nodes with room for such a pod"
        case _:
            return f"{has} too little room for {lack.what}"


def offered(offer: Offer, shortage: Shortage) -> str:
    """What one domain offers of what is short."""
    resource = shortage.resource
    needs = shortage.needs or offer.free
    free = amount(resource, offer.free, needs)
    text = f"{offer.name}: {free} free on {_nodes(offer.nodes)}"
    if offer.usable >= offer.free:
        return text
    usable = number_of(resource, offer.usable, needs)
    of_which = "it" if is_bytes(resource) else "them"
    return f"{text}, {usable} of {of_which} for pods of this size"


def reasoning(verdict: Verdict) -> Iterator[str]:
    """Level by level: how many domains there are and how many have room for one copy of the group alone."""
    for step in verdict.steps:
        yield _step(step)
    for placed in verdict.placed[:_MOST_LINES]:
        pods = sum([count for _, count in placed.nodes])
        if pods:
            yield _placed(placed, pods, verdict)
    if len(verdict.placed) > _MOST_LINES:
        yield f"and {len(verdict.placed) - _MOST_LINES} more; -o json shows all of them"


def _step(step: Step) -> str:
    must = "must" if step.level == step.group.required else "would like to"
    domain = step.level.domain
    return (
        f"{step.group.name} {must} stay in one {domain}: "
        f"{step.roomy} of {step.domains} {plural(step.domains, domain)} "
        f"{plural(step.roomy, 'has', 'have')} room for it alone"
    )


def _placed(placed: Placed, pods: int, verdict: Verdict) -> str:
    where = f"{verdict.name(placed.domain)}: " if placed.domain else ""
    nodes = listing([name for name, _ in placed.nodes], _MOST_NAMES)
    return f"{placed.group.name}: {_pods(pods)} in {where}{nodes}"


def left_out(verdict: Verdict) -> Iterator[str]:
    """Nodes that were left out, and why."""
    for left in verdict.excluded:
        count = "1 node is" if len(left.nodes) == 1 else f"{len(left.nodes)} nodes are"
        yield f"{count} left out: {why(left.exclusion)} ({listing(left.nodes, _MOST_NAMES)})"


def why(exclusion: Exclusion) -> str:
    """Why pods cannot use a node, as `left_out` says it: `has taint gpu:NoSchedule`."""
    return _EXCLUSIONS[exclusion.kind].format(exclusion.detail)
