"""A verdict in plain sentences: the answer first, then what to do."""

from collections.abc import Iterator
from typing import Final

from toposcope.placement.verdict import Shortage, Verdict
from toposcope.topology.text import listing, plural

_MOST_NAMES: Final = 5
_MOST_LINES: Final = 20
_UNITS: Final = {"cpu": "thousandths of a core", "memory": "bytes"}

_PIECES: Final = {"nvidia.com/gpu": "GPU", "pods": "pod"}


def unit(resource: str, count: int) -> str:
    """The unit of a resource: `GPU`, `pods`."""
    if resource in _PIECES:
        return plural(count, _PIECES[resource])
    return _UNITS.get(resource, resource)


def answer(verdict: Verdict) -> str:
    """The answer in one line."""
    match verdict.kind:
        case "fits":
            return f"fits: {_fits(verdict)}"
        case "full":
            return f"does not fit now: {_short(verdict, verdict.shortage)}"
        case "never":
            return f"cannot fit: {_short(verdict, verdict.shortage)}"
        case "unclear":
            return (
                "unclear: there is enough room in total, but no placement of all groups was found in the time allowed; "
                "the scheduler may find one"
            )


def advice(verdict: Verdict) -> Iterator[str]:
    """What would help, one sentence for each remedy."""
    for remedy in verdict.remedies:
        count = f"{len(remedy.nodes)} {plural(len(remedy.nodes), 'node')}"
        act = "were Ready and not cordoned" if remedy.act == "open" else "were drained"
        if remedy.pods:
            act += f" of {listing(remedy.pods, _MOST_NAMES)}"
        domain = verdict.name(remedy.domain)
        yield f"would fit if {count} of {domain} {act}: {listing(remedy.nodes, _MOST_NAMES)}"


def _fits(verdict: Verdict) -> str:
    if verdict.best:
        best, count = verdict.best, f"{'' if verdict.roomy_exact else 'at least '}{verdict.roomy}"
        nodes = plural(best.nodes, "node")
        text = f"{verdict.name(best.domain)} ({best.nodes} {nodes}, {best.free} free {unit(best.resource, best.free)})"
        return (
            f"{best.level.domain} {text}"
            if count == "1"
            else f"{count} {plural(verdict.roomy, best.level.domain)} could take it now, best {text}"
        )
    pods = sum(count for placed in verdict.placed for _, count in placed.nodes)
    used = {name for placed in verdict.placed for name, _ in placed.nodes}
    return f"{pods} {plural(pods, 'pod')} on {len(used)} {plural(len(used), 'node')}"


def _short(verdict: Verdict, shortage: Shortage | None) -> str:
    if verdict.limitation:
        return verdict.limitation
    if shortage is None:
        return "each group would fit alone, but not all of them together"
    level, what = shortage.level, unit(shortage.resource, shortage.needs)
    if level is None:
        return f"{shortage.group.name} needs {shortage.needs} {what}, the nodes it may use have {shortage.largest}"
    if shortage.needs <= shortage.largest and shortage.copies:
        return (
            f"{shortage.group.copies} copies of {shortage.group.name} need one {level.domain} each with "
            f"{shortage.needs} {what}; there is room for {shortage.copies}"
        )
    largest = f"{shortage.largest} ({verdict.name(shortage.best)})" if shortage.largest else "none"
    return f"{shortage.group.name} needs {shortage.needs} {what} in one {level.domain}, largest has {largest}"


def reasoning(verdict: Verdict) -> Iterator[str]:
    """Level by level: how many domains there are and how many have room for one copy of the group alone."""
    for step in verdict.steps:
        must = "must" if step.level == step.group.required else "would like to"
        yield (
            f"{step.group.name} {must} stay in one {step.level.domain}: "
            f"{step.roomy} of {step.domains} {plural(step.domains, step.level.domain)} "
            f"{plural(step.roomy, 'has', 'have')} room for it alone"
        )
    for placed in verdict.placed[:_MOST_LINES]:
        pods = sum(count for _, count in placed.nodes)
        if pods:
            where = f"{verdict.name(placed.domain)}: " if placed.domain else ""
            on = listing([name for name, _ in placed.nodes], _MOST_NAMES)
            yield f"{placed.group.name}: {pods} {plural(pods, 'pod')} in {where}{on}"
    if len(verdict.placed) > _MOST_LINES:
        yield f"and {len(verdict.placed) - _MOST_LINES} more; -o json shows all of them"


def left_out(verdict: Verdict) -> Iterator[str]:
    """Nodes that were left out, and why."""
    for reason, names in verdict.excluded:
        count = "1 node is" if len(names) == 1 else f"{len(names)} nodes are"
        yield f"{count} left out: {reason} ({listing(names, _MOST_NAMES)})"
