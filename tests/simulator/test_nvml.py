"""The simulated NVML answers as nvml.h and reports of real machines say."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.support.machines import changed
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Fabric, Machine
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


@dataclass(frozen=True)
class Library:
    """A library that was started, and the handles of its GPUs from before its faults."""

    nvml: SimulatedNvml
    gpus: list[Any]


def library(profile: str, faults: Faults | None = None, *, driver: str = "", mig: tuple[str, ...] = ()) -> Library:
    """A shipped machine; `mig`: UUIDs of the MIG devices of its first GPU."""
    machine = load_profile(profile)
    if driver:
        machine = replace(machine, driver=driver)
    if mig:
        machine = changed(machine, mig=mig)
    nvml = started(machine)
    gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(len(machine.gpus))]
    nvml.faults = faults or Faults()
    return Library(nvml, gpus)


def started(machine: str | Machine, faults: Faults | None = None, **options: Any) -> SimulatedNvml:
    """A library after nvmlInit."""
    if isinstance(machine, str):
        machine = load_profile(machine)
    nvml = SimulatedNvml(machine, **options)
    if faults is not None:
        nvml.faults = faults
    nvml.nvmlInit()
    return nvml


def refused(error: type[pynvml.NVMLError], call: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises(error):
        call(*arguments)


def field_values(nvml: SimulatedNvml, gpu: Any, *wanted: int | tuple[int, int]) -> list[int]:
    """What fields, or fields of a link, answer; none may fail."""
    entries = nvml.nvmlDeviceGetFieldValues(gpu, list(wanted))
    assert [entry.nvmlReturn for entry in entries] == [0] * len(wanted)
    return [entry.value.uiVal for entry in entries]


def field_errors(nvml: SimulatedNvml, gpu: Any, *wanted: int | tuple[int, int]) -> list[int]:
    """The code that each field answers instead of a value."""
    return [entry.nvmlReturn for entry in nvml.nvmlDeviceGetFieldValues(gpu, list(wanted))]


def fabric_of(library: Library, gpu: int) -> pynvml.c_nvmlGpuFabricInfo_v3_t:
    """What nvmlDeviceGetGpuFabricInfoV answers about a GPU."""
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    library.nvml.nvmlDeviceGetGpuFabricInfoV(library.gpus[gpu], ctypes.byref(info))
    return info


# Products


def test_board_answers_about_its_gpus() -> None:
    h200 = library("dgx-h200")
    second = h200.gpus[1]
    assert h200.nvml.nvmlDeviceGetName(second) == "NVIDIA H200"
    assert h200.nvml.nvmlDeviceGetArchitecture(second) == 9
    assert h200.nvml.nvmlDeviceGetModuleId(second) == 2
    assert h200.nvml.nvmlDeviceGetIndex(second) == 1
    assert h200.nvml.nvmlDeviceGetMinorNumber(second) == 1
    assert h200.nvml.nvmlSystemGetDriverVersion() == "570.86.15"


def test_handle_that_is_none_is_refused() -> None:
    nvml = started("dgx-h200")
    refused(pynvml.NVMLError_NotFound, nvml.nvmlDeviceGetHandleByPciBusId, "0000:ff:00.0")
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetHandleByPciBusId, "cable")
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetHandleByIndex, 8)
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetName, "handle")


def test_geforce_has_no_serial_and_no_mig() -> None:
    card = library("rtx4090-8")
    first, second, *_others = card.gpus
    refused(pynvml.NVMLError_NotSupported, card.nvml.nvmlDeviceGetSerial, first)
    refused(pynvml.NVMLError_NotSupported, card.nvml.nvmlDeviceGetMigMode, first)
    assert card.nvml.nvmlDeviceGetMaxMigDeviceCount(first) == 0
    assert card.nvml.nvmlDeviceGetModuleId(first) == 0
    assert card.nvml.nvmlDeviceGetP2PStatus(first, second, 0) == 2


def test_board_with_switches_answers_about_its_links() -> None:
    h100 = library("hgx-h100-8")
    first, last = h100.gpus[0], h100.gpus[7]
    assert h100.nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 17) == 2
    assert h100.nvml.nvmlDeviceGetNvLinkVersion(first, 17) == 6
    assert h100.nvml.nvmlDeviceGetP2PStatus(first, last, BY_NVLINK) == P2P_OK
    assert field_values(h100.nvml, first, LINK_COUNT, SWITCH_LINK_COUNT) == [18, 18]
    assert field_values(h100.nvml, first, COMMON_SPEED, (SPEED, 17)) == [26562, 26562]


def test_tray_answers_about_its_links_to_the_cpu() -> None:
    tray = library(TRAY)
    first = tray.gpus[0]
    assert tray.nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 17) == 2
    assert tray.nvml.nvmlDeviceGetNumaNodeId(first) == 2
    assert field_values(tray.nvml, first, C2C_LINK_COUNT, (C2C_LINK_STATE, 9), (C2C_SPEED, 9)) == [10, 1, 44712]
    assert field_errors(tray.nvml, first, (C2C_LINK_STATE, 10)) == [pynvml.NVML_ERROR_INVALID_ARGUMENT]


def test_power9_answers_about_links_to_its_cpu() -> None:
    power9 = library("power9-v100")
    nvml, first = power9.nvml, power9.gpus[0]
    assert field_values(nvml, first, LINK_COUNT, SWITCH_LINK_COUNT) == [6, 0]
    assert nvml.nvmlDeviceGetNvLinkState(first, 2) == 1
    assert nvml.nvmlDeviceGetNvLinkState(first, 3) == 0
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetNvLinkState, first, 6)
    refused(pynvml.NVMLError_FunctionNotFound, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, first, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkRemotePciInfo, first, 5)
    assert nvml.nvmlDeviceGetNvLinkCapability(first, 0, 0) == 0
    assert nvml.nvmlDeviceGetNvLinkCapability(first, 0, 1) == 1
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetNvLinkCapability, first, 0, 6)


def test_card_without_links_refuses_questions_about_them() -> None:
    card = library("l40s-4")
    nvml, first = card.nvml, card.gpus[0]
    unsupported = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert field_errors(nvml, first, LINK_COUNT, (LINK_STATE, 0), C2C_LINK_COUNT) == [unsupported] * 3
    assert field_errors(nvml, first, 4711) == [pynvml.NVML_ERROR_INVALID_ARGUMENT]
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkState, first, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkVersion, first, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNumaNodeId, first)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetMigMode, first)
    refused(pynvml.NVMLError_FunctionNotFound, nvml.nvmlDeviceGetPlatformInfo, first, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetGpuFabricInfoV, first, 0)


@pytest.mark.parametrize(
    ("driver", "call"),
    [("549.1", "nvmlDeviceGetNumaNodeId"), ("534.1", "nvmlDeviceGetModuleId"), ("449.1", "nvmlDeviceGetMigMode")],
)
def test_older_driver_lacks_functions(driver: str, call: str) -> None:
    tray = library(TRAY, driver=driver)
    refused(pynvml.NVMLError_FunctionNotFound, getattr(tray.nvml, call), tray.gpus[0])


def test_older_driver_lacks_fields() -> None:
    h100 = library("hgx-h100-8", driver="515.65.01")
    assert field_errors(h100.nvml, h100.gpus[0], (LINK_STATE, 0)) == [pynvml.NVML_ERROR_INVALID_ARGUMENT]
    assert field_values(h100.nvml, h100.gpus[0], LINK_COUNT) == [18]


def test_machine_of_unknown_make_invents_nothing() -> None:
    machine = load_profile("hgx-h100-8")
    gpus = []
    for gpu in machine.gpus:
        bare = replace(gpu, name=None, architecture=None, nvlink_version=None, link_mbps=None, fabric=Fabric(0))
        gpus.append(bare)
    nvml = started(replace(machine, gpus=tuple(gpus), driver=None))
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetArchitecture(handle) == pynvml.NVML_DEVICE_ARCH_UNKNOWN
    assert field_errors(nvml, handle, (SPEED, 0)) == [pynvml.NVML_ERROR_NOT_SUPPORTED]
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetName, handle)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkVersion, handle, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlSystemGetDriverVersion)


# Handles and MIG devices


def test_nothing_is_answered_before_init_and_after_the_last_shutdown() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlDeviceGetCount)
    nvml.nvmlInit()
    nvml.nvmlInitWithFlags(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 1
    nvml.nvmlShutdown()
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlSystemGetDriverVersion)


def test_handle_is_found_by_any_spelling_of_its_address_and_by_uuid() -> None:
    nvml = started("dgx-h200")
    gpu = nvml.nvmlDeviceGetHandleByIndex(3)
    info = nvml.nvmlDeviceGetPciInfo(gpu)
    for spelling in (info.busId, info.busId.lower()[4:], info.busId.encode()):
        assert nvml.nvmlDeviceGetHandleByPciBusId(spelling) == gpu
    assert nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu)) == gpu
    assert info.busIdLegacy == info.busId[4:]
    assert info.pciDeviceId == 0x233510DE
    assert len(nvml.nvmlDeviceGetSerial(gpu)) == 13
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
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkState, device, 0)
    refused(pynvml.NVMLError_NotFound, nvml.nvmlDeviceGetMigDeviceHandleByIndex, first, 2)
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetMigDeviceHandleByIndex, first, 7)


# How GPUs are connected


def test_common_ancestor_of_dies_and_boards() -> None:
    k80 = library("k80-4")
    first, same_board, other_board, *_others = k80.gpus
    assert k80.nvml.nvmlDeviceGetTopologyCommonAncestor(first, first) == 0
    assert k80.nvml.nvmlDeviceGetTopologyCommonAncestor(first, same_board) == 0
    assert k80.nvml.nvmlDeviceGetTopologyCommonAncestor(first, other_board) == 30


def test_p2p_status_of_a_mesh_is_that_of_its_links() -> None:
    mesh = library("dgx1-v100")
    assert mesh.nvml.nvmlDeviceGetP2PStatus(mesh.gpus[0], mesh.gpus[1], BY_NVLINK) == P2P_OK
    assert mesh.nvml.nvmlDeviceGetP2PStatus(mesh.gpus[0], mesh.gpus[5], BY_NVLINK) == P2P_NOT_SUPPORTED
    refused(pynvml.NVMLError_InvalidArgument, mesh.nvml.nvmlDeviceGetP2PStatus, mesh.gpus[0], mesh.gpus[1], 5)


def test_links_end_in_switches_with_an_address_or_out_of_sight() -> None:
    h100 = library("hgx-h100-8")
    ends = [h100.nvml.nvmlDeviceGetNvLinkRemotePciInfo(h100.gpus[0], link) for link in range(18)]
    switches = {switch.address for switch in h100.nvml.machine.nvswitches}
    assert {end.busId.lower()[4:] for end in ends} == switches
    assert {end.pciDeviceId for end in ends} == {0x22A310DE}

    tray = library(TRAY)
    assert tray.nvml.nvmlDeviceGetNvLinkRemotePciInfo(tray.gpus[0], 17).busId == "FFFFFFFF:FF:FF.0"


def test_direct_links_name_each_other() -> None:
    nvml = started("dgx1-v100")
    for i, gpu in enumerate(nvml.machine.gpus):
        here = nvml.nvmlDeviceGetHandleByIndex(i)
        for link in range(6):
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(here, link)
            there = nvml.nvmlDeviceGetHandleByPciBusId(remote.busId)
            (back,) = field_values(nvml, here, (REMOTE_LINK, link))
            assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(there, back).busId.lower()[4:] == gpu.function.address
            assert field_values(nvml, there, (REMOTE_LINK, back)) == [link]


# Fabric and platform


def test_fabric_is_not_supported_on_a_card() -> None:
    refused(pynvml.NVMLError_NotSupported, fabric_of, library("l40s-4"), 0)


def test_fabric_of_a_bridged_card_is_in_state_zero() -> None:
    info = fabric_of(library("h100-nvl-2", driver="580.1"), 0)
    assert info.state == 0
    assert info.healthMask == 0
    assert info.cliqueId == 0


def test_fabric_of_a_tray_has_clique_and_health() -> None:
    registering = Faults(fabric={1: {"state": 2, "health_mask": 0}})
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
    layouts = {
        1: (tray.nvml.nvmlDeviceGetGpuFabricInfo, pynvml.c_nvmlGpuFabricInfo_t()),
        2: (tray.nvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfo_v2_t()),
        3: (tray.nvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfo_v3_t()),
    }
    for layout, (call, info) in layouts.items():
        if layout > newest_layout:
            errors = (pynvml.NVMLError_ArgumentVersionMismatch, pynvml.NVMLError_FunctionNotFound)
            with pytest.raises(errors):
                call(tray.gpus[0], ctypes.byref(info))
            continue
        assert call(tray.gpus[0], ctypes.byref(info)) == pynvml.NVML_SUCCESS
        assert info.state == 3
        assert info.status == 0
        assert info.cliqueId == 32766
        assert bytes(info.clusterUuid).hex() == CLUSTER_UUID
        if layout > 1:
            assert info.healthMask == 0x1AA


def test_fabric_state_is_one_byte_and_the_version_is_checked() -> None:
    tray = library(TRAY)
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.state = 0xFFFFFFFF
    tray.nvml.nvmlDeviceGetGpuFabricInfoV(tray.gpus[0], ctypes.byref(info))
    assert info.state == 0xFFFFFF03
    info.version = 7
    refused(
        pynvml.NVMLError_ArgumentVersionMismatch,
        tray.nvml.nvmlDeviceGetGpuFabricInfoV,
        tray.gpus[0],
        ctypes.byref(info),
    )


def test_platform_info_is_laid_out_as_in_the_header() -> None:
    tray = library(TRAY)
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    tray.nvml.nvmlDeviceGetPlatformInfo(tray.gpus[0], ctypes.byref(info))
    version, guid, chassis, *numbers = struct.unpack_from("<I16s16s5B", bytes(info))
    assert version == 0x0200002C
    assert guid != bytes(16)
    assert chassis == b"1821025193108\0\0\0"
    assert numbers == [1, 0, 1, 1, 2]
    info.version = 9
    refused(
        pynvml.NVMLError_ArgumentVersionMismatch, tray.nvml.nvmlDeviceGetPlatformInfo, tray.gpus[0], ctypes.byref(info)
    )


# Events


def test_events_never_come_and_a_lost_gpu_ends_the_wait() -> None:
    waited: list[float] = []
    nvml = started("t4-1", wait=waited.append)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    events = nvml.nvmlEventSetCreate()
    supported = nvml.nvmlDeviceGetSupportedEventTypes(gpu)
    unsupported = pynvml.nvmlEventTypeGpuRecoveryAction
    assert supported & pynvml.nvmlEventTypeXidCriticalError
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceRegisterEvents, gpu, unsupported, events)

    nvml.nvmlDeviceRegisterEvents(gpu, supported, events)
    refused(pynvml.NVMLError_Timeout, nvml.nvmlEventSetWait_v2, events, 1500)
    assert waited == [1.5]

    nvml.faults = Faults(lost=frozenset({0}))
    refused(pynvml.NVMLError_GpuIsLost, nvml.nvmlEventSetWait_v2, events, 1500)
    nvml.nvmlEventSetFree(events)


# Faults


def test_lost_gpu_is_counted_and_answers_nothing() -> None:
    h200 = library("dgx-h200", Faults(lost=frozenset({2})))
    nvml, lost, other = h200.nvml, h200.gpus[2], h200.gpus[3]
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlDeviceGetName(other) == "NVIDIA H200"
    refused(pynvml.NVMLError_GpuIsLost, nvml.nvmlDeviceGetHandleByIndex, 2)
    refused(pynvml.NVMLError_GpuIsLost, nvml.nvmlDeviceGetUUID, lost)
    refused(pynvml.NVMLError_GpuIsLost, nvml.nvmlDeviceGetTopologyCommonAncestor, other, lost)


def test_vanished_gpu_closes_the_gap_of_indices() -> None:
    h200 = library("dgx-h200", Faults(vanished=frozenset({2})))
    assert h200.nvml.nvmlDeviceGetCount() == 7
    assert h200.nvml.nvmlDeviceGetIndex(h200.gpus[3]) == 2
    refused(pynvml.NVMLError_GpuIsLost, h200.nvml.nvmlDeviceGetName, h200.gpus[2])


def test_dead_link_of_a_bridge_is_dead_at_both_ends() -> None:
    bridge = library("rtx3090-2-nvlink", Faults(links_down={0: frozenset({3})}))
    nvml = bridge.nvml
    first, second = bridge.gpus
    assert nvml.nvmlDeviceGetNvLinkState(first, 2) == 1
    assert nvml.nvmlDeviceGetNvLinkState(first, 3) == 0
    assert nvml.nvmlDeviceGetNvLinkState(second, 3) == 0
    assert nvml.nvmlDeviceGetNvLinkVersion(second, 3) == 5
    assert field_values(nvml, second, LINK_COUNT, (LINK_STATE, 3), (SPEED, 3)) == [4, 0, 0]


def test_gpu_without_live_links_has_no_links_to_switches() -> None:
    b200 = library("hgx-b200-8", Faults(links_down={2: "all"}))
    nvml, dead, other = b200.nvml, b200.gpus[2], b200.gpus[3]
    assert field_values(nvml, dead, SWITCH_LINK_COUNT) == [0]
    assert field_errors(nvml, dead, COMMON_SPEED) == [pynvml.NVML_ERROR_NOT_SUPPORTED]
    assert field_values(nvml, other, SWITCH_LINK_COUNT) == [18]
    assert nvml.nvmlDeviceGetP2PStatus(dead, other, BY_NVLINK) == P2P_NOT_SUPPORTED


def test_call_fails_for_one_gpu_or_for_all() -> None:
    faults = Faults(
        calls=(CallFault(call="nvmlDeviceGetName", gpu=1, error=999), CallFault(call="nvmlDeviceGetSerial", error=4))
    )
    h200 = library("dgx-h200", faults)
    assert h200.nvml.nvmlDeviceGetName(h200.gpus[0]) == "NVIDIA H200"
    refused(pynvml.NVMLError_Unknown, h200.nvml.nvmlDeviceGetName, h200.gpus[1])
    refused(pynvml.NVMLError_NoPermission, h200.nvml.nvmlDeviceGetSerial, h200.gpus[0])


@pytest.mark.parametrize("code", [9, 12, 18, 999])
def test_init_fails(code: int) -> None:
    with pytest.raises(pynvml.NVMLError) as failure:
        started("t4-1", Faults(init_error=code))
    assert failure.value.value == code


def test_call_hangs_or_crashes() -> None:
    happened: list[str] = []
    faults = Faults(calls=(CallFault("nvmlDeviceGetCount", hang=True), CallFault("nvmlInit", crash=True)))
    nvml = started("t4-1", faults, hang=lambda: happened.append("hung"), crash=lambda: happened.append("crashed"))
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
