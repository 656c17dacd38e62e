"""A verdict in plain sentences: the answer first, then what to do."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.amounts import amount, amounts, is_bytes, number_of, unit_of
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.document import UnreadField
from toposcope.integrations.framework.node_affinity import Exclusion, ExclusionKind
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.verdict import (
    Best,
    Kind,
    Lack,
    LevelStep,
    Placed,
    Remedy,
    Shortage,
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
    PODS: "too few pod slots left",
}
_EXCLUSIONS: Final = {
    ExclusionKind.SELECTOR: "does not match nodeSelector {}",
    ExclusionKind.AFFINITY: "does not match the node affinity",
    ExclusionKind.TAINT: "has taint {}",
    ExclusionKind.OBSTACLE: "is {}",
    ExclusionKind.LEVEL: "lacks label {}",
    ExclusionKind.VOLUME: "cannot use the volume of claim {}",
    ExclusionKind.KEY: "lacks label {}, the topologyKey of an affinity or spread constraint",
    ExclusionKind.NEIGHBOURS: "{}",
}


HEADS: Final[Mapping[Kind, str]] = {
    "fits": "fits",
    "full": "does not fit now",
    "never": "cannot fit",
    "unclear": "unclear",
}
"""The answer in a few words, by the kind of the verdict."""


def answer(verdict: Verdict) -> str:
    """The answer in one line."""
    head = HEADS[verdict.kind]
    return f"{head}: {grounds(verdict)}"


def grounds(verdict: Verdict) -> str:
    """Where the workload fits, or what is missing: the answer without its head."""
    match verdict.kind:
        case "fits":
            where = _fits(verdict)
            if verdict.is_on_shares:
                return f"{where}, on shares of GPUs, not on whole GPUs"
            return where
        case "full" | "never":
            return _refusal(verdict)
        case "unclear" if verdict.without_unread:
            return _unread(verdict, verdict.without_unread)
        case "unclear" if verdict.limitation:
            return verdict.limitation
        case "unclear":
            return (
                "there is enough room in total, but no placement of all groups "
                "was found in the time allowed; the scheduler may find one"
            )


def _unread(verdict: Verdict, without: Verdict) -> str:
    """The fields that are not read, and the answer without them."""
    names = [unread.field for unread in verdict.unread]
    named = listing(names, _MOST_NAMES)
    is_not_read = "are not read; without them"
    if len(names) == 1:
        is_not_read = "is not read; without it"
    return f"{named} {is_not_read}: {answer(without)}"


def unread_lines(fields: Iterable[UnreadField], line_of: Callable[[str], int]) -> Iterator[str]:
    """Each field that is not read, with its line and why it matters.

    `line_of` is the line of a field in its file, 0 where unknown.
    """
    for unread in fields:
        line = line_of(unread.field)
        place = f" (line {line})" if line else ""
        yield f"not read: {unread.field}{place}: {unread.why}"


def advice(verdict: Verdict) -> Iterator[str]:
    """What would help, one sentence for each remedy."""
    for remedy in verdict.remedies:
        if remedy.act == "tolerate":
            yield from _tolerations(remedy)
        elif remedy.act == "preempt":
            yield _preemption(remedy)
        else:
            yield _with_more_nodes(remedy, verdict.name(remedy.domain))


def _tolerations(remedy: Remedy) -> Iterator[str]:
    taint = plural(len(remedy.taints), "taint")
    all_taints = [str(each) for each in remedy.taints]
    taints = listing(all_taints, _MOST_NAMES)
    nodes = _nodes(len(remedy.nodes))
    names = listing(remedy.nodes, _MOST_NAMES)
    yield f"would fit if its pods tolerated {taint} {taints} of {nodes}: {names}"
    yield "  add to the spec of its pod template, if these nodes are meant for it:"
    for line in as_yaml(remedy.taints):
        yield f"    {line}"


def _preemption(remedy: Remedy) -> str:
    count = _pods(len(remedy.pods))
    pods = listing(remedy.pods, _MOST_NAMES)
    nodes = listing(remedy.nodes, _MOST_NAMES)
    return f"kube-scheduler would evict {count} of lower priority to make room: {pods} (on {nodes})"


def _with_more_nodes(remedy: Remedy, domain: str) -> str:
    act = "were drained"
    if remedy.act == "open":
        act = "were Ready and not cordoned"
    if remedy.pods:
        pods = listing(remedy.pods, _MOST_NAMES)
        act = f"{act} of {pods}"
    nodes = _nodes(len(remedy.nodes))
    names = listing(remedy.nodes, _MOST_NAMES)
    return f"would fit if {nodes} of {domain} {act}: {names}"


def _nodes(count: int) -> str:
    node = plural(count, "node")
    return f"{count} {node}"


def _pods(count: int) -> str:
    pod = plural(count, "pod")
    return f"{count} {pod}"


def _fits(verdict: Verdict) -> str:
    if verdict.best:
        return _in_domains(verdict, verdict.best)
    count = 0
    used = set()
    for placed in verdict.placed:
        for name, pods_there in placed.nodes:
            count += pods_there
            used.add(name)
    pods = _pods(count)
    nodes = _nodes(len(used))
    return f"{pods} on {nodes}"


def _in_domains(verdict: Verdict, best: Best) -> str:
    resource = best.resource
    if best.has_whole_gpus:
        resource = unit_of(resource, best.free)
    name = verdict.name(best.domain)
    nodes = _nodes(best.nodes)
    text = f"{name} ({nodes}, {best.free} free {resource})"

    level = best.level.domain
    count = verdict.roomy
    if count == 1 and verdict.is_roomy_exact:
        return f"{level} {text}"
    domains = plural(count, level)
    least = ""
    if not verdict.is_roomy_exact:
        least = "at least "
    return f"{least}{count} {domains} could take it now, best {text}"


def _refusal(verdict: Verdict) -> str:
    if verdict.limitation:
        return verdict.limitation
    if verdict.shortage is None:
        return "there is too little room"
    return _short(verdict, verdict.shortage)


def _short(verdict: Verdict, shortage: Shortage) -> str:
    """What the workload needs, and what the cluster has of it."""
    group = shortage.group.name
    one_domain = ""
    inside = ""
    if shortage.level:
        one_domain = f"one {shortage.level.domain}"
        inside = f" in {one_domain}"

    match shortage.counted:
        case "pieces":
            enough = f"there is enough of everything for {group}{inside}"
            return f"{enough}, but too fragmented for its pods to fit at once"
        case "domains":
            copies = _copies(shortage.copies, shortage.group)
            need = f"{copies} each need {one_domain} to themselves"
            if shortage.copies == 1:
                need = f"{copies} needs {one_domain} to itself"
            return f"{need}; there are {shortage.room_for}"
        case "barred" | "pod":
            return _for_one_pod(verdict, shortage)
        case _ if shortage.room_for:
            return _for_too_few_copies(shortage, one_domain)
        case "several":
            needs = _needs(shortage)
            lacking = ", ".join(map(_lacks, shortage.lacking))
            return f"{group} needs {needs}{inside}: {lacking}"
        case _:
            needs = _needs(shortage)
            available = _largest(verdict, shortage)
            return f"{group} needs {needs}{inside}, {available}"


def _for_barred_pods(shortage: Shortage) -> str:
    reasons = []
    for exclusion, count in shortage.barred:
        reasons.append(f"{why(exclusion)} ({_nodes(count)})")
    listed = listing(reasons, _MOST_NAMES)
    return f"no node takes a pod of {shortage.kind}: {listed}"


def _for_one_pod(verdict: Verdict, shortage: Shortage) -> str:
    """Why no node takes a single pod."""
    if shortage.counted == "barred":
        return _for_barred_pods(shortage)
    group = shortage.group.name
    needs = _needs(shortage)
    free = ""
    if verdict.kind == "full":
        free = " free"
    has = f"any{free}"
    if shortage.largest:
        most = number_of(shortage.resource, shortage.largest, shortage.needs)
        node = verdict.name(shortage.best)
        has = f"more than {most}{free} ({node})"
    return f"a pod of {group} needs {needs}, and no node that it may use has {has}"


def _for_too_few_copies(shortage: Shortage, one_domain: str) -> str:
    needs = _needs(shortage)
    each = needs
    if one_domain:
        each = f"{one_domain} with {needs}"
    copies = _copies(shortage.copies, shortage.group)
    return f"{copies} each need {each}; there is room for {shortage.room_for}"


def _largest(verdict: Verdict, shortage: Shortage) -> str:
    """What the best domain has for one copy."""
    largest = shortage.largest
    available = str(largest or "none")
    if shortage.counted != "resource":
        available = f"room for {available}"
    elif largest:
        available = number_of(shortage.resource, largest, shortage.needs)

    has = "the nodes it may use have"
    if shortage.level:
        has = "largest has"
    if shortage.largest and shortage.best:
        best = verdict.name(shortage.best)
        return f"{has} {available} ({best})"
    return f"{has} {available}"


def _needs(shortage: Shortage) -> str:
    """How much one copy needs of what is short."""
    match shortage.counted:
        case "resource" | "pod":
            return amount(shortage.resource, shortage.needs)
        case "groups":
            return _needs_groups(shortage, shortage.inner or shortage.group)
        case "pods":
            pods = _pods(shortage.needs)
            if not shortage.each:
                return f"room for {pods}"
            each = amounts(shortage.each)
            return f"room for {pods} with {each}"
        case _:
            return amounts(shortage.each)


def _needs_groups(shortage: Shortage, inner: Group) -> str:
    copies = _copies(shortage.needs, inner)
    level = inner.required
    if level and level != shortage.level:
        return f"room for {copies}, one {level.domain} each,"
    return f"room for {copies}"


def _copies(count: int, group: Group) -> str:
    """`3 slices of workers`, `3 copies of decode`."""
    if group.part:
        parts = plural(count, group.part)
        return f"{count} {parts} of {group.own_name}"
    copies = plural(count, "copy", "copies")
    return f"{count} {copies} of {group.name}"


def _lacks(lack: Lack) -> str:
    match lack.counted:
        case "resource":
            missing = _TOO_LITTLE.get(lack.what, f"too little {lack.what}")
        case "pods":
            missing = "too few nodes with room for such a pod"
        case _:
            missing = f"too little room for {lack.what}"
    have = plural(lack.domains, "has", "have")
    return f"{lack.domains} {have} {missing}"


def offered(offer: Offer, shortage: Shortage) -> str:
    """How much one domain has of what is short."""
    resource = shortage.resource
    needs = shortage.needs or offer.free
    free = amount(resource, offer.free, needs)
    nodes = _nodes(offer.nodes)
    text = f"{offer.name}: {free} free on {nodes}"
    if offer.usable >= offer.free:
        return text

    usable = number_of(resource, offer.usable, needs)
    of_which = "them"
    if is_bytes(resource):
        of_which = "it"
    return f"{text}, {usable} of {of_which} for pods of this size"


def reasoning(verdict: Verdict) -> Iterator[str]:
    """For each level: how many domains there are, and how many have room for one copy alone."""
    for step in verdict.steps:
        yield _step(step)
    for placed in verdict.placed[:_MOST_LINES]:
        if any(count for _, count in placed.nodes):
            yield _placed(placed, verdict)
    more = len(verdict.placed) - _MOST_LINES
    if more > 0:
        yield f"and {more} more; -o json shows all"


def _step(step: LevelStep) -> str:
    group, level = step.group, step.level
    must = "prefers to"
    if level == group.required:
        must = "must"
    domains = plural(step.domains, level.domain)
    have = plural(step.roomy, "has", "have")
    return (
        f"{group.name} {must} stay in one {level.domain}: "
        f"{step.roomy} of {step.domains} {domains} {have} room for it alone"
    )


def _placed(placed: Placed, verdict: Verdict) -> str:
    count = 0
    names = []
    for name, pods_there in placed.nodes:
        count += pods_there
        names.append(name)
    where = ""
    if placed.domain:
        domain = verdict.name(placed.domain)
        where = f"{domain}: "
    pods = _pods(count)
    nodes = listing(names, _MOST_NAMES)
    return f"{placed.group.name}: {pods} in {where}{nodes}"


def left_out(verdict: Verdict) -> Iterator[str]:
    """The nodes that were left out, and why."""
    for unusable in verdict.excluded:
        count = len(unusable.nodes)
        nodes = f"{count} nodes are"
        if count == 1:
            nodes = "1 node is"
        reason = why(unusable.exclusion)
        names = listing(unusable.nodes, _MOST_NAMES)
        yield f"{nodes} left out: {reason} ({names})"


def why(exclusion: Exclusion) -> str:
    """Why pods cannot use a node, in the words of `left_out`: `has taint gpu:NoSchedule`."""
    template = _EXCLUSIONS[exclusion.kind]
    return template.format(exclusion.detail)
