"""The best state that a node has shown, in an annotation of its own Node, so that a restarted agent knows it too.

    {"version":1,"product":"NVIDIA H200","gpus":{"0000:1b:00.0":18,...},"paths":["X","NV18 X",...],"fabric":true}

`gpus` maps PCI addresses to active NVLinks, `paths` is the lower triangle of the GPUs' link matrix in that order,
`fabric` is there when the node was in a multi-node NVLink fabric. GPU indices can change at a reboot, addresses only
when hardware or firmware does. Deleting the annotation makes today's state the baseline.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from toposcope.agent.raw import typed
from toposcope.topology.hardware import Fabric, NodeTopology
from toposcope.topology.matrix import SELF, nv_links
from toposcope.topology.pci import NEAREST_FIRST, SYS
from toposcope.topology.text import compact, parse

VERSION: Final = 1
_LIMIT: Final = 16384
"""A baseline of 16 GPUs is 1 kB; a longer text is not ours."""


class Baseline(NamedTuple):
    """What the node is measured against."""

    product: str | None
    links: Mapping[str, int]
    """GPU's PCI address to its active NVLinks."""
    paths: Mapping[tuple[str, str], str]
    """Pair of addresses (smaller first) to the cell of the link matrix."""
    fabric: bool = False
    """Whether the node was in a multi-node NVLink fabric. A tray whose fabric is down reports that it has none."""


def observed(topology: NodeTopology) -> Baseline:
    """The present state as a baseline."""
    gpus = topology.gpus
    cells = topology.matrix.cells
    return Baseline(
        product=gpus[0].product if gpus else None,
        links={gpu.pci: gpu.links_active for gpu in gpus},
        paths={
            _pair(a.pci, b.pci): cells[i][j] for i, a in enumerate(gpus) for j, b in enumerate(gpus) if a.pci < b.pci
        },
        fabric=topology.fabric is Fabric.COMPLETED,
    )


def best(baseline: Baseline | None, today: Baseline, present: frozenset[str]) -> Baseline:
    """The new baseline: for each GPU and pair the better of both.

    `present` are the addresses of the GPUs on the PCI bus. Other hardware has no past: when the product changed, or
    when GPUs are missing from the bus while as many others came (boards were moved, firmware renumbered the buses),
    today's state is the baseline.
    """
    if baseline is None or baseline.product != today.product:
        return today
    vanished = baseline.links.keys() - present - today.links.keys()
    if vanished and len(today.links) >= len(baseline.links):
        return today
    links = dict(baseline.links)
    for gpu, count in today.links.items():
        links[gpu] = max(count, links.get(gpu, 0))
    paths = dict(baseline.paths)
    for pair, cell in today.paths.items():
        paths[pair] = min(cell, paths.get(pair, cell), key=_rank)
    return Baseline(today.product, links, paths, baseline.fabric or today.fabric)


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _rank(cell: str) -> tuple[int, int]:
    """Smaller is nearer: NVLinks first, more before fewer, then the PCI levels."""
    links = nv_links(cell)
    return (0, -links) if links else (1, NEAREST_FIRST.index(cell) if cell in NEAREST_FIRST else len(NEAREST_FIRST))


def degradations(baseline: Baseline, topology: NodeTopology) -> list[str]:
    """What the node has less of than it has shown before, a reason each."""
    index = {gpu.pci: gpu.index for gpu in topology.gpus}
    today = observed(topology)
    reasons = [f"GPU {gpu} was here before and is gone" for gpu in sorted(baseline.links.keys() - index.keys())]
    if baseline.fabric and topology.fabric is Fabric.NOT_SUPPORTED:
        reasons.append("the node was in a multi-node NVLink fabric before and is in none now")
    weak = {gpu for gpu, count in today.links.items() if count < baseline.links.get(gpu, 0)}
    for (a, b), cell in sorted(today.paths.items()):
        before = baseline.paths.get((a, b), cell)
        # A GPU with fewer links has worse paths to all others: `nvlinks.weak_links` reports it.
        if _rank(cell) > _rank(before) and not weak & {a, b}:
            reasons.append(f"GPU {index[a]} to GPU {index[b]}: {cell}, was {before}")
    return reasons


def encode(baseline: Baseline) -> str:
    """The annotation's value."""
    gpus = sorted(baseline.links)
    rows = [" ".join([*(baseline.paths.get((b, a), SYS) for b in gpus[:i]), SELF]) for i, a in enumerate(gpus)]
    links = {gpu: baseline.links[gpu] for gpu in gpus}
    document: dict[str, Any] = {"version": VERSION, "product": baseline.product, "gpus": links, "paths": rows}
    if baseline.fabric:
        document["fabric"] = True
    return compact(document)


def decode(text: str | None) -> Baseline | None:
    """The baseline in an annotation; None when there is none, or when it is not ours."""
    if not text or len(text) > _LIMIT:
        return None
    try:
        content = parse(text)
        document: _Document = typed([content.get(name) for name in _Document._fields], _Document)
    except (ValueError, AttributeError, RecursionError):  # the second: not an object
        return None
    gpus = sorted(document.gpus)
    rows = [row.split() for row in document.paths]
    if document.version != VERSION or [len(row) for row in rows] != list(range(1, len(gpus) + 1)):
        return None
    paths = {(gpus[j], gpus[i]): row[j] for i, row in enumerate(rows) for j in range(i)}
    return Baseline(document.product, document.gpus, paths, document.fabric or False)


class _Document(NamedTuple):
    """The annotation's fields; None for a field that is missing there."""

    version: int
    product: str | None
    gpus: dict[str, int]
    paths: list[str]
    fabric: bool | None
