"""What 10,000 agents that watch the controller's plan cost a real kube-apiserver.

Measured are memory, CPU, and how long a change takes to reach the watches. All watches are held by
this process over a few HTTP/2 connections, as a user of their own whom RBAC grants this object. An
agent has a connection of its own, which costs the server about as much again. Server and watchers
share the CPUs.
"""

import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tools.apiserver.client import AdminApi
from tools.apiserver.server import RealApiServer, find_binaries
from tools.bench.http2 import Streams
from tools.bench.real import is_there
from tools.bench.report import Figure, Sample, Target
from tools.bench.usage import cpu_seconds, idle, memory, tree
from tools.bench.workspace import MeasurementError, scratch
from toposcope.api.levels import Level
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.integrations.node_plan import CONFIG_MAP, FIELD, NodePlan, PlannedTopology, encode
from toposcope.integrations.slurm.names import NamedLevel, SlurmNames

_USER: Final = "agent"
_GROUP: Final = "toposcope:agents"
_PATH: Final = f"/api/v1/namespaces/{HOME_NAMESPACE}/configmaps"
_WATCHES_PER_CONNECTION: Final = 1_000
_BATCH_WATCHES: Final = 100
"""Watches that are begun before their answers are read."""
_PATIENCE_SECONDS: Final = 120.0
_MIB: Final = 1 << 20
_MOMENT_SECONDS: Final = 0.5
_AT_REST_SECONDS: Final = 0.05
"""Seconds, and the CPU that the server uses in them at rest, at most."""
_TOPOLOGIES: Final = 10
_CHANGED: Final = b'{"type":"MODIFIED"'
_BEGUN: Final = b'{"type":"ADDED"'
_FLAGS: Final = (f"--http2-max-streams-per-connection={_WATCHES_PER_CONNECTION}",)
_UNLIMITED: Final = "32GiB"
"""Memory that the server may use: how much it needs is what is measured."""


def plan_figures(*, quick: bool) -> Iterator[Figure]:
    """10,000 watches of the plan (300 when quick); nothing where there is no kube-apiserver."""
    if not is_there():
        return
    watches = 300 if quick else 10_000
    changes = 3 if quick else 10

    with _server() as (server, api), _watchers(server) as watchers:
        pid = server.pid("kube-apiserver")
        _settled(pid)
        memory_before = memory(tree(pid)).total
        cpu_before = cpu_seconds(pid)
        watchers.begin(watches)
        _settled(pid)
        held_mib = (memory(tree(pid)).total - memory_before) / _MIB
        cpu_used = cpu_seconds(pid) - cpu_before

        yield Figure(
            f"{watches:,} watches of the plan, memory of kube-apiserver",
            Sample((held_mib,), "MiB"),
            Target(1024),
        )
        yield Figure("  CPU to begin them", Sample((cpu_used,), "s"))
        rows = [_change(api, watchers, pid, number) for number in range(changes)]

    half, last, cpu = zip(*rows, strict=True)
    yield Figure(
        "one change of the plan, until half of the watches have it",
        Sample(half, "ms"),
    )
    yield Figure(
        "  until all have it",
        Sample(last, "ms"),
        Target(5_000),
    )
    yield Figure("  CPU of kube-apiserver", Sample(cpu, "ms"))


def _change(
    api: AdminApi, watchers: "Watchers", pid: int, number: int
) -> tuple[float, float, float]:
    """Change the plan; milliseconds until half and all watches have it, and of server CPU."""
    data = {FIELD: _plan(number)}
    change = {"data": data}
    path = f"{_PATH}/{CONFIG_MAP}"
    before = _settled(pid)
    began = time.monotonic()

    api.patch(path, change)
    came = watchers.hear(_CHANGED)

    used = _settled(pid) - before
    middle = len(came) // 2
    half = came[middle] - began
    last = came[-1] - began
    return 1000 * half, 1000 * last, 1000 * used


def _plan(number: int) -> str:
    """The plan of a cluster with some ClusterTopologies of five levels; each number differs."""
    levels = tuple(
        Level(f"level-{depth}", f"topology.example.com/level-{depth}") for depth in range(5)
    )
    names = SlurmNames(tuple(NamedLevel(level.domain, level.key) for level in levels))
    topologies = tuple(
        PlannedTopology(
            f"cluster-{index}",
            (),
            levels,
            ("level-2", f"change-{number}"),
            annotates=True,
            slurm=names,
        )
        for index in range(_TOPOLOGIES)
    )
    return encode(NodePlan(topologies))


@contextmanager
def _server() -> Iterator[tuple[RealApiServer, AdminApi]]:
    """A server with the plan, and a user whose only right is to watch it."""
    binaries = find_binaries()
    users = {_USER: _GROUP}
    unlimited = {"GOMEMLIMIT": _UNLIMITED}
    with (
        scratch() as folder,
        RealApiServer(
            binaries,
            users=users,
            flags=_FLAGS,
            environment=unlimited,
        ) as server,
    ):
        api = AdminApi(
            "real",
            server.url,
            folder / "kubeconfig",
            server.ca_file,
            server.admin_token,
        )
        namespace = _named("v1", "Namespace", HOME_NAMESPACE)
        api.create("/api/v1/namespaces", namespace)
        config_map = _named("v1", "ConfigMap", CONFIG_MAP)
        config_map["data"] = {FIELD: _plan(-1)}
        api.create(_PATH, config_map)
        _let_watch(api)

        yield server, api
        api.client.close()


def _let_watch(api: AdminApi) -> None:
    """Give the users' group the right to watch the plan, and none besides."""
    group = "rbac.authorization.k8s.io"
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [CONFIG_MAP],
        "verbs": ["get", "watch"],
    }
    role = _named(f"{group}/v1", "Role", "agent")
    role["rules"] = [rule]

    binding = _named(f"{group}/v1", "RoleBinding", "agent")
    binding["roleRef"] = {
        "apiGroup": group,
        "kind": "Role",
        "name": "agent",
    }
    subject = {
        "apiGroup": group,
        "kind": "Group",
        "name": _GROUP,
    }
    binding["subjects"] = [subject]

    namespace = f"/apis/{group}/v1/namespaces/{HOME_NAMESPACE}"
    api.create(f"{namespace}/roles", role)
    api.create(f"{namespace}/rolebindings", binding)


def _named(version: str, kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
    }


def _settled(pid: int) -> float:
    """Wait until the server does no more than at rest; the seconds of CPU it has used."""
    return idle(pid, moment=_MOMENT_SECONDS, nothing=_AT_REST_SECONDS)


@dataclass
class Watchers:
    """All watches, over as many connections as they need."""

    connect: Callable[[], Streams]
    connections: list[Streams] = field(default_factory=list)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    watches: int = 0

    def begin(self, count: int) -> None:
        """Begin this number of watches, and wait until each has the plan.

        Raises MeasurementError.
        """
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={CONFIG_MAP}",
            "resourceVersion": "0",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "3600",
        }
        for begun in range(0, count, _BATCH_WATCHES):
            if begun % _WATCHES_PER_CONNECTION == 0:
                connection = self.connect()
                self.connections.append(connection)
                self.selector.register(connection.socket, selectors.EVENT_READ, connection)
            more = min(_BATCH_WATCHES, count - begun)
            for _ in range(more):
                self.connections[-1].get(f"{_PATH}?{urlencode(query)}")
            self.watches += more
            self._await(_BEGUN, more)

    def hear(self, what: bytes) -> list[float]:
        """When each watch got a line that begins so, in order. Raises MeasurementError."""
        return self._await(what, self.watches)

    def _await(self, what: bytes, count: int) -> list[float]:
        came: list[float] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(came) < count:
            left = deadline - time.monotonic()
            ready = self.selector.select(max(0.0, left))
            if not ready:
                raise MeasurementError(
                    f"{len(came)} of {count} watches got an event within {_PATIENCE_SECONDS:.0f} s"
                )

            for key, _ in ready:
                for line in key.data.read():
                    if b'"kind":"Status"' in line:
                        raise MeasurementError(f"a watch was refused: {line[:200]!r}")
                    if line.startswith(what):
                        now = time.monotonic()
                        came.append(now)
        return came


@contextmanager
def _watchers(server: RealApiServer) -> Iterator[Watchers]:
    where = urlsplit(server.url)
    headers = {":authority": where.netloc, "authorization": f"Bearer {server.tokens[_USER]}"}

    def connect() -> Streams:
        connection = Streams((str(where.hostname), int(where.port or 443)), server.ca_file, headers)
        stack.callback(connection.close)
        return connection

    with ExitStack() as stack:
        watchers = Watchers(connect)
        stack.callback(watchers.selector.close)
        yield watchers
