"""Nodes as the page receives them: column by column."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from toposcope.api import label_keys
from toposcope.hardware.matrix_annotation import reasons
from toposcope.hierarchy.node import OWN_NAME
from toposcope.snapshot.filters import marks, value_at
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui import protocol
from toposcope.ui.views import View

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

NO_AGENT: Final = f"without an agent's label {label_keys.GPUS}: check that the agent's DaemonSet has a pod there, and read its log"
NOT_SELECTED: Final = "outside every ClusterTopology: compare labels with each spec.nodeSelector"


def columns(cluster: Snapshot, views: Sequence[View]) -> tuple[protocol.Nodes, int]:
    """All nodes on the page, those that have GPUs or are in a view, and how many others there are."""
    shown: list[NodeView] = []
    in_views: list[tuple[str, ...]] = []
    for node in cluster.nodes:
        ids = tuple([view.id for view in views if view.takes(node)])
        if ids or node.has_gpus:
            shown.append(node)
            in_views.append(ids)
    keys = dict.fromkeys(level.key for view in views for level in view.scope.levels)
    names = frozenset(node.name for node in shown)
    column = partial(_column, shown, names, {id(node.places): node.places for node in shown})
    nodes = protocol.Nodes(
        name=[node.name for node in shown],
        gpus=[node.gpus for node in shown],
        free=None if cluster.pods is None else [cluster.free_gpus(node) or 0 for node in shown],
        marks=_lists(map(marks, shown)),
        views=_lists(in_views),
        facts={name: column(key) for name, key in FACTS.items()},
        labels={key: column(key) for key in keys},
        reasons={
            str(i): list(why) for i, node in enumerate(shown) if (why := reasons(node.matrix))
        },
        apart={str(i): _apart(node) for i, node in enumerate(shown) if not in_views[i]},
    )
    return nodes, len(cluster.nodes) - len(shown)


def _apart(node: NodeView) -> str:
    return NO_AGENT if node.label(label_keys.GPUS) is None else NOT_SELECTED


def _column(
    nodes: Sequence[NodeView],
    names: Collection[str],
    kinds: Mapping[int, Mapping[str, int]],
    key: str,
) -> protocol.Column:
    """One label of every node; `names` are those of all, `kinds` the mappings that nodes with equal keys share."""
    carried = {kind: places.get(key) for kind, places in kinds.items()}
    values = [
        None if (place := carried[id(node.places)]) is None else node.values[place]
        for node in nodes
    ]
    different = dict.fromkeys(values)
    own = not different.keys().isdisjoint(names)
    if own:  # a number stands for a node's own name, so that the names are not sent twice
        values = [
            OWN_NAME if value == node.name else value
            for node, value in zip(nodes, values, strict=True)
        ]
        different = dict.fromkeys(values)
    sent = [value for value in different if value is not None and value != OWN_NAME]
    codes: dict[str | None, int] = dict.fromkeys(different, protocol.ABSENT)
    codes.update((value, code) for code, value in enumerate(sent))
    if own:
        codes[OWN_NAME] = protocol.OWN_NAME
    return protocol.Column(sent, list(map(codes.__getitem__, values)))


def _lists(lists: Iterable[Sequence[str]]) -> protocol.ListColumn:
    numbers: dict[tuple[str, ...], int] = {}
    codes = [numbers.setdefault(tuple(list_), len(numbers)) for list_ in lists]
    return protocol.ListColumn([list(number) for number in numbers], codes)


def domain_path(node: NodeView, view: View) -> Iterator[str]:
    """The node's domain values in a view from the broadest level down, as far as they go."""
    for level in view.scope.levels:
        value = value_at(view.scope, node, level.key)
        if value is None:
            return
        yield value
