"""The programs under test, each a process with a clock that may run fast and be stepped.

`CHAOS_SPEED` is the factor, `CHAOS_WALL` names a file that holds how many seconds the wall clock is
off just now. Timers, deadlines and waits follow the faster clock, so that hours pass in minutes;
the clock that never jumps does not jump here either. Installed before anything of the program is
loaded, because modules keep what they import.

A preloaded library (libfaketime) would need no such care, but breaks Python's waits: its sleep ends
with EINVAL, its timed locks never end.
"""

import datetime as dt
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self


def run(command: str) -> int:
    """`toposcope agent` or `toposcope controller`."""
    install(sockets=command == "controller")
    from toposcope.cli.main import main  # noqa: PLC0415 - after the clock

    return main([command, *sys.argv[1:]])


def install(*, sockets: bool) -> None:
    """Put the clock in place; `sockets` says whether time limits of connections are shortened, too.

    They have to be where safety rests on them (a leader's requests); elsewhere a busy machine would
    only break them.
    """
    _hurry(float(os.environ.get("CHAOS_SPEED", "1")), sockets=sockets)
    file = os.environ.get("CHAOS_WALL")
    if file:
        _step(Path(file))


def _hurry(speed: float, *, sockets: bool) -> None:
    if speed == 1:
        return
    monotonic, gettime, sleep, choose = (
        time.monotonic,
        time.clock_gettime,
        time.sleep,
        select.select,
    )
    wait, connect = threading.Condition.wait, socket.create_connection

    def shorter(seconds: float | None) -> float | None:
        return None if seconds is None else seconds / speed

    time.monotonic = lambda: speed * monotonic()
    time.clock_gettime = lambda clock: (
        (speed if clock == time.CLOCK_BOOTTIME else 1) * gettime(clock)
    )
    time.sleep = lambda seconds: sleep(float(seconds) / speed)
    select.select = lambda *sources: choose(*sources[:3], *map(shorter, sources[3:]))
    threading.Condition.wait = (  # type: ignore[method-assign]
        lambda self, timeout=None: wait(self, shorter(timeout))
    )
    if sockets:

        def create_connection(
            address: Any, timeout: float | None = None, *rest: Any, **more: Any
        ) -> socket.socket:
            return connect(address, shorter(timeout), *rest, **more)

        socket.create_connection = create_connection


def _step(file: Path) -> None:
    wall = time.time

    def off() -> float:
        try:
            return float(file.read_text(encoding="ascii") or "0")
        except (OSError, ValueError):
            return 0.0  # just being written

    class Wall(dt.datetime):
        """The time of day, by the clock on this wall."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Self:
            """The time with the present step."""
            return super().now(tz) + dt.timedelta(seconds=off())

    time.time = lambda: wall() + off()
    dt.datetime = Wall  # type: ignore[misc]
