"""Tables of documents and what a system answers to them: tests/fixtures/integrations/, a file per system.

A row edits one of the file's samples and has the answer in full. So a new rule needs a new row, and no Python.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from tests.support.paths import FIXTURES
from toposcope.api.yaml_text import load
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.registry import readers

Edits = dict[str, Any]
"""A value by its place: `spec.template.cliques[0].name`, as findings name it; null leaves nothing there."""
_STEP = re.compile(r"\[([^\]]+)\]|([^.\[]+)")


class Row(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """One document and what comes of it."""

    of: str = ""
    """The sample; the file's first one where it is not named."""
    edits: Edits = msgspec.field(default={}, name="with")
    before: Edits | Literal["itself"] | None = None
    """The object in the cluster, as edits of the same sample; `itself`: it is the document; None: a new one."""
    before_of: str = ""
    """The sample of `before`, where it is another one."""
    cluster: str = ""
    """What is known of the cluster, by its name in clusters.yaml; the file's usual one where it is not named."""
    findings: str = ""
    """A line each, `severity rule field: message`; with `fix:` lines below them in those that are about fixes."""
    workload: str | None = None
    """How it was understood, as `understood` writes it; None: the row is about findings."""


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A file: rows by what they show."""

    systems: list[str]
    """By name; the first one that claims a document reads it."""
    cluster: str
    samples: dict[str, Any]
    cases: dict[str, list[Row]]

    def document(self, sample: str, edits: Edits) -> Any:
        """A sample with other values in some places."""
        return edited(self.samples[sample or next(iter(self.samples))], edits)

    def read(self, row: Row) -> Reading | None:
        """What comes of the row's document; None where no system claims it."""
        document = self.document(row.of, row.edits)
        before = document if row.before == "itself" else None
        if isinstance(row.before, dict):
            before = self.document(row.before_of or row.of, row.before)
        claim = (system for system in readers() if system.name in self.systems and system.claims(document))
        system, whole = next(claim, None), copy.deepcopy(document)
        reading = system.read(document, CLUSTERS[row.cluster or self.cluster], before) if system else None
        assert document == whole, "a document is read, not changed"
        return reading


def edited(document: Any, edits: Edits) -> Any:
    """A copy of the document with other values in some places."""
    document = copy.deepcopy(document)
    for path, value in edits.items():
        if not path:
            document = copy.deepcopy(value)
            continue
        *above, last = (key or name for key, name in _STEP.findall(path))
        place = document
        for step in above:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        else:
            place[int(last) if isinstance(place, list) else last] = copy.deepcopy(value)
    return document


def findings(reading: Reading | None, *, fixes: bool = False) -> str:
    """Each finding as a line."""
    lines = []
    for finding in reading.findings if reading else ():
        lines.append(f"{finding.severity} {finding.rule} {finding.field}: {finding.message}")
        lines += [f"  fix: {finding.fix}"] * fixes
    return "\n".join(lines)


def understood(reading: Reading | None) -> str:
    """The workload of a reading: what is kept together where, its pods, what is placed at once, and the notes."""
    if reading is None:
        return "nobody reads it"
    if reading.workload is None:
        return "asks for nothing"
    workloads = [reading.workload, *reading.stages]
    lines = [line for workload in workloads for line in _workload(workload)]
    return "\n".join(lines + [f"or on {other.topology}" for other in reading.alternatives])


def _workload(workload: Workload) -> Iterator[str]:
    levels = ", ".join(level.key for level in workload.levels)
    on = f" on {workload.topology}" if workload.topology else f" on labels {levels}" if levels else ""
    gang = {None: "", True: ", a gang", False: ", one by one"}[workload.gang]
    yield f"{workload.system} {workload.handle}{on}{gang}{'' if workload.placeable else ', not placeable'}"
    for group in workload.groups:
        yield from _group(group, "  ")
    for group in workload.pod_groups:
        yield from _group(group, "  at once: ")
    yield from (f"  note: {note}" for note in workload.notes)


def _group(group: Group, indent: str) -> Iterator[str]:
    levels = [f"required {group.required.domain}"] if group.required else []
    levels += [f"preferred {group.preferred.domain}"] if group.preferred else []
    levels += [f"apart by {group.anti_affinity}"] if group.anti_affinity else []
    times = f"{group.copies} x " if group.copies != 1 else ""
    pods = [", ".join(levels)] * bool(levels) + [_pods(pods) for pods in group.pods]
    yield f"{indent}{times}{group.name}{': ' if pods else ''}{'; '.join(pods)}"
    for inner in group.groups:
        yield from _group(inner, " " * (len(indent) + 2))


def _pods(pods: Pods) -> str:
    requests = " ".join(f"{resource}={amount}" for resource, amount in pods.requests)
    each = f" ({requests})" if requests else ""
    chosen = pods.node_filter
    where = [f"{key}={value}" for key, value in chosen.selector]
    where += [f"{part.key} {part.operator} {' '.join(part.values)}" for term in chosen.terms for part in term]
    where += [f"tolerates {part.key} {part.operator} {part.effect}" for part in chosen.tolerations]
    on = f" on nodes with {', '.join(where)}" if where else ""
    return f"{pods.count} {pods.name}{each}{on}"


_FILES = {path.stem: load(path.read_bytes()) for path in (FIXTURES / "integrations").iterdir()}
CLUSTERS = msgspec.convert(_FILES.pop("clusters"), dict[str, ClusterFacts])
TABLES = msgspec.convert(_FILES, dict[str, Table])
"""By the name of the file; a field that no row has fails as the tests are collected."""
