"""Nodes as the page receives them: row by row in a delta, column by column in a snapshot."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from toposcope.api import label_keys
from toposcope.api.matrix_annotation import reasons
from toposcope.snapshot.filters import marks, value_at
from toposcope.snapshot.model import NodeView
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.node import OWN_NAME
from toposcope.ui import protocol
from toposcope.ui.views import View, keys_of

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
    f"without an agent's label {label_keys.GPUS}: check that the agent's DaemonSet has a pod there, and read its log"
)
NOT_SELECTED: Final = "outside every ClusterTopology: compare labels with each spec.nodeSelector"

Free = Callable[[NodeView], int | None]


class RowBuilder:
    """Describes nodes for one set of views."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self.placeholders = sorted((views[0].scope.catalogue if views else BUILT_IN).placeholders)
        self.keys = keys_of(views)

    def shows(self, node: NodeView) -> bool:
        """Whether the node is on the page at all: it has GPUs, or is in a view."""
        return node.has_gpus or any(view.takes(node) for view in self._views)

    def row(self, node: NodeView, free: int | None) -> protocol.Row:
        """The node as it is now."""
        in_views = self._views_of(node)
        return protocol.Row(
            name=node.name,
            gpus=node.gpus,
            free=free,
            marks=list(marks(node)),
            views=list(in_views),
            facts={name: value for name, key in FACTS.items() if (value := node.label(key)) is not None},
            labels={key: value for key in self.keys if (value := node.label(key)) is not None},
            reasons=list(reasons(node.matrix)),
            apart="" if in_views else self._apart(node),
        )

    def columns(self, nodes: Iterable[NodeView], free: Free) -> tuple[protocol.Nodes, int]:
        """All nodes on the page, and how many others there are."""
        shown: list[NodeView] = []
        in_views: list[tuple[str, ...]] = []
        others = 0
        for node in nodes:
            ids = self._views_of(node)
            if ids or node.has_gpus:
                shown.append(node)
                in_views.append(ids)
            else:
                others += 1
        frees = [free(node) for node in shown]
        names = frozenset(node.name for node in shown)
        return (
            protocol.Nodes(
                name=[node.name for node in shown],
                gpus=[node.gpus for node in shown],
                free=None if None in frees else [count or 0 for count in frees],
                marks=_lists(map(marks, shown)),
                views=_lists(in_views),
                facts={name: _column(shown, names, key) for name, key in FACTS.items()},
                labels={key: _column(shown, names, key) for key in self.keys},
                reasons={str(i): list(why) for i, node in enumerate(shown) if (why := reasons(node.matrix))},
                apart={str(i): self._apart(node) for i, node in enumerate(shown) if not in_views[i]},
            ),
            others,
        )

    def _views_of(self, node: NodeView) -> tuple[str, ...]:
        return tuple([view.id for view in self._views if view.takes(node)])

    def _apart(self, node: NodeView) -> str:
        return NO_AGENT if node.label(label_keys.GPUS) is None else NOT_SELECTED


def _column(nodes: Sequence[NodeView], names: Collection[str], key: str) -> protocol.Column:
    """One label of every node; `names` are those of all."""
    # Nodes with equal label keys share one mapping.
    carried = {id(node.places): node.places.get(key) for node in nodes}
    values = [None if (place := carried[id(node.places)]) is None else node.values[place] for node in nodes]
    different = dict.fromkeys(values)
    own = not different.keys().isdisjoint(names)
    if own:  # a number stands for a node's own name, so that the names are not sent twice
        values = [OWN_NAME if value == node.name else value for node, value in zip(nodes, values, strict=True)]
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
