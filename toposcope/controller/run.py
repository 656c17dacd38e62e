"""Wires a controller together and runs it: the program behind `toposcope controller` and `python -m controller`."""

import contextlib
import functools
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.controller.election import LeaderElector, Timing
from toposcope.controller.fence import Fence, FencedClient, Leadership, NoElection
from toposcope.controller.loop import Controller
from toposcope.controller.metrics import ControllerMetrics, LeaderMetrics, LeadersView
from toposcope.controller.options import LEASE, Options
from toposcope.controller.publishers.cached_reader import Watched
from toposcope.controller.publishers.dry_run import ReadOnlyClient, Rehearsal
from toposcope.controller.publishers.grove import GrovePublisher
from toposcope.controller.publishers.immutable_topology import DELAY_SECONDS
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.controller.publishers.kueue import KueuePublisher
from toposcope.controller.reconcile import Publisher, Reconciler
from toposcope.kube.client import ApiClient, Caller, Observe
from toposcope.kube.config import Cluster, load, pod_namespace
from toposcope.kube.errors import ConfigError, KubeError
from toposcope.kube.reflector import Restores
from toposcope.telemetry.handler import new_registry, page
from toposcope.telemetry.logs import set_up
from toposcope.telemetry.server import TelemetryServer

_YOUNG: Final = 20_000
"""New objects before the youngest are looked through; Python's own 700 are a small part of one look at the nodes, whose
lists would be gone through again and again: a fifth of its time.
"""
_OLDER: Final = 10
"""How many times that before the next generation is; as Python has it."""


def look_rarely() -> None:
    """Have it so from now on, in the whole process."""
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


log = logging.getLogger("controller")

_USER_AGENT: Final = "toposcope-controller"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(options: Options) -> int:
    """Run a controller until it is told to end (or once); the program's exit code."""
    set_up(options.log_format)
    try:
        cluster = load(options.kubeconfig)
    except ConfigError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all, a traceback would hide it
        return 1
    look_rarely()
    with contextlib.ExitStack() as stack:
        return _live(options, cluster, stack)


def _live(options: Options, cluster: Cluster, stack: contextlib.ExitStack) -> int:
    """Put the parts together and let them work; `stack` ends them, the last one made first."""
    if not options.once:
        # Before any thread starts, because each inherits the mask: the one that waits for them gets these signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    registry, findings = new_registry(), new_registry()

    def leadership_changed(_leads: bool) -> None:
        leader_metrics.transitions.inc()
        controller.wake()

    metrics = ControllerMetrics(findings)
    observe = metrics.requests
    elector = _elector(options, cluster, stack, leadership_changed, observe) if options.leader_elect else None
    leadership: Leadership = elector or NoElection()
    fence = Fence(leadership)
    reader = writer = (ReadOnlyClient if options.dry_run else ApiClient)(cluster, _USER_AGENT, observe=observe)
    stack.callback(reader.close)
    if elector:
        writer = FencedClient(cluster, _USER_AGENT, _timing(options).request, fence.is_open, observe)
        stack.callback(writer.close)
    leader_metrics = LeaderMetrics(registry, leadership.may_write)
    registry.register(LeadersView(findings, fence.is_open))
    stop = threading.Event()
    restores = Restores()
    published = Watched(writer, stop, reader, metrics.watches, restores)
    reconcilers = _reconcilers(writer, published, options)
    controller = Controller(reader, reconcilers, metrics, options, stop, fence, published=published, restores=restores)

    def healthy() -> str:
        return controller.healthy() or (elector.healthy() if elector else "")

    if options.metrics_port is not None:
        try:
            scraped = functools.partial(page, registry)
            server = TelemetryServer(options.metrics_port, scraped, healthy, controller.ready)
        except OSError as error:
            log.error("--metrics-port %d: %s", options.metrics_port, error.strerror)  # noqa: TRY400 - as above
            return 1
        stack.callback(server.close)
    if options.once:
        return _once(controller)
    _on_signals(controller.end)
    if elector:
        elector.start()
    controller.run()
    return 0


def _once(controller: Controller) -> int:
    try:
        controller.once()
    except KubeError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all
        return 1
    return 0


def _reconcilers(client: ApiClient, published: Watched, options: Options) -> Callable[[], Reconciler]:
    """How to make the reconciler of a term: everything that remembers anything is made anew with it."""
    instance = f"{socket.gethostname()}-{os.getpid()}"
    # A single pass has no later one to wait for.
    delay = 0.0 if options.once else DELAY_SECONDS

    def make() -> Reconciler:
        return Reconciler(
            client,
            make_publishers(published, delay),
            time.monotonic,
            instance=instance,
            watched=published,
            rehearsal=Rehearsal(published, make_publishers, time.monotonic),
            dry_run=_show(options),
        )

    return make


def make_publishers(client: Caller, delay: float = 0.0) -> Sequence[Publisher]:
    """All publishers, in the order in which they take turns."""
    return (
        GrovePublisher(client, time.monotonic),
        KaiPublisher(client, time.monotonic, delay),
        KueuePublisher(client, time.monotonic, delay),
    )


def _show(options: Options) -> Callable[[str], None] | None:
    """Where the differences of a dry run go; None: it is none."""
    if not options.dry_run:
        return None
    return _print if options.once else log.info


def _print(text: str) -> None:
    sys.stdout.write(text.rstrip() + "\n")


def _timing(options: Options) -> Timing:
    return Timing.lasting(options.lease_seconds)


def _elector(
    options: Options, cluster: Cluster, stack: contextlib.ExitStack, changed: Callable[[bool], None], observe: Observe
) -> LeaderElector:
    """An elector that goes on until everything that `stack` holds later has ended, and gives its Lease back then."""
    client = ApiClient(cluster, _USER_AGENT, _timing(options).request, observe)
    stack.callback(client.close)
    ending = threading.Event()
    namespace = options.lease_namespace or pod_namespace() or HOME_NAMESPACE
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    elector = LeaderElector(client, namespace, LEASE, identity, ending, changed, _timing(options))
    stack.callback(elector.release)
    stack.callback(ending.set)
    return elector


def _on_signals(end: Callable[[], None]) -> None:
    """Call `end` at the first signal and end at once at the second.

    In a thread and not in a handler: that would run between any two steps of the loop, which may hold the very lock
    that `end` needs.
    """

    def wait() -> None:
        log.info("ending, because of %s", signal.Signals(signal.sigwait(_SIGNALS)).name)
        end()
        os._exit(128 + signal.sigwait(_SIGNALS))

    threading.Thread(target=wait, name="signals", daemon=True).start()
