"""What Toposcope makes of a workload: `read` has a system read a document, `check` checks it on a whole cluster.

Both return an answer in the words that users see, so that a test says `assert answer.verdict == "..."`.
"""

import copy
import io
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tests.support.recorded import CheckQuestion, ReadQuestion, record
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.registry import readers
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import DocumentAnswer, document_of
from toposcope.placement.sentences import advice as advice_on
from toposcope.placement.sentences import answer as sentence_of
from toposcope.placement.sentences import left_out, reasoning
from toposcope.snapshot.documents import Document
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import Place

_COLUMNS = 100


@dataclass(frozen=True)
class Finding:
    """A finding as users see it; written with `error`, `warning` and `advice`."""

    severity: str
    rule: str
    field: str
    message: str
    fix: str


def error(rule: str, field: str, message: str, *, fix: str) -> Finding:
    """Something that is refused, or would never run as meant."""
    return Finding("error", rule, field, message, fix)


def warning(rule: str, field: str, message: str, *, fix: str) -> Finding:
    """Something that is accepted but not what it seems."""
    return Finding("warning", rule, field, message, fix)


def advice(rule: str, field: str, message: str, *, fix: str) -> Finding:
    """Something that could be better."""
    return Finding("advice", rule, field, message, fix)


def difference(actual: list[Finding], expected: list[Finding]) -> list[str]:
    """What a failed comparison shows: each finding that is missing or too many, a field a line."""
    lines = _those_missing("expected", expected, actual)
    lines += _those_missing("got", actual, expected)
    if not lines:
        return ["the same findings, in another order or number"]
    return ["findings differ", *lines]


def _those_missing(title: str, findings: list[Finding], others: list[Finding]) -> list[str]:
    """The findings that are not among others."""
    lines = []
    for finding in findings:
        if finding not in others:
            lines.append(f"{title} {finding.severity} {finding.rule} {finding.field}")
            lines.append(f"  message: {finding.message}")
            lines.append(f"  fix: {finding.fix}")
    return lines


class Read:
    """What a system makes of a document."""

    def __init__(self, reading: Reading | None) -> None:
        self.reading = reading

    @property
    def is_claimed(self) -> bool:
        """Whether a system reads the document at all."""
        return self.reading is not None

    @property
    def findings(self) -> list[Finding]:
        """All that is wrong with it."""
        findings = []
        for finding in self.reading.findings if self.reading else ():
            shown = Finding(
                finding.severity,
                finding.rule,
                finding.field,
                finding.message,
                finding.fix,
            )
            findings.append(shown)
        return findings

    @property
    def asks_for_nothing(self) -> bool:
        """Whether a system reads it and finds nothing to place."""
        return self.reading is not None and self.reading.workload is None

    @property
    def workload(self) -> str:
        """What is kept together where, its pods, what is placed at once, and which other topologies may be chosen.

        Lines of more than 100 columns are wrapped.
        """
        lines: list[str] = []
        for workload in self._workloads():
            for line in _lines_of_workload(workload):
                lines += _wrapped(line)
        for alternative in self.reading.alternatives if self.reading else ():
            lines.append(f"or on {alternative.topology}")
        return "\n".join(lines)

    @property
    def notes(self) -> list[str]:
        """What is noted on the workload, then on its later stages."""
        notes: list[str] = []
        for workload in self._workloads():
            notes += workload.notes
        return notes

    @property
    def unknown(self) -> str:
        """What is not known of it, so that there is no verdict; empty: nothing."""
        (workload,) = self._workloads()
        return workload.unknown

    def _workloads(self) -> list[Workload]:
        if self.reading is None or self.reading.workload is None:
            return []
        return [self.reading.workload, *self.reading.stages]


def read(systems: str | Sequence[str], document: Any, cluster: ClusterFacts, *, before: Any = None) -> Read:
    """Have the first of these systems that claims the document read it; `before`: the object in the cluster."""
    names = (systems,) if isinstance(systems, str) else tuple(systems)
    question = ReadQuestion(names, document, cluster, before)
    record(question)
    reading = reading_of(names, document, cluster, before)
    return Read(reading)


def reading_of(systems: Sequence[str], document: Any, cluster: ClusterFacts, before: Any = None) -> Reading | None:
    """What comes of the document; None where no system claims it."""
    original = copy.deepcopy(document)
    for system in readers():
        if system.name in systems and system.claims(document):
            reading = system.read(document, cluster, before)
            assert document == original, f"{system.name} changed the document that it read"
            return reading
    return None


class CheckedWorkload(Read):
    """What `toposcope check` says of a workload on a cluster."""

    def __init__(self, checker: Checker, checked: Checked) -> None:
        super().__init__(checked.reading)
        self._checker = checker
        self._checked = checked

    @property
    def verdict(self) -> str:
        """Whether it fits, in the sentence that users read; empty: there is none."""
        return sentence_of(self._checked.verdict) if self._checked.verdict else ""

    @property
    def unread(self) -> list[str]:
        """The fields that may decide and are not read."""
        return [unread.field for unread in self._checked.unread]

    @property
    def unread_lines(self) -> list[str]:
        """The same with what they are for."""
        return [f"{unread.field}: {unread.why}" for unread in self._checked.unread]

    @property
    def advice(self) -> list[str]:
        """What would help."""
        return [*advice_on(self._checked.verdict)] if self._checked.verdict else []

    @property
    def explanation(self) -> list[str]:
        """What `--explain` adds."""
        verdict = self._checked.verdict
        return [*reasoning(verdict), *left_out(verdict)] if verdict else []

    @property
    def roomy_domains(self) -> list[str]:
        """The domains with room for one copy, and what is free there."""
        assert self._checked.reading.workload, "it asks for nothing"
        fittings = self._checker.fittings(self._checked.reading.workload)
        if fittings is None:
            return []
        domains = []
        for fitting in fittings.domains:
            path = "/".join(fitting.domain)
            domains.append(f"{path}: {fitting.nodes} nodes, {fitting.free}")
        return domains

    @property
    def offers(self) -> list[str]:
        """What each domain of the level that is too small has."""
        workload, verdict = self._checked.reading.workload, self._checked.verdict
        assert workload, "it asks for nothing"
        assert verdict, "there is no verdict"
        assert verdict.shortage, f"nothing is short: {self.verdict}"
        offers = []
        for offer in self._checker.offers(workload, verdict.shortage):
            offers.append(f"{offer.name}: {offer.nodes} nodes, {offer.usable}")
        return offers

    @cached_property
    def json(self) -> Any:
        """What `-o json` has of the workload."""
        place = Document(Place("work.yaml"), "", "", b"")
        return document_of([DocumentAnswer(place, (self._checked,))], ())["workloads"][0]


def check(
    workload: Any, objects: Iterable[Any], *, served: Mapping[str, bool] | None = None, beside: Iterable[Any] = ()
) -> CheckedWorkload:
    """Check a workload that one system handles; `beside`: what stands in the same file."""
    question = CheckQuestion(workload, tuple(objects), served or {}, tuple(beside))
    record(question)
    checker = checker_of(question)
    (checked,) = checker.check(workload)
    for placed in checked.verdict.placed if checked.verdict else ():
        group = placed.group
        pods = sum(pods.count for pods in group.pods)
        by_node = dict(placed.nodes)
        placed_pods = sum(by_node.values())
        assert placed_pods == pods, f"{placed_pods} of {pods} pods of {group.name} are placed"
    return CheckedWorkload(checker, checked)


def checker_of(question: CheckQuestion) -> Checker:
    """What checks workloads on that cluster, knowing what stands beside them."""
    snapshot = snapshot_of(question.objects, question.served)
    return Checker(snapshot, [question.workload, *question.beside])


def snapshot_of(objects: Iterable[Any], served: Mapping[str, bool]) -> Snapshot:
    """A cluster of these objects, saved and read; `served`: whether it serves each kind."""
    saved = {
        "apiVersion": "v1",
        "kind": "List",
        "items": list(objects),
    }
    file = io.BytesIO(json.dumps(saved).encode())
    snapshot = load_files(["-"], file)
    return replace(snapshot, served=dict(served))


def _wrapped(line: str) -> list[str]:
    """The line, broken between parts of a group where it is too long, and at words where a part is."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    first, *others = line.split("; ")
    lines = [first]
    for part in others:
        lines[-1] += ";"
        if len(lines[-1]) + len(part) < _COLUMNS:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{part}")
    wrapped: list[str] = []
    for each in lines:
        wrapped += textwrap.wrap(
            each,
            _COLUMNS,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return wrapped


_STARTS = {
    None: "",
    True: ", a gang",
    False: ", one by one",
}


def _lines_of_workload(workload: Workload) -> Iterator[str]:
    on = ""
    if workload.topology:
        on = f" on {workload.topology}"
    elif workload.levels:
        keys = [level.key for level in workload.levels]
        on = f" on labels {', '.join(keys)}"
    starts = _STARTS[workload.gang]
    placeable = "" if workload.is_placeable else ", not placeable"
    yield f"{workload.system} {workload.handle}{on}{starts}{placeable}"
    for group in workload.groups:
        yield from _lines_of_group(group, "  ")
    for group in workload.pod_groups:
        yield from _lines_of_group(group, "  at once: ")


def _lines_of_group(group: Group, indent: str) -> Iterator[str]:
    parts = []
    levels = _levels_of(group)
    if levels:
        parts.append(", ".join(levels))
    for pods in group.pods:
        parts.append(_text_of_pods(pods))

    name = group.name
    if group.copies != 1:
        name = f"{group.copies} x {name}"
    if parts:
        name = f"{name}: {'; '.join(parts)}"
    yield f"{indent}{name}"
    for below in group.groups:
        yield from _lines_of_group(below, " " * (len(indent) + 2))


def _levels_of(group: Group) -> list[str]:
    levels = []
    if group.required:
        levels.append(f"required {group.required.domain}")
    if group.preferred:
        levels.append(f"preferred {group.preferred.domain}")
    if group.anti_affinity:
        levels.append(f"apart by {group.anti_affinity}")
    return levels


def _text_of_pods(pods: Pods) -> str:
    text = f"{pods.count} {pods.name}"
    if pods.requests:
        requests = [f"{resource}={amount}" for resource, amount in pods.requests]
        text += f" ({' '.join(requests)})"
    conditions = _conditions_on_nodes(pods.node_filter)
    if conditions:
        text += f" on nodes with {', '.join(conditions)}"
    return text


def _conditions_on_nodes(node_filter: NodeFilter) -> list[str]:
    conditions = []
    for key, value in node_filter.selector:
        conditions.append(f"{key}={value}")
    for term in node_filter.terms:
        for part in term:
            values = " ".join(part.values)
            conditions.append(f"{part.key} {part.operator} {values}")
    for toleration in node_filter.tolerations:
        parts = ("tolerates", toleration.key, toleration.operator, toleration.effect)
        conditions.append(" ".join(filter(None, parts)))
    return conditions
