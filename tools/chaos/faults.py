"""The faults, by name: each can be put in and taken out again, any of them together."""

import ctypes
import functools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias

import psutil

from tools.apiserver.client import APPLY, MERGE
from tools.chaos.cluster import COLLECTIONS, GROVE, KUEUE, NODES, crds, machine_node, topologies
from tools.chaos.machines import PREFIX
from tools.chaos.processes import Actor
from tools.chaos.proxy import Mode
from tools.chaos.world import World
from toposcope.api.label_keys import HOSTNAME
from toposcope.simulator import manifests

_DAY: Final = 24 * 3600.0
_FULL: Final = Path("/dev/full")
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases/toposcope-controller"
_MOMENT: Final = 5.0
"""Seconds."""
_NOISE: Final = b"\xff\xfe\x00garbage\n\x00\x00\x00\x7f" * 64
_PIDFD_GETFD: Final = 438
"""The number of that system call on every architecture; Python does not have it."""
_READ_ONLY: Final = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    # The simulated machine keeps its sysfs tree in a folder; the program itself gets nowhere to write.
    'mount -t tmpfs -o size=16m none "$TMPDIR" && mount --rbind / / && mount -o remount,bind,ro / && exec "$0" "$@"',
)


class Scope(Enum):
    """What a fault is aimed at, and what its target names."""

    CLUSTER = "cluster"
    """Everything: no target."""
    PROGRAM = "program"
    """An agent or a controller."""
    AGENT = "agent"
    CONTROLLER = "controller"


Action: TypeAlias = "Callable[[World, str], object]"
"""Do something in a world, to a target: the name of an actor, or nothing."""


def nothing(_world: World, _target: str) -> None:
    """It is over by itself, or the programs have to mend it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `seconds` is how long it lasts, at least and at most.

    `inject` may find the server broken by another fault: what it raises (OSError, AssertionError) means that it did not
    take place. `heal` runs again at the end of the round when it raises; doing it twice must do no harm.
    """

    name: str
    what: str
    scope: Scope
    seconds: tuple[float, float]
    inject: Action
    heal: Action = nothing
    missing: Callable[[], str] = str
    """Why this machine cannot do it; empty: it can."""


def _on(act: Callable[[World, Actor], object]) -> Action:
    """Do something to one program."""
    return lambda world, target: act(world, world.actors[target])


# The API server, etcd, and the way between one program and the API server.
def _signal_server(name: str, number: signal.Signals) -> Action:
    return lambda world, _target: world.servers.signal(name, number)


def _kill_server(name: str) -> Action:
    return lambda world, _target: world.servers.kill(name)


def _start_servers(world: World, _target: str) -> None:
    world.servers.start()


def _stop_serving(world: World, _target: str) -> None:
    world.servers.signal("kube-apiserver", signal.SIGSTOP)
    world.turns.server_stops(datetime.now(UTC))


def _go_on_serving(world: World, _target: str) -> None:
    world.turns.server_goes_on(datetime.now(UTC))
    world.servers.signal("kube-apiserver", signal.SIGCONT)


def _compact(world: World, _target: str) -> None:
    """Have nobody be able to go on from where it was: etcd forgets, and the API server's memory goes with it."""
    world.servers.compact()
    world.servers.kill("kube-apiserver")


def _restore(world: World, _target: str) -> None:
    if world.snapshot is None:
        raise OSError("there is no copy of etcd to go back to")
    world.servers.restore(world.snapshot)


def _switch(mode: Mode) -> Action:
    return _on(lambda world, actor: world.proxies.switch(actor.proxy, mode))


def _connection(name: str, what: str, seconds: tuple[float, float], mode: Mode) -> Fault:
    return Fault(name, what, Scope.PROGRAM, seconds, _switch(mode), _switch(Mode.PASS))


# The controllers, and the Lease between them.
def _start_controllers(world: World, _target: str) -> None:
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


def _both(world: World, target: str) -> None:
    for actor in world.controllers:
        actor.program.kill()
    _start_controllers(world, target)


def _signal(number: signal.Signals) -> Action:
    return _on(lambda _world, actor: actor.program.signal(number))


def _end_leader(number: signal.Signals) -> Action:
    return lambda world, _target: world.leader().program.kill(number)


def _delete_lease(world: World, _target: str) -> None:
    code, answer = world.api.request("DELETE", _LEASE)
    assert code in (200, 404), answer  # noqa: S101 - the server said no: it did not take place


# What somebody with rights does to objects.
def _done(answer: tuple[int, Any], *codes: int) -> None:
    """Raise AssertionError when the server did not do it."""
    code, body = answer
    assert code in (200, 201, *codes), body  # noqa: S101 - see Fault


def _delete_node(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        _done(world.api.request("DELETE", f"{NODES}/{machine.node}"), 404)


def _create_node(world: World, target: str) -> None:
    """Make it again, and the agent's token: the admission policy ties one to the very Node that it was issued on."""
    actor = world.actors[target]
    machine = actor.machine
    if machine and world.api.request("GET", f"{NODES}/{machine.node}")[0] == 404:
        world.add_node(machine_node(machine))
    world.rotate(actor)
    world.write_token(actor)


def _delete_kind(kind: str, world: World, _target: str) -> None:
    world.published_writes.deletion_expected = True
    world.forget_foreign(COLLECTIONS[kind])
    if kind == "grove":
        # Without Grove a Topology of KAI is made for every ClusterTopology, also where Grove's name is somebody else's.
        world.published_writes.late_grove = True
        world.published_writes.allowed |= {("kai.scheduler", topology["metadata"]["name"]) for topology in topologies()}
    world.api.remove_crd(crds()[kind]["metadata"]["name"])


def _add_kind(kind: str, world: World, _target: str) -> None:
    world.add_crd(crds()[kind])
    # Not for long: what keeps it from being served may be a fault that is to be healed after this one.
    world.plant(_MOMENT)


def _delete_ours(world: World, _target: str) -> None:
    world.published_writes.deletion_expected = True
    world.api.remove_crd(manifests.cluster_topology_crd()["metadata"]["name"])


def _add_ours(world: World, _target: str) -> None:
    world.add_crd(manifests.cluster_topology_crd())
    world.add_topologies()


def _edit(collection: str, level: dict[str, str]) -> Action:
    """Have somebody edit what was published for a ClusterTopology."""

    def edit(world: World, _target: str) -> None:
        world.published_writes.deletion_expected = True
        body = {"spec": {"levels": [level]}}
        _done(world.api.request("PATCH", f"{collection}/cluster", body, content_type=MERGE))

    return edit


def _delete_published(world: World, _target: str) -> None:
    world.published_writes.deletion_expected = True
    for path in (GROVE, KUEUE):
        _done(world.api.request("DELETE", f"{path}/cluster"), 404)


def _edit_labels(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine is None:
        return
    machine.now.edited = True
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.node, "labels": {f"{PREFIX}gpus": "99", f"{PREFIX}interconnect": "by-hand"}},
    }
    query = "fieldManager=by-hand&force=true"
    _done(world.api.request("PATCH", f"{NODES}/{machine.node}?{query}", body, content_type=APPLY))
    gone = {"metadata": {"labels": {f"{PREFIX}nvlink-domain": None, f"{PREFIX}state": None}}}
    _done(world.api.request("PATCH", f"{NODES}/{machine.node}", gone, content_type=MERGE))


def _kinds(kind: str) -> Fault:
    return Fault(
        f"crd-deleted-{kind}",
        f"{kind.capitalize()}'s CRD deleted with its objects, added again",
        Scope.CLUSTER,
        (2.0, 8.0),
        functools.partial(_delete_kind, kind),
        functools.partial(_add_kind, kind),
    )


# A machine, and the process that asks it.
def _suffer(faults: str, world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        machine.now.silent = True  # until a new worker has looked, nobody can vouch for anything
        machine.set_faults(faults, answers=not faults.startswith("calls:"))


def _heal(world: World, target: str) -> None:
    machine = world.actors[target].machine
    if machine:
        machine.set_faults("")


def _signal_worker(number: signal.Signals) -> Action:
    def send(_world: World, actor: Actor) -> None:
        if actor.machine and number is not signal.SIGCONT:
            actor.machine.now.silent = True
        for child in actor.program.children():
            child.send_signal(number)

    return _on(send)


def _feed(world: World, target: str) -> None:
    """Write noise into the worker's end of the socket, as a driver that has overwritten its memory might."""
    actor = world.actors[target]
    if actor.machine:
        actor.machine.now.silent = True
    for child in actor.program.children():
        for descriptor in _sockets(child):
            with _stolen(child.pid, descriptor) as end:
                end.setblocking(False)
                end.send(_NOISE)


def _sockets(process: psutil.Process) -> list[int]:
    folder = f"/proc/{process.pid}/fd"
    return [
        int(name)
        for name in os.listdir(folder)  # noqa: PTH208 - names are numbers here
        if os.readlink(f"{folder}/{name}").startswith("socket:")  # noqa: PTH115 - same
    ]


def _stolen(pid: int, descriptor: int) -> socket.socket:
    """A copy of another process' socket. Raises OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.pidfd_open(pid)
    try:
        copy = libc.syscall(_PIDFD_GETFD, handle, descriptor, 0)
    finally:
        os.close(handle)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=copy)


def _may_steal() -> str:
    """Whether a child's descriptors may be taken: it takes the rights of a debugger."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        end, other = socket.socketpair()
        with end, other, _stolen(pid, end.fileno()):
            return ""
    except OSError as error:
        # The child was forked before the sockets were made: EBADF means that the right is there.
        return "" if error.errno == 9 else f"descriptors of other processes cannot be had: {error}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _machine(name: str, what: str, faults: str) -> Fault:
    return Fault(name, what, Scope.AGENT, (4.0, 14.0), functools.partial(_suffer, faults), _heal)


# What a program runs on: its life, disk, clock and credentials.
def _restart(*disk: Any) -> Action:
    """Start a program anew; `disk` is what it gets instead of the machine's."""

    def restart(_world: World, actor: Actor) -> None:
        actor.program.kill()
        actor.program.start(*disk)

    return _on(restart)


def _may_unshare() -> str:
    if shutil.which("unshare") is None:
        return "unshare is not on PATH"
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no namespaces: {done.stderr.strip()}" if done.returncode else ""


def _clock(name: str, what: str, seconds: float) -> Fault:
    def step(off: float) -> Action:
        return _on(lambda _world, actor: actor.wall.write_text(str(off), encoding="ascii"))

    return Fault(name, what, Scope.PROGRAM, (3.0, 12.0), step(seconds), step(0.0))


_FAULTS: Final = (
    Fault("api-killed", "kube-apiserver killed (SIGKILL), started again with an empty cache", Scope.CLUSTER, (1.0, 8.0),
          _kill_server("kube-apiserver"), _start_servers),
    Fault("api-stopped", "kube-apiserver stopped (SIGSTOP): every connection half open", Scope.CLUSTER, (2.0, 10.0),
          _stop_serving, _go_on_serving),
    Fault("etcd-stopped", "etcd stopped (SIGSTOP): the API server answers reads from its cache, or not at all",
          Scope.CLUSTER, (2.0, 10.0), _signal_server("etcd", signal.SIGSTOP), _signal_server("etcd", signal.SIGCONT)),
    Fault("etcd-killed", "etcd killed", Scope.CLUSTER, (1.0, 6.0), _kill_server("etcd"), _start_servers),
    Fault("etcd-compacted", "etcd compacted, API server restarted: 410 Gone for every watch", Scope.CLUSTER, (1.0, 4.0),
          _compact, _start_servers),
    Fault("etcd-restored", "etcd set back to a copy from before the round: versions run backwards", Scope.CLUSTER,
          (1.0, 3.0), _restore, _start_servers),
    _connection("half-open", "connections stay open and never carry anything again", (2.0, 12.0), Mode.SILENT),
    _connection("stalled", "nothing moves for a while, then what waited goes on", (2.0, 12.0), Mode.STALL),
    _connection("slow", "20 kB a second", (4.0, 15.0), Mode.SLOW),
    _connection("cut-mid-line", "half of each answer arrives, then a reset", (2.0, 10.0), Mode.CUT),
    _connection("refused", "every connection reset", (2.0, 12.0), Mode.REFUSE),
    _connection("throttled", "429 with Retry-After to every request", (2.0, 12.0), Mode.THROTTLE),
    Fault("leader-killed", "the leader killed", Scope.CLUSTER, (2.0, 12.0), _end_leader(signal.SIGKILL),
          _start_controllers),
    Fault("leader-ended", "the leader asked to end (SIGTERM)", Scope.CLUSTER, (1.0, 6.0), _end_leader(signal.SIGTERM),
          _start_controllers),
    Fault("leader-stopped", "the leader stopped (SIGSTOP) past its Lease, then resumed", Scope.CLUSTER, (9.0, 16.0),
          _stop_leader, _continue_leader),
    Fault("controller-stopped", "a controller stopped, then resumed", Scope.CONTROLLER, (2.0, 14.0),
          _signal(signal.SIGSTOP), _signal(signal.SIGCONT)),
    Fault("two-leaders", "both killed, both started at once", Scope.CLUSTER, (0.5, 1.0), _both, _start_controllers),
    Fault("lease-deleted", "the Lease deleted", Scope.CLUSTER, (0.5, 1.0), _delete_lease),
    Fault("node-recreated", "a Node deleted and made again under its name, without our labels", Scope.AGENT, (0.5, 5.0),
          _delete_node, _create_node),
    *map(_kinds, ("grove", "kai", "kueue")),
    Fault("crd-deleted-ours", "our own CRD deleted with every ClusterTopology, applied again", Scope.CLUSTER,
          (2.0, 8.0), _delete_ours, _add_ours),
    Fault("grove-edited", "Grove's resource edited by hand", Scope.CLUSTER, (0.5, 1.0),
          _edit(GROVE, {"domain": "host", "key": HOSTNAME})),
    Fault("kueue-edited", "Kueue's resource edited by hand", Scope.CLUSTER, (0.5, 1.0),
          _edit(KUEUE, {"nodeLabel": "example.com/by-hand"})),
    Fault("published-deleted", "what was published deleted by hand", Scope.CLUSTER, (0.5, 1.0), _delete_published),
    Fault("labels-edited", "our labels edited and deleted by hand", Scope.AGENT, (0.5, 1.0), _edit_labels),
    _machine("nvml-hung", "an NVML call never returns", "calls: [{call: nvmlDeviceGetCount, hang: true}]"),
    _machine("nvml-crashed", "an NVML call aborts its process", "calls: [{call: nvmlDeviceGetCount, crash: true}]"),
    _machine("nvml-failing", "NVML answers errors to everything", "calls: [{call: nvmlDeviceGetCount, error: 999}]"),
    _machine("gpu-lost", "a GPU is lost, and returns", "lost: [1]"),
    _machine("gpu-vanished", "a GPU leaves the bus, and returns", "vanished: [1]"),
    _machine("links-down", "every NVLink of a GPU goes down, and comes back", "links_down: {1: all}"),
    Fault("worker-segfault", "the process that asks NVML dies of SIGSEGV", Scope.AGENT, (0.5, 1.0),
          _signal_worker(signal.SIGSEGV)),
    Fault("worker-stopped", "the process that asks NVML stands still (SIGSTOP)", Scope.AGENT, (4.0, 14.0),
          _signal_worker(signal.SIGSTOP), _signal_worker(signal.SIGCONT)),
    Fault("worker-garbage", "noise on the socket to the worker", Scope.AGENT, (0.5, 1.0), _feed, missing=_may_steal),
    Fault("agent-killed", "an agent killed, started again", Scope.AGENT, (0.5, 5.0),
          _on(lambda _world, actor: actor.program.kill()), _on(lambda _world, actor: actor.program.start())),
    Fault("disk-full", "started on a read-only root with every line of its log refused (ENOSPC)", Scope.PROGRAM,
          (4.0, 12.0), _restart(_READ_ONLY, _FULL), _restart(), _may_unshare),
    Fault("token-expired", "the token is refused (401) until a new one is in the file", Scope.PROGRAM, (2.0, 14.0),
          _on(lambda world, actor: world.rotate(actor)), _on(lambda world, actor: world.write_token(actor))),
    _clock("clock-forward", "the wall clock a day ahead, then back", _DAY),
    _clock("clock-back", "the wall clock ten years back, then right", -10 * 365 * _DAY),
)  # fmt: skip
FAULTS: Final[dict[str, Fault]] = {fault.name: fault for fault in _FAULTS}
