"""Which NICs near a GPU are its rails where several networks are near."""

from collections.abc import Sequence

import pytest
from toposcope.hardware.compute_network import compute_nics, nearest, nic_paths, usable_nics
from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.topology import DataDirect, Nic, Port

EACH_ITS_OWN = ("PIX  NODE NODE", "NODE PIX  NODE", "NODE NODE PIX")
"""Paths of three GPUs, each of which has one NIC beside it."""
HALF_WITH_STORAGE = ("PIX  NODE PIX  NODE", "NODE PIX  NODE PIX")
"""Paths of two GPUs, each of which has a NIC for computing and one for storage beside it."""


def nic(name: str, *ports: Port) -> Nic:
    return Nic(
        name=name,
        pci=f"0000:{name}:00.0",
        numa=0,
        guid="",
        path=(),
        ports=ports,
    )


def nics(names: str) -> list[Nic]:
    """NICs by their names: InfiniBand begins with `i`, all others are of Ethernet; `!` after it: its port is down."""
    found = []
    for word in names.split():
        name = word.rstrip("!")
        link_layer = "InfiniBand" if name.startswith("i") else "Ethernet"
        state = "DOWN" if word.endswith("!") else "ACTIVE"
        found.append(nic(name, Port(1, link_layer, state)))
    return found


def rails(columns: Sequence[Nic], *gpus: str) -> list[list[str]]:
    """The names of each GPU's rails, by its paths to these NICs, as in `PIX NODE`."""
    paths = [gpu.split() for gpu in gpus]
    usable_by_gpu = usable_nics(paths, columns)
    names = []
    for row, usable in zip(paths, usable_by_gpu, strict=True):
        rail_numbers = nearest(row, usable)
        names.append([columns[number].name for number in rail_numbers])
    return names


@pytest.mark.regression
def test_one_infiniband_port_near_one_gpu_takes_nobodys_roce_rails() -> None:
    names = rails(
        nics("r0 r1 r2 i0"),
        "PIX  NODE NODE PIX",
        "NODE PIX  NODE NODE",
        "NODE NODE PIX  NODE",
    )
    assert names == [["r0"], ["r1"], ["r2"]]


def test_ethernet_beside_infiniband_is_for_storage() -> None:
    names = rails(
        nics("i0 i1 s0"),
        "PXB  NODE PIX",
        "NODE PXB  NODE",
    )
    assert names == [["i0"], ["i1"]]


def test_ethernet_beside_infiniband_near_all_gpus_is_for_storage_too() -> None:
    names = rails(nics("i0 i1 s0 s1"), *HALF_WITH_STORAGE)
    assert names == [["i0"], ["i1"]]


def test_gpu_with_infiniband_alone_keeps_it_among_gpus_with_roce() -> None:
    names = rails(nics("r0 r1 i0"), *EACH_ITS_OWN)
    assert names == [["r0"], ["r1"], ["i0"]]


def test_gpu_with_storage_alone_among_gpus_with_infiniband_has_no_rail() -> None:
    names = rails(nics("i0 i1 s0"), *EACH_ITS_OWN)
    assert names == [["i0"], ["i1"], []]


def test_halves_of_a_node_keep_their_own_network() -> None:
    names = rails(
        nics("i0 r0"),
        "PIX  NODE",
        "NODE PIX",
    )
    assert names == [["i0"], ["r0"]]


@pytest.mark.regression
def test_port_that_goes_down_gives_no_rail_to_storage() -> None:
    """Rails of InfiniBand and as many of storage: one is down, and nothing else changes."""
    names = rails(nics("i0! i1 s0 s1"), *HALF_WITH_STORAGE)
    assert names == [[], ["i1"]]


def test_infiniband_of_which_nothing_is_up_is_not_the_compute_network() -> None:
    columns = nics("i0! r0")
    assert rails(columns, "PIX PXB") == [["r0"]]

    cabled = compute_nics([["PIX", "PXB"]], columns)
    assert cabled == [[0]]  # cables stay where they are


def test_nic_with_a_port_of_each_kind_is_of_the_kind_that_is_up() -> None:
    mixed = nic("m0", Port(1, "InfiniBand", "DOWN"), Port(2, "Ethernet", "ACTIVE"))
    names = rails([mixed, *nics("r0")], "PIX PIX")
    assert names == [["m0", "r0"]]


@pytest.mark.parametrize(
    "ports",
    [
        pytest.param((), id="no-ports"),
        pytest.param((Port(1, "", ""),), id="empty-port"),
    ],
)
def test_nic_that_says_nothing_of_its_ports_is_no_infiniband(ports: tuple[Port, ...]) -> None:
    silent = nic("m0", *ports)
    names = rails([silent, *nics("i0")], "PIX PIX")
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
NICS = nics("i0 i1")


def paths_by(*functions: str, matrix: LinkMatrix = MATRIX) -> list[str]:
    """The paths from both GPUs to both NICs, by functions DD0 and DD1 of these NICs."""
    direct = []
    for names in functions:
        direct.append(DataDirect(pci="0000:01:00.0", numa=0, path=(), nics=tuple(names.split())))
    return [" ".join(paths) for paths in nic_paths(matrix, NICS, direct)]


@pytest.mark.parametrize(
    ("functions", "paths"),
    [
        pytest.param(["i0", "i1"], ["NODE PXB", "PXB NODE"], id="each-its-own"),
        pytest.param(["", "i1"], ["NODE PXB", "NODE NODE"], id="of-an-unknown-nic"),
        pytest.param(["i0 i1", ""], ["NODE NODE", "PXB PXB"], id="two-ports-of-a-card"),
        pytest.param(["i0", "i0"], ["PXB NODE", "PXB NODE"], id="nearest-of-several"),
    ],
)
def test_path_to_a_nic_is_that_of_its_data_direct_function(functions: list[str], paths: list[str]) -> None:
    assert paths_by(*functions) == paths


def test_function_counts_also_where_the_nic_is_nearer() -> None:
    """Data goes that way, whatever is shorter."""
    rows = [list(row) for row in MATRIX.cells]
    rows[0][2] = "PIX"
    rows[2][0] = "PIX"
    cells = tuple(tuple(row) for row in rows)
    nearer = LinkMatrix(MATRIX.devices, cells)
    first, _second = paths_by("i0", "i1", matrix=nearer)
    assert first == "NODE PXB"
