"""Fabrics that are not what they seem, and platform information that is no text; plain answers: test_fabric.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.machines import discovered, probed
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.structs import read_fabric, read_platform
from toposcope.agent.raw import RawFabric
from toposcope.api import label_keys
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import Fabric, GpuFabric, State

TRAY = "gb200-nvl72-tray"


def changed(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about its first GPU."""
    return replace(machine, gpus=(replace(machine.gpus[0], **facts), *machine.gpus[1:]))


def started(module: SimulatedNvml) -> tuple[Nvml, Any]:
    module.nvmlInit()
    return Nvml(module), module.nvmlDeviceGetHandleByIndex(0)


# Fabric, beyond its layouts


def test_a_tray_whose_fabric_is_down_says_that_it_has_none(tmp_path: Path) -> None:
    """State 0 is "not supported" on a PCIe card; on a node that was in a fabric before it is a fault."""
    machine = load_profile(TRAY)
    before = describe(probed(machine, tmp_path), "n1").annotations[label_keys.REFERENCE]
    down = probed(machine, tmp_path, Faults(fabric={i: {"state": 0} for i in range(4)}))
    found = describe(down, "n1", before)
    assert found.topology
    assert (found.topology.fabric, found.topology.state) == (Fabric.NOT_SUPPORTED, State.DEGRADED)
    assert found.topology.reasons == ("the node was in a multi-node NVLink fabric before and is in none now",)
    assert found.labels.known[label_keys.NVLINK_DOMAIN] == "n1"
    again = describe(probed(machine, tmp_path), "n1", found.annotations[label_keys.REFERENCE])
    assert again.labels.known[label_keys.STATE] == "ok"
    assert describe(down, "n1").labels.known[label_keys.STATE] == "ok"  # it never was in one: nothing is missing


def test_a_lost_gpu_may_hold_up_the_others_registration(tmp_path: Path) -> None:
    faults = Faults(lost=frozenset({3}), fabric={i: {"state": 2} for i in range(3)})
    topology = discovered(load_profile(TRAY), tmp_path, faults)
    assert (topology.fabric, topology.state) == (Fabric.IN_PROGRESS, State.UNKNOWN)
    assert "is on the PCI bus but not in NVML" in topology.reasons[0]
    assert {gpu.fabric for gpu in topology.gpus} == {GpuFabric.IN_PROGRESS}


def test_a_fabric_call_that_fails_is_a_fault_and_not_the_absence_of_a_fabric(tmp_path: Path) -> None:
    faults = Faults(calls=(CallFault("nvmlDeviceGetGpuFabricInfoV", outcome=999, gpu=2),))
    topology = discovered(load_profile(TRAY), tmp_path, faults)
    assert (topology.fabric, topology.gpus[2].fabric) == (Fabric.FAILED, GpuFabric.FAILED)
    assert topology.reasons == ("GPU 2: fabric query failed: Unknown Error",)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_INVALID_ARGUMENT])
def test_an_unknown_layout_is_refused_in_two_ways_and_leaves_rubbish(code: int) -> None:
    """Both fall through to the older layout, and a struct that a refusal scribbled on is not used again."""

    class Older(SimulatedNvml):
        def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            if info._obj.version == pynvml.nvmlGpuFabricInfo_v3:
                info._obj.version, info._obj.healthMask = 0xDEAD, 0xFFFF
                raise pynvml.NVMLError(code)
            return super().nvmlDeviceGetGpuFabricInfoV(handle, info)

    answer = read_fabric(*started(Older(load_profile(TRAY))))
    assert isinstance(answer, RawFabric)
    assert (answer.state, answer.health_mask, answer.health_summary) == (3, 0x1AA, None)


def test_a_cluster_uuid_is_sixteen_bytes_with_zeros_in_them() -> None:
    """Read as a string it would end at the first zero."""
    fabric = load_profile(TRAY).gpus[0].fabric
    assert fabric
    odd = type(fabric.cluster_uuid)(bytes=b"\x00\xff\x00" + bytes(12) + b"\x80")
    machine = changed(load_profile(TRAY), fabric=replace(fabric, cluster_uuid=odd))
    for driver in ("525.60.13", "550.54.15", "580.95.05"):
        answer = read_fabric(*started(SimulatedNvml(replace(machine, driver=driver))))
        assert isinstance(answer, RawFabric)
        assert answer.uuid == odd.hex


# Platform


def test_a_chassis_serial_that_is_no_text_is_no_label_and_no_crash(tmp_path: Path) -> None:
    """The binding raises UnicodeDecodeError for such bytes."""

    class Garbled(SimulatedNvml):
        def nvmlDeviceGetPlatformInfo(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            done = super().nvmlDeviceGetPlatformInfo(handle, info)
            memory = (pynvml.c_char * 44).from_buffer(info._obj)
            memory[20:24] = b"\xff\x80\xfe\x81"
            return int(done)

    known = labels_for(discovered(load_profile(TRAY), tmp_path, kind=Garbled), "n1").known
    assert label_keys.CHASSIS not in known
    assert (known[label_keys.TRAY], known[label_keys.SLOT]) == ("0", "1")


def test_a_driver_with_the_older_platform_layout_tells_the_same() -> None:
    class Older(SimulatedNvml):
        def nvmlDeviceGetPlatformInfo(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            if info._obj.version == pynvml.nvmlPlatformInfo_v2:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
            return super().nvmlDeviceGetPlatformInfo(handle, info)

    machine = load_profile(TRAY)
    newer, older = (read_platform(*started(kind(machine))) for kind in (SimulatedNvml, Older))
    assert newer == older
    assert newer is not None
    assert (newer.chassis, newer.slot, newer.tray, newer.host, newer.module) == ("1821025193108", 1, 0, 1, 2)
