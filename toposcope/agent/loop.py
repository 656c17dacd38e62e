"""The agent's loop: probe, describe, publish, and when to do which. The caller does the waiting."""

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from toposcope.agent.container_runtime import RestartPolicy
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.metrics import AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.agent.options import AgentOptions
from toposcope.agent.publish import NodeEvent, NodePublisher
from toposcope.agent.rails import RailMemory
from toposcope.agent.raw import RawNode
from toposcope.agent.repairs import Repairs
from toposcope.api.label_keys import MATRIX
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.runtime import REAL, Runtime

if TYPE_CHECKING:
    from toposcope.agent.nvidia_labels import NvidiaLabelPublisher
    from toposcope.agent.slices import SliceAudit
    from toposcope.integrations.node_plan import NodePlan

log = logging.getLogger("agent")

RESYNC_SECONDS: Final = 600.0
"""How often the agent reads its own Node to revert what others changed: 17 reads a second for
10,000 agents."""
RESYNC_FACTOR: Final = (1.0, 1.2)
"""The jitter on it, so that agents that started together do not stay in step."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes: a flapping link must not become a stream of writes."""
PROBE_SECONDS: Final = 5.0
"""The least time between two probes, however many events there are."""
_FIRST_RETRY_SECONDS: Final = 5.0
_FORBIDDEN_RETRY_SECONDS: Final = 600.0
"""The longest back-off after a 401 or 403. Asking again grants no rights, but an expired token
is renewed within seconds, and an API server that has just started denies everything until it has
read its roles."""
_SILENT_SYNCS: Final = 3
_LONGEST_PROBE_SECONDS: Final = 600.0


class AgentParts(NamedTuple):
    """What an agent is made of; those that are None are not asked for."""

    options: AgentOptions
    probe: ProbeProcess
    publisher: NodePublisher
    metrics: AgentMetrics
    nvidia_labels: "NvidiaLabelPublisher | None" = None
    confinement: Confinement | None = None
    audit: "SliceAudit | None" = None


class _Answers(NamedTuple):
    """What a description follows from."""

    raw: RawNode
    baseline: str | None
    is_accepting: bool


class Agent:
    """Keeps one Node's labels and annotations equal to what its hardware shows."""

    def __init__(self, parts: AgentParts, runtime: Runtime = REAL) -> None:
        self._options = parts.options
        self._probe = parts.probe
        self._publisher = parts.publisher
        self._metrics = parts.metrics
        self._nvidia_labels = parts.nvidia_labels
        self._confinement = parts.confinement
        self._audit = parts.audit
        self._runtime = runtime
        self._rng = runtime.rng()
        self._restart = RestartPolicy()
        self._rails = RailMemory(runtime)
        self._repairs = Repairs(runtime, self._rng)
        interval = parts.options.interval
        retries = Schedule(
            first_seconds=_FIRST_RETRY_SECONDS,
            longest_seconds=interval,
            longest_denied_seconds=max(_FORBIDDEN_RETRY_SECONDS, interval),
        )
        self._backoff = Backoff(retries, self._rng)

        started = runtime.monotonic()
        self._began = started
        """When the last sync began."""
        self._synced = started
        """When it ended."""
        self._refresh_at = started
        self._write_at = started
        if not parts.options.once:
            self._write_at += self._rng.uniform(0.0, parts.options.spread)
        self._nvidia_labels_at = started
        self._next_plan: NodePlan | None = None
        self._plan_at: float | None = None
        """When the next plan is adopted."""

        self._has_published = False
        self._answers: _Answers | None = None
        self._description: Description | None = None
        """What the last answers mean."""
        self._last_sentence = ""
        self._last_error = ""

    def sync(self) -> bool:
        """Probe once and publish if a write is allowed by now.

        Whether both hardware and API server answered.
        """
        self._began = self._runtime.monotonic()
        self._adopt_plan()
        repairing = self._begin_repair()
        writes_before = self._metrics.publishes["written"]
        node_known = self._refresh()
        description = self._probe_once()
        published = node_known and self._publish(description)
        if published and self._nvidia_labels:
            self._publish_nvidia_labels(self._nvidia_labels, description)
        if self._has_published and self._confinement:
            self._check(self._confinement)
        self._synced = self._runtime.monotonic()
        if repairing and self._metrics.publishes["written"] > writes_before:
            self._repairs.note_repair()
        return published and not description.problem

    # Probe.

    def _probe_once(self) -> Description:
        began = self._runtime.monotonic()
        try:
            raw = self._probe.probe()
            self._restart.observe(raw, self._runtime.monotonic())
            description = self._describe(raw)
        except ProbeError as error:
            description = unknown(error.reason, str(error))
        seconds = self._runtime.monotonic() - began
        self._metrics.description = description
        if description.problem:
            self._metrics.probe_failed(description.reason, seconds)
        else:
            self._metrics.probe_succeeded(seconds, self._unix_time())
        self._log(description)
        return description

    def _log(self, description: Description) -> None:
        """Log what the last probe found if that is news: at rest nothing is logged."""
        sentence = description.sentence
        if sentence == self._last_sentence:
            return
        self._last_sentence = sentence
        level = logging.WARNING if description.problem else logging.INFO
        log.log(level, "%s", sentence)

    # Describe.

    def _describe(self, raw: RawNode) -> Description:
        """What the answers mean, with what the switches and the node's ResourceSlices say."""
        description = self._meaning_of(raw)
        if self._audit:
            description = self._audit.join(description)
        return self._rails.join(
            description, self._publisher.annotations, is_reset=self._options.accept_degraded
        )

    def _meaning_of(self, raw: RawNode) -> Description:
        """What the answers mean; kept while they are the same, as they are at rest."""
        answers = _Answers(raw, self._publisher.baseline, self._is_accepting())
        if self._description is None or answers != self._answers:
            self._description = describe(
                raw, self._options.node_name, answers.baseline, is_accepting=answers.is_accepting
            )
            self._answers = answers
        return self._description

    def _is_accepting(self) -> bool:
        """Whether the flag accepts the node's present state, or somebody deleted the baseline.

        An agent writes the baseline together with the matrix, so a Node that has only the latter
        has lost the former.
        """
        if self._options.accept_degraded:
            return True
        return self._publisher.baseline is None and MATRIX in self._publisher.annotations

    # Publish.

    def _refresh(self) -> bool:
        """Read the Node when that is due; whether it is known.

        Its baseline decides what degraded means.
        """
        if self._runtime.monotonic() < self._refresh_at:
            return True
        try:
            self._publisher.refresh()
        except KubeError as error:
            self._failed(error)
            return False
        pause = RESYNC_SECONDS * self._rng.uniform(*RESYNC_FACTOR)
        self._refresh_at = self._runtime.monotonic() + pause
        return True

    def _publish(self, description: Description) -> bool:
        """Publish if that is needed and allowed by now; whether the API server answered."""
        if not self._publisher.is_pending(description):
            self._succeeded("unchanged")
            return True
        if self._runtime.monotonic() < self._write_at:
            self._metrics.published("throttled", self._unix_time())
            return True  # it is written as soon as that is allowed
        try:
            events = self._publisher.publish(description)
        except KubeError as error:
            self._failed(error)
            return False
        pause = min(WRITE_SECONDS, self._options.interval)
        self._write_at = self._runtime.monotonic() + pause
        if events is None:
            self._succeeded("unchanged")
            return True
        self._succeeded("written")
        log.info("node %s labelled", self._options.node_name)
        for event in events:
            self._record(event)
        return True

    def _record(self, event: NodeEvent) -> None:
        level = logging.WARNING if event.kind == "Warning" else logging.INFO
        log.log(level, "%s: %s", event.reason, event.note)
        try:
            self._publisher.record_event(event)
        except KubeError as error:
            log.warning("cannot record an Event: %s", explain(error))

    def _publish_nvidia_labels(
        self, nvidia_labels: "NvidiaLabelPublisher", description: Description
    ) -> None:
        """Publish the labels that others may own; our own do not depend on it."""
        if not self._has_published or self._runtime.monotonic() < self._nvidia_labels_at:
            return
        try:
            if nvidia_labels.publish(description, self._publisher.metadata):
                self._publisher.refresh()
        except KubeError as error:
            log.warning(
                "cannot publish nvidia.com/ labels on node %s: %s",
                self._options.node_name,
                explain(error),
            )
            self._nvidia_labels_at = self._runtime.monotonic() + RESYNC_SECONDS
            # the owners are read again before the next attempt
            self._refresh_at = self._nvidia_labels_at

    def _check(self, confinement: Confinement) -> None:
        """Try, when it is time, whether the admission policies confine us."""
        news = confinement.check()
        self._metrics.is_confined = confinement.is_confined
        if news:
            self._record(NodeEvent(*news))

    def _succeeded(self, outcome: Outcome) -> None:
        """Note that the Node is up to date."""
        self._metrics.published(outcome, self._unix_time())
        self._has_published = True
        self._backoff.reset()
        if self._last_error:
            log.info("node %s is up to date again", self._options.node_name)
        self._last_error = ""

    def _failed(self, error: KubeError) -> None:
        """Note a failed request, and when to retry."""
        self._metrics.published(_outcome_of(error), self._unix_time())
        message = explain(error)
        if message != self._last_error:  # an hour without an API server is one line, not sixty
            log.warning("cannot publish on node %s: %s", self._options.node_name, message)
        self._last_error = message
        pause = self._backoff.failed(error)
        retry_at = self._runtime.monotonic() + pause
        self._write_at = retry_at
        self._refresh_at = retry_at

    def _unix_time(self) -> float:
        return self._runtime.now().timestamp()

    # When.

    def node_changed(self) -> None:
        """Others changed keys of ours.

        Repair them within seconds, and ever later if that goes on.
        """
        if self._has_published:
            self._repairs.request()

    def _begin_repair(self) -> bool:
        """Whether this sync repairs what others changed: it reads and writes the Node at once."""
        next_sync = self._began + PROBE_SECONDS
        if not self._repairs.begin(before=next_sync):
            return False
        if not self._backoff.failures:
            # else the Node is read as soon as the server may be asked again
            self._refresh_at = self._write_at = self._runtime.monotonic()
        return True

    def plan_changed(self, plan: "NodePlan") -> None:
        """Follow another plan after a random part of the spread.

        All agents hear of it at the same moment.
        """
        self._next_plan = plan
        if self._plan_at is None:
            spread = 0.0 if self._options.once else self._options.spread
            pause = self._rng.uniform(0.0, spread)
            now = self._runtime.monotonic()
            self._plan_at = now + pause

    def _adopt_plan(self) -> None:
        if self._next_plan is None or self._plan_at is None:
            return
        if self._began >= self._plan_at:
            self._publisher.follow(self._next_plan)
            self._plan_at = None

    def seconds_until_sync(self) -> float:
        """Seconds until the next sync is due, if nothing happens before."""
        now = self._runtime.monotonic()
        due = self._synced + self._options.interval
        # a write is due as soon as it is allowed; the probe may have outlasted that
        if self._write_at > self._began:
            due = min(due, self._write_at)
        if self._has_published and self._confinement:
            due = min(due, now + self._confinement.seconds_until_due())
        if self._plan_at is not None:
            due = min(due, self._plan_at)
        pause = max(due - now, self.min_pause())
        if self._repairs.due_at is None:
            return pause
        # repairs have a limit of their own
        return min(pause, max(0.0, self._repairs.due_at - now))

    def min_pause(self) -> float:
        """Seconds until a sync is allowed: a storm of events must not become a storm of probes."""
        shortest = min(PROBE_SECONDS, self._options.interval)
        allowed_at = self._synced + shortest
        now = self._runtime.monotonic()
        return max(0.0, allowed_at - now)

    # Health.

    def healthy(self) -> str:
        """What is wrong when only a restart would help.

        Either the loop hangs, or the container is outdated.
        """
        silent = self._runtime.monotonic() - self._synced
        if silent > _SILENT_SYNCS * self._options.interval + _LONGEST_PROBE_SECONDS:
            return f"no probe has finished for {silent:.0f} s"
        return self._restart.reason()

    def ready(self) -> str:
        """Why the agent is not ready.

        Its labels are not published yet, or the admission policies don't confine it.
        """
        if not self._has_published:
            return "this node's labels have not been published yet"
        return self._confinement.ready() if self._confinement else ""


def _outcome_of(error: KubeError) -> Outcome:
    if not isinstance(error, ApiError):
        return "failed"
    if error.is_denied:
        return "forbidden"
    if error.is_conflict or error.is_unprocessable:
        return "conflict"
    return "failed"


def explain(error: KubeError) -> str:
    """An API error, and what an admin can do about it."""
    if not isinstance(error, ApiError):
        return str(error)
    match error.status:
        case 401:
            return f"{error}; the token is invalid or has expired"
        case 403:
            cause = "RBAC"
            if "ValidatingAdmissionPolicy" in error.message:
                cause = "the ValidatingAdmissionPolicies"
            return (
                f"{error}; refused by {cause}: "
                "check what is installed under the name toposcope-agent"
            )
        case 404:
            return (
                f"{error}; does --node-name / NODE_NAME name this node as `kubectl get nodes` does?"
            )
    return str(error)
