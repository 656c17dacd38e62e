"""Pasted matrices: every way they are mangled on the way, and the ways in which they cannot be true."""

import re

import pytest

from tests.support.tables import each_case
from toposcope.simulator.capture import CaptureError, machine_from_capture
from toposcope.simulator.machine import Ancestor, ancestor

TABS = (
    "\x1b[4m\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV2\tPIX\tNODE\tNODE\t0-7,16-23\t0\t\tN/A\n"
    "GPU1\tNV2\t X \tSYS\tSYS\tSYS\t8-15,24-31\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tNODE\tNODE\t\t\t\n"
    "NIC1\tNODE\tSYS\tNODE\t X \tPIX\t\t\t\n"
    "NIC2\tNODE\tSYS\tNODE\tPIX\t X \t\t\t\n"
    "\n"
    "Legend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_2\n  NIC1: mlx5_bond_0\n  NIC2: storage\n"
)
BARE = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \t{}\t{}\nGPU1\t{}\t X \t{}\nGPU2\t{}\t{}\t X \n"


def three(a_b: str, a_c: str, b_c: str) -> str:
    return BARE.format(a_b, a_c, a_b, b_c, a_c, b_c)


@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda text: text, id="as printed"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="carriage returns"),
        pytest.param(lambda text: text.expandtabs(8), id="tabs expanded"),
        pytest.param(lambda text: "".join(f"    {line}\n" for line in text.expandtabs(8).splitlines()), id="indented"),
        pytest.param(lambda text: re.sub(r"[ \t]+", " ", text.replace("\t\tN/A", "\tN/A")), id="blanks collapsed"),
        pytest.param(lambda text: text.replace("\x1b[", "["), id="escapes cut"),
        pytest.param(
            lambda text: text.replace("NIC1\tNIC2\tC", "NIC1NIC2\tC").replace("NODE\tNODE", "NODENODE"), id="glue"
        ),
        pytest.param(lambda text: "# source: a friend\n$ nvidia-smi topo -m\n" + text, id="comment and prompt"),
        pytest.param(
            lambda text: "".join(text.splitlines(keepends=True)[:3]) + text[text.index("NIC1\tNODE") :], id="gap"
        ),
    ],
)
def test_a_capture_survives_the_ways_it_is_pasted(mangle) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 - lambdas above
    machine = machine_from_capture(mangle(TABS))
    first, second = machine.gpus
    bond, storage = machine.nics[1:]
    assert [nic.name for nic in machine.nics] == ["mlx5_2", "mlx5_bond_0", "storage"]
    assert [node.cpulist for node in machine.numa_nodes] == ["0-7,16-23", "8-15,24-31"]
    assert ancestor(first.slot, machine.nics[0].slot) is Ancestor.PIX
    assert ancestor(first.slot, bond.slot) is Ancestor.NODE
    assert ancestor(second.slot, bond.slot) is Ancestor.SYS
    assert bond.slot.card == storage.slot.card
    assert [link.address for link in first.links] == [second.function.address] * 2


def test_what_the_text_does_not_say_is_not_invented_but_noted() -> None:
    machine = machine_from_capture(TABS)
    assert machine.driver is None
    assert {gpu.name for gpu in machine.gpus} == {None}
    assert {gpu.link_mbps for gpu in machine.gpus} == {None}
    assert any("GPU names unknown" in note for note in machine.notes)
    assert any("direct NVLinks assumed" in note for note in machine.notes)


def test_names_links_and_addresses_are_taken_from_other_commands() -> None:
    links = "".join(f"\t Link {i}: 25.781 GB/s\n" for i in range(2)) + "\t Link 2: <inactive>\n"
    text = TABS + (
        "\n## nvidia-smi nvlink -s\n"
        f"GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-00000000-1111-2222-3333-444444444444)\n{links}"
        f"GPU 1: Tesla V100-SXM2-32GB (UUID: hidden)\n{links}"
        "\n## nvidia-smi pci.bus_id\n0, 00000000:1A:00.0\n1, 00000000:88:00.0\n"
        "\n## lscpu\nSocket(s): 1\nNUMA node0 CPU(s): 0-7,16-23\nNUMA node1 CPU(s): 8-15,24-31\n"
    )
    machine = machine_from_capture(text)
    first, second = machine.gpus
    assert first.uuid == "GPU-00000000-1111-2222-3333-444444444444"
    assert second.uuid.startswith("GPU-")
    assert (first.name, first.architecture, first.nvlink_version) == ("Tesla V100-SXM2-32GB", 5, 3)
    assert first.link_mbps == 25781
    assert [link.active for link in first.links] == [True, True, False]
    assert [gpu.function.address for gpu in machine.gpus] == ["0000:1a:00.0", "0000:88:00.0"]
    assert {node.package for node in machine.numa_nodes} == {0}


def test_an_empty_cpu_cell_is_found_by_its_place() -> None:
    text = TABS.replace("0-7,16-23\t0", "\t0")
    for pasted in (text, text.expandtabs(8)):
        machine = machine_from_capture(pasted)
        assert [node.cpulist for node in machine.numa_nodes] == ["", "8-15,24-31"]
        assert machine.gpus[0].slot.numa_node == 0


def test_ranges_name_memory_only_nodes() -> None:
    machine = machine_from_capture(TABS.replace("0-7,16-23\t0\t\tN/A", "0-7,16-23\t0,3-5\t\t2"))
    assert [node.id for node in machine.numa_nodes if not node.cpus] == [2, 3, 4, 5]
    assert machine.gpus[0].memory_node == 2


def test_more_links_than_ports_mean_switches() -> None:
    machine = machine_from_capture(three("NV12", "NV12", "NV12"))
    assert {link.address for gpu in machine.gpus for link in gpu.links} == {None}
    assert any("NVSwitches out of sight assumed" in note for note in machine.notes)
    uneven = machine_from_capture(three("NV12", "NV10", "NV10"))
    assert [sum(link.active for link in gpu.links) for gpu in uneven.gpus] == [12, 12, 10]


def test_the_matrix_is_believed_over_the_affinity_columns() -> None:
    machine = machine_from_capture(TABS.replace("\t1\t\tN/A", "\t0\t\tN/A"))
    # SYS between GPU1 and the NICs: they cannot be on one node.
    assert [gpu.slot.numa_node for gpu in machine.gpus] == [0, -1]
    assert any("contradict the matrix for GPU1" in note for note in machine.notes)


def test_node_without_numa_columns_gets_a_node() -> None:
    machine = machine_from_capture(three("NODE", "NODE", "NODE"))
    assert {gpu.slot.numa_node for gpu in machine.gpus} == {0}
    assert len({gpu.slot.root for gpu in machine.gpus}) == 3
    assert any("NUMA node 0 assumed" in note for note in machine.notes)


def test_cpus_of_gpus_that_cannot_share_their_node_are_kept() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-7\nGPU1\tSYS\t X \t0-7\n"
    machine = machine_from_capture(text)
    assert [gpu.slot.numa_node for gpu in machine.gpus] == [-1, -1]
    assert [node.cpulist for node in machine.numa_nodes] == ["0-7"]


@each_case("simulator.yaml")
def test_a_capture_that_cannot_be_true_is_refused(text: str, replaced: dict[str, str], added: str, says: str) -> None:
    cells = text.split()
    whole = TABS if text == "TABS" else "" if not cells else BARE.format(*cells) if cells[3:] else three(*cells)
    for part, other in replaced.items():
        assert part in whole
        whole = whole.replace(part, other)
    with pytest.raises(CaptureError, match=re.escape(says)):
        machine_from_capture(whole + added)
