"""Turns what changes into what the page is told: a snapshot for who comes, and deltas for who stays.

Deltas are kept in one ring, and every listener has only a place in it: a slow one costs nothing and, when the ring has
moved on, is told to fetch the snapshot anew.
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
from toposcope.ui import protocol
from toposcope.ui.changes import Lately, Moment
from toposcope.ui.facts import Changes, Facts
from toposcope.ui.nodes import Describer
from toposcope.ui.views import View, view_inputs, views_of

log = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.5
"""Seconds between two deltas at least; what happens meanwhile is told together."""
_REST: Final = 4.0
"""The pause is so many times as long as the work before it: at most a fifth of one CPU goes into deltas."""
_RING: Final = 1_000
_RING_BYTES: Final = 8 << 20
_MOST_ROWS: Final = 2_000
"""A delta with more nodes is larger than what it spares: the snapshot is fetched anew."""
_GZIP: Final = 5


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the stream: `data` is JSON."""

    number: int
    name: Literal["delta", "reset"]
    data: bytes


class Broadcaster:
    """What pages are told of `facts`. `epoch` tells one run of the server from the next."""

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
        self._views: tuple[View, ...] = ()
        self._describer = Describer(())
        self._inputs = view_inputs(())
        self._free: dict[str, int | None] = {}
        self._others: set[str] = set()
        self._lately = Lately()
        self._since: dict[str, str] = {}
        self._number = 0
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self._lock = threading.Lock()
        self._cached: tuple[tuple[int, int], bytes] | None = None
        self._encoding = threading.Lock()
        self._pods_known = True
        self.ready = False
        """Whether there is a snapshot."""
        self.health = 0
        """Grows when staleness or warnings change."""
        self.listeners: set[Callable[[], None]] = set()
        """Called after every event and change of health, from the broadcaster's thread."""

    def run(self, stop: Stop, wake: threading.Event) -> None:
        """Tell until `stop` is set; `wake` is set by the facts after each change."""
        while not stop.is_set():
            wake.wait()
            wake.clear()
            began = self._monotonic()
            try:
                self.tick()
            except Exception:
                log.exception("cannot tell what changed; the pages are told to begin anew")
                self._reset("the server could not tell what changed")
            stop.wait(max(SHORTEST_PAUSE, _REST * (self._monotonic() - began)))

    def tick(self) -> None:
        """Tell what has changed since the last call."""
        if not self.ready and not self.facts.complete:
            return
        changed = self.facts.take_changes()
        if not self.ready or self._pods_known != self.facts.pods_known:
            self._begin(changed)
        elif changed.before or changed.topologies or changed.pods:
            self._tell(changed)
        if changed.health:
            self.health += 1
            self._call()

    def _begin(self, changed: Changes) -> None:
        again = self.ready
        self._pods_known = self.facts.pods_known
        nodes = self.facts.nodes()
        self._look(nodes)
        self._free = {node.name: self.facts.free_gpus(node) for node in nodes}
        self._others = {node.name for node in nodes if not self._describer.concerns(node)}
        self.ready = True
        if again or changed.health:
            self._reset("everything was read anew")

    def _look(self, nodes: Iterable[NodeView], before: Sequence[View] = ()) -> None:
        """Take the views anew; `before` are those whose nodes count as they did."""
        facts = self.facts
        found = Snapshot(facts.source, None, tuple(nodes), None, facts.topologies(), catalogue=facts.catalogue)
        self._views = views_of(found, before)
        self._describer = Describer(self._views)
        self._inputs = view_inputs(self._views)

    def _tell(self, changed: Changes) -> None:
        before = self._views
        changes: list[protocol.Change] = []
        keys = self._describer.keys
        shifted = any(self._matters(old, changed.nodes.get(name)) for name, old in changed.before.items())
        if shifted or changed.topologies:
            self._look((changed.nodes[name] for name in sorted(changed.nodes)), () if shifted else before)
        if changed.before or changed.topologies:
            changes = self._note(before, changed)
        views = [view.summary for view in self._views]
        moved = views != [view.summary for view in before]
        # Which nodes a view takes, and which labels a row has, follow from its selector and levels.
        if self._describer.keys != keys or _selectors(self._views) != _selectors(before):
            self._free = {name: self.facts.free_gpus(node) for name, node in changed.nodes.items()}
            self._others = {name for name, node in changed.nodes.items() if not self._describer.concerns(node)}
            self._reset("the levels or selectors of the topologies changed")
            return
        put, gone = self._rows(changed)
        if len(put) + len(gone) > _MOST_ROWS:
            self._reset("many nodes changed at once")
        elif put or gone or changes or moved:
            delta = protocol.Delta(put, gone, views if moved else None, changes, len(self._others), self.status())
            self._add("delta", msgspec.json.encode(delta))

    def _matters(self, old: NodeView | None, new: NodeView | None) -> bool:
        """Whether the views may be others now. To look at all nodes again takes a second of CPU for 100,000 of them."""
        return old is None or new is None or self._inputs(old) != self._inputs(new)

    def _note(self, before: tuple[View, ...], changed: Changes) -> list[protocol.Change]:
        """What is new in the list of changes."""
        came_or_went = any(old is None or name not in changed.nodes for name, old in changed.before.items())
        if came_or_went:
            # Whether a whole domain has gone is told by those that stay.
            now = {name: node for name, node in changed.nodes.items() if node.has_gpus}
            was = {name: node for name, node in now.items() if name not in changed.before}
            was |= {name: old for name, old in changed.before.items() if old is not None and old.has_gpus}
        else:
            was = {name: old for name, old in changed.before.items() if old is not None}
            now = {name: changed.nodes[name] for name in was}
        at = self._stamp()
        for name, old in changed.before.items():
            new = changed.nodes.get(name)
            if new is None:
                self._since.pop(name, None)
            elif old is not None and old.state != new.state:
                self._since[name] = at
        return self._lately.note(Moment(before, was), Moment(self._views, now), at)

    def _rows(self, changed: Changes) -> tuple[list[protocol.Row], list[str]]:
        put: list[protocol.Row] = []
        gone: list[str] = []
        for name in sorted(changed.before.keys() | changed.pods):
            node = self.facts.node(name)
            if node is None or not self._describer.concerns(node):
                shown = name in self._free and name not in self._others
                self._free.pop(name, None)
                (self._others.discard if node is None else self._others.add)(name)
                if shown:
                    gone.append(name)
                if node is not None:
                    self._free[name] = None
                continue
            self._others.discard(name)
            free = self.facts.free_gpus(node)
            if name in changed.before or self._free.get(name) != free:
                self._free[name] = free
                put.append(self._describer.row(node, free))
        return put, gone

    def _reset(self, why: str) -> None:
        with self._lock:
            self._ring.clear()
            self._ring_bytes = 0
        self._add("reset", msgspec.json.encode({"why": why}))

    def _add(self, name: Literal["delta", "reset"], data: bytes) -> None:
        with self._lock:
            self._number += 1
            self._ring.append(Event(self._number, name, data))
            self._ring_bytes += len(data)
            while len(self._ring) > 1 and (len(self._ring) > _RING or self._ring_bytes > _RING_BYTES):
                self._ring_bytes -= len(self._ring.popleft().data)
        self._call()

    def _call(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    # Asked by the server

    @property
    def number(self) -> int:
        """The number of the newest event."""
        return self._number

    def identity(self, number: int) -> str:
        """An event's id as pages know it."""
        return f"{self.epoch}-{number}"

    def number_of(self, identity: str) -> int | None:
        """The number in an id; None where it is of another run of the server, or none at all."""
        epoch, _, number = identity.rpartition("-")
        return int(number) if epoch == self.epoch and number.isascii() and number.isdigit() else None

    def after(self, number: int) -> list[Event] | None:
        """The events behind this one; None where some of them are gone, or it is of the future."""
        with self._lock:
            if number == self._number:
                return []
            oldest = self._ring[0].number if self._ring else self._number + 1
            if not oldest - 1 <= number < self._number:
                return None
            return [event for event in self._ring if event.number > number]

    @property
    def views(self) -> tuple[View, ...]:
        """The views."""
        return self._views

    def since(self, name: str) -> str | None:
        """RFC 3339: when the node's state was seen to become what it is; None where it was so from the beginning."""
        return self._since.get(name)

    def status(self) -> protocol.Status:
        """How fresh everything is."""
        found = self.facts.stale()
        stale = protocol.Stale(int(found[0]), found[1]) if found else None
        if self._source == "files":
            as_of = _rfc3339(self.facts.taken_at) if self.facts.taken_at else None
        else:
            seconds = found[0] if found else self.facts.age()
            as_of = _rfc3339(self._now() - timedelta(seconds=seconds))
        return protocol.Status(as_of, stale, self.facts.warnings())

    def snapshot(self) -> protocol.Snapshot:
        """Everything. What changes while it is made may be in it; the delta then says it again."""
        number, views, describer = self._number, self._views, self._describer
        nodes, others = describer.columns(self.facts.nodes(), self.facts.free_gpus)
        return protocol.Snapshot(
            version=protocol.VERSION,
            id=self.identity(number),
            source=self._source,
            source_name=self.facts.source,
            status=self.status(),
            nodes=nodes,
            other_nodes=others,
            views=[view.summary for view in views],
            changes=self._lately.newest_first,
        )

    def packed(self) -> tuple[str, bytes]:
        """The id and the gzipped JSON of the snapshot; made once for each state of things."""
        with self._encoding:
            state = (self._number, self.health)
            if self._cached is None or self._cached[0] != state:
                data = msgspec.json.encode(self.snapshot())
                self._cached = state, gzip.compress(data, _GZIP, mtime=0)
            return f"{self.identity(state[0])}-{state[1]}", self._cached[1]

    def _stamp(self) -> str:
        return _rfc3339(self._now())


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _selectors(views: Iterable[View]) -> list[tuple[object, ...]]:
    """What decides which nodes are in which view."""
    return [
        (
            view.summary.id,
            view.scope.topology.selector if view.scope.topology else view.takes,
            [level.key for level in view.scope.levels],
        )
        for view in views
    ]
