"""Puts an agent together and runs it.

The program behind `toposcope agent` and `python -m agent`.
"""

import contextlib
import functools
import logging
import select
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

from toposcope.agent.loop import Agent, AgentParts, explain
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import AgentOptions
from toposcope.agent.planned import Planner
from toposcope.agent.publish import RIGHTS, NodePublisher
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load, pod_namespace
from toposcope.kube.confinement import Confinement
from toposcope.kube.errors import ConfigError, KubeError
from toposcope.telemetry.logs import set_up
from toposcope.telemetry.server import TelemetryServer

if TYPE_CHECKING:
    from toposcope.agent.nvidia_labels import NvidiaLabelPublisher
    from toposcope.agent.plan_watch import PlanWatch
    from toposcope.agent.slices import SliceAudit
    from toposcope.agent.topology_file import TopologyFile
    from toposcope.integrations.node_plan import NodePlan
    from toposcope.telemetry.handler import Page

log = logging.getLogger("agent")

_MOST_ANSWER_BYTES: Final = 4 << 20
"""Bytes.

A Node has less than the 1.5 MB that etcd takes; a broken server must not fill the container's
memory.
"""
_MOST_SIGNS: Final = 4096
_STOP, _NODE, _PLAN = b"s", b"n", b"p"


def run(options: AgentOptions, probe: ProbeProcess) -> int:
    """Run until a signal (or once); the exit code.

    `probe` was made before threads start and most modules load.
    """
    set_up(options.log_format)
    try:
        cluster = load(options.kubeconfig)
        client = ApiClient(cluster, "toposcope-agent", most_bytes=_MOST_ANSWER_BYTES)
    except ConfigError as error:
        log.error("%s", error)  # noqa: TRY400 - the message is enough, a traceback would hide it
        return 1
    planner = Planner(
        options.node_name, can_write_unique=options.unique_values, can_write_slinky=options.slinky
    )
    publisher = NodePublisher(client, options.node_name, planner=planner)
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        if options.cleanup:
            return _clean_up(publisher, options.node_name)
        metrics = AgentMetrics()
        confinement = None
        # other credentials are a person's, whom no policy confines
        if cluster.is_in_pod and not options.once:
            rights = AccountRights(RIGHTS, client.namespace)
            confinement = Confinement(client, publisher.foreign_writes, rights)
        parts = AgentParts(
            options,
            probe,
            publisher,
            metrics,
            nvidia_labels=_nvidia_label_publisher(client, options),
            confinement=confinement,
            audit=_audit(client, options),
        )
        agent = Agent(parts)
        if options.metrics_port is not None:
            try:
                scrape = functools.partial(_scrape, metrics, probe, has_pairs=options.pair_metrics)
                server = TelemetryServer(options.metrics_port, scrape, agent.healthy, agent.ready)
            except OSError as error:
                why = error.strerror
                log.error("--metrics-port %d: %s", options.metrics_port, why)  # noqa: TRY400 - same
                return 1
            stack.callback(server.close)
        if options.once:
            planned = _read_plan(client, options, agent.plan_changed)
            synced = agent.sync()
            return 0 if planned and synced else 1
        watches = _Watches(client, options, publisher, metrics, _topology_file(options))
        _run_forever(agent, probe, watches)
    # The labels stay: they describe the node, not this process.
    return 0


def _plan_watch(
    client: ApiClient, options: AgentOptions, changed: "Callable[[NodePlan], object]"
) -> "PlanWatch | None":
    """A watch of the controller's plan; None where the agent follows none."""
    if not (options.unique_values or options.slinky or options.topology_file):
        return None
    from toposcope.agent.plan_watch import PlanWatch  # noqa: PLC0415 - few want it

    return PlanWatch(client, pod_namespace() or HOME_NAMESPACE, changed)


def _topology_file(options: AgentOptions) -> "TopologyFile | None":
    """The file that the watches keep; None where it is not asked for."""
    if options.topology_file is None:
        return None
    from toposcope.agent.topology_file import TopologyFile  # noqa: PLC0415 - few want it

    return TopologyFile(options.topology_file, options.node_name)


def _read_plan(
    client: ApiClient, options: AgentOptions, changed: "Callable[[NodePlan], object]"
) -> bool:
    """Read the controller's plan, if the agent follows it; whether the API server answered."""
    watch = _plan_watch(client, options, changed)
    try:
        if watch:
            watch.read()
    except KubeError as error:
        text = "cannot read the plan of labels and annotations: %s"
        log.error(text, explain(error))  # noqa: TRY400 - as above
        return False
    return True


class _Watches(NamedTuple):
    """What the watches in threads of their own need."""

    client: ApiClient
    options: AgentOptions
    publisher: NodePublisher
    metrics: AgentMetrics
    topology_file: "TopologyFile | None" = None

    def start(
        self, node_changed: Callable[[], object], plan_changed: "Callable[[NodePlan], object]"
    ) -> None:
        """Watch the Node and, if the agent follows it, the controller's plan."""
        topology_file = self.topology_file
        if topology_file:
            topology_file.start()
        NodeWatch(
            self.client,
            self.options.node_name,
            self.publisher,
            self.metrics,
            node_changed,
            on_metadata=topology_file.node_seen if topology_file else None,
        ).start()

        def changed(plan: "NodePlan") -> None:
            if topology_file:
                topology_file.follow(plan)
            if self.options.unique_values or self.options.slinky:
                plan_changed(plan)

        plan = _plan_watch(self.client, self.options, changed)
        if plan:
            plan.start()


def _nvidia_label_publisher(
    client: ApiClient, options: AgentOptions
) -> "NvidiaLabelPublisher | None":
    if not options.nvidia_labels:
        return None
    from toposcope.agent.nvidia_labels import NvidiaLabelPublisher  # noqa: PLC0415 - few want it

    return NvidiaLabelPublisher(client, options.node_name)


def _audit(client: ApiClient, options: AgentOptions) -> "SliceAudit | None":
    if not options.audit_slices:
        return None
    from toposcope.agent.slices import SliceAudit  # noqa: PLC0415 - few want it

    return SliceAudit(client, options.node_name)


def _scrape(metrics: AgentMetrics, probe: ProbeProcess, *, has_pairs: bool) -> "Page":
    from toposcope.agent.collector import AgentCollector  # noqa: PLC0415 - see there
    from toposcope.telemetry.families import CONTENT_TYPE, exposition  # noqa: PLC0415 - same

    return exposition(
        AgentCollector(metrics, lambda: probe.worker, has_pairs=has_pairs).collect()
    ), CONTENT_TYPE


class _StoppedError(BaseException):
    """A signal ends the agent in the middle of a probe.

    Nothing that handles failures of probes may take it for one.
    """


def _run_forever(agent: Agent, probe: ProbeProcess, watches: _Watches) -> None:
    """Sync and wait until a SIGTERM or SIGINT, and do at once what the watches call for."""
    wake, waker = socket.socketpair()
    stopping: list[int] = []
    plans: list[NodePlan] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)
        waker.send(_STOP)
        if probe.is_waiting_for_answer:
            # The driver may hold the probe for a minute, and Kubernetes kills this pod after ten
            # seconds.
            raise _StoppedError

    def send(sign: bytes) -> None:
        with contextlib.suppress(OSError):  # the agent ends
            waker.send(sign)

    def plan_changed(plan: "NodePlan") -> None:
        plans.append(plan)
        send(_PLAN)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)

    def woken(seconds: float) -> bool:
        """Whether a stop or a watch's call came within `seconds`."""
        if not select.select([wake], [], [], seconds)[0]:
            return False
        signs = wake.recv(_MOST_SIGNS)
        if _NODE in signs:
            agent.node_changed()
        if _PLAN in signs:
            agent.plan_changed(plans[-1])
            del plans[:-1]
        return True

    with wake, waker:
        watches.start(lambda: send(_NODE), plan_changed)
        with contextlib.suppress(_StoppedError):
            follow(agent, lambda: bool(stopping), lambda seconds: probe.wait(seconds, wake), woken)


def follow(
    agent: Agent,
    stopping: Callable[[], bool],
    event: Callable[[float], str],
    woken: Callable[[float], bool],
) -> None:
    """Sync and wait until `stopping`.

    `event` waits some seconds for a reason to probe, in words, or for a wake-up;
    `woken` waits for a wake-up only, and says whether it came.
    """
    while not stopping():
        agent.sync()
        happened = ""
        while not (stopping() or happened) and (seconds_left := agent.seconds_until_sync()) > 0:
            happened = event(seconds_left)
            woken(0.0)
        if happened:
            log.info("probing immediately: %s", happened)
            while (
                not stopping() and (seconds_left := agent.min_pause()) > 0 and woken(seconds_left)
            ):
                pass


def _clean_up(publisher: NodePublisher, node_name: str) -> int:
    try:
        count = publisher.cleanup()
    except KubeError as error:
        log.error("cannot clean node %s: %s", node_name, explain(error))  # noqa: TRY400 - as above
        return 1
    log.info("node %s: %d labels and annotations removed", node_name, count)
    return 0
