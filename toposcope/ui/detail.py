"""One node in full: its devices, how they are connected, what is wrong with it and since when."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, cast

from toposcope.api import label_keys
from toposcope.api.label_values import count_of
from toposcope.hardware.matrix import SELF, LinkMatrix, nv_links, nvlink_domains
from toposcope.hardware.matrix_annotation import LEGEND, Device, MatrixError, NodeMatrix, parse
from toposcope.hardware.pci import NEAREST_FIRST
from toposcope.hardware.topology import State
from toposcope.kube.gpu_shares import shares_of
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot.filters import lacking, marks, wrong_cables
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui import protocol
from toposcope.ui.nodes import domain_path
from toposcope.ui.source import FullNode
from toposcope.ui.views import View

_Kind = Literal["self", "nvlink", "pix", "pxb", "phb", "node", "sys"]
_NO_ANNOTATION: Final = (
    f"there is no annotation {label_keys.MATRIX}: the agent has not run here, or sees no GPU; check the agent's pod "
    "on this node"
)
_TOO_LARGE: Final = (
    "the matrix was too large for the annotation; run toposcope discover on the node to see it"
)


def detail(
    full: FullNode, views: Sequence[View], cluster: Snapshot, since: str | None
) -> protocol.Node:
    """All about one node.

    What is free is that of `cluster`; `since` is when the node's state was seen to change.
    """
    node = full.node
    parsed, problem = _matrix(node)
    links = parsed.links if parsed else None
    mine = [view for view in views if view.takes(node)]
    return protocol.Node(
        name=node.name,
        ready=node.ready,
        schedulable=node.schedulable,
        state=cast("Literal['ok', 'degraded', 'unknown'] | None", node.state and node.state.value),
        since=_since(node, since, full.written),
        marks=list(marks(node)),
        gpus=node.gpus,
        free=cluster.free_gpus(node),
        resources=_resources(node, cluster),
        shares={
            shares.resource: shares.described for shares in shares_of(node.label, node.allocatable)
        },
        hardware={
            key.removeprefix(label_keys.PREFIX): value
            for key, value in node.labels.items()
            if key.startswith(label_keys.PREFIX)
        },
        labels=node.labels,
        taints=[str(taint) for taint in node.taints],
        conditions=dict(node.conditions),
        domains={view.id: list(domain_path(node, view)) for view in mine},
        lacking=[level for view in mine for level in _lacking(node, view)],
        devices=_devices(parsed.devices) if parsed else [],
        matrix=[list(row) for row in links.cells] if links else None,
        classes=_classes(links) if links else [],
        numa=_numa(parsed.devices) if parsed else [],
        nvswitches=count_of(node.label(label_keys.NVSWITCHES)),
        nvlink_domains=[[links.devices[i] for i in domain] for domain in nvlink_domains(links)]
        if links
        else [],
        reasons=list(parsed.reasons) if parsed else [],
        disputes=list(parsed.disputes) if parsed else [],
        miscabled=list(
            dict.fromkeys(cable for view in mine for cable in wrong_cables(view.scope, node))
        ),
        problem=problem,
    )


def _matrix(node: NodeView) -> tuple[NodeMatrix | None, str]:
    if node.matrix is None:
        return None, _NO_ANNOTATION
    try:
        matrix = parse(node.matrix)
    except MatrixError as error:
        return None, str(error)
    return matrix, "" if matrix.links else _TOO_LARGE


def _since(node: NodeView, seen: str | None, written: str) -> protocol.Since | None:
    if node.state is None:
        return None
    if seen:
        return protocol.Since(seen, exact=True)
    # An agent writes only changes, so its last write is not older than its last change of state.
    return protocol.Since(written, exact=False) if written and node.state is not State.OK else None


def _resources(node: NodeView, cluster: Snapshot) -> dict[str, list[int | None]]:
    free = cluster.free(node)
    return {
        name: [count, None if free is None else free[name]]
        for name, count in node.allocatable.items()
        if is_gpu(name) or is_gpu_part(name)
    }


def _lacking(node: NodeView, view: View) -> Iterator[protocol.Lacking]:
    missing = lacking(view.scope, node)
    for level in view.scope.levels:
        if level.domain in missing:
            value = node.label(level.key)
            why = (
                f"it has no label {level.key}"
                if value is None
                else f"its label {level.key} says {value!r}"
            )
            yield protocol.Lacking(view.id, level.domain, why)


def _devices(devices: Sequence[Device]) -> list[protocol.Device]:
    nics = {device.name: device.label for device in devices if device.kind == "nic"}
    return [
        protocol.Device(
            label=device.label,
            kind=device.kind,
            name=device.name,
            pci=device.pci,
            numa=device.numa,
            rails=[nics[name] for name in device.rails if name in nics],
            nics=[nics[name] for name in device.name.split() if name in nics]
            if device.kind == "dd"
            else [],
            neighbour=device.neighbour,
        )
        for device in devices
    ]


def _numa(devices: Sequence[Device]) -> list[protocol.Numa]:
    groups: dict[int | None, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.numa, []).append(device)
    ordered = sorted(groups, key=lambda number: (number is None, number or 0))
    return [
        protocol.Numa(
            number,
            next((group.cpus for group in groups[number] if group.cpus), "") or "",
            [group.label for group in groups[number]],
        )
        for number in ordered
    ]


def _classes(links: LinkMatrix) -> list[protocol.CellClass]:
    """Each different cell with its meaning: NVLinks first, most links first, then PCIe paths, nearest first."""
    cells = {cell for row in links.cells for cell in row}
    return [_class(cell) for cell in sorted(cells, key=_rank)]


def _rank(cell: str) -> tuple[int, int, str]:
    count = nv_links(cell)
    if cell == SELF:
        return 0, 0, cell
    if count:
        return 1, -count, cell
    return 2, NEAREST_FIRST.index(cell), cell


def _class(cell: str) -> protocol.CellClass:
    count = nv_links(cell)
    if count:
        return protocol.CellClass(
            cell, "nvlink", count, f"{count} active NVLink{'' if count == 1 else 's'}"
        )
    kind = cast("_Kind", "self" if cell == SELF else cell.lower())
    return protocol.CellClass(cell, kind, 0, LEGEND[cell])
