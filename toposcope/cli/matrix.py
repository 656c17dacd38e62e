"""Show how the GPUs and NICs of a node are linked, in the layout of `nvidia-smi topo -m`, from its annotation."""

import argparse
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

from toposcope.cli import command, errors
from toposcope.cli.output import show_document
from toposcope.cli.terminal import Screen
from toposcope.hardware.matrix import LinkMatrix, nv_links
from toposcope.hardware.matrix_annotation import LEGEND, MatrixError, NodeMatrix, parse
from toposcope.hardware.pci import PIX, PXB, SYS
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView, Snapshot

_STYLES: Final = {PIX: "cyan", PXB: "cyan", SYS: "dim", "X": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope matrix`."""
    command.add_object(parser, "node", command.NODE, "a node by name", needed=True)
    command.add_source_arguments(parser)


@command.on_screen("matrix")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the matrix; 1 when the node is unhealthy."""
    snapshot = command.load_snapshot(arguments, pods=False, node=arguments.node)
    node = snapshot.by_name.get(arguments.node)
    if node is None:
        raise errors.CommandError(_unknown(snapshot, arguments.node))
    if node.matrix is None:
        raise errors.CommandError(
            f"node {node.name} has no annotation gpu.topology/matrix: its agent has not run, or found no GPU; "
            f"see the agent's pod on {node.name}"
        )
    try:
        matrix = parse(node.matrix)
    except MatrixError as error:
        raise errors.CommandError(f"node {node.name}: {error}") from error
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(node, matrix))
    elif arguments.output == "name":
        screen.show(device.label for device in matrix.devices)
    else:
        screen.show(_page(screen, matrix, wide=arguments.output == "wide"))
    return errors.EXIT_OK if FAULTS.isdisjoint(marks(node)) else errors.EXIT_PROBLEMS


def _unknown(snapshot: Snapshot, name: str) -> str:
    near = get_close_matches(name, snapshot.by_name, 1)
    return f"there is no node {name!r} in {snapshot.source}" + (
        f"; did you mean {near[0]!r}?" if near else ""
    )


def document(node: NodeView, matrix: NodeMatrix) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "node": node.name,
        "devices": [
            {
                name: getattr(device, name)
                for name in ("label", "name", "pci", "numa", "cpus", "switch", "port")
            }
            for device in matrix.devices
        ],
        "matrix": [list(row) for row in matrix.links.cells] if matrix.links else None,
        "reasons": list(matrix.reasons),
        "disputes": list(matrix.disputes),
    }


def _page(screen: Screen, matrix: NodeMatrix, *, wide: bool) -> Iterator[str]:
    if matrix.links is None:
        yield "the matrix was too large for the annotation; the devices are:"
        yield from (f"  {device.title}" for device in matrix.devices)
    else:
        yield from node_matrix_lines(screen, matrix)
        yield ""
        cells = {cell for row in matrix.links.cells for cell in row}
        shown = {"NV#": any(map(nv_links, cells))} | dict.fromkeys(cells, True)
        for cell, meaning in LEGEND.items():
            if shown.get(cell):
                yield f"  {cell:<5} {meaning}"
        named = [device for device in matrix.devices if wide or device.kind != "gpu"]
        if named:
            yield ""
            for device in named:
                cable = f" to {device.neighbour}" if device.switch else ""
                yield screen.paint(f"  {device.title}{cable}", "dim")
    for complaint in (*matrix.reasons, *matrix.disputes):
        yield screen.paint(f"! {complaint}", "yellow")


def node_matrix_lines(screen: Screen, matrix: NodeMatrix) -> Iterator[str]:
    """The matrix of a node's annotation with the affinity of its GPUs; nothing where it has no links."""
    if matrix.links is None:
        return
    affinity = [("CPU AFFINITY", "NUMA AFFINITY")]
    for number, device in enumerate(matrix.devices):
        # As nvidia-smi does: a NIC's affinity is in its PHB and NODE cells.
        numa = "N/A" if device.numa is None else str(device.numa)
        affinity.append((device.cpus or "N/A", numa) if number < matrix.links.gpus else ("", ""))
    yield from matrix_lines(screen, matrix.links, affinity)


def matrix_lines(
    screen: Screen, links: LinkMatrix, beside: Sequence[tuple[str, ...]] = ()
) -> Iterator[str]:
    """The matrix, with more columns `beside`: NVLink stands out, paths across sockets are dimmed.

    What is wider than the screen continues below, as `numpy` and `pandas` print it.
    """
    rows = [("", *links.devices), *((name, *row) for name, row in links.rows())]
    rows = [(*row, *more) for row, more in zip(rows, beside, strict=True)] if beside else rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for block, places in enumerate(_blocks(widths, screen.width or 1 << 20)):
        if block:
            yield ""
        for number, row in enumerate(rows):
            cells = []
            for place in (0, *places):
                cell, known = row[place], place <= len(links.devices)
                style = (
                    "green" if known and nv_links(cell) else _STYLES.get(cell, "") if known else ""
                )
                cells.append(screen.paint(cell, style if number and place else "head"))
                cells.append(" " * (widths[place] - len(cell) + 2))
            yield "".join(cells).rstrip()


def _blocks(widths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Places of as many columns as fit beside the first, at least one, again and again."""
    block: list[int] = []
    for place in range(1, len(widths)):
        if block and widths[0] + sum(widths[i] + 2 for i in (*block, place)) > limit:
            yield block
            block = []
        block.append(place)
    yield block
