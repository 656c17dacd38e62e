"""What NVML does otherwise than one would think: each test fails when the probe believes it.

Fabric layouts and states have a file of their own: test_fabric.py.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from agent.describe import describe
from agent.events import EventWatch
from agent.labels import labels_for
from agent.nvml import Nvml
from agent.raw import RawFabric
from agent.structs import read_fabric, read_platform
from simulator.faults import CallFault, Faults
from simulator.machine import Machine
from simulator.nvml import SimulatedNvml
from simulator.profile import load_profile
from tests.support.machines import discovered, probed
from topology import keys
from topology.hardware import Fabric, GpuFabric, Interconnect, LinkEnd, LinkState, State

H200, TRAY, MESH, POWER9 = "dgx-h200", "gb200-nvl72-tray", "dgx1-v100", "power9-v100"
DRIVER_470 = "470.256.02"
LINK_STATE, SPEED, SWITCH_LINKS = 165, 164, 147


def changed(machine: Machine, **facts: Any) -> Machine:
    """The machine with other facts about its first GPU."""
    return replace(machine, gpus=(replace(machine.gpus[0], **facts), *machine.gpus[1:]))


def started(module: SimulatedNvml) -> tuple[Nvml, Any]:
    module.nvmlInit()
    return Nvml(module), module.nvmlDeviceGetHandleByIndex(0)


def fields(change: Callable[[Any], None], only: int | None = None) -> type[SimulatedNvml]:
    """A driver whose field values come out changed, for all GPUs or one."""

    class Driver(SimulatedNvml):
        def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[Any]) -> Any:  # noqa: N802 - NVML's name
            values = super().nvmlDeviceGetFieldValues(handle, fields)
            for entry in values:
                if only in (None, handle.gpu):
                    change(entry)
            return values

    return Driver


# Devices


def test_an_index_that_gives_no_handle_costs_that_gpu_alone(tmp_path: Path) -> None:
    for code in (4, 8, 11, 15, 999):  # no permission, power, interrupt, lost, unknown
        faults = Faults(calls=(CallFault("nvmlDeviceGetHandleByIndex", outcome=code, gpu=3),))
        topology = discovered(load_profile(H200), tmp_path, faults)
        assert [gpu.index for gpu in topology.gpus] == [0, 1, 2, 4, 5, 6, 7]
        assert topology.state is State.DEGRADED


def test_gpus_are_known_by_address_though_indices_close_up(tmp_path: Path) -> None:
    machine = load_profile(MESH)
    whole = describe(probed(machine, tmp_path), "n1")
    less = describe(probed(machine, tmp_path, Faults(vanished=frozenset({0}))), "n1", whole.annotations[keys.REFERENCE])
    assert less.topology
    assert [gpu.index for gpu in less.topology.gpus] == list(range(7))
    # Had the past been kept by index, the GPUs would look as if their paths had changed. The lost one's peers each lost
    # a link or two, as they must in a mesh.
    lost = machine.gpus[0].function.address
    assert less.topology.reasons[0] == f"GPU {lost} is on the PCI bus but not in NVML"
    assert not any(" was " in reason for reason in less.topology.reasons)


def test_a_pci_address_with_eight_digits_and_capitals_is_the_one_in_sysfs(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    assert [gpu.pci for gpu in raw.gpus] == [function.address for function in raw.gpu_functions]
    assert any(character in "abcdef" for gpu in raw.gpus for character in gpu.pci)


def test_a_geforce_without_serial_or_module_is_whole(tmp_path: Path) -> None:
    topology = discovered(load_profile("rtx4090-8"), tmp_path)
    assert (len(topology.gpus), topology.state) == (8, State.OK)


def test_an_architecture_that_nobody_knows_is_none_and_not_a_number(tmp_path: Path) -> None:
    machine = changed(load_profile(H200), architecture=None)  # answers 0xffffffff
    assert [gpu.architecture for gpu in discovered(machine, tmp_path).gpus[:2]] == [None, "hopper"]


def test_a_gpus_memory_node_is_not_the_node_of_its_cpus(tmp_path: Path) -> None:
    gpus = discovered(load_profile(TRAY), tmp_path).gpus
    assert [gpu.memory_numa for gpu in gpus] == [2, 10, 18, 26]
    assert [gpu.numa for gpu in gpus] == [0, 0, 1, 1]
    assert {gpu.memory_numa for gpu in discovered(load_profile(H200), tmp_path / "x86").gpus} == {None}


def test_mig_is_asked_of_the_parent(tmp_path: Path) -> None:
    """A MIG device has neither links nor fabric, and counting it would make eight GPUs out of one."""
    machine = load_profile(H200)
    plain = labels_for(discovered(machine, tmp_path / "plain"), "n1")
    machine = changed(machine, mig=("MIG-a", "MIG-b", "MIG-c"))
    topology = discovered(machine, tmp_path / "mig")
    assert labels_for(topology, "n1") == plain
    assert [(gpu.mig, gpu.mig_devices) for gpu in topology.gpus[:2]] == [(True, 3), (False, 0)]
    assert topology.gpus[0].uuid == machine.gpus[0].uuid
    assert discovered(load_profile("t4-1"), tmp_path / "none").gpus[0].mig is None  # before Ampere there is no MIG


# NVLinks


def test_the_count_of_links_is_asked_and_not_the_bindings_constant(tmp_path: Path) -> None:
    assert pynvml.NVML_NVLINK_MAX_LINKS > 18
    assert [len(gpu.links) for gpu in discovered(load_profile(H200), tmp_path).gpus] == [18] * 8
    assert [len(gpu.links) for gpu in discovered(load_profile("l40s-4"), tmp_path / "none").gpus] == [0] * 4


def test_a_field_that_failed_holds_zero_and_is_no_answer(tmp_path: Path) -> None:
    """The call succeeds as a whole. Zero would be "inactive" here; the older call knows better."""

    def refuse(entry: Any) -> None:
        if entry.fieldId in (LINK_STATE, SPEED):
            entry.nvmlReturn, entry.value.uiVal = pynvml.NVML_ERROR_UNKNOWN, 0

    topology = discovered(load_profile(H200), tmp_path, kind=fields(refuse))
    assert [gpu.links_active for gpu in topology.gpus] == [18] * 8
    assert topology.gpus[0].link_mbps == 26562  # from the speed that all links have in common


@pytest.mark.parametrize(
    ("state", "name", "active"),
    [(0, LinkState.INACTIVE, 0), (1, LinkState.ACTIVE, 18), (2, LinkState.SLEEP, 18), (3, LinkState.DISABLED, 0)],
)
def test_a_sleeping_link_counts_and_one_without_traffic_does_not(
    state: int, name: LinkState, active: int, tmp_path: Path
) -> None:
    def set_state(entry: Any) -> None:
        if entry.fieldId == LINK_STATE:
            entry.value.uiVal = state

    gpu = discovered(load_profile(H200), tmp_path, kind=fields(set_state)).gpus[0]
    assert ({link.state for link in gpu.links}, gpu.links_active) == ({name}, active)


def test_links_that_are_there_but_down_are_no_nvlink(tmp_path: Path) -> None:
    """An A100 card without a bridge lists twelve links, none of them active."""
    topology = discovered(load_profile("gh200"), tmp_path)
    assert (len(topology.gpus[0].links), topology.gpus[0].links_active) == (18, 0)
    bridge = load_profile("rtx3090-2-nvlink")
    loose = discovered(bridge, tmp_path / "loose", Faults(links_down={0: None}))
    assert loose.interconnect is Interconnect.PCIE
    assert (loose.gpus[0].nvlink_version, loose.gpus[0].link_mbps) == (None, None)


@pytest.mark.parametrize(
    ("profile", "version"),
    [(MESH, "2.2"), ("dgx-a100", "3.1"), ("rtx3090-2-nvlink", "3.1"), (H200, "4.0"), (TRAY, "5.0")],
)
def test_the_nvlink_version_is_an_enum(profile: str, version: str, tmp_path: Path) -> None:
    """An A100 answers 5 and means 3.1."""
    assert {gpu.nvlink_version for gpu in discovered(load_profile(profile), tmp_path).gpus} == {version}


@pytest.mark.parametrize(
    ("profile", "end", "named"),
    [
        (H200, LinkEnd.NVSWITCH, True),
        (TRAY, LinkEnd.NVSWITCH, False),  # all F: it sits in another tray
        (MESH, LinkEnd.GPU, True),
        (POWER9, LinkEnd.CPU, False),
    ],
)
def test_where_a_link_ends(profile: str, end: LinkEnd, *, named: bool, tmp_path: Path) -> None:
    machine = replace(load_profile(profile), driver="550.54.15")  # POWER9's own is too old to tell
    links = [link for gpu in discovered(machine, tmp_path).gpus for link in gpu.links if link.up]
    assert {(link.remote, link.remote_pci is not None) for link in links} == {(end, named)}


@pytest.mark.parametrize(
    ("profile", "path", "end"),
    [("dgx-a100", "NV12", LinkEnd.NVSWITCH), ("dgx2", "NV6", LinkEnd.NVSWITCH), (POWER9, "SYS", LinkEnd.UNKNOWN)],
)
def test_a_driver_that_does_not_tell_the_far_ends_type(profile: str, path: str, end: LinkEnd, tmp_path: Path) -> None:
    """The address tells it: a GPU's, or a switch's in sysfs. All F is a switch only if some link leads to one."""

    class Older(SimulatedNvml):
        def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int) -> int:  # noqa: N802 - NVML's name
            del handle, link
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    topology = discovered(load_profile(profile), tmp_path, kind=Older)
    assert topology.matrix.cells[1][0] == path
    assert {link.remote for link in topology.gpus[0].links if link.up} == {end}


def test_a_hidden_switch_behind_a_link_of_unknown_type_is_a_switch(tmp_path: Path) -> None:
    class Silent(SimulatedNvml):
        def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int) -> int:  # noqa: N802 - NVML's name
            del handle, link
            return 255

    topology = discovered(load_profile(TRAY), tmp_path, kind=Silent)
    assert (topology.interconnect, topology.nvswitches) == (Interconnect.NVSWITCH, None)


@pytest.mark.parametrize("profile", [MESH, "dgx2", "dgx-a100", POWER9, "rtx3090-2-nvlink"])
def test_driver_470_tells_all_that_it_can(profile: str, tmp_path: Path) -> None:
    """No fields 164 and 165, no fabric, no module, no C2C: matrix and labels are the same all the same."""
    machine = load_profile(profile)
    new = discovered(machine, tmp_path)
    old = discovered(replace(machine, driver=DRIVER_470), tmp_path)
    assert (old.matrix, old.state) == (new.matrix, State.OK)
    assert labels_for(old, "n1") == labels_for(new, "n1")
    assert old.gpus[0].module is None


def test_c2c_links_are_counted_and_are_no_nvlink(tmp_path: Path) -> None:
    assert [gpu.c2c_links for gpu in discovered(load_profile(TRAY), tmp_path).gpus] == [10] * 4

    def one_down(entry: Any) -> None:
        if (entry.fieldId, entry.scopeId) == (171, 4):
            entry.value.uiVal = 0

    gh200 = discovered(load_profile("gh200"), tmp_path / "gh200", kind=fields(one_down))
    assert (gh200.gpus[0].c2c_links, gh200.interconnect) == (9, Interconnect.NONE)


# Fabric, beyond its layouts


def test_a_tray_whose_fabric_is_down_says_that_it_has_none(tmp_path: Path) -> None:
    """State 0 is "not supported" on a PCIe card; on a node that was in a fabric before it is a fault."""
    machine = load_profile(TRAY)
    before = describe(probed(machine, tmp_path), "n1").annotations[keys.REFERENCE]
    down = probed(machine, tmp_path, Faults(fabric={i: {"state": 0} for i in range(4)}))
    found = describe(down, "n1", before)
    assert found.topology
    assert (found.topology.fabric, found.topology.state) == (Fabric.NOT_SUPPORTED, State.DEGRADED)
    assert found.topology.reasons == ("the node was in a multi-node NVLink fabric before and is in none now",)
    assert found.labels.known[keys.NVLINK_DOMAIN] == "n1"
    again = describe(probed(machine, tmp_path), "n1", found.annotations[keys.REFERENCE])
    assert again.labels.known[keys.STATE] == "ok"
    assert describe(down, "n1").labels.known[keys.STATE] == "ok"  # it never was in one: nothing is missing


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
    assert keys.CHASSIS not in known
    assert (known[keys.TRAY], known[keys.SLOT]) == ("0", "1")


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


# The binding


def test_the_bindings_own_error_is_an_answer_too() -> None:
    """NVMLLibraryMismatchError is no NVMLError."""

    class Mismatched(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            raise pynvml.NVMLLibraryMismatchError("two versions")

    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    refusal = Nvml(Mismatched(load_profile("t4-1"))).start()
    assert refusal is not None
    assert "two versions" in refusal.text


def test_a_name_that_is_no_text_costs_the_name_alone(tmp_path: Path) -> None:
    class Garbled(SimulatedNvml):
        def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - NVML's name
            del handle
            return b"NVIDIA \xff".decode()

    topology = discovered(load_profile("l40s-4"), tmp_path, kind=Garbled)
    assert [gpu.product for gpu in topology.gpus] == [None] * 4
    assert topology.state is State.OK


def test_a_function_that_the_driver_lacks_is_data() -> None:
    nvml, handle = started(SimulatedNvml(replace(load_profile(H200), driver=DRIVER_470)))
    assert nvml.value("nvmlDeviceGetModuleId", handle) is None
    refusal = read_fabric(nvml, handle)
    assert not isinstance(refusal, RawFabric)
    assert refusal.absent


# Events


def test_only_events_that_a_gpu_has_are_asked_for() -> None:
    """One type that is not supported refuses them all: a driver before 570 would report no XID either."""
    module = SimulatedNvml(replace(load_profile(H200), driver="535.104.05"), wait=lambda _: None)
    module.nvmlInit()
    watch = EventWatch(Nvml(module))
    assert watch.arm()
    assert watch.wait(0.0) == ""  # a timeout is the normal end, and the set stays
    module.faults = Faults(lost=frozenset({1}))
    assert "ended" in watch.wait(0.0)
    module.faults = Faults()
    assert watch.arm()  # made anew
