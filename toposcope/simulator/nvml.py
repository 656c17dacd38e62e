# ruff: noqa: N802, N815 - the names of methods are those of NVML
"""A simulated NVML: an object that answers like the module `pynvml` on the machine it is given.

Same function names, structs, error classes and traps; driver calls younger than the machine's
driver do not exist. Behaviour from nvml.h where it says something, else from public reports of real
machines. Only what one library call answers is computed here: there is no link matrix in NVML.
"""

import ctypes
import functools
import math
import os
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

import pynvml

from toposcope.hardware.pci import normal_address
from toposcope.simulator.faults import load_faults
from toposcope.simulator.machine import (
    Ancestor,
    FabricRegistration,
    Machine,
    NvLinkPort,
    Remote,
    SimulatedGpu,
    ancestor,
)

_Class = TypeVar("_Class", bound="SimulatedNvml")
_Fact = TypeVar("_Fact")

_MIG_SLOTS: Final = 7
_HIDDEN_ADDRESS: Final = "ffffffff:ff:ff.f"
# Struct versions carry their size; a driver refuses those that are younger than itself.
_FABRIC_VERSIONS: Final = {pynvml.nvmlGpuFabricInfo_v2: 550, pynvml.nvmlGpuFabricInfo_v3: 580}
_PLATFORM_VERSIONS: Final = (pynvml.nvmlPlatformInfo_v1, pynvml.nvmlPlatformInfo_v2)
_YOUNG_EVENTS_BRANCH: Final = 570
"""The branch of the driver that brought them; so it is with the calls and fields that follow."""
_CALL_SINCE: Final = {
    f"nvmlDeviceGet{call}": branch
    for branch, calls in {
        450: ("MigMode", "MaxMigDeviceCount", "MigDeviceHandleByIndex"),
        470: ("NvLinkRemoteDeviceType",),
        525: ("GpuFabricInfo",),
        535: ("ModuleId",),
        550: ("NumaNodeId", "GpuFabricInfoV"),
        570: ("PlatformInfo",),
    }.items()
    for call in calls
}
_FIELD_SINCE: Final = {
    **dict.fromkeys(
        (pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, pynvml.NVML_FI_DEV_NVLINK_GET_STATE), 520
    ),
    pynvml.NVML_FI_DEV_C2C_LINK_COUNT: 535,
    pynvml.NVML_FI_DEV_C2C_LINK_GET_STATUS: 535,
    pynvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW: 535,
}
_C2C_FIELDS: Final = (
    pynvml.NVML_FI_DEV_C2C_LINK_COUNT,
    pynvml.NVML_FI_DEV_C2C_LINK_GET_STATUS,
    pynvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW,
)
_LINK_FIELDS: Final = (
    pynvml.NVML_FI_DEV_NVLINK_GET_SPEED,
    pynvml.NVML_FI_DEV_NVLINK_GET_STATE,
    pynvml.NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID,
)
"""Fields of one link, which their scope numbers."""
_NVLINK_ONLY: Final = (pynvml.NVML_P2P_CAPS_INDEX_NVLINK, pynvml.NVML_P2P_CAPS_INDEX_ATOMICS)
"""Capabilities between two GPUs that PCI does not give them."""


@dataclass(frozen=True, slots=True)
class _Handle:
    """What stands for a device; `mig` numbers a MIG device of the GPU."""

    gpu: int
    mig: int | None = None


@dataclass(slots=True, eq=False)
class _EventSet:
    gpus: set[int]


def _guarded(nvml: type[_Class]) -> type[_Class]:
    """Have every call need nvmlInit and the driver that brought it, and be struck by faults."""

    def guard(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(answer)
        def guarded(nvml: "SimulatedNvml", /, *args: Any) -> Any:
            nvml._enter(name, args[0] if args else None)  # noqa: SLF001 - the guard of this class
            return answer(nvml, *args)

        return guarded

    for name, answer in list(vars(nvml).items()):
        if name.startswith("nvml") and not name.startswith("nvmlInit"):
            setattr(nvml, name, guard(name, answer))
    return nvml


def _fact(
    of: Callable[[SimulatedGpu], _Fact | None],
) -> "Callable[[SimulatedNvml, _Handle], _Fact]":
    """A call that answers one fact of a GPU."""
    return lambda nvml, handle: _supported(of(nvml._gpu(handle)))  # noqa: SLF001 - a call of this class


@_guarded
class SimulatedNvml:
    """NVML on a `Machine`. Constants, structs and error classes are those of `pynvml`.

    `faults` may be replaced at any time. A `faults_file`, when given, is read again at every
    nvmlInit and nvmlDeviceGetCount, so that a running process can be broken from outside; without
    the file the faults are those of the machine. `hang` and `crash` are what those faults do;
    `wait` receives the seconds that an event wait lasts.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        faults_file: Path | None = None,
        hang: Callable[[], object] = lambda: threading.Event().wait(),
        crash: Callable[[], None] = os.abort,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        self.machine = machine
        self.faults = machine.faults
        self._faults_file = faults_file
        self._hang = hang
        self._crash = crash
        self._wait = wait
        self._users = 0
        self._branch = int(machine.driver.split(".")[0]) if machine.driver else math.inf

    def __getattr__(self, name: str) -> Any:
        if (
            name.startswith("nvml")
            and callable(getattr(pynvml, name, None))
            and not isinstance(getattr(pynvml, name), type)
        ):
            # Handing out the real function would ask the real driver.
            raise AttributeError(f"the simulated NVML does not answer {name}")
        return getattr(pynvml, name)

    # Guards

    def _enter(self, call: str, subject: object) -> None:
        if not self._users:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if self._branch < _CALL_SINCE.get(call, 0):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        gpu = subject.gpu if isinstance(subject, _Handle) else None
        self._suffer(call, gpu)
        if gpu is not None:
            self._reach(gpu)

    def _suffer(self, call: str, gpu: int | None) -> None:
        fault = self.faults.of(call, gpu)
        if fault is None:
            return
        if fault.error is not None:
            raise pynvml.NVMLError(fault.error)
        (self._hang if fault.hang else self._crash)()

    def _reach(self, gpu: int) -> None:
        if gpu in self.faults.lost | self.faults.vanished:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    def _read_faults(self) -> None:
        if self._faults_file is None:
            return
        try:
            self.faults = load_faults(self._faults_file)
        except FileNotFoundError:
            self.faults = self.machine.faults

    def _gpu(self, handle: object) -> SimulatedGpu:
        if not isinstance(handle, _Handle):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if handle.mig is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.machine.gpus[handle.gpu]

    def _visible(self) -> list[int]:
        return [gpu for gpu in range(len(self.machine.gpus)) if gpu not in self.faults.vanished]

    def _find(self, matches: Callable[[SimulatedGpu], bool]) -> int:
        gpu = next((i for i in self._visible() if matches(self.machine.gpus[i])), None)
        if gpu is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        self._reach(gpu)
        return gpu

    # The library

    def nvmlInit(self) -> None:
        """See nvmlInitWithFlags."""
        self.nvmlInitWithFlags(0)

    def nvmlInitWithFlags(self, flags: int) -> None:
        """Start the library; each start needs its own shutdown."""
        del flags
        self._read_faults()
        for call in ("nvmlInit", "nvmlInitWithFlags"):
            self._suffer(call, None)
        if self.faults.init_error is not None:
            raise pynvml.NVMLError(self.faults.init_error)
        self._users += 1

    def nvmlShutdown(self) -> None:
        """Stop the library."""
        self._users -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        """The version of the driver."""
        return _supported(self.machine.driver)

    # Devices

    def nvmlDeviceGetCount(self) -> int:
        """How many GPUs are on the bus."""
        self._read_faults()
        return len(self._visible())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> _Handle:
        """A GPU by its index; indices close up when a GPU leaves the bus."""
        visible = self._visible()
        if not 0 <= index < len(visible):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._suffer("nvmlDeviceGetHandleByIndex", visible[index])
        self._reach(visible[index])
        return _Handle(visible[index])

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str | bytes) -> _Handle:
        """A GPU by its PCI address."""
        try:
            address = normal_address(_text(bus_id))
        except ValueError as malformed:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT) from malformed
        return _Handle(self._find(lambda gpu: gpu.function.address == address))

    def nvmlDeviceGetHandleByUUID(self, uuid: str | bytes) -> _Handle:
        """A GPU by its UUID."""
        return _Handle(self._find(lambda gpu: gpu.uuid == _text(uuid)))

    def nvmlDeviceGetIndex(self, handle: _Handle) -> int:
        """The index of a GPU."""
        self._gpu(handle)
        return self._visible().index(handle.gpu)

    def nvmlDeviceGetMinorNumber(self, handle: _Handle) -> int:
        """The number of its device node."""
        self._gpu(handle)
        return handle.gpu

    def nvmlDeviceGetPciInfo(self, handle: _Handle) -> Any:
        """The PCI address and ids (nvmlPciInfo_t)."""
        function = self._gpu(handle).function
        return _pci_info(function.address, function.device << 16 | function.vendor)

    def nvmlDeviceGetUUID(self, handle: object) -> str:
        """The UUID of a GPU or of a MIG device."""
        if not isinstance(handle, _Handle) or handle.mig is None:
            return self._gpu(handle).uuid
        gpu = self.machine.gpus[handle.gpu]
        mig_devices = _supported(gpu.mig)
        return mig_devices[handle.mig]

    nvmlDeviceGetName = _fact(lambda gpu: gpu.name)
    nvmlDeviceGetSerial = _fact(lambda gpu: gpu.serial)  # of the board; GeForce boards have none
    # the place on the baseboard, 0 off one
    nvmlDeviceGetModuleId = _fact(lambda gpu: gpu.module_id)
    nvmlDeviceGetNumaNodeId = _fact(lambda gpu: gpu.memory_node)  # of its memory, not of its CPUs
    nvmlDeviceGetArchitecture = _fact(
        lambda gpu: (
            int(pynvml.NVML_DEVICE_ARCH_UNKNOWN) if gpu.architecture is None else gpu.architecture
        )
    )

    # MIG

    def nvmlDeviceGetMigMode(self, handle: _Handle) -> list[int]:
        """Current and pending mode."""
        enabled = int(bool(_supported(self._gpu(handle).mig)))
        return [enabled, enabled]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: _Handle) -> int:
        """Slots for MIG devices; 0 on a product without MIG."""
        return 0 if self._gpu(handle).mig is None else _MIG_SLOTS

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: _Handle, index: int) -> _Handle:
        """A MIG device; NotFound on an empty slot."""
        devices = _supported(self._gpu(handle).mig)
        if not 0 <= index < _MIG_SLOTS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if index >= len(devices):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return _Handle(handle.gpu, index)

    # NVLink

    def _link(self, handle: _Handle, link: int) -> NvLinkPort:
        """One link with its faults.

        A number beyond the count is an invalid argument, even below the header's maximum.
        """
        links = self._gpu(handle).links
        if not links:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if not 0 <= link < len(links):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self._live(handle.gpu, link)

    def _live(self, gpu: int, link: int) -> NvLinkPort:
        here = self.machine.gpus[gpu].links[link]
        if self._is_down(gpu, link, here):
            return replace(here, is_active=False)
        return here

    def _is_down(self, gpu: int, link: int, here: NvLinkPort) -> bool:
        """Whether a fault took a link down, at its own end or at the other GPU's."""
        if self.faults.is_link_down(gpu, link):
            return True
        if here.remote is not Remote.GPU:
            return False

        # A wire has two ends: what is dead at one is dead at the other.
        peer = self._index_of(here.address)
        if peer in self.faults.lost or peer in self.faults.vanished:
            return True
        return self.faults.is_link_down(peer, here.remote_link)

    def _index_of(self, address: str | None) -> int:
        for index, gpu in enumerate(self.machine.gpus):
            if gpu.function.address == address:
                return index
        raise LookupError(f"no GPU at {address}")

    def _active_links(self, gpu: int) -> list[NvLinkPort]:
        active = []
        for number in range(len(self.machine.gpus[gpu].links)):
            link = self._live(gpu, number)
            if link.is_active:
                active.append(link)
        return active

    def nvmlDeviceGetNvLinkState(self, handle: _Handle, link: int) -> int:
        """1 active, 0 not."""
        return int(self._link(handle, link).is_active)

    def nvmlDeviceGetNvLinkCapability(self, handle: _Handle, link: int, capability: int) -> int:
        """1 or 0 for one NVML_NVLINK_CAP_*.

        Links to peers and switches have P2P; a link to a CPU has system memory.
        """
        wire = self._link(handle, link)
        if not 0 <= capability < pynvml.NVML_NVLINK_CAP_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        peer = wire.remote in (Remote.GPU, Remote.SWITCH)
        has = {
            pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED: peer,
            pynvml.NVML_NVLINK_CAP_P2P_ATOMICS: peer,
            pynvml.NVML_NVLINK_CAP_SYSMEM_ACCESS: wire.remote is Remote.CPU,
            pynvml.NVML_NVLINK_CAP_SYSMEM_ATOMICS: wire.remote is Remote.CPU,
            pynvml.NVML_NVLINK_CAP_VALID: True,
        }
        return int(has.get(capability, False))

    def nvmlDeviceGetNvLinkVersion(self, handle: _Handle, link: int) -> int:
        """The enum NVML_NVLINK_VERSION_*."""
        self._link(handle, link)
        return _supported(self._gpu(handle).nvlink_version)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: _Handle, link: int) -> Any:
        """Address of the far end; all F where it has none that this machine can see."""
        wire = self._link(handle, link)
        if not wire.is_active:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        for function in self.machine.functions:
            if function.address == wire.address:
                device_id = function.device << 16 | function.vendor
                return _pci_info(function.address, device_id)
        return _pci_info(_HIDDEN_ADDRESS, 0xFFFFFFFF)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: _Handle, link: int) -> int:
        """What the far end is; unknown while the link is down."""
        wire = self._link(handle, link)
        return int(wire.remote if wire.is_active else Remote.UNKNOWN)

    def nvmlDeviceGetFieldValues(self, handle: _Handle, fields: list[int | tuple[int, int]]) -> Any:
        """An array of c_nvmlFieldValue_t.

        Each entry carries its own nvmlReturn; its value is zero where that is an error.
        """
        gpu = self._gpu(handle)
        array = pynvml.c_nvmlFieldValue_t * len(fields)
        values = array()
        for entry, question in zip(values, fields, strict=True):
            if isinstance(question, tuple):
                entry.fieldId, entry.scopeId = question
            else:
                entry.fieldId = question
                entry.scopeId = 0
            entry.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
            try:
                entry.value.uiVal = self._field(handle, gpu, entry.fieldId, entry.scopeId)
            except pynvml.NVMLError as failure:
                entry.nvmlReturn = failure.value
        return values

    def _field(self, handle: _Handle, gpu: SimulatedGpu, field: int, scope: int) -> int:
        refused = self.faults.field_error(field, handle.gpu)
        if refused is not None:
            raise pynvml.NVMLError(refused)
        since = _FIELD_SINCE.get(field, 0)
        if self._branch < since:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

        if field in _C2C_FIELDS:
            return _c2c_field(gpu, field, scope)
        if field in _LINK_FIELDS:
            link = self._link(handle, scope)
            return _link_field(gpu, link, field)
        links = self._active_links(handle.gpu)
        return _gpu_field(gpu, links, field)

    # Pairs

    def nvmlDeviceGetTopologyCommonAncestor(self, a: _Handle, b: _Handle) -> int:
        """What two GPUs share on the PCI tree; knows nothing of NVLink."""
        first, second = self._pair(a, b)
        is_same_board = first.board is not None and first.board == second.board
        if a == b or is_same_board:
            return int(Ancestor.INTERNAL)
        shared = ancestor(first.slot, second.slot)
        return int(shared)

    def nvmlDeviceGetP2PStatus(self, a: _Handle, b: _Handle, capability: int) -> int:
        """NVML_P2P_STATUS_* of one capability between two GPUs."""
        # The binding hands the index to C as it is: its own constant for "read" is a tuple and
        # fails like this.
        if not isinstance(capability, int):
            raise ctypes.ArgumentError(
                f"argument 3: TypeError: {type(capability).__name__} is not an integer"
            )
        first, second = self._pair(a, b)
        if not 0 <= capability < pynvml.NVML_P2P_CAPS_INDEX_UNKNOWN:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        over_pcie = first.has_pcie_p2p and second.has_pcie_p2p
        refusal = pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED
        if capability == pynvml.NVML_P2P_CAPS_INDEX_PCI:
            possible = over_pcie
        elif capability in _NVLINK_ONLY:
            possible = self._has_nvlink_between(a.gpu, b.gpu)
            refusal = pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
        else:
            possible = over_pcie or self._has_nvlink_between(a.gpu, b.gpu)
        return int(pynvml.NVML_P2P_STATUS_OK if possible else refusal)

    def _pair(self, a: _Handle, b: _Handle) -> tuple[SimulatedGpu, SimulatedGpu]:
        pair = self._gpu(a), self._gpu(b)
        self._reach(b.gpu)
        return pair

    def _has_nvlink_between(self, a: int, b: int) -> bool:
        """Whether an active link leads from one GPU to the other, directly or through a switch."""
        peer = self.machine.gpus[b].function.address
        for link in self._active_links(a):
            if link.remote is Remote.GPU and link.address == peer:
                return True

        of_a = self._switches_reached(a)
        of_b = self._switches_reached(b)
        return not of_a.isdisjoint(of_b)

    def _switches_reached(self, gpu: int) -> set[str | None]:
        links = self._active_links(gpu)
        return {link.address for link in links if link.remote is Remote.SWITCH}

    # Fabric and platform

    def _fabric(self, handle: _Handle) -> FabricRegistration:
        gpu = self._gpu(handle)
        fabric = _supported(gpu.fabric)
        changes = self.faults.fabric.get(handle.gpu, {})
        return replace(fabric, **cast("dict[str, Any]", changes))

    def nvmlDeviceGetGpuFabricInfo(self, handle: _Handle, info: Any) -> int:
        """Fill a nvmlGpuFabricInfo_t (version 1: no version member, no health)."""
        _write_fabric(self._fabric(handle), _memory(info), offset=0)
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetGpuFabricInfoV(self, handle: _Handle, info: Any) -> int:
        """Fill a nvmlGpuFabricInfo_v2_t or _v3_t, whichever its version member announces."""
        fabric = self._fabric(handle)
        memory = _memory(info)
        version = _version(memory)
        since = _FABRIC_VERSIONS.get(version, math.inf)
        if self._branch < since:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)

        _write_fabric(fabric, memory, offset=4)
        struct.pack_into("=I", memory, 32, fabric.health_mask)
        if version == pynvml.nvmlGpuFabricInfo_v3:
            struct.pack_into("=B", memory, 36, fabric.health_summary)
        return int(pynvml.NVML_SUCCESS)

    def nvmlDeviceGetPlatformInfo(self, handle: _Handle, info: Any) -> int:
        """Fill a nvmlPlatformInfo_v1_t or _v2_t: both have the same layout."""
        gpu = self._gpu(handle)
        memory = _memory(info)
        platform = _supported(gpu.platform)
        if _version(memory) not in _PLATFORM_VERSIONS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)

        struct.pack_into(
            "=16s16s5B",
            memory,
            4,
            platform.ib_guid,
            platform.chassis.encode(),
            platform.slot,
            platform.tray,
            platform.host,
            platform.peer_type,
            gpu.module_id,
        )
        return int(pynvml.NVML_SUCCESS)

    # Events

    def nvmlEventSetCreate(self) -> _EventSet:
        """An empty event set."""
        return _EventSet(set())

    def nvmlDeviceGetSupportedEventTypes(self, handle: _Handle) -> int:
        """The event types that the driver knows, as a mask."""
        self._gpu(handle)
        types = pynvml.nvmlEventTypeXidCriticalError
        if self._branch >= _YOUNG_EVENTS_BRANCH:
            types |= pynvml.nvmlEventTypeGpuUnavailableError
            types |= pynvml.nvmlEventTypeGpuRecoveryAction
        return int(types)

    def nvmlDeviceRegisterEvents(self, handle: _Handle, types: int, events: _EventSet) -> None:
        """Add a GPU to an event set; one type that is not supported refuses them all."""
        if types & ~self.nvmlDeviceGetSupportedEventTypes(handle):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        events.gpus.add(handle.gpu)

    def nvmlEventSetWait_v2(self, events: _EventSet, timeout_ms: int) -> NoReturn:
        """Wait for an event, which never comes.

        The wait times out, or ends because a GPU of the set is lost.
        """
        for gpu in events.gpus:
            self._reach(gpu)
        if self._wait is not None:
            self._wait(timeout_ms / 1000)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)

    def nvmlEventSetFree(self, events: _EventSet) -> None:
        """Forget an event set."""
        events.gpus.clear()


def _c2c_field(gpu: SimulatedGpu, field: int, scope: int) -> int:
    """One of `_C2C_FIELDS`."""
    count = _supported(gpu.c2c_links or None)
    if field == pynvml.NVML_FI_DEV_C2C_LINK_COUNT:
        return count
    if scope >= count:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    if field == pynvml.NVML_FI_DEV_C2C_LINK_GET_STATUS:
        return 1
    return gpu.c2c_mbps


def _link_field(gpu: SimulatedGpu, link: NvLinkPort, field: int) -> int:
    """One of `_LINK_FIELDS`."""
    if field == pynvml.NVML_FI_DEV_NVLINK_GET_STATE:
        return int(link.is_active)
    if field == pynvml.NVML_FI_DEV_NVLINK_GET_SPEED:
        return _supported(gpu.link_mbps) if link.is_active else 0
    return _supported(link.remote_link if link.is_active else None)


def _supported(value: _Fact | None) -> _Fact:
    """What the product has; NotSupported otherwise."""
    if value is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def _gpu_field(gpu: SimulatedGpu, active_links: Sequence[NvLinkPort], field: int) -> int:
    """A field of all links of a GPU; raises NVMLError for one that is not known."""
    match field:
        case pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT:
            return _supported(len(gpu.links) or None)
        case pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
            return _supported(gpu.link_mbps if active_links else None)
        case pynvml.NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT:
            switched = sum(link.remote is Remote.SWITCH for link in active_links)
            return _supported(switched if gpu.links else None)
    raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _pci_info(address: str, device_id: int) -> Any:
    slot, _, _ = address.rpartition(".")
    domain_text, bus_text, device_text = slot.split(":")
    domain = int(domain_text, 16)
    legacy_domain = domain & 0xFFFF
    function = f"{bus_text}:{device_text}.0".upper()

    info = pynvml.nvmlPciInfo_t()
    info.domain = domain
    info.bus = int(bus_text, 16)
    info.device = int(device_text, 16)
    info.pciDeviceId = device_id
    info.busId = f"{domain:08X}:{function}"
    info.busIdLegacy = f"{legacy_domain:04X}:{function}"
    return info


def _memory(reference: Any) -> Any:
    """The bytes of the struct that a caller passed, by reference as C wants it or directly."""
    target = getattr(reference, "_obj", reference)
    return (ctypes.c_char * ctypes.sizeof(target)).from_buffer(target)


def _version(memory: Any) -> int:
    return int(struct.unpack_from("=I", memory)[0])


def _write_fabric(fabric: FabricRegistration, memory: Any, offset: int) -> None:
    # `state` is one byte in C; the three after it are padding that the driver leaves as they were.
    uuid = fabric.cluster_uuid.bytes
    struct.pack_into(
        "=16sIIB",
        memory,
        offset,
        uuid,
        fabric.status,
        fabric.clique,
        fabric.state,
    )
