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
from toposcope.hardware.topology import Interconnect, LinkEnd, LinkState, State
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

H200 = "dgx-h200"
TRAY = "gb200-nvl72-tray"
MESH = "dgx1-v100"
DRIVER_470 = "470.256.02"
LINK_STATE = 165
SPEED = 164
C2C_LINK_STATE = 171


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


def test_gpus_are_identified_by_address_when_indices_close_up(tmp_path: Path) -> None:
    machine = load_profile(MESH)
    whole = describe(probed(machine, tmp_path), "n1")
    baseline = whole.annotations[label_keys.REFERENCE]
    without_first = MachineFaults(vanished=frozenset({0}))
    raw = probed(machine, tmp_path, without_first)
    topology = describe(raw, "n1", baseline).topology
    assert topology
    indexes = [gpu.index for gpu in topology.gpus]
    assert indexes == list(range(7))
    # Had the past been kept by index, the GPUs would look as if their paths had changed. The lost one's peers each lost
    # a link or two, as they must in a mesh.
    lost = machine.gpus[0].function.address
    assert topology.reasons[0] == f"GPU {lost} is on the PCI bus but not in NVML"
    for reason in topology.reasons:
        assert " was " not in reason


def test_pci_address_with_eight_digits_and_capitals_is_that_of_sysfs(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    by_nvml = [gpu.pci for gpu in raw.gpus]
    by_sysfs = [function.address for function in raw.gpu_functions]
    assert by_nvml == by_sysfs
    characters = set("".join(by_nvml))
    assert characters & set("abcdef")


def test_mig_devices_belong_to_their_gpu(tmp_path: Path) -> None:
    """A MIG device has neither links nor fabric, and counting it would make eight GPUs out of one."""
    machine = load_profile(H200)
    plain = discovered(machine, tmp_path / "plain")
    machine = changed(machine, mig=("MIG-a", "MIG-b", "MIG-c"))
    topology = discovered(machine, tmp_path / "mig")
    assert labels_for(topology, "n1") == labels_for(plain, "n1")
    first, second, *_others = topology.gpus
    assert first.mig is True
    assert first.mig_devices == 3
    assert second.mig is False
    assert second.mig_devices == 0
    assert first.uuid == machine.gpus[0].uuid


def test_library_mismatch_of_the_binding_is_an_answer() -> None:
    """NVMLLibraryMismatchError is not an NVMLError."""

    class Mismatched(SimulatedNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            raise pynvml.NVMLLibraryMismatchError("two versions")

    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    refusal = Nvml(Mismatched(load_profile("t4-1"))).start()
    assert refusal is not None
    assert "two versions" in refusal.text


def test_name_that_is_not_utf8_costs_only_the_name(tmp_path: Path) -> None:
    class Garbled(SimulatedNvml):
        def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802 - NVML's name
            del handle
            return b"NVIDIA \xff".decode()

    topology = discovered(load_profile("l40s-4"), tmp_path, kind=Garbled)
    assert len(topology.gpus) == 4
    for gpu in topology.gpus:
        assert gpu.product is None
    assert topology.state is State.OK


def test_function_that_the_driver_lacks_is_data() -> None:
    machine = replace(load_profile(H200), driver=DRIVER_470)
    nvml, handle = started(SimulatedNvml(machine))
    assert nvml.value("nvmlDeviceGetModuleId", handle) is None
    refusal = read_fabric(nvml, handle)
    assert not isinstance(refusal, RawFabric)
    assert refusal.is_absent


def test_failed_field_holds_zero_and_is_ignored(tmp_path: Path) -> None:
    """The call succeeds as a whole. Zero would be "inactive" here; the older call knows better."""

    def refuse(entry: Any) -> None:
        if entry.fieldId in (LINK_STATE, SPEED):
            entry.nvmlReturn = pynvml.NVML_ERROR_UNKNOWN
            entry.value.uiVal = 0

    topology = discovered(load_profile(H200), tmp_path, kind=fields(refuse))
    assert len(topology.gpus) == 8
    for gpu in topology.gpus:
        assert gpu.links_active == 18
    assert topology.gpus[0].link_mbps == 26562  # from the speed that all links have in common


@pytest.mark.parametrize(
    ("nvml_state", "state", "active_links"),
    [
        pytest.param(0, LinkState.INACTIVE, 0, id="inactive"),
        pytest.param(1, LinkState.ACTIVE, 18, id="active"),
        pytest.param(2, LinkState.SLEEP, 18, id="sleep"),
        pytest.param(3, LinkState.DISABLED, 0, id="disabled"),
    ],
)
def test_sleeping_link_counts_as_active(nvml_state: int, state: LinkState, active_links: int, tmp_path: Path) -> None:
    def set_state(entry: Any) -> None:
        if entry.fieldId == LINK_STATE:
            entry.value.uiVal = nvml_state

    topology = discovered(load_profile(H200), tmp_path, kind=fields(set_state))
    gpu = topology.gpus[0]
    assert gpu.links
    for link in gpu.links:
        assert link.state is state
    assert gpu.links_active == active_links


@pytest.mark.parametrize(
    ("profile", "end", "has_address"),
    [
        pytest.param(H200, LinkEnd.NVSWITCH, True, id="switch"),
        pytest.param(TRAY, LinkEnd.NVSWITCH, False, id="switch-in-another-tray"),  # its address is all F
        pytest.param(MESH, LinkEnd.GPU, True, id="gpu"),
        pytest.param("power9-v100", LinkEnd.CPU, False, id="cpu"),
    ],
)
def test_link_ends_at_switch_gpu_or_cpu(profile: str, end: LinkEnd, has_address: bool, tmp_path: Path) -> None:
    machine = replace(load_profile(profile), driver="550.54.15")  # POWER9's own is too old to know
    topology = discovered(machine, tmp_path)
    links_up = []
    for gpu in topology.gpus:
        for link in gpu.links:
            if link.is_up:
                links_up.append(link)
    assert links_up
    for link in links_up:
        assert link.remote is end
        assert (link.remote_pci is not None) == has_address


def test_hidden_switch_behind_a_link_of_unknown_type_is_a_switch(tmp_path: Path) -> None:
    class Silent(SimulatedNvml):
        def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int) -> int:  # noqa: N802 - NVML's name
            del handle, link
            return 255

    topology = discovered(load_profile(TRAY), tmp_path, kind=Silent)
    assert topology.interconnect is Interconnect.NVSWITCH
    assert topology.nvswitches is None


def test_c2c_link_that_is_down_is_not_counted(tmp_path: Path) -> None:
    def one_down(entry: Any) -> None:
        if entry.fieldId == C2C_LINK_STATE and entry.scopeId == 4:
            entry.value.uiVal = 0

    gh200 = discovered(load_profile("gh200"), tmp_path / "gh200", kind=fields(one_down))
    assert gh200.gpus[0].c2c_links == 9
    assert gh200.interconnect is Interconnect.NONE
