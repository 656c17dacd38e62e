"""The tree that stands for /sys has the kernel's layout and formats."""

import os
from pathlib import Path

import pytest

from tests.support.paths import FIXTURES
from tests.support.tables import each_case
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.ranges import parse_list

VIRTUAL = (FIXTURES / "profiles" / "virtual.yaml").read_text(encoding="utf-8")


def read(root: Path, path: str) -> str:
    return (root / path).read_text()


@pytest.fixture
def dgx(tmp_path: Path) -> tuple[Machine, Path]:
    machine = load_profile("dgx-h200")
    write_sysfs(machine, tmp_path)
    return machine, tmp_path


def test_every_device_is_listed_and_leads_into_the_tree(dgx: tuple[Machine, Path]) -> None:
    machine, root = dgx
    for function in machine.functions:
        link = root / "bus/pci/devices" / function.address
        assert link.is_symlink()
        expected = root.joinpath("devices", function.slot.root, *function.slot.bridges, function.address)
        assert link.resolve() == expected.resolve()
    for entry in (root / "bus/pci/devices").iterdir():
        assert (entry / "class").read_text().startswith("0x")


def test_infiniband_devices(dgx: tuple[Machine, Path]) -> None:
    machine, root = dgx
    assert set(os.listdir(root / "class/infiniband")) == {nic.name for nic in machine.nics}  # noqa: PTH208 - names only
    for nic in machine.nics:
        entry = root / "class/infiniband" / nic.name
        assert entry.is_symlink()
        assert (entry / "device").resolve().name == nic.slot.address
        assert (entry / "ports/1/state").read_text() == "4: ACTIVE\n"
        assert len((entry / "node_guid").read_text().strip().replace(":", "")) == 16
    assert read(root, "class/infiniband/mlx5_0/ports/1/link_layer") == "InfiniBand\n"
    assert read(root, "class/infiniband/mlx5_1/ports/1/link_layer") == "Ethernet\n"


def test_virtual_functions_point_at_their_parent(tmp_path: Path) -> None:
    profile = tmp_path / "virtual.yaml"
    profile.write_text(VIRTUAL)
    machine = load_profile(profile)
    write_sysfs(machine, tmp_path / "sys")
    devices = tmp_path / "sys/class/infiniband"
    parent = (devices / "mlx5_0/device").resolve()
    assert [nic.slot.address[-4:] for nic in machine.nics] == ["00.0", "00.1", "00.2", "00.3"]
    for name in ("mlx5_2", "mlx5_3"):
        assert (devices / name / "device/physfn").resolve() == parent
    assert not (devices / "mlx5_1/device/physfn").exists()
    assert (devices / "mlx5_1/ports/1/state").read_text() == "1: DOWN\n"


@each_case("simulator.yaml")
def test_files_of_a_machine(profile: str, files: dict[str, str], tmp_path: Path) -> None:
    machine = load_profile(profile)
    write_sysfs(machine, tmp_path)
    gpu = machine.gpus[0]
    places = {"GPU": gpu.function.address, "BRIDGE": gpu.slot.bridges[0]}
    places |= {"SWITCH": machine.nvswitches[0].address} if machine.nvswitches else {}
    for path, content in files.items():
        for word, address in places.items():
            path = path.replace(word, f"bus/pci/devices/{address}")  # noqa: PLW2901 - the place of a device
        assert read(tmp_path, path) == f"{content}\n", path


@pytest.mark.parametrize("name", profile_names())
def test_every_cpu_is_on_one_node(name: str, tmp_path: Path) -> None:
    write_sysfs(load_profile(name), tmp_path)
    nodes = parse_list(read(tmp_path, "devices/system/node/online"))
    lists = [parse_list(read(tmp_path, f"devices/system/node/node{node}/cpulist")) for node in nodes]
    assert sum(map(len, lists)) == len(parse_list(read(tmp_path, "devices/system/cpu/online")))


def test_an_existing_tree_is_not_overwritten(dgx: tuple[Machine, Path]) -> None:
    machine, root = dgx
    with pytest.raises(FileExistsError):
        write_sysfs(machine, root)
