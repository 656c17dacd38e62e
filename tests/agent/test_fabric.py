"""Fabric and platform answers in every layout and state, and misleading ones; numbers as in nvml.h."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.support.machines import changed, discovered, probed, started
from toposcope.agent.describe import describe
from toposcope.agent.fabric import fabric_reasons, health_bits, node_fabric
from toposcope.agent.labels import labels_for
from toposcope.agent.nvml.structs import read_fabric, read_platform
from toposcope.agent.raw import RawFabric, RawGpu
from toposcope.api import label_keys
from toposcope.hardware.topology import Fabric, GpuFabric, State
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import FabricRegistration as SimulatedFabric
from toposcope.simulator.machine import Machine
from toposcope.simulator.machine import TrayPlatform as SimulatedPlatform
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

TRAY = "gb200-nvl72-tray"
MEMBER = RawFabric(3, 0, "6a8ab8c124e44fd19d5c0d9f3fd6a1b2", clique=32766, cliques=((0, 32766),))


# Two bits for each of the first four faults, four for the configuration, two for each of the others.
@pytest.mark.parametrize(
    ("mask", "bit", "words"),
    [
        pytest.param(0b01, "degraded_bandwidth", "degraded bandwidth", id="bandwidth"),
        pytest.param(0b01_00, "route_recovery", "route recovery in progress", id="route-recovery"),
        pytest.param(0b01_00_00, "route_unhealthy", "route unhealthy", id="route"),
        pytest.param(
            0b01_00_00_00, "access_timeout_recovery", "access timeout recovery in progress", id="access-timeout"
        ),
        pytest.param(0b0011_00_00_00_00, "incorrect_configuration", "wrong chassis serial number", id="chassis"),
        pytest.param(0b1000_00_00_00_00, "incorrect_configuration", "invalid GPU state", id="gpu-state"),
        pytest.param(0b10_0000_00_00_00_00, "partition_unassigned", "no partition assigned", id="partition"),
        pytest.param(
            0b10_00_0000_00_00_00_00, "fabric_manager_disconnected", "fabric manager disconnected", id="fabric-manager"
        ),
    ],
)
def test_health_mask_names_its_bad_bit(mask: int, bit: str, words: str) -> None:
    unhealthy = MEMBER._replace(health_mask=mask)
    assert health_bits(unhealthy) == {bit: words}


@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(0, id="nothing-known"),
        pytest.param(0b01_01_0001_10_10_10_10, id="all-good"),  # the polarity flips between the fields
        pytest.param(0xFFFF0000, id="unknown-bits"),
    ],
)
def test_good_health_mask_has_no_bad_bits(mask: int) -> None:
    healthy = MEMBER._replace(health_mask=mask)
    assert health_bits(healthy) == {}


# The answers of a node's GPUs, taken together: dra-driver-nvidia-gpu#626, flashinfer#5143, gpud#1140 and #1147.

CLIQUE = "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
STATE_ZERO = MEMBER._replace(state=0, uuid="0" * 32, clique=0, cliques=())
"""PCIe cards and single GPUs answer so, or not at all."""


def node_of(*answers: RawFabric | None) -> list[RawGpu]:
    """GPUs that answer so about their fabric."""
    gpus = []
    for index, answer in enumerate(answers):
        gpu = RawGpu(
            index=index,
            pci=f"0000:{index:02x}:00.0",
            uuid=None,
            name=None,
            links=(),
            switch_links=None,
            fabric=answer,
        )
        gpus.append(gpu)
    return gpus


def test_bad_health_is_reported_beside_the_right_clique() -> None:
    unhealthy = MEMBER._replace(health_mask=1, health_summary=2)
    node = node_of(MEMBER, unhealthy)
    assert node_fabric(node) == (Fabric.COMPLETED, CLIQUE)
    assert fabric_reasons(node) == ["GPU 1: fabric health: degraded bandwidth"]


def test_bad_health_summary_alone_is_reported() -> None:
    limited = MEMBER._replace(health_summary=3)
    node = node_of(limited)
    assert node_fabric(node) == (Fabric.COMPLETED, CLIQUE)
    assert fabric_reasons(node) == ["GPU 0: fabric health: limited capacity"]


def test_member_without_a_clique_is_reported() -> None:
    without = MEMBER._replace(clique=None, cliques=())
    assert "GPU 1: the fabric gave it no clique for memory access" in fabric_reasons(node_of(MEMBER, without))


def test_uuid_that_begins_with_a_zero_byte_is_a_uuid() -> None:
    member = MEMBER._replace(uuid="008ab8c124e44fd19d5c0d9f3fd6a1b2")
    node = node_of(member, member)
    assert node_fabric(node) == (Fabric.COMPLETED, "008ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766")
    assert fabric_reasons(node) == []


def test_gpus_with_two_cluster_uuids_are_in_two_cliques() -> None:
    other = MEMBER._replace(uuid="f" * 32)
    node = node_of(MEMBER, other)
    assert node_fabric(node) == (Fabric.FAILED, None)
    cliques = f"{CLIQUE}, ffffffff-ffff-ffff-ffff-ffffffffffff.32766"
    assert fabric_reasons(node) == [f"the GPUs of this node are in 2 fabric cliques: {cliques}"]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((STATE_ZERO, STATE_ZERO), id="state-zero"),
        pytest.param((None, None), id="no-answer"),
        pytest.param((STATE_ZERO, None), id="state-zero-and-no-answer"),
    ],
)
def test_gpus_in_no_fabric_do_not_support_one(answers: tuple[RawFabric | None, ...]) -> None:
    node = node_of(*answers)
    assert node_fabric(node) == (Fabric.NOT_SUPPORTED, None)
    assert fabric_reasons(node) == []


def test_platform_numbers_are_numbers() -> None:
    """The binding types them as characters; slot 200 would not even print."""
    machine = load_profile(TRAY)
    platform = machine.gpus[0].platform
    assert platform is not None
    unusual = replace(platform, slot=200, tray=0)
    nvml = SimulatedNvml(changed(machine, platform=unusual))
    answer = read_platform(*started(nvml))
    assert answer is not None
    assert answer.chassis == "1821025193108"
    assert answer.slot == 200
    assert answer.tray == 0


def test_other_products_have_no_platform() -> None:
    nvml = SimulatedNvml(load_profile("dgx-h200"))
    answer = read_platform(*started(nvml))
    assert answer is None


def everywhere(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about each of its GPUs."""
    gpus = []
    for gpu in machine.gpus:
        gpus.append(replace(gpu, **facts))
    return replace(machine, gpus=tuple(gpus))


def unplaced(machine: Machine) -> Machine:
    """The machine with a driver that has no platform information: before 570."""
    return everywhere(machine, platform=None)


def outside_fabrics(machine: Machine, **fabric: Any) -> Machine:
    """The machine with this answer about its fabric and a cluster UUID of zeros."""
    return everywhere(machine, fabric=SimulatedFabric(**fabric))


def test_tray_of_unknown_place_is_measured_by_its_past(tmp_path: Path) -> None:
    """State 0 is "not supported" on a PCIe card; on a node that was in a fabric before it is a fault."""
    machine = unplaced(load_profile(TRAY))
    registered = probed(machine, tmp_path)
    before = describe(registered, "n1")
    no_fabric = MachineFaults(fabric={gpu: {"state": 0} for gpu in range(4)})
    down = probed(machine, tmp_path, no_fabric)
    description = describe(down, "n1", before.annotations[label_keys.REFERENCE])
    topology = description.topology
    assert topology
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.state is State.DEGRADED
    assert topology.reasons == ("the node has left its multi-node NVLink fabric",)
    assert description.labels.by_key[label_keys.NVLINK_DOMAIN] == "n1"

    registered_again = probed(machine, tmp_path)
    again = describe(registered_again, "n1", description.annotations[label_keys.REFERENCE])
    assert again.labels.by_key[label_keys.STATE] == "ok"
    at_first_sight = describe(down, "n1")
    assert at_first_sight.labels.by_key[label_keys.STATE] == "ok"  # it never was in one: nothing is missing


PLACE = "in slot 1 of chassis 1821025193108, an NVLink rack"
NO_FABRIC = f"NVML says that there is no NVLink fabric, {PLACE}"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("fabric", "reason"),
    [
        pytest.param(
            SimulatedFabric(state=3, status=26),
            f"fabric registration ended with NVML status 26 and without a cluster UUID, {PLACE}",
            id="ended-with-a-status",
        ),
        pytest.param(
            SimulatedFabric(state=3, status=999, clique=32766),
            f"fabric registration ended with NVML status 999 and without a cluster UUID, {PLACE}",
            id="clique-of-nothing",
        ),
        pytest.param(
            SimulatedFabric(state=3),
            f"fabric registration ended without a cluster UUID, {PLACE}",
            id="ended-without-a-uuid",
        ),
        pytest.param(SimulatedFabric(state=0), NO_FABRIC, id="state-zero"),
        pytest.param(None, NO_FABRIC, id="call-not-supported"),
    ],
)
def test_tray_without_a_fabric_has_failed_at_first_sight(
    fabric: SimulatedFabric | None, reason: str, tmp_path: Path
) -> None:
    tray = everywhere(load_profile(TRAY), fabric=fabric)
    topology = discovered(tray, tmp_path)
    assert topology.fabric is Fabric.FAILED
    assert topology.state is State.DEGRADED
    assert topology.clique is None
    assert topology.gpus
    for gpu in topology.gpus:
        assert gpu.fabric is GpuFabric.FAILED
    assert topology.reasons == (f"GPUs 0, 1, 2, 3: {reason}",)


@pytest.mark.parametrize("state", [1, 2])
def test_tray_that_still_registers_has_not_failed(state: int, tmp_path: Path) -> None:
    tray = outside_fabrics(load_profile(TRAY), state=state)
    topology = discovered(tray, tmp_path)
    assert topology.fabric is Fabric.IN_PROGRESS
    assert topology.state is State.UNKNOWN


def test_fault_of_a_rack_is_named_once_beside_its_past(tmp_path: Path) -> None:
    machine = load_profile(TRAY)
    before = describe(probed(machine, tmp_path), "n1")
    outside = outside_fabrics(machine, state=0)
    down = probed(outside, tmp_path)
    description = describe(down, "n1", before.annotations[label_keys.REFERENCE])
    labels = description.labels.by_key
    assert description.topology
    assert description.topology.reasons == (f"GPUs 0, 1, 2, 3: {NO_FABRIC}",)
    assert labels[label_keys.FABRIC] == "failed"
    assert labels[label_keys.NVLINK_DOMAIN] == "n1"


def test_gpus_of_a_tray_that_failed_in_two_ways_are_named_apart(tmp_path: Path) -> None:
    ended = SimulatedFabric(state=3, status=26)
    machine = everywhere(load_profile(TRAY), fabric=ended)
    not_supported = MachineFaults(fabric={2: {"state": 0, "status": 0}})
    topology = discovered(machine, tmp_path, not_supported)
    assert topology.reasons == (
        f"GPUs 0, 1, 3: fabric registration ended with NVML status 26 and without a cluster UUID, {PLACE}",
        f"GPU 2: {NO_FABRIC}",
    )


HGX_PLACE = SimulatedPlatform(chassis="1650000000001", slot=0, tray=0, host=0, peer_type=1, ib_guid=bytes(16))
"""An HGX board that answers a serial number and a module, and no slot of a rack."""


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "platform"),
    [
        pytest.param("hgx-b200-8", HGX_PLACE, id="serial-number-without-slot"),
        pytest.param("hgx-b200-8", replace(HGX_PLACE, slot=255), id="unknown-slot"),
        pytest.param("hgx-b200-8", replace(HGX_PLACE, chassis="", slot=1), id="no-serial-number"),
        pytest.param("hgx-b300-8", replace(HGX_PLACE, chassis="0000000000000", slot=1), id="serial-number-of-zeros"),
        pytest.param("hgx-b300-8", replace(HGX_PLACE, chassis="", host=1), id="host-and-module-only"),
        pytest.param(TRAY, replace(HGX_PLACE, slot=1, peer_type=0), id="gpus-wired-to-each-other"),  # NVL4
    ],
)
@pytest.mark.parametrize(
    "fabric",
    [
        pytest.param(SimulatedFabric(state=0), id="not-supported"),
        pytest.param(SimulatedFabric(state=3), id="completed"),
        pytest.param(SimulatedFabric(state=3, status=26), id="status-26"),
        pytest.param(None, id="no-answer"),
    ],
)
def test_board_outside_racks_needs_no_fabric(
    profile: str, platform: SimulatedPlatform, fabric: SimulatedFabric | None, tmp_path: Path
) -> None:
    machine = everywhere(load_profile(profile), platform=platform, fabric=fabric)
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.state is State.OK
    assert topology.reasons == ()


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "fabric", "words"),
    [
        pytest.param("dgx-h200", SimulatedFabric(state=3, health_mask=0x1), "degraded bandwidth", id="bandwidth"),
        pytest.param("hgx-b200-8", SimulatedFabric(state=3, health_mask=0x1A9), "degraded bandwidth", id="one-field"),
        pytest.param("dgx-h200", SimulatedFabric(state=3, health_mask=0x10), "route unhealthy", id="route"),
        pytest.param("hgx-b200-8", SimulatedFabric(state=3, health_mask=0x500), "too few NVLinks", id="configuration"),
        pytest.param("hgx-b300-8", SimulatedFabric(state=3, health_summary=2), "unhealthy", id="summary"),
        pytest.param("hgx-b300-8", SimulatedFabric(state=3, health_summary=3), "limited capacity", id="capacity"),
        pytest.param("dgx-h200", SimulatedFabric(state=0, health_mask=0x1), "degraded bandwidth", id="state-zero"),
    ],
)
def test_health_counts_without_a_cluster_uuid(
    profile: str, fabric: SimulatedFabric, words: str, tmp_path: Path
) -> None:
    machine = everywhere(load_profile(profile), fabric=fabric)
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.state is State.DEGRADED
    expected = []
    for gpu in topology.gpus:
        expected.append(f"GPU {gpu.index}: fabric health: {words}")
    assert list(topology.reasons) == expected


def test_bad_health_without_a_cluster_uuid_is_in_the_annotation_too(tmp_path: Path) -> None:
    bad = SimulatedFabric(state=3, health_mask=0x1)
    machine = everywhere(load_profile("dgx-h200"), fabric=bad)
    topology = discovered(machine, tmp_path)
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert gpu.registration
        assert gpu.registration.health == ("degraded_bandwidth",)


@pytest.mark.parametrize(
    ("mask", "summary"),
    [
        pytest.param(0, 0, id="unknown"),
        pytest.param(0x1AA, 1, id="good"),
        pytest.param(0x51AA, 1, id="good-with-later-fields"),
    ],
)
def test_good_or_unknown_health_without_a_cluster_uuid_is_no_fault(mask: int, summary: int, tmp_path: Path) -> None:
    healthy = SimulatedFabric(state=3, health_mask=mask, health_summary=summary)
    machine = everywhere(load_profile("hgx-b200-8"), fabric=healthy)
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.state is State.OK
    assert topology.reasons == ()


def test_missing_fabric_and_bad_health_are_both_named(tmp_path: Path) -> None:
    machine = outside_fabrics(
        load_profile(TRAY),
        state=3,
        status=26,
        health_mask=0x400,
    )
    topology = discovered(machine, tmp_path)
    assert topology.fabric is Fabric.FAILED
    assert topology.reasons[:2] == (
        f"GPUs 0, 1, 2, 3: fabric registration ended with NVML status 26 and without a cluster UUID, {PLACE}",
        "GPU 0: fabric health: no partition",
    )


@pytest.mark.regression
def test_refusing_gpu_does_not_fail_a_board_without_a_fabric(tmp_path: Path) -> None:
    """The others are in no fabric, and none is missing there."""
    refusal = CallFault(
        call="nvmlDeviceGetGpuFabricInfoV",
        gpu=1,
        error=pynvml.NVML_ERROR_UNKNOWN,
    )
    board = outside_fabrics(load_profile("dgx-h200"), state=3)
    topology = discovered(board, tmp_path, MachineFaults(calls=(refusal,)))
    assert topology.fabric is Fabric.NOT_SUPPORTED
    assert topology.reasons == ("GPU 1: fabric query failed: Unknown Error",)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_INVALID_ARGUMENT])
def test_driver_that_rejects_a_layout_and_leaves_garbage_is_asked_again(code: int) -> None:
    """Both fall through to the older layout, and a struct that a refusal scribbled on is not used again."""

    class Older(SimulatedNvml):
        def nvmlDeviceGetGpuFabricInfoV(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            if info._obj.version == pynvml.nvmlGpuFabricInfo_v3:
                info._obj.version = 0xDEAD
                info._obj.healthMask = 0xFFFF
                raise pynvml.NVMLError(code)
            return super().nvmlDeviceGetGpuFabricInfoV(handle, info)

    nvml = Older(load_profile(TRAY))
    answer = read_fabric(*started(nvml))
    assert isinstance(answer, RawFabric)
    assert answer.state == 3
    assert answer.health_mask == 0x1AA
    assert answer.health_summary is None


def test_cluster_uuid_is_sixteen_bytes_with_zeros_in_them() -> None:
    """Read as a string it would end at the first zero."""
    machine = load_profile(TRAY)
    fabric = machine.gpus[0].fabric
    assert fabric
    uuid_type = type(fabric.cluster_uuid)
    odd = uuid_type(bytes=b"\x00\xff\x00" + bytes(12) + b"\x80")
    machine = changed(machine, fabric=replace(fabric, cluster_uuid=odd))
    for driver in ("525.60.13", "550.54.15", "580.95.05"):
        nvml = SimulatedNvml(replace(machine, driver=driver))
        answer = read_fabric(*started(nvml))
        assert isinstance(answer, RawFabric)
        assert answer.uuid == odd.hex


def test_chassis_serial_that_is_not_ascii_is_no_label(tmp_path: Path) -> None:
    """The binding raises UnicodeDecodeError for such bytes."""

    class Garbled(SimulatedNvml):
        def nvmlDeviceGetPlatformInfo(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            done = super().nvmlDeviceGetPlatformInfo(handle, info)
            octets = (pynvml.c_char * 44).from_buffer(info._obj)
            octets[20:24] = b"\xff\x80\xfe\x81"
            return int(done)

    topology = discovered(load_profile(TRAY), tmp_path, kind=Garbled)
    labels = labels_for(topology, "n1").by_key
    assert label_keys.CHASSIS not in labels
    assert labels[label_keys.TRAY] == "0"
    assert labels[label_keys.SLOT] == "1"


def test_older_platform_layout_gives_the_same() -> None:
    class Older(SimulatedNvml):
        def nvmlDeviceGetPlatformInfo(self, handle: Any, info: Any) -> int:  # noqa: N802 - NVML's name
            if info._obj.version == pynvml.nvmlPlatformInfo_v2:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
            return super().nvmlDeviceGetPlatformInfo(handle, info)

    machine = load_profile(TRAY)
    newer = read_platform(*started(SimulatedNvml(machine)))
    older = read_platform(*started(Older(machine)))
    assert newer == older
    assert newer is not None
    assert newer.chassis == "1821025193108"
    assert newer.slot == 1
    assert newer.tray == 0
    assert newer.host == 1
    assert newer.module == 2
