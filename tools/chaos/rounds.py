"""One round: faults come and go, all is healed, the cluster has to become what it should."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools.apiserver.server import ServerError
from tools.chaos.faults import FAULTS, Fault
from tools.chaos.schedule import Schedule, Step
from tools.chaos.violations import Violation
from tools.chaos.world import NotSettledError, World

_FAILED: Final = (OSError, AssertionError, KeyError, ValueError, ServerError, NotSettledError)
"""Raised when a fault is injected or healed where another fault has broken something already."""


@dataclass
class Outcome:
    """The result of a round; `settled` is in seconds after the last fault was healed."""

    schedule: Schedule
    injected: list[Step] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    settled_seconds: float = 0.0


def play(
    world: World,
    schedule: Schedule,
    report: Callable[[str], None] = lambda _: None,
    faults: Mapping[str, Fault] = FAULTS,
) -> Outcome:
    """Carry out one round."""
    outcome = Outcome(schedule)
    world.begin_round()
    if any(step.fault == "etcd-restored" for step in schedule):
        world.save()

    world.stand_ins.is_busy = True
    pending = _play_steps(world, outcome, report, faults)
    _heal_the_rest(world, pending, faults)
    world.stand_ins.is_busy = False

    _settle(world, outcome, report)
    world.judge()
    outcome.violations = world.findings.take()
    return outcome


def _play_steps(
    world: World,
    outcome: Outcome,
    report: Callable[[str], None],
    faults: Mapping[str, Fault],
) -> list[Step]:
    """Inject and heal each fault in its time; those that could not be healed."""
    began = world.monotonic()
    beginning = sorted(outcome.schedule, key=lambda step: step.start)
    lasting: list[tuple[float, Step]] = []
    pending: list[Step] = []
    while beginning or lasting:
        if _begins_next(beginning, lasting, began):
            step = beginning.pop(0)
            _live(world, began + step.start)
            _inject(world, step, outcome, report, faults)
            # From now on, not from when it was due: whatever it is done to may have been slow to
            # answer.
            ends = world.monotonic() + step.seconds
            lasting.append((ends, step))
            lasting.sort(key=lambda due: due[0])
        else:
            ends, step = lasting.pop(0)
            _live(world, ends)
            if not _healed(world, step, faults):
                pending.append(step)
    return pending


def _begins_next(
    beginning: Sequence[Step], lasting: Sequence[tuple[float, Step]], began: float
) -> bool:
    """Whether the next thing to do is to inject a fault, not to heal one."""
    if not beginning:
        return False
    if not lasting:
        return True
    starts = began + beginning[0].start
    ends, _ = lasting[0]
    return starts <= ends


def _live(world: World, until: float) -> None:
    while True:
        world.restart_ended()
        seconds_left = until - world.monotonic()
        if seconds_left <= 0:
            return
        world.sleep(min(seconds_left, world.scale.look))


def _inject(
    world: World,
    step: Step,
    outcome: Outcome,
    report: Callable[[str], None],
    faults: Mapping[str, Fault],
) -> None:
    # Healed in any case: half of it may have been done.
    outcome.injected.append(step)
    fault = faults[step.fault]
    try:
        fault.inject(world, step.target)
    except _FAILED as error:
        kind = type(error).__name__
        text = str(error)[:200]
        report(f"{step} did not take place: {kind}: {text}")


def _healed(world: World, step: Step, faults: Mapping[str, Fault]) -> bool:
    try:
        faults[step.fault].heal(world, step.target)
    except _FAILED:
        return False
    return True


def _heal_the_rest(world: World, pending: list[Step], faults: Mapping[str, Fault]) -> None:
    """Heal what could not be healed while something else was broken: the servers first."""
    world.mend_servers()
    deadline = world.monotonic() + world.scale.patience
    while pending:
        pending = [step for step in pending if not _healed(world, step, faults)]
        if world.monotonic() > deadline:
            steps = ", ".join(map(str, pending))
            raise ServerError(f"cannot be healed: {steps}")
        world.restart_ended()
        world.sleep(world.scale.look)

    world.mend_servers()


def _settle(world: World, outcome: Outcome, report: Callable[[str], None]) -> None:
    """Wait until everything is as it should be, see that changes are noticed, and wait again."""
    began = world.monotonic()
    if not _becomes(world, world.unsettled):
        return
    outcome.settled_seconds = world.monotonic() - began
    report(f"settled after {outcome.settled_seconds:.1f} s")
    # What should be may have been so all the time: only a change shows who still listens.
    world.change_something()
    noticed = _becomes(world, world.unnoticed)
    world.stand_ins.is_here = False
    # Twice: a leader may be about to change its mind.
    if noticed and _becomes(world, world.unsettled) and _becomes(world, world.unsettled):
        for actor in world.actors.values():
            world.leaks.take(actor.program)


def _becomes(world: World, missing: Callable[[], list[str]]) -> bool:
    """Wait until nothing is missing; takes down what is when the time is over."""
    began = world.monotonic()
    while True:
        world.restart_ended()
        world.findings.checked("converged")
        texts = missing()
        if not texts:
            world.sleep(world.scale.look)
            return True
        waited = world.monotonic() - began
        if waited > world.scale.patience:
            for text in texts[:8]:
                world.findings.add("converged", f"{waited:.0f} s after the faults: {text}")
            return False
        world.sleep(world.scale.look)
