"""The simulated NVML answers as nvml.h and reports of real machines say."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Fabric, Machine, Remote
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

SPEED, COUNT, SPEED_COMMON, STATE, REMOTE_LINK, SWITCH_LINKS = 164, 91, 90, 165, 146, 147
C2C_COUNT, C2C_STATUS, C2C_BANDWIDTH = 170, 171, 172


def started(machine: str | Machine, faults: Faults | None = None, **options: Any) -> SimulatedNvml:
    nvml = SimulatedNvml(load_profile(machine) if isinstance(machine, str) else machine, **options)
    if faults is not None:
        nvml.faults = faults
    nvml.nvmlInit()
    return nvml


def with_gpu(machine: str | Machine) -> tuple[SimulatedNvml, Any]:
    """A library that was started, and the handle of its first GPU."""
    nvml = started(machine)
    return nvml, nvml.nvmlDeviceGetHandleByIndex(0)


def refused(error: type[pynvml.NVMLError], call: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises(error):
        call(*arguments)


def fields(nvml: SimulatedNvml, gpu: Any, *wanted: int | tuple[int, int]) -> list[tuple[int, int]]:
    values = nvml.nvmlDeviceGetFieldValues(gpu, list(wanted))
    return [(value.nvmlReturn, value.value.uiVal) for value in values]


def with_driver(name: str, driver: str) -> Machine:
    return replace(load_profile(name), driver=driver)


def test_nothing_is_answered_before_init_and_after_the_last_shutdown() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlDeviceGetCount)
    nvml.nvmlInit()
    nvml.nvmlInitWithFlags(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 1
    nvml.nvmlShutdown()
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlSystemGetDriverVersion)


def test_identity() -> None:
    nvml = started("dgx-h200")
    gpu = nvml.nvmlDeviceGetHandleByIndex(1)
    info = nvml.nvmlDeviceGetPciInfo(gpu)
    assert nvml.nvmlDeviceGetName(gpu) == "NVIDIA H200"
    assert nvml.nvmlDeviceGetArchitecture(gpu) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert nvml.nvmlDeviceGetModuleId(gpu) == 2
    assert nvml.nvmlDeviceGetIndex(gpu) == nvml.nvmlDeviceGetMinorNumber(gpu) == 1
    assert len(nvml.nvmlDeviceGetSerial(gpu)) == 13
    assert nvml.nvmlSystemGetDriverVersion() == "570.86.15"
    assert isinstance(info, pynvml.nvmlPciInfo_t)
    assert info.busId == f"{info.domain:08X}:{info.bus:02X}:{info.device:02X}.0"
    assert info.busIdLegacy == info.busId[4:]
    assert info.pciDeviceId == 0x233510DE


def test_a_handle_is_found_by_any_spelling_of_its_address_and_by_uuid() -> None:
    nvml = started("dgx-h200")
    gpu = nvml.nvmlDeviceGetHandleByIndex(3)
    bus_id = nvml.nvmlDeviceGetPciInfo(gpu).busId
    for spelling in (bus_id, bus_id.lower()[4:], bus_id.encode()):
        assert nvml.nvmlDeviceGetHandleByPciBusId(spelling) == gpu
    assert nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu)) == gpu
    refused(pynvml.NVMLError_NotFound, nvml.nvmlDeviceGetHandleByPciBusId, "0000:ff:00.0")
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetHandleByPciBusId, "GPU 3")
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetHandleByIndex, 8)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetName("no handle")  # type: ignore[arg-type]


def test_a_geforce_has_no_serial_no_modules_and_no_p2p_over_pcie() -> None:
    nvml = started("rtx4090-8")
    a, b = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetSerial, a)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetMigMode, a)
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(a) == 0
    assert nvml.nvmlDeviceGetModuleId(a) == 0
    assert nvml.nvmlDeviceGetP2PStatus(a, b, 0) == pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED


def test_links_of_an_h100_end_in_switches_with_an_address() -> None:
    nvml, gpu = with_gpu("hgx-h100-8")
    switches = {switch.address for switch in nvml.machine.nvswitches}
    ends = [nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link) for link in range(18)]
    assert {end.busId.lower()[4:] for end in ends} == switches
    assert {end.pciDeviceId for end in ends} == {0x22A310DE}
    assert {nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) for link in range(18)} == {Remote.SWITCH}
    assert {nvml.nvmlDeviceGetNvLinkVersion(gpu, link) for link in range(18)} == {pynvml.NVML_NVLINK_VERSION_4_0}
    assert fields(nvml, gpu, COUNT, SWITCH_LINKS, SPEED_COMMON, (SPEED, 17)) == [
        (0, 18),
        (0, 18),
        (0, 26562),
        (0, 26562),
    ]


def test_links_of_a_gb200_end_out_of_sight() -> None:
    nvml, gpu = with_gpu("gb200-nvl72-tray")
    assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, 17).busId == "FFFFFFFF:FF:FF.0"
    assert nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 17) == Remote.SWITCH
    assert nvml.nvmlDeviceGetNumaNodeId(gpu) == 2
    assert fields(nvml, gpu, C2C_COUNT, (C2C_STATUS, 9), (C2C_BANDWIDTH, 9)) == [(0, 10), (0, 1), (0, 44712)]
    assert fields(nvml, gpu, (C2C_STATUS, 10)) == [(pynvml.NVML_ERROR_INVALID_ARGUMENT, 0)]


def test_direct_links_name_each_other() -> None:
    nvml = started("dgx1-v100")
    for i, gpu in enumerate(nvml.machine.gpus):
        here = nvml.nvmlDeviceGetHandleByIndex(i)
        for link in range(6):
            there = nvml.nvmlDeviceGetHandleByPciBusId(nvml.nvmlDeviceGetNvLinkRemotePciInfo(here, link).busId)
            back = fields(nvml, here, (REMOTE_LINK, link))[0][1]
            assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(there, back).busId.lower()[4:] == gpu.function.address
            assert fields(nvml, there, (REMOTE_LINK, back)) == [(0, link)]


def test_links_beyond_the_count_and_of_other_kinds() -> None:
    nvml, gpu = with_gpu("power9-v100")
    assert fields(nvml, gpu, COUNT, SWITCH_LINKS) == [(0, 6), (0, 0)]
    assert [nvml.nvmlDeviceGetNvLinkState(gpu, link) for link in range(6)] == [1, 1, 1, 0, 0, 0]
    refused(pynvml.NVMLError_FunctionNotFound, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, gpu, 0)
    assert nvml.nvmlDeviceGetNvLinkCapability(gpu, 0, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED) == 0
    assert nvml.nvmlDeviceGetNvLinkCapability(gpu, 0, pynvml.NVML_NVLINK_CAP_SYSMEM_ACCESS) == 1
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetNvLinkState, gpu, 6)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkRemotePciInfo, gpu, 5)
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetNvLinkCapability, gpu, 0, 6)


def test_a_gpu_without_nvlink_supports_nothing_of_it() -> None:
    nvml, gpu = with_gpu("l40s-4")
    unsupported = (pynvml.NVML_ERROR_NOT_SUPPORTED, 0)
    assert fields(nvml, gpu, COUNT, (STATE, 0), C2C_COUNT) == [unsupported] * 3
    assert fields(nvml, gpu, 4711) == [(pynvml.NVML_ERROR_INVALID_ARGUMENT, 0)]
    for call in (nvml.nvmlDeviceGetNvLinkState, nvml.nvmlDeviceGetNvLinkVersion):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(gpu, 0)
    for absent in (nvml.nvmlDeviceGetNumaNodeId, nvml.nvmlDeviceGetMigMode):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            absent(gpu)
    refused(
        pynvml.NVMLError_FunctionNotFound,
        nvml.nvmlDeviceGetPlatformInfo,
        gpu,
        ctypes.byref(pynvml.c_nvmlPlatformInfo_v2_t()),
    )


@pytest.mark.parametrize(
    ("driver", "call"),
    [("549.1", "nvmlDeviceGetNumaNodeId"), ("534.1", "nvmlDeviceGetModuleId"), ("449.1", "nvmlDeviceGetMigMode")],
)
def test_an_old_driver_lacks_young_calls(driver: str, call: str) -> None:
    nvml = started(with_driver("gb200-nvl72-tray", driver))
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        getattr(nvml, call)(nvml.nvmlDeviceGetHandleByIndex(0))


def test_an_old_driver_lacks_young_fields() -> None:
    nvml, gpu = with_gpu(with_driver("hgx-h100-8", "515.65.01"))
    assert fields(nvml, gpu, (STATE, 0), COUNT) == [(pynvml.NVML_ERROR_INVALID_ARGUMENT, 0), (0, 18)]


def test_fabric_versions_follow_the_driver() -> None:
    for driver, mismatched in (("580.1", []), ("570.1", [3]), ("549.1", [3, 2]), ("524.1", [3, 2, 1])):
        nvml = started(with_driver("gb200-nvl72-tray", driver))
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        failed = []
        for version, info in (
            (3, pynvml.c_nvmlGpuFabricInfo_v3_t()),
            (2, pynvml.c_nvmlGpuFabricInfo_v2_t()),
            (1, pynvml.c_nvmlGpuFabricInfo_t()),
        ):
            call = nvml.nvmlDeviceGetGpuFabricInfo if version == 1 else nvml.nvmlDeviceGetGpuFabricInfoV
            try:
                assert call(gpu, ctypes.byref(info)) == pynvml.NVML_SUCCESS
            except (pynvml.NVMLError_ArgumentVersionMismatch, pynvml.NVMLError_FunctionNotFound):
                failed.append(version)
                continue
            assert (info.state, info.cliqueId, info.status) == (3, 32766, 0)
            assert bytes(info.clusterUuid).hex() == "6a8ab8c124e44fd19d5c0d9f3fd6a1b2"
            if version > 1:
                assert info.healthMask == 0x1AA
        assert failed == mismatched


def test_the_fabric_state_is_one_byte_and_the_version_is_checked() -> None:
    nvml, gpu = with_gpu("gb200-nvl72-tray")
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.state = 0xFFFFFFFF
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    assert info.state == 0xFFFFFF03
    info.version = 7
    refused(pynvml.NVMLError_ArgumentVersionMismatch, nvml.nvmlDeviceGetGpuFabricInfoV, gpu, ctypes.byref(info))


def test_fabric_of_products_without_one() -> None:
    nvml, gpu = with_gpu("l40s-4")
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetGpuFabricInfoV, gpu, ctypes.byref(info))
    nvml, gpu = with_gpu("h100-nvl-2")
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    assert info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED


def test_platform_info_is_laid_out_as_in_the_header() -> None:
    nvml, gpu = with_gpu("gb200-nvl72-tray")
    info = pynvml.c_nvmlPlatformInfo_v2_t()
    nvml.nvmlDeviceGetPlatformInfo(gpu, ctypes.byref(info))
    version, guid, chassis, *numbers = struct.unpack_from("<I16s16s5B", bytes(info))
    assert version == 0x0200002C
    assert guid != bytes(16)
    assert chassis == b"1821025193108\0\0\0"
    assert numbers == [1, 0, 1, 1, 2]
    info.version = 9
    refused(pynvml.NVMLError_ArgumentVersionMismatch, nvml.nvmlDeviceGetPlatformInfo, gpu, ctypes.byref(info))


def test_two_dies_of_one_board_share_it() -> None:
    nvml = started("k80-4")
    gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(4)]
    assert [nvml.nvmlDeviceGetTopologyCommonAncestor(gpus[0], gpu) for gpu in gpus] == [0, 0, 30, 30]


def test_p2p_status() -> None:
    nvml = started("dgx1-v100")
    gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
    assert nvml.nvmlDeviceGetP2PStatus(gpus[0], gpus[1], 2) == pynvml.NVML_P2P_STATUS_OK
    assert nvml.nvmlDeviceGetP2PStatus(gpus[0], gpus[5], 2) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
    with pytest.raises(ctypes.ArgumentError):
        nvml.nvmlDeviceGetP2PStatus(gpus[0], gpus[1], pynvml.NVML_P2P_CAPS_INDEX_READ)
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetP2PStatus, gpus[0], gpus[1], 5)
    switched = started("hgx-h100-8")
    pair = [switched.nvmlDeviceGetHandleByIndex(i) for i in (0, 7)]
    assert switched.nvmlDeviceGetP2PStatus(pair[0], pair[1], 2) == pynvml.NVML_P2P_STATUS_OK


def test_mig_devices_hang_below_their_parent() -> None:
    machine = load_profile("dgx-a100")
    gpus = (replace(machine.gpus[0], mig=("MIG-a", "MIG-b")), *machine.gpus[1:])
    nvml = started(replace(machine, gpus=gpus))
    parent, other = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert nvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert nvml.nvmlDeviceGetMigMode(other) == [0, 0]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
    part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 1)
    assert nvml.nvmlDeviceGetUUID(part) == "MIG-b"
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkState, part, 0)
    refused(pynvml.NVMLError_NotFound, nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 2)
    refused(pynvml.NVMLError_InvalidArgument, nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 7)


def test_events_never_come_and_a_lost_gpu_ends_the_wait() -> None:
    waited: list[float] = []
    nvml = started("t4-1", wait=waited.append)
    gpu, events = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlEventSetCreate()
    supported = nvml.nvmlDeviceGetSupportedEventTypes(gpu)
    assert supported & pynvml.nvmlEventTypeXidCriticalError
    refused(
        pynvml.NVMLError_NotSupported, nvml.nvmlDeviceRegisterEvents, gpu, pynvml.nvmlEventTypeGpuRecoveryAction, events
    )
    nvml.nvmlDeviceRegisterEvents(gpu, supported, events)
    refused(pynvml.NVMLError_Timeout, nvml.nvmlEventSetWait_v2, events, 1500)
    assert waited == [1.5]
    nvml.faults = Faults(lost=frozenset({0}))
    refused(pynvml.NVMLError_GpuIsLost, nvml.nvmlEventSetWait_v2, events, 1500)
    nvml.nvmlEventSetFree(events)


# Faults


@pytest.mark.parametrize("code", [9, 12, 18, 999])
def test_init_fails(code: int) -> None:
    with pytest.raises(pynvml.NVMLError) as failure:
        started("t4-1", Faults(init_error=code))
    assert failure.value.value == code


def test_a_lost_gpu_keeps_its_index_and_its_name_on_the_bus() -> None:
    nvml = started("dgx-h200")
    held = nvml.nvmlDeviceGetHandleByIndex(2)
    neighbour = nvml.nvmlDeviceGetHandleByIndex(3)
    nvml.faults = Faults(lost=frozenset({2}))
    assert nvml.nvmlDeviceGetCount() == 8
    for call in (
        lambda: nvml.nvmlDeviceGetHandleByIndex(2),
        lambda: nvml.nvmlDeviceGetHandleByPciBusId(nvml.machine.gpus[2].function.address),
        lambda: nvml.nvmlDeviceGetUUID(held),
        lambda: nvml.nvmlDeviceGetTopologyCommonAncestor(neighbour, held),
    ):
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call()
    assert nvml.nvmlDeviceGetName(neighbour) == "NVIDIA H200"


def test_a_vanished_gpu_lowers_the_count_and_closes_the_gap() -> None:
    nvml = started("dgx-h200", Faults(vanished=frozenset({2})))
    assert nvml.nvmlDeviceGetCount() == 7
    third = nvml.nvmlDeviceGetHandleByIndex(2)
    assert nvml.nvmlDeviceGetUUID(third) == nvml.machine.gpus[3].uuid
    assert nvml.nvmlDeviceGetIndex(third) == 2
    refused(pynvml.NVMLError_NotFound, nvml.nvmlDeviceGetHandleByPciBusId, nvml.machine.gpus[2].function.address)


def test_a_dead_link_is_dead_at_both_ends() -> None:
    nvml = started("rtx3090-2-nvlink", Faults(links_down={0: frozenset({3})}))
    for index in (0, 1):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        assert [nvml.nvmlDeviceGetNvLinkState(gpu, link) for link in range(4)] == [1, 1, 1, 0]
        assert fields(nvml, gpu, COUNT, (STATE, 3), (SPEED, 3)) == [(0, 4), (0, 0), (0, 0)]
        assert nvml.nvmlDeviceGetNvLinkVersion(gpu, 3) == pynvml.NVML_NVLINK_VERSION_3_1


def test_a_gpu_thrown_out_of_the_switches_leaves_the_others_whole() -> None:
    nvml = started("hgx-b200-8", Faults(links_down={2: "all"}))
    gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
    assert fields(nvml, gpus[2], SWITCH_LINKS, SPEED_COMMON) == [(0, 0), (pynvml.NVML_ERROR_NOT_SUPPORTED, 0)]
    assert fields(nvml, gpus[3], SWITCH_LINKS) == [(0, 18)]
    assert nvml.nvmlDeviceGetP2PStatus(gpus[2], gpus[3], 2) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


def test_a_call_fails_for_one_gpu_or_for_all() -> None:
    faults = Faults(calls=(CallFault("nvmlDeviceGetName", 999, gpu=1), CallFault("nvmlDeviceGetSerial", 4)))
    nvml = started("dgx-h200", faults)
    first, second = (nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert nvml.nvmlDeviceGetName(first) == "NVIDIA H200"
    refused(pynvml.NVMLError_Unknown, nvml.nvmlDeviceGetName, second)
    refused(pynvml.NVMLError_NoPermission, nvml.nvmlDeviceGetSerial, first)


def test_a_call_hangs_or_crashes() -> None:
    done: list[str] = []
    faults = Faults(calls=(CallFault("nvmlDeviceGetCount", hang=True), CallFault("nvmlInit", crash=True)))
    nvml = started("t4-1", faults, hang=lambda: done.append("hung"), crash=lambda: done.append("crashed"))
    nvml.nvmlDeviceGetCount()
    assert done == ["crashed", "hung"]


def test_a_fabric_fault_changes_one_gpu() -> None:
    nvml = started("gb200-nvl72-tray", Faults(fabric={1: {"state": 2, "health_mask": 0}}))
    states = []
    for index in range(2):
        info = pynvml.c_nvmlGpuFabricInfo_v3_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(nvml.nvmlDeviceGetHandleByIndex(index), ctypes.byref(info))
        states.append((info.state, info.healthMask, info.cliqueId))
    assert states == [(3, 0x1AA, 32766), (2, 0, 32766)]


def test_a_fault_file_breaks_a_running_library(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    nvml = started("dgx-h200", faults_file=file)
    assert nvml.nvmlDeviceGetCount() == 8
    file.write_text("vanished: [0, 1]\n")
    assert nvml.nvmlDeviceGetCount() == 6
    file.unlink()
    assert nvml.nvmlDeviceGetCount() == 8


def test_a_machine_of_unknown_make_invents_nothing() -> None:
    machine = load_profile("hgx-h100-8")
    bare = tuple(
        replace(gpu, name=None, architecture=None, nvlink_version=None, link_mbps=None, fabric=Fabric(0))
        for gpu in machine.gpus
    )
    nvml, gpu = with_gpu(replace(machine, gpus=bare, driver=None))
    assert nvml.nvmlDeviceGetArchitecture(gpu) == pynvml.NVML_DEVICE_ARCH_UNKNOWN
    assert fields(nvml, gpu, (SPEED, 0)) == [(pynvml.NVML_ERROR_NOT_SUPPORTED, 0)]
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetName, gpu)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlDeviceGetNvLinkVersion, gpu, 0)
    refused(pynvml.NVMLError_NotSupported, nvml.nvmlSystemGetDriverVersion)
