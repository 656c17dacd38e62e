"""Every cause for which a workload waits, or does not sit as it asks: the rows of tests/fixtures/causes.yaml."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.explain.waiting import SUBJECT, Object, nodes
from tests.support.paths import FIXTURES
from tests.support.readings import Edits, edited
from toposcope.api.yaml_text import load


@dataclass(frozen=True)
class Cause:
    """A cluster, what is asked about, and the step that is the answer (empty: none failed)."""

    name: str
    step: str
    objects: Callable[[], list[Object]]
    subject: str = SUBJECT
    code: int = 1


class Differing(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A cluster as what differs from a sample, or from the cause `after`; `nodes` are arguments of the function."""

    of: str
    after: str = ""
    subject: str = SUBJECT
    code: int = 1
    nodes: dict[str, Any] = {}
    edits: Edits = msgspec.field(default={}, name="with")


class Row(Differing, kw_only=True):
    name: str
    step: str = ""


class Question(Differing, kw_only=True):
    """With parts of the answer for scripts by their paths."""

    gives: dict[str, Any]


class Table(msgspec.Struct, forbid_unknown_fields=True):
    samples: dict[str, dict[str, Object]]
    causes: list[Row]
    questions: dict[str, list[Question]]

    def objects(self, row: Differing) -> list[Object]:
        before = next((cause.edits for cause in self.causes if cause.name == row.after), {})
        return [*nodes(**row.nodes), *edited(self.samples[row.of], {**before, **row.edits}).values()]


_TABLE = msgspec.convert(load((FIXTURES / "causes.yaml").read_bytes()), Table)


def grove() -> dict[str, Object]:
    """A PodCliqueSet that waits, with what Grove made of it and what schedulers read, by `kind/name`."""
    found: dict[str, Object] = edited(_TABLE.samples["Grove"], {})
    return found


QUESTIONS = [
    pytest.param(Cause(name, "", partial(_TABLE.objects, row), row.subject, row.code), row.gives, id=f"{name} {number}")
    for name, rows in _TABLE.questions.items()
    for number, row in enumerate(rows, 1)
]
CAUSES = tuple(Cause(row.name, row.step, partial(_TABLE.objects, row), row.subject, row.code) for row in _TABLE.causes)
