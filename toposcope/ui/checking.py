"""A pasted workload, checked by the engine of `toposcope check`.

The text is untrusted: its size, its number of objects, the expansion of its YAML aliases and the time that the check
takes are bounded, and one check runs at a time.
"""

import contextlib
import ctypes
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

import msgspec

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group, Workload, simplified
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import findings_of
from toposcope.placement.sentences import advice, amount, answer, reasoning
from toposcope.snapshot.documents import Document, documents, kindless
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import InputError, Problem
from toposcope.topology.text import plural
from toposcope.ui import protocol
from toposcope.ui.views import View

MAX_BYTES: Final = 256 << 10
"""Of a request."""
SECONDS: Final = 20.0
_MAX_OBJECTS: Final = 50
_MAX_VALUES: Final = 100_000
"""Values of one object with every alias expanded."""
_MAX_FITS: Final = 500
_NAMED: Final = 20
_PASTED: Final = "pasted"

Verdicts = Literal["fits", "full", "never", "unclear", "refused", "nothing"]
T = TypeVar("T")


class BusyError(ToposcopeError):
    """Another question is being answered."""


class DeadlineError(BaseException):
    """The work took too long. Not an Exception: no handler on the way may take it for an error of its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do the work in this thread. Raises DeadlineError when it is not done in time.

    A timer raises it in this thread, between two steps of the interpreter: a call of C code ends first.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    over = False

    def stop() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(DeadlineError))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        return work()
    finally:
        timer.cancel()
        with lock:
            over = True


@contextlib.contextmanager
def alone(lock: threading.Lock, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock. Raises BusyError when it is not free within so many seconds."""
    if not lock.acquire(timeout=patience):
        raise BusyError
    try:
        yield
    finally:
        lock.release()


class Checks:
    """Checks one text at a time against the cluster as it is then."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], published: Callable[[], Snapshot], seconds: float = SECONDS
    ) -> None:
        self._snapshot = snapshot
        self._published = published
        self._seconds = seconds
        self._lock = threading.Lock()

    def check(self, text: str, views: Sequence[View]) -> protocol.CheckAnswer:
        """What each system says about the objects in the text. Raises BusyError, DeadlineError and KubeError."""
        with alone(self._lock):
            read = self._published()
            snapshot = replace(self._snapshot(), published=read.published, served=read.served, objects=read.objects)
            checks, problems = within(self._seconds, lambda: _checked(text, snapshot, views))
        return protocol.CheckAnswer(checks, problems, [*snapshot.warnings, *read.warnings])


def _checked(text: str, snapshot: Snapshot, views: Sequence[View]) -> tuple[list[protocol.Check], list[str]]:
    problems: list[Problem] = []
    objects = list(_objects(text, problems))
    checker = Checker(snapshot, [values for _, values in objects])
    view_ids = {view.id for view in views}
    answers: list[protocol.Check] = []
    for document, values in objects:
        results = checker.check(values)
        if not results and not document.kind:
            problems.append(kindless(document))
        answers += [_check_of(checker, document, checked, view_ids) for checked in results]
    sentences = [str(problem).removeprefix(f"{_PASTED}: ").removeprefix("standard input, ") for problem in problems]
    if not objects and not sentences:
        sentences = ["there is no object in the text; paste a workload as for kubectl apply"]
    elif not answers and not sentences:
        kinds = ", ".join(sorted({document.kind for document, _ in objects}))
        sentences = [f"nothing to check: no supported system requests placement with {kinds}"]
    return answers, sentences


def _objects(text: str, problems: list[Problem]) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in a text; what cannot be read goes to `problems`."""
    stream = io.BytesIO(text.encode(errors="replace"))
    for number, document in enumerate(documents(("-",), problems.append, stream, of_any_kind=True)):
        if number == _MAX_OBJECTS:
            problems.append(Problem(document.place, "", f"only the first {_MAX_OBJECTS} objects are checked"))
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


def _check_of(checker: Checker, document: Document, checked: Checked, view_ids: set[str]) -> protocol.Check:
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
        left_out={reason: list(names[:_NAMED]) for reason, names in verdict.excluded} if verdict else {},
    )


def _view(topology: str | None, view_ids: set[str]) -> str | None:
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
