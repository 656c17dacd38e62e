"""Faults of the machine that a program runs on: its life, disk, clock and credentials."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.chaos.faults.model import Fault, Scope

if TYPE_CHECKING:
    from tools.chaos.world import World

_HOUR = 3600.0
_FULL = Path("/dev/full")
_READ_ONLY = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    # The simulated machine keeps its sysfs tree in a folder; the program itself gets nowhere to write.
    'mount -t tmpfs -o size=16m none "$TMPDIR" && mount --rbind / / && mount -o remount,bind,ro / && exec "$0" "$@"',
)


def _kill(world: World, target: str) -> None:
    world.actors[target].program.kill()


def _start(world: World, target: str) -> None:
    world.actors[target].program.start()


def _on_a_full_disk(world: World, target: str) -> None:
    program = world.actors[target].program
    program.kill()
    program.start(_READ_ONLY, _FULL)


def _on_a_good_disk(world: World, target: str) -> None:
    program = world.actors[target].program
    program.kill()
    program.start()


def _may_unshare() -> str:
    if shutil.which("unshare") is None:
        return "unshare is not on PATH"
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no namespaces: {done.stderr.strip()}" if done.returncode else ""


def _step(seconds: float, world: World, target: str) -> None:
    world.actors[target].wall.write_text(str(seconds), encoding="ascii")


def _expire(world: World, target: str) -> None:
    world.rotate(world.actors[target])


def _renew(world: World, target: str) -> None:
    world.write_token(world.actors[target])


def _clock(name: str, what: str, seconds: float) -> Fault:
    heal = functools.partial(_step, 0.0)
    return Fault(name, what, Scope.PROGRAM, (3.0, 12.0), functools.partial(_step, seconds), heal)


FAULTS = (
    Fault("agent-killed", "an agent killed, started again", Scope.AGENT, (0.5, 5.0), _kill, _start),
    Fault(
        "disk-full",
        "started on a read-only root with every line of its log refused (ENOSPC)",
        Scope.PROGRAM,
        (4.0, 12.0),
        _on_a_full_disk,
        _on_a_good_disk,
        _may_unshare,
    ),
    Fault(
        "token-expired",
        "the token is refused (401) until a new one is in the file",
        Scope.PROGRAM,
        (2.0, 14.0),
        _expire,
        _renew,
    ),
    _clock("clock-forward", "the wall clock a day ahead, then back", 24 * _HOUR),
    _clock("clock-back", "the wall clock ten years back, then right", -10 * 365 * 24 * _HOUR),
)
