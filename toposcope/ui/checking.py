"""Checks a pasted workload with the engine of `toposcope check`.

The text is untrusted. Its size, its number of objects and the expansion of its YAML aliases are
bounded here; the process that this runs in bounds time and memory (`ui.computing`).
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

import msgspec

from toposcope.integrations.framework.amounts import amount
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.integrations.framework.verdict import Verdict
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import findings_of, line_of
from toposcope.placement.sentences import advice, answer, reasoning, unread_lines, why
from toposcope.placement.verdict import Fittings
from toposcope.snapshot.documents import Document, documents, kindless
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import InputError, Problem
from toposcope.text import plural
from toposcope.ui import protocol

_MOST_OBJECTS: Final = 50
_MOST_VALUES: Final = 100_000
"""Values of one object with every alias expanded."""
_MOST_FITS: Final = 500
_MOST_NAMES: Final = 20

Verdicts = Literal["fits", "full", "never", "unclear", "refused", "nothing"]


def checked(
    text: str, snapshot: Snapshot, views: Collection[str], warnings: Iterable[str] = ()
) -> protocol.CheckAnswer:
    """What each system says about the objects in the text.

    `snapshot` has what schedulers read, `views` are the ids of the page's views, and `warnings`
    name the schedulers' resources that could not be read.
    """
    problems: list[Problem] = []
    objects = list(_objects(text, problems))
    checker = Checker(snapshot, [values for _, values in objects])
    answers: list[protocol.SystemAnswer] = []
    for document, values in objects:
        results = checker.check(values)
        if not results and not document.kind:
            problems.append(kindless(document))
        for result in results:
            answer_of_system = _check_of(checker, document, result, views)
            answers.append(answer_of_system)

    sentences = [_sentence(problem) for problem in problems]
    if not (sentences or answers):
        sentences = [_nothing_checked(document for document, _ in objects)]

    return protocol.CheckAnswer(answers, sentences, [*snapshot.warnings, *warnings])


def _sentence(problem: Problem) -> str:
    """The problem in words, with its place in the text."""
    place = problem.place
    where = place.position or place.file
    parts = (where, problem.field, problem.message)
    return ": ".join(filter(None, parts))


def _nothing_checked(documents: Iterable[Document]) -> str:
    kinds = sorted({document.kind for document in documents})
    if not kinds:
        return "there is no object in the text; paste a workload as for kubectl apply"
    return f"nothing to check: no supported system requests placement with {', '.join(kinds)}"


def _objects(text: str, problems: list[Problem]) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in a text; what cannot be read goes to `problems`."""
    stream = io.BytesIO(text.encode(errors="replace"))
    every_document = documents(("-",), problems.append, stream, can_lack_kind=True)
    for number, document in enumerate(every_document):
        if number == _MOST_OBJECTS:
            message = f"only the first {_MOST_OBJECTS} objects are checked"
            problems.append(Problem(document.place, "", message))
            return
        try:
            values = document.read(dict)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if expanded_size(values) > _MOST_VALUES:
            message = f"has more than {_MOST_VALUES:,} values when its YAML aliases are expanded"
            problems.append(Problem(document.place, "", message))
            continue
        yield document, values


def expanded_size(values: Any) -> float:
    """How many values an object has with every alias expanded; infinite if it contains itself."""
    sizes: dict[int, float] = {}
    in_progress: set[int] = set()

    def size(value: Any) -> float:
        if not isinstance(value, dict | list):
            return 1

        number = id(value)
        if number in in_progress:
            return float("inf")

        if number not in sizes:
            in_progress.add(number)
            parts = value.values() if isinstance(value, dict) else value
            sizes[number] = 1 + sum(map(size, parts))
            in_progress.discard(number)

        return sizes[number]

    try:
        return size(values)
    except RecursionError:
        return float("inf")


def _check_of(
    checker: Checker, document: Document, checked: Checked, view_ids: Collection[str]
) -> protocol.SystemAnswer:
    """The answers for one workload."""
    workload = checked.reading.workload
    name = workload.handle if workload else document.kind
    findings = []
    for finding in findings_of(document, checked):
        findings.append({**finding, "field": finding["field"] or name})
    check = protocol.SystemAnswer(
        workload=document.kind,
        system=checked.reading.subject,
        topology=None,
        view=None,
        well=checked.is_ok,
        verdict=_verdict(checked),
        answer="",
        advice=[],
        reasoning=[],
        demands=[],
        findings=msgspec.convert(findings, list[protocol.FindingData]),
        notes=[],
        group="",
        fits=[],
        fits_exact=True,
        more_fits=False,
        left_out={},
    )
    workload = checked.reading.workload
    if workload:
        check.workload = workload.handle
        check.system = workload.system
        check.topology = workload.topology
        check.view = _view(workload.topology, view_ids)
        check.demands = list(demands(workload))
        check.notes = list(unread_lines(checked.unread, partial(line_of, document)))
        check.notes += workload.notes
    if checked.verdict:
        _put_verdict(check, checked.verdict)
    if workload and checked.verdict:
        fittings = checker.fittings(workload)
        if fittings:
            _put_fittings(check, fittings)
    return check


def _put_verdict(check: protocol.SystemAnswer, verdict: Verdict) -> None:
    check.answer = answer(verdict)
    check.advice = list(advice(verdict))
    check.reasoning = list(reasoning(verdict))
    check.left_out = _left_out(verdict)


def _put_fittings(check: protocol.SystemAnswer, fittings: Fittings) -> None:
    check.group = fittings.group.name
    for fit in fittings.domains[:_MOST_FITS]:
        check.fits.append(protocol.Fit(list(fit.domain), fit.nodes, fit.free))
    check.fits_exact = fittings.is_exact
    check.more_fits = len(fittings.domains) > _MOST_FITS


def _left_out(verdict: Verdict) -> dict[str, list[str]]:
    """Reason to the first names of nodes that were skipped."""
    names = {}
    for left_out in verdict.excluded:
        reason = why(left_out.exclusion)
        names[reason] = list(left_out.nodes[:_MOST_NAMES])
    return names


def _view(topology: str | None, view_ids: Collection[str]) -> str | None:
    """The id of a topology's view; None where the page has none.

    Without any ClusterTopology, the topology that labels suggest is called `cluster`.
    """
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
    name = group.name
    if group.copies != 1:
        name = f"{group.copies} x {name}"

    required = group.required
    preferred = group.preferred
    parts = []
    if required:
        parts.append(f"in one {required.domain}")
    if preferred and preferred != required:
        parts.append(f"best in one {preferred.domain}")
    parts.append(_amounts(group))

    indent = "  " * depth
    yield f"{indent}{name}: {', '.join(parts)}"
    for inner in group.groups:
        yield from _lines(inner, depth + 1)


def _amounts(group: Group) -> str:
    """Pods and accelerators of one copy."""
    total = group.total()
    count = total.get("pods", 0)
    pods = f"{count} {plural(count, 'pod')}"
    accelerators = []
    for name, count in sorted(total.items()):
        if "/" in name and count:
            accelerators.append(amount(name, count))

    if not accelerators:
        return pods
    return f"{pods} with {', '.join(accelerators)}"
