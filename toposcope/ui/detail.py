"""One node in full: its devices, how they are connected, what is wrong with it and since when."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from toposcope.api import label_keys
from toposcope.api.label_values import count_of
from toposcope.hardware.matrix import SELF, LinkMatrix, nv_links, nvlink_domains
from toposcope.hardware.matrix_annotation import LEGEND, MatrixDevice, MatrixError, parse
from toposcope.hardware.pci import NEAREST_FIRST
from toposcope.hardware.topology import State
from toposcope.kube.gpu_shares import shares_of
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot.filters import lacking, marks, wrong_cables
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.text import plural
from toposcope.ui import protocol
from toposcope.ui.nodes import domain_path
from toposcope.ui.source import FullNode
from toposcope.ui.views import PageView

_Kind = Literal["self", "nvlink", "pix", "pxb", "phb", "node", "sys"]
_NO_ANNOTATION: Final = (
    f"there is no annotation {label_keys.MATRIX}: the agent has not run here, or sees no GPU; "
    "check the agent's pod on this node"
)
_TOO_LARGE: Final = (
    "the matrix was too large for the annotation; run toposcope discover on the node to see it"
)


def detail(
    full: FullNode, views: Sequence[PageView], cluster: Snapshot, since: str | None
) -> protocol.NodeData:
    """All about one node.

    `cluster` says what is free on it; `since` is when its state was seen to change.
    """
    node = full.node
    its_views = [view for view in views if view.takes(node)]
    matrix = _matrix(node)
    return protocol.NodeData(
        name=node.name,
        ready=node.is_ready,
        schedulable=node.is_schedulable,
        state=cast("Literal['ok', 'degraded', 'unknown'] | None", node.state and node.state.value),
        since=_since(node, since, full.written),
        marks=list(marks(node)),
        gpus=node.gpus,
        free=cluster.free_gpus(node),
        resources=_resources(node, cluster),
        shares=_shares(node),
        hardware=_hardware(node),
        labels=node.labels,
        taints=[str(taint) for taint in node.taints],
        conditions=dict(node.conditions),
        domains={view.id: list(domain_path(node, view)) for view in its_views},
        lacking=_lacking(node, its_views),
        devices=list(_devices(matrix.devices)),
        matrix=matrix.cells,
        classes=_classes(matrix.links),
        numa=list(_numa(matrix.devices)),
        nvswitches=count_of(node.label(label_keys.NVSWITCHES)),
        nvlink_domains=_nvlink_domains(matrix.links),
        reasons=list(matrix.reasons),
        disputes=list(matrix.disputes),
        miscabled=_miscabled(node, its_views),
        problem=matrix.problem,
    )


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The content of a node's matrix annotation; empty where there is none."""

    devices: Sequence[MatrixDevice] = ()
    links: LinkMatrix | None = None
    reasons: Sequence[str] = ()
    disputes: Sequence[str] = ()
    problem: str = ""
    """Why the links are unknown."""

    @property
    def cells(self) -> list[list[str]] | None:
        """The link between each two devices."""
        return [list(row) for row in self.links.cells] if self.links else None


def _matrix(node: NodeView) -> _Matrix:
    if node.matrix is None:
        return _Matrix(problem=_NO_ANNOTATION)

    try:
        matrix = parse(node.matrix)
    except MatrixError as error:
        return _Matrix(problem=str(error))
    return _Matrix(
        devices=matrix.devices,
        links=matrix.links,
        reasons=matrix.reasons,
        disputes=matrix.disputes,
        problem="" if matrix.links else _TOO_LARGE,
    )


def _since(node: NodeView, changed_at: str | None, written: str) -> protocol.Since | None:
    if node.state is None:
        return None
    if changed_at:
        return protocol.Since(changed_at, exact=True)
    if not written or node.state is State.OK:
        return None

    # An agent writes only changes, so its last write is not older than its last change of state.
    return protocol.Since(written, exact=False)


def _resources(node: NodeView, cluster: Snapshot) -> dict[str, list[int | None]]:
    free = cluster.free(node)
    resources: dict[str, list[int | None]] = {}
    for name, count in node.allocatable.items():
        if is_gpu(name) or is_gpu_part(name):
            free_count = None if free is None else free[name]
            resources[name] = [count, free_count]
    return resources


def _shares(node: NodeView) -> dict[str, str]:
    described = {}
    for shares in shares_of(node.label, node.allocatable):
        described[shares.resource] = shares.described
    return described


def _hardware(node: NodeView) -> dict[str, str]:
    """The agent's labels, without their prefix."""
    hardware = {}
    for key, value in node.labels.items():
        if key.startswith(label_keys.PREFIX):
            hardware[key.removeprefix(label_keys.PREFIX)] = value
    return hardware


def _lacking(node: NodeView, views: Sequence[PageView]) -> list[protocol.Lacking]:
    """The levels that the node lacks in its views, and why."""
    entries = []
    for view in views:
        missing = lacking(view.scope, node)
        for level in view.scope.levels:
            if level.domain in missing:
                why = _why_lacking(node.label(level.key), level.key)
                entries.append(protocol.Lacking(view.id, level.domain, why))
    return entries


def _why_lacking(value: str | None, key: str) -> str:
    if value is None:
        return f"it has no label {key}"
    return f"its label {key} says {value!r}"


def _miscabled(node: NodeView, views: Sequence[PageView]) -> list[str]:
    """Its wrong cables, each once."""
    cables: dict[str, None] = {}
    for view in views:
        cables |= dict.fromkeys(wrong_cables(view.scope, node))
    return list(cables)


def _devices(devices: Sequence[MatrixDevice]) -> Iterator[protocol.DeviceData]:
    nics = {device.name: device.label for device in devices if device.kind == "nic"}
    for device in devices:
        of_nics = device.name.split() if device.kind == "dd" else []
        yield protocol.DeviceData(
            label=device.label,
            kind=device.kind,
            name=device.name,
            pci=device.pci,
            numa=device.numa,
            rails=_labels(device.rails, nics),
            nics=_labels(of_nics, nics),
            neighbour=device.neighbour,
        )


def _labels(names: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    """The labels of the devices that are known."""
    return [labels[name] for name in names if name in labels]


def _numa(devices: Sequence[MatrixDevice]) -> Iterator[protocol.Numa]:
    groups: dict[int, list[MatrixDevice]] = {}
    unknown: list[MatrixDevice] = []
    for device in devices:
        if device.numa is None:
            unknown.append(device)
        else:
            groups.setdefault(device.numa, []).append(device)

    for number in sorted(groups):
        yield _numa_node(number, groups[number])
    if unknown:
        yield _numa_node(None, unknown)


def _numa_node(number: int | None, devices: Sequence[MatrixDevice]) -> protocol.Numa:
    labels = [device.label for device in devices]
    return protocol.Numa(number, _cpus(devices), labels)


def _cpus(devices: Sequence[MatrixDevice]) -> str:
    """The CPUs near devices of one NUMA node, if one of them says."""
    for device in devices:
        if device.cpus:
            return device.cpus
    return ""


def _nvlink_domains(links: LinkMatrix | None) -> list[list[str]]:
    """The labels of the GPUs of each NVLink domain."""
    domains: list[list[str]] = []
    if links:
        for domain in nvlink_domains(links):
            domains.append([links.devices[position] for position in domain])
    return domains


def _classes(links: LinkMatrix | None) -> list[protocol.CellClass]:
    """The meaning of each different cell: NVLinks by their number, then PCIe paths by length."""
    cells: set[str] = set()
    if links:
        for row in links.cells:
            cells.update(row)
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
        nvlinks = plural(count, "active NVLink")
        meaning = f"{count} {nvlinks}"
        return protocol.CellClass(cell, "nvlink", links=count, meaning=meaning)

    kind = cast("_Kind", "self" if cell == SELF else cell.lower())
    return protocol.CellClass(cell, kind, links=0, meaning=LEGEND[cell])
