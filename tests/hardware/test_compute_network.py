"""Which NICs near a GPU are its rails where several networks are near."""

from collections.abc import Sequence

import pytest
from toposcope.hardware.compute_network import compute_nics, nearest, nic_paths, usable_nics
from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.topology import DataDirect, Nic, Port

FAR = "NODE"


def nic(name: str, link_layer: str = "Ethernet", state: str = "ACTIVE") -> Nic:
    return Nic(name=name, pci=f"0000:{name}:00.0", numa=0, guid="", path=(), ports=(Port(1, link_layer, state),))


def roce(name: str, state: str = "ACTIVE") -> Nic:
    return nic(name, "Ethernet", state)


def infiniband(name: str, state: str = "ACTIVE") -> Nic:
    return nic(name, "InfiniBand", state)


def rails(paths: Sequence[Sequence[str]], nics: Sequence[Nic]) -> list[list[str]]:
    """The names of each GPU's rails."""
    chosen = usable_nics(paths, nics)
    return [[nics[at].name for at in nearest(row, of)] for row, of in zip(paths, chosen, strict=True)]


@pytest.mark.regression
def test_one_infiniband_port_near_one_gpu_takes_nobodys_roce_rails() -> None:
    nics = [roce("r0"), roce("r1"), roce("r2"), infiniband("i0")]
    paths = [["PIX", FAR, FAR, "PIX"], [FAR, "PIX", FAR, FAR], [FAR, FAR, "PIX", FAR]]
    assert rails(paths, nics) == [["r0"], ["r1"], ["r2"]]


def test_ethernet_beside_infiniband_is_for_storage() -> None:
    nics = [infiniband("i0"), infiniband("i1"), roce("s0")]
    paths = [["PXB", FAR, "PIX"], [FAR, "PXB", FAR]]
    assert rails(paths, nics) == [["i0"], ["i1"]]


def test_ethernet_beside_infiniband_near_all_gpus_is_for_storage_too() -> None:
    nics = [infiniband("i0"), infiniband("i1"), roce("s0"), roce("s1")]
    paths = [["PIX", FAR, "PIX", FAR], [FAR, "PIX", FAR, "PIX"]]
    assert rails(paths, nics) == [["i0"], ["i1"]]


def test_a_gpu_with_infiniband_alone_keeps_it_among_gpus_with_roce() -> None:
    nics = [roce("r0"), roce("r1"), infiniband("i0")]
    paths = [["PIX", FAR, FAR], [FAR, "PIX", FAR], [FAR, FAR, "PIX"]]
    assert rails(paths, nics) == [["r0"], ["r1"], ["i0"]]


def test_a_gpu_with_storage_alone_among_gpus_with_infiniband_has_no_rail() -> None:
    nics = [infiniband("i0"), infiniband("i1"), roce("s0")]
    paths = [["PIX", FAR, FAR], [FAR, "PIX", FAR], [FAR, FAR, "PIX"]]
    assert rails(paths, nics) == [["i0"], ["i1"], []]


def test_halves_of_a_node_keep_what_they_have() -> None:
    nics = [infiniband("i0"), roce("r0")]
    assert rails([["PIX", FAR], [FAR, "PIX"]], nics) == [["i0"], ["r0"]]


@pytest.mark.regression
def test_a_port_that_goes_down_gives_no_rail_to_storage() -> None:
    """Eight rails of InfiniBand and eight of storage: one is down, and nothing else changes."""
    paths = [["PIX", FAR, "PIX", FAR], [FAR, "PIX", FAR, "PIX"]]
    nics = [infiniband("i0", "DOWN"), infiniband("i1"), roce("s0"), roce("s1")]
    assert rails(paths, nics) == [[], ["i1"]]


def test_infiniband_of_which_nothing_is_up_is_not_the_compute_network() -> None:
    nics = [infiniband("i0", "DOWN"), roce("r0")]
    assert rails([["PIX", "PXB"]], nics) == [["r0"]]
    assert compute_nics([["PIX", "PXB"]], nics) == [[0]]  # cables stay where they are


def test_a_nic_with_a_port_of_each_kind_is_what_its_port_that_is_up_is() -> None:
    mixed = roce("m0")._replace(ports=(Port(1, "InfiniBand", "DOWN"), Port(2, "Ethernet", "ACTIVE")))
    assert rails([["PIX", "PIX"]], [mixed, roce("r0")]) == [["m0", "r0"]]


@pytest.mark.parametrize("ports", [(), (Port(1, "", ""),)])
def test_a_nic_that_says_nothing_of_its_ports_is_no_infiniband(ports: tuple[Port, ...]) -> None:
    silent = roce("m0")._replace(ports=ports)
    assert rails([["PIX", "PIX"]], [silent, infiniband("i0")]) == [["i0"]]


# Data Direct

MATRIX = LinkMatrix(
    ("GPU0", "GPU1", "NIC0", "NIC1", "DD0", "DD1"),
    (
        ("X", "NV18", "NODE", "NODE", "NODE", "PXB"),
        ("NV18", "X", "NODE", "NODE", "PXB", "NODE"),
        ("NODE", "NODE", "X", "NODE", "NODE", "NODE"),
        ("NODE", "NODE", "NODE", "X", "NODE", "NODE"),
        ("NODE", "PXB", "NODE", "NODE", "X", "NODE"),
        ("PXB", "NODE", "NODE", "NODE", "NODE", "X"),
    ),
)
NICS = [infiniband("mlx5_0"), infiniband("mlx5_1")]


def direct(*names: str) -> DataDirect:
    return DataDirect(pci="0000:01:00.0", numa=0, path=(), nics=names)


def test_the_path_to_a_nic_is_that_of_its_data_direct_function() -> None:
    assert nic_paths(MATRIX, NICS, [direct("mlx5_0"), direct("mlx5_1")]) == [["NODE", "PXB"], ["PXB", "NODE"]]


def test_a_function_of_an_unknown_nic_is_nobodys_path() -> None:
    assert nic_paths(MATRIX, NICS, [direct(), direct("mlx5_1")]) == [["NODE", "PXB"], ["NODE", "NODE"]]


def test_two_ports_of_a_card_go_by_the_same_function() -> None:
    assert nic_paths(MATRIX, NICS, [direct("mlx5_0", "mlx5_1"), direct()]) == [["NODE", "NODE"], ["PXB", "PXB"]]


def test_of_several_functions_the_nearest_counts() -> None:
    functions = [direct("mlx5_0"), direct("mlx5_0")]
    assert nic_paths(MATRIX, NICS, functions) == [["PXB", "NODE"], ["PXB", "NODE"]]


def test_the_function_counts_also_where_the_nic_is_nearer() -> None:
    """Data goes that way, whatever is shorter."""
    cells = [list(row) for row in MATRIX.cells]
    cells[0][2] = cells[2][0] = "PIX"
    matrix = LinkMatrix(MATRIX.devices, tuple(map(tuple, cells)))
    assert nic_paths(matrix, NICS, [direct("mlx5_0"), direct("mlx5_1")])[0] == ["NODE", "PXB"]
