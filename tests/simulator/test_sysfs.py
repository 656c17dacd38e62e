"""The tree that stands for /sys has the kernel's layout and formats."""

import os
from pathlib import Path

import pytest

from tests.support.paths import FIXTURES
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


def test_a_gpu_a_bridge_and_a_switch_say_what_they_are(dgx: tuple[Machine, Path]) -> None:
    machine, root = dgx
    gpu, switch = machine.gpus[0], machine.nvswitches[0]
    base = f"bus/pci/devices/{gpu.function.address}"
    assert read(root, f"{base}/class") == "0x030200\n"
    assert read(root, f"{base}/vendor") == "0x10de\n"
    assert read(root, f"{base}/device") == "0x2335\n"
    assert read(root, f"{base}/numa_node") == "0\n"
    assert read(root, f"{base}/local_cpulist") == "0-55,112-167\n"
    assert read(root, f"bus/pci/devices/{switch.address}/class") == "0x068000\n"
    assert read(root, f"bus/pci/devices/{gpu.slot.bridges[0]}/class") == "0x060400\n"


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


def test_numa_nodes_and_cpus(dgx: tuple[Machine, Path]) -> None:
    _, root = dgx
    assert read(root, "devices/system/node/online") == "0-1\n"
    assert read(root, "devices/system/node/node1/cpulist") == "56-111,168-223\n"
    assert read(root, "devices/system/node/node1/distance") == "20 10\n"
    assert read(root, "devices/system/cpu/online") == "0-223\n"
    assert read(root, "devices/system/cpu/cpu223/topology/physical_package_id") == "1\n"


def test_grace_has_nodes_without_cpus(tmp_path: Path) -> None:
    write_sysfs(load_profile("gb200-nvl72-tray"), tmp_path)
    assert read(tmp_path, "devices/system/node/online") == "0-33\n"
    assert read(tmp_path, "devices/system/node/has_cpu") == "0-1\n"
    assert read(tmp_path, "devices/system/node/node10/cpulist") == "\n"
    assert read(tmp_path, "bus/pci/devices/0000:01:00.0/numa_node") == "-1\n"
    assert read(tmp_path, "bus/pci/devices/0000:01:00.0/local_cpulist") == "0-143\n"


def test_node_numbers_may_have_gaps_and_a_socket_several_nodes(tmp_path: Path) -> None:
    write_sysfs(load_profile("power9-v100"), tmp_path / "power9")
    assert read(tmp_path, "power9/devices/system/node/online") == "0,8\n"
    write_sysfs(load_profile("dgx-a100"), tmp_path / "a100")
    assert read(tmp_path, "a100/devices/system/node/node4/distance") == "20 20 20 20 10 12 12 12\n"
    assert read(tmp_path, "a100/devices/system/cpu/cpu63/topology/physical_package_id") == "0\n"
    assert read(tmp_path, "a100/devices/system/cpu/cpu64/topology/physical_package_id") == "1\n"


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
