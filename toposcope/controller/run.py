"""Assembles a controller and runs it: the program behind `toposcope controller`."""

import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.confinement import ConfinementCheck
from toposcope.controller.election import LeaderElector, Timing
from toposcope.controller.fence import Fence, FencedClient, Leadership, NoElection
from toposcope.controller.informer import InformerFactory
from toposcope.controller.loop import Controller, collect_rarely
from toposcope.controller.metrics import ControllerMetrics, LeaderMetrics, LeaderOnly
from toposcope.controller.options import LEASE, ControllerOptions
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.publishing.dry_run import DryRunClient, PublishersDryRun, ReadOnlyClient
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.node_paths import NodePathsWriter
from toposcope.controller.writers.node_plan import NodePlanWriter
from toposcope.integrations import registry as systems
from toposcope.integrations.framework.publishing.publisher import DELAY_SECONDS, PublishSettings
from toposcope.kube.client import ApiClient, Observe
from toposcope.kube.config import load, pod_namespace
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import ConfigError, KubeError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.telemetry.logs import set_up
from toposcope.telemetry.prometheus import new_registry, page
from toposcope.telemetry.server import TelemetryServer
from toposcope.text import escaped_lines

log = logging.getLogger("controller")

_USER_AGENT: Final = "toposcope-controller"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(options: ControllerOptions) -> int:
    """Run a controller until SIGTERM (or once); the program's exit code."""
    set_up(options.log_format)
    try:
        cluster = load(options.kubeconfig)
    except ConfigError as error:
        log.error("%s", error)  # noqa: TRY400 - the message is complete, a traceback would hide it
        return 1
    collect_rarely()
    with contextlib.ExitStack() as stack:
        return _live(options, cluster, stack)


class ControllerProgram(NamedTuple):
    """A controller with all its parts; `stack` ends them."""

    controller: Controller
    elector: LeaderElector | None
    check: ConfinementCheck
    registry: CollectorRegistry
    differences: "Differences | None" = None
    """What a dry run would change; None: this is no dry run."""

    def ready(self) -> str:
        """Why it is not ready; empty if it is."""
        return self.controller.ready() or self.check.ready()

    def healthy(self) -> str:
        """What is wrong if only a restart helps."""
        stuck = self.controller.healthy()
        if not stuck and self.elector:
            stuck = self.elector.healthy()
        return stuck

    def run(self) -> None:
        """Contend for the Lease, watch and reconcile until the controller's `end`."""
        if self.elector:
            self.elector.start()
        self.check.start()
        self.controller.run()


def assemble(
    options: ControllerOptions,
    cluster: ClusterAccess,
    stack: contextlib.ExitStack,
    runtime: Runtime = REAL,
) -> ControllerProgram:
    """Put the parts together; `stack` ends them, the last one first."""
    registry, controller_registry = new_registry(), new_registry()

    def leadership_changed(_leads: bool) -> None:
        leader_metrics.transitions.inc()
        controller.wake()

    metrics = ControllerMetrics(controller_registry, runtime)
    connect = _Connections(options, cluster, stack, metrics.requests, runtime)
    elector = connect.elector(leadership_changed) if options.leader_elect else None
    leadership: Leadership = elector or NoElection()
    fence = Fence(leadership)
    reader = connect.reader()
    writer = connect.fenced(fence) if elector else reader
    stop = runtime.event()
    # Credentials other than a pod's are a person's, whom no policy confines.
    confinable = cluster.is_in_pod and not options.dry_run
    check = ConfinementCheck(reader, stop, runtime, is_active=confinable)
    leader_metrics = LeaderMetrics(registry, leadership.can_write, check.is_confined)
    registry.register(LeaderOnly(controller_registry, fence.is_open))
    published = CachedReader(writer, InformerFactory(reader, stop, metrics.watches, runtime))
    differences = _differences(options)
    controller = Controller(
        reader,
        _Terms(writer, published, options, runtime, differences).new_reconciler,
        metrics,
        options=options,
        stop=stop,
        fence=fence,
        published=published,
        runtime=runtime,
    )
    return ControllerProgram(controller, elector, check, registry, differences)


@dataclass(frozen=True, slots=True)
class _Connections:
    """Clients of the API server, each with connections of its own; `stack` closes them."""

    options: ControllerOptions
    cluster: ClusterAccess
    stack: contextlib.ExitStack
    observe: Observe
    runtime: Runtime

    def reader(self) -> ApiClient:
        """The client that lists and watches, and writes where there is no election."""
        kind = ReadOnlyClient if self.options.dry_run else ApiClient
        client = kind(self.cluster, _USER_AGENT, observe=self.observe, runtime=self.runtime)
        self.stack.callback(client.close)
        return client

    def fenced(self, fence: Fence) -> ApiClient:
        """The client that writes while this process leads."""
        client = FencedClient(
            self.cluster,
            _USER_AGENT,
            _timing(self.options).request_seconds,
            can_write=fence.is_open,
            observe=self.observe,
            runtime=self.runtime,
        )
        self.stack.callback(client.close)
        return client

    def elector(self, changed: Callable[[bool], None]) -> LeaderElector:
        """An elector that outlives all that `stack` gets after it, then releases its Lease."""
        timing = _timing(self.options)
        client = ApiClient(
            self.cluster,
            _USER_AGENT,
            timing.request_seconds,
            observe=self.observe,
            runtime=self.runtime,
        )
        self.stack.callback(client.close)
        ending = self.runtime.event()
        elector = LeaderElector(
            client,
            namespace=home_namespace(self.options),
            name=LEASE,
            identity=self.runtime.identity(),
            stop=ending,
            changed=changed,
            timing=timing,
            runtime=self.runtime,
        )
        self.stack.callback(elector.release)
        self.stack.callback(ending.set)
        return elector


def _live(options: ControllerOptions, cluster: ClusterAccess, stack: contextlib.ExitStack) -> int:
    if not options.once:
        # Before any thread starts, because threads inherit the mask: only the waiting thread gets
        # these signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    program = assemble(options, cluster, stack)
    if options.metrics_port is not None:
        try:
            scraped = functools.partial(page, program.registry)
            server = TelemetryServer(options.metrics_port, scraped, program.healthy, program.ready)
        except OSError as error:
            log.error("--metrics-port %d: %s", options.metrics_port, error.strerror)  # noqa: TRY400 - as above
            return 1
        stack.callback(server.close)
    if options.once:
        return _once(program)
    _on_signals(program.controller.end)
    program.run()
    return 0


def _once(program: ControllerProgram) -> int:
    try:
        program.controller.once()
    except KubeError as error:
        log.error("%s", error)  # noqa: TRY400 - the message is complete
        return 1
    differences = program.differences
    if differences and not differences.count:
        log.info("dry run: nothing would be written")  # to stderr: scripts look for empty output
    return 0


@dataclass(slots=True)
class Differences:
    """Shows what a dry run would write, and counts it."""

    write: Callable[[str], None]
    count: int = 0

    def show(self, text: str) -> None:
        """Show one difference."""
        self.count += 1
        self.write(text)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Makes the reconciler of each term of leadership, so that no memory outlives a term."""

    client: ApiClient
    published: CachedReader
    options: ControllerOptions
    runtime: Runtime
    differences: Differences | None

    def new_reconciler(self) -> Reconciler:
        """A reconciler that knows nothing yet."""
        runtime = self.runtime
        show = self.differences.show if self.differences else None
        # With --once there is no later pass to wait for.
        once = self.options.once
        settings = PublishSettings(
            runtime=runtime, delay=0.0 if once else DELAY_SECONDS, at_once=once
        )
        publishing = systems.publishing(settings)
        backoff = WriteBackoff(self.published, runtime)
        plan_writer = DryRunClient(self.client, show) if show else self.client
        namespace = home_namespace(self.options)
        return Reconciler(
            Wiring(
                client=self.client,
                publishers=publishing.publishers(backoff),
                runtime=runtime,
                cached_reader=self.published,
                backoff=backoff,
                dry_run=PublishersDryRun(self.published, publishing.dry_run_publishers, runtime),
                publishing=publishing,
                node_plan=NodePlanWriter(self.client, plan_writer, namespace, runtime),
                node_paths=self._node_paths(namespace),
                show=show,
                is_single_look=once,
            )
        )

    def _node_paths(self, namespace: str) -> NodePathsWriter | None:
        """What keeps the paths of all nodes, or deletes them in a term of leadership.

        A controller that somebody runs beside the cluster's own knows nothing of its flags.
        """
        if not (self.options.node_paths or self.options.leader_elect):
            return None
        show = self.differences.show if self.differences else None
        return NodePathsWriter(
            self.client,
            namespace,
            self.runtime,
            is_wanted=self.options.node_paths,
            show=show,
        )


def _differences(options: ControllerOptions) -> Differences | None:
    """The differences of a dry run; None without --dry-run."""
    if not options.dry_run:
        return None
    return Differences(_print if options.once else log.info)


def _print(text: str) -> None:
    sys.stdout.write(escaped_lines(text.rstrip()) + "\n")


def home_namespace(options: ControllerOptions) -> str:
    """Where the Lease and the agents' plan are."""
    return options.lease_namespace or pod_namespace() or HOME_NAMESPACE


def _timing(options: ControllerOptions) -> Timing:
    return Timing.lasting(options.lease_duration)


def _on_signals(end: Callable[[], None]) -> None:
    """Call `end` at the first signal, exit at the second.

    A thread waits for them, because a handler could deadlock on the loop's lock.
    """

    def wait() -> None:
        first = signal.sigwait(_SIGNALS)
        log.info("shutting down after %s", signal.Signals(first).name)
        end()
        os._exit(128 + signal.sigwait(_SIGNALS))

    REAL.thread("signals", wait)
