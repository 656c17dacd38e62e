"""What NVML says about links otherwise than one would think: each test fails when the probe believes it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.machines import discovered
from toposcope.agent.labels import labels_for
from toposcope.simulator.faults import Faults
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


def test_a_gpu_is_measured_against_its_like_where_the_product_says_nothing(tmp_path: Path) -> None:
    """A V100 board may have fewer links wired than the GPU has: only its neighbours tell what is normal."""
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
