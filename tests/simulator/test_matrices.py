"""What a reader of the simulated NVML and sysfs would find, cell for cell: a small discovery of the tests' own."""

import functools
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest
from tests.support.machines import Cells, recorded_machines
from tests.support.tables import each_row, rows
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs

RECORDED = recorded_machines()
LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


class MatrixRow(msgspec.Struct, forbid_unknown_fields=True):
    profile: str
    device: str
    cells: str


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


@each_row("matrix_rows.yaml", MatrixRow, ids=lambda row: f"{row.profile}-{row.device}")
def test_a_profile_shows_the_rows_of_its_product(row: MatrixRow, shown: Callable[[str], Cells]) -> None:
    cells = shown(row.profile)
    assert [cell for (device, _), cell in cells.items() if device == row.device] == row.cells.split()


def test_every_profile_has_an_expected_row() -> None:
    assert {row.profile for row in rows("matrix_rows.yaml", MatrixRow)} == set(profile_names())


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
