"""What all systems' `waiting.py` share: kinds, conditions, messages, the outcome of a check.

A system's `waiting.py` says what has to be installed and enabled for its topology constraints to
count (`check`), what its objects report (`messages`): pure functions over `WorkloadObjects`, which
`toposcope explain` fills. What its messages mean, wherever they turn up, is in its `meanings.yaml`.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from toposcope.api.conditions import Condition
from toposcope.api.yaml_text import load
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.document import Field
from toposcope.kube.discovery import Kind
from toposcope.text import Command, bounded, shell

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ref:
    """What identifies one object."""

    group: str
    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    @property
    def handle(self) -> str:
        """`podcliqueset/llm -n ml`, as kubectl takes it."""
        return f"{self.kind.lower()}/{self.name}" + (
            f" -n {self.namespace}" if self.namespace else ""
        )

    def command(self, template: str) -> Command:
        """A command about it: `{}` in the template becomes `podcliqueset/llm -n ml`."""
        where = shell(" -n {}", self.namespace) if self.namespace else ""
        return Command(template.replace("{}", shell("{}/{}", self.kind.lower(), self.name) + where))


def conditions(document: Object, field: str = "conditions") -> tuple[Condition, ...]:
    """The conditions in `status.<field>`; what is missing or malformed in one is empty."""
    return tuple(map(_condition, (Field(document) / "status" / field).items()))


def _condition(entry: Field) -> Condition:
    type_, status, reason, message = (
        (entry / name).text() or "" for name in ("type", "status", "reason", "message")
    )
    return Condition(type_, status, reason, bounded(message))


def condition(document: Object, kind: str) -> Condition | None:
    """The condition of one type."""
    return next((entry for entry in conditions(document) if entry.type == kind), None)


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """One message and what it is about."""

    about: str
    text: str
    meaning: str = ""
    """In plain words; empty where the message speaks for itself."""


@functools.cache
def _meanings() -> Mapping[re.Pattern[str], str]:
    """The regular expression of a message to its meaning in plain words, with the groups as `{0}`.

    `{1}`.
    """
    meanings = {}
    for file in sorted(Path(__file__).parents[1].glob("*/meanings.yaml")):
        for pattern, words in load(file.read_bytes()).items():
            # linear: `make lint` judges the keys of these tables
            meanings[re.compile(pattern)] = words
    return meanings


def meaning_of(text: str) -> str:
    """The meaning of a message, of each part that a system's `meanings.yaml` knows, in its order.

    Empty: of none.
    """
    parts = []
    for pattern, words in _meanings().items():
        for match in pattern.finditer(text):
            parts.append(words.format(*match.groups()))
    return "; ".join(dict.fromkeys(parts))


class Outcome(StrEnum):
    """How a check went."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one check."""

    outcome: Outcome
    message: str
    """What was found, in one sentence; for `unknown`, why it cannot be known."""
    details: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    """What to run next."""
    name: str = ""
    """A constant word for scripts; filled in by the caller of the check."""


def passed(message: str, *details: str) -> Step:
    """Nothing is wrong here."""
    return Step(Outcome.PASSED, message, details)


def unknown(message: str, *details: str, commands: tuple[Command, ...] = ()) -> Step:
    """The facts are missing."""
    return Step(Outcome.UNKNOWN, message, details, commands)


def failed(message: str, *details: str, commands: tuple[Command, ...] = ()) -> Step:
    """This keeps the workload from running as intended."""
    return Step(
        Outcome.FAILED,
        message.strip(),
        tuple(filter(None, details)),
        tuple(dict.fromkeys(commands)),
    )


class Resource(Protocol):
    """A published topology resource, as it was read."""

    @property
    def name(self) -> str:
        """Its `metadata.name`."""

    @property
    def handle(self) -> str:
        """Kind, group and name, as kubectl names it."""

    @property
    def document(self) -> Object:
        """The object itself."""


class Objects(Protocol):
    """Objects of the cluster."""

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """One object; None where it does not exist or cannot be read."""

    def why_unknown(self, *kinds: Kind) -> str:
        """Why nothing is known about any of these kinds; empty when one of them is known."""


class WorkloadObjects(Protocol):
    """One workload in the cluster with the objects around it."""

    @property
    def document(self) -> Object:
        """The object that carries the workload's constraints."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def workloads(self) -> Sequence[Workload]:
        """What it asks for, once for each system."""

    @property
    def asks_for_levels(self) -> bool:
        """Whether any part of it asks to be kept together."""

    @property
    def schedulers(self) -> frozenset[str]:
        """Who schedules its pods, by their `schedulerName`; empty for pods that name none."""

    @property
    def store(self) -> Objects:
        """All objects that were read."""

    def members(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind that belong to the workload."""

    def resource(self, workload: Workload) -> Resource | None:
        """The topology resource that the workload's system reads.

        None where it is missing or cannot be read.
        """

    def all_published(self, kind: Kind) -> Iterator[Resource]:
        """The topology resources of one kind."""

    def published(self, name: str, *kinds: Kind) -> Resource | None:
        """The topology resource of this name and one of these kinds."""
