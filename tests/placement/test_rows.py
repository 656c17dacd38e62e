"""Every row of tests/fixtures/placement/: a workload, a cluster, and what `toposcope check` says."""

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.support.paths import FIXTURES
from tests.support.readings import Edits, edited, findings, understood
from tests.support.tables import at
from toposcope.api.yaml_text import load
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import Answer, document_of
from toposcope.placement.sentences import advice, answer, left_out, reasoning
from toposcope.snapshot.documents import Document
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.problems import Place


class Situation(msgspec.Struct, forbid_unknown_fields=True):
    """A workload, the objects of a cluster and what stands beside the workload, by `kind/name`."""

    workload: dict[str, Any]
    cluster: dict[str, Any]
    beside: dict[str, Any] = {}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A sample with other values in some places, and the answer."""

    of: str = ""
    """The sample; the file's first one where it is not named."""
    edits: Edits = msgspec.field(default={}, name="with")
    served: dict[str, bool] | None = None
    """Whether the cluster serves each kind; None: as the file says."""
    findings: str = ""
    workload: str | None = None
    """How it was understood; None: the row is about findings and the verdict."""
    verdict: str = ""
    """In the sentence that users read; empty: there is none."""
    advice: list[str] | None = None
    """What would help; None: the row is not about it."""
    explained: list[str] | None = None
    """What `--explain` adds; None: the row is not about it."""
    roomy: list[str] | None = None
    """The domains with room for one copy, and what is free there; None: the row is not about them."""
    offered: list[str] | None = None
    """What each domain of the level that is too small has; None: the row is not about it."""
    holds: dict[str, Any] = {}
    """What `-o json` has of the workload, by its path."""


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A file: rows by what they show."""

    samples: dict[str, Any]
    cases: dict[str, list[Row]]
    served: dict[str, bool] = {}

    def situation(self, sample: str, edits: Edits) -> Situation:
        """A sample with other values in some places."""
        return msgspec.convert(edited(self.samples[sample or next(iter(self.samples))], edits), Situation)


TABLES = msgspec.convert(
    {path.stem: load(path.read_bytes()) for path in (FIXTURES / "placement").iterdir()}, dict[str, Table]
)
ROWS = [
    pytest.param(table, row, id=f"{name}: {case} {number}")
    for name, table in TABLES.items()
    for case, rows in table.cases.items()
    for number, row in enumerate(rows, 1)
]


def snapshot_of(objects: Iterable[Any], served: dict[str, bool]) -> Snapshot:
    """A cluster of these objects, saved and read."""
    saved = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    return replace(load_files(["-"], io.BytesIO(saved.encode())), served=served)


def checker_of(situation: Situation, served: dict[str, bool]) -> Checker:
    """What checks the workload, knowing what stands beside it."""
    return Checker(snapshot_of(situation.cluster.values(), served), [situation.workload, *situation.beside.values()])


def checked(situation: Situation, served: dict[str, bool]) -> Checked:
    """The answer of the one system that handles the workload."""
    (answered,) = checker_of(situation, served).check(situation.workload)
    return answered


@pytest.mark.regression
@pytest.mark.parametrize(("table", "row"), ROWS)
def test_what_check_says(table: Table, row: Row) -> None:
    situation = table.situation(row.of, row.edits)
    checker = checker_of(situation, table.served if row.served is None else row.served)
    (answered,) = checker.check(situation.workload)
    assert findings(answered.reading, fixes="\n  fix: " in row.findings) == row.findings
    assert row.workload is None or understood(answered.reading) == row.workload
    assert (answer(answered.verdict) if answered.verdict else "") == row.verdict
    assert row.advice is None or (answered.verdict and [*advice(answered.verdict)]) == row.advice
    explained = [*reasoning(answered.verdict), *left_out(answered.verdict)] if answered.verdict else []
    assert row.explained is None or explained == row.explained
    if row.roomy is not None:
        assert answered.reading.workload
        fittings = checker.fittings(answered.reading.workload)
        found = fittings.found if fittings else ()
        assert [f"{'/'.join(fit.domain)}: {fit.nodes} nodes, {fit.free}" for fit in found] == row.roomy
    if row.offered is not None:
        assert answered.reading.workload
        assert answered.verdict
        assert answered.verdict.shortage
        offers = checker.offers(answered.reading.workload, answered.verdict.shortage)
        assert [f"{offer.name}: {offer.nodes} nodes, {offer.usable}" for offer in offers] == row.offered
    for placed in answered.verdict.placed if answered.verdict else ():
        assert sum(dict(placed.nodes).values()) == sum(pods.count for pods in placed.group.pods)
    document = document_of([Answer(Document(Place("work.yaml"), "", "", b""), (answered,))], ())["workloads"][0]
    assert {path: at(document, path) for path in row.holds} == row.holds
