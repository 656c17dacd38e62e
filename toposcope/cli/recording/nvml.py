"""An NVML that notes every call and its answer."""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

import msgspec

from toposcope.agent.nvml.gateway import NOT_SUPPORTED
from toposcope.simulator import recording
from toposcope.simulator.recording import argument as argument_of

_DEVICES: Final[dict[str, Callable[..., str]]] = {
    "nvmlDeviceGetHandleByIndex": lambda index: f"gpu:{index}",
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu, slot: f"{gpu}/mig:{slot}",
}
"""The functions that hand out a device, and the name that a recording gives it."""


class RecordingNvml:
    """Answers like the module it is given, and notes each call as a line for `calls_in`.

    A line is noted before the call and another after it, so that a call that never returns is on
    record, too.
    """

    def __init__(
        self, module: Any, note: Callable[[bytes], object], clock: Callable[[], int]
    ) -> None:
        self._module = module
        self._note = note
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        is_function = callable(member) and not isinstance(member, type)
        if is_function and name.startswith("nvml"):
            return partial(self._call, name, member)
        return member

    def nvmlEventSetCreate(self) -> NoReturn:  # noqa: N802 - NVML's name
        """Refuse to listen for events: that is no part of a probe, and would outlast it."""
        raise self._module.NVMLError(NOT_SUPPORTED)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        named = [argument_of(value) for value in arguments]
        self._write(recording.Call(name, named, recording.Silence()))
        real = []
        for value in arguments:
            real.append(value.real if isinstance(value, recording.Handle) else value)

        start = self._clock()
        try:
            result = function(*real)
        except (
            self._module.NVMLError,
            self._module.NVMLLibraryMismatchError,
            UnicodeDecodeError,
        ) as error:
            microseconds = self._microseconds_since(start)
            raised = self._raised(error)
            self._write(recording.Call(name, named, raised, microseconds))
            raise

        microseconds = self._microseconds_since(start)
        if name in _DEVICES:
            name_of_device = _DEVICES[name]
            result = recording.Handle(name_of_device(*named), result)

        answer = _answer(name, arguments, result)
        self._write(recording.Call(name, named, answer, microseconds))
        return result

    def _microseconds_since(self, start: int) -> float:
        return (self._clock() - start) / 1000

    def _raised(self, error: Any) -> recording.Raised:
        if isinstance(error, self._module.NVMLError):
            code = int(error.value)
            return recording.Raised("NVMLError", code, str(error))
        # The bytes that are no text may be a serial number: only the reason is kept.
        text = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        return recording.Raised(type(error).__name__, 0, text)

    def _write(self, call: recording.Call) -> None:
        self._note(msgspec.json.encode(call) + b"\n")


def _answer(name: str, arguments: tuple[Any, ...], result: Any) -> recording.Answer:
    if isinstance(result, recording.Handle):
        return recording.RecordedDevice(result.name)

    for value in arguments:
        if hasattr(value, "_obj"):  # of byref
            target = value._obj  # noqa: SLF001 - byref's target
            return recording.Filled(_memory(target), result)

    if isinstance(result, ctypes.Structure):
        return _memory(result)
    if isinstance(result, ctypes.Array):
        return recording.Fields([_field_value(entry) for entry in result])
    if result is None or isinstance(result, int | str | list):
        return recording.Value(result)

    raise TypeError(
        f"{name} answered a {type(result).__name__}: "
        "teach toposcope/cli/recording/nvml.py to write it down"
    )


def _field_value(entry: Any) -> recording.FieldValue:
    return recording.FieldValue(
        field=entry.fieldId,
        scope=entry.scopeId,
        value=entry.value.ullVal,
        type=entry.valueType,
        status=entry.nvmlReturn,
    )


def _memory(struct: Any) -> recording.StructMemory:
    name = type(struct).__name__
    content = bytes(struct)
    return recording.StructMemory(name, content.hex())


def calls_in(journal: bytes) -> list[recording.Call]:
    """The calls that were noted; only the last one can be without an answer."""
    calls: list[recording.Call] = []
    for line in journal.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # its writer died in the middle of it
        call = msgspec.json.decode(line, type=recording.Call)
        if calls and isinstance(calls[-1].answer, recording.Silence):
            calls.pop()
        calls.append(call)
    return calls
