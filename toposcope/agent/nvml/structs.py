"""The NVML answers that are read from raw memory: field values, fabric and platform information.

The binding's own view of these structs is wrong in places: it reads four bytes where C has one and
padding, types numbers as characters, and cuts byte strings at a zero. Layouts: nvml.h,
nvmlGpuFabricInfo_t, _v2_t, _v3_t, _v4_t and nvmlPlatformInfo_v2_t. Field values (nvmlFieldValue_t)
are right there, but a probe reads 300 of them, and the binding calls a Python function for each.
"""

import struct
from ctypes import addressof, byref, sizeof, string_at
from typing import Any, Final

from toposcope.agent.nvml.gateway import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NOT_SUPPORTED,
    Nvml,
    NvmlReturn,
)
from toposcope.agent.raw import RawFabric, RawPlatform

_UUID_BYTES: Final = 16
_UNICAST_POINTER: Final = 0
"""NVML_GPU_FABRIC_CLIQUE_TYPE_UNICAST_POINTER.

Its first entry is what older layouts call the clique id.
"""

_FABRIC: Final = (
    ("c_nvmlGpuFabricInfo_v4_t", "nvmlDeviceGetGpuFabricInfo_v4"),
    ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
    ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
    ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
)
"""Newest first; the first two bindings that are supported lack the v4 struct."""
_LAYOUT: Final = ("fabric layout",)
"""What `Nvml` remembers the newest layout of the driver by."""

_PLATFORM: Final = struct.Struct("<I16s16s5B")


_FIELD: Final = struct.Struct("=IIqqIII4x")
"""Field, scope, timestamp, latency, type, status, and the value.

The value is taken as an unsigned integer of four bytes.
"""
_SUCCESS: Final = 0


def bus_id(pci: Any) -> str:
    """The address in a nvmlPciInfo_t, whatever its bytes are.

    The binding's attribute raises for what is no text.
    """
    field = type(pci).busId
    place = addressof(pci) + field.offset
    memory = string_at(place, field.size)
    text, _, _ = memory.partition(b"\0")
    return text.decode("ascii", "replace")


def read_fields(nvml: Nvml, handle: Any, wanted: list[Any]) -> dict[tuple[int, int], int]:
    """The field values by (field, scope), without entries whose own status is an error."""
    answer = nvml.value("nvmlDeviceGetFieldValues", handle, wanted)
    fields = {}
    for field, scope, _, _, _, status, value in _FIELD.iter_unpack(bytes(answer or b"")):
        if status == _SUCCESS:
            fields[field, scope] = value
        else:
            text = "GPU is lost" if status == GPU_IS_LOST else "GPU requires restart"
            nvml.note_loss(NvmlReturn(status, text))
    return fields


def read_fabric(nvml: Nvml, handle: Any) -> RawFabric | NvmlReturn:
    """Fabric information in the newest layout that driver and binding know.

    A driver that lacks a layout answers ArgumentVersionMismatch or InvalidArgument, one that lacks
    the call FunctionNotFound: each falls through to the next older one. Every try gets a fresh
    struct.
    """
    refused = NvmlReturn(NOT_SUPPORTED, "no fabric call answered")
    known = nvml.recall(_LAYOUT) or 0
    for number, (layout, function) in enumerate(_FABRIC[known:], known):
        if not (hasattr(nvml.module, layout) and hasattr(nvml.module, function)):
            continue
        info = getattr(nvml.module, layout)()
        answer = nvml.ask(function, handle, byref(info))
        if not isinstance(answer, NvmlReturn):
            nvml.remember(_LAYOUT, number)
            return _fabric(info)
        refused = answer
        if answer.code == NOT_SUPPORTED:
            nvml.remember(_LAYOUT, number)
        if not answer.is_absent or answer.code == NOT_SUPPORTED:
            break
    if refused.code == FUNCTION_NOT_FOUND:
        nvml.remember(_LAYOUT, len(_FABRIC))  # the driver has no such call
    return refused


def _fabric(info: Any) -> RawFabric:
    if hasattr(info, "cliques"):
        cliques = _cliques(info)
        clique = _unicast_clique(cliques)
    else:
        clique = int(info.cliqueId)
        cliques = ((_UNICAST_POINTER, clique),)
    return RawFabric(
        # One byte and padding in C, four bytes in the binding: the rest is whatever was there.
        state=int(info.state) & 0xFF,
        status=int(info.status),
        uuid=string_at(addressof(info) + type(info).clusterUuid.offset, _UUID_BYTES).hex(),
        clique=clique,
        cliques=cliques,
        health_mask=getattr(info, "healthMask", None),
        health_summary=getattr(info, "healthSummary", None),
    )


def _unicast_clique(cliques: tuple[tuple[int, int], ...]) -> int | None:
    for kind, number in cliques:
        if kind == _UNICAST_POINTER:
            return number
    return None


def _cliques(info: Any) -> tuple[tuple[int, int], ...]:
    count = min(info.numCliques, len(info.cliques))
    cliques = []
    for clique in info.cliques[:count]:
        kind = int(clique.type)
        cliques.append((kind, int(clique.id)))
    return tuple(cliques)


def read_platform(nvml: Nvml, handle: Any) -> RawPlatform | None:
    """Where the GPU's tray sits, on GB200 and later; None elsewhere."""
    answer = ask_platform(nvml, handle)
    return None if isinstance(answer, NvmlReturn) else answer


def ask_platform(nvml: Nvml, handle: Any) -> RawPlatform | NvmlReturn:
    """Platform information, or why there is none. Both layouts are the same but for names."""
    refused = NvmlReturn(NOT_SUPPORTED, "no platform call answered")
    for layout in ("c_nvmlPlatformInfo_v2_t", "c_nvmlPlatformInfo_v1_t"):
        info = getattr(nvml.module, layout)()
        answer = nvml.ask("nvmlDeviceGetPlatformInfo", handle, byref(info))
        if not isinstance(answer, NvmlReturn):
            return _platform(string_at(addressof(info), sizeof(info)))
        refused = answer
        if answer.code != ARGUMENT_VERSION_MISMATCH:
            break
    return refused


def _platform(memory: bytes) -> RawPlatform:
    _, _, chassis, slot, tray, host, peer_type, module = _PLATFORM.unpack_from(memory)
    return RawPlatform(
        # A serial number in ASCII, padded with zeros; other bytes are no serial number.
        chassis=chassis.split(b"\0")[0].decode("ascii", "replace").strip(),
        slot=slot,
        tray=tray,
        host=host,
        module=module,
        peer_type=peer_type,
    )
