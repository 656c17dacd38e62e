"""The format of a recording: what one probe asked NVML and sysfs on a machine, and what they answered.

JSON, one call or path a line; docs/recordings.md shows it. Written by `toposcope discover --record`, read by
`toposcope.simulator.replay`. Nothing in it identifies the machine: the writer puts stand-ins into it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from toposcope.errors import ToposcopeError

SCHEMA: Final = "toposcope-recording/1"
_FAMILY: Final = SCHEMA.partition("/")[0]


class RecordingError(ToposcopeError, ValueError):
    """A recording that cannot be written, read or replayed; the message names the call, path or field."""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="value"):
    """A number, text or list of numbers."""

    value: int | str | list[int] | None


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="device"):
    """A handle, by the name that later arguments give it."""

    name: str


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="struct"):
    """The bytes of a struct, in hexadecimal; `type` is its name in `pynvml`."""

    type: str
    bytes: str

    def __post_init__(self) -> None:
        """Refuse anything but hexadecimal. Raises ValueError."""
        bytes.fromhex(self.bytes)


class Filled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="filled"):
    """The struct that the caller passed by reference, as it was after the call, and what the call returned."""

    struct: Memory
    value: int | None


class FieldValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One c_nvmlFieldValue_t; `value` is the union as one 64-bit number, `type` says which member counts."""

    field: int
    scope: int
    value: int
    type: int
    status: int


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fields"):
    """The array that nvmlDeviceGetFieldValues returns."""

    fields: list[FieldValue]


class Raised(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="error"):
    """An exception: its class in `pynvml` or Python, NVML's code when it is an NVMLError, and its text."""

    error: str
    code: int
    text: str


class Silence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="silence"):
    """No answer: the call hung, or took its process down."""


Answer: TypeAlias = Value | Device | Memory | Filled | Fields | Raised | Silence


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An argument that is a struct passed by reference: its type, and its version member where it has one."""

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
    """A file of sysfs without the white space around its text. Paths start below /sys and pass through no link."""

    path: str
    text: str


class Folder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="folder"):
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
    """What stands for a device while NVML is recorded or replayed; `real` is the handle of the recorded NVML."""

    name: str
    real: Any = None


class _Head(msgspec.Struct):
    schema: str


def question(name: str, arguments: list[Argument]) -> bytes:
    """The same bytes for the same call with the same arguments."""
    return msgspec.json.encode((name, arguments))


def argument(value: Any) -> Argument:
    """An argument of an NVML call as a recording names it. Raises RecordingError for one that it has no words for."""
    if isinstance(value, Handle):
        return value.name
    if isinstance(value, int | list):
        return value
    struct = getattr(value, "_obj", None)  # what `ctypes.byref` refers to
    if struct is None:
        raise RecordingError(
            f"an argument of type {type(value).__name__}: teach toposcope/simulator/recording.py to name it"
        )
    return Reference(type(struct).__name__, getattr(struct, "version", None))


def is_recording(content: bytes) -> bool:
    """Whether a file's content says of itself that it is a recording, in any version, damaged or not."""
    return content.lstrip().startswith(b"{") and f'"{_FAMILY}/'.encode() in content


def decode(content: bytes, name: str) -> Recording:
    """A recording from the content of the file `name`. Raises RecordingError."""
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema != SCHEMA:
            raise RecordingError(
                f"{name}: schema: is {schema!r} and this version reads {SCHEMA!r}: replay it with a Toposcope of the "
                "version that recorded it, or record again"
            )
        return msgspec.json.decode(content, type=Recording)
    except msgspec.MsgspecError as error:
        raise RecordingError(f"{name}: is damaged: {error}; get the file again") from error


def load_recording(path: Path) -> Recording:
    """The recording in a file. Raises RecordingError, OSError."""
    return decode(path.read_bytes(), path.name)


def encode(recording: Recording) -> bytes:
    """The content of a recording's file: short facts first, then one call or path a line."""
    fields = []
    for name in recording.__struct_fields__:
        value = getattr(recording, name)
        lines = b",\n  ".join(map(msgspec.json.encode, value)) if isinstance(value, list) else None
        text = msgspec.json.encode(value) if lines is None else b"[\n  " + lines + b"\n ]"
        fields.append(b' "%s": %s' % (name.encode(), text))
    return b"{\n" + b",\n".join(fields) + b"\n}\n"
