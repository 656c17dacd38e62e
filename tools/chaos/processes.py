"""The programs under test: started, killed, stopped, watched, and restarted as by a kubelet."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tools.apiserver.client import HttpClient
from tools.apiserver.server import free_port
from tools.chaos.machines import ROOT, Machine
from tools.chaos.proxy import Proxy

_MIB: Final = 1 << 20
_LEASE_SECONDS: Final = 8.0
"""How long a Lease lasts by the machine's clock: a busy one needs some seconds for a request."""
_SLOWEST_SECONDS: Final = 60.0
_SILENCE_SECONDS: Final = 180.0
"""Seconds, by the controller's clock, until a silent connection is given up and made anew."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a program holds, its children included: memory in MiB, the others as counts."""

    memory: float
    descriptors: int
    threads: int
    maps: int


class Program:
    """One program, its log, and whether it is meant to run just now."""

    def __init__(
        self, name: str, command: str, flags: list[str], folder: Path, environment: dict[str, str]
    ) -> None:
        port = free_port()
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._flags = [*flags, "--metrics-port", str(port)]
        self._environment = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(ROOT),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = False
        self._http = HttpClient(
            f"http://127.0.0.1:{port}",
            None,
            timeout=5,
        )

    @property
    def pid(self) -> int:
        """Its process id; raises AssertionError when it was never started."""
        if self._process is None:
            raise AssertionError(f"{self.name} was never started")
        return self._process.pid

    def start(self, wrapper: tuple[str, ...] = (), output: Path | None = None) -> None:
        """Start it unless it runs.

        `wrapper` is a command that runs another; `output` takes the place of the log.
        """
        self._is_wanted = True
        if self._process and self._process.poll() is None:
            return
        program = f"from tools.chaos.programs import run; raise SystemExit(run({self._command!r}))"
        with (output or self.log).open("ab") as log:
            words = [*wrapper, sys.executable, "-W", "error", "-c", program, *self._flags]
            where: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": log,
                "cwd": ROOT,
            }
            self._process = subprocess.Popen(
                words, env=self._environment, start_new_session=True, **where
            )

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, and what it started, and leave it so."""
        self._is_wanted = False
        if self._process is None:
            return
        # The worker dies with the agent by itself; a stopped one may not.
        children = self.children()
        self.signal(signal.SIGCONT)
        self.signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()

    def expect(self) -> None:
        """Take it for granted that it runs: should it not, it ended by itself."""
        self._is_wanted = True

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def children(self) -> list[psutil.Process]:
        """The processes that it started."""
        with contextlib.suppress(psutil.Error):
            return list(psutil.Process(self.pid).children(recursive=True))
        return []

    def died(self) -> str:
        """How it ended by itself; empty when it did not."""
        if not self._is_wanted or self._process is None:
            return ""
        code = self._process.poll()
        if code is None:
            return ""
        lines = self.output().strip().splitlines()
        last = lines[-1] if lines else "its log is empty"
        return f"{self.name} ended with code {code}: {last}"

    def output(self) -> str:
        """Its log."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def trouble(self) -> str:
        """What its own probes report as wrong; empty when they are fine."""
        for path in ("/healthz", "/readyz"):
            try:
                answer = self._http.request("GET", path)
            except OSError as error:
                return f"{self.name} {path}: {error}"
            if answer.code != 200:
                return f"{self.name} {path}: {answer.body}"
        return ""

    def leads(self) -> bool:
        """Whether it says that it leads."""
        with contextlib.suppress(OSError):
            return "toposcope_leader 1.0" in str(self._http.request("GET", "/metrics").body)
        return False

    def size(self) -> Size | None:
        """What it holds; None while it does not run."""
        try:
            processes = [psutil.Process(self.pid), *self.children()]
            return Size(
                sum(process.memory_info().rss for process in processes) / _MIB,
                sum(process.num_fds() for process in processes),
                sum(process.num_threads() for process in processes),
                sum(len(process.memory_maps(grouped=False)) for process in processes),
            )
        except psutil.Error:
            return None


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a world is, and how fast its programs' clocks run."""

    agents: int = 4
    agent_speed: float = 12.0
    controller_speed: float = 4.0
    look: float = 0.2
    """Seconds between two looks at whether all is well."""

    @property
    def patience(self) -> float:
        """Seconds in which all has to be well once every fault is healed."""
        return _SLOWEST_SECONDS + max(_SLOWEST_SECONDS, _SILENCE_SECONDS / self.controller_speed)

    @property
    def lease(self) -> int:
        """Seconds that the controllers' Lease lasts, by their own clock."""
        return max(3, round(_LEASE_SECONDS * self.controller_speed))


@dataclass
class Actor:
    """One program with what a fault may take hold of."""

    program: Program
    proxy: Proxy
    token: Path
    wall: Path
    pod: dict[str, Any] = field(default_factory=dict)
    machine: Machine | None = None

    @property
    def name(self) -> str:
        """As schedules call it."""
        return self.program.name
