"""The machine that agents are measured on.

A sysfs tree, and the table from which a libnvidia-ml in C answers.
"""

import ctypes
import itertools
import marshal
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from tools.libnvml.build import environment, library, lines_of, write_table
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.cli.recording.nvml import RecordingNvml, calls_in
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.recording import Argument, Reference
from toposcope.simulator.sysfs import write_sysfs


@dataclass(frozen=True, slots=True)
class Machine:
    """What the agent finds in `sysfs`, what NVML answers by `table`, and what a probe saw.

    `raw`.
    """

    sysfs: Path
    table: Path
    raw: RawNode
    lines: list[str]
    calls: list[tuple[str, tuple[Any, ...]]]
    """The NVML calls of one probe, as `floor.ask` takes them."""
    calls_at_rest: list[tuple[str, tuple[Any, ...]]]
    """Those of the probes that follow it."""

    @property
    def environment(self) -> dict[str, str]:
        """Where a program finds it."""
        calls = self.table.with_name("calls")
        calls.write_bytes(marshal.dumps(self.calls))
        return {
            **environment(library(), self.table),
            "BENCH_SYSFS": str(self.sysfs),
            "BENCH_CALLS": str(calls),
        }

    def fault(self, *lines: str) -> None:
        """Add to what NVML answers; nothing mends it."""
        write_table(self.table, self.lines, *lines)

    def load(self) -> None:
        """Have this process find the library under its name from now on."""
        os.environ["NVML_TABLE"] = str(self.table)
        ctypes.CDLL(str(library() / "libnvidia-ml.so.1"))
        pynvml.nvmlInit()


def make(profile: str, folder: Path, *, events: bool = True) -> Machine:
    """Write a simulated machine down where agents find it."""
    machine = load_profile(profile)
    write_sysfs(machine, folder / "sys")
    simulated = SimulatedNvml(machine)
    lines = [line for line in lines_of(simulated) if events or "EventTypes" not in line]
    noted: list[bytes] = []
    nvml = Nvml(RecordingNvml(simulated, noted.append, itertools.count().__next__))
    started = nvml.start()
    asked = []
    for _ in range(2):
        noted.clear()
        raw = probe(nvml, Sysfs(folder / "sys"), started)
        asked.append(
            [(call.name, tuple(map(_plain, call.arguments))) for call in calls_in(b"".join(noted))]
        )
    made = Machine(folder / "sys", folder / "table", raw, lines, *asked)
    made.fault()
    return made


def _plain(argument: Argument) -> Any:
    return ("struct", argument.struct) if isinstance(argument, Reference) else argument
