"""What NVML does that one would not expect; each test fails when the probe trusts the obvious."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.machines import changed, discovered, probed, started
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.structs import read_fabric
from toposcope.agent.raw import RawFabric
from toposcope.api import label_keys
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import Interconnect, LinkEnd, LinkState, State

H200, TRAY, MESH, POWER9 = "dgx-h200", "gb200-nvl72-tray", "dgx1-v100", "power9-v100"
DRIVER_470 = "470.256.02"
LINK_STATE, SPEED = 165, 164


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


def test_an_index_without_a_handle_costs_only_that_gpu(tmp_path: Path) -> None:
    for code in (4, 8, 11, 15, 999):  # no permission, power, interrupt, lost, unknown
        faults = Faults(calls=(CallFault("nvmlDeviceGetHandleByIndex", outcome=code, gpu=3),))
        topology = discovered(load_profile(H200), tmp_path, faults)
        assert [gpu.index for gpu in topology.gpus] == [0, 1, 2, 4, 5, 6, 7]
        assert topology.state is State.DEGRADED


def test_gpus_are_identified_by_address_when_indices_close_up(tmp_path: Path) -> None:
    machine = load_profile(MESH)
    whole = describe(probed(machine, tmp_path), "n1")
    less = describe(
        probed(machine, tmp_path, Faults(vanished=frozenset({0}))), "n1", whole.annotations[label_keys.REFERENCE]
    )
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


def test_a_geforce_without_serial_or_module_is_ok(tmp_path: Path) -> None:
    topology = discovered(load_profile("rtx4090-8"), tmp_path)
    assert (len(topology.gpus), topology.state) == (8, State.OK)


def test_an_unknown_architecture_is_none_and_not_a_number(tmp_path: Path) -> None:
    machine = changed(load_profile(H200), architecture=None)  # answers 0xffffffff
    assert [gpu.architecture for gpu in discovered(machine, tmp_path).gpus[:2]] == [None, "hopper"]


def test_a_gpus_memory_node_is_not_the_node_of_its_cpus(tmp_path: Path) -> None:
    gpus = discovered(load_profile(TRAY), tmp_path).gpus
    assert [gpu.memory_numa for gpu in gpus] == [2, 10, 18, 26]
    assert [gpu.numa for gpu in gpus] == [0, 0, 1, 1]
    assert {gpu.memory_numa for gpu in discovered(load_profile(H200), tmp_path / "x86").gpus} == {None}


def test_mig_devices_belong_to_their_gpu(tmp_path: Path) -> None:
    """A MIG device has neither links nor fabric, and counting it would make eight GPUs out of one."""
    machine = load_profile(H200)
    plain = labels_for(discovered(machine, tmp_path / "plain"), "n1")
    machine = changed(machine, mig=("MIG-a", "MIG-b", "MIG-c"))
    topology = discovered(machine, tmp_path / "mig")
    assert labels_for(topology, "n1") == plain
    assert [(gpu.mig, gpu.mig_devices) for gpu in topology.gpus[:2]] == [(True, 3), (False, 0)]
    assert topology.gpus[0].uuid == machine.gpus[0].uuid
    assert discovered(load_profile("t4-1"), tmp_path / "none").gpus[0].mig is None  # before Ampere there is no MIG


# The binding


def test_the_bindings_own_error_is_an_answer_too() -> None:
    """NVMLLibraryMismatchError is not an NVMLError."""

    class Mismatched(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            raise pynvml.NVMLLibraryMismatchError("two versions")

    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    refusal = Nvml(Mismatched(load_profile("t4-1"))).start()
    assert refusal is not None
    assert "two versions" in refusal.text


def test_a_name_that_is_not_utf8_costs_only_the_name(tmp_path: Path) -> None:
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


# NVLinks


def test_the_number_of_links_comes_from_the_driver_and_not_from_the_binding(tmp_path: Path) -> None:
    assert pynvml.NVML_NVLINK_MAX_LINKS > 18
    assert [len(gpu.links) for gpu in discovered(load_profile(H200), tmp_path).gpus] == [18] * 8
    assert [len(gpu.links) for gpu in discovered(load_profile("l40s-4"), tmp_path / "none").gpus] == [0] * 4


def test_a_field_that_failed_holds_zero_and_is_ignored(tmp_path: Path) -> None:
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


def test_links_that_are_present_but_down_are_no_nvlink(tmp_path: Path) -> None:
    """An A100 card without a bridge lists twelve links, none of them active."""
    topology = discovered(load_profile("gh200"), tmp_path)
    assert (len(topology.gpus[0].links), topology.gpus[0].links_active) == (18, 0)
    bridge = load_profile("rtx3090-2-nvlink")
    loose = discovered(bridge, tmp_path / "loose", Faults(links_down={0: None}))
    assert loose.interconnect is Interconnect.PCIE
    assert (loose.gpus[0].nvlink_version, loose.gpus[0].link_mbps) == (None, None)


def test_a_gpu_of_unknown_links_is_compared_with_its_peers(tmp_path: Path) -> None:
    """A V100 board may have fewer links wired than the GPU has: only its peers show what is normal."""
    faults = Faults(links_down={0: frozenset({0})})
    topology = discovered(load_profile(MESH), tmp_path, faults)
    assert topology.reasons == ("GPU 0: 5 of 6 NVLinks active", "GPU 1: 5 of 6 NVLinks active")
    assert {gpu.links_expected for gpu in topology.gpus} == {6}


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
    machine = replace(load_profile(profile), driver="550.54.15")  # POWER9's own is too old to know
    links = [link for gpu in discovered(machine, tmp_path).gpus for link in gpu.links if link.up]
    assert {(link.remote, link.remote_pci is not None) for link in links} == {(end, named)}


@pytest.mark.parametrize(
    ("profile", "path", "end"),
    [("dgx-a100", "NV12", LinkEnd.NVSWITCH), ("dgx2", "NV6", LinkEnd.NVSWITCH), (POWER9, "SYS", LinkEnd.UNKNOWN)],
)
def test_a_driver_without_remote_device_types(profile: str, path: str, end: LinkEnd, tmp_path: Path) -> None:
    """The address decides: a GPU's, or a switch's in sysfs. All F is a switch only if some link leads to one."""
    absent = CallFault("nvmlDeviceGetNvLinkRemoteDeviceType", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    topology = discovered(load_profile(profile), tmp_path, Faults(calls=(absent,)))
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
def test_driver_470_gives_the_same_matrix_and_labels(profile: str, tmp_path: Path) -> None:
    """No fields 164 and 165, no fabric, no module, no C2C: matrix and labels are the same all the same."""
    machine = load_profile(profile)
    new = discovered(machine, tmp_path)
    old = discovered(replace(machine, driver=DRIVER_470), tmp_path)
    assert (old.matrix, old.state) == (new.matrix, State.OK)
    assert labels_for(old, "n1") == labels_for(new, "n1")
    assert old.gpus[0].module is None


def test_c2c_links_are_counted_but_are_not_nvlinks(tmp_path: Path) -> None:
    assert [gpu.c2c_links for gpu in discovered(load_profile(TRAY), tmp_path).gpus] == [10] * 4

    def one_down(entry: Any) -> None:
        if (entry.fieldId, entry.scopeId) == (171, 4):
            entry.value.uiVal = 0

    gh200 = discovered(load_profile("gh200"), tmp_path / "gh200", kind=fields(one_down))
    assert (gh200.gpus[0].c2c_links, gh200.interconnect) == (9, Interconnect.NONE)
