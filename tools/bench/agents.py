"""500 agents at work on a real kube-apiserver with 5,000 nodes: what a label costs the server, how late a watch is.

Each agent is the production publisher with a connection of its own, as on 500 nodes: it reads its Node, applies all
labels and the annotations of a recorded DGX H200, and later one label that changed. CPU of the servers is that of both
processes, what a controller and one more watch of all Nodes ask of them included. Everything shares the CPUs here, so
lags are upper bounds.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec
import psutil

from tools.bench.fleet import Hardware
from tools.bench.machine import make
from tools.bench.real import ARGUMENTS, REAL_NODES, is_there, real_cluster, statuses, watching
from tools.bench.report import Figure, Peer, Sample
from tools.bench.usage import cpu_seconds, idle
from tools.bench.workspace import MeasurementError, program, scratch
from toposcope.agent.describe import Description, describe
from toposcope.agent.publish import Publisher
from toposcope.kube.client import METADATA, ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.requests import NODES

_AGENTS: Final = 500
_THREADS: Final = 8
_OVER: Final = 30.0
"""Seconds over which writes are spread, as `--spread` spreads them at a roll-out."""
_PATIENCE: Final = 60.0
_QUIET: Final = 10.0
"""Seconds in which the servers' own work is measured."""
_SERVERS: Final = ("etcd", "kube-apiserver")


def agents_figures(*, quick: bool) -> Iterator[Figure]:
    """5,000 nodes and 500 agents, 1,000 and 50 when quick; nothing where there is no kube-apiserver."""
    if not is_there():
        return
    nodes, agents, over = (1_000, 50, 5.0) if quick else (REAL_NODES, _AGENTS, _OVER)
    with scratch() as scratch_folder:
        raw = make("dgx-h200", scratch_folder).raw
    with real_cluster(nodes) as (folder, environment, client):
        servers = _server_pids()
        names = [
            item["metadata"]["name"] for item in client.call(Request("GET", NODES, {"limit": str(agents)}))["items"]
        ]
        cluster = load(None, environment, folder)
        fleet = [Publisher(ApiClient(cluster, "toposcope-agent"), name) for name in names]
        new = [describe(raw, name, None) for name in names]
        with (
            statuses(client) as news,
            program("controller", environment, folder, *ARGUMENTS) as running,
            _watch(ApiClient(cluster, "toposcope-bench")) as seen,
        ):
            news.after(running, lambda status: status.get("nodes") == nodes)
            idle(running.pid)
            quiet = _quiet(servers)
            reads = _measure([publisher.refresh for publisher in fleet], servers, running.pid, 0.0)
            first = _publish(fleet, new, servers, running.pid, over, seen)
            broken = Hardware(raw, down=True).probe()
            hurt = [describe(broken, name, agent.baseline) for name, agent in zip(names, fleet, strict=True)]
            spread = _publish(fleet, hurt, servers, running.pid, over, seen)
            well = [describe(raw, name, agent.baseline) for name, agent in zip(names, fleet, strict=True)]
            burst = _publish(fleet, well, servers, running.pid, 0.0, seen)
    what = f"{agents} agents, {nodes:,} nodes, kube-apiserver"
    idling = Peer("the servers at rest, as long", Sample((1000 * quiet * reads.elapsed / agents,), "ms"))
    yield Figure(f"{what}: first connection and read of the Node, server CPU each", reads.of_servers, None, (idling,))
    for title, costs in (
        (f"all labels for the first time, over {over:.0f} s", first),
        (f"one label changed, over {over:.0f} s", spread),
        ("one label changed, back to back", burst),
    ):
        idling = Peer("the servers at rest, as long", Sample((1000 * quiet * costs.elapsed / agents,), "ms"))
        yield Figure(f"{what}: {title}, server CPU each", costs.of_servers, None, (idling,))
        yield Figure("  controller CPU each", costs.of_controller)
        yield Figure("  write answered to seen by a watch, p50", Sample(costs.lags, "ms"))
        yield Figure("  the same, p99", Sample(costs.lags, "ms", 0.99))
        yield Figure("  writes", Sample((agents / costs.elapsed,), "/s"))


@dataclass(frozen=True, slots=True)
class _Costs:
    """What so much work took: CPU of servers and controller for each piece and the lags in ms, all of it in seconds."""

    of_servers: Sample
    of_controller: Sample
    lags: tuple[float, ...]
    elapsed: float


@dataclass(slots=True)
class _Seen:
    """When a watch showed which version of which Node."""

    at: dict[tuple[str, str], float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)


def _server_pids() -> list[int]:
    pids = [child.pid for child in psutil.Process().children() if child.name() in _SERVERS]
    if len(pids) != len(_SERVERS):
        raise MeasurementError(f"{len(pids)} of the processes {', '.join(_SERVERS)} run below this one")
    return pids


def _quiet(servers: Sequence[int]) -> float:
    """CPU seconds a second of servers that nobody asks for anything new."""
    before = sum(map(cpu_seconds, servers))
    time.sleep(_QUIET)
    return (sum(map(cpu_seconds, servers)) - before) / _QUIET


def _publish(
    fleet: Sequence[Publisher],
    descriptions: Sequence[Description],
    servers: Sequence[int],
    controller: int,
    over: float,
    seen: _Seen,
) -> _Costs:
    """Every agent publishes once; how long after the answer a watch showed it, which may be before it."""
    answered: dict[tuple[str, str], float] = {}

    def publish(publisher: Publisher, description: Description) -> None:
        if publisher.publish(description) is None:
            raise MeasurementError("an agent had nothing to write")
        metadata = publisher.metadata
        answered[metadata["name"], metadata["resourceVersion"]] = time.monotonic()

    work = [lambda p=p, d=d: publish(p, d) for p, d in zip(fleet, descriptions, strict=True)]
    costs = _measure(work, servers, controller, over)
    with seen.changed:
        if not seen.changed.wait_for(lambda: answered.keys() <= seen.at.keys(), _PATIENCE):
            raise MeasurementError(f"{len(answered.keys() - seen.at.keys())} writes were not shown by the watch")
        lags = tuple(1000 * max(seen.at[write] - at, 0.0) for write, at in answered.items())
    return _Costs(costs.of_servers, costs.of_controller, lags, costs.elapsed)


def _measure(work: Sequence[Callable[[], object]], servers: Sequence[int], controller: int, over: float) -> _Costs:
    """Do all of it, each piece at its time; the first failure is raised."""
    before = sum(map(cpu_seconds, servers)), idle(controller)
    began = time.monotonic()

    def later(i: int, piece: Callable[[], object]) -> None:
        time.sleep(max(0.0, began + over * i / len(work) - time.monotonic()))
        piece()

    with ThreadPoolExecutor(_THREADS) as pool:
        for done in [pool.submit(later, i, piece) for i, piece in enumerate(work)]:
            done.result()
    elapsed = time.monotonic() - began
    used = idle(controller) - before[1]
    served = sum(map(cpu_seconds, servers)) - before[0]
    share = 1000 / len(work)
    return _Costs(Sample((share * served,), "ms"), Sample((share * used,), "ms"), (), elapsed)


@contextmanager
def _watch(client: ApiClient) -> Iterator[_Seen]:
    """Note when each change of a Node is shown, from now on."""
    version = client.call(Request("GET", NODES, {"limit": "1"}))["metadata"]["resourceVersion"]
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "600"}
    seen = _Seen()

    def take(line: bytes) -> None:
        came = time.monotonic()
        metadata = msgspec.json.decode(line)["object"]["metadata"]
        with seen.changed:
            seen.at[metadata["name"], metadata["resourceVersion"]] = came
            seen.changed.notify_all()

    with watching(client, Request("GET", NODES, query, accept=METADATA), take):
        yield seen
