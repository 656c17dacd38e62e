"""Show how the GPUs and NICs of a node are linked, as `nvidia-smi topo -m` lays it out, from what its agent wrote."""

import argparse
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from toposcope.api.matrix_annotation import LEGEND, MatrixError, NodeMatrix, parse
from toposcope.cli.documents import show_document
from toposcope.cli.failing import CommandError
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, look
from toposcope.cli.terminal import Screen
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.topology.matrix import nv_links
from toposcope.topology.pci import PIX, PXB, SYS

_STYLES: Final = {PIX: "cyan", PXB: "cyan", SYS: "dim", "X": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope matrix`."""
    parser.add_argument("node", metavar="NODE")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw it into a file instead, for light and dark pages (-: print)"
    )
    add_source_arguments(parser)


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Print the matrix; 1 when the node is broken."""
    return answer("matrix", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    snapshot = look(arguments, pods=False, node=arguments.node)
    node = snapshot.by_name.get(arguments.node)
    if node is None:
        raise CommandError(_unknown(snapshot, arguments.node))
    if node.matrix is None:
        raise CommandError(
            f"node {node.name} has no annotation gpu.topology/matrix: its agent has not run, or found no GPU; "
            f"look at the agent's pod on {node.name}"
        )
    try:
        found = parse(node.matrix)
    except MatrixError as error:
        raise CommandError(f"node {node.name}: {error}") from error
    if arguments.svg:
        _draw(screen, node, found, arguments.svg)
    elif arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(node, found))
    elif arguments.output == "name":
        screen.show(device.label for device in found.devices)
    else:
        screen.show(_page(screen, found, wide=arguments.output == "wide"))
    return WELL if FAULTS.isdisjoint(marks(node)) else UNWELL


def _unknown(snapshot: Snapshot, name: str) -> str:
    near = get_close_matches(name, snapshot.by_name, 1)
    return f"there is no node {name!r} in {snapshot.source}" + (f"; did you mean {near[0]!r}?" if near else "")


def _draw(screen: Screen, node: NodeView, found: NodeMatrix, file: Path) -> None:
    from toposcope.cli.picture import matrix_svg  # noqa: PLC0415 - only --svg needs it

    if found.links is None:
        raise CommandError(f"node {node.name}: the matrix was too large for the annotation; there is nothing to draw")
    picture = matrix_svg(node.name, found, found.links, LEGEND)
    if str(file) == "-":
        screen.show(picture.splitlines())
        return
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--svg {file}: {error.strerror}") from error


def document(node: NodeView, found: NodeMatrix) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "node": node.name,
        "devices": [
            {"label": device.label, "name": device.name, "pci": device.pci, "numa": device.numa, "cpus": device.cpus}
            for device in found.devices
        ],
        "matrix": [list(row) for row in found.links.cells] if found.links else None,
        "reasons": list(found.reasons),
        "disputes": list(found.disputes),
    }


def _page(screen: Screen, found: NodeMatrix, *, wide: bool) -> Iterator[str]:
    if found.links is None:
        yield "the matrix was too large for the annotation; the devices are:"
        yield from (f"  {device.label}: {device.name} {device.pci}".rstrip() for device in found.devices)
    else:
        yield from _grid(screen, found)
        yield ""
        cells = {cell for row in found.links.cells for cell in row}
        shown = {"NV#": any(map(nv_links, cells))} | dict.fromkeys(cells, True)
        for cell, meaning in LEGEND.items():
            if shown.get(cell):
                yield f"  {cell:<5} {meaning}"
        named = [device for device in found.devices if wide or device.label.startswith("NIC")]
        if named:
            yield ""
            yield from (screen.paint(f"  {each.label}: {each.name} ({each.pci})", "dim") for each in named)
    for complaint in (*found.reasons, *found.disputes):
        yield screen.paint(f"! {complaint}", "yellow")


def _grid(screen: Screen, found: NodeMatrix) -> Iterator[str]:
    links = found.links
    if links is None:
        return
    gpus = links.gpus
    beside = [("CPU AFFINITY", "NUMA AFFINITY")]
    for number, each in enumerate(found.devices):
        # As nvidia-smi does: a NIC's affinity is in its PHB and NODE cells.
        known = number < gpus
        beside.append((each.cpus or "N/A", "N/A" if each.numa is None else str(each.numa)) if known else ("", ""))
    rows = [("", *links.devices), *((name, *row) for name, row in links.rows())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cpus = max(len(cpu) for cpu, _ in beside)
    for number, (row, (cpu, numa)) in enumerate(zip(rows, beside, strict=True)):
        parts = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            style = "head" if not (number and place) else "green" if nv_links(cell) else _STYLES.get(cell, "")
            parts.append(screen.paint(cell, style) + " " * (width - len(cell)))
        tail = f"{cpu:<{cpus}}  {numa}" if cpu else ""
        yield "  ".join([*parts, screen.paint(tail, "head" if number == 0 else "")]).rstrip()
