"""What all systems' `waiting.py` share: kinds, conditions, messages, the outcome of a check.

A system's `waiting.py` says what has to be installed and enabled for its topology constraints to
count (`check`), what its objects report (`messages`): pure functions over `WorkloadObjects`, which
`toposcope explain` fills. The meanings of its messages are in its `meanings.yaml`.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

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
        handle = f"{self.kind.lower()}/{self.name}"
        if self.namespace:
            handle += f" -n {self.namespace}"
        return handle

    def command(self, template: str) -> Command:
        """A command about it: `{}` in the template becomes `podcliqueset/llm -n ml`."""
        handle: str = shell("{}/{}", self.kind.lower(), self.name)
        if self.namespace:
            handle += shell(" -n {}", self.namespace)
        return Command(template.replace("{}", handle))


def conditions(document: Object, field: str = "conditions") -> tuple[Condition, ...]:
    """The conditions in `status.<field>`; missing or malformed fields are empty."""
    entries = Field(document) / "status" / field
    read = []
    for entry in entries.items():
        read.append(_condition(entry))
    return tuple(read)


def _condition(entry: Field) -> Condition:
    kind = (entry / "type").text() or ""
    status = (entry / "status").text() or ""
    reason = (entry / "reason").text() or ""
    message = (entry / "message").text() or ""
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=bounded(message),
    )


def condition(document: Object, kind: str) -> Condition | None:
    """The condition of one type."""
    for entry in conditions(document):
        if entry.type == kind:
            return entry
    return None


_SUSPENDING: Final = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))
"""The field of each kind that keeps its pods from being created."""


def suspending_field(document: Object) -> Field | None:
    """The field that suspends an object; None if it is not suspended."""
    for path in _SUSPENDING:
        field = Field(document)
        for name in path:
            field = field / name
        if field.flag():
            return field
    return None


DESCRIBE: Final = "kubectl describe {}"
"""The command that shows one object, for `Ref.command`."""


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """One message and what it is about."""

    about: str
    text: str
    meaning: str = ""
    """In plain words; empty if the message needs no explanation."""
    ref: Ref | None = None
    """The object that has it; None if `about` is not a single object."""
    fix: Command | None = None
    """The command that fixes it, if one does."""

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands to run next: the fix, else the one that shows the object."""
        if self.fix:
            return (self.fix,)
        return (self.ref.command(DESCRIBE),) if self.ref else ()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The meaning of the messages that match a pattern."""

    words: str
    """In plain words; the pattern's groups are `{0}`, `{1}`."""
    steps: tuple[str, ...] = ()
    """The steps of `explain` that say the same with more detail."""


@functools.cache
def _meanings() -> Mapping[re.Pattern[str], _Meaning]:
    """The meanings of messages, by regular expression."""
    integrations = Path(__file__).parents[1]
    meanings = {}
    for file in sorted(integrations.glob("*/meanings.yaml")):
        table = load(file.read_bytes())
        for pattern, entry in table.items():
            # linear: `make lint` judges the keys of these tables
            meanings[re.compile(pattern)] = _meaning_in(entry)
    return meanings


def _meaning_in(entry: str | Mapping[str, Any]) -> _Meaning:
    """An entry of `meanings.yaml`: the words alone, or with the steps of `explain`."""
    if isinstance(entry, str):
        return _Meaning(entry)
    return _Meaning(entry["means"], tuple(entry["steps"]))


def meaning_of(text: str) -> str:
    """The meanings of parts of a message that a system's `meanings.yaml` lists, in its order."""
    meanings: dict[str, None] = {}
    for pattern, known_meaning in _meanings().items():
        for match in pattern.finditer(text):
            meaning = known_meaning.words.format(*match.groups())
            meanings[meaning] = None
    return "; ".join(meanings)


def steps_that_explain(text: str) -> frozenset[str]:
    """The steps of `explain` that say the same as a message, in more detail."""
    steps: frozenset[str] | None = None
    for pattern, meaning in _meanings().items():
        if not pattern.search(text):
            continue
        of_part = frozenset(meaning.steps)
        steps = of_part if steps is None else steps & of_part
    return steps or frozenset()


def words_for(text: str, table: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """The words of the first pattern that matches the whole text; empty if none does."""
    for pattern, words in table:
        match = pattern.fullmatch(text)
        if match:
            return words.format(*match.groups())
    return ""


class CheckOutcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One check with its result."""

    outcome: CheckOutcome
    message: str
    """The result in one sentence; for `unknown`, why it cannot be known."""
    details: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    """What to run next."""
    name: str = ""
    """A constant word for scripts; filled in by the caller of the check."""
    explained_by: frozenset[str] = frozenset()
    """Other steps that say the same with more detail, if they fail."""


def passed(message: str, *details: str) -> CheckStep:
    """Nothing is wrong here."""
    return CheckStep(CheckOutcome.PASSED, message, details)


def unknown(message: str, *details: str, commands: tuple[Command, ...] = ()) -> CheckStep:
    """The facts are missing."""
    return CheckStep(CheckOutcome.UNKNOWN, message, details, commands)


def failed(message: str, *details: str, commands: tuple[Command, ...] = ()) -> CheckStep:
    """This keeps the workload from running as intended."""
    known_details = []
    for detail in details:
        if detail:
            known_details.append(detail)
    different_commands = tuple(dict.fromkeys(commands))
    return CheckStep(CheckOutcome.FAILED, message.strip(), tuple(known_details), different_commands)


def explained(step: CheckStep, by: frozenset[str]) -> CheckStep:
    """The step, with the names of the steps that say the same in more detail."""
    return replace(step, explained_by=by)


class ReadResource(Protocol):
    """A published topology resource, as read from the cluster."""

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
        """One object; None if it does not exist or cannot be read."""

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
    def lineage(self) -> Sequence[Object]:
        """The object in question, its owner, the owner's owner, and so on, as far as read."""

    def every(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """All objects of a kind that are known in the cluster."""

    @property
    def workloads(self) -> Sequence[Workload]:
        """What it requests, once for each system."""

    @property
    def asks_for_levels(self) -> bool:
        """Whether any part of it requests to be kept together."""

    @property
    def schedulers(self) -> frozenset[str]:
        """The `schedulerName` of each of its pods; empty for pods that set none."""

    @property
    def store(self) -> Objects:
        """All objects that were read."""

    @property
    def all_members(self) -> Iterator[tuple[Ref, Object]]:
        """All objects that belong to the workload, without pods."""

    def members(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind that belong to the workload."""

    def resource(self, workload: Workload) -> ReadResource | None:
        """The topology resource of the workload's system; None if missing or unreadable."""

    def all_published(self, kind: Kind) -> Iterator[ReadResource]:
        """The topology resources of one kind."""

    def published(self, name: str, *kinds: Kind) -> ReadResource | None:
        """The topology resource of this name and one of these kinds."""
