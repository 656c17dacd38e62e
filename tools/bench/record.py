"""Makes the machine that agents are measured on: a sysfs tree, and a tape of what NVML answers to an agent."""

import ctypes
import marshal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from tools.bench.replay import Call, key
from toposcope.agent.nvml.events import EventWatch
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs


class Recorder:
    """Answers like the NVML it is given, and notes each call with its answer. Handles become strings."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles: dict[str, Any] = {}
        self.tape: dict[Call, tuple[Any, ...]] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        """Every call in order, with the arguments themselves."""

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._nvml, name)
        is_call = name.startswith("nvml") and callable(member) and not isinstance(member, type)
        return partial(self._call, name, member) if is_call else member

    def _call(self, name: str, function: Any, *arguments: Any) -> Any:
        self.calls.append((name, arguments))
        real = [self._handles.get(value, value) if isinstance(value, str) else value for value in arguments]
        where = (name, tuple(key(argument) for argument in arguments))
        try:
            answer = function(*real)
        except pynvml.NVMLError as error:
            self.tape[where] = ("error", int(error.value))
            raise
        answer, self.tape[where] = self._noted(answer, arguments)
        return answer

    def _noted(self, answer: Any, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The answer to give, and its entry on the tape."""
        for position, argument in enumerate(arguments):
            if hasattr(argument, "_obj"):
                return answer, ("filled", position, bytes(argument._obj), answer)  # noqa: SLF001 - byref's target
        if isinstance(answer, ctypes.Structure):
            return answer, ("struct", type(answer).__name__, bytes(answer))
        if isinstance(answer, ctypes.Array):
            return answer, ("array", answer._type_.__name__, len(answer), bytes(answer))
        if answer is None or isinstance(answer, int | str | list):
            return answer, ("plain", answer)
        token = next((known for known, handle in self._handles.items() if handle == answer), None)
        if token is None:
            token = f"handle {len(self._handles)}"
            self._handles[token] = answer
        return token, ("plain", token)


@dataclass(frozen=True, slots=True)
class RecordedMachine:
    """A machine in two files: what the agent finds in `sysfs`, and the `tape` of what NVML answers."""

    sysfs: Path
    tape: Path
    raw: RawNode
    """What the probe saw while the tape ran."""
    calls: list[tuple[str, tuple[Any, ...]]]
    """The NVML calls of one probe."""

    @property
    def environment(self) -> dict[str, str]:
        """Where the programs of a benchmark find it."""
        return {"BENCH_TAPE": str(self.tape), "BENCH_SYSFS": str(self.sysfs)}


def record(profile: str, folder: Path) -> RecordedMachine:
    """Probe a simulated machine once and write down everything that an agent needs to see it again."""
    machine = load_profile(profile)
    sysfs, tape = folder / "sys", folder / "nvml.tape"
    write_sysfs(machine, sysfs)
    recorder = Recorder(SimulatedNvml(machine))
    nvml = Nvml(recorder)
    started = nvml.start()
    recorder.calls.clear()  # nvmlInit is called once in a process, not in every probe
    raw = probe(nvml, Sysfs(sysfs), started)
    calls = list(recorder.calls)
    EventWatch(nvml).arm()
    tape.write_bytes(marshal.dumps(recorder.tape))
    return RecordedMachine(sysfs, tape, raw, calls)
