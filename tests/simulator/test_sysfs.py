"""The tree that stands for /sys has the kernel's layout and formats."""

from pathlib import Path

import pytest
from toposcope.hardware.ranges import parse_list
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile, profile_names
from toposcope.simulator.sysfs import write_sysfs


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
