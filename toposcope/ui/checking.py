"""A workload that somebody pasted, checked by the engine of `toposcope check`.

The text is a stranger's: its size, its number of objects, what its YAML aliases stand for and the time that all of it
takes are bounded, and one check runs at a time.
"""

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import findings_of
from toposcope.placement.sentences import advice, answer, reasoning, unit
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.documents import Document, all_documents, kindless
from toposcope.snapshot.model import Published, Snapshot
from toposcope.snapshot.problems import InputError, Problem
from toposcope.ui import protocol
from toposcope.ui.deadline import DeadlineError, within
from toposcope.ui.views import View

LARGEST: Final = 256 << 10
"""Bytes of a request."""
SECONDS: Final = 20.0
_MOST_OBJECTS: Final = 50
_MOST_VALUES: Final = 100_000
"""Values of one object when every alias is written out."""
_MOST_FITS: Final = 500
_MOST_NODES: Final = 2_000
_NAMED: Final = 20
_PASTED: Final = "pasted"

Verdicts = Literal["fits", "full", "never", "unclear", "refused", "nothing"]


class BusyError(ToposcopeError):
    """Another check runs."""


class CheckTimeoutError(ToposcopeError):
    """The check did not come to an end in time."""


class Checks:
    """Checks one text at a time against what is known just then."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        published: Callable[[], tuple[tuple[Published, ...], Sequence[str]]],
        seconds: float = SECONDS,
    ) -> None:
        self._snapshot = snapshot
        self._published = published
        self._seconds = seconds
        self._lock = threading.Lock()

    def check(self, text: str, views: Sequence[View], as_of: str | None) -> protocol.CheckAnswer:
        """What each system says of what is in the text. Raises Busy, TookTooLong and KubeError."""
        if not self._lock.acquire(blocking=False):
            raise BusyError
        try:
            published, warnings = self._published()
            snapshot = replace(self._snapshot(), published=published)
            found = within(self._seconds, lambda: _checked(text, snapshot, views))
        except DeadlineError:
            raise CheckTimeoutError from None
        finally:
            self._lock.release()
        return protocol.CheckAnswer(as_of, found[0], found[1], [*snapshot.warnings, *warnings])


def _checked(text: str, snapshot: Snapshot, views: Sequence[View]) -> tuple[list[protocol.Check], list[str]]:
    problems: list[Problem] = []
    wanted = list(_objects(text, problems))
    checker = Checker(snapshot, [values for _, values in wanted])
    view_ids = {view.summary.id for view in views}
    answers: list[protocol.Check] = []
    for document, values in wanted:
        found = checker.check(values)
        if not found and not document.kind:
            problems.append(kindless(document))
        answers += [_told(checker, document, each, view_ids) for each in found]
    told = [str(problem).removeprefix(f"{_PASTED}: ").removeprefix("standard input, ") for problem in problems]
    if not wanted and not told:
        told = ["there is no object in the text; paste a workload as you would give it to kubectl apply"]
    elif not answers and not told:
        kinds = ", ".join(sorted({document.kind for document, _ in wanted}))
        told = [f"nothing to check: no system that is known here asks for anything with {kinds}"]
    return answers, told


def _objects(text: str, problems: list[Problem]) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in a text; what cannot be read goes to `problems`."""
    stream = io.BytesIO(text.encode(errors="replace"))
    for number, document in enumerate(all_documents(("-",), problems.append, stream)):
        if number == _MOST_OBJECTS:
            problems.append(Problem(document.place, "", f"only the first {_MOST_OBJECTS} objects are looked at"))
            return
        try:
            values = document.read(dict)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if written_out(values) > _MOST_VALUES:
            message = f"is more than {_MOST_VALUES:,} values when its YAML aliases are written out"
            problems.append(Problem(document.place, "", message))
            continue
        yield document, values


def written_out(values: Any) -> float:
    """How many values an object has when every alias is written out; infinite for one that holds itself."""
    known: dict[int, float] = {}
    open_: set[int] = set()

    def size(value: Any) -> float:
        if not isinstance(value, dict | list):
            return 1
        number = id(value)
        if number in open_:
            return float("inf")
        if number not in known:
            open_.add(number)
            parts = value.values() if isinstance(value, dict) else value
            known[number] = 1 + sum(map(size, parts))
            open_.discard(number)
        return known[number]

    try:
        return size(values)
    except RecursionError:
        return float("inf")


def _told(checker: Checker, document: Document, checked: Checked, view_ids: set[str]) -> protocol.Check:
    workload, verdict = checked.reading.workload, checked.verdict
    found = checker.fittings(workload) if workload and verdict else None
    topology = workload.topology if workload else None
    fits = found.found if found else ()
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
        findings=findings_of(document, checked),
        notes=list(workload.notes) if workload else [],
        level=found.level.domain if found else "",
        group=found.group.name if found else "",
        fits=[protocol.Fit(list(fit.domain), fit.nodes, fit.free) for fit in fits[:_MOST_FITS]],
        fits_exact=found.exact if found else True,
        more_fits=len(fits) > _MOST_FITS,
        placement=_placement(verdict) if verdict else {},
        left_out={reason: list(names[:_NAMED]) for reason, names in verdict.excluded} if verdict else {},
    )


def _view(topology: str | None, view_ids: set[str]) -> str | None:
    """The view that a topology is; without any ClusterTopology what labels say goes by the name `cluster`."""
    if topology in view_ids:
        return topology
    return "" if topology == "cluster" and "" in view_ids else None


def _verdict(checked: Checked) -> Verdicts:
    if checked.errors:
        return "refused"
    return checked.verdict.kind if checked.verdict else "nothing"


def _placement(verdict: Verdict) -> dict[str, int]:
    """Pods by node, for as many nodes as the page takes."""
    found: dict[str, int] = {}
    for placed in verdict.placed:
        for name, count in placed.nodes:
            if name in found or len(found) < _MOST_NODES:
                found[name] = found.get(name, 0) + count
    return found


def demands(workload: Workload) -> Iterator[str]:
    """What a workload asks for, a line a group."""
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
    parts = [f"{pods} {'pod' if pods == 1 else 'pods'}"]
    parts += [f"{count} {unit(name, count)}" for name, count in sorted(total.items()) if "/" in name and count]
    return " with ".join((parts[0], ", ".join(parts[1:]))) if parts[1:] else parts[0]
