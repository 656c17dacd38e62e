"""A recorded machine: its NVML answers, and its part of /sys, as they were."""

import ctypes
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import pynvml

from simulator.recording import (
    Answer,
    Device,
    Entry,
    Fields,
    FieldValue,
    File,
    Filled,
    Folder,
    Handle,
    Link,
    Memory,
    Raised,
    Recording,
    RecordingError,
    Silence,
    Value,
    argument,
    question,
)


class NotRecorded(RecordingError, AttributeError):
    """A function that was never called while the machine was recorded: as good as absent."""


class ReplayedNvml:
    """Answers like the module `pynvml` did on the recorded machine.

    A question that was asked several times is answered in the order of the recording; the last answer stays. Raises
    NotRecorded for a function that was never asked, RecordingError for arguments that it was never asked with and for
    a call that the machine never answered.
    """

    def __init__(self, recording: Recording) -> None:
        self._functions = {call.name for call in recording.calls}
        self._answers: dict[bytes, list[Answer]] = {}
        for call in reversed(recording.calls):
            self._answers.setdefault(question(call.name, call.arguments), []).append(call.answer)

    def __getattr__(self, name: str) -> Any:
        if name in self._functions:
            return partial(self._ask, name)
        found = getattr(pynvml, name)
        if name.startswith("nvml") and callable(found) and not isinstance(found, type):
            # Handing out the real function would ask the real driver.
            raise NotRecorded(f"the recording holds no call of {name}: record the machine again with this version")
        return found

    def _ask(self, name: str, *arguments: Any) -> Any:
        asked = question(name, [argument(value) for value in arguments])
        answers = self._answers.get(asked)
        if answers is None:
            raise RecordingError(
                f"the recording holds no answer to {asked.decode()}: record the machine again with this version"
            )
        match answers.pop() if len(answers) > 1 else answers[0]:
            case Value(value):
                return value
            case Device(device):
                return Handle(device)
            case Memory() as memory:
                return _struct(memory)
            case Filled(memory, value):
                _fill(next(each for each in arguments if hasattr(each, "_obj")), memory)
                return value
            case Fields(fields):
                return _field_values(fields)
            case Raised() as raised:
                _raise(raised)
            case Silence():
                raise RecordingError(f"the recorded machine never answered {asked.decode()}: it hung or crashed there")


def _struct(memory: Memory) -> Any:
    kind = getattr(pynvml, memory.type, None)
    if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
        raise RecordingError(f"struct {memory.type}: the installed nvidia-ml-py does not have it; install a newer one")
    content = bytes.fromhex(memory.bytes)
    if len(content) != ctypes.sizeof(kind):
        raise RecordingError(f"struct {memory.type}: {len(content)} bytes recorded, it has {ctypes.sizeof(kind)}")
    return kind.from_buffer_copy(content)


def _fill(reference: Any, memory: Memory) -> None:
    target, source = reference._obj, _struct(memory)  # noqa: SLF001 - what `ctypes.byref` refers to
    if type(target) is not type(source):
        raise RecordingError(f"struct {memory.type}: recorded as the answer to a call with {type(target).__name__}")
    ctypes.pointer(target)[0] = source


def _field_values(fields: list[FieldValue]) -> Any:
    values = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for entry, field in zip(values, fields, strict=True):
        entry.fieldId, entry.scopeId = field.field, field.scope
        entry.valueType, entry.nvmlReturn = field.type, field.status
        entry.value.ullVal = field.value
    return values


def _raise(raised: Raised) -> NoReturn:
    if raised.error == "NVMLError":
        kind = type(pynvml.NVMLError(raised.code))
        # The text of a code that the binding does not know comes from the driver, and there is none here.
        raise type(kind.__name__, (kind,), {"__str__": lambda _: raised.text})(raised.code)
    if raised.error == "UnicodeDecodeError":
        raise UnicodeDecodeError("utf-8", b"?", 0, 1, raised.text)
    raise pynvml.NVMLLibraryMismatchError(raised.text)


def write_recorded_sysfs(recording: Recording, root: Path) -> None:
    """Write the recorded part of /sys into `root`. Raises RecordingError for a tree that would leave `root`."""
    _check(recording.sysfs)
    for entry in sorted(recording.sysfs, key=lambda entry: isinstance(entry, Link)):  # links last: no write follows one
        place = root / entry.path
        folder = place if isinstance(entry, Folder) else place.parent
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, File):
            place.write_text(entry.text + "\n", encoding="utf-8")
        elif isinstance(entry, Link):
            place.symlink_to(entry.target)
    for entry in recording.sysfs:
        if isinstance(entry, Folder):
            for name in entry.names:
                # Listed, but never looked into: what it is does not matter, that it is there does.
                if not (root / entry.path / name).is_symlink():
                    (root / entry.path / name).touch()


def _check(entries: Iterable[Entry]) -> None:
    """Recordings come from anybody: none may write or read outside of its tree. Raises RecordingError."""
    leaves = set()
    for entry in entries:
        parts = _plain(entry.path, entry.path)
        if isinstance(entry, Link):
            # The kernel's form: up to a folder that both share, then down. No name may be followed by `..` again: the
            # name could be a link, and then nobody knows by reading where the `..` leads.
            down = entry.target
            up = 0
            while down.startswith("../"):
                down, up = down[3:], up + 1
            if up >= len(parts):
                raise RecordingError(f"sysfs: {entry.path}: its target {entry.target!r} is outside of /sys")
            _plain(down, f"{entry.path}: target {entry.target!r}")
        for name in entry.names if isinstance(entry, Folder) else ():
            if len(_plain(name, f"{entry.path}: name {name!r}")) > 1:
                raise RecordingError(f"sysfs: {entry.path}: name {name!r} is a path; write names only")
        if not isinstance(entry, Folder):
            if entry.path in leaves:
                raise RecordingError(f"sysfs: {entry.path}: is there twice")
            leaves.add(entry.path)
    for entry in entries:
        below = next((str(up) for up in PurePosixPath(entry.path).parents if str(up) in leaves), None)
        if below or (isinstance(entry, Folder) and entry.path in leaves):
            raise RecordingError(f"sysfs: {entry.path}: lies below {below or entry.path}, which is no folder")


def _plain(path: str, where: str) -> tuple[str, ...]:
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise RecordingError(f"sysfs: {where}: write a path below /sys without `.` and `..`")
    return parts
