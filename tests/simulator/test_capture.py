"""Pasted matrices: every way they are mangled on the way, and the ways in which they cannot be true."""

import re
from collections.abc import Callable
from textwrap import indent

import pytest
from tests.support.paths import FIXTURES
from toposcope.simulator.capture import CaptureError, machine_from_capture
from toposcope.simulator.machine import Ancestor, Machine, SimulatedGpu, ancestor

TABS = (FIXTURES / "topo.txt").read_text(encoding="utf-8")
BARE = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \t{}\t{}\nGPU1\t{}\t X \t{}\nGPU2\t{}\t{}\t X \n"


def three(a_b: str, a_c: str, b_c: str) -> str:
    """Three GPUs by the cells of their pairs."""
    return BARE.format(a_b, a_c, a_b, b_c, a_c, b_c)


def replaced(text: str, part: str, other: str) -> str:
    """A text with other words in the place of some that it has."""
    assert part in text
    return text.replace(part, other)


# The ways in which a text is mangled


def as_printed(text: str) -> str:
    return text


def with_carriage_returns(text: str) -> str:
    return text.replace("\n", "\r\n")


def with_expanded_tabs(text: str) -> str:
    return text.expandtabs(8)


def indented(text: str) -> str:
    return indent(text.expandtabs(8), "    ", lambda _line: True)


def with_collapsed_blanks(text: str) -> str:
    without_empty_cells = text.replace("\t\tN/A", "\tN/A")
    return re.sub(r"[ \t]+", " ", without_empty_cells)


def with_escapes_cut(text: str) -> str:
    return text.replace("\x1b[", "[")


def with_glued_columns(text: str) -> str:
    glued_header = text.replace("NIC1\tNIC2\tC", "NIC1NIC2\tC")
    return glued_header.replace("NODE\tNODE", "NODENODE")


def below_a_comment_and_a_prompt(text: str) -> str:
    return "# source: a friend\n$ nvidia-smi topo -m\n" + text


def with_a_gap(text: str) -> str:
    """Without the row of the first NIC."""
    lines = text.splitlines(keepends=True)
    first_lines = "".join(lines[:3])
    second_nic = text.index("NIC1\tNODE")
    return first_lines + text[second_nic:]


def assert_linked(gpu: SimulatedGpu, other: SimulatedGpu, count: int) -> None:
    """So many links of a GPU end in the other."""
    assert len(gpu.links) == count
    for link in gpu.links:
        assert link.address == other.function.address


@pytest.mark.parametrize(
    "mangle",
    [
        as_printed,
        with_carriage_returns,
        with_expanded_tabs,
        indented,
        with_collapsed_blanks,
        with_escapes_cut,
        with_glued_columns,
        below_a_comment_and_a_prompt,
        with_a_gap,
    ],
)
def test_capture_survives_the_ways_it_is_pasted(mangle: Callable[[str], str]) -> None:
    text = mangle(TABS)
    machine = machine_from_capture(text)
    first, second = machine.gpus
    nic, bond, storage = machine.nics
    assert nic.name == "mlx5_2"
    assert bond.name == "mlx5_bond_0"
    assert storage.name == "storage"
    near, far = machine.numa_nodes
    assert near.cpulist == "0-7,16-23"
    assert far.cpulist == "8-15,24-31"

    assert ancestor(first.slot, nic.slot) is Ancestor.PIX
    assert ancestor(first.slot, bond.slot) is Ancestor.NODE
    assert ancestor(second.slot, bond.slot) is Ancestor.SYS
    assert bond.slot.card == storage.slot.card
    assert_linked(first, second, 2)


# What a capture becomes, with tabs and with blanks


def machine_of(text: str) -> Machine:
    """The machine that a capture becomes, be its columns apart by tabs or by blanks."""
    by_blanks = machine_from_capture(text.expandtabs(8))
    machine = machine_from_capture(text)
    assert by_blanks == machine
    return machine


def has_note(machine: Machine, words: str) -> bool:
    notes = "\n".join(machine.notes)
    return words in notes


OTHER_COMMANDS = """
## nvidia-smi nvlink -s
GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-00000000-1111-2222-3333-444444444444)
\t Link 0: 25.781 GB/s
\t Link 1: 25.781 GB/s
\t Link 2: <inactive>
GPU 1: Tesla V100-SXM2-32GB (UUID: hidden)
\t Link 0: 25.781 GB/s
\t Link 1: 25.781 GB/s
\t Link 2: <inactive>

## nvidia-smi pci.bus_id
0, 00000000:1A:00.0
1, 00000000:88:00.0

## lscpu
Socket(s): 1
NUMA node0 CPU(s): 0-7,16-23
NUMA node1 CPU(s): 8-15,24-31
"""
TWO_GPUS_ON_THE_SAME_CPUS = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-7\nGPU1\tSYS\t X \t0-7\n"


def numa_nodes_of_gpus(machine: Machine) -> list[int]:
    return [gpu.slot.numa_node for gpu in machine.gpus]


def active_links(gpu: SimulatedGpu) -> str:
    """Of each link whether it is active: + or -."""
    signs = ""
    for link in gpu.links:
        signs += "+" if link.is_active else "-"
    return signs


def test_facts_missing_in_the_text_are_noted_and_not_invented() -> None:
    machine = machine_of(TABS)
    assert machine.driver is None
    assert len(machine.gpus) == 2
    for gpu in machine.gpus:
        assert gpu.name is None
        assert gpu.link_mbps is None
    assert has_note(machine, "GPU names unknown")
    assert has_note(machine, "direct NVLinks assumed")


def test_names_links_and_addresses_come_from_other_commands() -> None:
    machine = machine_of(TABS + OTHER_COMMANDS)
    first, second = machine.gpus
    assert first.uuid == "GPU-00000000-1111-2222-3333-444444444444"
    assert second.uuid == "GPU-6ea1a1a2-692c-4072-b345-777644031ae4"
    assert first.name == "Tesla V100-SXM2-32GB"
    assert first.architecture == 5
    assert first.nvlink_version == 3
    assert first.link_mbps == 25781
    assert active_links(first) == "++-"
    assert active_links(second) == "++-"
    assert first.function.address == "0000:1a:00.0"
    assert second.function.address == "0000:88:00.0"
    assert len(machine.numa_nodes) == 2
    for node in machine.numa_nodes:
        assert node.package == 0


def test_empty_cpu_cell_is_found_by_its_place() -> None:
    text = replaced(TABS, "0-7,16-23\t0", "\t0")
    machine = machine_of(text)
    first, second = machine.numa_nodes
    assert first.cpulist == ""
    assert second.cpulist == "8-15,24-31"
    gpu, _other = machine.gpus
    assert gpu.slot.numa_node == 0


def test_ranges_name_memory_only_nodes() -> None:
    text = replaced(TABS, "0-7,16-23\t0\t\tN/A", "0-7,16-23\t0,3-5\t\t2")
    machine = machine_of(text)
    assert machine.gpus[0].memory_node == 2
    cpus_by_node = {node.id: node.cpulist for node in machine.numa_nodes}
    assert cpus_by_node == {
        0: "0-7,16-23",
        1: "8-15,24-31",
        2: "",
        3: "",
        4: "",
        5: "",
    }
    assert list(cpus_by_node) == [0, 1, 2, 3, 4, 5]


def test_more_links_than_ports_mean_switches() -> None:
    machine = machine_of(three("NV12", "NV12", "NV12"))
    for gpu in machine.gpus:
        assert len(gpu.links) == 12
        for link in gpu.links:
            assert link.address is None
    assert has_note(machine, "NVSwitches out of sight assumed")


def test_gpus_at_switches_need_not_have_equal_links() -> None:
    machine = machine_of(three("NV12", "NV10", "NV10"))
    first, second, third = machine.gpus
    assert active_links(first) == "++++++++++++"
    assert active_links(second) == "++++++++++++"
    assert active_links(third) == "++++++++++--"


def test_matrix_is_believed_over_the_affinity_columns() -> None:
    text = replaced(TABS, "\t1\t\tN/A", "\t0\t\tN/A")
    machine = machine_of(text)
    assert numa_nodes_of_gpus(machine) == [0, -1]
    assert has_note(machine, "contradict the matrix for GPU1")


def test_node_cells_without_numa_columns_get_a_node() -> None:
    machine = machine_of(three("NODE", "NODE", "NODE"))
    assert numa_nodes_of_gpus(machine) == [0, 0, 0]
    first, second, third = machine.gpus
    assert first.slot.root == "pci0000:00"
    assert second.slot.root == "pci0000:02"
    assert third.slot.root == "pci0000:04"
    assert has_note(machine, "NUMA node 0 assumed")


def test_cpus_of_gpus_that_cannot_share_their_node_are_kept() -> None:
    machine = machine_of(TWO_GPUS_ON_THE_SAME_CPUS)
    assert numa_nodes_of_gpus(machine) == [-1, -1]
    (node,) = machine.numa_nodes
    assert node.cpulist == "0-7"


# Captures that cannot be true

NVLINK_TO_A_NIC = replaced(replaced(TABS, "PIX\tNODE\tNODE\t0-7", "NV4\tNODE\tNODE\t0-7"), "NIC0\tPIX", "NIC0\tNV4")
FAR_GPUS = three("SYS", "SYS", "SYS")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "no matrix: paste the text", id="empty"),
        pytest.param("hello\nworld\n", "no matrix: paste the text", id="prose"),
        pytest.param(NVLINK_TO_A_NIC, "GPU0-NIC0 is NV4", id="nvlink-to-a-nic"),
        pytest.param(
            replaced(TABS, "0-7,16-23\t0", "0-7,16-23\tnone"), "row GPU0: affinity columns", id="numa-node-a-word"
        ),
        pytest.param(
            TABS + "GPU 0: V100\n\t Link 0: 25 GB/s\n",
            "GPU0 has 1 active links in `nvlink -s` but 2 by its row",
            id="fewer-links-than-cells",
        ),
        pytest.param(replaced(TABS, "storage", "mlx5_2"), "two NICs are called mlx5_2", id="nic-twice"),
        pytest.param(replaced(TABS, "storage", "../../etc"), "'../../etc' is not a device name", id="nic-a-path"),
        pytest.param(TABS + "NUMA node0 CPU(s): 7-0\n", "NUMA node0 CPU(s): not a kernel list", id="cpus-no-list"),
        pytest.param(
            TABS + "NUMA node0 CPU(s): 0-7\nNUMA node1 CPU(s): 7-9\n", "put a CPU on two nodes", id="cpu-on-two-nodes"
        ),
        pytest.param(TABS + "0, 0000:1A:00.0\n1, 0000:1A:00.0\n", "names one address twice", id="address-twice"),
        pytest.param(
            three("PIX", "PIX", "SYS"),
            "no machine has these cells: GPU1-GPU2 is SYS where the other cells require PIX",
            id="pix-and-sys",
        ),
        pytest.param(three("PIX", "PXB", "PHB"), "no machine has these cells", id="pix-pxb-and-phb"),
        pytest.param(
            three("NV12", "NV12", "NV3"),
            "no machine has these cells: GPU1-GPU2 is NV3 where the other cells require NV12",
            id="nv12-and-nv3",
        ),
        pytest.param(
            BARE.format("PIX", "SYS", "PXB", "SYS", "SYS", "SYS"),
            "GPU0-GPU1 is PIX in row GPU0 but PXB in row GPU1",
            id="asymmetric",
        ),
        pytest.param(three("XYZ", "PIX", "PIX"), "row GPU0, column GPU1: 'XYZ' is not a cell", id="unknown-cell"),
        pytest.param(
            "\tGPU0\tGPU1\nGPU0\t X \n", "row GPU0, column GPU1: 'the end of the line' is not a cell", id="cell-missing"
        ),
        pytest.param(three("X", "PIX", "PIX"), "GPU0-GPU1 is X, which two different devices", id="x-of-a-pair"),
        pytest.param(
            "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tPIX",
            "rows missing: GPU1, GPU2; nothing tells how these are",
            id="rows-missing",
        ),
        pytest.param(
            replaced(FAR_GPUS, "GPU2", "GPU3"), "the GPUs are GPU0, GPU1, GPU3; paste a header", id="gap-in-the-gpus"
        ),
        pytest.param(replaced(FAR_GPUS, "\tGPU2\n", "\tGPU1\n"), "the header names a device twice", id="column-twice"),
        pytest.param(FAR_GPUS + "GPU2\tSYS\tSYS\t X \n", "GPU2 has two rows", id="row-twice"),
    ],
)
def test_capture_that_cannot_be_true_is_refused(text: str, message: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(message)):
        machine_from_capture(text)
