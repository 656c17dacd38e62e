"""Keeps the newest changes of the cluster, found by comparing one moment with the next."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from toposcope.api.conditions import previous
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import some_names
from toposcope.snapshot.changes import Change, ChangeKind, changes, words
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Origin, Scope
from toposcope.ui import protocol
from toposcope.ui.views import PageView

MAX_CHANGES: Final = 200
"""Entries in the list of changes."""
_MAX_NAMES: Final = 20
"""Nodes named in one entry."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The parts of the cluster at one moment that are compared."""

    views: Sequence[PageView]
    nodes: Mapping[str, NodeView]

    def only(self, names: Iterable[str]) -> "Moment":
        """The same moment with only these nodes."""
        return Moment(self.views, {name: self.nodes[name] for name in names})

    def with_gpus(self) -> "Moment":
        """The same moment with the nodes that have GPUs."""
        nodes = {}
        for name, node in self.nodes.items():
            if node.has_gpus:
                nodes[name] = node
        return Moment(self.views, nodes)


class RecentChanges:
    """Keeps the newest `MAX_CHANGES` changes."""

    def __init__(self) -> None:
        self.since: dict[str, str] = {}
        """When a node's state last changed, by its name; only nodes whose state has changed."""
        self._kept: deque[protocol.ChangeData] = deque(maxlen=MAX_CHANGES)
        self._number = 0

    @property
    def newest_first(self) -> list[protocol.ChangeData]:
        """All that are kept."""
        return list(reversed(self._kept))

    def record(self, before: Moment, after: Moment, at: str) -> None:
        """Keep what changed from one moment to the next."""
        names = []
        has_same_nodes = True
        for name in before.nodes.keys() | after.nodes.keys():
            was = before.nodes.get(name)
            now = after.nodes.get(name)
            if was != now:
                names.append(name)
                self._note_state(name, was, now, at)
                if was is None or now is None:
                    has_same_nodes = False

        if has_same_nodes:
            before = before.only(names)
            after = after.only(names)
        else:
            # Only nodes that stay show whether one that came or went was a whole domain.
            before = before.with_gpus()
            after = after.with_gpus()

        for view, change in _between(before, after):
            self._number += 1
            entry = _entry(self._number, at, view, change, after)
            self._kept.append(entry)

    def _note_state(self, name: str, was: NodeView | None, now: NodeView | None, at: str) -> None:
        """Note when the state of a node changed; forget nodes that are gone."""
        if now is None:
            self.since.pop(name, None)
        elif was is not None and was.state != now.state:
            self.since[name] = at


def _between(before: Moment, after: Moment) -> Iterator[tuple[PageView | None, Change]]:
    """The changes of each view's levels and conditions, then those of the nodes.

    Nodes are compared by the levels of all views.
    """
    now = {view.id: view for view in after.views}
    for old in before.views:
        new = now.get(old.id)
        if new is not None:
            old_scope = _without_nodes(old.scope)
            new_scope = _without_nodes(new.scope)
            for change in changes(old_scope, new_scope):
                yield new, change

    old_cluster = _whole_cluster(before)
    new_cluster = _whole_cluster(after)
    for change in changes(old_cluster, new_cluster):
        if change.kind is not ChangeKind.LEVEL:
            yield None, change


def _without_nodes(scope: Scope) -> Scope:
    """The scope with its levels and conditions only."""
    return Scope(scope.topology, scope.origin, scope.levels, (), scope.catalogue)


def _whole_cluster(moment: Moment) -> Scope:
    levels: dict[str, Level] = {}
    for view in moment.views:
        for level in view.scope.levels:
            levels.setdefault(level.key, level)
    nodes = tuple(moment.nodes.values())
    return Scope(None, Origin.INFERRED, tuple(levels.values()), nodes)


def _entry(
    number: int, at: str, view: PageView | None, change: Change, after: Moment
) -> protocol.ChangeData:
    text = words(change)
    if view is not None and view.id:
        text = f"{view.id}: {text}"

    names = some_names(change.nodes)
    if names:
        text += f": {names}"
    return protocol.ChangeData(
        id=number,
        at=at,
        view=None if view is None else view.id,
        kind=cast("Literal['level']", change.kind.value),
        count=len(change.nodes),
        nodes=list(change.nodes[:_MAX_NAMES]),
        text=text,
        bad=_is_bad(change, view, after),
    )


def _is_bad(change: Change, view: PageView | None, after: Moment) -> bool:
    """Whether something is worse now."""
    match change.kind:
        case ChangeKind.LEVEL:
            return bool(change.before) and not change.after
        case ChangeKind.CONDITION:
            return not _is_true(change.subject, view)
        case ChangeKind.MOVED:
            return not change.after
        case ChangeKind.STATE:
            return _has_faulty_node(change.nodes, after)
        case _:
            return change.kind in (ChangeKind.DOMAIN_GONE, ChangeKind.NODE_GONE)


def _is_true(condition: str, view: PageView | None) -> bool:
    """Whether the condition of a view's ClusterTopology is True now."""
    topology = view.scope.topology if view else None
    if topology is None:
        return False
    now = previous(topology.status, condition)
    return now is not None and now.get("status") == "True"


def _has_faulty_node(names: Iterable[str], moment: Moment) -> bool:
    for name in names:
        node = moment.nodes.get(name)
        if node is not None and not FAULTS.isdisjoint(marks(node)):
            return True
    return False
