"""A verdict in plain sentences: the answer first, then what to do."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.placement.shortage import Lack, Offer, Shortage
from toposcope.placement.tolerating import as_yaml
from toposcope.placement.verdict import Verdict
from toposcope.text import listing, plural

_MOST_NAMES: Final = 5
_MOST_LINES: Final = 20
_PIECES: Final = {ALLOCATABLE_GPUS: "GPU", "pods": "pod"}
_TOO_LITTLE: Final = {
    ALLOCATABLE_GPUS: "too few GPUs",
    "cpu": "too little CPU",
    "pods": "too few pods left",
}
_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")
_SCALES: Final = ((1 << 30, "GiB", 10), (1 << 20, "MiB", 1), (1 << 10, "KiB", 1), (1, "bytes", 1))
"""Bytes, their unit, and parts of it that are shown: kubectl's Gi, Mi and Ki."""


def amount(resource: str, count: int, needs: int = 0) -> str:
    """An amount with its unit: `8 GPUs`, `1.5 CPU cores`, `64 GiB of memory`, `2 rdma/ib`.

    Rounded up; with `needs` it is what is there of so many that are needed, in the same unit and
    rounded down, so that too little never looks like enough.
    """
    number, word = _scaled(resource, count, needs)
    return f"{number} {word}"


def _number(resource: str, count: int, needs: int) -> str:
    """The same without the unit, where it was named already; bytes keep it."""
    number, word = _scaled(resource, count, needs)
    return f"{number} {word.partition(' ')[0]}" if resource.startswith(_BYTES) else number


def _scaled(resource: str, count: int, needs: int) -> tuple[str, str]:
    if resource.startswith(_BYTES):
        scale, word, parts = next(
            scale for scale in _SCALES if (needs or count) >= scale[0] or scale[0] == 1
        )
        shown = count * parts // scale if needs else -(-count * parts // scale)
        return f"{Decimal(shown) / parts:f}", f"{word} of {resource}"
    if resource == "cpu":
        cores = (Decimal(count) / 1000).normalize()
        return f"{cores:f}", "CPU core" if cores == 1 else "CPU cores"
    return str(count), unit(resource, count)


def unit(resource: str, count: int) -> str:
    """The unit of devices and pods: `GPU`, `pods`, `rdma/ib`."""
    return plural(count, _PIECES[resource]) if resource in _PIECES else resource


def amounts(each: Iterable[tuple[str, int]]) -> str:
    """`8 GPUs, 16 CPU cores and 64 GiB of memory`; pods go without saying."""
    words = [amount(resource, count) for resource, count in each if resource != "pods"]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def answer(verdict: Verdict) -> str:
    """The answer in one line."""
    match verdict.kind:
        case "fits":
            return f"fits: {_fits(verdict)}" + (
                ", on shares of GPUs and not on GPUs" if verdict.on_shares else ""
            )
        case "full":
            return f"does not fit now: {_short(verdict, verdict.shortage)}"
        case "never":
            return f"cannot fit: {_short(verdict, verdict.shortage)}"
        case "unclear" if verdict.limitation:
            return f"unclear: {verdict.limitation}"
        case "unclear":
            return (
                "unclear: there is enough room in total, but no placement of all groups was found in the time allowed; "
                "the scheduler may find one"
            )


def advice(verdict: Verdict) -> Iterator[str]:
    """What would help, one sentence for each remedy."""
    for remedy in verdict.remedies:
        count = f"{len(remedy.nodes)} {plural(len(remedy.nodes), 'node')}"
        if remedy.act == "tolerate":
            taints = f"{plural(len(remedy.taints), 'taint')} {listing(list(map(str, remedy.taints)), _MOST_NAMES)}"
            yield f"would fit if its pods tolerated {taints} of {count}: {listing(remedy.nodes, _MOST_NAMES)}"
            yield "  add to the spec of its pod template, if these nodes are meant for it:"
            yield from (f"    {line}" for line in as_yaml(remedy.taints))
            continue
        act = "were Ready and not cordoned" if remedy.act == "open" else "were drained"
        if remedy.pods:
            act += f" of {listing(remedy.pods, _MOST_NAMES)}"
        domain = verdict.name(remedy.domain)
        yield f"would fit if {count} of {domain} {act}: {listing(remedy.nodes, _MOST_NAMES)}"


def _fits(verdict: Verdict) -> str:
    if verdict.best:
        best, count = verdict.best, f"{'' if verdict.roomy_exact else 'at least '}{verdict.roomy}"
        nodes = plural(best.nodes, "node")
        free = unit(best.resource, best.free) if best.whole else best.resource
        text = f"{verdict.name(best.domain)} ({best.nodes} {nodes}, {best.free} free {free})"
        return (
            f"{best.level.domain} {text}"
            if count == "1"
            else f"{count} {plural(verdict.roomy, best.level.domain)} could take it now, best {text}"
        )
    pods = sum(count for placed in verdict.placed for _, count in placed.nodes)
    used = {name for placed in verdict.placed for name, _ in placed.nodes}
    return f"{pods} {plural(pods, 'pod')} on {len(used)} {plural(len(used), 'node')}"


def _short(verdict: Verdict, shortage: Shortage | None) -> str:
    if verdict.limitation or shortage is None:
        return verdict.limitation or "there is too little room"
    name, level = shortage.group.name, shortage.level
    one = f"one {level.domain}" if level else ""
    inside = f" in {one}" if one else ""
    needs = _needs(shortage)
    match shortage.counted:
        case "pieces":
            text = f"there is enough of everything for {name}{inside}, but not where all of its pods fit at once"
        case "domains":
            text = f"{_copies(shortage.copies, name)} need {one} each to themselves; there are {shortage.room_for}"
        case "pod":
            most = _number(shortage.resource, shortage.largest, shortage.needs)
            free = " free" if verdict.kind == "full" else ""
            has = (
                f"more than {most}{free} ({verdict.name(shortage.best)})"
                if shortage.largest
                else f"any{free}"
            )
            text = f"a pod of {name} needs {needs}, and no node that it may use has {has}"
        case _ if shortage.room_for:
            each = f"{one} each with {needs}" if one else f"{needs} each"
            text = f"{_copies(shortage.copies, name)} need {each}; there is room for {shortage.room_for}"
        case "several":
            text = f"{name} needs {needs}{inside}: {', '.join(map(_lacks, shortage.lacking))}"
        case _:
            text = _one_copy(verdict, shortage, f"{name} needs {needs}{inside}, ")
    return text


def _one_copy(verdict: Verdict, shortage: Shortage, needs: str) -> str:
    """For one copy there is too little."""
    one = shortage.level
    has = "largest has" if one else "the nodes it may use have"
    there = str(shortage.largest or "none")
    if shortage.counted == "resource" and shortage.largest:
        there = _number(shortage.resource, shortage.largest, shortage.needs)
    elif shortage.counted != "resource":
        there = f"room for {there}"
    best = f" ({verdict.name(shortage.best)})" if shortage.largest and shortage.best else ""
    return f"{needs}{has} {there}{best}"


def _needs(shortage: Shortage) -> str:
    """What one copy needs, of what is short."""
    count = shortage.needs
    match shortage.counted:
        case "resource" | "pod":
            return amount(shortage.resource, count)
        case "groups":
            inner = shortage.inner or shortage.group
            own = inner.required if inner.required != shortage.level else None
            return f"room for {_copies(count, inner.name)}" + (
                f", one {own.domain} each," if own else ""
            )
        case "pods":
            each = f" with {amounts(shortage.each)}" if shortage.each else ""
            return f"room for {count} {plural(count, 'pod')}{each}"
        case _:
            return amounts(shortage.each)


def _copies(count: int, name: str) -> str:
    """`3 slices of workers`, `3 copies of decode`."""
    one, of, whole = name.partition(" of ")
    if of and " " not in one:
        return f"{count} {plural(count, one)} of {whole}"
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
    resource, like = shortage.resource, shortage.needs or offer.free
    text = f"{offer.name}: {amount(resource, offer.free, like)} free on {offer.nodes} {plural(offer.nodes, 'node')}"
    of = f"of {'it' if resource.startswith(_BYTES) else 'them'} for pods of this size"
    return (
        f"{text}, {_number(resource, offer.usable, like)} {of}"
        if offer.usable < offer.free
        else text
    )


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
