"""One pass: assess every ClusterTopology, publish, write status, tell people. Reads and writes through one client."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.conditions import LEVELS_AVAILABLE, previous, stamped
from toposcope.api.effective_levels import Absences
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.assess.availability import unsynced
from toposcope.controller.assess.selection import Overlaps, overlaps
from toposcope.controller.events import Announcement, Budget, announcements
from toposcope.controller.fence import NotLeaderError
from toposcope.controller.publishers.cached_reader import Watched
from toposcope.controller.publishers.dry_run import DRY_RUN, Rehearsal, Showing, unified
from toposcope.controller.requirements.resolve import Resolved, resolve
from toposcope.controller.segments import Children
from toposcope.controller.status import conditions_of, demand_of, status_of
from toposcope.controller.topology_metrics import Report, report
from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef
from toposcope.integrations.framework.published import MANAGER, Published
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import apply, event
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.levels import Level
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table, table_of

log = logging.getLogger(__name__)

REPORTER: Final = "controller"


class Publisher(Protocol):
    """One target of publishing; asked in the order in which they are given (KAI's after Grove's)."""

    name: str
    """Its field in `spec.publish`."""
    group: str
    """API group of what it writes."""

    def served(self) -> bool:
        """Whether the API server serves the target's kind. Raises KubeError."""

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the target say `levels`. Raises KubeError when the server does not answer."""

    def retract(self, topology: Topology) -> Published | None:
        """Delete what was published before; None when nothing of ours is left. Raises KubeError as above."""


class Workloads(Protocol):
    """What the workloads of the cluster ask for."""

    @property
    def synced(self) -> bool:
        """Whether all of them have been listed: only then is a missing need no need."""

    def needs(self) -> Mapping[WorkloadRef, Sequence[LevelRequest]]:
        """The needs of each workload that has some."""


class Reconciler:
    """Brings the API server up to date with the nodes. `monotonic` and `now` are its clocks.

    What it last wrote of each status is remembered until the watch shows it, so that one change is written once.
    `watched` is what the publishers read through, if they do. `rehearsal` finds out what they would do, for topologies
    that ask for a dry run. `dry_run` makes every pass one: nothing is written, and it is told each difference once.
    """

    def __init__(
        self,
        client: ApiClient,
        publishers: Sequence[Publisher],
        monotonic: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        instance: str = "",
        watched: Watched | None = None,
        rehearsal: Rehearsal | None = None,
        *,
        dry_run: Callable[[str], None] | None = None,
    ) -> None:
        self._client = client
        self._publishers = publishers
        self._monotonic = monotonic
        self._now = now
        self._instance = instance
        self._watched = watched
        self._rehearsal = rehearsal
        self._show = dry_run
        self._shown: dict[tuple[str, str], str] = {}
        self._absences = Absences()
        self._budget = Budget()
        self._children = Children(Showing(client, dry_run) if dry_run else client)
        self._pending: dict[str, list[Mapping[str, Any]]] = {}
        self._told: set[tuple[str, str, str]] = set()
        self.catalogue = BUILT_IN
        self._looks: list[float] = []
        self.reports: dict[str, Report] = {}
        """What was found out about each topology when it was last brought up to date, by name."""

    def reconcile(
        self, topologies: Sequence[Topology], nodes: Table | Sequence[NodeFacts], workloads: Workloads
    ) -> None:
        """Reconcile all topologies over all nodes of the cluster; see `reports`.

        Raises the first KubeError, after all had their turn, and NotLeading at once: the rest is another's to do.
        """
        for gone in set(self._pending) - {topology.uid for topology in topologies}:
            del self._pending[gone]
            self._shown = {key: text for key, text in self._shown.items() if key[0] != gone}
            self._absences.forget(gone)
            self._told = {each for each in self._told if each[0] != gone}
        self._looks.clear()
        latest = [self._latest(topology) for topology in topologies]
        asked = resolve({each.name: each.last_levels for each in latest}, workloads.needs(), self.catalogue)
        everything = table_of(nodes, self.catalogue.placeholders)
        shared = overlaps(latest, everything)
        self.reports = {name: report for name, report in self.reports.items() if name in asked}
        failed: KubeError | None = None
        for topology in latest:
            try:
                self._one(
                    topology, everything, asked[topology.name], latest, shared[topology.name], listed=workloads.synced
                )
            except NotLeaderError:
                raise
            except KubeError as error:
                log.warning("ClusterTopology %s: %s", topology.name, error)
                failed = failed or error
        if failed:
            raise failed

    def wait_for_nodes(self, topologies: Sequence[Topology], why: KubeError) -> None:
        """Say of topologies of which nothing has been said yet that the nodes cannot be listed. Raises KubeError.

        What was said of the others stands: it is no evidence of anything that nodes cannot be read.
        """
        for topology in map(self._latest, topologies):
            if previous(topology.status, LEVELS_AVAILABLE) is None:
                conditions = stamped([unsynced(str(why))], topology.status, topology.generation, self._now())
                status = {"observedGeneration": topology.generation, "conditions": conditions}
                self._write(topology, {**topology.status, **status})

    def next_deadline(self, topologies: Sequence[Topology]) -> float | None:
        """Seconds until a level is gone for its grace period or a publisher wants another look; None: neither."""
        now = self._monotonic()
        waits = [self._absences.next_deadline(topology.uid, topology.grace, now) for topology in topologies]
        looks = (max(due - now, 0.0) for due in self._looks)
        return min((*looks, *(wait for wait in waits if wait is not None)), default=None)

    def _latest(self, topology: Topology) -> Topology:
        """The topology with the status that we wrote last, while the watch still shows what was there before it."""
        pending = self._pending.setdefault(topology.uid, [])
        if topology.status not in pending:  # somebody else wrote, or this is the first look
            pending[:] = [topology.status]
        del pending[: pending.index(topology.status)]
        return replace(topology, status=pending[-1])

    def _one(
        self,
        topology: Topology,
        nodes: Table,
        asked: Resolved,
        everything: Sequence[Topology],
        shared: Overlaps,
        *,
        listed: bool,
    ) -> None:
        demand = demand_of(asked, topology.status, listed=listed)
        now = self._monotonic()
        assessment = assess(topology, nodes, self._absences, now, demand.required, demand.preferred, self.catalogue)
        children = self._children.keep(topology, assessment.segments, everything, self._absences, now)
        publish = partial(self._publish, topology, assessment.publishable)
        published, wanted = self._watched.decide(publish) if self._watched else publish()
        self._tell_differences(topology, published)
        now = self._monotonic()
        self._looks += [now + each.again_in for each in published if each.again_in is not None]
        conditions = conditions_of(
            topology, assessment, published, anything_served=wanted, shared=shared, children=children
        )
        status = status_of(topology, assessment, published, self._now(), conditions, demand, children)
        self._hint(topology, assessment)
        if status != topology.status:
            self._write(topology, status)
            self._announce(topology, announcements(topology, status, asked))
        workloads = {**dict.fromkeys(topology.required, 0), **demand.required}
        self.reports[topology.name] = report(assessment, conditions, published, workloads)

    def _publish(self, topology: Topology, levels: Sequence[Level] | None) -> tuple[list[Published], bool]:
        """What the publishers say, and whether the cluster serves something that is wanted."""
        served = [publisher for publisher in self._publishers if publisher.served()]
        published = [said for each in served for said in self._turn_to(each, topology, levels)]
        return published, any(topology.publish.get(each.name) != "Never" for each in served)

    def _turn_to(self, publisher: Publisher, topology: Topology, levels: Sequence[Level] | None) -> list[Published]:
        mode = topology.publish.get(publisher.name, "Auto")
        rehearsal = self._rehearsal if self._show or mode == DRY_RUN else None
        if mode == "Never":
            left = rehearsal.retract(publisher.name, topology) if rehearsal else publisher.retract(topology)
            return [left] if left else []
        if not levels or (mode == DRY_RUN and rehearsal is None):
            return _standing(publisher.name, publisher.group, topology)
        if rehearsal:
            return [rehearsal.publish(publisher.name, topology, levels)]
        return [publisher.publish(topology, levels)]

    def _tell_differences(self, topology: Topology, published: Sequence[Published]) -> None:
        """Show what a rehearsal found, once for each change of it."""
        for each in published:
            text = (
                f"{each.handle} {each.message.splitlines()[0]}\n{each.diff}".rstrip() if each.reason == DRY_RUN else ""
            )
            if self._shown.get((topology.uid, each.handle), "") != text:
                self._shown[topology.uid, each.handle] = text
                if text:
                    (self._show or log.info)(text)

    def _write(self, topology: Topology, status: dict[str, Any]) -> None:
        if self._show:
            self._show(unified({"status": topology.status}, {"status": status}, f"{KIND.lower()}/{topology.name}"))
            self._pending[topology.uid].append(status)
            return
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": topology.name, "uid": topology.uid},
            "status": status,
        }
        try:
            self._client.call(apply(f"{PATH}/{topology.name}/status", body, MANAGER, force=True))
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise
            log.info("ClusterTopology %s is gone", topology.name)
            return
        self._pending[topology.uid].append(status)

    def _announce(self, topology: Topology, news: Sequence[Announcement]) -> None:
        """Record the Events that the budget has room for; the condition tells the rest."""
        told = [each for each in news if self._budget.spend(self._monotonic())]
        for each in told:
            self._tell(topology, each)
        if len(told) < len(news):
            log.warning(
                "ClusterTopology %s: %d Events of %d are not recorded: too many in a short time",
                topology.name,
                len(news) - len(told),
                len(news),
            )

    def _hint(self, topology: Topology, assessment: Assessment) -> None:
        """Log each hint once."""
        for hint in assessment.hints:
            known = (topology.uid, hint.key, hint.reason)
            if known not in self._told:
                self._told.add(known)
                log.warning("ClusterTopology %s: %s", topology.name, hint.message)

    def _tell(self, topology: Topology, news: Announcement) -> None:
        """Log an announcement and record it as an Event."""
        about = f"{news.regarding['kind']} {news.regarding.get('namespace', '')}/{news.regarding['name']}"
        level = logging.WARNING if news.warning else logging.INFO
        log.log(level, "ClusterTopology %s: %s: %s", topology.name, about, news.note)
        if self._show:
            return
        kind = "Warning" if news.warning else "Normal"
        regarding = dict(news.regarding)
        request = event(regarding, kind, news.reason, news.note, REPORTER, self._instance, self._now())
        try:
            self._client.call(request)
        except NotLeaderError:
            raise
        except KubeError as error:
            # An Event is news for people: losing one must not stop the work.
            log.warning("cannot record an Event about %s: %s", about, error)


def _standing(name: str, group: str, topology: Topology) -> list[Published]:
    """What was published before and is left as it is, because nothing is known that should replace it."""
    reason = DRY_RUN if topology.publish.get(name) == DRY_RUN else "Waiting"
    return [
        Published(
            entry["apiVersion"],
            entry["kind"],
            entry["name"],
            "" if entry["inSync"] else reason,
            entry.get("message", ""),
        )
        for entry in topology.status.get("published") or ()
        if entry["apiVersion"].partition("/")[0] == group
    ]
