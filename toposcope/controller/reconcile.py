"""One pass: assess every ClusterTopology, publish, write its status, record Events."""

import logging
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, Protocol

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.conditions import (
    LEVELS_AVAILABLE,
    Condition,
    previous,
    stamped,
    unavailable_levels,
)
from toposcope.api.levels import Level
from toposcope.controller.agent_pods import AgentPods
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.assess.availability import unsynced
from toposcope.controller.assess.rebuilds import FabricHistory, Rebuild
from toposcope.controller.assess.selection import Overlaps, overlaps
from toposcope.controller.events import (
    EventRateLimit,
    LevelEvent,
    condition_events,
    level_events,
    rail_events,
    rebuild_events,
)
from toposcope.controller.fence import NotLeaderError
from toposcope.controller.held_labels import HeldLabels
from toposcope.controller.metrics import Report, report
from toposcope.controller.node_plan import (
    ALL_WRITTEN,
    NodePlanWriter,
    Unwritten,
    plan_of,
    planned,
    slinky_condition,
    unwritten_annotations,
    unwritten_values,
    values_condition,
)
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.publishing.dry_run import DRY_RUN, DryRun, DryRunClient, unified
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.requirements import Resolved, resolve
from toposcope.controller.segments import SegmentTopologies
from toposcope.controller.status import (
    Demand,
    conditions_of,
    demand_of,
    fresh_rebuilds,
    left_out,
    old_schema_summary,
    reduced,
    refused_summary,
    status_of,
)
from toposcope.controller.status_schema import StatusSchema
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import LevelSize, level_sizes
from toposcope.hierarchy.effective_levels import Absences
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table, table_of
from toposcope.integrations import registry as systems
from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef
from toposcope.integrations.framework.published import MANAGER, Published
from toposcope.integrations.framework.publishing.publisher import (
    Publisher,
    Publishing,
    PublishSettings,
)
from toposcope.integrations.node_plan import NodePlan, PlannedTopology
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import apply, event
from toposcope.kube.runtime import REAL, Runtime

log = logging.getLogger(__name__)

REPORTER: Final = "controller"
MOST_TOPOLOGIES: Final = 250
"""How many ClusterTopologies are kept up to date, the oldest: more would outgrow the memory and the time of a pass."""
_PATIENCE: Final = 2.0
"""Seconds after which a pass makes way for the next if there is news."""
_UNPROCESSABLE, _UNDECLARED = 422, 500
"""What the API server answers to a status that its schema refuses, and to one with a field that it does not know."""
_USUAL: Final = frozenset({"", "Waiting"})
"""Reasons that need nobody, unless a write was refused."""


class Workloads(Protocol):
    """The level requests of the cluster's workloads."""

    @property
    def synced(self) -> bool:
        """Whether all workloads have been listed: only then is a missing request no request."""

    def level_requests(self) -> Mapping[WorkloadRef, Sequence[LevelRequest]]:
        """The requests of each workload that has some."""

    def bound_requests(self) -> Mapping[WorkloadRef, Sequence[LevelRequest]] | None:
        """Those of workloads whose constraints depend on Grove's binding; None: not all can be read now."""

    def by_value(self) -> Mapping[str, str]:
        """Who goes by the value of a label alone, by its key."""


@dataclass
class _Draft:
    """What is known of one topology before anything is written."""

    topology: Topology
    demanded: Resolved
    demand: Demand
    assessment: Assessment
    planned: PlannedTopology | None = None
    """What it asks for on nodes."""
    values: Unwritten = ALL_WRITTEN
    annotations: Unwritten = ALL_WRITTEN

    @property
    def urgent(self) -> bool:
        """Whether a required level went, or came back."""
        before = unavailable_levels(previous(self.topology.status, LEVELS_AVAILABLE))
        return before != frozenset(self.assessment.unavailable)

    @cached_property
    def sizes(self) -> tuple[LevelSize, ...]:
        """The GPUs of each level; no status needs them."""
        return level_sizes(self.assessment.effective.levels, self.assessment.selected)

    def let_nodes_go(self) -> None:
        """Work out all that takes the nodes, and drop them: drafts of hundreds of topologies lie here for a while."""
        _ = self.sizes
        self.assessment = replace(self.assessment, selected=Table(()))


class Reconciler:
    """Brings the API server up to date with the nodes. `monotonic` and `now` are its clocks.

    The status it wrote last is remembered until the watch shows it, so that one change is written
    once. The publishers read through `cached_reader`, if there is one. `dry_run` finds out what
    they would do, for topologies whose spec asks for that. `publishing` is what they
    share; `node_plan` keeps the agents' plan. With `show` every pass is a dry run: nothing is
    written, and `show` gets each difference once. `single_look` as in `Absences`.
    """

    def __init__(
        self,
        client: ApiClient,
        publishers: Sequence[Publisher],
        monotonic: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        instance: str = "",
        cached_reader: CachedReader | None = None,
        dry_run: DryRun | None = None,
        backoff: WriteBackoff | None = None,
        publishing: Publishing | None = None,
        *,
        node_plan: NodePlanWriter | None = None,
        show: Callable[[str], None] | None = None,
        single_look: bool = False,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._publishers = publishers
        self._monotonic = monotonic
        self._now = now
        self._instance = instance
        self._cached_reader = cached_reader
        self._dry_run = dry_run
        self._backoff = backoff
        self._publishing = publishing or systems.publishing(PublishSettings(runtime=runtime))
        self._show = show
        self._shown: dict[tuple[str, str], str] = {}
        """What was shown or logged last about each published resource."""
        self._agent_pods = AgentPods(client, monotonic)
        self._absences = Absences(single_look=single_look)
        self._held_labels = HeldLabels()
        self._fabric_history = FabricHistory()
        self._rebuilds: Sequence[Rebuild] = ()
        """Those that this pass has found, of all nodes."""
        self._told: dict[str, set[tuple[str, str]]] = {}
        """Rebuilds that an Event has told, by the uid of the topology."""
        self._event_rate_limit = EventRateLimit()
        self._condition_rate_limit = EventRateLimit()
        """Apart: one node without labels is news for each of many topologies, and must not silence a lost level."""
        self._segment_topologies = SegmentTopologies(
            DryRunClient(client, show) if show else WriteBackoff(client, runtime)
        )
        self._node_plan = node_plan
        self._pending: dict[str, list[Mapping[str, Any]]] = {}
        self._logged: set[tuple[str, str]] = set()
        self._left: list[str] = []
        """Topologies that the last pass did not come to, by name."""
        self._failed: KubeError | None = None
        """The first failure of this pass."""
        self.catalogue = BUILT_IN
        self.schema = StatusSchema(client, monotonic)
        """What the CRD in the cluster declares of a status."""
        self._bound: Mapping[str, Container[str]] | None = None
        """By topology: the domains that workloads require through Grove's binding; None: unknown."""
        self._due: list[float] = []
        """When publishers want another pass, in monotonic seconds."""
        self.reports: dict[str, Report] = {}
        """The findings of each topology's last pass, by name."""
        self.refused: dict[str, str] = {}
        """Why the API server refuses a topology's status, by name, until it accepts a whole one."""
        self.left_out = 0
        """How many topologies are beyond the supported number."""

    def reconcile(
        self,
        topologies: Sequence[Topology],
        nodes: Table | Sequence[NodeFacts],
        workloads: Workloads,
        changed: Callable[[], bool] | None = None,
    ) -> bool:
        """Reconcile all topologies, then raise the first KubeError; NotLeaderError at once.

        Fills `reports`.

        Where a required level went or came back comes first. With `changed`, False: the pass was
        long, and left some of the others to the next one, which begins with them, because something
        has changed or a grace period is over.
        """
        self._forget_deleted(topologies)
        self._due.clear()
        self.schema.look()
        everything = [
            self._latest(topology)
            for topology in sorted(topologies, key=attrgetter("created", "name"))
        ]
        latest = everything[:MOST_TOPOLOGIES]
        levels = {topology.name: topology.last_levels for topology in latest}
        table = table_of(nodes, self.catalogue.placeholders)
        self._held_labels.observe(table, self._monotonic())
        self._rebuilds = self._fabric_history.observe(table)
        names = self._publishing.look(latest, table)
        demands = resolve(levels, workloads.level_requests(), self.catalogue, names)
        requests = workloads.bound_requests()
        bound = None if requests is None else resolve(levels, requests, self.catalogue)
        self._bound = (
            None if bound is None else {name: asked.required for name, asked in bound.items()}
        )
        shared = overlaps(latest, table)
        self.reports = {name: report for name, report in self.reports.items() if name in demands}
        self.refused = {name: why for name, why in self.refused.items() if name in demands}
        # What Grove's workloads are bound to is no more deleted than its levels are removed.
        idle = (
            ()
            if self._bound is None
            else [topology for topology in latest if not self._bound.get(topology.name)]
        )
        by_value = workloads.by_value()
        began = self._monotonic()
        turn = {name: i for i, name in enumerate(self._left)}
        works: dict[str, Callable[[], None]] = {}
        asked: dict[str, PlannedTopology] = {}
        self._failed = None
        for topology in sorted(latest, key=lambda one: turn.get(one.name, len(turn))):
            draft = self._draft(
                topology, table, demands[topology.name], by_value, latest, listed=workloads.synced
            )
            if draft.planned:
                asked[topology.name] = draft.planned
            work = partial(self._finish, draft, everything, shared[topology.name], idle)
            if draft.urgent:
                self._try(topology.name, work)
                continue
            works[topology.name] = work
            if len(latest) > 1:
                draft.let_nodes_go()
        if self._node_plan:
            plan = plan_of(
                latest, asked, table.placeholders, complete=len(latest) == len(everything)
            )
            self._try("(node plan)", partial(self._write_plan, self._node_plan, plan, everything))
        works |= {
            topology.name: partial(self._leave_out, topology)
            for topology in everything[MOST_TOPOLOGIES:]
        }
        self.left_out = len(everything) - len(latest)
        now = self._monotonic()
        wait = self._absences.next_deadline(
            {topology.uid: topology.grace for topology in latest}, now
        )
        over = math.inf if wait is None else now + wait
        self._finish_all(works, changed if len(latest) > 1 else None, began, over)
        self._left = [*works]
        if self._cached_reader:
            waits = (
                resource.reason == "Waiting"
                for report in self.reports.values()
                for resource in report.published
            )
            self._cached_reader.blocked = any(waits)
        if self._failed:
            raise self._failed
        return not works

    def _forget_deleted(self, topologies: Sequence[Topology]) -> None:
        """Drop what is remembered of topologies that are gone."""
        for gone in set(self._pending) - {topology.uid for topology in topologies}:
            del self._pending[gone]
            self._told.pop(gone, None)
            self._shown = {key: text for key, text in self._shown.items() if key[0] != gone}
            self._absences.forget(gone)

    def _finish_all(
        self,
        works: dict[str, Callable[[], None]],
        changed: Callable[[], bool] | None,
        began: float,
        over: float,
    ) -> None:
        """Do the work on each topology, and stop in a long pass where something changed or a grace period is over."""
        for name in [*works]:
            now = self._monotonic()
            if changed and now - began > _PATIENCE and (now > over or changed()):
                return
            self._try(name, works.pop(name))

    def _try(self, name: str, work: Callable[[], None]) -> None:
        """Do the work on one topology; what fails is reported at the end of the pass.

        Raises NotLeaderError.
        """
        try:
            work()
        except NotLeaderError:
            raise
        except KubeError as error:
            log.warning("ClusterTopology %s: %s", name, error)
            self._failed = self._failed or error

    def wait_for_nodes(self, topologies: Sequence[Topology], why: KubeError) -> None:
        """Report on topologies without a status why nodes cannot be listed; others keep theirs.

        Raises KubeError.
        """
        for topology in map(self._latest, topologies):
            if previous(topology.status, LEVELS_AVAILABLE) is None:
                conditions = stamped(
                    [unsynced(str(why))], topology.status, topology.generation, self._now()
                )
                status = {"observedGeneration": topology.generation, "conditions": conditions}
                if refusal := self._write(topology, {**topology.status, **status}):
                    raise refusal

    def next_deadline(self, topologies: Sequence[Topology]) -> float | None:
        """Seconds until a level has been gone for its grace period or a publisher wants another pass; None: neither."""
        now = self._monotonic()
        wait = self._absences.next_deadline(
            {topology.uid: topology.grace for topology in topologies}, now
        )
        held = self._held_labels.next_deadline((topology.grace for topology in topologies), now)
        waits = [max(due - now, 0.0) for due in self._due]
        waits += [seconds for seconds in (wait, held) if seconds is not None]
        return min(waits, default=None)

    def _latest(self, topology: Topology) -> Topology:
        """The topology with the status that we wrote last, while the watch still shows an older one."""
        pending = self._pending.setdefault(topology.uid, [])
        if topology.status not in pending:  # somebody else wrote it, or this is the first pass
            pending[:] = [topology.status]
        # ours goes: one copy is enough
        pending[: pending.index(topology.status) + 1] = [topology.status]
        return replace(topology, status=pending[-1])

    def _draft(
        self,
        topology: Topology,
        nodes: Table,
        demanded: Resolved,
        by_value: Mapping[str, str],
        topologies: Sequence[Topology],
        *,
        listed: bool,
    ) -> "_Draft":
        demand = demand_of(demanded, topology.status, listed=listed)
        now = self._monotonic()
        bound = None if self._bound is None else self._bound[topology.name]
        assessment = assess(
            topology,
            nodes,
            self._absences,
            now,
            demand.required,
            demand.preferred,
            self.catalogue,
            bound,
            by_value,
            held=self._held_labels.table(nodes, topology.grace),
            rebuilds=self._rebuilds,
        )
        conditions = tuple(map(self._agent_pods.explained, assessment.conditions))
        assessment = replace(assessment, conditions=conditions)
        self._publishing.draw(topology, assessment.publishable, assessment.selected)
        draft = _Draft(topology, demanded, demand, assessment)
        draft.planned = planned(topology, assessment)
        if draft.planned and topology.unique:
            draft.values = unwritten_values(
                topology, draft.planned, assessment.selected, topologies
            )
        if draft.planned and topology.slinky:
            draft.annotations = unwritten_annotations(
                topology, draft.planned, assessment.selected, topologies
            )
        return draft

    def _finish(
        self,
        draft: "_Draft",
        topologies: Sequence[Topology],
        shared: Overlaps,
        idle: Sequence[Topology],
    ) -> None:
        """Publish, write the status, record Events. Raises KubeError."""
        topology, demand, assessment = draft.topology, draft.demand, draft.assessment
        now = self._monotonic()
        children = self._segment_topologies.sync(
            topology, assessment.segments, topologies, self._absences, now, idle
        )
        if self._backoff:
            schemas = self._cached_reader.schemas if self._cached_reader else 0
            self._backoff.subject = (topology.uid, topology.generation, schemas)
        publish = partial(self._publish, topology, assessment)
        published, wanted = (
            self._cached_reader.decide(publish) if self._cached_reader else publish()
        )
        self._log_published(topology, published)
        now = self._monotonic()
        self._due += [
            now + resource.again_in for resource in published if resource.again_in is not None
        ]
        on_nodes = self._about_nodes(draft)
        conditions = conditions_of(
            topology,
            assessment,
            published,
            anything_served=wanted,
            shared=shared,
            children=children,
            on_nodes=on_nodes,
        )
        if self.schema.missing:
            conditions = (*conditions[:-1], old_schema_summary(self.schema.problem))
        told = self._told.setdefault(topology.uid, set())
        fresh = fresh_rebuilds(topology, assessment, told)
        status = status_of(
            topology, assessment, published, self._now(), conditions, demand, children, told=told
        )
        status = self.schema.declared_part(status)
        self._log_hints(topology, assessment)
        refusal = None
        if status != topology.status:
            refusal = self._write(topology, status)
            self._record_events(
                topology, level_events(topology, status, draft.demanded), self._event_rate_limit
            )
            turned = condition_events(topology, status) + rail_events(topology, assessment.rails)
            self._record_events(topology, turned, self._condition_rate_limit)
        self._record_events(topology, rebuild_events(topology, fresh), self._condition_rate_limit)
        told.intersection_update(rebuild.pair for rebuild in self._rebuilds)
        told.update(rebuild.pair for rebuild in fresh)
        self._fabric_history.report(fresh)
        if refusal:
            conditions = (*conditions[:-1], refused_summary(refusal))
        else:
            self.refused.pop(topology.name, None)
        workloads = {**dict.fromkeys(topology.required, 0), **demand.required}
        self.reports[topology.name] = report(
            assessment, conditions, published, workloads, draft.sizes
        )
        if refusal:
            raise refusal

    def _about_nodes(self, draft: "_Draft") -> list[Condition]:
        """What agents have written to their Nodes for a topology, and what not yet."""
        refusal = self._node_plan.refusal(draft.topology.name) if self._node_plan else ""
        values = values_condition(draft.topology, draft.planned, draft.values, refusal)
        annotations = slinky_condition(draft.topology, draft.planned, draft.annotations, refusal)
        return [condition for condition in (values, annotations) if condition]

    def _write_plan(
        self, writer: NodePlanWriter, plan: NodePlan, topologies: Sequence[Topology]
    ) -> None:
        """Write the agents' plan. Raises KubeError."""
        writer.write(plan, topologies)
        if writer.due is not None:
            self._due.append(writer.due)

    def _leave_out(self, topology: Topology) -> None:
        """Say of one beyond the supported number that it is. Raises KubeError."""
        status = left_out(topology, MOST_TOPOLOGIES, self._now())
        if status != topology.status and (refusal := self._write(topology, status)):
            raise refusal

    def _publish(self, topology: Topology, assessment: Assessment) -> tuple[list[Published], bool]:
        """The published resources, and whether the cluster serves any kind that is wanted."""
        served = [publisher for publisher in self._publishers if publisher.served()]
        published = []
        for publisher in served:
            levels = assessment.publishable
            if publisher.keeps_retained_levels:
                levels = assessment.bindable
            published += self._publish_with(publisher, topology, levels)
        return published, any(topology.mode(publisher.name) != "Never" for publisher in served)

    def _publish_with(
        self, publisher: Publisher, topology: Topology, levels: Sequence[Level] | None
    ) -> list[Published]:
        mode = topology.mode(publisher.name)
        dry_run = self._dry_run if self._show or mode == DRY_RUN else None
        if mode == "Never":
            left = (
                dry_run.retract(publisher.name, topology)
                if dry_run
                else publisher.retract(topology)
            )
            return [left] if left else []
        if not levels or (mode == DRY_RUN and dry_run is None):
            return _from_status(publisher.name, publisher.group, topology)
        if dry_run:
            return [dry_run.publish(publisher.name, topology, levels)]
        return [publisher.publish(topology, levels)]

    def _log_published(self, topology: Topology, published: Sequence[Published]) -> None:
        """Log what keeps a resource from being in sync, and show the differences that a dry run found, each once."""
        for resource in published:
            text = resource.message if resource.reason else ""
            if resource.reason == DRY_RUN:
                text = f"{resource.handle} {resource.message.splitlines()[0]}\n{resource.diff}".rstrip()
            key = topology.uid, resource.handle
            if self._shown.get(key, "") != text:
                self._shown[key] = text
                if resource.reason == DRY_RUN:
                    (self._show or log.info)(text)
                else:
                    level = (
                        logging.INFO
                        if resource.reason in _USUAL and not resource.retry_at
                        else logging.WARNING
                    )
                    words = resource.text if resource.reason else "is in sync"
                    log.log(
                        level, "ClusterTopology %s: %s: %s", topology.name, resource.handle, words
                    )

    def _write(self, topology: Topology, status: dict[str, Any]) -> ApiError | None:
        """Write the status, or where the API server refuses it only its conditions; why it was refused.

        Raises KubeError where nothing was written, but not if the topology is gone.
        """
        if self._show:
            self._show(
                unified(
                    {"status": topology.status},
                    {"status": status},
                    f"{KIND.lower()}/{topology.name}",
                )
            )
            self._pending[topology.uid].append(status)
            return None
        try:
            self._apply(topology, status)
        except ApiError as error:
            if error.status == _UNDECLARED:
                self.schema.look_again()  # the next pass writes what the CRD declares
            if error.status != _UNPROCESSABLE:
                raise
            self.refused[topology.name] = error.message
            less = reduced(topology, status, error, self._now())
            if less != topology.status:
                self._apply(topology, less)
            return error
        return None

    def _apply(self, topology: Topology, status: dict[str, Any]) -> None:
        metadata = {"name": topology.name, "uid": topology.uid}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}
        try:
            self._client.call(apply(f"{PATH}/{topology.name}/status", body, MANAGER, force=True))
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise
            log.info("ClusterTopology %s was deleted", topology.name)
            return
        self._pending[topology.uid].append(status)

    def _record_events(
        self, topology: Topology, due: Sequence[LevelEvent], limit: EventRateLimit
    ) -> None:
        """Record as many Events as the rate limit allows; the condition covers the rest."""
        allowed = [change for change in due if limit.allow(self._monotonic())]
        for change in allowed:
            self._record(topology, change)
        if len(allowed) < len(due):
            text = "ClusterTopology %s: %d Events of %d are not recorded: too many in a short time"
            log.warning(text, topology.name, len(due) - len(allowed), len(due))

    def _log_hints(self, topology: Topology, assessment: Assessment) -> None:
        """Log each hint once for all topologies: mostly it is about the same nodes; each has its own in its status."""
        for hint in assessment.diagnostics:
            known = hint.key, hint.reason
            if known not in self._logged:
                self._logged.add(known)
                log.warning("ClusterTopology %s: %s", topology.name, hint.message)

    def _record(self, topology: Topology, due: LevelEvent) -> None:
        about = (
            f"{due.regarding['kind']} {due.regarding.get('namespace', '')}/{due.regarding['name']}"
        )
        level = logging.WARNING if due.warning else logging.INFO
        log.log(level, "ClusterTopology %s: %s: %s", topology.name, about, due.note)
        if self._show:
            return
        kind = "Warning" if due.warning else "Normal"
        request = event(
            dict(due.regarding), kind, due.reason, due.note, REPORTER, self._instance, self._now()
        )
        try:
            self._client.call(request)
        except NotLeaderError:
            raise
        except KubeError as error:
            # Losing an Event must not stop the pass.
            log.warning("cannot record an Event about %s: %s", about, error)


def _from_status(name: str, group: str, topology: Topology) -> list[Published]:
    """The published resources of the stored status, left as they are because there are no levels to replace theirs."""
    reason = DRY_RUN if topology.mode(name) == DRY_RUN else "Waiting"
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
