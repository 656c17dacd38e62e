"""A run of one seed: a cluster, rounds of faults with quiet time between, and the judge's word."""

import logging
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from tools.chaos.rounds import play
from tools.chaos.violations import Violation
from tools.chaos.world import NotSettledError
from tools.simulate import steps
from tools.simulate.scheduler import Scheduler
from tools.simulate.steps import FAULTS, Rounds
from tools.simulate.world import ACTORS, World

ROUNDS: Final = 8
_QUIET: Final = (60.0, 1800.0)
"""Seconds between two rounds: what comes only after a while must come, too."""


@dataclass
class Run:
    """The result of a seed. `played` are the rounds up to the one that failed."""

    seed: int
    rounds: Rounds
    played: int = 0
    hours: float = 0.0
    seconds: float = 0.0
    """The CPU time that it took."""
    trace: str = ""
    states: set[int] = field(default_factory=set)
    checks: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


class _Stamp(logging.Formatter):
    """Puts the cluster's time and the thread before each line."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def format(self, record: logging.LogRecord) -> str:
        now = self._scheduler.now
        running = self._scheduler.running
        text = super().format(record)
        return f"{now:10.3f} {running} {text}"


def run(
    seed: int,
    rounds: Rounds | None = None,
    told: Callable[[str], None] = lambda _: None,
    watched: Callable[[World], AbstractContextManager[Any]] = nullcontext,
    settles: float = inf,
) -> Run:
    """Simulate one seed, with its own rounds or those given.

    `watched` observes from the beginning to the end. `settles` is how many seconds after its last
    fault the cluster may take to become what it should.
    """
    began = time.process_time()
    world = World(seed)
    stamp = _Stamp(world.scheduler)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(stamp)

    if rounds is None:
        # Apart from the scheduler's, so that which rounds there are does not depend on what happens
        # in one.
        rng = random.Random(~seed)
        rounds = steps.draw(rng, ACTORS, ROUNDS)
    played_run = Run(seed, rounds)
    try:
        with watched(world), world:
            _play_rounds(played_run, world, told, settles)
    except NotSettledError as error:
        played_run.violations = world.findings.take()
        if not played_run.violations:
            played_run.violations = [Violation("converged", str(error))]

    played_run.seconds = time.process_time() - began
    played_run.hours = world.scheduler.now / 3600
    played_run.trace = world.scheduler.trace
    played_run.states = world.states
    played_run.checks = world.findings.checks
    return played_run


def _play_rounds(
    played_run: Run, world: World, told: Callable[[str], None], settles: float
) -> None:
    """Play one round after the other, up to the first that fails."""
    for schedule in played_run.rounds:
        text = steps.written((schedule,))
        told(text)
        played_run.played += 1
        outcome = play(world, schedule, told, FAULTS)
        played_run.violations = outcome.violations
        if outcome.settled_seconds > settles:
            late = Violation("converged", f"settled after {outcome.settled_seconds:g} s")
            played_run.violations.append(late)
        if played_run.violations:
            return
        quiet = world.scheduler.rng.uniform(*_QUIET)
        world.sleep(quiet)


def shrunk(failed: Run, told: Callable[[str], None] = lambda _: None) -> Run:
    """The same seed with the fewest faults that break the same invariant."""
    invariant = failed.violations[0].invariant
    best = [failed]

    def fails(rounds: Rounds) -> bool:
        tried = run(failed.seed, rounds)
        told(f"{'fails' if tried.violations else 'holds'}: {steps.written(rounds)}")
        if any(violation.invariant == invariant for violation in tried.violations):
            best.append(tried)
            return True
        return False

    steps.shrink(failed.rounds[: failed.played], fails)
    return best[-1]
