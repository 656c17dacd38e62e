"""The simulated NVML answers as nvml.h and reports of real machines say."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest
from tests.support.tables import each_row
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

SPEED, REMOTE_LINK = 164, 146


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


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    machine: str
    answers: dict[str, Any]
    driver: str = ""
    faults: Faults = msgspec.field(default_factory=Faults)
    mig: list[str] | None = None
    """UUIDs of the MIG devices of its first GPU, where it has some."""


@each_row("nvml_answers.yaml", Asked, ids=lambda row: f"{row.machine} {row.driver}")
def test_answers(row: Asked) -> None:
    machine = load_profile(row.machine)
    gpus = (replace(machine.gpus[0], mig=tuple(row.mig)), *machine.gpus[1:]) if row.mig else machine.gpus
    nvml = started(replace(machine, driver=row.driver or machine.driver, gpus=gpus))
    handles = {f"gpu{i}": nvml.nvmlDeviceGetHandleByIndex(i) for i in range(len(machine.gpus))}
    parts = {f"mig{i}": nvml.nvmlDeviceGetMigDeviceHandleByIndex(handles["gpu0"], i) for i in range(len(row.mig or ()))}
    handles |= parts
    nvml.faults = row.faults

    def answer(call: str, *words: str) -> Any:
        arguments: list[Any] = [handles.get(word, int(word) if word.isdecimal() else word) for word in words]
        try:
            if call == "fabric":
                info = pynvml.c_nvmlGpuFabricInfo_v3_t()
                nvml.nvmlDeviceGetGpuFabricInfoV(arguments[0], ctypes.byref(info))
                return f"{info.state} {info.healthMask} {info.cliqueId}"
            if call != "fields":
                return getattr(nvml, call)(*arguments)
        except pynvml.NVMLError as error:
            return type(error).__name__.removeprefix("NVMLError_")
        wanted: list[Any] = [tuple(map(int, word.split(":"))) if ":" in word else int(word) for word in words[1:]]
        values = fields(nvml, arguments[0], *wanted)
        return " ".join(f"!{code}" if code else str(value) for code, value in values)

    assert {asked: answer(*asked.split()) for asked in row.answers} == {
        asked: str(given) if asked.startswith("fields") else given for asked, given in row.answers.items()
    }


def test_nothing_is_answered_before_init_and_after_the_last_shutdown() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlDeviceGetCount)
    nvml.nvmlInit()
    nvml.nvmlInitWithFlags(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 1
    nvml.nvmlShutdown()
    refused(pynvml.NVMLError_Uninitialized, nvml.nvmlSystemGetDriverVersion)


def test_a_handle_is_found_by_any_spelling_of_its_address_and_by_uuid() -> None:
    nvml = started("dgx-h200")
    gpu = nvml.nvmlDeviceGetHandleByIndex(3)
    bus_id = nvml.nvmlDeviceGetPciInfo(gpu).busId
    for spelling in (bus_id, bus_id.lower()[4:], bus_id.encode()):
        assert nvml.nvmlDeviceGetHandleByPciBusId(spelling) == gpu
    assert nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu)) == gpu
    info = nvml.nvmlDeviceGetPciInfo(gpu)
    assert (info.busIdLegacy, info.pciDeviceId) == (bus_id[4:], 0x233510DE)
    assert len(nvml.nvmlDeviceGetSerial(gpu)) == 13
    with pytest.raises(ctypes.ArgumentError):  # the binding's own trap: that constant is a tuple
        nvml.nvmlDeviceGetP2PStatus(gpu, gpu, pynvml.NVML_P2P_CAPS_INDEX_READ)


def test_links_end_in_switches_with_an_address_or_out_of_sight() -> None:
    nvml, gpu = with_gpu("hgx-h100-8")
    switches = {switch.address for switch in nvml.machine.nvswitches}
    ends = [nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link) for link in range(18)]
    assert {end.busId.lower()[4:] for end in ends} == switches
    assert {end.pciDeviceId for end in ends} == {0x22A310DE}
    nvml, gpu = with_gpu("gb200-nvl72-tray")
    assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, 17).busId == "FFFFFFFF:FF:FF.0"


def test_direct_links_name_each_other() -> None:
    nvml = started("dgx1-v100")
    for i, gpu in enumerate(nvml.machine.gpus):
        here = nvml.nvmlDeviceGetHandleByIndex(i)
        for link in range(6):
            there = nvml.nvmlDeviceGetHandleByPciBusId(nvml.nvmlDeviceGetNvLinkRemotePciInfo(here, link).busId)
            back = fields(nvml, here, (REMOTE_LINK, link))[0][1]
            assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(there, back).busId.lower()[4:] == gpu.function.address
            assert fields(nvml, there, (REMOTE_LINK, back)) == [(0, link)]


def test_the_fabric_state_is_one_byte_and_the_version_is_checked() -> None:
    nvml, gpu = with_gpu("gb200-nvl72-tray")
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.state = 0xFFFFFFFF
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    assert info.state == 0xFFFFFF03
    info.version = 7
    refused(pynvml.NVMLError_ArgumentVersionMismatch, nvml.nvmlDeviceGetGpuFabricInfoV, gpu, ctypes.byref(info))


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


def test_a_call_hangs_or_crashes() -> None:
    done: list[str] = []
    faults = Faults(calls=(CallFault("nvmlDeviceGetCount", hang=True), CallFault("nvmlInit", crash=True)))
    nvml = started("t4-1", faults, hang=lambda: done.append("hung"), crash=lambda: done.append("crashed"))
    nvml.nvmlDeviceGetCount()
    assert done == ["crashed", "hung"]


def test_a_fault_file_breaks_a_running_library(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    nvml = started("dgx-h200", faults_file=file)
    assert nvml.nvmlDeviceGetCount() == 8
    file.write_text("vanished: [0, 1]\n")
    assert nvml.nvmlDeviceGetCount() == 6
    file.unlink()
    assert nvml.nvmlDeviceGetCount() == 8
