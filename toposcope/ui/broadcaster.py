"""Turns changes into what pages receive: a snapshot for a page that opens, deltas for those that are open.

Deltas are kept in one ring, in which every listener has only a position: a slow one costs nothing and, once the ring
has moved on, has to fetch the snapshot again.
"""

import gzip
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from toposcope.kube.reflector import Stop
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.ui import protocol
from toposcope.ui.changes import Moment, RecentChanges
from toposcope.ui.facts import Changes, Facts
from toposcope.ui.nodes import RowBuilder
from toposcope.ui.views import View, view_inputs, views_of

log = logging.getLogger(__name__)

MIN_PAUSE: Final = 0.5
"""Seconds between two deltas at least; changes in between are batched."""
_PAUSE_FACTOR: Final = 4.0
"""The pause is so many times as long as the work before it: deltas take at most a fifth of one CPU."""
_MAX_EVENTS: Final = 1_000
_MAX_BYTES: Final = 8 << 20
_MAX_ROWS: Final = 2_000
"""A delta with more nodes is larger than what it saves: the snapshot is fetched again."""
_GZIP_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the stream: `data` is JSON."""

    number: int
    name: Literal["delta", "reset"]
    data: bytes


class Broadcaster:
    """Publishes `facts` to pages. `epoch` tells one run of the server from the next."""

    def __init__(
        self,
        facts: Facts,
        source: Literal["cluster", "files"],
        epoch: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.facts = facts
        self.epoch = epoch
        self._source = source
        self._now = now
        self._monotonic = monotonic
        self.views: tuple[View, ...] = ()
        self._rows = RowBuilder(())
        self._inputs = view_inputs(())
        self._free: dict[str, int | None] = {}
        self._others: set[str] = set()
        """Nodes that are not on the page; their free GPUs are not compared."""
        self._recent = RecentChanges()
        self._since: dict[str, str] = {}
        self.number = 0
        """The number of the newest event."""
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int], bytes] | None = None
        self._encoding = threading.Lock()
        self._read_with: tuple[bool, Catalogue] = True, BUILT_IN
        """Whether pods were known, and what was a level, when everything was last counted."""
        self.ready = False
        """Whether there is a snapshot."""
        self.health = 0
        """Grows when staleness or warnings change."""
        self.listeners: set[Callable[[], None]] = set()
        """Called after every event and change of health, from the broadcaster's thread."""

    def run(self, stop: Stop, wake: threading.Event) -> None:
        """Publish until `stop` is set; the facts set `wake` after each change."""
        while not stop.is_set():
            wake.wait()
            wake.clear()
            began = self._monotonic()
            try:
                self.tick()
            except Exception:
                log.exception("cannot publish what changed; the pages have to start over")
                self._reset("the server could not process what changed")
            stop.wait(max(MIN_PAUSE, _PAUSE_FACTOR * (self._monotonic() - began)))

    def tick(self) -> None:
        """Publish what has changed since the last call."""
        if not self.ready and not self.facts.complete:
            return
        changed = self.facts.take_changes()
        if not self.ready or self._read_with != (self.facts.pods_known, self.facts.catalogue):
            self._start_over(changed)
        elif changed.before or changed.topologies or changed.pods:
            self._publish(changed)
        if changed.health:
            self.health += 1
            self._notify()

    def _start_over(self, changed: Changes) -> None:
        restarted = self.ready
        self._read_with = self.facts.pods_known, self.facts.catalogue
        nodes = self.facts.nodes()
        self._update_views(nodes)
        self._recount(nodes)
        self.ready = True
        if restarted or changed.health:
            self._reset("everything was read again")

    def _recount(self, nodes: Iterable[NodeView]) -> None:
        nodes = tuple(nodes)
        self._free = {node.name: self.facts.free_gpus(node) for node in nodes}
        self._others = {node.name for node in nodes if not self._rows.shows(node)}

    def _update_views(self, nodes: Iterable[NodeView], before: Sequence[View] = ()) -> None:
        """Compute the views again; `before` are those whose nodes still count as they did."""
        facts = self.facts
        snapshot = Snapshot(facts.source, None, tuple(nodes), None, facts.topologies(), catalogue=facts.catalogue)
        self.views = views_of(snapshot, before)
        self._rows = RowBuilder(self.views)
        self._inputs = view_inputs(self.views)

    def _publish(self, changed: Changes) -> None:
        before, keys = self.views, self._rows.keys
        changes: list[protocol.Change] = []
        # Counting all nodes again takes a second of CPU for 100,000 of them.
        recount = any(self._affects_views(old, changed.nodes.get(name)) for name, old in changed.before.items())
        if recount or changed.topologies:
            self._update_views((changed.nodes[name] for name in sorted(changed.nodes)), () if recount else before)
        if changed.before or changed.topologies:
            changes = self._record_changes(before, changed)
        summaries = [view.summary for view in self.views]
        moved = summaries != [view.summary for view in before]
        # Which nodes a view takes, and which labels a row has, follow from its selector and levels.
        if self._rows.keys != keys or _selectors(self.views) != _selectors(before):
            self._recount(changed.nodes.values())
            self._reset("the levels or selectors of the topologies changed")
            return
        put, gone = self._changed_rows(changed)
        if len(put) + len(gone) > _MAX_ROWS:
            self._reset("many nodes changed at once")
        elif put or gone or changes or moved:
            delta = protocol.Delta(put, gone, summaries if moved else None, changes, len(self._others), self.status())
            self._add("delta", msgspec.json.encode(delta))

    def _affects_views(self, old: NodeView | None, new: NodeView | None) -> bool:
        return old is None or new is None or self._inputs(old) != self._inputs(new)

    def _record_changes(self, before: tuple[View, ...], changed: Changes) -> list[protocol.Change]:
        """The new entries of the list of changes."""
        at = _rfc3339(self._now())
        for name, old in changed.before.items():
            new = changed.nodes.get(name)
            if new is None:
                self._since.pop(name, None)
            elif old is not None and old.state != new.state:
                self._since[name] = at
        was = {name: old for name, old in changed.before.items() if old is not None}
        if len(was) < len(changed.before) or any(name not in changed.nodes for name in was):
            # Nodes came or went: only those that stay show whether a whole domain did.
            now = {name: node for name, node in changed.nodes.items() if node.has_gpus}
            was = {name: node for name, node in was.items() if node.has_gpus}
            was |= {name: node for name, node in now.items() if name not in changed.before}
        else:
            now = {name: changed.nodes[name] for name in was}
        return self._recent.record(Moment(before, was), Moment(self.views, now), at)

    def _changed_rows(self, changed: Changes) -> tuple[list[protocol.Row], list[str]]:
        put: list[protocol.Row] = []
        gone: list[str] = []
        for name in sorted(changed.before.keys() | changed.pods):
            node = self.facts.node(name)
            if node is None or not self._rows.shows(node):
                if name in self._free and name not in self._others:
                    gone.append(name)
                self._free.pop(name, None)
                (self._others.discard if node is None else self._others.add)(name)
                if node is not None:
                    self._free[name] = None
                continue
            self._others.discard(name)
            free = self.facts.free_gpus(node)
            if name in changed.before or self._free.get(name) != free:
                self._free[name] = free
                put.append(self._rows.row(node, free))
        return put, gone

    def _reset(self, why: str) -> None:
        with self._lock:
            self._ring.clear()
            self._ring_bytes = 0
        self._add("reset", msgspec.json.encode({"why": why}))

    def _add(self, name: Literal["delta", "reset"], data: bytes) -> None:
        with self._lock:
            self.number += 1
            self._ring.append(Event(self.number, name, data))
            self._ring_bytes += len(data)
            while len(self._ring) > 1 and (len(self._ring) > _MAX_EVENTS or self._ring_bytes > _MAX_BYTES):
                self._ring_bytes -= len(self._ring.popleft().data)
        self._notify()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    # Called by the server

    def identity(self, number: int) -> str:
        """An event's id as pages know it."""
        return f"{self.epoch}-{number}"

    def number_of(self, identity: str) -> int | None:
        """The number in an id; None where it is of another run of the server, or malformed."""
        epoch, _, number = identity.rpartition("-")
        return int(number) if epoch == self.epoch and number.isascii() and number.isdigit() else None

    def after(self, number: int) -> list[Event] | None:
        """The events after this one; None where some of them are gone, or it does not exist yet."""
        with self._lock:
            if number == self.number:
                return []
            oldest = self._ring[0].number if self._ring else self.number + 1
            if not oldest - 1 <= number < self.number:
                return None
            return [event for event in self._ring if event.number > number]

    def since(self, name: str) -> str | None:
        """RFC 3339: when the node's state was seen to change; None where it has not changed since the start."""
        return self._since.get(name)

    def status(self) -> protocol.Status:
        """How fresh everything is."""
        stale = self.facts.stale()
        if self._source == "files":
            as_of = _rfc3339(self.facts.taken_at) if self.facts.taken_at else None
        else:
            as_of = _rfc3339(self._now() - timedelta(seconds=stale[0] if stale else self.facts.age()))
        return protocol.Status(as_of, protocol.Stale(int(stale[0]), stale[1]) if stale else None, self.facts.warnings())

    def snapshot(self) -> protocol.Snapshot:
        """Everything. A change made meanwhile may be in it; the delta then repeats it."""
        number, views, rows = self.number, self.views, self._rows
        nodes, others = rows.columns(self.facts.nodes(), self.facts.free_gpus)
        return protocol.Snapshot(
            version=protocol.VERSION,
            id=self.identity(number),
            source=self._source,
            source_name=self.facts.source,
            status=self.status(),
            nodes=nodes,
            other_nodes=others,
            views=[view.summary for view in views],
            placeholders=rows.placeholders,
            changes=self._recent.newest_first,
        )

    def packed(self) -> tuple[str, bytes]:
        """The id and the gzipped JSON of the snapshot; built once for each state."""
        with self._encoding:
            state = (self.number, self.health)
            if self._cached is None or self._cached[0] != state:
                data = msgspec.json.encode(self.snapshot())
                self._cached = state, gzip.compress(data, _GZIP_LEVEL, mtime=0)
            return f"{self.identity(state[0])}-{state[1]}", self._cached[1]


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _selectors(views: Iterable[View]) -> list[tuple[object, ...]]:
    """What decides which nodes are in which view."""
    return [
        (
            view.id,
            view.scope.topology.selector if view.scope.topology else view.takes,
            [level.key for level in view.scope.levels],
        )
        for view in views
    ]
