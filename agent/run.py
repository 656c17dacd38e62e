"""The agent's life: probe, describe, publish, wait."""

import contextlib
import logging
import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from prometheus_client import CollectorRegistry

from agent.describe import Description, describe, unknown
from agent.isolation import KeeperGone, ProbeFailed, ProbeProcess
from agent.metrics import AgentMetrics
from agent.options import Options
from agent.publish import Publisher
from kube.client import ApiClient
from kube.config import load
from kube.errors import ApiError, ConfigError, KubeError
from telemetry.logs import set_up
from telemetry.server import TelemetryServer

log = logging.getLogger("agent")

RESYNC_SECONDS: Final = 600.0
"""How often the agent reads its own Node to repair what others changed: 10,000 agents are 17 reads a second."""
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
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        dice: random.Random | None = None,
    ) -> None:
        self._options = options
        self._probe = probe
        self._publisher = publisher
        self._metrics = metrics
        self._now = now
        self._monotonic = monotonic
        self._dice = dice or random.Random()  # noqa: S311 - jitter, not a secret
        self._turned = monotonic()
        self._published = False
        self._refresh_at = 0.0
        self._said = ""

    def turn(self) -> bool:
        """Probe once and publish; whether the hardware answered and the Node carries it. Raises KeeperGone."""
        description = self._look()
        published = self._tell(description)
        self._turned = self._monotonic()
        return published and not description.problem

    def _look(self) -> Description:
        began = self._monotonic()
        try:
            description = describe(self._probe.probe(), self._options.node_name)
        except ProbeFailed as error:
            description = unknown(str(error))
        self._metrics.probe_seconds.observe(self._monotonic() - began)
        self._metrics.node(description)
        if description.problem:
            self._metrics.probe_failures.inc()
        else:
            self._metrics.last_probe.set(self._now())
        self._say(description)
        return description

    def _say(self, description: Description) -> None:
        """Log what changed since the last turn; at rest there is nothing to say."""
        topology = description.topology
        if description.problem:
            line = description.problem
        elif topology is None:
            line = "no GPUs on this node: it carries no labels of ours"
        else:
            reasons = "".join(f"; {reason}" for reason in topology.reasons)
            line = (
                f"{len(topology.gpus)} GPUs, interconnect {topology.interconnect}, fabric {topology.fabric}, "
                f"shape {topology.shape}, state {topology.state}{reasons}"
            )
        if line != self._said:
            log.log(logging.WARNING if description.problem else logging.INFO, "%s", line)
        self._said = line

    def _tell(self, description: Description) -> bool:
        try:
            if self._monotonic() >= self._refresh_at:
                self._publisher.refresh()
                self._refresh_at = self._monotonic() + RESYNC_SECONDS * self._dice.uniform(1.0, 1.2)
            written = self._publisher.publish(description)
        except KubeError as error:
            self._metrics.publishes.labels("failed").inc()
            log.warning("cannot publish on node %s: %s", self._options.node_name, explain(error))
            return False
        if written:
            log.info("node %s labelled", self._options.node_name)
        self._metrics.publishes.labels("written" if written else "unchanged").inc()
        self._metrics.last_publish.set(self._now())
        self._published = True
        return True

    def healthy(self) -> str:
        """What is wrong when only a restart would help: the loop no longer turns."""
        silent = self._monotonic() - self._turned
        if silent > _SILENT_TURNS * self._options.interval + _LONGEST_PROBE:
            return f"no probe has come to an end for {silent:.0f} s"
        return ""

    def ready(self) -> str:
        """What is missing until this node's labels have been published once."""
        return "" if self._published else "this node's labels have not been published yet"


def explain(error: KubeError) -> str:
    """An API error with what an admin can do about it."""
    if isinstance(error, ApiError):
        match error.status:
            case 403:
                return f"{error}; check the ClusterRoleBinding and the ValidatingAdmissionPolicies toposcope-agent*"
            case 404:
                return f"{error}; does --node-name / NODE_NAME name this node as `kubectl get nodes` does?"
    return str(error)


def run(options: Options, probe: ProbeProcess) -> int:
    """Run an agent until it is told to end (or once); the program's exit code.

    `probe` was made before anything here starts a thread.
    """
    set_up(options.log_format)
    stop = threading.Event()
    try:
        client = ApiClient(load(options.kubeconfig), "toposcope-agent")
    except ConfigError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all, a traceback would hide it
        return 1
    registry = CollectorRegistry()
    agent = Agent(options, probe, Publisher(client, options.node_name), AgentMetrics(registry))
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        if options.metrics_port is not None:
            server = TelemetryServer(options.metrics_port, registry, agent.healthy, agent.ready)
            stack.callback(server.close)
        try:
            if options.once:
                return 0 if agent.turn() else 1
            end_on_signals(stop)
            while not stop.is_set():
                agent.turn()
                stop.wait(options.interval)
        except KeeperGone as error:
            log.error("%s; ending, so that the container is made anew", error)  # noqa: TRY400 - as above
            return 1
    # The labels stay: they describe the node, not this process.
    return 0


def end_on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT end the loop after the turn it is in."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
