"""What changed recently, from what changed between two moments."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import some_names
from toposcope.snapshot.changes import Change, Kind, changes, words
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Origin, Scope
from toposcope.ui import protocol
from toposcope.ui.views import View

MAX_CHANGES: Final = 200
"""Entries in the list of changes."""
_MAX_NAMES: Final = 20
"""Nodes named in one entry."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is compared."""

    views: Sequence[View]
    nodes: Mapping[str, NodeView]


class RecentChanges:
    """The newest `MAX_CHANGES` changes."""

    def __init__(self) -> None:
        self.since: dict[str, str] = {}
        """When the state of a node was seen to change; those of which it never was are missing."""
        self._kept: deque[protocol.Change] = deque(maxlen=MAX_CHANGES)
        self._number = 0

    @property
    def newest_first(self) -> list[protocol.Change]:
        """All that are kept."""
        return list(reversed(self._kept))

    def record(self, before: Moment, after: Moment, at: str) -> None:
        """Keep what changed from one moment to the next."""
        was, now = before.nodes, after.nodes
        names = [name for name in was.keys() | now.keys() if was.get(name) != now.get(name)]
        for name in names:
            if name not in now:
                self.since.pop(name, None)
            elif name in was and was[name].state != now[name].state:
                self.since[name] = at
        if all(name in was and name in now for name in names):
            was, now = ({name: nodes[name] for name in names} for nodes in (was, now))
        else:  # only nodes that stay show whether one that came or went was a whole domain
            was, now = (
                {name: node for name, node in nodes.items() if node.has_gpus}
                for nodes in (was, now)
            )
        after = Moment(after.views, now)
        for view_id, change in _between(Moment(before.views, was), after):
            self._number += 1
            self._kept.append(_entry(self._number, at, view_id, change, after))


def _between(before: Moment, after: Moment) -> Iterator[tuple[str | None, Change]]:
    """Levels and conditions of each view, then the nodes of the whole cluster, by the levels of all views."""
    old_views = {view.id: view for view in before.views}
    new_views = {view.id: view for view in after.views}
    for view_id in [view_id for view_id in old_views if view_id in new_views]:
        old, new = (_without_nodes(views[view_id].scope) for views in (old_views, new_views))
        yield from ((view_id, change) for change in changes(old, new))
    whole = changes(_whole_cluster(before), _whole_cluster(after))
    yield from ((None, change) for change in whole if change.kind is not Kind.LEVEL)


def _without_nodes(scope: Scope) -> Scope:
    """Levels and conditions only."""
    return Scope(scope.topology, scope.origin, scope.levels, (), scope.catalogue)


def _whole_cluster(moment: Moment) -> Scope:
    levels: dict[str, Level] = {}
    for view in moment.views:
        for level in view.scope.levels:
            levels.setdefault(level.key, level)
    return Scope(None, Origin.INFERRED, tuple(levels.values()), tuple(moment.nodes.values()))


def _entry(
    number: int, at: str, view_id: str | None, change: Change, after: Moment
) -> protocol.Change:
    names = some_names(change.nodes)
    prefix = f"{view_id}: " if view_id else ""
    return protocol.Change(
        id=number,
        at=at,
        view=view_id,
        kind=cast("Literal['level']", change.kind.value),
        count=len(change.nodes),
        nodes=list(change.nodes[:_MAX_NAMES]),
        text=prefix + words(change) + (f": {names}" if names else ""),
        bad=_is_bad(change, after),
    )


def _is_bad(change: Change, after: Moment) -> bool:
    """Whether something is worse now."""
    match change.kind:
        case Kind.LEVEL:
            return bool(change.before) and not change.after
        case Kind.CONDITION:
            return not change.after.startswith("True")
        case Kind.MOVED:
            return not change.after
        case Kind.STATE:
            nodes = (after.nodes[name] for name in change.nodes if name in after.nodes)
            return any(not FAULTS.isdisjoint(marks(node)) for node in nodes)
        case _:
            return change.kind in (Kind.DOMAIN_GONE, Kind.NODE_GONE)
