"""The faults, by name: each can be put in and taken out again, any of them together."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import psutil
import yaml

from tools.apiserver.client import MERGE
from tools.chaos.cluster import (
    CLIQUE,
    COLLECTIONS,
    GROVE,
    KUEUE,
    NODES,
    crds,
    machine_node,
    topologies,
)
from tools.chaos.machines import PREFIX, Machine
from tools.chaos.processes import Actor
from tools.chaos.proxy import Mode
from tools.chaos.world import World
from toposcope.api.label_keys import HOSTNAME
from toposcope.simulator import manifests

_FULL: Final = Path("/dev/full")
_LEASE: Final = (
    "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases/toposcope-controller"
)
_MOMENT_SECONDS: Final = 5.0
"""Seconds."""
_NOISE: Final = b"\xff\xfe\x00garbage\n\x00\x00\x00\x7f" * 64
_PIDFD_GETFD: Final = 438
"""The number of that system call on every architecture; Python does not have it."""
# The simulated machine keeps its sysfs tree in a folder; the program itself gets nowhere to write.
_MOUNT_READ_ONLY: Final = (
    'mount -t tmpfs -o size=16m none "$TMPDIR" && mount --rbind / / '
    '&& mount -o remount,bind,ro / && exec "$0" "$@"'
)
_READ_ONLY: Final = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    _MOUNT_READ_ONLY,
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
    """Do nothing: the fault ends by itself, or the programs must recover from it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `seconds` is how long it lasts, at least and at most.

    `inject` may find the server broken by another fault: what it raises (OSError, AssertionError)
    means that it did not take place. `heal` runs again at the end of the round when it raises;
    doing it twice must do no harm.
    """

    name: str
    what: str
    scope: Scope
    seconds: tuple[float, ...]
    inject: Action
    heal: Action = nothing
    missing: Callable[[], str] = str
    """Why this machine cannot do it; empty: it can."""


def _on(act: Callable[[World, Actor], object]) -> Action:
    """Do something to one program."""
    return lambda world, target: act(world, world.actors[target])


def _on_machine(act: Callable[[World, Machine], object]) -> Action:
    """Do something to the machine of an agent."""

    def do(world: World, target: str) -> None:
        machine = world.actors[target].machine
        if machine:
            act(world, machine)

    return do


# The API server, etcd, and the way between one program and the API server.
def _start_servers(world: World, _target: str) -> None:
    world.servers.start()


def _stop_serving(world: World, _target: str) -> None:
    world.servers.signal("kube-apiserver", signal.SIGSTOP)
    world.turns.server_stops(world.now())


def _go_on_serving(world: World, _target: str) -> None:
    world.turns.server_goes_on(world.now())
    world.servers.signal("kube-apiserver", signal.SIGCONT)


def _compact(world: World, _target: str) -> None:
    """Compact etcd and restart the API server, so that every watch must list again."""
    world.servers.compact()
    world.servers.kill("kube-apiserver")


def _restore(world: World, _target: str) -> None:
    if world.snapshot is None:
        raise OSError("there is no copy of etcd to go back to")
    world.servers.restore(world.snapshot)


def _go_on_restored(world: World, target: str) -> None:
    """Serve again.

    The tokens are of pods and Nodes that may never have been: the kubelets ask for new ones.
    """
    _start_servers(world, target)
    world.renew_tokens()


def _switch(mode: Mode) -> Action:
    return _on(lambda world, actor: world.proxies.switch(actor.proxy, mode))


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


# What somebody with rights does to objects.
def _done(answer: tuple[int, Any], *codes: int) -> None:
    """Raise AssertionError when the server did not do it."""
    code, body = answer
    assert code in (200, 201, *codes), body  # noqa: S101 - see Fault


def _create_node(world: World, target: str) -> None:
    """Create the Node again, and the agent's token, which is bound to the Node it was issued on."""
    actor = world.actors[target]
    machine = actor.machine
    if machine:
        code, _ = world.api.request("GET", f"{NODES}/{machine.node}")
        if code == 404:
            node = machine_node(machine)
            world.add_node(node)
    world.rotate(actor)
    world.write_token(actor)


def _delete_kind(kind: str, world: World, _target: str) -> None:
    world.published_writes.is_deletion_expected = True
    world.forget_foreign(COLLECTIONS[kind])
    if kind == "grove":
        # Without Grove a Topology of KAI is made for every ClusterTopology, also where Grove's name
        # is somebody else's.
        world.published_writes.has_late_grove = True
        world.published_writes.allowed |= {
            ("kai.scheduler", topology["metadata"]["name"]) for topology in topologies()
        }
    world.api.remove_crd(crds()[kind]["metadata"]["name"])


def _add_kind(kind: str, world: World, _target: str) -> None:
    world.add_crd(crds()[kind])
    # Not for long: what keeps it from being served may be a fault that is to be healed after this
    # one.
    world.plant(_MOMENT_SECONDS)


def _delete_ours(world: World, _target: str) -> None:
    world.published_writes.is_deletion_expected = True
    world.api.remove_crd(manifests.cluster_topology_crd()["metadata"]["name"])


def _add_ours(world: World, _target: str) -> None:
    world.add_crd(manifests.cluster_topology_crd())
    world.add_topologies()


def _edit(collection: str, level: dict[str, str], world: World, _target: str) -> None:
    """Edit what was published for a ClusterTopology, as another user would."""
    world.published_writes.is_deletion_expected = True
    path = f"{collection}/cluster"
    body = {"spec": {"levels": [level]}}
    answer = world.api.request("PATCH", path, body, content_type=MERGE)
    _done(answer)


def _delete_published(world: World, _target: str) -> None:
    world.published_writes.is_deletion_expected = True
    for path in (GROVE, KUEUE):
        _done(world.api.request("DELETE", f"{path}/cluster"), 404)


def _edit_labels(world: World, machine: Machine) -> None:
    path = f"{NODES}/{machine.node}"
    world.api.get(path)  # else an apply would make one
    machine.now.is_edited = True
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.node,
            "labels": {f"{PREFIX}gpus": "99", f"{PREFIX}interconnect": "by-hand"},
        },
    }
    applied = world.api.apply(path, node, "by-hand", force=True)
    _done(applied)
    gone = {f"{PREFIX}nvlink-domain": None, f"{PREFIX}state": None}
    patch = {"metadata": {"labels": gone}}
    _done(world.api.request("PATCH", path, patch, content_type=MERGE))


def _label_cliques(world: World, *, runs: bool) -> None:
    """Have the DRA driver write its label on the Nodes that it runs on, or remove it from them."""
    for machine in world.machines:
        clique = machine_node(machine)["metadata"]["labels"].get(CLIQUE)
        if clique is not None:
            change = {"metadata": {"labels": {CLIQUE: clique if runs else None}}}
            _done(
                world.api.request("PATCH", f"{NODES}/{machine.node}", change, content_type=MERGE),
                404,
            )


# A machine, and the process that asks it.
def _suffer(faults: str, _world: World, machine: Machine) -> None:
    machine.now.is_silent = True  # until a new worker has looked, nobody can vouch for anything
    machine.set_faults(faults, answers=not faults.startswith("calls:"))


def _signal_worker(number: signal.Signals) -> Action:
    def send(_world: World, actor: Actor) -> None:
        if actor.machine and number is not signal.SIGCONT:
            actor.machine.now.is_silent = True
        for child in actor.program.children():
            child.send_signal(number)

    return _on(send)


def _feed(world: World, target: str) -> None:
    """Write noise into the worker's end of the socket, as a driver that corrupts memory might."""
    actor = world.actors[target]
    if actor.machine:
        actor.machine.now.is_silent = True
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
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "mount",
        "-t",
        "tmpfs",
        "none",
        "/mnt",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces: {done.stderr.strip()}" if done.returncode else ""


def _step(seconds: float) -> Action:
    return _on(lambda _world, actor: actor.wall.write_text(str(seconds), encoding="ascii"))


_ACTIONS: Final[dict[str, tuple[Action, Action]]] = {
    "api-killed": (lambda world, _: world.servers.kill("kube-apiserver"), _start_servers),
    "api-stopped": (_stop_serving, _go_on_serving),
    "etcd-stopped": (
        lambda world, _: world.servers.signal("etcd", signal.SIGSTOP),
        lambda world, _: world.servers.signal("etcd", signal.SIGCONT),
    ),
    "etcd-killed": (lambda world, _: world.servers.kill("etcd"), _start_servers),
    "etcd-compacted": (_compact, _start_servers),
    "etcd-restored": (_restore, _go_on_restored),
    "leader-killed": (_end_leader(signal.SIGKILL), _start_controllers),
    "leader-ended": (_end_leader(signal.SIGTERM), _start_controllers),
    "leader-stopped": (_stop_leader, _continue_leader),
    "controller-stopped": (_signal(signal.SIGSTOP), _signal(signal.SIGCONT)),
    "two-leaders": (_both, _start_controllers),
    "lease-deleted": (lambda world, _: _done(world.api.request("DELETE", _LEASE), 404), nothing),
    "node-recreated": (
        _on_machine(
            lambda world, machine: _done(
                world.api.request("DELETE", f"{NODES}/{machine.node}"), 404
            )
        ),
        _create_node,
    ),
    "crd-deleted-ours": (_delete_ours, _add_ours),
    "grove-edited": (partial(_edit, GROVE, {"domain": "host", "key": HOSTNAME}), nothing),
    "kueue-edited": (partial(_edit, KUEUE, {"nodeLabel": "example.com/by-hand"}), nothing),
    "published-deleted": (_delete_published, nothing),
    "labels-edited": (_on_machine(_edit_labels), nothing),
    "driver-restarted": (
        lambda world, _: _label_cliques(world, runs=False),
        lambda world, _: _label_cliques(world, runs=True),
    ),
    "worker-segfault": (_signal_worker(signal.SIGSEGV), nothing),
    "worker-stopped": (_signal_worker(signal.SIGSTOP), _signal_worker(signal.SIGCONT)),
    "worker-garbage": (_feed, nothing),
    "agent-killed": (
        _on(lambda _, actor: actor.program.kill()),
        _on(lambda _, actor: actor.program.start()),
    ),
    "disk-full": (_restart(_READ_ONLY, _FULL), _restart()),
    "token-expired": (
        _on(lambda world, actor: world.rotate(actor)),
        _on(lambda world, a: world.write_token(a)),
    ),
}
_MISSING: Final = {"worker-garbage": _may_steal, "disk-full": _may_unshare}


def _fault(name: str, what: str, seconds: list[float], scope: str = "", **how: Any) -> Fault:
    match how:
        case {"proxy": mode}:
            scope = "program"
            inject = _switch(Mode(mode))
            heal = _switch(Mode.PASS)
        case {"nvml": faults}:
            scope = "agent"
            inject = _on_machine(partial(_suffer, faults))
            heal = _on_machine(lambda _, machine: machine.set_faults(""))
        case {"clock": off}:
            scope = "program"
            inject = _step(off)
            heal = _step(0.0)
        case {"crd": kind}:
            inject = partial(_delete_kind, kind)
            heal = partial(_add_kind, kind)
        case _:
            inject, heal = _ACTIONS[name]
    return Fault(
        name,
        what,
        Scope(scope or "cluster"),
        tuple(seconds),
        inject,
        heal,
        _MISSING.get(name, str),
    )


_ROWS: Final[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
FAULTS: Final[dict[str, Fault]] = {name: _fault(name, **row) for name, row in _ROWS.items()}
