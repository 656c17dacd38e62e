"""Fabric and platform answers in every layout and state, and misleading ones; numbers as in nvml.h."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.machines import changed, discovered, probed, started
from tests.support.tables import each_case
from toposcope.agent.describe import describe
from toposcope.agent.fabric import fabric_reasons, health_bits, node_fabric
from toposcope.agent.labels import labels_for
from toposcope.agent.nvml.structs import read_fabric, read_platform
from toposcope.agent.raw import RawFabric, RawGpu
from toposcope.api import label_keys
from toposcope.simulator.faults import Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import Fabric, State

TRAY = "gb200-nvl72-tray"
MEMBER = RawFabric(3, 0, "6a8ab8c124e44fd19d5c0d9f3fd6a1b2", clique=32766, cliques=((0, 32766),))


@each_case("tables/agent.yaml")
def test_the_health_mask(mask: int, bad: dict[str, str]) -> None:
    assert health_bits(MEMBER._replace(health_mask=mask)) == bad


@each_case("tables/agent.yaml")
def test_what_the_answers_of_a_node_s_gpus_mean_together(
    answers: list[dict[str, Any] | None], state: str, name: str | None, reasons: list[str]
) -> None:
    """Each has the fields that differ from those of a member; None: a GPU without an answer."""
    node = [
        RawGpu(i, f"0000:{i:02x}:00.0", None, None, (), switch_links=None, fabric=answer)
        for i, answer in enumerate(MEMBER._replace(**of) if of is not None else None for of in answers)
    ]
    assert (*node_fabric(node), fabric_reasons(node)) == (Fabric(state), name, reasons)


def test_platform_numbers_are_numbers() -> None:
    """The binding types them as characters; slot 200 would not even print."""
    machine = load_profile(TRAY)
    platform = machine.gpus[0].platform
    assert platform is not None
    odd = changed(machine, platform=replace(platform, slot=200, tray=0))
    answer = read_platform(*started(SimulatedNvml(odd)))
    assert answer is not None
    assert (answer.chassis, answer.slot, answer.tray) == ("1821025193108", 200, 0)


def test_other_products_have_no_platform() -> None:
    assert read_platform(*started(SimulatedNvml(load_profile("dgx-h200")))) is None


def test_a_tray_whose_fabric_is_down_reports_that_it_has_none(tmp_path: Path) -> None:
    """State 0 is "not supported" on a PCIe card; on a node that was in a fabric before it is a fault."""
    machine = load_profile(TRAY)
    before = describe(probed(machine, tmp_path), "n1").annotations[label_keys.REFERENCE]
    down = probed(machine, tmp_path, Faults(fabric={i: {"state": 0} for i in range(4)}))
    description = describe(down, "n1", before)
    assert description.topology
    assert (description.topology.fabric, description.topology.state) == (Fabric.NOT_SUPPORTED, State.DEGRADED)
    assert description.topology.reasons == ("the node was in a multi-node NVLink fabric before and is in none now",)
    assert description.labels.known[label_keys.NVLINK_DOMAIN] == "n1"
    again = describe(probed(machine, tmp_path), "n1", description.annotations[label_keys.REFERENCE])
    assert again.labels.known[label_keys.STATE] == "ok"
    assert describe(down, "n1").labels.known[label_keys.STATE] == "ok"  # it never was in one: nothing is missing


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_INVALID_ARGUMENT])
def test_a_driver_rejects_an_unknown_layout_in_two_ways_and_leaves_garbage(code: int) -> None:
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


def test_a_chassis_serial_that_is_not_ascii_is_no_label_and_no_crash(tmp_path: Path) -> None:
    """The binding raises UnicodeDecodeError for such bytes."""

    class Garbled(SimulatedNvml):
        def nvmlDeviceGetPlatformInfo(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            done = super().nvmlDeviceGetPlatformInfo(handle, info)
            (pynvml.c_char * 44).from_buffer(info._obj)[20:24] = b"\xff\x80\xfe\x81"
            return int(done)

    known = labels_for(discovered(load_profile(TRAY), tmp_path, kind=Garbled), "n1").known
    assert label_keys.CHASSIS not in known
    assert (known[label_keys.TRAY], known[label_keys.SLOT]) == ("0", "1")


def test_the_older_platform_layout_gives_the_same() -> None:
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
