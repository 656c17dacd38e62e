"""Faults of the controllers and of the Lease between them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tools.chaos.faults.model import Fault, Scope

if TYPE_CHECKING:
    from tools.chaos.world import World

_LEASE = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases/toposcope-controller"


def _kill_leader(world: World, _target: str) -> None:
    world.leader().program.kill()


def _start_all(world: World, _target: str) -> None:
    for actor in world.controllers:
        actor.program.start()


def _stop_leader(world: World, _target: str) -> None:
    leader = world.leader()
    world.memory["stopped leader"] = leader.name
    leader.program.signal(signal.SIGSTOP)


def _continue_leader(world: World, _target: str) -> None:
    name = world.memory.get("stopped leader")
    if name:
        world.actors[name].program.signal(signal.SIGCONT)


def _stop(world: World, target: str) -> None:
    world.actors[target].program.signal(signal.SIGSTOP)


def _continue(world: World, target: str) -> None:
    world.actors[target].program.signal(signal.SIGCONT)


def _both(world: World, _target: str) -> None:
    for actor in world.controllers:
        actor.program.kill()
    _start_all(world, "")


def _end_leader(world: World, _target: str) -> None:
    world.leader().program.kill(signal.SIGTERM)


def _delete_lease(world: World, _target: str) -> None:
    code, answer = world.api.request("DELETE", _LEASE)
    assert code in (200, 404), answer  # noqa: S101 - the server said no: it did not take place


FAULTS = (
    Fault("leader-killed", "the leader killed", Scope.CLUSTER, (2.0, 12.0), _kill_leader, _start_all),
    Fault("leader-ended", "the leader told to end (SIGTERM)", Scope.CLUSTER, (1.0, 6.0), _end_leader, _start_all),
    Fault(
        "leader-stopped",
        "the leader stopped (SIGSTOP) past its Lease, then resumed",
        Scope.CLUSTER,
        (9.0, 16.0),
        _stop_leader,
        _continue_leader,
    ),
    Fault("controller-stopped", "a controller stopped, then resumed", Scope.CONTROLLER, (2.0, 14.0), _stop, _continue),
    Fault("two-leaders", "both killed, both started at once", Scope.CLUSTER, (0.5, 1.0), _both, _start_all),
    Fault("lease-deleted", "the Lease deleted", Scope.CLUSTER, (0.5, 1.0), _delete_lease),
)
