"""The machine that agents are measured on.

It is a sysfs tree, and the table from which a libnvidia-ml in C answers.
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
    """What the agent finds: files in `sysfs`, NVML's answers in `table`; a probe saw `raw`."""

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


def make(profile: str, folder: Path, *, has_events: bool = True) -> Machine:
    """Write a simulated machine down where agents find it."""
    machine = load_profile(profile)
    sysfs = folder / "sys"
    write_sysfs(machine, sysfs)
    simulated = SimulatedNvml(machine)
    lines = []
    for line in lines_of(simulated):
        if has_events or "EventTypes" not in line:
            lines.append(line)

    noted: list[bytes] = []
    clock = itertools.count()
    recording = RecordingNvml(simulated, noted.append, clock.__next__)
    nvml = Nvml(recording)
    started = nvml.start()

    noted.clear()
    probe(nvml, Sysfs(sysfs), started)
    first_calls = _calls(noted)
    noted.clear()
    raw = probe(nvml, Sysfs(sysfs), started)
    later_calls = _calls(noted)

    machine_files = Machine(
        sysfs=sysfs,
        table=folder / "table",
        raw=raw,
        lines=lines,
        calls=first_calls,
        calls_at_rest=later_calls,
    )
    machine_files.fault()
    return machine_files


def _calls(recorded: list[bytes]) -> list[tuple[str, tuple[Any, ...]]]:
    """The NVML calls of a recording, as `floor.ask` takes them."""
    calls = []
    for call in calls_in(b"".join(recorded)):
        arguments = tuple(map(_plain, call.arguments))
        calls.append((call.name, arguments))
    return calls


def _plain(argument: Argument) -> Any:
    return ("struct", argument.struct) if isinstance(argument, Reference) else argument
