"""What a reader of the simulated NVML and sysfs would find, cell for cell: a small discovery of the tests' own."""

import functools
import os
import re
from collections.abc import Callable
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

ROWS = {
    ("dgx-h200", "GPU1"): "NV18 X" + " NV18" * 6 + " NODE NODE NODE PXB NODE NODE" + " SYS" * 6,
    ("dgx-h200", "mlx5_7"): "SYS " * 4 + "NODE " * 4 + "SYS " * 6 + "NODE X PIX NODE NODE NODE",
    ("hgx-h100-8", "GPU7"): "NV18 " * 7 + "X",
    ("dgx-a100", "GPU2"): "NV12 NV12 X" + " NV12" * 5 + " SYS SYS PXB PXB" + " SYS" * 6,
    ("dgx-a100", "mlx5_1"): "PXB PXB" + " SYS" * 6 + " PXB X" + " SYS" * 8,
    ("dgx-a100", "mlx5_9"): "SYS " * 16 + "PIX X",
    ("dgx1-v100", "GPU0"): "X NV1 NV1 NV2 NV2 SYS SYS SYS PIX PHB SYS SYS",
    ("dgx1-v100", "GPU7"): "SYS SYS SYS NV1 NV2 NV1 NV2 X SYS SYS PHB PIX",
    ("dgx1-v100", "mlx5_1"): "PHB PHB PIX PIX SYS SYS SYS SYS PHB X SYS SYS",
    ("dgx2", "GPU0"): "X" + " NV6" * 15 + " PIX PXB NODE NODE" + " SYS" * 6,
    ("dgx2", "GPU4"): "NV6 " * 4 + "X" + " NV6" * 11 + " NODE NODE PIX PXB" + " SYS" * 6,
    ("hgx-a100-4", "GPU3"): "NV4 NV4 NV4 X NODE NODE NODE PXB",
    ("hgx-b200-8", "GPU2"): "NV18 NV18 X" + " NV18" * 5 + " NODE NODE PXB NODE NODE NODE" + " SYS" * 6,
    ("hgx-b300-8", "GPU4"): "NV18 " * 4 + "X NV18 NV18 NV18" + " SYS" * 4 + " PXB NODE NODE NODE",
    ("gb200-nvl72-tray", "GPU0"): "X NV18 NV18 NV18" + " SYS" * 8,
    ("gb200-nvl72-tray", "mlx5_2"): "SYS " * 6 + "X PIX" + " SYS" * 4,
    ("gh200", "GPU0"): "X NODE NODE",
    ("h100-nvl-2", "GPU0"): "X NV12 SYS",
    ("l40s-4", "GPU0"): "X NODE SYS SYS SYS SYS",
    ("l40s-4", "mlx5_0"): "SYS SYS NODE NODE X PIX",
    ("rtx4090-8", "GPU4"): "SYS SYS SYS SYS X PIX PIX PIX SYS",
    ("rtx4090-8", "mlx5_bond_0"): "PIX PIX PIX PIX SYS SYS SYS SYS X",
    ("rtx4090-5-mixed", "GPU0"): "X SYS SYS SYS SYS",
    ("rtx4090-5-mixed", "GPU3"): "SYS NODE NODE X PHB",
    ("t4-1", "GPU0"): "X",
    ("k80-4", "GPU0"): "X PIX PHB PHB PHB",
    ("k80-4", "mlx4_0"): "PHB PHB PHB PHB X",
    ("rtx3090-2-nvlink", "GPU0"): "X NV4",
    ("h100-4-nv6", "GPU2"): "NV6 NV6 X NV6 SYS SYS PIX SYS",
    ("power9-v100", "GPU1"): "SYS X",
}

TWINS = {name: name for name in profile_names() if name in RECORDED} | {"gb200-tray": "gb200-nvl72-tray"}
"""Recorded machine to the profile of its product."""


def seen(machine: Machine, root: Path) -> Cells:
    """The link matrix, found through NVML calls and sysfs files alone. NICs are named as the kernel names them."""
    write_sysfs(machine, root)
    nvml = SimulatedNvml(machine)
    nvml.nvmlInit()
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    addresses = {f"GPU{i}": nvml.nvmlDeviceGetPciInfo(handle).busId.lower()[4:] for i, handle in enumerate(handles)}
    paths = {gpu: os.path.realpath(root / "bus/pci/devices" / address) for gpu, address in addresses.items()}
    nics = {nic.name: os.path.realpath(root / "class/infiniband" / nic.name / "device") for nic in machine.nics}
    names = [*paths, *nics]
    cells = {(a, b): "X" if a == b else level(*((paths | nics)[d] for d in (a, b))) for a in names for b in names}
    for i, a in enumerate(handles):
        for j, b in enumerate(handles):
            if i != j:
                links = links_between(nvml, a, b, addresses[f"GPU{j}"])
                common = LEVELS[nvml.nvmlDeviceGetTopologyCommonAncestor(a, b)]
                assert common == cells[f"GPU{i}", f"GPU{j}"], "NVML and sysfs describe one machine"
                cells[f"GPU{i}", f"GPU{j}"] = f"NV{links}" if links else common
    return cells


def links_between(nvml: SimulatedNvml, a: Any, b: Any, address: str) -> int:
    direct = sum(remote == address for remote in remote_ends(nvml, a))
    return direct or min(nvml.nvmlDeviceGetFieldValues(gpu, [147])[0].value.uiVal for gpu in (a, b))


def remote_ends(nvml: SimulatedNvml, gpu: Any) -> list[str]:
    count = nvml.nvmlDeviceGetFieldValues(gpu, [91])[0].value.uiVal
    live = [link for link in range(count) if nvml.nvmlDeviceGetNvLinkState(gpu, link)]
    return [nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId.lower()[4:] for link in live]


def level(a: str, b: str) -> str:
    """The legend of nvidia-smi on two sysfs paths, by counting what is between the devices."""
    if a.rpartition(".")[0] == b.rpartition(".")[0]:
        return "PIX"
    shared = os.path.commonpath([a, b])
    if re.search(r"/pci[0-9a-f]{4,}:[0-9a-f]{2}$", shared):
        return "PHB"
    if "/pci" not in shared:
        nodes = {(Path(path) / "numa_node").read_text() for path in (a, b)}
        return "NODE" if len(nodes) == 1 and nodes != {"-1\n"} else "SYS"
    between = max(path.removeprefix(shared).count("/") - 1 for path in (a, b))
    return "PIX" if between <= 1 else "PXB"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cells]:
    """The matrix of a shipped profile, found once."""
    return functools.cache(lambda name: seen(load_profile(name), tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize(("profile", "device"), ROWS)
def test_a_profile_shows_the_rows_of_its_product(profile: str, device: str, shown: Callable[[str], Cells]) -> None:
    cells = shown(profile)
    assert [cell for (row, _), cell in cells.items() if row == device] == ROWS[profile, device].split()


def test_every_profile_has_an_expected_row() -> None:
    assert {profile for profile, _ in ROWS} == set(profile_names())


@pytest.mark.parametrize("profile", profile_names())
def test_a_matrix_is_symmetric_and_keeps_nvlink_for_gpus(profile: str, shown: Callable[[str], Cells]) -> None:
    cells = shown(profile)
    assert all(cells[b, a] == cell for (a, b), cell in cells.items())
    assert all({a[:3], b[:3]} == {"GPU"} for (a, b), cell in cells.items() if cell.startswith("NV"))


@pytest.mark.parametrize("name", RECORDED)
def test_a_machine_built_from_a_capture_shows_it_again(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    assert seen(machine_from_capture(recorded.text, name), tmp_path) == recorded.cells


@pytest.mark.parametrize("name", TWINS)
def test_a_profile_agrees_with_the_record_of_its_product(name: str, shown: Callable[[str], Cells]) -> None:
    found, recorded = shown(TWINS[name]), RECORDED[name]
    names = dict.fromkeys(device for device, _ in found)
    # NICs of the record may have other names: by position then.
    same = (
        {device: device for device in names}
        if set(names) == set(recorded.devices)
        else dict(zip(recorded.devices, names, strict=True))
    )
    assert found == {(same[a], same[b]): cell for (a, b), cell in recorded.cells.items()}


def test_indices_and_addresses_ascend_together_on_shipped_machines() -> None:
    for name in profile_names():
        addresses = [gpu.function.address for gpu in load_profile(name).gpus]
        assert all(a < b for a, b in pairwise(addresses)) or name in {"dgx-a100", "rtx4090-5-mixed"}


def test_pynvml_is_not_asked() -> None:
    nvml = SimulatedNvml(load_profile("t4-1"))
    with pytest.raises(AttributeError, match="nvmlDeviceGetTemperature"):
        _ = nvml.nvmlDeviceGetTemperature
    assert nvml.NVMLError is pynvml.NVMLError
