"""What the page's server asks its worker, and the form of the answers: plain data.

The server imports nothing of what the worker computes with: that is half of what starting costs.
"""

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from toposcope.errors import ToposcopeError

MAX_BYTES: Final = 256 << 10
"""The largest body of a request."""


class NoPlanError(ToposcopeError):
    """The question has no answer; the message says why."""


class CheckRequest(msgspec.Struct, frozen=True):
    """Whether the workloads in a text fit; `views` are the ids of those that the page can show."""

    text: str
    views: tuple[str, ...] = ()


class Overview(msgspec.Struct, frozen=True):
    """Slots, and the gangs that are not as close together as they could be."""

    view: str


class GangAt(msgspec.Struct, frozen=True):
    """Where a gang is and could be."""

    view: str
    kind: str
    name: str


class Drain(msgspec.Struct, frozen=True):
    """What the drain of a domain or a node would do; `path` names the domain, broadest first."""

    view: str
    path: tuple[str, ...]
    node: str


class Metrics(msgspec.Struct, frozen=True):
    """The metrics of planning: see `ui.metrics`."""

    worst: int
    now: float
    """Unix time."""
    since: dict[tuple[str, str, str], float]
    """When each gang was first seen misplaced, by topology, kind and handle."""


PlanQuestion: TypeAlias = Overview | GangAt | Drain
Question: TypeAlias = CheckRequest | PlanQuestion | Metrics


class Ask(msgspec.Struct, frozen=True):
    """A question, and how many seconds its answer may take."""

    question: Question
    seconds: float


class QuestionOutcome(StrEnum):
    """How a question ended."""

    ANSWERED = "answered"
    NO_PLAN = "no plan"
    """The question has no answer; `Answer.error` tells the user why."""
    OUT_OF_MEMORY = "out of memory"
    FAILED = "failed"
    """A defect of ours; `Answer.error` is for the log."""


class WorkerAnswer(msgspec.Struct, frozen=True):
    """What the worker sends back."""

    outcome: QuestionOutcome
    body: msgspec.Raw = msgspec.Raw(b"null")
    """The answer as JSON, where there is one."""
    error: str = ""
