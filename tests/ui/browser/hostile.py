"""Answers of the page's server in which every text is hostile, made from the types in `toposcope.ui.protocol`.

Each text begins with the name of its field, so that a test can tell which ones a page has shown. Where a page follows
a text from one field to another (a node's name, a view's id), both hold the same.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from toposcope.ui import protocol

BREAKOUT: Final = (
    "\"'><img src=x onerror=hacked()></title></style></textarea></script><script>hacked()</script>"
    '<svg onload=hacked()><a href="javascript:hacked()">x</a>\u2028'
)
_SAME: Final = {
    "Nodes.labels key": "LevelData.key",
    "Nodes.views": "ViewData.id",
    "NodeData.domains key": "ViewData.id",
    "Lacking.view": "ViewData.id",
    "SystemAnswer.view": "ViewData.id",
    "News.id": "SnapshotData.id",
    "ChangeData.view": "ViewData.id",
    "NodeData.name": "Nodes.name",
    "Export.nodes key": "Nodes.name",
    "ChangeData.nodes": "Nodes.name",
    "GpuHit.node": "Nodes.name",
    "Fit.path": "Nodes.labels",
    "DeviceData.rails": "DeviceData.label",
    "Numa.devices": "DeviceData.label",
    "NodeData.nvlink_domains": "DeviceData.label",
    "CellClass.cell": "NodeData.matrix",
}
"""Texts that the page follows from one field to another, to the field that holds the same."""
_ROWS: Final = 3
"""Nodes of a snapshot: one is in the map, one lacks a level, one is in no view."""
_FACTS: Final = ("product", "shape")
"""Those by which the page colors nodes."""
_VALUES: Final[dict[str, Any]] = {
    "Nodes.gpus": [8] * _ROWS,
    "Nodes.free": [4] * _ROWS,
    "OutOfReach.gpus": 2,
    "SnapshotData.version": protocol.VERSION,
    "Export.version": protocol.VERSION,
    "DeviceData.numa": 1,
}


def hostile(wanted: Any, path: str = "") -> Any:  # noqa: PLR0911 - one for each kind of type
    """A value of a type of the protocol; a list holds one struct for each value of the struct's first Literal."""
    if path in _VALUES:
        return _VALUES[path]
    if wanted is str:
        name = _SAME.get(path, path)
        return f"[{name}]{BREAKOUT}"
    if wanted in (int, float, bool):
        return wanted(1)
    origin = get_origin(wanted)
    of = get_args(wanted)
    if origin is Literal:
        return of[0]
    if type(None) in of:
        return hostile(of[0], path)
    if origin is list:
        return _listed(of[0], path)
    if origin is dict:
        key = hostile(of[0], f"{path} key")
        return {key: hostile(of[1], path)}
    fields = {}
    for name, kind in get_type_hints(wanted).items():
        fields[name] = hostile(kind, f"{wanted.__name__}.{name}")
    return _arranged(wanted(**fields), path)


def _listed(of: Any, path: str) -> list[Any]:
    is_struct = isinstance(of, type) and issubclass(of, msgspec.Struct)
    if not is_struct:
        return [hostile(of, path)]
    for name, kind in get_type_hints(of).items():
        if get_origin(kind) is Literal:
            return _one_for_each(of, path, name, get_args(kind))
    return [hostile(of, path)]


def _one_for_each(of: Any, path: str, name: str, values: Sequence[Any]) -> list[Any]:
    """A struct for each value of a field."""
    structs = []
    for value in values:
        struct = hostile(of, path)
        structs.append(msgspec.structs.replace(struct, **{name: value}))
    return structs


def _arranged(made: Any, path: str) -> Any:
    """The same with the codes and indices that hold a table of nodes together."""
    if isinstance(made, protocol.ColumnData | protocol.ListColumn):
        text = hostile(str, path)
        made.values = [text] if isinstance(made, protocol.ColumnData) else [[text], []]
        made.codes = [0] * _ROWS
    if isinstance(made, protocol.Nodes):
        _arrange_nodes(made)
    return made


def _arrange_nodes(nodes: protocol.Nodes) -> None:
    first = nodes.name[0]
    nodes.name = [first]
    for number in range(1, _ROWS):
        nodes.name.append(f"{first}{number}")
    nodes.views.codes = [0, 0, 1]
    (fact,) = nodes.facts.values()
    nodes.facts = dict.fromkeys(_FACTS, fact)
    (label,) = nodes.labels.values()
    label.codes = [0, protocol.ABSENT, 0]
    (reasons,) = nodes.reasons.values()
    nodes.reasons = {"0": reasons}
    (blocked,) = nodes.blocked.values()
    nodes.blocked = {"0": blocked}
    (apart,) = nodes.apart.values()
    nodes.apart = {"2": apart}
