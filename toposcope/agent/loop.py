"""The agent's loop: probe, describe, publish, and when to do which. The caller does the waiting."""

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from toposcope.agent.container_runtime import RestartPolicy
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.metrics import AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.agent.options import Options
from toposcope.agent.publish import NodeEvent, Publisher
from toposcope.agent.rails import RailMemory
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import MATRIX
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ApiError, KubeError

if TYPE_CHECKING:
    from toposcope.agent.nvidia_labels import NvidiaLabelPublisher
    from toposcope.agent.slices import SliceAudit
    from toposcope.integrations.node_plan import NodePlan

log = logging.getLogger("agent")

RESYNC_SECONDS: Final = 600.0
"""How often the agent reads its own Node to revert what others changed: 17 reads a second for 10,000 agents."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes: a flapping link must not become a stream of writes."""
PROBE_SECONDS: Final = 5.0
"""The least time between two probes, however many events there are."""
RESYNC_FACTOR: Final = (1.0, 1.2)
"""The jitter on it, so that agents that started together do not stay in step."""
RETRY_FACTOR: Final = (0.5, 1.0)
"""The jitter on the back-off after a failure, which grows up to the interval between probes."""
_FIRST_RETRY: Final = 5.0
_FORBIDDEN_RETRY: Final = 600.0
"""The longest back-off after a 401 or 403. Asking again grants no rights, but an expired token
is renewed within seconds, and an API server that has just started denies everything until it has
read its roles."""
_REPAIR_SECONDS: Final = 4.0
"""Within which the agent repairs what others changed."""
_REPAIR_FACTOR: Final = (0.1, 1.0)
"""The jitter on it, so that thousands of agents whose labels are removed together do not write together."""
_QUICK_REPAIRS: Final = 3
"""So many repairs come at once; another writer may want something else for ever, and each further one waits longer."""
_CALM_SECONDS: Final = 1200.0
"""After so long without a repair the next one is quick again."""
_SILENT_SYNCS: Final = 3
_LONGEST_PROBE: Final = 600.0


class Agent:
    """One agent.

    `now` is wall time in seconds, `monotonic` never goes back; tests pass clocks of their own.
    """

    def __init__(
        self,
        options: Options,
        probe: ProbeProcess,
        publisher: Publisher,
        metrics: AgentMetrics,
        nvidia_labels: "NvidiaLabelPublisher | None" = None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        confinement: Confinement | None = None,
        audit: "SliceAudit | None" = None,
    ) -> None:
        self._options = options
        self._probe = probe
        self._publisher = publisher
        self._metrics = metrics
        self._nvidia_labels = nvidia_labels
        self._confinement = confinement
        self._audit = audit
        self._now = now
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._began = self._synced = monotonic()
        self._published = False
        self._refresh_at = monotonic()
        first = 0.0 if options.once else self._rng.uniform(0.0, options.spread)
        self._write_at = monotonic() + first
        self._nvidia_labels_at = monotonic()
        self._next_plan: NodePlan | None = None
        self._plan_at: float | None = None
        """When the next plan is adopted."""
        self._repair_at: float | None = None
        self._repaired_at = -_CALM_SECONDS
        self._repairs = 0
        self._failures = 0
        self._last_sentence = ""
        self._last_error = ""
        self._restart = RestartPolicy()
        self._rails = RailMemory(monotonic)
        self._last_described: tuple[RawNode, str | None, bool, Description] | None = None

    def sync(self) -> bool:
        """Probe once and publish if a write is allowed by now; whether both hardware and API server answered."""
        self._began = self._monotonic()
        self._adopt_plan()
        soon = self._began + PROBE_SECONDS  # until then there is no other turn
        repairing = self._repair_at is not None and soon >= self._repair_at
        if repairing:
            self._repair_at = None
            if not self._failures:  # else the Node is read as soon as the server may be asked again
                self._refresh_at = self._write_at = self._monotonic()
        writes = self._metrics.publishes["written"]
        readable = self._refresh()
        description = self._probe_once()
        published = readable and self._publish(description)
        if published and self._nvidia_labels:
            self._publish_nvidia_labels(self._nvidia_labels, description)
        if self._published and self._confinement:
            self._check(self._confinement)
        self._synced = self._monotonic()
        if repairing and self._metrics.publishes["written"] > writes:
            self._repairs, self._repaired_at = self._repairs + 1, self._synced
        return published and not description.problem

    def node_changed(self) -> None:
        """Others changed keys of ours: repair them within seconds, and ever later if that goes on."""
        if self._repair_at is None and self._published:
            if self._monotonic() - self._repaired_at > _CALM_SECONDS:
                self._repairs = 0
            longest = _REPAIR_SECONDS * 2 ** min(max(0, self._repairs - _QUICK_REPAIRS), 10)
            self._repair_at = self._monotonic() + min(longest, RESYNC_SECONDS) * self._rng.uniform(
                *_REPAIR_FACTOR
            )

    def plan_changed(self, plan: "NodePlan") -> None:
        """Follow another plan after a random part of the spread: all agents hear of it at the same moment."""
        self._next_plan = plan
        if self._plan_at is None:
            spread = 0.0 if self._options.once else self._options.spread
            self._plan_at = self._monotonic() + self._rng.uniform(0.0, spread)

    def _adopt_plan(self) -> None:
        if (
            self._next_plan is not None
            and self._plan_at is not None
            and self._began >= self._plan_at
        ):
            self._publisher.follow(self._next_plan)
            self._plan_at = None

    def seconds_until_sync(self) -> float:
        """Seconds until the next sync is due, if nothing happens before."""
        due = self._synced + self._options.interval
        # a write is due as soon as it is allowed; the probe may have outlasted that
        if self._write_at > self._began:
            due = min(due, self._write_at)
        if self._published and self._confinement:
            due = min(due, self._monotonic() + self._confinement.seconds_until_due())
        if self._plan_at is not None:
            due = min(due, self._plan_at)
        pause = max(due - self._monotonic(), self.min_pause())
        if self._repair_at is None:
            return pause
        # repairs have a limit of their own
        return min(pause, max(0.0, self._repair_at - self._monotonic()))

    def min_pause(self) -> float:
        """Seconds until a sync is allowed at all: a storm of events must not become a storm of probes."""
        return max(
            0.0, self._synced + min(PROBE_SECONDS, self._options.interval) - self._monotonic()
        )

    def _refresh(self) -> bool:
        """Read the Node when that is due; whether it is known.

        Its baseline decides what degraded means.
        """
        if self._monotonic() < self._refresh_at:
            return True
        try:
            self._publisher.refresh()
        except KubeError as error:
            self._failed(error)
            return False
        self._refresh_at = self._monotonic() + RESYNC_SECONDS * self._rng.uniform(*RESYNC_FACTOR)
        return True

    def _probe_once(self) -> Description:
        began = self._monotonic()
        try:
            raw = self._probe.probe()
            self._restart.observe(raw, self._monotonic())
            description = self._described(raw, self._publisher.baseline, accept=self._accepting())
            description = self._audit.join(description) if self._audit else description
            anew = self._options.accept_degraded
            description = self._rails.join(description, self._publisher.annotations, anew=anew)
        except ProbeError as error:
            description = unknown(error.reason, str(error))
        took = self._monotonic() - began
        self._metrics.description = description
        if description.problem:
            self._metrics.probe_failed(description.reason, took)
        else:
            self._metrics.probe_succeeded(took, self._now())
        if description.sentence != self._last_sentence:  # at rest nothing is logged
            log.log(
                logging.WARNING if description.problem else logging.INFO, "%s", description.sentence
            )
        self._last_sentence = description.sentence
        return description

    def _accepting(self) -> bool:
        """Whether the node's present state is accepted: by the flag, or because somebody deleted the baseline.

        An agent writes the baseline together with the matrix, so a Node that has only the latter has lost the former.
        """
        forgotten = self._publisher.baseline is None and MATRIX in self._publisher.annotations
        return self._options.accept_degraded or forgotten

    def _described(self, raw: RawNode, baseline: str | None, *, accept: bool) -> Description:
        """What the answers mean; kept while they are the same, as they are at rest."""
        if self._last_described is None or self._last_described[:3] != (raw, baseline, accept):
            description = describe(raw, self._options.node_name, baseline, accept=accept)
            self._last_described = (raw, baseline, accept, description)
        return self._last_described[3]

    def _publish(self, description: Description) -> bool:
        if not self._publisher.pending(description):
            self._outcome("unchanged")
            return True
        if self._monotonic() < self._write_at:
            self._metrics.published("throttled", self._now())
            return True  # it is written as soon as that is allowed
        try:
            events = self._publisher.publish(description)
        except KubeError as error:
            self._failed(error)
            return False
        self._write_at = self._monotonic() + min(WRITE_SECONDS, self._options.interval)
        self._outcome("unchanged" if events is None else "written")
        if events is not None:
            log.info("node %s labelled", self._options.node_name)
        for event in events or ():
            self._record(event)
        return True

    def _record(self, event: NodeEvent) -> None:
        log.log(
            logging.WARNING if event.kind == "Warning" else logging.INFO,
            "%s: %s",
            event.reason,
            event.note,
        )
        try:
            self._publisher.record_event(event)
        except KubeError as error:
            log.warning("cannot record an Event: %s", explain(error))

    def _check(self, confinement: Confinement) -> None:
        """Try, when it is time, whether the admission policies confine us."""
        news = confinement.check()
        self._metrics.confined = confinement.confined
        if news:
            self._record(NodeEvent(*news))

    def _publish_nvidia_labels(
        self, nvidia_labels: "NvidiaLabelPublisher", description: Description
    ) -> None:
        """Publish the labels that others may own; our own do not depend on it."""
        if not self._published or self._monotonic() < self._nvidia_labels_at:
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
            self._nvidia_labels_at = self._monotonic() + RESYNC_SECONDS
            # the owners are read again before the next attempt
            self._refresh_at = self._nvidia_labels_at

    def _outcome(self, outcome: Outcome) -> None:
        """Note that the Node is up to date."""
        self._metrics.published(outcome, self._now())
        self._published = True
        self._failures = 0
        if self._last_error:
            log.info("node %s is up to date again", self._options.node_name)
        self._last_error = ""

    def _failed(self, error: KubeError) -> None:
        """Note a failed request, and when to retry: with back-off, and not before the server allows it."""
        status = error.status if isinstance(error, ApiError) else 0
        outcome: Outcome = (
            "forbidden"
            if status in (401, 403)
            else "conflict"
            if status in (409, 422)
            else "failed"
        )
        self._metrics.published(outcome, self._now())
        message = explain(error)
        if message != self._last_error:  # an hour without an API server is one line, not sixty
            log.warning("cannot publish on node %s: %s", self._options.node_name, message)
        self._last_error = message
        longest = (
            max(_FORBIDDEN_RETRY, self._options.interval)
            if outcome == "forbidden"
            else self._options.interval
        )
        wait = min(_FIRST_RETRY * 2**self._failures, longest) * self._rng.uniform(*RETRY_FACTOR)
        self._failures = min(self._failures + 1, 10)
        if isinstance(error, ApiError):
            wait = max(wait, error.retry_after or 0.0)
        self._write_at = self._refresh_at = self._monotonic() + wait

    def healthy(self) -> str:
        """What is wrong when only a restart would help: the loop hangs, or the container is outdated."""
        silent = self._monotonic() - self._synced
        if silent > _SILENT_SYNCS * self._options.interval + _LONGEST_PROBE:
            return f"no probe has finished for {silent:.0f} s"
        return self._restart.reason()

    def ready(self) -> str:
        """Why the agent is not ready: its labels are not published yet, or the admission policies don't confine it."""
        if not self._published:
            return "this node's labels have not been published yet"
        return self._confinement.ready() if self._confinement else ""


def explain(error: KubeError) -> str:
    """An API error, and what an admin can do about it."""
    if isinstance(error, ApiError):
        match error.status:
            case 401:
                return f"{error}; the token is not valid (any more)"
            case 403:
                cause = (
                    "the ValidatingAdmissionPolicies"
                    if "ValidatingAdmissionPolicy" in error.message
                    else "RBAC"
                )
                return f"{error}; refused by {cause}: check what is installed under the name toposcope-agent"
            case 404:
                return f"{error}; does --node-name / NODE_NAME name this node as `kubectl get nodes` does?"
    return str(error)
