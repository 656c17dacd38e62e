"""Faults of the API server, of etcd, and of the way between one program and the API server."""

from __future__ import annotations

import functools
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tools.chaos.faults.model import Fault, Scope
from tools.chaos.proxy import Mode

if TYPE_CHECKING:
    from tools.chaos.world import World


def _kill(name: str, world: World, _target: str) -> None:
    world.servers.kill(name)


def _stop(name: str, world: World, _target: str) -> None:
    world.servers.signal(name, signal.SIGSTOP)


def _continue(name: str, world: World, _target: str) -> None:
    world.servers.signal(name, signal.SIGCONT)


def _stop_serving(world: World, _target: str) -> None:
    _stop("kube-apiserver", world, "")
    world.turns.server_stops(datetime.now(UTC))


def _go_on_serving(world: World, _target: str) -> None:
    world.turns.server_goes_on(datetime.now(UTC))
    _continue("kube-apiserver", world, "")


def _start(world: World, _target: str) -> None:
    world.servers.start()


def _compact(world: World, _target: str) -> None:
    """Have nobody be able to go on from where it was: etcd forgets, and the API server's memory goes with it."""
    world.servers.compact()
    world.servers.kill("kube-apiserver")


def _restore(world: World, _target: str) -> None:
    if world.snapshot is None:
        raise OSError("there is no copy of etcd to go back to")
    world.servers.restore(world.snapshot)


def _switch(mode: Mode, world: World, target: str) -> None:
    world.switch(world.actors[target], mode)


def _connection(name: str, what: str, seconds: tuple[float, float], mode: Mode) -> Fault:
    heal = functools.partial(_switch, Mode.PASS)
    return Fault(name, what, Scope.PROGRAM, seconds, functools.partial(_switch, mode), heal)


FAULTS = (
    Fault(
        "api-killed",
        "kube-apiserver killed (SIGKILL), started again with an empty cache",
        Scope.CLUSTER,
        (1.0, 8.0),
        functools.partial(_kill, "kube-apiserver"),
        _start,
    ),
    Fault(
        "api-stopped",
        "kube-apiserver stopped (SIGSTOP): every connection half open",
        Scope.CLUSTER,
        (2.0, 10.0),
        _stop_serving,
        _go_on_serving,
    ),
    Fault(
        "etcd-stopped",
        "etcd stopped (SIGSTOP): the API server answers reads from its cache, or not at all",
        Scope.CLUSTER,
        (2.0, 10.0),
        functools.partial(_stop, "etcd"),
        functools.partial(_continue, "etcd"),
    ),
    Fault("etcd-killed", "etcd killed", Scope.CLUSTER, (1.0, 6.0), functools.partial(_kill, "etcd"), _start),
    Fault(
        "etcd-compacted",
        "etcd compacted, API server restarted: 410 Gone for every watch",
        Scope.CLUSTER,
        (1.0, 4.0),
        _compact,
        _start,
    ),
    Fault(
        "etcd-restored",
        "etcd set back to a copy from before the round: versions run backwards",
        Scope.CLUSTER,
        (1.0, 3.0),
        _restore,
        _start,
    ),
    _connection("half-open", "connections stay open and never carry anything again", (2.0, 12.0), Mode.SILENT),
    _connection("stalled", "nothing moves for a while, then what waited goes on", (2.0, 12.0), Mode.STALL),
    _connection("slow", "20 kB a second", (4.0, 15.0), Mode.SLOW),
    _connection("cut-mid-line", "half of each answer arrives, then a reset", (2.0, 10.0), Mode.CUT),
    _connection("refused", "every connection reset", (2.0, 12.0), Mode.REFUSE),
    _connection("throttled", "429 with Retry-After to every request", (2.0, 12.0), Mode.THROTTLE),
)
