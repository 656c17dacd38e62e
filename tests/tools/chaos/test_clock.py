"""The clock of programs under test, in a process of its own: it changes the whole interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.paths import ROOT

FAST = """
from tools.chaos import programs
import time
real = time.monotonic
programs.install(sockets=True)
import select, socket, threading
began, hurried = real(), time.monotonic()
time.sleep(50); threading.Event().wait(50); select.select([], [], [], 50)
assert 140 < time.monotonic() - hurried < 1500, time.monotonic() - hurried
assert real() - began < 15
boot = time.clock_gettime(time.CLOCK_BOOTTIME)
time.sleep(10)
assert time.clock_gettime(time.CLOCK_BOOTTIME) - boot > 9
with socket.create_server(("127.0.0.1", 0)) as server:
    assert socket.create_connection(server.getsockname(), 100).gettimeout() == 1
"""
STEPPED = """
from tools.chaos import programs
import pathlib, sys, time
wall = pathlib.Path(sys.argv[1])
before = time.time()
programs.install(sockets=True)
from datetime import UTC, datetime
def off(): return round((time.time() - before) / 3600), round((datetime.now(UTC).timestamp() - before) / 3600)
assert off() == (0, 0)
steady = time.monotonic()
wall.write_text("7200")
assert off() == (2, 2)
wall.write_text("-7200.5")
assert off() == (-2, -2)
wall.write_text("")  # as it is for a moment while it is written
assert off() == (0, 0)
assert time.monotonic() - steady < 3600
"""


def run(program: str, *arguments: str, **environment: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_waits_are_shorter_and_the_clock_knows() -> None:
    run(FAST, CHAOS_SPEED="100")


def test_wall_steps_and_nothing_else_does(tmp_path: Path) -> None:
    wall = tmp_path / "wall"
    run(STEPPED, str(wall), CHAOS_WALL=str(wall))
