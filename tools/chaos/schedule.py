"""Which faults, when, for how long, and at whom.

A schedule is drawn from a seed, written as text, read again, and shrunk.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tools.chaos.faults import FAULTS, Fault, Scope
from toposcope.errors import ToposcopeError

_STEP: Final = re.compile(r"([a-z-]+)@([0-9.]+)\+([0-9.]+)(?::([a-z0-9-]+))?")
_WINDOW_SECONDS: Final = 8.0
"""Seconds in which the faults of a round begin: shorter than most last, so that they overlap."""
_HOW_MANY: Final = (1, 2, 2, 2, 3, 3)

T = TypeVar("T")


class ScheduleError(ToposcopeError):
    """A schedule that cannot be carried out; the message names the step and the fix."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: it begins `start` seconds into the round and lasts `seconds`.

    `target` names an actor, or nothing.
    """

    fault: str
    start: float
    seconds: float
    target: str = ""

    def __str__(self) -> str:
        text = f"{self.fault}@{self.start:g}+{self.seconds:g}"
        if self.target:
            text += f":{self.target}"
        return text


Schedule = tuple[Step, ...]


def written(schedule: Schedule) -> str:
    """A schedule as text."""
    return ",".join(map(str, schedule))


def read(text: str, actors: Sequence[str], faults: Mapping[str, Fault] = FAULTS) -> Schedule:
    """The schedule in a text. Raises ScheduleError."""
    steps = []
    for part in text.split(","):
        part_text = part.strip()
        if part_text:
            step = _read_step(part_text, actors, faults)
            steps.append(step)

    if not steps:
        raise ScheduleError("the schedule names no fault")
    return tuple(steps)


def _read_step(text: str, actors: Sequence[str], faults: Mapping[str, Fault]) -> Step:
    """One step of a schedule. Raises ScheduleError."""
    match = _STEP.fullmatch(text)
    if match is None:
        raise ScheduleError(
            f"{text!r} is no step; write FAULT@START+SECONDS or FAULT@START+SECONDS:TARGET"
        )

    name, start, seconds, target = match.groups(default="")
    step = Step(
        name,
        float(start),
        float(seconds),
        target,
    )
    fault = faults.get(name)
    if fault is None:
        raise ScheduleError(
            f"{text!r}: there is no fault {name}; --list shows those that there are"
        )

    targets = _targets(fault, actors)
    if target not in targets:
        those = ", ".join(targets) or "no target"
        raise ScheduleError(f"{text!r}: {name} cannot be aimed at {target!r}, only at {those}")
    return step


def draw(rng: random.Random, faults: Sequence[Fault], actors: Sequence[str]) -> Schedule:
    """One to three faults that overlap, each of another kind."""
    drawn = rng.choice(_HOW_MANY)
    count = min(drawn, len(faults))
    steps = []
    for fault in rng.sample(faults, count):
        moment = rng.uniform(0.5, _WINDOW_SECONDS)
        start = round(moment, 1)
        step = _step(rng, start, fault, actors)
        steps.append(step)

    steps.sort(key=lambda step: step.start)
    return tuple(steps)


def each_alone(
    rng: random.Random, faults: Sequence[Fault], actors: Sequence[str]
) -> list[Schedule]:
    """Every fault once, in a round of its own, in the order of a deck that was shuffled."""
    shuffled = rng.sample(faults, len(faults))
    rounds: list[Schedule] = []
    for fault in shuffled:
        step = _step(rng, 0.5, fault, actors)
        rounds.append((step,))
    return rounds


def _step(rng: random.Random, start: float, fault: Fault, actors: Sequence[str]) -> Step:
    return Step(
        fault.name,
        start,
        round(rng.uniform(*fault.seconds), 1),
        rng.choice(_targets(fault, actors)),
    )


def _targets(fault: Fault, actors: Sequence[str]) -> tuple[str, ...]:
    match fault.scope:
        case Scope.CLUSTER:
            return ("",)
        case Scope.PROGRAM:
            return tuple(actors)
        case _:
            return tuple(name for name in actors if name.startswith(fault.scope.value))


def shrink(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A part of `items`, in their order, that fails, and of which no single item can be left out.

    `items` as a whole fails: that is not tried again, nor is nothing at all.
    """
    current = tuple(items)
    if len(current) == 1:
        return current
    for index in range(len(current)):
        smaller = current[:index] + current[index + 1 :]
        if fails(smaller):
            return shrink(smaller, fails)
    return current
