"""A recording: what one probe asked NVML and sysfs, their answers, and a replay of the machine.

It is JSON with one call or path a line; tests/recordings/README.md describes it. `toposcope
discover --record` writes it. Nothing in it identifies the machine: the writer puts stand-ins into
it.
"""

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec
import pynvml

from toposcope.errors import ToposcopeError

SCHEMA: Final = "toposcope-recording/1"
_FAMILY: Final = SCHEMA.partition("/")[0]


class RecordingError(ToposcopeError, ValueError):
    """A recording that cannot be written, read or replayed.

    The message names the call, path or field.
    """


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="value"):
    """A number, text or list of numbers."""

    value: int | str | list[int] | None


class RecordedDevice(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="device"
):
    """A handle, by the name that later arguments give it."""

    name: str


class StructMemory(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="struct"
):
    """The bytes of a struct, in hexadecimal; `type` is its name in `pynvml`."""

    type: str
    bytes: str

    def __post_init__(self) -> None:
        """Refuse anything but hexadecimal. Raises ValueError."""
        bytes.fromhex(self.bytes)


class Filled(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="filled"
):
    """The struct that was passed by reference, after the call, and what the call returned."""

    struct: StructMemory
    value: int | None


class FieldValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One c_nvmlFieldValue_t.

    `value` is the union as one 64-bit number, `type` says which member counts.
    """

    field: int
    scope: int
    value: int
    type: int
    status: int


class Fields(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fields"
):
    """The array that nvmlDeviceGetFieldValues returns."""

    fields: list[FieldValue]


class Raised(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="error"
):
    """An exception: its class in `pynvml` or Python, its text, and the code of an NVMLError."""

    error: str
    code: int
    text: str


class Silence(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="silence"
):
    """No answer: the call hung, or took its process down."""


Answer: TypeAlias = Value | RecordedDevice | StructMemory | Filled | Fields | Raised | Silence


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A struct passed by reference: its type, and its version member where it has one."""

    struct: str
    version: int | None = None


Argument: TypeAlias = int | str | list[int | tuple[int, int]] | Reference
"""Text is the name of a handle."""


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One NVML call; `us` is how long it took, in microseconds."""

    name: str
    arguments: list[Argument]
    answer: Answer
    us: float = 0.0


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """A file of sysfs without the white space around its text.

    Paths start below /sys and pass through no link.
    """

    path: str
    text: str


class Folder(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="folder"
):
    """A folder of sysfs that was listed, or looked at by its path alone."""

    path: str
    names: list[str]


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="link"):
    """A symbolic link of sysfs; the target is relative, and its `..` come first."""

    path: str
    target: str


Entry: TypeAlias = File | Folder | Link


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One probe of one machine."""

    schema: str = SCHEMA
    toposcope: str
    """Version of the program that recorded."""
    pynvml: str
    """Version of the distribution nvidia-ml-py that it asked NVML through."""
    driver: str | None
    date: str
    """YYYY-MM-DD."""
    simulated: bool
    """Whether the machine was a simulated one: then this proves nothing about hardware."""
    calls: list[Call]
    sysfs: list[Entry]


@dataclass(frozen=True, slots=True)
class Handle:
    """What stands for a device while NVML is recorded or replayed.

    `real` is the handle of the recorded NVML.
    """

    name: str
    real: Any = None


class _Head(msgspec.Struct):
    schema: str


def question(name: str, arguments: list[Argument]) -> bytes:
    """The same bytes for the same call with the same arguments."""
    return msgspec.json.encode((name, arguments))


def argument(value: Any) -> Argument:
    """An argument of an NVML call as a recording names it.

    Raises RecordingError for an argument that has no name there.
    """
    if isinstance(value, Handle):
        return value.name
    if isinstance(value, int | list):
        return value
    struct = getattr(value, "_obj", None)  # what `ctypes.byref` refers to
    if struct is None:
        raise RecordingError(
            f"an argument of type {type(value).__name__}: "
            "teach toposcope/simulator/recording.py to name it"
        )
    return Reference(type(struct).__name__, getattr(struct, "version", None))


def is_recording(content: bytes) -> bool:
    """Whether a file's content calls itself a recording, in any version, damaged or not."""
    is_json = content.lstrip().startswith(b"{")
    family = f'"{_FAMILY}/'
    return is_json and family.encode() in content


def decode(content: bytes, name: str) -> Recording:
    """A recording from the content of the file `name`. Raises RecordingError."""
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema != SCHEMA:
            raise RecordingError(
                f"{name}: schema: is {schema!r} and this version reads {SCHEMA!r}: "
                "replay it with a Toposcope of the "
                "version that recorded it, or record again"
            )
        return msgspec.json.decode(content, type=Recording)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingError(f"{name}: is damaged: {error}; get the file again") from error


def load_recording(path: Path) -> Recording:
    """The recording in a file. Raises RecordingError, OSError."""
    return decode(path.read_bytes(), path.name)


def encode(recording: Recording) -> bytes:
    """The content of a recording's file: short facts first, then one call or path a line."""
    fields = []
    for name in recording.__struct_fields__:
        value = getattr(recording, name)
        text = msgspec.json.encode(value)
        if isinstance(value, list):
            lines = [msgspec.json.encode(item) for item in value]
            joined = b",\n  ".join(lines)
            text = b"[\n  " + joined + b"\n ]"
        field = b' "%s": %s' % (name.encode(), text)
        fields.append(field)

    content = b",\n".join(fields)
    return b"{\n" + content + b"\n}\n"


# The recorded machine


class NotRecordedError(RecordingError, AttributeError):
    """A function that was never called while the machine was recorded: as good as absent."""


_ALWAYS_CALLED: Final = frozenset({"nvmlInit", "nvmlDeviceGetCount"})
"""Without these there is no probe, so their absence is no fact about the machine."""


class ReplayedNvml:
    """Answers like the module `pynvml` did on the recorded machine.

    A question that was asked several times is answered in the order of the recording; the last
    answer stays. Raises NotRecorded for a function that was never asked, RecordingError for
    arguments that it was never asked with and for a call that the machine never answered.
    """

    def __init__(self, recording: Recording) -> None:
        self._functions = {call.name for call in recording.calls}
        self._answers: dict[bytes, list[Answer]] = {}
        for call in reversed(recording.calls):
            call_question = question(call.name, call.arguments)
            if call_question not in self._answers:
                self._answers[call_question] = []
            self._answers[call_question].append(call.answer)

    def __getattr__(self, name: str) -> Any:
        if name in self._functions:
            return partial(self._ask, name)
        function = getattr(pynvml, name)
        if name.startswith("nvml") and callable(function) and not isinstance(function, type):
            # Handing out the real function would ask the real driver.
            error = RecordingError if name in _ALWAYS_CALLED else NotRecordedError
            raise error(
                f"the recording holds no call of {name}: record the machine again with this version"
            )
        return function

    def _ask(self, name: str, *arguments: Any) -> Any:
        call_question = question(name, [argument(value) for value in arguments])
        answers = self._answers.get(call_question)
        if answers is None:
            raise RecordingError(
                f"the recording holds no answer to {call_question.decode()}: "
                "record the machine again with this version"
            )
        answer = answers.pop() if len(answers) > 1 else answers[0]
        return _replayed(answer, arguments, call_question)

    def nvmlEventSetCreate(self) -> NoReturn:  # noqa: N802 - NVML's name
        """Nothing ever happens to a recorded machine: there is nothing to listen to."""
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _replayed(answer: Answer, arguments: tuple[Any, ...], call_question: bytes) -> Any:
    """What a call with these arguments returns, or raises."""
    match answer:
        case Value(value):
            return value
        case RecordedDevice(device):
            return Handle(device)
        case StructMemory() as memory:
            return _struct(memory)
        case Filled(memory, value):
            references = [argument for argument in arguments if hasattr(argument, "_obj")]
            _fill(references[0], memory)
            return value
        case Fields(fields):
            return _field_values(fields)
        case Raised() as raised:
            raise _exception(raised)
        case Silence():
            raise RecordingError(
                f"the recorded machine never answered {call_question.decode()}: "
                "it hung or crashed there"
            )


def _struct(memory: StructMemory) -> Any:
    kind = getattr(pynvml, memory.type, None)
    if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
        raise RecordingError(
            f"struct {memory.type}: the installed nvidia-ml-py does not have it; "
            "install a newer one"
        )
    content = bytes.fromhex(memory.bytes)
    if len(content) != ctypes.sizeof(kind):
        raise RecordingError(
            f"struct {memory.type}: {len(content)} bytes recorded, it has {ctypes.sizeof(kind)}"
        )
    return kind.from_buffer_copy(content)


def _fill(reference: Any, memory: StructMemory) -> None:
    target, source = reference._obj, _struct(memory)  # noqa: SLF001 - what `ctypes.byref` refers to
    if type(target) is not type(source):
        raise RecordingError(
            f"struct {memory.type}: recorded as the answer to a call with {type(target).__name__}"
        )
    ctypes.pointer(target)[0] = source


def _field_values(fields: list[FieldValue]) -> Any:
    values = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for entry, field in zip(values, fields, strict=True):
        entry.fieldId = field.field
        entry.scopeId = field.scope
        entry.valueType = field.type
        entry.nvmlReturn = field.status
        entry.value.ullVal = field.value
    return values


def _exception(raised: Raised) -> Exception:
    if raised.error == "NVMLError":
        kind = type(pynvml.NVMLError(raised.code))
        # The text of a code that the binding does not know comes from the driver, and there is none
        # here.
        error: Exception = type(kind.__name__, (kind,), {"__str__": lambda _: raised.text})(
            raised.code
        )
        return error
    if raised.error == "UnicodeDecodeError":
        return UnicodeDecodeError("utf-8", b"?", 0, 1, raised.text)
    return cast("Exception", pynvml.NVMLLibraryMismatchError(raised.text))


def write_recorded_sysfs(recording: Recording, root: Path) -> None:
    """Write the recorded part of /sys into `root`.

    Raises RecordingError for a tree that would leave `root`.
    """
    _check(recording.sysfs)
    # links last: no write follows one
    for entry in sorted(recording.sysfs, key=lambda entry: isinstance(entry, Link)):
        _write_entry(entry, root / entry.path)
    for entry in recording.sysfs:
        if not isinstance(entry, Folder):
            continue
        for name in entry.names:
            # Listed, but never looked into: what it is does not matter, that it is there does.
            path = root / entry.path / name
            if not path.is_symlink():
                path.touch()


def _write_entry(entry: Entry, place: Path) -> None:
    folder = place if isinstance(entry, Folder) else place.parent
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(entry, File):
        place.write_text(entry.text + "\n", encoding="utf-8")
    elif isinstance(entry, Link):
        place.symlink_to(entry.target)


def _check(entries: Iterable[Entry]) -> None:
    """Refuse a path outside of the recorded tree: recordings come from anybody.

    Raises RecordingError.
    """
    leaves = set()
    for entry in entries:
        _check_path(entry.path, entry.path)
        if isinstance(entry, Folder):
            for name in entry.names:
                _check_path(name.replace("/", "//"), f"{entry.path}: name {name!r}")
            continue
        if isinstance(entry, Link):
            _check_target(entry)
        if entry.path in leaves:
            raise RecordingError(f"sysfs: {entry.path}: appears twice")
        leaves.add(entry.path)
    for entry in entries:
        for folder in _folders(entry):
            if folder in leaves:
                raise RecordingError(
                    f"sysfs: {entry.path}: {folder} is not a folder; "
                    "give the path that passes through no link"
                )


def _folders(entry: Entry) -> Iterator[str]:
    """The paths that have to be folders for an entry to be there."""
    if isinstance(entry, Folder):
        yield entry.path
    for path in PurePosixPath(entry.path).parents:
        yield str(path)


def _check_target(link: Link) -> None:
    """Only the kernel's form: up to a folder that both share, then down.

    A `..` after a name would not do: the name may be a link, and its text does not tell where it
    leads.
    """
    path = link.path
    target = link.target
    below = target.split("/")
    depth = path.count("/")
    while below and below[0] == "..":
        below.pop(0)
        depth -= 1

    if depth < 0:
        raise RecordingError(f"sysfs: {path}: its target {target!r} is outside of /sys")
    if below:
        rest = "/".join(below)
        _check_path(rest, f"{path}: target {target!r}")


def _check_path(path: str, where: str) -> None:
    if any(part in ("", ".", "..") or "\0" in part for part in path.split("/")):
        raise RecordingError(
            f"sysfs: {where}: write names joined by `/`, no `.` or `..` among them"
        )
