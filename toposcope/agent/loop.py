"""The agent's loop: probe, describe, publish; and when to do which. Waiting itself is the caller's."""

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.metrics import AgentMetrics, Outcome
from toposcope.agent.nvml.supervisor import ProbeError, ProbeProcess
from toposcope.agent.options import Options
from toposcope.agent.publish import Publisher
from toposcope.agent.raw import RawNode
from toposcope.agent.restart_policy import RestartPolicy
from toposcope.kube.errors import ApiError, KubeError

if TYPE_CHECKING:
    from toposcope.agent.nvidia_labels import NvidiaLabelPublisher

log = logging.getLogger("agent")

RESYNC_SECONDS: Final = 600.0
"""How often the agent reads its own Node to repair what others changed: 10,000 agents are 17 reads a second."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes: a link that flaps must not become a stream of writes."""
PROBE_SECONDS: Final = 5.0
"""The least time between two probes, whatever events come in."""
RESYNC_FACTOR: Final = (1.0, 1.2)
"""What chance makes of that, so that agents that started together do not stay together."""
RETRY_FACTOR: Final = (0.5, 1.0)
"""The same for the pause after a failure, which grows up to the interval between probes."""
_FIRST_RETRY: Final = 5.0
_FORBIDDEN_RETRY: Final = 600.0
"""The longest pause after a refusal. Rights do not come by asking again; but a token that has just expired is renewed
within seconds, and an API server that has just started refuses what it has not read its roles for yet."""
_SILENT_TURNS: Final = 3
_LONGEST_PROBE: Final = 600.0


class Agent:
    """One agent. `now` is wall time in seconds, `monotonic` never goes back; both can be a test's."""

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
    ) -> None:
        self._options = options
        self._probe = probe
        self._publisher = publisher
        self._metrics = metrics
        self._nvidia_labels = nvidia_labels
        self._now = now
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._turned = monotonic()
        self._published = False
        self._refresh_at = monotonic()
        first = 0.0 if options.once else self._rng.uniform(0.0, options.spread)
        self._write_at = monotonic() + first
        self._nvidia_labels_at = monotonic()
        self._failures = 0
        self._said = ""
        self._trouble = ""
        self._container = RestartPolicy()
        self._described_last: tuple[RawNode, str | None, Description] | None = None

    def sync(self) -> bool:
        """Probe once and publish what may be published by now; whether hardware and API server did well."""
        readable = self._refresh()
        description = self._look()
        published = readable and self._publish(description)
        if published and self._nvidia_labels:
            self._publish_nvidia_labels(self._nvidia_labels, description)
        self._turned = self._monotonic()
        return published and not description.problem

    def seconds_until_sync(self) -> float:
        """Seconds until the next turn is due, should nothing happen before."""
        due = self._turned + self._options.interval
        if self._waiting:
            due = min(due, self._write_at)
        return max(due - self._monotonic(), self.min_pause())

    def min_pause(self) -> float:
        """Seconds that the next turn has to wait in any case: a storm of events must not become a storm of probes."""
        return max(0.0, self._turned + min(PROBE_SECONDS, self._options.interval) - self._monotonic())

    @property
    def _waiting(self) -> bool:
        """Whether a write is due as soon as it may be."""
        return self._write_at > self._turned

    def _refresh(self) -> bool:
        """Read the Node when it is time to; whether it is known. What it remembers decides what degraded means."""
        if self._monotonic() < self._refresh_at:
            return True
        try:
            self._publisher.refresh()
        except KubeError as error:
            self._failed(error)
            return False
        self._refresh_at = self._monotonic() + RESYNC_SECONDS * self._rng.uniform(*RESYNC_FACTOR)
        return True

    def _look(self) -> Description:
        began = self._monotonic()
        baseline = None if self._options.accept_degraded else self._publisher.baseline
        try:
            raw = self._probe.probe()
            self._container.look(raw, self._monotonic())
            description = self._described(raw, baseline)
        except ProbeError as error:
            description = unknown(error.reason, str(error))
        took = self._monotonic() - began
        self._metrics.description = description
        if description.problem:
            self._metrics.probe_failed(description.reason, took)
        else:
            self._metrics.probe_succeeded(took, self._now())
        if description.sentence != self._said:  # at rest there is nothing to say
            log.log(logging.WARNING if description.problem else logging.INFO, "%s", description.sentence)
        self._said = description.sentence
        return description

    def _described(self, raw: RawNode, baseline: str | None) -> Description:
        """What the answers mean; at rest they are the same each time, and so is that."""
        if self._described_last is None or self._described_last[:2] != (raw, baseline):
            description = describe(raw, self._options.node_name, baseline)
            self._described_last = (raw, baseline, description)
        return self._described_last[2]

    def _publish(self, description: Description) -> bool:
        if not self._publisher.pending(description):
            self._outcome("unchanged")
            return True
        if self._monotonic() < self._write_at:
            self._metrics.published("throttled", self._now())
            return True  # it is written when it may be
        try:
            told = self._publisher.publish(description)
        except KubeError as error:
            self._failed(error)
            return False
        self._write_at = self._monotonic() + min(WRITE_SECONDS, self._options.interval)
        self._outcome("unchanged" if told is None else "written")
        if told is not None:
            log.info("node %s labelled", self._options.node_name)
        for item in told or ():
            log.log(logging.WARNING if item.kind == "Warning" else logging.INFO, "%s: %s", item.reason, item.note)
            try:
                self._publisher.record_event(item)
            except KubeError as error:
                log.warning("cannot record an Event: %s", explain(error))
        return True

    def _publish_nvidia_labels(self, nvidia_labels: "NvidiaLabelPublisher", description: Description) -> None:
        """Publish the labels that others may own; nothing of ours depends on it."""
        if not self._published or self._monotonic() < self._nvidia_labels_at:
            return
        try:
            if nvidia_labels.publish(description, self._publisher.metadata):
                self._publisher.refresh()
        except KubeError as error:
            log.warning("cannot publish nvidia.com/ labels on node %s: %s", self._options.node_name, explain(error))
            self._nvidia_labels_at = self._monotonic() + RESYNC_SECONDS
            self._refresh_at = self._nvidia_labels_at  # who owns what is read anew before the next try

    def _outcome(self, outcome: Outcome) -> None:
        """Note that the Node carries what it shall."""
        self._metrics.published(outcome, self._now())
        self._published = True
        self._failures = 0
        if self._trouble:
            log.info("node %s is up to date again", self._options.node_name)
        self._trouble = ""

    def _failed(self, error: KubeError) -> None:
        """Note a failed request, and when to try again: later each time, and not before the server allows it."""
        status = error.status if isinstance(error, ApiError) else 0
        outcome: Outcome = "forbidden" if status in (401, 403) else "conflict" if status in (409, 422) else "failed"
        self._metrics.published(outcome, self._now())
        trouble = explain(error)
        if trouble != self._trouble:  # an hour without an API server is one line, not sixty
            log.warning("cannot publish on node %s: %s", self._options.node_name, trouble)
        self._trouble = trouble
        longest = max(_FORBIDDEN_RETRY, self._options.interval) if outcome == "forbidden" else self._options.interval
        wait = min(_FIRST_RETRY * 2**self._failures, longest) * self._rng.uniform(*RETRY_FACTOR)
        self._failures = min(self._failures + 1, 10)
        if isinstance(error, ApiError):
            wait = max(wait, error.retry_after or 0.0)
        self._write_at = self._refresh_at = self._monotonic() + wait

    def healthy(self) -> str:
        """What is wrong when only a restart would help: the loop no longer turns, or the container is outdated."""
        silent = self._monotonic() - self._turned
        if silent > _SILENT_TURNS * self._options.interval + _LONGEST_PROBE:
            return f"no probe has come to an end for {silent:.0f} s"
        return self._container.outdated()

    def ready(self) -> str:
        """What is missing until this node's labels have been published once."""
        return "" if self._published else "this node's labels have not been published yet"


def explain(error: KubeError) -> str:
    """An API error with what an admin can do about it."""
    if isinstance(error, ApiError):
        match error.status:
            case 401:
                return f"{error}; the token is not valid (any more)"
            case 403:
                cause = "the ValidatingAdmissionPolicies" if "ValidatingAdmissionPolicy" in error.message else "RBAC"
                return f"{error}; refused by {cause}: check what is installed under the name toposcope-agent"
            case 404:
                return f"{error}; does --node-name / NODE_NAME name this node as `kubectl get nodes` does?"
    return str(error)
