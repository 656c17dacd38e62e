"""Is there room for it in any domain now? If not, what would make some."""

from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.remaining_demand import RemainingVerdict, remaining_verdicts
from toposcope.explain.step import Step, failed, passed, unknown
from toposcope.explain.steps.levels import in_the_dark
from toposcope.integrations.framework.constraints import Workload
from toposcope.placement.offers import Offer
from toposcope.placement.remedies import Remedy
from toposcope.placement.sentences import advice, answer, left_out, unit
from toposcope.placement.verdict import Shortage, Verdict

NAME: Final = "room"
_MOST: Final = 8


def look(context: Context) -> Step:
    """The verdict of `toposcope check`, with its own pods left aside, and the domains that were considered."""
    if context.finished:
        return passed(NAME, "it has run to its end")
    if context.settled:
        count = len(context.ownership.pods)
        return passed(NAME, "its only pod has a node" if count == 1 else f"all its {count} pods have a node")
    if not context.snapshot.nodes:
        return unknown(NAME, "no node can be seen")
    if dark := in_the_dark(context):
        return unknown(NAME, dark)
    found = list(remaining_verdicts(context))
    return next(filter(None, (_short(context, each) for each in found)), None) or _roomy(context, found)


def _roomy(context: Context, found: Sequence[RemainingVerdict]) -> Step:
    """The step where nothing is known to be short."""
    notes = [note for workload in context.workloads for note in workload.notes]
    if not found:
        return unknown(NAME, notes[0]) if notes else passed(NAME, "it asks for no pods")
    if context.snapshot.pods is None:
        return unknown(NAME, "the pods of the cluster cannot be seen, so what is free is not known")
    unclear = next((each.verdict for each in found if each.verdict.kind == "unclear"), None)
    if unclear:
        return unknown(NAME, answer(unclear), *left_out(unclear))
    return passed(NAME, answer(found[0].verdict), *notes, *_aside(context, found[0]))


def _short(context: Context, found: RemainingVerdict) -> Step | None:
    """The step where there is too little room for one system's demands."""
    verdict = found.verdict
    if verdict.kind not in {"full", "never"}:
        return None
    offers = found.checker.offers(found.workload, verdict.shortage) if verdict.shortage else ()
    return failed(
        NAME,
        answer(verdict),
        *advice(verdict),
        *(_considered(verdict.shortage, offers) if verdict.shortage else ()),
        *left_out(verdict),
        *_aside(context, found),
        commands=tuple(_commands(context, found.workload, verdict)),
    )


def _aside(context: Context, found: RemainingVerdict) -> Iterator[str]:
    count = len(context.placed)
    if found.whole:
        have = "1 pod has a node already and counts" if count == 1 else f"{count} pods have nodes already and count"
        yield f"{have} as if still to be placed, because all of them belong together"
    elif count:
        yield "for the pods that wait; the others keep their nodes"


def _considered(shortage: Shortage, offers: Sequence[Offer]) -> Iterator[str]:
    """The domains with what is free, the best one first."""
    if not offers or shortage.level is None:
        return
    domain = shortage.level.domain
    yield f"{len(offers)} {domain}{'' if len(offers) == 1 else 's'} considered:"
    for offer in offers[:_MOST]:
        best = f", {offer.usable} of them for pods of this size" if offer.usable < offer.free else ""
        nodes = "1 node" if offer.nodes == 1 else f"{offer.nodes} nodes"
        yield f"  {offer.name}: {offer.free} {unit(shortage.resource, offer.free)} free on {nodes}{best}"
    if len(offers) > _MOST:
        yield f"  and {len(offers) - _MOST} with less"


def _commands(context: Context, workload: Workload, verdict: Verdict) -> Iterator[str]:
    level = verdict.shortage.level if verdict.shortage else None
    topology = workload.topology if context.scope(workload) else None
    tree = " ".join(filter(None, ("toposcope tree", topology, f"--level {level.domain}" if level else "")))
    yield tree if level is None or context.scope(workload) else "toposcope tree"
    for remedy in verdict.remedies:
        yield from _remedy(remedy)


def _remedy(remedy: Remedy) -> Iterator[str]:
    """Where nodes are closed, see why; where they are full, see what runs there. Only the first one is shown."""
    node = remedy.nodes[0]
    if remedy.act == "open":
        yield f"kubectl describe node {node}"
    else:
        yield f"kubectl get pods -A --field-selector spec.nodeName={node}"
