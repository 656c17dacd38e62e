"""What NUMA nodes and the list of devices in sysfs do otherwise than one would think."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.machines import discovered, probed
from toposcope.agent.discover import discover
from toposcope.agent.labels import labels_for
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.simulator.faults import Faults
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.hardware import NodeTopology, State

H200, A100, TRAY, POWER9 = "dgx-h200", "dgx-a100", "gb200-nvl72-tray", "power9-v100"


def numbered(raw: RawNode, **functions: Any) -> NodeTopology:
    """What becomes of the node when sysfs says other things about its GPUs."""
    return discover(raw._replace(gpu_functions=tuple(function._replace(**functions) for function in raw.gpu_functions)))


# NUMA


def test_cpus_come_from_sysfs_whatever_this_process_may_use(tmp_path: Path) -> None:
    """NVML's answer is cut to the caller's cpuset: the simulated one, like a strict reader, has no such call at all."""
    with pytest.raises(AttributeError, match="nvmlDeviceGetCpuAffinity"):
        getattr(SimulatedNvml(load_profile(H200)), "nvmlDeviceGetCpuAffinity")  # noqa: B009 - mypy knows it is not there
    topology = discovered(load_profile(H200), tmp_path)
    assert [node.cpus for node in topology.numa] == ["0-55,112-167", "56-111,168-223"]
    assert topology.numa[0].distances == (10, 20)


def test_an_unknown_numa_node_follows_from_local_cpus_where_they_tell(tmp_path: Path) -> None:
    raw = probed(load_profile(H200), tmp_path)
    near = numbered(raw, numa=None, local_cpus="56-111,168-223")
    assert {gpu.numa for gpu in near.gpus} == {1}
    everywhere = numbered(raw, numa=None, local_cpus="0-223")
    assert {gpu.numa for gpu in everywhere.gpus} == {None}
    assert label_keys.GPUS_PER_NUMA not in labels_for(everywhere, "n1").known
    straddling = numbered(raw, numa=None, local_cpus="50-60")
    assert {gpu.numa for gpu in straddling.gpus} == {None}


def test_minus_one_is_unknown_and_not_a_node(tmp_path: Path) -> None:
    write_sysfs(load_profile("l40s-4"), tmp_path)
    for file in tmp_path.glob("devices/pci*/**/numa_node"):
        file.chmod(0o644)
        file.write_text("-1\n")
    assert {function.numa for function in Sysfs(tmp_path).nvidia_functions()[0]} == {None}


def test_node_numbers_have_gaps(tmp_path: Path) -> None:
    topology = discovered(load_profile(POWER9), tmp_path)
    assert [node.id for node in topology.numa if node.cpus] == [0, 8]
    known = labels_for(topology, "n1").known
    assert (known[label_keys.NUMA_NODES], known[label_keys.GPUS_PER_NUMA]) == ("2", "1-1")


@pytest.mark.parametrize(
    ("profile", "nodes", "with_cpus", "gpus"), [(TRAY, 34, "2", "2-2"), ("gh200", 9, "1", "1"), (A100, 8, "8", None)]
)
def test_nodes_without_cpus_are_not_counted(
    profile: str, nodes: int, with_cpus: str, gpus: str | None, tmp_path: Path
) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    known = labels_for(topology, "n1").known
    assert (len(topology.numa), known[label_keys.NUMA_NODES]) == (nodes, with_cpus)
    assert gpus in (None, known[label_keys.GPUS_PER_NUMA])


def test_a_sysfs_that_is_half_mounted_costs_only_what_it_hides(tmp_path: Path) -> None:
    machine = load_profile(H200)
    raw = probed(machine, tmp_path)
    whole = discover(raw)
    broken = raw._replace(numa=tuple(node._replace(cpus="0-") for node in raw.numa), nics=())
    assert discover(broken).matrix.cells[1][0] == "NV18"
    bare = discover(raw._replace(numa=(), nics=(), gpu_functions=(), switch_functions=(), bus_visible=False))
    assert [row[:8] for row in bare.matrix.cells] == [row[:8] for row in whole.matrix.cells[:8]]
    assert bare.state is State.OK
    assert label_keys.NUMA_NODES not in labels_for(bare, "n1").known


# The bus


def test_what_is_lent_to_virtual_machines_is_not_missed(tmp_path: Path) -> None:
    raw = probed(load_profile("l40s-4"), tmp_path, Faults(lost=frozenset({3})))
    last = raw.gpu_functions[3]
    for driver, missed in (("vfio-pci", 0), ("nvgrace_gpu_vfio_pci", 0), ("nvidia", 1), ("nouveau", 1), (None, 1)):
        functions = (*raw.gpu_functions[:3], last._replace(driver=driver))
        reasons = discover(raw._replace(gpu_functions=functions)).reasons
        named = [reason for reason in reasons if last.address in reason]
        assert len(named) == missed, driver
        assert ("held by the driver nouveau" in "".join(named)) == (driver == "nouveau")


def test_virtual_functions_of_a_gpu_are_not_gpus(tmp_path: Path) -> None:
    write_sysfs(load_profile("t4-1"), tmp_path)
    (first,), _ = Sysfs(tmp_path).nvidia_functions()
    folder = (tmp_path / "bus" / "pci" / "devices" / first.address).resolve()
    virtual = folder.with_name(first.address[:-1] + "4")
    virtual.mkdir()
    for name in ("vendor", "class"):
        (virtual / name).write_text((folder / name).read_text())
    link = tmp_path / "bus" / "pci" / "devices" / virtual.name
    link.symlink_to(virtual)
    assert len(Sysfs(tmp_path).nvidia_functions()[0]) == 2  # as in the machine it is lent to
    (virtual / "physfn").symlink_to(folder)
    assert len(Sysfs(tmp_path).nvidia_functions()[0]) == 1
