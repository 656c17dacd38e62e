"""`make chaos`: break a cluster at random, from a printed seed, and judge it from outside.

A run is as many rounds as fit into its time. Each lets one to three faults loose at once, heals
them, waits until all is as it should be, and judges what an observer and the audit log have seen.
At the first violation the schedule is shrunk in fresh clusters, and the command that shows the
failure again is printed.
"""

import argparse
import random
import secrets
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import NoReturn

from tools import figures
from tools.apiserver.server import Binaries, ServerError, UnavailableError, find_binaries
from tools.chaos import report
from tools.chaos.faults import FAULTS, Fault
from tools.chaos.planted_violations import find_planted
from tools.chaos.processes import Scale
from tools.chaos.rounds import Outcome, play
from tools.chaos.schedule import Schedule, ScheduleError, draw, each_alone, read, shrink, written
from tools.chaos.violations import Violation
from tools.chaos.world import NotSettledError, World


def main() -> int:
    """Break and judge; 1 when something did not hold, 2 when there was nothing to break."""
    arguments = _arguments()
    if arguments.list:
        for fault in FAULTS.values():
            missing = fault.missing()
            print(f"{fault.name:<20}{fault.what}" + (f" (left out: {missing})" if missing else ""))
        return 0
    # Whatever ends a run ends the cluster too: SIGINT is ignored by what a shell starts in the
    # background.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        binaries = find_binaries()
        return _run(binaries, arguments)
    except (UnavailableError, NotSettledError, ScheduleError, ServerError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="how long to run; default: 10",
    )
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--only", metavar="FAULT,...", help="only these faults")
    parser.add_argument(
        "--schedule",
        metavar="STEP,...",
        help="only this round, as a failed run prints it: FAULT@START+SECONDS:TARGET",
    )
    parser.add_argument(
        "--each", action="store_true", help="begin with a separate round for each fault"
    )
    parser.add_argument(
        "--agents", type=int, default=Scale().agents, help=f"machines; default: {Scale().agents}"
    )
    for program, speed in (
        ("agent", Scale().agent_speed),
        ("controller", Scale().controller_speed),
    ):
        about = (
            f"how much faster than the machine's the clocks of {program}s run; default: {speed:g}"
        )
        parser.add_argument(
            f"--{program}-speed", type=float, default=speed, metavar="FACTOR", help=about
        )
    parser.add_argument(
        "--no-shrink",
        action="store_true",
        help="do not shrink a failing schedule",
    )
    parser.add_argument(
        "--plant",
        "--sabotage",
        action="store_true",
        help="plant violations first: each must be found",
    )
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/figures/reliability.json"
    )
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    return parser.parse_args()


def _run(binaries: Binaries, arguments: argparse.Namespace) -> int:
    seed = arguments.seed
    if seed is None:
        seed = secrets.randbelow(1 << 31)
    scale = Scale(
        arguments.agents,
        arguments.agent_speed,
        arguments.controller_speed,
    )
    began = time.monotonic()
    command = figures.command("chaos")
    print(figures.machine())
    print(f"{command}, seed {seed}", flush=True)
    if arguments.plant and _misses_planted(binaries):
        return 1

    outcomes: list[Outcome] = []
    world = World(binaries, scale)
    with world:
        started = time.monotonic() - began
        print(f"the cluster stands after {started:.0f} s", flush=True)
        schedules = _schedules(world, seed, arguments)
        ends = began + 60 * arguments.minutes
        is_judged = _play_all(world, schedules, outcomes, ends)
        world.leaks.judge(world.findings)
        violations = world.findings.take()
        elapsed = time.monotonic() - began
        _print(world, outcomes, elapsed, write=arguments.write)

    has_failed = False
    if outcomes:
        last = outcomes[-1]
        has_failed = bool(last.violations)
        violations = [*violations, *last.violations]
    for violation in violations:
        print(f"VIOLATION {violation}", flush=True)
    if has_failed and not arguments.no_shrink:
        _shrink(binaries, scale, outcomes[-1])
    return _exit_code(violations, is_judged=is_judged)


def _exit_code(violations: Sequence[Violation], *, is_judged: bool) -> int:
    if violations:
        return 1
    return 0 if is_judged else 2


def _misses_planted(binaries: Binaries) -> bool:
    """Whether a planted violation is not found."""
    with World(binaries, Scale(agents=1)) as world:
        return bool(find_planted(world))


def _play_all(
    world: World, schedules: Iterable[Schedule], outcomes: list[Outcome], ends: float
) -> bool:
    """Play schedules until time is over or one is violated; False where one cannot be judged."""
    for schedule in schedules:
        if outcomes and time.monotonic() > ends:
            break
        try:
            outcome = play(world, schedule, _print_indented)
        except (NotSettledError, ServerError) as error:
            world.keep_logs = True
            print(f"not judged: {written(schedule)}: {error}")
            print(f"logs are in {world.folder}", flush=True)
            return False
        outcomes.append(outcome)
        print(f"{len(outcomes):>4}  {written(schedule)}", flush=True)
        if outcome.violations:
            world.keep_logs = True
            print(f"logs are in {world.folder}", flush=True)
            break
    return True


def _print_indented(text: str) -> None:
    print(f"    {text}", flush=True)


def _schedules(world: World, seed: int, arguments: argparse.Namespace) -> Iterator[Schedule]:
    actors = tuple(world.actors)
    if arguments.schedule:
        yield read(arguments.schedule, actors)
        return
    rng = random.Random(seed)  # noqa: S311 - a seed that is printed is the point
    faults = _faults(arguments.only)
    if arguments.each:
        yield from each_alone(rng, faults, actors)
    while True:
        yield draw(rng, faults, actors)


def _faults(only: str | None) -> list[Fault]:
    """The faults to draw from; those that this machine cannot do are left out, and named.

    Raises ScheduleError.
    """
    names = list(FAULTS)
    if only:
        names = only.split(",")
    unknown = sorted(set(names) - set(FAULTS))
    if unknown:
        listed = ", ".join(unknown)
        raise ScheduleError(
            f"--only: there is no fault {listed}; --list shows those that there are"
        )

    faults = []
    for name in names:
        fault = FAULTS[name]
        missing = fault.missing()
        if missing:
            print(f"left out: {name}: {missing}", flush=True)
        else:
            faults.append(fault)

    if not faults:
        raise ScheduleError("--only: none of these faults can be had here")
    return faults


def _shrink(binaries: Binaries, scale: Scale, failed: Outcome) -> None:
    """Try parts of a schedule, and print the command of the smallest that fails."""

    def fails(schedule: Schedule) -> bool:
        with World(binaries, scale) as world:
            violations = play(world, schedule).violations
        print(f"      {written(schedule)}: {'fails' if violations else 'holds'}", flush=True)
        return bool(violations)

    print("shrinking:", flush=True)
    smallest = shrink(failed.schedule, fails)
    # What was not left out was not tried: a failure may need what happened in earlier rounds, or
    # luck.
    speeds = f"--agent-speed {scale.agent_speed:g} --controller-speed {scale.controller_speed:g}"
    print(
        f'again: make chaos ARGS="--agents {scale.agents} {speeds} --schedule {written(smallest)}"',
        flush=True,
    )


def _print(world: World, outcomes: list[Outcome], seconds: float, *, write: bool) -> None:
    speeds = {}
    for actor in world.actors.values():
        speed = world.scale.controller_speed
        if actor.machine:
            speed = world.scale.agent_speed
        speeds[actor.name] = speed

    checks = world.findings.checks
    trends = world.leaks.trends()
    tables = report.tables(outcomes, checks, trends, speeds, seconds)
    minutes = seconds / 60
    print(f"\n{len(outcomes)} rounds in {minutes:.1f} minutes")
    for head, *rows in tables.values():
        text = figures.markdown(head, rows)
        print(f"\n{text}")
    print(flush=True)

    if write:
        figures.write("reliability", "chaos", tables)


if __name__ == "__main__":
    sys.exit(main())
