"""Show how the GPUs and NICs of a node are linked, in the layout of `nvidia-smi topo -m`, from its
annotation.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.cli import command, errors
from toposcope.cli.output import show_document
from toposcope.cli.terminal import Screen
from toposcope.hardware.matrix import LinkMatrix, nv_links
from toposcope.hardware.matrix_annotation import (
    LEGEND,
    MatrixDevice,
    MatrixError,
    NodeMatrix,
    parse,
)
from toposcope.hardware.pci import PIX, PXB, SYS
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView

_STYLES: Final = {PIX: "cyan", PXB: "cyan", SYS: "dim", "X": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope matrix`."""
    command.add_object(parser, "node", command.NODE, "a node by name", is_required=True)
    command.add_source_arguments(parser)


@command.on_screen("matrix")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the matrix; 1 when the node is unhealthy."""
    snapshot = command.load_snapshot(arguments, has_pods=False, node=arguments.node)
    node = snapshot.by_name.get(arguments.node)
    if node is None:
        raise command.no_node(snapshot, arguments.node)

    if node.matrix is None:
        raise errors.CommandError(
            f"node {node.name} has no annotation gpu.topology/matrix: "
            f"its agent has not run, or found no GPU; see the agent's pod on {node.name}"
        )

    try:
        matrix = parse(node.matrix)
    except MatrixError as error:
        raise errors.CommandError(f"node {node.name}: {error}") from error

    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, document(node, matrix))
    elif output == "name":
        screen.show(device.label for device in matrix.devices)
    else:
        is_wide = output == "wide"
        screen.show(_page(screen, matrix, is_wide=is_wide))

    is_healthy = FAULTS.isdisjoint(marks(node))
    return errors.exit_code(is_ok=is_healthy)


def document(node: NodeView, matrix: NodeMatrix) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    cells = None
    if matrix.links:
        cells = [list(row) for row in matrix.links.cells]
    return {
        "node": node.name,
        "devices": [_device(device) for device in matrix.devices],
        "matrix": cells,
        "reasons": list(matrix.reasons),
        "disputes": list(matrix.disputes),
    }


def _device(device: MatrixDevice) -> dict[str, Any]:
    return {
        "label": device.label,
        "name": device.name,
        "pci": device.pci,
        "numa": device.numa,
        "cpus": device.cpus,
        "switch": device.switch,
        "port": device.port,
    }


def _page(screen: Screen, matrix: NodeMatrix, *, is_wide: bool) -> Iterator[str]:
    if matrix.links is None:
        yield "the matrix was too large for the annotation; the devices are:"
        for device in matrix.devices:
            yield f"  {device.title}"
    else:
        yield from node_matrix_lines(screen, matrix)
        yield ""
        yield from _legend(matrix.links)
        yield from _named_devices(screen, matrix, is_wide=is_wide)

    for complaint in (*matrix.reasons, *matrix.disputes):
        yield screen.paint(f"! {complaint}", "yellow")


def _legend(links: LinkMatrix) -> Iterator[str]:
    """The meanings of the cells in this matrix."""
    cells: set[str] = set()
    for row in links.cells:
        for cell in row:
            cells.add("NV#" if nv_links(cell) else cell)
    for cell, meaning in LEGEND.items():
        if cell in cells:
            yield f"  {cell:<5} {meaning}"


def _named_devices(screen: Screen, matrix: NodeMatrix, *, is_wide: bool) -> Iterator[str]:
    """The names and cables of the devices, below an empty line; those of GPUs if `is_wide`."""
    is_first = True
    for device in matrix.devices:
        if device.kind == "gpu" and not is_wide:
            continue
        if is_first:
            yield ""
            is_first = False
        text = f"  {device.title}"
        if device.switch:
            text += f" to {device.neighbour}"
        yield screen.paint(text, "dim")


def node_matrix_lines(screen: Screen, matrix: NodeMatrix) -> Iterator[str]:
    """The matrix of a node's annotation, if it has links, with the affinity of its GPUs."""
    if matrix.links is None:
        return

    affinity = [("CPU AFFINITY", "NUMA AFFINITY")]
    for number, device in enumerate(matrix.devices):
        # As nvidia-smi does: a NIC's affinity is in its PHB and NODE cells.
        if number >= matrix.links.gpus:
            affinity.append(("", ""))
            continue
        cpus = device.cpus or "N/A"
        numa = "N/A" if device.numa is None else str(device.numa)
        affinity.append((cpus, numa))
    yield from matrix_lines(screen, matrix.links, affinity)


def matrix_lines(
    screen: Screen, links: LinkMatrix, beside: Sequence[tuple[str, ...]] = ()
) -> Iterator[str]:
    """The matrix, with more columns `beside`: NVLink stands out, paths across sockets are dimmed.

    Columns that do not fit on the screen continue below, as `numpy` and `pandas` print them.
    """
    rows = list(_rows(links))
    if beside:
        rows = [(*row, *more) for row, more in zip(rows, beside, strict=True)]

    widths = []
    for column in zip(*rows, strict=True):
        widths.append(max(map(len, column)))

    for block, places in enumerate(_blocks(widths, screen.limit)):
        if block:
            yield ""
        for number, row in enumerate(rows):
            line = ""
            for place in (0, *places):
                cell = row[place]
                style = "head" if number == 0 else _style(cell, place, links)
                gap = widths[place] + 2 - len(cell)
                line += screen.paint(cell, style) + " " * gap
            yield line.rstrip()


def _rows(links: LinkMatrix) -> Iterator[tuple[str, ...]]:
    """The header, then each device with its cells."""
    yield "", *links.devices
    for name, row in links.rows():
        yield name, *row


def _style(cell: str, place: int, links: LinkMatrix) -> str:
    """The style of a cell below the header; what stands beside the matrix has none."""
    if place == 0:
        return "head"
    if place > len(links.devices):
        return ""
    if nv_links(cell):
        return "green"
    return _STYLES.get(cell, "")


def _blocks(widths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """The columns but for the first, in blocks that fit beside it; a block has at least one."""
    first, *others = widths
    block: list[int] = []
    used = first
    for place, width in enumerate(others, 1):
        if block and used + width + 2 > limit:
            yield block
            block = []
            used = first
        block.append(place)
        used += width + 2

    yield block
