"""An NVML that answers from a tape, as light as can be: beside it stands only NVIDIA's binding, for its structs.

A simulated machine would bring its own code, a profile and a YAML parser into the process that is measured, and the
recordings of `toposcope discover --record` are made to be read by people and checked. A tape is a table of calls and
answers that nobody else reads (see `tools.bench.record`); looking one up costs about what a call through ctypes does.
"""

import ctypes
import marshal
import time
from functools import partial
from pathlib import Path
from typing import Any

Call = tuple[str, tuple[Any, ...]]
"""A function's name and its arguments as `key` writes them."""


def key(argument: Any) -> Any:
    """An argument as the tape names it: a struct passed by reference is known by its type."""
    if isinstance(argument, list):
        return tuple(argument)
    struct = getattr(argument, "_obj", None)
    return argument if struct is None else type(struct).__name__


class Replay:
    """Answers like the module `pynvml`. Raises LookupError for arguments that are not on the tape."""

    def __init__(self, tape: Path) -> None:
        import pynvml  # noqa: PLC0415 - only the process that probes pays for it

        self._pynvml = pynvml
        self._answers: dict[Call, tuple[Any, ...]] = marshal.loads(tape.read_bytes())  # noqa: S302 - this run wrote it
        self._functions = {name for name, _ in self._answers}

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._pynvml, name)
        if not name.startswith("nvml") or not callable(member) or isinstance(member, type):
            return member
        function = partial(self._answer, name) if name in self._functions else self._refuse
        setattr(self, name, function)  # found without this method from now on
        return function

    def nvmlEventSetWait_v2(self, _events: Any, milliseconds: int) -> None:  # noqa: N802 - NVML's name
        """Nothing happens to a recorded machine."""
        time.sleep(milliseconds / 1000)
        raise self._pynvml.NVMLError(self._pynvml.NVML_ERROR_TIMEOUT)

    def _refuse(self, *_: Any) -> None:
        """Answer what was not recorded as an older driver does."""
        raise self._pynvml.NVMLError(self._pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def _answer(self, name: str, *arguments: Any) -> Any:
        match self._answers[name, tuple([key(argument) for argument in arguments])]:
            case ("plain", answer):
                return answer
            case ("error", code):
                raise self._pynvml.NVMLError(code)
            case ("struct", kind, memory):
                return getattr(self._pynvml, kind).from_buffer_copy(memory)
            case ("array", kind, length, memory):
                return (getattr(self._pynvml, kind) * length).from_buffer_copy(memory)
            case ("filled", position, memory, answer):
                ctypes.memmove(ctypes.addressof(arguments[position]._obj), memory, len(memory))  # noqa: SLF001 - byref's target
                return answer
        raise LookupError(f"the tape's entry for {name} is none that this class knows")


class FaultyReplay(Replay):
    """A machine on which the file `fault` says what is broken: `link` or `gpu`; read once in each probe."""

    def __init__(self, tape: Path, fault: Path) -> None:
        super().__init__(tape)
        self._fault = fault
        self._broken = ""

    def nvmlEventSetWait_v2(self, events: Any, _milliseconds: int) -> None:  # noqa: N802 - NVML's name
        """Nothing happens, and soon: a sync must not wait for it."""
        super().nvmlEventSetWait_v2(events, 1)

    def _answer(self, name: str, *arguments: Any) -> Any:
        if name.startswith("nvmlDeviceGetCount"):
            self._broken = self._fault.read_text(encoding="ascii") if self._fault.exists() else ""
        if name == "nvmlDeviceGetNvLinkState":
            if self._broken == "link" and arguments[1:] == (0,):
                return 0  # down
            if self._broken == "gpu":
                raise self._pynvml.NVMLError(self._pynvml.NVML_ERROR_GPU_IS_LOST)
        return super()._answer(name, *arguments)
