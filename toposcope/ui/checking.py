"""A pasted workload, checked by the engine of `toposcope check`.

The text is untrusted: its size, its number of objects and the expansion of its YAML aliases are
bounded here; time and memory are by the process that this runs in (`ui.computing`).
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import findings_of
from toposcope.placement.sentences import advice, answer, reasoning, why
from toposcope.snapshot.documents import Document, documents, kindless
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import InputError, Problem
from toposcope.text import plural
from toposcope.ui import protocol

MAX_BYTES: Final = 256 << 10
"""Of a request."""
_MAX_OBJECTS: Final = 50
_MAX_VALUES: Final = 100_000
"""Values of one object with every alias expanded."""
_MAX_FITS: Final = 500
_NAMED: Final = 20
_PASTED: Final = "pasted"

Verdicts = Literal["fits", "full", "never", "unclear", "refused", "nothing"]


def checked(
    text: str, snapshot: Snapshot, views: Collection[str], warnings: Iterable[str] = ()
) -> protocol.CheckAnswer:
    """What each system says about the objects in the text.

    `snapshot` has what schedulers read, `views` are the ids of those on the page, and `warnings`
    say what of the schedulers' resources could not be read.
    """
    problems: list[Problem] = []
    objects = list(_objects(text, problems))
    checker = Checker(snapshot, [values for _, values in objects])
    answers: list[protocol.Check] = []
    for document, values in objects:
        results = checker.check(values)
        if not results and not document.kind:
            problems.append(kindless(document))
        answers += [_check_of(checker, document, result, views) for result in results]
    sentences = [
        str(problem).removeprefix(f"{_PASTED}: ").removeprefix("standard input, ")
        for problem in problems
    ]
    if not objects and not sentences:
        sentences = ["there is no object in the text; paste a workload as for kubectl apply"]
    elif not answers and not sentences:
        kinds = ", ".join(sorted({document.kind for document, _ in objects}))
        sentences = [f"nothing to check: no supported system requests placement with {kinds}"]
    return protocol.CheckAnswer(answers, sentences, [*snapshot.warnings, *warnings])


def _objects(text: str, problems: list[Problem]) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in a text; what cannot be read goes to `problems`."""
    stream = io.BytesIO(text.encode(errors="replace"))
    for number, document in enumerate(documents(("-",), problems.append, stream, of_any_kind=True)):
        if number == _MAX_OBJECTS:
            problems.append(
                Problem(document.place, "", f"only the first {_MAX_OBJECTS} objects are checked")
            )
            return
        try:
            values = document.read(dict)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if expanded_size(values) > _MAX_VALUES:
            message = f"has more than {_MAX_VALUES:,} values when its YAML aliases are expanded"
            problems.append(Problem(document.place, "", message))
            continue
        yield document, values


def expanded_size(values: Any) -> float:
    """How many values an object has with every alias expanded; infinite for one that contains itself."""
    known: dict[int, float] = {}
    in_progress: set[int] = set()

    def size(value: Any) -> float:
        if not isinstance(value, dict | list):
            return 1
        number = id(value)
        if number in in_progress:
            return float("inf")
        if number not in known:
            in_progress.add(number)
            parts = value.values() if isinstance(value, dict) else value
            known[number] = 1 + sum(map(size, parts))
            in_progress.discard(number)
        return known[number]

    try:
        return size(values)
    except RecursionError:
        return float("inf")


def _check_of(
    checker: Checker, document: Document, checked: Checked, view_ids: Collection[str]
) -> protocol.Check:
    workload, verdict = checked.reading.workload, checked.verdict
    fittings = checker.fittings(workload) if workload and verdict else None
    topology = workload.topology if workload else None
    fits = fittings.found if fittings else ()
    return protocol.Check(
        workload=workload.handle if workload else document.kind,
        system=workload.system if workload else checked.reading.subject,
        topology=topology,
        view=_view(topology, view_ids),
        well=checked.well,
        verdict=_verdict(checked),
        answer=answer(verdict) if verdict else "",
        advice=list(advice(verdict)) if verdict else [],
        reasoning=list(reasoning(verdict)) if verdict else [],
        demands=list(demands(workload)) if workload else [],
        findings=msgspec.convert(findings_of(document, checked), list[protocol.Finding]),
        notes=list(workload.notes) if workload else [],
        group=fittings.group.name if fittings else "",
        fits=[protocol.Fit(list(fit.domain), fit.nodes, fit.free) for fit in fits[:_MAX_FITS]],
        fits_exact=fittings.exact if fittings else True,
        more_fits=len(fits) > _MAX_FITS,
        left_out={why(left.exclusion): list(left.nodes[:_NAMED]) for left in verdict.excluded}
        if verdict
        else {},
    )


def _view(topology: str | None, view_ids: Collection[str]) -> str | None:
    """The view of a topology; without any ClusterTopology, what the labels suggest goes by the name `cluster`."""
    if topology in view_ids:
        return topology
    return "" if topology == "cluster" and "" in view_ids else None


def _verdict(checked: Checked) -> Verdicts:
    if checked.errors:
        return "refused"
    return checked.verdict.kind if checked.verdict else "nothing"


def demands(workload: Workload) -> Iterator[str]:
    """What a workload asks for, one line per group."""
    for group in simplified(workload.groups):
        yield from _lines(group, 0)


def _lines(group: Group, depth: int) -> Iterator[str]:
    copies = f"{group.copies} x " if group.copies != 1 else ""
    kept = [f"{word} one {level.domain}" for word, level in _kept(group)]
    yield "  " * depth + f"{copies}{group.name}: {', '.join([*kept, _amounts(group)])}"
    for below in group.groups:
        yield from _lines(below, depth + 1)


def _kept(group: Group) -> Iterator[tuple[str, Any]]:
    if group.required:
        yield "in", group.required
    if group.preferred and group.preferred != group.required:
        yield "best in", group.preferred


def _amounts(group: Group) -> str:
    """Pods and accelerators of one copy."""
    total = group.total()
    pods = total.get("pods", 0)
    parts = [f"{pods} {plural(pods, 'pod')}"]
    parts += [amount(name, count) for name, count in sorted(total.items()) if "/" in name and count]
    return " with ".join((parts[0], ", ".join(parts[1:]))) if parts[1:] else parts[0]
