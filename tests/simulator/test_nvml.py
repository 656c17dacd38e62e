"""The simulated NVML answers as nvml.h and reports of real machines say."""

import ctypes
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.support.machines import changed
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import FabricRegistration, Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

TRAY = "gb200-nvl72-tray"
CLUSTER_UUID = "6a8ab8c124e44fd19d5c0d9f3fd6a1b2"

# Fields of nvmlDeviceGetFieldValues
COMMON_SPEED = 90
LINK_COUNT = 91
REMOTE_LINK = 146
SWITCH_LINK_COUNT = 147
SPEED = 164
LINK_STATE = 165
C2C_LINK_COUNT = 170
C2C_LINK_STATE = 171
C2C_SPEED = 172

# What nvmlDeviceGetP2PStatus answers
P2P_OK = 0
P2P_NOT_SUPPORTED = 5
BY_NVLINK = 2
"""A capability of it."""

# What a driver says to a layout of structs that it doesn't know
LAYOUT_ERRORS = (pynvml.NVMLError_ArgumentVersionMismatch, pynvml.NVMLError_FunctionNotFound)


@dataclass(frozen=True)
class Library:
    """A library that was started, and the handles of its GPUs from before its faults."""

    nvml: SimulatedNvml
    gpus: list[Any]


def library(
    profile: str, faults: MachineFaults | None = None, *, driver: str = "", mig: tuple[str, ...] = ()
) -> Library:
    """A shipped machine; `mig`: UUIDs of the MIG devices of its first GPU."""
    machine = load_profile(profile)
    if driver:
        machine = replace(machine, driver=driver)
    if mig:
        machine = changed(machine, mig=mig)
    nvml = started(machine)
    gpus: list[Any] = []
    for index in range(len(machine.gpus)):
        gpus.append(nvml.nvmlDeviceGetHandleByIndex(index))
    nvml.faults = faults or MachineFaults()
    return Library(nvml, gpus)


def started(machine: str | Machine, faults: MachineFaults | None = None, **options: Any) -> SimulatedNvml:
    """A library after nvmlInit."""
    if isinstance(machine, str):
        machine = load_profile(machine)
    nvml = SimulatedNvml(machine, **options)
    if faults is not None:
        nvml.faults = faults
    nvml.nvmlInit()
    return nvml


def field_values(nvml: SimulatedNvml, gpu: Any, *wanted: int | tuple[int, int]) -> list[int]:
    """What fields, or fields of a link, answer; none may fail."""
    values = []
    for entry in nvml.nvmlDeviceGetFieldValues(gpu, list(wanted)):
        assert entry.nvmlReturn == pynvml.NVML_SUCCESS
        values.append(entry.value.uiVal)
    assert len(values) == len(wanted)
    return values


def field_errors(nvml: SimulatedNvml, gpu: Any, *wanted: int | tuple[int, int]) -> list[int]:
    """The code that each field answers instead of a value."""
    entries = nvml.nvmlDeviceGetFieldValues(gpu, list(wanted))
    return [entry.nvmlReturn for entry in entries]


def fabric_of(library: Library, gpu: int) -> pynvml.c_nvmlGpuFabricInfo_v3_t:
    """What nvmlDeviceGetGpuFabricInfoV answers about a GPU."""
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    library.nvml.nvmlDeviceGetGpuFabricInfoV(library.gpus[gpu], ctypes.byref(info))
    return info


# Products


def test_board_answers_about_its_gpus() -> None:
    h200 = library("dgx-h200")
    nvml = h200.nvml
    second = h200.gpus[1]
    assert nvml.nvmlDeviceGetName(second) == "NVIDIA H200"
    assert nvml.nvmlDeviceGetArchitecture(second) == 9
    assert nvml.nvmlDeviceGetModuleId(second) == 2
    assert nvml.nvmlDeviceGetIndex(second) == 1
    assert nvml.nvmlDeviceGetMinorNumber(second) == 1
    assert nvml.nvmlSystemGetDriverVersion() == "570.86.15"


def test_handle_that_is_none_is_refused() -> None:
    nvml = started("dgx-h200")
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByPciBusId("0000:ff:00.0")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByPciBusId("cable")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByIndex(8)
    no_handle: Any = "handle"
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetName(no_handle)


def test_geforce_has_no_serial_and_no_mig() -> None:
    card = library("rtx4090-8")
    nvml = card.nvml
    first, second, *_others = card.gpus
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetSerial(first)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetMigMode(first)
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(first) == 0
    assert nvml.nvmlDeviceGetModuleId(first) == 0
    assert nvml.nvmlDeviceGetP2PStatus(first, second, 0) == 2


def test_board_with_switches_answers_about_its_links() -> None:
    h100 = library("hgx-h100-8")
    nvml = h100.nvml
    first, *_others, last = h100.gpus
    assert nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 17) == 2
    assert nvml.nvmlDeviceGetNvLinkVersion(first, 17) == 6
    assert nvml.nvmlDeviceGetP2PStatus(first, last, BY_NVLINK) == P2P_OK
    links, switch_links = field_values(nvml, first, LINK_COUNT, SWITCH_LINK_COUNT)
    assert links == 18
    assert switch_links == 18
    common_speed, speed = field_values(nvml, first, COMMON_SPEED, (SPEED, 17))
    assert common_speed == 26562
    assert speed == 26562


def test_tray_answers_about_its_links_to_the_cpu() -> None:
    tray = library(TRAY)
    nvml = tray.nvml
    first = tray.gpus[0]
    assert nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 17) == 2
    assert nvml.nvmlDeviceGetNumaNodeId(first) == 2
    links, state, speed = field_values(
        nvml,
        first,
        C2C_LINK_COUNT,
        (C2C_LINK_STATE, 9),
        (C2C_SPEED, 9),
    )
    assert links == 10
    assert state == 1
    assert speed == 44712
    errors = field_errors(nvml, first, (C2C_LINK_STATE, 10))
    assert errors == [pynvml.NVML_ERROR_INVALID_ARGUMENT]


def test_power9_answers_about_links_to_its_cpu() -> None:
    power9 = library("power9-v100")
    nvml = power9.nvml
    first = power9.gpus[0]
    links, switch_links = field_values(nvml, first, LINK_COUNT, SWITCH_LINK_COUNT)
    assert links == 6
    assert switch_links == 0

    assert nvml.nvmlDeviceGetNvLinkState(first, 2) == 1
    assert nvml.nvmlDeviceGetNvLinkState(first, 3) == 0
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetNvLinkState(first, 6)

    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkRemotePciInfo(first, 5)

    assert nvml.nvmlDeviceGetNvLinkCapability(first, 0, 0) == 0
    assert nvml.nvmlDeviceGetNvLinkCapability(first, 0, 1) == 1
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetNvLinkCapability(first, 0, 6)


def test_card_without_links_refuses_questions_about_them() -> None:
    card = library("l40s-4")
    nvml = card.nvml
    first = card.gpus[0]
    errors = field_errors(
        nvml,
        first,
        LINK_COUNT,
        (LINK_STATE, 0),
        C2C_LINK_COUNT,
    )
    assert errors == [pynvml.NVML_ERROR_NOT_SUPPORTED] * 3
    assert field_errors(nvml, first, 4711) == [pynvml.NVML_ERROR_INVALID_ARGUMENT]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkState(first, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkVersion(first, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNumaNodeId(first)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetMigMode(first)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetPlatformInfo(first, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetGpuFabricInfoV(first, 0)


@pytest.mark.parametrize(
    ("driver", "call"),
    [
        pytest.param("549.1", "nvmlDeviceGetNumaNodeId", id="numa-node"),
        pytest.param("534.1", "nvmlDeviceGetModuleId", id="module"),
        pytest.param("449.1", "nvmlDeviceGetMigMode", id="mig-mode"),
    ],
)
def test_older_driver_lacks_functions(driver: str, call: str) -> None:
    tray = library(TRAY, driver=driver)
    function = getattr(tray.nvml, call)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        function(tray.gpus[0])


def test_older_driver_lacks_fields() -> None:
    h100 = library("hgx-h100-8", driver="515.65.01")
    first = h100.gpus[0]
    errors = field_errors(h100.nvml, first, (LINK_STATE, 0))
    assert errors == [pynvml.NVML_ERROR_INVALID_ARGUMENT]
    assert field_values(h100.nvml, first, LINK_COUNT) == [18]


def test_machine_of_unknown_make_invents_nothing() -> None:
    machine = load_profile("hgx-h100-8")
    gpus = []
    for gpu in machine.gpus:
        bare = replace(
            gpu,
            name=None,
            architecture=None,
            nvlink_version=None,
            link_mbps=None,
            fabric=FabricRegistration(0),
        )
        gpus.append(bare)
    nvml = started(replace(machine, gpus=tuple(gpus), driver=None))

    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    architecture = nvml.nvmlDeviceGetArchitecture(handle)
    assert architecture == pynvml.NVML_DEVICE_ARCH_UNKNOWN
    errors = field_errors(nvml, handle, (SPEED, 0))
    assert errors == [pynvml.NVML_ERROR_NOT_SUPPORTED]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetName(handle)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkVersion(handle, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlSystemGetDriverVersion()


# Handles and MIG devices


def test_nothing_is_answered_before_init_and_after_the_last_shutdown() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()

    nvml.nvmlInit()
    nvml.nvmlInitWithFlags(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 1

    nvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlSystemGetDriverVersion()


def test_handle_is_found_by_any_spelling_of_its_address_and_by_uuid() -> None:
    nvml = started("dgx-h200")
    gpu = nvml.nvmlDeviceGetHandleByIndex(3)
    info = nvml.nvmlDeviceGetPciInfo(gpu)
    as_in_sysfs = info.busId.lower()[4:]
    for spelling in (info.busId, as_in_sysfs, info.busId.encode()):
        assert nvml.nvmlDeviceGetHandleByPciBusId(spelling) == gpu
    uuid = nvml.nvmlDeviceGetUUID(gpu)
    assert nvml.nvmlDeviceGetHandleByUUID(uuid) == gpu
    assert info.busIdLegacy == info.busId[4:]
    assert info.pciDeviceId == 0x233510DE
    serial = nvml.nvmlDeviceGetSerial(gpu)
    assert len(serial) == 13
    with pytest.raises(ctypes.ArgumentError):  # the binding's own trap: that constant is a tuple
        nvml.nvmlDeviceGetP2PStatus(gpu, gpu, pynvml.NVML_P2P_CAPS_INDEX_READ)


def test_mig_devices_belong_to_their_gpu() -> None:
    a100 = library("dgx-a100", mig=("MIG-a", "MIG-b"))
    nvml = a100.nvml
    first, second, *_others = a100.gpus
    assert nvml.nvmlDeviceGetMigMode(first) == [1, 1]
    assert nvml.nvmlDeviceGetMigMode(second) == [0, 0]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(first) == 7

    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(first, 1)
    assert nvml.nvmlDeviceGetUUID(device) == "MIG-b"
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkState(device, 0)
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(first, 2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(first, 7)


# How GPUs are connected


def test_common_ancestor_of_dies_and_boards() -> None:
    k80 = library("k80-4")
    nvml = k80.nvml
    first, same_board, other_board, *_others = k80.gpus
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(first, first) == 0
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(first, same_board) == 0
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(first, other_board) == 30


def test_p2p_status_of_a_mesh_is_that_of_its_links() -> None:
    mesh = library("dgx1-v100")
    nvml = mesh.nvml
    first, second, *_others = mesh.gpus
    far = mesh.gpus[5]
    assert nvml.nvmlDeviceGetP2PStatus(first, second, BY_NVLINK) == P2P_OK
    assert nvml.nvmlDeviceGetP2PStatus(first, far, BY_NVLINK) == P2P_NOT_SUPPORTED
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetP2PStatus(first, second, 5)


def test_links_end_in_switches_with_an_address_or_out_of_sight() -> None:
    h100 = library("hgx-h100-8")
    addresses = set()
    for link in range(18):
        end = h100.nvml.nvmlDeviceGetNvLinkRemotePciInfo(h100.gpus[0], link)
        assert end.pciDeviceId == 0x22A310DE
        addresses.add(end.busId.lower()[4:])
    switches = h100.nvml.machine.nvswitches
    assert addresses == {switch.address for switch in switches}

    tray = library(TRAY)
    end = tray.nvml.nvmlDeviceGetNvLinkRemotePciInfo(tray.gpus[0], 17)
    assert end.busId == "FFFFFFFF:FF:FF.0"


def test_direct_links_name_each_other() -> None:
    nvml = started("dgx1-v100")
    for index, gpu in enumerate(nvml.machine.gpus):
        here = nvml.nvmlDeviceGetHandleByIndex(index)
        for link in range(6):
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(here, link)
            there = nvml.nvmlDeviceGetHandleByPciBusId(remote.busId)
            (link_there,) = field_values(nvml, here, (REMOTE_LINK, link))
            back = nvml.nvmlDeviceGetNvLinkRemotePciInfo(there, link_there)
            assert back.busId.lower()[4:] == gpu.function.address
            (link_here,) = field_values(nvml, there, (REMOTE_LINK, link_there))
            assert link_here == link


# Fabric and platform


def test_fabric_is_not_supported_on_a_card() -> None:
    card = library("l40s-4")
    with pytest.raises(pynvml.NVMLError_NotSupported):
        fabric_of(card, 0)


def test_fabric_of_a_bridged_card_is_in_state_zero() -> None:
    bridged = library("h100-nvl-2", driver="580.1")
    info = fabric_of(bridged, 0)
    assert info.state == 0
    assert info.healthMask == 0
    assert info.cliqueId == 0


def test_fabric_of_a_tray_has_clique_and_health() -> None:
    registering = MachineFaults(fabric={1: {"state": 2, "health_mask": 0}})
    tray = library(TRAY, registering, driver="580.1")
    whole = fabric_of(tray, 0)
    assert whole.state == 3
    assert whole.healthMask == 426
    assert whole.cliqueId == 32766

    broken = fabric_of(tray, 1)
    assert broken.state == 2
    assert broken.healthMask == 0
    assert broken.cliqueId == 32766


@pytest.mark.parametrize(("driver", "newest_layout"), [("580.1", 3), ("570.1", 2), ("549.1", 1), ("524.1", 0)])
def test_fabric_layouts_follow_the_driver(driver: str, newest_layout: int) -> None:
    tray = library(TRAY, driver=driver)
    nvml = tray.nvml
    layouts = {
        1: (nvml.nvmlDeviceGetGpuFabricInfo, pynvml.c_nvmlGpuFabricInfo_t()),
        2: (nvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfo_v2_t()),
        3: (nvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfo_v3_t()),
    }
    for layout, (call, info) in layouts.items():
        if layout > newest_layout:
            with pytest.raises(LAYOUT_ERRORS):
                call(tray.gpus[0], ctypes.byref(info))
            continue
        code = call(tray.gpus[0], ctypes.byref(info))
        assert code == pynvml.NVML_SUCCESS
        assert info.state == 3
        assert info.status == 0
        assert info.cliqueId == 32766
        uuid = bytes(info.clusterUuid)
        assert uuid.hex() == CLUSTER_UUID
        if layout > 1:
            assert info.healthMask == 0x1AA


def test_fabric_state_is_one_byte_and_the_version_is_checked() -> None:
    tray = library(TRAY)
    first = tray.gpus[0]
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.state = 0xFFFFFFFF
    tray.nvml.nvmlDeviceGetGpuFabricInfoV(first, ctypes.byref(info))
    assert info.state == 0xFFFFFF03

    info.version = 7
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        tray.nvml.nvmlDeviceGetGpuFabricInfoV(first, ctypes.byref(info))


def test_platform_info_is_laid_out_as_in_the_header() -> None:
    tray = library(TRAY)
    first = tray.gpus[0]
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    tray.nvml.nvmlDeviceGetPlatformInfo(first, ctypes.byref(info))
    version, guid, chassis, *numbers = struct.unpack_from("<I16s16s5B", bytes(info))
    assert version == 0x0200002C
    assert guid != bytes(16)
    assert chassis == b"1821025193108\0\0\0"
    assert numbers == [1, 0, 1, 1, 2]

    info.version = 9
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        tray.nvml.nvmlDeviceGetPlatformInfo(first, ctypes.byref(info))


# Events


def test_events_never_come_and_a_lost_gpu_ends_the_wait() -> None:
    waited: list[float] = []
    nvml = started("t4-1", wait=waited.append)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    events = nvml.nvmlEventSetCreate()
    supported = nvml.nvmlDeviceGetSupportedEventTypes(gpu)
    unsupported = pynvml.nvmlEventTypeGpuRecoveryAction
    assert supported & pynvml.nvmlEventTypeXidCriticalError
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceRegisterEvents(gpu, unsupported, events)

    nvml.nvmlDeviceRegisterEvents(gpu, supported, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait_v2(events, 1500)
    assert waited == [1.5]

    nvml.faults = MachineFaults(lost=frozenset({0}))
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlEventSetWait_v2(events, 1500)
    nvml.nvmlEventSetFree(events)


# Faults


def test_lost_gpu_is_counted_and_answers_nothing() -> None:
    h200 = library("dgx-h200", MachineFaults(lost=frozenset({2})))
    nvml = h200.nvml
    lost = h200.gpus[2]
    other = h200.gpus[3]
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlDeviceGetName(other) == "NVIDIA H200"
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetHandleByIndex(2)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetUUID(lost)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetTopologyCommonAncestor(other, lost)


def test_vanished_gpu_closes_the_gap_of_indices() -> None:
    h200 = library("dgx-h200", MachineFaults(vanished=frozenset({2})))
    nvml = h200.nvml
    vanished = h200.gpus[2]
    following = h200.gpus[3]
    assert nvml.nvmlDeviceGetCount() == 7
    assert nvml.nvmlDeviceGetIndex(following) == 2
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetName(vanished)


def test_dead_link_of_a_bridge_is_dead_at_both_ends() -> None:
    bridge = library("rtx3090-2-nvlink", MachineFaults(links_down={0: frozenset({3})}))
    nvml = bridge.nvml
    first, second = bridge.gpus
    assert nvml.nvmlDeviceGetNvLinkState(first, 2) == 1
    assert nvml.nvmlDeviceGetNvLinkState(first, 3) == 0
    assert nvml.nvmlDeviceGetNvLinkState(second, 3) == 0
    assert nvml.nvmlDeviceGetNvLinkVersion(second, 3) == 5
    links, state, speed = field_values(
        nvml,
        second,
        LINK_COUNT,
        (LINK_STATE, 3),
        (SPEED, 3),
    )
    assert links == 4
    assert state == 0
    assert speed == 0


def test_gpu_without_live_links_has_no_links_to_switches() -> None:
    b200 = library("hgx-b200-8", MachineFaults(links_down={2: "all"}))
    nvml = b200.nvml
    dead = b200.gpus[2]
    other = b200.gpus[3]
    assert field_values(nvml, dead, SWITCH_LINK_COUNT) == [0]
    errors = field_errors(nvml, dead, COMMON_SPEED)
    assert errors == [pynvml.NVML_ERROR_NOT_SUPPORTED]
    assert field_values(nvml, other, SWITCH_LINK_COUNT) == [18]
    status = nvml.nvmlDeviceGetP2PStatus(dead, other, BY_NVLINK)
    assert status == P2P_NOT_SUPPORTED


def test_call_fails_for_one_gpu_or_for_all() -> None:
    name_of_one = CallFault(call="nvmlDeviceGetName", gpu=1, error=999)
    serial_of_all = CallFault(call="nvmlDeviceGetSerial", error=4)
    h200 = library("dgx-h200", MachineFaults(calls=(name_of_one, serial_of_all)))
    nvml = h200.nvml
    first, second, *_others = h200.gpus
    assert nvml.nvmlDeviceGetName(first) == "NVIDIA H200"
    with pytest.raises(pynvml.NVMLError_Unknown):
        nvml.nvmlDeviceGetName(second)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        nvml.nvmlDeviceGetSerial(first)


@pytest.mark.parametrize("code", [9, 12, 18, 999])
def test_init_fails(code: int) -> None:
    faults = MachineFaults(init_error=code)
    with pytest.raises(pynvml.NVMLError) as failure:
        started("t4-1", faults)
    assert failure.value.value == code


def test_call_hangs_or_crashes() -> None:
    happened: list[str] = []
    hanging = CallFault("nvmlDeviceGetCount", hang=True)
    crashing = CallFault("nvmlInit", crash=True)
    nvml = started(
        "t4-1",
        MachineFaults(calls=(hanging, crashing)),
        hang=lambda: happened.append("hung"),
        crash=lambda: happened.append("crashed"),
    )
    nvml.nvmlDeviceGetCount()
    assert happened == ["crashed", "hung"]


def test_fault_file_breaks_a_running_library(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    nvml = started("dgx-h200", faults_file=file)
    assert nvml.nvmlDeviceGetCount() == 8
    file.write_text("vanished: [0, 1]\n")
    assert nvml.nvmlDeviceGetCount() == 6
    file.unlink()
    assert nvml.nvmlDeviceGetCount() == 8
