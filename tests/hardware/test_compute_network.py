"""Which NICs near a GPU are its rails where several networks are near."""

from collections.abc import Sequence

import pytest
from toposcope.hardware.compute_network import compute_nics, nearest, nic_paths, usable_nics
from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.topology import DataDirect, Nic, Port

EACH_ITS_OWN = ("PIX  NODE NODE", "NODE PIX  NODE", "NODE NODE PIX")
"""Paths of three GPUs, each of which has one NIC beside it."""


def nic(name: str, link_layer: str = "Ethernet", state: str = "ACTIVE") -> Nic:
    return Nic(
        name=name,
        pci=f"0000:{name}:00.0",
        numa=0,
        guid="",
        path=(),
        ports=(Port(1, link_layer, state),),
    )


def roce(name: str, state: str = "ACTIVE") -> Nic:
    return nic(name, "Ethernet", state)


def infiniband(name: str, state: str = "ACTIVE") -> Nic:
    return nic(name, "InfiniBand", state)


def rails(*gpus: str, nics: Sequence[Nic]) -> list[list[str]]:
    """The names of each GPU's rails, by its paths to the NICs, as in `PIX NODE`."""
    paths = [gpu.split() for gpu in gpus]
    usable_by_gpu = usable_nics(paths, nics)
    names = []
    for row, usable in zip(paths, usable_by_gpu, strict=True):
        rail_numbers = nearest(row, usable)
        names.append([nics[number].name for number in rail_numbers])
    return names


@pytest.mark.regression
def test_one_infiniband_port_near_one_gpu_takes_nobodys_roce_rails() -> None:
    nics = [
        roce("r0"),
        roce("r1"),
        roce("r2"),
        infiniband("i0"),
    ]
    names = rails(
        "PIX  NODE NODE PIX",
        "NODE PIX  NODE NODE",
        "NODE NODE PIX  NODE",
        nics=nics,
    )
    assert names == [["r0"], ["r1"], ["r2"]]


def test_ethernet_beside_infiniband_is_for_storage() -> None:
    nics = [
        infiniband("i0"),
        infiniband("i1"),
        roce("s0"),
    ]
    names = rails(
        "PXB  NODE PIX",
        "NODE PXB  NODE",
        nics=nics,
    )
    assert names == [["i0"], ["i1"]]


def test_ethernet_beside_infiniband_near_all_gpus_is_for_storage_too() -> None:
    nics = [
        infiniband("i0"),
        infiniband("i1"),
        roce("s0"),
        roce("s1"),
    ]
    names = rails(
        "PIX  NODE PIX  NODE",
        "NODE PIX  NODE PIX",
        nics=nics,
    )
    assert names == [["i0"], ["i1"]]


def test_gpu_with_infiniband_alone_keeps_it_among_gpus_with_roce() -> None:
    nics = [
        roce("r0"),
        roce("r1"),
        infiniband("i0"),
    ]
    names = rails(*EACH_ITS_OWN, nics=nics)
    assert names == [["r0"], ["r1"], ["i0"]]


def test_gpu_with_storage_alone_among_gpus_with_infiniband_has_no_rail() -> None:
    nics = [
        infiniband("i0"),
        infiniband("i1"),
        roce("s0"),
    ]
    names = rails(*EACH_ITS_OWN, nics=nics)
    assert names == [["i0"], ["i1"], []]


def test_halves_of_a_node_keep_their_own_network() -> None:
    nics = [
        infiniband("i0"),
        roce("r0"),
    ]
    names = rails(
        "PIX  NODE",
        "NODE PIX",
        nics=nics,
    )
    assert names == [["i0"], ["r0"]]


@pytest.mark.regression
def test_port_that_goes_down_gives_no_rail_to_storage() -> None:
    """Rails of InfiniBand and as many of storage: one is down, and nothing else changes."""
    nics = [
        infiniband("i0", "DOWN"),
        infiniband("i1"),
        roce("s0"),
        roce("s1"),
    ]
    names = rails(
        "PIX  NODE PIX  NODE",
        "NODE PIX  NODE PIX",
        nics=nics,
    )
    assert names == [[], ["i1"]]


def test_infiniband_of_which_nothing_is_up_is_not_the_compute_network() -> None:
    nics = [
        infiniband("i0", "DOWN"),
        roce("r0"),
    ]
    names = rails("PIX PXB", nics=nics)
    assert names == [["r0"]]

    cabled = compute_nics([["PIX", "PXB"]], nics)
    assert cabled == [[0]]  # cables stay where they are


def test_nic_with_a_port_of_each_kind_is_of_the_kind_that_is_up() -> None:
    ports = (
        Port(1, "InfiniBand", "DOWN"),
        Port(2, "Ethernet", "ACTIVE"),
    )
    mixed = roce("m0")._replace(ports=ports)
    pure = roce("r0")
    names = rails("PIX PIX", nics=[mixed, pure])
    assert names == [["m0", "r0"]]


@pytest.mark.parametrize(
    "ports",
    [
        pytest.param((), id="no-ports"),
        pytest.param((Port(1, "", ""),), id="empty-port"),
    ],
)
def test_nic_that_says_nothing_of_its_ports_is_no_infiniband(ports: tuple[Port, ...]) -> None:
    silent = roce("m0")._replace(ports=ports)
    other = infiniband("i0")
    names = rails("PIX PIX", nics=[silent, other])
    assert names == [["i0"]]


# Data Direct

_HEADER, *_ROWS = """
GPU0 GPU1 NIC0 NIC1 DD0  DD1
X    NV18 NODE NODE NODE PXB
NV18 X    NODE NODE PXB  NODE
NODE NODE X    NODE NODE NODE
NODE NODE NODE X    NODE NODE
NODE PXB  NODE NODE X    NODE
PXB  NODE NODE NODE NODE X
""".strip().splitlines()
MATRIX = LinkMatrix(tuple(_HEADER.split()), tuple(tuple(row.split()) for row in _ROWS))
NICS = [infiniband("mlx5_0"), infiniband("mlx5_1")]


def direct(*names: str) -> DataDirect:
    return DataDirect(pci="0000:01:00.0", numa=0, path=(), nics=names)


def test_path_to_a_nic_is_that_of_its_data_direct_function() -> None:
    functions = [
        direct("mlx5_0"),
        direct("mlx5_1"),
    ]
    first, second = nic_paths(MATRIX, NICS, functions)
    assert first == ["NODE", "PXB"]
    assert second == ["PXB", "NODE"]


def test_function_of_an_unknown_nic_is_nobodys_path() -> None:
    functions = [
        direct(),
        direct("mlx5_1"),
    ]
    first, second = nic_paths(MATRIX, NICS, functions)
    assert first == ["NODE", "PXB"]
    assert second == ["NODE", "NODE"]


def test_two_ports_of_a_card_go_by_the_same_function() -> None:
    functions = [
        direct("mlx5_0", "mlx5_1"),
        direct(),
    ]
    first, second = nic_paths(MATRIX, NICS, functions)
    assert first == ["NODE", "NODE"]
    assert second == ["PXB", "PXB"]


def test_nearest_of_several_functions_counts() -> None:
    functions = [
        direct("mlx5_0"),
        direct("mlx5_0"),
    ]
    first, second = nic_paths(MATRIX, NICS, functions)
    assert first == ["PXB", "NODE"]
    assert second == ["PXB", "NODE"]


def test_function_counts_also_where_the_nic_is_nearer() -> None:
    """Data goes that way, whatever is shorter."""
    rows = [list(row) for row in MATRIX.cells]
    rows[0][2] = "PIX"
    rows[2][0] = "PIX"
    cells = tuple(tuple(row) for row in rows)
    matrix = LinkMatrix(MATRIX.devices, cells)
    functions = [
        direct("mlx5_0"),
        direct("mlx5_1"),
    ]
    first, _second = nic_paths(matrix, NICS, functions)
    assert first == ["NODE", "PXB"]
