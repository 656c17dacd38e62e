"""A verdict in plain sentences: the answer first, then what to do."""

from collections.abc import Iterator, Sequence
from typing import Final

from placement.remedies import Remedy
from placement.room import Path
from placement.verdict import Shortage, Verdict

_MOST_NAMES: Final = 5
_UNITS: Final = {"nvidia.com/gpu": "GPUs", "pods": "pods", "cpu": "thousandths of a core", "memory": "bytes"}


def unit(resource: str) -> str:
    """What people call pieces of the resource."""
    return _UNITS.get(resource, resource)


def domain_name(path: Path) -> str:
    """A domain as people say it: its own value, after the values above it where there are some."""
    return "/".join(path) if path else "the cluster"


def answer(verdict: Verdict) -> str:
    """The answer in one line."""
    match verdict.kind:
        case "fits":
            return f"fits: {_fits(verdict)}"
        case "full":
            return f"does not fit now: {_short(verdict.shortage)}"
        case "never":
            return f"cannot fit: {_short(verdict.shortage)}"
        case "unclear":
            return (
                "unclear: there is enough room in all, but no placement of every group was found in the time given; "
                "the scheduler may find one"
            )


def advice(verdict: Verdict) -> Iterator[str]:
    """What would help, a sentence each."""
    for remedy in verdict.remedies:
        yield _remedy(remedy)


def _fits(verdict: Verdict) -> str:
    outer = next((placed for placed in verdict.placed if placed.group.required), None)
    if outer is None or outer.group.required is None:
        pods = sum(count for placed in verdict.placed for _, count in placed.nodes)
        nodes = {name for placed in verdict.placed for name, _ in placed.nodes}
        return f"{pods} pods on {len(nodes)} nodes"
    level = outer.group.required.domain
    if verdict.roomy:
        count = f"{verdict.roomy}" if verdict.roomy_exact else f"at least {verdict.roomy}"
        could = f"{count} domains of level {level} could take it now, best" if verdict.roomy != 1 else f"{level}"
        return f"{could} {domain_name(outer.domain)}"
    domains = dict.fromkeys(placed.domain for placed in verdict.placed if placed.group is outer.group)
    return f"{outer.group.copies} copies of {outer.group.name} in {level} {_some([domain_name(d) for d in domains])}"


def _short(shortage: Shortage | None) -> str:
    if shortage is None:
        return "each group would fit alone, all of them together do not"
    level, what = shortage.level, unit(shortage.resource)
    if level is None:
        return f"{shortage.group.name} needs {shortage.needs} {what}, the nodes it may use have {shortage.largest}"
    if shortage.needs <= shortage.largest and shortage.copies:
        return (
            f"{shortage.group.copies} copies of {shortage.group.name} need one {level.domain} each with "
            f"{shortage.needs} {what}; there is room for {shortage.copies}"
        )
    largest = f"{shortage.largest} ({domain_name(shortage.best)})" if shortage.largest else "none"
    return f"{shortage.group.name} needs {shortage.needs} {what} in one {level.domain}, largest has {largest}"


def _remedy(remedy: Remedy) -> str:
    count = f"{len(remedy.nodes)} node{'' if len(remedy.nodes) == 1 else 's'}"
    act = "were Ready and not cordoned" if remedy.act == "open" else "were drained"
    return f"would fit in {domain_name(remedy.domain)} if {count} {act}: {_some(remedy.nodes)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
