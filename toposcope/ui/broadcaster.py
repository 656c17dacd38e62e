"""Turns changes into states that pages fetch: each is built once for all pages and has an id."""

import gzip
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from toposcope.kube.reflector import Stop
from toposcope.kube.runtime import REAL, Runtime
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.reach import typical_shape
from toposcope.ui import protocol
from toposcope.ui.changes import Moment, RecentChanges
from toposcope.ui.facts import Facts, StaleFact
from toposcope.ui.nodes import columns
from toposcope.ui.views import PageView, views_of

log = logging.getLogger(__name__)

MIN_PAUSE_SECONDS: Final = 0.5
"""Between two states; changes in between are batched."""
_PAUSE_FACTOR: Final = 2.0
"""The pause is twice the CPU time before it, so states take at most a third of one CPU."""
_GZIP_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster at one moment."""

    id: str
    cluster: Snapshot
    views: tuple[PageView, ...]


class Broadcaster:
    """Publishes `facts` to pages. `epoch` tells one run of the server from the next."""

    def __init__(
        self,
        facts: Facts,
        source: Literal["cluster", "files"],
        epoch: str,
        runtime: Runtime = REAL,
    ) -> None:
        self.facts = facts
        self.recent = RecentChanges()
        self.state: ClusterState | None = None
        """None until everything has been read once."""
        self.listeners: set[Callable[[], None]] = set()
        """Called when there is a new state, from the broadcaster's thread."""
        self._source = source
        self._epoch = epoch
        self._runtime = runtime
        self._revision = -1
        """The facts' revision that `state` shows."""
        self._packed = ("", b"")
        self._packing = threading.Lock()

    def run(self, stop: Stop, wake: threading.Event) -> None:
        """Publish until `stop` is set; the facts set `wake` after each change."""
        while not stop.is_set():
            wake.wait()
            wake.clear()
            began = self._runtime.cpu_seconds()
            try:
                self.tick()
            except Exception:
                log.exception("cannot publish a change; the next change triggers another attempt")
            used = self._runtime.cpu_seconds() - began
            stop.wait(max(MIN_PAUSE_SECONDS, _PAUSE_FACTOR * used))

    def tick(self) -> None:
        """Publish what has changed since the last call."""
        revision = self.facts.revision
        before = self.state
        is_readable = before is not None or self.facts.is_complete
        if revision == self._revision or not is_readable:
            return

        now = self.facts.snapshot()
        if before is None:
            views = views_of(now)
        elif _has_same_views(now, before.cluster):
            views = before.views
        else:
            views = views_of(now)
            self.recent.record(
                before=Moment(before.views, before.cluster.by_name),
                after=Moment(views, now.by_name),
                at=_rfc3339(self._runtime.now()),
            )

        self.state = ClusterState(f"{self._epoch}-{revision}", now, views)
        self._revision = revision
        if self.listeners:  # packed here, so that the pause accounts for its CPU time
            self.packed()

        for listener in tuple(self.listeners):
            listener()

    # Called by the server

    def status(self) -> protocol.Status:
        """How fresh everything is."""
        stale = self.facts.stale()
        shown = None
        if stale:
            shown = protocol.Stale(int(stale.seconds), stale.sentences)
        as_of = self._as_of(stale)
        return protocol.Status(as_of, shown, self.facts.warnings())

    def _as_of(self, stale: StaleFact | None) -> str | None:
        """When everything shown was last true; None where files do not say."""
        if self._source == "files":
            taken_at = self.facts.taken_at
            return _rfc3339(taken_at) if taken_at else None
        seconds = stale.seconds if stale else self.facts.age_seconds()
        age = timedelta(seconds=seconds)
        return _rfc3339(self._runtime.now() - age)

    def news(self) -> protocol.News:
        """What every page receives."""
        state_id = self.state.id if self.state else ""
        return protocol.News(state_id, self.status())

    def snapshot(self, state: ClusterState) -> protocol.SnapshotData:
        """Everything that a page needs for its map."""
        shape = None
        if state.cluster.pods is not None:
            shape = typical_shape(state.cluster)
        nodes, others = columns(state.cluster, state.views, shape)
        return protocol.SnapshotData(
            version=protocol.VERSION,
            id=state.id,
            source=self._source,
            source_name=self.facts.source,
            status=self.status(),
            nodes=nodes,
            other_nodes=others,
            views=[view.summary for view in state.views],
            pod=shape.words if shape else "",
            placeholders=sorted(state.cluster.catalogue.placeholders),
            changes=self.recent.newest_first,
        )

    def packed(self) -> tuple[str, bytes]:
        """The id and the gzipped JSON of the state; built once for each."""
        with self._packing:
            state = self.state
            if state and self._packed[0] != state.id:
                data = msgspec.json.encode(self.snapshot(state))
                self._packed = state.id, gzip.compress(data, _GZIP_LEVEL, mtime=0)
            return self._packed


def _has_same_views(now: Snapshot, before: Snapshot) -> bool:
    """Whether the views are the same: pods do not matter to them."""
    if now.catalogue != before.catalogue or now.topologies != before.topologies:
        return False
    return now.nodes == before.nodes


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
