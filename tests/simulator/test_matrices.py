"""What a reader of the simulated NVML and sysfs would find, cell for cell: a small discovery of the tests' own."""

import functools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.support.machines import Cells, recorded_machines
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

RECORDED = recorded_machines()
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's common ancestor of two GPUs to the cell of a matrix."""
LINK_COUNT = 91
SWITCH_LINK_COUNT = 147
TWINS = {name: name for name in profile_names() if name in RECORDED} | {"gb200-tray": "gb200-nvl72-tray"}
"""Recorded machine to the profile of its product."""
EXPECTED_ROWS = {
    "dgx-h200": {
        "GPU1": "NV18 X NV18 NV18 NV18 NV18 NV18 NV18 NODE NODE NODE PXB NODE NODE SYS SYS SYS SYS SYS SYS",
        "mlx5_7": "SYS SYS SYS SYS NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS NODE X PIX NODE NODE NODE",
    },
    "hgx-h100-8": {"GPU7": "NV18 NV18 NV18 NV18 NV18 NV18 NV18 X"},
    "dgx-a100": {
        "GPU2": "NV12 NV12 X NV12 NV12 NV12 NV12 NV12 SYS SYS PXB PXB SYS SYS SYS SYS SYS SYS",
        "mlx5_1": "PXB PXB SYS SYS SYS SYS SYS SYS PXB X SYS SYS SYS SYS SYS SYS SYS SYS",
        "mlx5_9": "SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS PIX X",
    },
    "dgx1-v100": {
        "GPU0": "X NV1 NV1 NV2 NV2 SYS SYS SYS PIX PHB SYS SYS",
        "GPU7": "SYS SYS SYS NV1 NV2 NV1 NV2 X SYS SYS PHB PIX",
        "mlx5_1": "PHB PHB PIX PIX SYS SYS SYS SYS PHB X SYS SYS",
    },
    "dgx2": {
        "GPU0": "X" + 15 * " NV6" + " PIX PXB NODE NODE SYS SYS SYS SYS SYS SYS",
        "GPU4": 4 * "NV6 " + "X" + 11 * " NV6" + " NODE NODE PIX PXB SYS SYS SYS SYS SYS SYS",
    },
    "hgx-a100-4": {"GPU3": "NV4 NV4 NV4 X NODE NODE NODE PXB"},
    "hgx-b200-8": {"GPU2": "NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NODE NODE PXB NODE NODE NODE SYS SYS SYS SYS SYS SYS"},
    "hgx-b300-8": {"GPU4": "NV18 NV18 NV18 NV18 X NV18 NV18 NV18 SYS SYS SYS SYS PXB NODE NODE NODE"},
    "gb200-nvl72-tray": {
        "GPU0": "X NV18 NV18 NV18 SYS SYS SYS SYS SYS SYS SYS SYS",
        "mlx5_2": "SYS SYS SYS SYS SYS SYS X PIX SYS SYS SYS SYS",
    },
    "gh200": {"GPU0": "X NODE NODE"},
    "h100-nvl-2": {"GPU0": "X NV12 SYS"},
    "l40s-4": {"GPU0": "X NODE SYS SYS SYS SYS", "mlx5_0": "SYS SYS NODE NODE X PIX"},
    "rtx4090-8": {"GPU4": "SYS SYS SYS SYS X PIX PIX PIX SYS", "mlx5_bond_0": "PIX PIX PIX PIX SYS SYS SYS SYS X"},
    "rtx4090-5-mixed": {"GPU0": "X SYS SYS SYS SYS", "GPU3": "SYS NODE NODE X PHB"},
    "t4-1": {"GPU0": "X"},
    "k80-4": {"GPU0": "X PIX PHB PHB PHB", "mlx4_0": "PHB PHB PHB PHB X"},
    "rtx3090-2-nvlink": {"GPU0": "X NV4"},
    "h100-4-nv6": {"GPU2": "NV6 NV6 X NV6 SYS SYS PIX SYS"},
    "power9-v100": {"GPU1": "SYS X"},
}
"""Rows of shipped profiles' matrices, as `nvidia-smi topo -m` prints them on such a machine."""


class Reader:
    """Finds the link matrix of a machine through NVML calls and sysfs files alone."""

    def __init__(self, machine: Machine, root: Path) -> None:
        write_sysfs(machine, root)
        self._nvml = SimulatedNvml(machine)
        self._nvml.nvmlInit()
        self._gpus: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        count = self._nvml.nvmlDeviceGetCount()
        for index in range(count):
            self._add_gpu(index, root)
        for nic in machine.nics:
            device = root / f"class/infiniband/{nic.name}/device"
            self._paths[nic.name] = os.path.realpath(device)

    def _add_gpu(self, index: int, root: Path) -> None:
        gpu = self._nvml.nvmlDeviceGetHandleByIndex(index)
        info = self._nvml.nvmlDeviceGetPciInfo(gpu)
        address = as_in_sysfs(info.busId)
        name = f"GPU{index}"
        self._gpus[name] = gpu
        self._addresses[name] = address
        device = root / f"bus/pci/devices/{address}"
        self._paths[name] = os.path.realpath(device)

    def cells(self) -> Cells:
        """All cells. NICs are named as the kernel names them."""
        cells = {}
        for a, path_a in self._paths.items():
            for b, path_b in self._paths.items():
                cells[a, b] = "X" if a == b else level(path_a, path_b)
        for a in self._gpus:
            for b in self._gpus:
                if a == b:
                    continue
                common = self._common_ancestor(a, b)
                assert common == cells[a, b], "NVML and sysfs describe one machine"
                links = self._links_between(a, b)
                if links:
                    cells[a, b] = f"NV{links}"
        return cells

    def _common_ancestor(self, a: str, b: str) -> str:
        ancestor = self._nvml.nvmlDeviceGetTopologyCommonAncestor(
            self._gpus[a],
            self._gpus[b],
        )
        return LEVELS[ancestor]

    def _links_between(self, a: str, b: str) -> int:
        direct = self._remote_ends(self._gpus[a]).count(self._addresses[b])
        if direct:
            return direct
        return min(
            self._field(self._gpus[a], SWITCH_LINK_COUNT),
            self._field(self._gpus[b], SWITCH_LINK_COUNT),
        )

    def _remote_ends(self, gpu: Any) -> list[str]:
        ends = []
        for link in range(self._field(gpu, LINK_COUNT)):
            if self._nvml.nvmlDeviceGetNvLinkState(gpu, link):
                remote = self._nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link)
                ends.append(as_in_sysfs(remote.busId))
        return ends

    def _field(self, gpu: Any, field: int) -> int:
        (entry,) = self._nvml.nvmlDeviceGetFieldValues(gpu, [field])
        value: int = entry.value.uiVal
        return value


def as_in_sysfs(bus_id: str) -> str:
    """An address without NVML's four more digits and capitals."""
    return bus_id.lower()[4:]


def level(a: str, b: str) -> str:
    """The legend of nvidia-smi on two sysfs paths, by counting what is between the devices."""
    slot_a, _, _function_a = a.rpartition(".")
    slot_b, _, _function_b = b.rpartition(".")
    if slot_a == slot_b:
        return "PIX"
    shared = os.path.commonpath([a, b])
    if re.search(r"/pci[0-9a-f]{4,}:[0-9a-f]{2}$", shared):
        return "PHB"
    if "/pci" not in shared:
        node_a = Path(a, "numa_node").read_text()
        node_b = Path(b, "numa_node").read_text()
        return "NODE" if node_a == node_b != "-1\n" else "SYS"
    between = 0
    for path in (a, b):
        below = path.removeprefix(shared)
        between = max(between, below.count("/") - 1)
    return "PIX" if between <= 1 else "PXB"


@pytest.fixture(scope="module")
def cells_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cells]:
    """The matrix of a shipped profile, found once."""

    @functools.cache
    def cells_of(profile: str) -> Cells:
        machine = load_profile(profile)
        root = tmp_path_factory.mktemp(profile)
        return Reader(machine, root).cells()

    return cells_of


@pytest.mark.parametrize("profile", EXPECTED_ROWS)
def test_profile_shows_the_rows_of_its_product(profile: str, cells_of: Callable[[str], Cells]) -> None:
    rows: dict[str, list[str]] = defaultdict(list)
    for (device, _other), cell in cells_of(profile).items():
        rows[device].append(cell)
    expected_rows = EXPECTED_ROWS[profile]
    for device, expected in expected_rows.items():
        row = " ".join(rows[device])
        assert row == expected, device


def test_every_profile_has_an_expected_row() -> None:
    assert sorted(EXPECTED_ROWS) == sorted(profile_names())


@pytest.mark.parametrize("profile", profile_names())
def test_matrix_is_symmetric_and_keeps_nvlink_for_gpus(profile: str, cells_of: Callable[[str], Cells]) -> None:
    cells = cells_of(profile)
    for (a, b), cell in cells.items():
        assert cells[b, a] == cell, (a, b)
        if not cell.startswith("NV"):
            continue
        assert a.startswith("GPU"), (a, b)
        assert b.startswith("GPU"), (a, b)


@pytest.mark.parametrize("name", RECORDED)
def test_machine_built_from_a_capture_shows_it_again(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    machine = machine_from_capture(recorded.text, name)
    reader = Reader(machine, tmp_path)
    assert reader.cells() == recorded.cells


@pytest.mark.parametrize("name", TWINS)
def test_profile_agrees_with_the_record_of_its_product(name: str, cells_of: Callable[[str], Cells]) -> None:
    profile = TWINS[name]
    cells = cells_of(profile)
    recorded = RECORDED[name]
    devices: list[str] = []
    for device, _other in cells:
        if device not in devices:
            devices.append(device)
    names: Sequence[str] = recorded.devices  # those of its NICs may be others: by position then
    if set(names) == set(devices):
        names = devices
    same = dict(zip(names, devices, strict=True))

    expected = {}
    for (a, b), cell in recorded.cells.items():
        pair = (same[a], same[b])
        expected[pair] = cell
    assert cells == expected


@pytest.mark.parametrize("profile", sorted({*profile_names()} - {"dgx-a100", "rtx4090-5-mixed"}))
def test_indices_and_addresses_ascend_together(profile: str) -> None:
    addresses = [gpu.function.address for gpu in load_profile(profile).gpus]
    for address, following in pairwise(addresses):
        assert address < following


def test_pynvml_is_not_asked() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    with pytest.raises(AttributeError, match="nvmlDeviceGetTemperature"):
        _ = nvml.nvmlDeviceGetTemperature
    assert nvml.NVMLError is pynvml.NVMLError
