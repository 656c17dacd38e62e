"""One question and its answer."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How it went."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """One question that was asked. The first one that failed is the answer to the whole."""

    name: str
    """A constant word for scripts."""
    outcome: Outcome
    message: str
    """What was found, in one sentence; for an unknown one why it is not known."""
    details: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """What to run next."""


def passed(name: str, message: str, *details: str) -> Step:
    """Nothing is wrong here."""
    return Step(name, Outcome.PASSED, message, details)


def unknown(name: str, message: str, *details: str, commands: tuple[str, ...] = ()) -> Step:
    """It cannot be told."""
    return Step(name, Outcome.UNKNOWN, message, details, commands)


def failed(name: str, message: str, *details: str, commands: tuple[str, ...] = ()) -> Step:
    """This keeps the workload from running as it was meant."""
    return Step(name, Outcome.FAILED, message.strip(), tuple(filter(None, details)), tuple(dict.fromkeys(commands)))
