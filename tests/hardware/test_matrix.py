import random

from toposcope.hardware.matrix import LinkMatrix, nv_links, nvlink_domains, rail_aligned, shape, table


def matrix(text: str) -> LinkMatrix:
    header, *rows = (line.split() for line in text.strip().splitlines())
    return LinkMatrix(tuple(header), tuple(tuple(row) for row in rows))


BRIDGED = matrix("""
GPU0 GPU1 GPU2 GPU3 NIC0 NIC1
X    NV4  SYS  SYS  PXB  SYS
NV4  X    SYS  SYS  PXB  SYS
SYS  SYS  X    NV4  SYS  PIX
SYS  SYS  NV4  X    SYS  PIX
PXB  PXB  SYS  SYS  X    SYS
SYS  SYS  PIX  PIX  SYS  X
""")


def test_nvlink_domains_are_the_components_of_the_nv_cells() -> None:
    assert nvlink_domains(BRIDGED) == ((0, 1), (2, 3))
    tree = matrix("GPU0 GPU1 GPU2 GPU3\nX NV1 NV1 SYS\nNV1 X SYS NV2\nNV1 SYS X SYS\nSYS NV2 SYS X")
    assert nvlink_domains(tree) == ((0, 1, 2, 3),)


def test_a_gpu_thrown_out_of_nvlink_is_a_domain_of_its_own_and_comes_last() -> None:
    out = matrix("GPU0 GPU1 GPU2\nX NODE NODE\nNODE X NV18\nNODE NV18 X")
    assert nvlink_domains(out) == ((1, 2), (0,))


def test_only_nv_cells_count_links() -> None:
    assert [nv_links(cell) for cell in ("X", "NV18", "NV1", "NODE", "SYS")] == [0, 18, 1, 0, 0]


def test_rails_need_a_card_for_each_gpu() -> None:
    assert rail_aligned([[0, 1], [0], [2]])
    assert not rail_aligned([[0], [0], [1, 2]])
    assert not rail_aligned([[]])


def test_the_table_has_a_header_a_name_before_each_row_and_straight_columns() -> None:
    lines = table(matrix("GPU0 GPU1\nX NV18\nNV18 X")).splitlines()
    assert [line.split() for line in lines] == [["GPU0", "GPU1"], ["GPU0", "X", "NV18"], ["GPU1", "NV18", "X"]]
    assert lines[0].index("GPU1") == lines[1].index("NV18") == lines[2].index("X")


def permuted(original: LinkMatrix, numa: list[int | None], order: list[int]) -> tuple[LinkMatrix, list[int | None]]:
    cells = tuple(tuple(original.cells[i][j] for j in order) for i in order)
    return LinkMatrix(original.devices, cells), [numa[i] for i in order]


def test_shape_does_not_depend_on_the_order_in_which_devices_are_counted() -> None:
    numa: list[int | None] = [0, 0, 1, 1, 0, 1]
    rng = random.Random(3)
    for _ in range(20):
        order = rng.sample(range(4), 4) + rng.sample([4, 5], 2)
        assert shape(*permuted(BRIDGED, numa, order)) == shape(BRIDGED, numa)


def test_shape_does_not_depend_on_numa_numbers_but_on_who_shares_a_node() -> None:
    assert shape(BRIDGED, [0, 0, 1, 1, 0, 1]) == shape(BRIDGED, [6, 6, 2, 2, 6, 2]) == "aeb2d73cae"  # on any version
    assert shape(BRIDGED, [0, 0, 1, 1, 0, 1]) != shape(BRIDGED, [0, 1, 0, 1, 0, 1])
    assert shape(BRIDGED, [0, 0, 1, 1, 0, 1]) != shape(BRIDGED, [None] * 6)


def test_shape_sees_one_changed_cell() -> None:
    cells = [list(row) for row in BRIDGED.cells]
    cells[0][1] = cells[1][0] = "NV3"
    worse = LinkMatrix(BRIDGED.devices, tuple(map(tuple, cells)))
    assert shape(worse, [None] * 6) != shape(BRIDGED, [None] * 6)
    assert len(shape(worse, [None] * 6)) == 10
