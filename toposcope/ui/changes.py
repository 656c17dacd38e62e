"""What changed lately, out of what changed between two moments."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from toposcope.snapshot.changes import Change, Kind, changes, words
from toposcope.snapshot.filters import FAULTS, marks
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Origin, Scope
from toposcope.topology.hierarchy import some_names
from toposcope.topology.levels import Level
from toposcope.ui import protocol
from toposcope.ui.views import View, levels_of

KEPT: Final = 200
"""Entries in the list of changes."""
_NAMED: Final = 20
"""Nodes named in one entry."""
_WORSE: Final = frozenset({Kind.DOMAIN_GONE, Kind.NODE_GONE})


@dataclass(frozen=True, slots=True)
class Moment:
    """What a list of changes compares: the views, and the nodes that may differ."""

    views: Sequence[View]
    nodes: Mapping[str, NodeView]


class Lately:
    """The newest `KEPT` changes."""

    def __init__(self) -> None:
        self._kept: deque[protocol.Change] = deque(maxlen=KEPT)
        self._number = 0

    @property
    def newest_first(self) -> list[protocol.Change]:
        """All that are kept."""
        return list(reversed(self._kept))

    def note(self, before: Moment, after: Moment, at: str) -> list[protocol.Change]:
        """What changed from one moment to the next, the newest first; it is kept."""
        found = []
        for view_id, change in _between(before, after):
            self._number += 1
            found.append(_told(self._number, at, view_id, change, after))
        self._kept.extend(found)
        return found[::-1]


def _between(before: Moment, after: Moment) -> Iterator[tuple[str | None, Change]]:
    """Levels and conditions of each view, then the nodes of the whole cluster, told by the levels of all views."""
    was = {view.summary.id: view for view in before.views}
    now = {view.summary.id: view for view in after.views}
    for identity in [each for each in was if each in now]:
        old, new = (_bare(views[identity].scope) for views in (was, now))
        yield from ((identity, change) for change in changes(old, new))
    yield from ((None, change) for change in changes(_whole(before), _whole(after)) if change.kind is not Kind.LEVEL)


def _bare(scope: Scope) -> Scope:
    """Levels and conditions, without the nodes."""
    return Scope(scope.topology, scope.origin, scope.levels, (), scope.catalogue)


def _whole(moment: Moment) -> Scope:
    levels: dict[str, Level] = {}
    for view in moment.views:
        for level in levels_of(view):
            levels.setdefault(level.key, level)
    return Scope(None, Origin.INFERRED, tuple(levels.values()), tuple(moment.nodes.values()))


def _told(number: int, at: str, view_id: str | None, change: Change, after: Moment) -> protocol.Change:
    names = some_names(change.nodes)
    about = f"{view_id}: " if view_id else ""
    return protocol.Change(
        id=number,
        at=at,
        view=view_id,
        kind=cast("Literal['level']", change.kind.value),
        subject=change.subject,
        before=change.before,
        after=change.after,
        count=len(change.nodes),
        nodes=list(change.nodes[:_NAMED]),
        text=about + words(change) + (f": {names}" if names else ""),
        bad=_bad(change, after),
    )


def _bad(change: Change, after: Moment) -> bool:
    """Whether something is worse now."""
    match change.kind:
        case Kind.LEVEL:
            return bool(change.before) and not change.after
        case Kind.CONDITION:
            return not change.after.startswith("True")
        case Kind.MOVED:
            return not change.after
        case Kind.STATE:
            return _troubled(after.nodes[name] for name in change.nodes if name in after.nodes)
        case Kind.HARDWARE:
            return False
        case _:
            return change.kind in _WORSE


def _troubled(nodes: Iterable[NodeView]) -> bool:
    return any(not FAULTS.isdisjoint(marks(node)) for node in nodes)
