"""Fabric answers in every layout and state; numbers as in nvml.h."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.machines import discovered
from toposcope.agent.fabric import fabric_reasons, health_bits, node_fabric, registration
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.structs import read_fabric, read_platform
from toposcope.agent.raw import RawFabric, RawGpu
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import Fabric

UUID = "6a8ab8c124e44fd19d5c0d9f3fd6a1b2"
MEMBER = RawFabric(state=3, status=0, uuid=UUID, clique=32766, cliques=((0, 32766),))


def gpus(*answers: RawFabric | None) -> list[RawGpu]:
    return [
        RawGpu(i, f"0000:{i:02x}:00.0", None, None, (), switch_links=None, fabric=answer)
        for i, answer in enumerate(answers)
    ]


@pytest.mark.parametrize(
    ("mask", "bad"),
    [
        (0, {}),
        # Good in every row: the polarity flips between them.
        (0b01_01_0001_10_10_10_10, {}),
        (0b01, {"degraded_bandwidth": "degraded bandwidth"}),
        (0b01 << 2, {"route_recovery": "route recovery in progress"}),
        (0b01 << 4, {"route_unhealthy": "route unhealthy"}),
        (0b01 << 6, {"access_timeout_recovery": "access timeout recovery in progress"}),
        (3 << 8, {"incorrect_configuration": "wrong chassis serial number"}),
        (8 << 8, {"incorrect_configuration": "invalid GPU state"}),
        (2 << 12, {"partition_unassigned": "no partition assigned"}),
        (2 << 14, {"fabric_manager_disconnected": "fabric manager disconnected"}),
        (0xFFFF_0000, {}),
    ],
)
def test_the_health_mask(mask: int, bad: dict[str, str]) -> None:
    assert health_bits(MEMBER._replace(health_mask=mask)) == bad


def test_bad_health_is_told_though_uuid_and_clique_look_right() -> None:
    """dra-driver-nvidia-gpu#626."""
    node = gpus(MEMBER, MEMBER._replace(health_mask=1, health_summary=2))
    assert node_fabric(node) == (Fabric.COMPLETED, "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766")
    assert fabric_reasons(node) == ["GPU 1: fabric health: degraded bandwidth"]
    assert fabric_reasons(gpus(MEMBER._replace(health_summary=3))) == ["GPU 0: fabric health: limited capacity"]


def test_a_uuid_that_begins_with_a_zero_byte_is_a_uuid() -> None:
    """flashinfer#5143."""
    odd = MEMBER._replace(uuid="00" + UUID[2:])
    assert node_fabric(gpus(odd, odd))[0] is Fabric.COMPLETED


def test_pairs_are_the_identity() -> None:
    other = MEMBER._replace(uuid="f" * 32)
    assert node_fabric(gpus(MEMBER, other)) == (Fabric.FAILED, None)
    assert "in 2 fabric cliques" in fabric_reasons(gpus(MEMBER, other))[-1]


def test_one_gpu_outside_is_named() -> None:
    assert fabric_reasons(gpus(MEMBER, None)) == ["GPU 1: not in the NVLink fabric that other GPUs of this node are in"]


def test_a_node_half_registered_is_still_registering() -> None:
    node = gpus(MEMBER, MEMBER._replace(state=2, uuid="0" * 32))
    assert node_fabric(node) == (Fabric.IN_PROGRESS, None)
    assert fabric_reasons(node) == ["GPU 1: still registering with the NVLink fabric"]


@pytest.mark.parametrize("driver", ["525.60.13", "550.54.15", "580.95.05"])
def test_each_driver_answers_in_the_layout_it_has(driver: str, tmp_path: Path) -> None:
    machine = replace(load_profile("gb200-nvl72-tray"), driver=driver)
    topology = discovered(machine, tmp_path)
    assert topology.clique == "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
    assert topology.fabric is Fabric.COMPLETED


class Padding(SimulatedNvml):
    """A driver that leaves rubbish in the three bytes after the one-byte state, as the C layout allows."""

    def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
        info._obj.state = 0xDEADBE00
        return super().nvmlDeviceGetGpuFabricInfoV(handle, info)


def test_the_state_is_one_byte() -> None:
    module = Padding(load_profile("gb200-nvl72-tray"))
    module.nvmlInit()
    answer = read_fabric(Nvml(module), module.nvmlDeviceGetHandleByIndex(0))
    assert isinstance(answer, RawFabric)
    assert answer.state == 3


def test_no_answer_and_state_zero_are_alike() -> None:
    """PCIe cards and single GPUs answer either (gpud#1140, #1147)."""
    zero = RawFabric(state=0, status=0, uuid="0" * 32, clique=0)
    assert node_fabric(gpus(zero, zero)) == node_fabric(gpus(None, None)) == (Fabric.NOT_SUPPORTED, None)
    assert fabric_reasons(gpus(zero, None)) == []


class NewestDriver(SimulatedNvml):
    """A driver with several cliques for each GPU."""

    cliques: tuple[tuple[int, int], ...] = ()

    def nvmlDeviceGetGpuFabricInfo_v4(self, handle: object, info: object) -> int:  # noqa: N802 - NVML's name
        del handle
        struct = info._obj  # type: ignore[attr-defined]  # what byref() holds
        struct.clusterUuid[:] = bytes.fromhex(UUID)
        struct.state, struct.numCliques = 3, len(self.cliques)
        for entry, (kind, number) in zip(struct.cliques, self.cliques, strict=False):
            entry.type, entry.id = kind, number
        return 0


@pytest.mark.skipif(not hasattr(pynvml, "c_nvmlGpuFabricInfo_v4_t"), reason="this binding knows one clique a GPU")
@pytest.mark.parametrize(
    ("cliques", "clique"), [(((0, 7),), 7), (((0, 7), (0, 9), (1, 3)), 7), (((1, 3), (2, 4)), None), ((), None)]
)
def test_of_several_cliques_the_one_for_memory_access_counts(
    cliques: tuple[tuple[int, int], ...], clique: int | None
) -> None:
    module = NewestDriver(load_profile("gb200-nvl72-tray"))
    module.cliques = cliques
    module.nvmlInit()
    answer = read_fabric(Nvml(module), module.nvmlDeviceGetHandleByIndex(0))
    assert isinstance(answer, RawFabric)
    assert (answer.clique, answer.cliques, answer.uuid) == (clique, cliques, UUID)
    assert (registration(answer).clique, registration(answer).cliques) == (clique, cliques)


def test_platform_numbers_are_numbers() -> None:
    """The binding types them as characters; slot 200 would not even print."""
    machine = load_profile("gb200-nvl72-tray")
    place = machine.gpus[0].platform
    assert place is not None
    odd = replace(machine, gpus=(replace(machine.gpus[0], platform=replace(place, slot=200, tray=0)),))
    module = SimulatedNvml(odd)
    module.nvmlInit()
    found = read_platform(Nvml(module), module.nvmlDeviceGetHandleByIndex(0))
    assert found is not None
    assert (found.chassis, found.slot, found.tray) == ("1821025193108", 200, 0)


def test_other_products_have_no_platform() -> None:
    module = SimulatedNvml(load_profile("dgx-h200"))
    module.nvmlInit()
    assert read_platform(Nvml(module), module.nvmlDeviceGetHandleByIndex(0)) is None
