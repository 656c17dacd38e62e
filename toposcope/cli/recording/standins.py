"""Stand-ins for whatever identifies a machine: equal, or zero, where the originals are.

They are numbered in the order in which they turn up. A hash would not do: serial numbers have so
few digits that one could try them all.

Only what is listed here is kept. Everything else is replaced, or refused where its parts are not
known.
"""

import re
import uuid
from collections import defaultdict
from typing import Any, Final

import msgspec
import pynvml

from toposcope.agent.vpd import parse_vpd
from toposcope.simulator.recording import (
    Call,
    Entry,
    File,
    Filled,
    Folder,
    Link,
    Raised,
    RecordingError,
    StructMemory,
    Value,
)

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

_HARMLESS_TEXT: Final = frozenset({"nvmlSystemGetDriverVersion", "nvmlDeviceGetName"})
"""Functions whose text says what a machine is made of, and not which one it is."""

_HARMLESS_FILES: Final = frozenset(
    {
        "vendor",
        "device",
        "class",
        "numa_node",
        "local_cpulist",
        "link_layer",
        "state",
        "cpulist",
        "distance",
        "online",
        "ibdev",
    }
)

_STRUCTS: Final[dict[str, tuple[str, ...]]] = {
    "nvmlPciInfo_t": (),
    "c_nvmlGpuFabricInfo_t": ("clusterUuid",),
    "c_nvmlGpuFabricInfo_v2_t": ("clusterUuid",),
    "c_nvmlGpuFabricInfo_v3_t": ("clusterUuid",),
    "c_nvmlGpuFabricInfo_v4_t": ("clusterUuid",),
    "c_nvmlPlatformInfo_v1_t": ("ibGuid", "rackGuid"),
    "c_nvmlPlatformInfo_v2_t": ("ibGuid", "chassisSerialNumber"),
}
"""Structs, and the members that identify the machine, its chassis or its fabric."""


class StandIns:
    """The stand-ins of one recording."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, dict[object, int]] = defaultdict(dict)

    def call(self, call: Call) -> Call:
        """The call with stand-ins in its answer.

        Raises RecordingError for a struct whose members are not known.
        """
        answer = call.answer
        match answer:
            case Value(str() as text) if call.name not in _HARMLESS_TEXT:
                answer = Value(self.text(text))
            case StructMemory():
                answer = self._struct(call.name, answer)
            case Filled(memory, value):
                answer = Filled(self._struct(call.name, memory), value)
            case Raised(error, code, text):
                answer = Raised(error, code, self.uuids(text))
        return msgspec.structs.replace(call, answer=answer)

    def entry(self, entry: Entry) -> Entry:
        """A file, folder or link of sysfs. Virtual machines have UUIDs in their paths."""
        path = self.uuids(entry.path)
        match entry:
            case File(_, text):
                _, _, name = path.rpartition("/")
                if name == "vpd":
                    text = self.vpd(text)
                elif name == "node_guid":
                    text = self.guid(text)
                elif name not in _HARMLESS_FILES:
                    text = self.text(text)
                return File(path, text)
            case Folder(_, names):
                return Folder(path, [self.uuids(name) for name in names])
            case Link(_, target):
                return Link(path, self.uuids(target))

    def text(self, text: str) -> str:
        """An identity of any form: UUIDs are replaced in place, anything else by as many digits."""
        if _UUID.search(text):
            return self.uuids(text)
        return self._serial(text, len(text))

    def uuids(self, text: str) -> str:
        """Text with stand-ins for the UUIDs in it."""

        def stand_in(match: re.Match[str]) -> str:
            original = uuid.UUID(match[0])
            return str(self._uuid(original))

        return _UUID.sub(stand_in, text)

    def guid(self, text: str) -> str:
        """An InfiniBand GUID as the kernel writes it: `b83f:d203:00d2:c1a6`."""
        is_zero = not text.strip("0:")
        if is_zero:
            return text
        number = self._number("guid", text.lower())
        digits = f"{number:016x}"
        return f"{digits[:4]}:{digits[4:8]}:{digits[8:12]}:{digits[12:]}"

    def vpd(self, text: str) -> str:
        """Vital product data: the card's UUID is replaced, the submodel says what it is."""
        original = parse_vpd(text.encode())
        card = self.text(original.card)
        return original._replace(card=card).text

    def _uuid(self, original: uuid.UUID) -> uuid.UUID:
        if not original.int:
            return original
        number = self._number("uuid", original)
        return uuid.UUID(int=number, version=4)

    def _serial(self, original: object, digits: int) -> str:
        if not digits:
            return ""
        number = self._number("serial", original)
        return str(number).zfill(digits)

    def _number(self, kind: str, original: object) -> int:
        numbers = self._numbers[kind]
        return numbers.setdefault(original, len(numbers) + 1)

    def _struct(self, name: str, memory: StructMemory) -> StructMemory:
        if memory.type not in _STRUCTS:
            raise RecordingError(
                f"{name} answers with {memory.type}, and nobody said which of its members "
                "identify the machine: list them in toposcope/cli/recording/standins.py"
            )

        content = bytearray.fromhex(memory.bytes)
        struct = getattr(pynvml, memory.type)
        for member in _STRUCTS[memory.type]:
            place: Any = getattr(struct, member)
            end = place.offset + place.size
            original = bytes(content[place.offset : end])
            content[place.offset : end] = self._member(member, original)
        return StructMemory(memory.type, content.hex())

    def _member(self, member: str, original: bytes) -> bytes:
        if not any(original):
            return original
        size = len(original)
        if member == "clusterUuid":
            cluster = uuid.UUID(bytes=original)
            return self._uuid(cluster).bytes
        if member == "ibGuid":
            number = self._number("guid", original)
            return number.to_bytes(size, "big")

        text, _, _ = original.partition(b"\0")  # what follows the text may be anything
        serial = self._serial(original, len(text))
        return serial.encode().ljust(size, b"\0")
