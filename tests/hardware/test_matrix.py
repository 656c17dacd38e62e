"""The link matrix: NVLink domains, rails, its table and its shape."""

import random

from toposcope.hardware.matrix import LinkMatrix, is_rail_aligned, nv_links, nvlink_domains, shape, table


def matrix(text: str) -> LinkMatrix:
    """A header of devices, and a row for each."""
    header, *lines = text.strip().splitlines()
    devices = tuple(header.split())
    cells = tuple(tuple(line.split()) for line in lines)
    return LinkMatrix(devices, cells)


BRIDGED = matrix("""
GPU0 GPU1 GPU2 GPU3 NIC0 NIC1
X    NV4  SYS  SYS  PXB  SYS
NV4  X    SYS  SYS  PXB  SYS
SYS  SYS  X    NV4  SYS  PIX
SYS  SYS  NV4  X    SYS  PIX
PXB  PXB  SYS  SYS  X    SYS
SYS  SYS  PIX  PIX  SYS  X
""")
BRIDGED_NUMA: list[int | None] = [0, 0, 1, 1, 0, 1]
UNKNOWN_NUMA: list[int | None] = [None] * 6
CHAIN = matrix("""
GPU0 GPU1 GPU2 GPU3
X    NV1  NV1  SYS
NV1  X    SYS  NV2
NV1  SYS  X    SYS
SYS  NV2  SYS  X
""")


def test_nvlink_domains_are_the_components_of_nv_cells() -> None:
    assert nvlink_domains(BRIDGED) == ((0, 1), (2, 3))
    assert nvlink_domains(CHAIN) == ((0, 1, 2, 3),)


def test_gpu_thrown_out_of_nvlink_is_its_own_domain_and_the_last() -> None:
    thrown_out = matrix("""
        GPU0 GPU1 GPU2
        X    NODE NODE
        NODE X    NV18
        NODE NV18 X
    """)
    assert nvlink_domains(thrown_out) == ((1, 2), (0,))


def test_only_nv_cells_count_links() -> None:
    assert nv_links("NV18") == 18
    assert nv_links("NV1") == 1
    for cell in ("X", "NODE", "SYS"):
        assert nv_links(cell) == 0


def test_rails_need_a_card_for_each_gpu() -> None:
    each_its_own = [[0, 1], [0], [2]]
    two_share_one = [[0], [0], [1, 2]]
    without_cards: list[list[int]] = [[]]
    assert is_rail_aligned(each_its_own)
    assert not is_rail_aligned(two_share_one)
    assert not is_rail_aligned(without_cards)


def test_table_has_a_header_and_straight_columns() -> None:
    pair = matrix("""
        GPU0 GPU1
        X    NV18
        NV18 X
    """)
    header, first, second = table(pair).splitlines()
    assert header.split() == ["GPU0", "GPU1"]
    assert first.split() == ["GPU0", "X", "NV18"]
    assert second.split() == ["GPU1", "NV18", "X"]
    assert header.index("GPU1") == first.index("NV18") == second.index("X")


# Shape


def test_shape_does_not_depend_on_the_order_of_devices() -> None:
    rng = random.Random(3)
    original = shape(BRIDGED, BRIDGED_NUMA)
    for _ in range(20):
        gpus = rng.sample(range(4), 4)
        nics = rng.sample([4, 5], 2)
        order = gpus + nics
        rows = []
        numa = []
        for i in order:
            row = BRIDGED.cells[i]
            rows.append(tuple(row[j] for j in order))
            numa.append(BRIDGED_NUMA[i])
        permuted = LinkMatrix(BRIDGED.devices, tuple(rows))
        assert shape(permuted, numa) == original, order


def test_shape_is_the_same_on_any_version() -> None:
    assert shape(BRIDGED, BRIDGED_NUMA) == "aeb2d73cae"


def test_shape_does_not_depend_on_numbers_of_nodes() -> None:
    renumbered: list[int | None] = [6, 6, 2, 2, 6, 2]
    assert shape(BRIDGED, renumbered) == shape(BRIDGED, BRIDGED_NUMA)


def test_shape_depends_on_who_shares_a_node() -> None:
    original = shape(BRIDGED, BRIDGED_NUMA)
    interleaved: list[int | None] = [0, 1, 0, 1, 0, 1]
    assert shape(BRIDGED, interleaved) != original
    assert shape(BRIDGED, UNKNOWN_NUMA) != original


def test_shape_depends_on_each_cell() -> None:
    rows = [list(row) for row in BRIDGED.cells]
    rows[0][1] = "NV3"
    rows[1][0] = "NV3"
    cells = tuple(tuple(row) for row in rows)
    worse = shape(LinkMatrix(BRIDGED.devices, cells), UNKNOWN_NUMA)
    assert worse != shape(BRIDGED, UNKNOWN_NUMA)
    assert len(worse) == 10
