"""Nodes as the page receives them: column by column."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from toposcope.api import label_keys
from toposcope.hardware.matrix_annotation import reasons
from toposcope.hierarchy.node import OWN_NAME
from toposcope.snapshot.filters import marks, value_at
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.reach import PodShape, Reach
from toposcope.ui import protocol
from toposcope.ui.views import PageView

FACTS: Final[Mapping[str, str]] = {
    "product": label_keys.GPU_PRODUCT,
    "shape": label_keys.SHAPE,
    "interconnect": label_keys.INTERCONNECT,
    "fabric": label_keys.FABRIC,
    "railAligned": label_keys.RAIL_ALIGNED,
    "nvlinkDomainSize": label_keys.NVLINK_DOMAIN_SIZE,
    "nvlinkLinks": label_keys.NVLINK_LINKS,
}
"""Key of `protocol.Nodes.facts` to label key."""

NO_AGENT: Final = (
    f"without an agent's label {label_keys.GPUS}: "
    "check that the agent's DaemonSet has a pod there, and read its log"
)
NOT_SELECTED: Final = "outside every ClusterTopology: compare labels with each spec.nodeSelector"


def columns(
    cluster: Snapshot, views: Sequence[PageView], shape: PodShape | None
) -> tuple[protocol.Nodes, int]:
    """All nodes on the page, those with GPUs or in a view, and how many others there are.

    `shape` is that of the pod by which free GPUs are judged; None where pods are unknown.
    """
    shown: list[NodeView] = []
    in_views: list[Sequence[str]] = []
    for node in cluster.nodes:
        ids = tuple([view.id for view in views if view.takes(node)])
        if ids or node.has_gpus:
            shown.append(node)
            in_views.append(ids)

    free = _free(cluster, shown)
    labels = _Labels(shown)
    facts = {name: labels.column(key) for name, key in FACTS.items()}
    nodes = protocol.Nodes(
        name=[node.name for node in shown],
        gpus=[node.gpus for node in shown],
        free=free,
        blocked=_blocked(cluster, shape, shown, free),
        marks=_lists(marks(node) for node in shown),
        views=_lists(in_views),
        facts=facts,
        labels=labels.columns(_level_keys(views)),
        reasons=_reasons(shown),
        apart=_apart(shown, in_views),
    )
    others = len(cluster.nodes) - len(shown)
    return nodes, others


def _reasons(nodes: Sequence[NodeView]) -> dict[str, list[str]]:
    """Why nodes are degraded, by their numbers."""
    by_number = {}
    for number, node in enumerate(nodes):
        why = reasons(node.matrix)
        if why:
            by_number[str(number)] = list(why)
    return by_number


def _free(cluster: Snapshot, nodes: Sequence[NodeView]) -> list[int] | None:
    """Whole GPUs that a pod could get; None where pods are unknown."""
    if cluster.pods is None:
        return None
    return [cluster.free_gpus(node) or 0 for node in nodes]


def _blocked(
    cluster: Snapshot,
    shape: PodShape | None,
    nodes: Sequence[NodeView],
    free: Sequence[int] | None,
) -> dict[str, protocol.OutOfReach]:
    """The free GPUs that a pod of this shape cannot get, by the numbers of the nodes."""
    by_number: dict[str, protocol.OutOfReach] = {}
    if shape is None or free is None:
        return by_number
    reach = Reach(cluster, None, shape)
    for number, (node, idle) in enumerate(zip(nodes, free, strict=True)):
        if not idle:
            continue
        blocked = reach.blocked_of(node, idle)
        if blocked:
            by_number[str(number)] = protocol.OutOfReach(blocked.gpus, blocked.words)
    return by_number


def _level_keys(views: Sequence[PageView]) -> list[str]:
    """The label keys of all levels, each once."""
    keys: dict[str, None] = {}
    for view in views:
        for level in view.scope.levels:
            keys[level.key] = None
    return list(keys)


def _apart(nodes: Sequence[NodeView], in_views: Sequence[Sequence[str]]) -> dict[str, str]:
    """Why nodes are in no view, by their numbers."""
    by_number = {}
    for number, node in enumerate(nodes):
        if not in_views[number]:
            is_without_agent = node.label(label_keys.GPUS) is None
            by_number[str(number)] = NO_AGENT if is_without_agent else NOT_SELECTED
    return by_number


class _Labels:
    """The labels of the nodes on the page, column by column."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._names = frozenset(node.name for node in nodes)
        self._kinds = {id(node.places): node.places for node in nodes}
        """The mappings that nodes with equal keys share."""

    def column(self, key: str) -> protocol.ColumnData:
        """One label of every node."""
        values = self._values(key)
        codes: dict[str | None, int] = {None: protocol.ABSENT, OWN_NAME: protocol.ABSENT}
        if not self._names.isdisjoint(values):
            # A number stands for a node's own name, so that the names are not sent twice.
            values = self._without_own_names(values)
            codes[OWN_NAME] = protocol.OWN_NAME

        sent: list[str] = []
        distinct = dict.fromkeys(values)
        for value in distinct:
            if value is not None and value != OWN_NAME:
                codes[value] = len(sent)
                sent.append(value)

        codes_of_nodes = [codes[value] for value in values]
        return protocol.ColumnData(sent, codes_of_nodes)

    def columns(self, keys: Iterable[str]) -> dict[str, protocol.ColumnData]:
        """Several labels of every node."""
        return {key: self.column(key) for key in keys}

    def _values(self, key: str) -> list[str | None]:
        places = {kind: mapping.get(key) for kind, mapping in self._kinds.items()}
        values: list[str | None] = []
        for node in self._nodes:
            place = places[id(node.places)]
            values.append(None if place is None else node.values[place])
        return values

    def _without_own_names(self, values: Sequence[str | None]) -> list[str | None]:
        kept: list[str | None] = []
        for node, value in zip(self._nodes, values, strict=True):
            kept.append(OWN_NAME if value == node.name else value)
        return kept


def _lists(lists: Iterable[Sequence[str]]) -> protocol.ListColumn:
    numbers: dict[tuple[str, ...], int] = {}
    codes = []
    for words in lists:
        code = numbers.setdefault(tuple(words), len(numbers))
        codes.append(code)
    values = [list(words) for words in numbers]
    return protocol.ListColumn(values, codes)


def domain_path(node: NodeView, view: PageView) -> Iterator[str]:
    """The node's domain values in a view from the broadest level down, as far as they go."""
    for level in view.scope.levels:
        value = value_at(view.scope, node, level.key)
        if value is None:
            return
        yield value
