"""The faults of a simulation: those of `make chaos` at production's timing, and simulated ones."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from tools.chaos import schedule
from tools.chaos.faults import FAULTS as CHAOS
from tools.chaos.faults import Fault, Scope
from tools.chaos.schedule import Schedule, Step
from tools.simulate.network import Weather

_SLOWER_TIMES: Final = 6.0
"""Chaos has the programs' clocks run some times as fast."""
_NOT_HERE: Final = frozenset({"worker-segfault", "worker-stopped", "worker-garbage", "disk-full"})
"""What befalls a real process."""
_MOST_DRAWS: Final = 2
"""Draws of a round; chaos has one, of up to three faults."""

Rounds = tuple[Schedule, ...]


def _weather(
    weather: Weather, *, relists: bool
) -> tuple[Callable[[Any, str], None], Callable[[Any, str], None]]:
    def begin(world: Any, target: str) -> None:
        world.network.weather[target] = replace(weather)
        if relists:
            world.store.expire_history()
            world.network.cut(world.actors[target].program.process)

    def end(world: Any, target: str) -> None:
        world.network.weather[target] = Weather()

    return begin, end


def _doom(chance: float) -> tuple[Callable[[Any, str], None], Callable[[Any, str], None]]:
    def begin(world: Any, target: str) -> None:
        world.doomed[target] = chance

    def end(world: Any, target: str) -> None:
        world.doomed.pop(target, None)
        world.actors[target].program.start()

    return begin, end


def _die_waiting() -> tuple[Callable[[Any, str], None], Callable[[Any, str], None]]:
    def begin(world: Any, target: str) -> None:
        world.crash_at_a_wait(target)

    def end(world: Any, target: str) -> None:
        world.actors[target].program.process.waits_left = 0
        world.actors[target].program.start()

    return begin, end


def _does(acts: str) -> Callable[[Any, str], None]:
    def do(world: Any, _target: str) -> None:
        for act in acts.split():
            getattr(world.levels, act)()

    return do


def _fault(
    name: str,
    *,
    what: str,
    seconds: list[float],
    weather: dict[str, Any] | None = None,
    doom: float = 0.0,
    scope: str = "program",
    relists: bool = False,
    waits: bool = False,
    does: Sequence[str] = (),
) -> Fault:
    how: Sequence[Callable[[Any, str], None]]
    if weather is not None:
        how = _weather(Weather(**weather), relists=relists)
    elif does:
        how = [_does(acts) for acts in does]
    elif waits:
        how = _die_waiting()
    else:
        how = _doom(doom)
    return Fault(name, what, Scope(scope), tuple(seconds), *how)


_OWN: Final = yaml.load(
    Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
FAULTS: Final[dict[str, Fault]] = {
    name: replace(
        fault, seconds=tuple(_SLOWER_TIMES * seconds for seconds in fault.seconds), missing=str
    )
    for name, fault in CHAOS.items()
    if name not in _NOT_HERE
} | {name: _fault(name, **row) for name, row in _OWN.items()}


def draw(rng: random.Random, actors: Sequence[str], rounds: int) -> Rounds:
    """So many rounds, each of a few faults that overlap."""
    return tuple(_round(rng, actors) for _ in range(rounds))


def _round(rng: random.Random, actors: Sequence[str]) -> Schedule:
    faults = list(FAULTS.values())
    latest: dict[tuple[str, str], Step] = {}
    times = rng.randint(1, _MOST_DRAWS)
    for _ in range(times):
        for step in schedule.draw(rng, faults, actors):
            key = (step.fault, step.target)
            start = round(step.start * _SLOWER_TIMES, 1)
            latest[key] = replace(step, start=start)

    in_order = sorted(
        latest.values(),
        key=lambda step: step.start,
    )
    return tuple(in_order)


def written(rounds: Rounds) -> str:
    """Rounds as text."""
    return ";".join(map(schedule.written, rounds))


def read(text: str, actors: Sequence[str]) -> Rounds:
    """The rounds in a text. Raises ScheduleError."""
    return tuple(schedule.read(part, actors, FAULTS) for part in text.split(";"))


def shrink(rounds: Rounds, fails: Callable[[Rounds], bool]) -> Rounds:
    """The fewest faults that still fail; the last round is the one that does."""
    last = rounds[-1:]
    if len(rounds) > 1 and fails(last):
        rounds = last

    items: list[tuple[int, Step]] = []
    for number, steps in enumerate(rounds):
        for step in steps:
            items.append((number, step))

    def parts_fail(part: Sequence[tuple[int, Step]]) -> bool:
        return fails(_grouped(part))

    fewest = schedule.shrink(items, parts_fail)
    return _grouped(fewest)


def _grouped(items: Sequence[tuple[int, Step]]) -> Rounds:
    rounds: dict[int, list[Step]] = {}
    for number, step in items:
        steps = rounds.setdefault(number, [])
        steps.append(step)

    numbers = sorted(rounds)
    return tuple(tuple(rounds[number]) for number in numbers)
