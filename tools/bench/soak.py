"""A day in minutes: 24 hours of a 2,000-node cluster that never rests, under a virtual clock; and of an agent.

The programs are the production ones with all their threads and sockets, in processes of their own; only the time is
made (see `virtual_time`). After each hour they are looked at: resident memory, open files, threads, requests of
that hour, and the number of entries of every container that they can reach. What grows from hour to hour is a leak.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools.bench.churn import JOBSET_CRD, STEPS, Churn, call
from tools.bench.machine import Machine, make
from tools.bench.report import Figure, Sample, Target
from tools.bench.workspace import CRDS, MeasurementError, Program, account, pod_environment, program, scratch, tls
from tools.growth import Slack, Trend, growing, trend
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.kube.requests import NODES
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.machine import identity
from toposcope.simulator.node_object import node_object

_NODES: Final = 2_000
_HISTORY: Final = 2_000
"""Changes that the server remembers: an hour has more."""
_DEBOUNCE: Final = 2.0
_STEP: Final = 3600.0 / STEPS - _DEBOUNCE
_PATIENCE: Final = 30.0
_AGREE: Final = 200
_MOMENT: Final = 0.05
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "toposcope-system"}}
_FLAGS: Final = ("--leader-elect", "--lease-duration", "300", "--debounce", "1", "--metrics-port", "0")
"""A Lease that outlasts a step of the clock."""


def soak_figures(*, quick: bool) -> Iterator[Figure]:
    """24 hours (6 when quick) of the controller, then as many of two agents."""
    hours = 6 if quick else 24
    began = time.monotonic()
    looks, asked = _controller(hours)
    yield from verdict(f"controller, {hours} hours of {_NODES:,} nodes", looks, asked)
    yield Figure("  real time", Sample((time.monotonic() - began,), "s"))
    yield from _agent_figures(hours)


def _controller(hours: int) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """A look after each hour, and the requests of that hour by verb and kind."""
    looks, asked = [], []
    with scratch() as folder:
        account(folder)
        with EmbeddedApiServer(tls=tls(folder), history=_HISTORY) as server:
            server.load([*CRDS, JOBSET_CRD, _NAMESPACE])
            churn = Churn(server, _NODES, random.Random(0))  # noqa: S311 - the same cluster each time
            port = server.url.rpartition(":")[2]
            with program("soak_controller", pod_environment(folder, "127.0.0.1", port), folder, *_FLAGS) as running:
                running.word()
                for hour in range(hours):
                    before = Counter(server.requests)
                    _hour(churn, running, hour)
                    looks.append(running.ask("look"))
                    asked.append(hourly(before, Counter(server.requests)))
    return looks, asked


def _hour(churn: Churn, running: Program, hour: int) -> None:
    for step in range(STEPS):
        churn.step(hour, step)
        _advance(running, _DEBOUNCE)
        _advance(running, _STEP)
    seen = None
    for _ in range(_AGREE):
        seen = churn.status().get("nodes")
        if seen == churn.nodes:
            return
        _advance(running, _DEBOUNCE)
        time.sleep(_MOMENT)
    raise running.failure(f"the status counts {seen} nodes and there are {churn.nodes}")


def _advance(running: Program, seconds: float) -> None:
    if not running.ask("advance", seconds, _PATIENCE):
        raise running.failure(f"its loop did not come to rest within {_PATIENCE:.0f} s")


# A day of two agents: one whose hardware and API server misbehave, and one whose worker is killed again and again.

_PROFILE: Final = "dgx-h200"
_NODE: Final = "node-0"
_PATH: Final = f"{NODES}/{_NODE}"
_TURNS: Final = 60
"""In an hour."""
_KILLS: Final = 4

_Hour = Callable[[EmbeddedApiServer, Program, Machine], int]
"""One hour of an agent's life; how many of its turns went well."""


def _agent_figures(hours: int) -> Iterator[Figure]:
    """So many hours of each."""
    for name, live in (("with faults", _troubled), ("with a worker that is killed", _killed)):
        with scratch() as folder:
            yield from _day(f"agent {name}, {hours} hours", folder, live, hours)


def _day(what: str, folder: Path, live: _Hour, hours: int) -> Iterator[Figure]:
    account(folder)
    # Without events: a sync would wait for the end of the worker's wait for one.
    machine = make(_PROFILE, folder, events=False)
    looks, asked, well = [], [], 0
    with EmbeddedApiServer(tls=tls(folder), history=100) as server:
        _create(server, 0)
        port = server.url.rpartition(":")[2]
        environment = pod_environment(folder, "127.0.0.1", port) | machine.environment
        with program("soak_agent", environment, folder, "--node-name", _NODE, "--spread", "0") as running:
            running.word()
            for hour in range(hours):
                before = Counter(server.requests)
                well += live(server, running, machine)
                if not running.ask("turns", 1):
                    raise running.failure(f"it was not well again at the end of hour {hour}")
                looks.append(running.ask("look"))
                asked.append(hourly(before, Counter(server.requests)))
                _create(server, hour + 1)
    yield Figure(f"{what}, turns that went well", Sample((well,), ""))
    yield from verdict(what, looks, asked)
    if live is _troubled:  # the other has a new worker in every hour
        worker = [look | {"rss": look["worker"], "sizes": {}} for look in looks]
        yield from verdict(f"{what}, its worker", worker, asked)


def _create(server: EmbeddedApiServer, life: int) -> None:
    """Make the Node, or make it anew under another uid: the autoscaler had it replaced."""
    call(server, "DELETE", _PATH)
    server.load([node_object(_NODE, {HOSTNAME: _NODE}, 8, uid=str(identity("soak", _NODE, life)))])


def _troubled(server: EmbeddedApiServer, running: Program, machine: Machine) -> int:
    """Links and GPUs break and recover, the API server refuses or is away, and somebody edits our labels."""
    well: int = running.ask("turns", 10)
    for broken in ("nvmlDeviceGetFieldValues 0 165 0 = 0 1 0", "nvmlDeviceGetHandleByIndex_v2 0 = 15"):
        machine.fault(broken)
        well += running.ask("turns", 8)
        machine.fault()
        well += running.ask("turns", 5)
    call(server, "PATCH", _PATH, {"metadata": {"labels": {GPUS: "64"}}})
    well += running.ask("turns", 12)
    for code in (500, 429, 503):
        server.faults.reject(code, 2)
    # The Node is read every ten minutes: that is what is refused.
    well += running.ask("turns", _TURNS - 49)
    server.faults.stop_rejecting()
    return well + int(running.ask("turns", 1))


def _killed(_server: EmbeddedApiServer, running: Program, _machine: Machine) -> int:
    """The driver takes the worker down four times in an hour; the turn after that fails, and the next is well."""
    well = 0
    for _ in range(_KILLS):
        well += running.ask("turns", _TURNS // _KILLS - 1)
        worker = running.ask("worker")
        if worker is None:
            raise MeasurementError("the agent has no worker to kill after turns that went well")
        os.kill(worker, signal.SIGKILL)
        well += running.ask("turns", 1)
    return well + int(running.ask("turns", 1))


_MIB: Final = 1 << 20
_WARM: Final = 1
"""Looks that are not judged: what is loaded and filled once."""
_MEMORY: Final = Slack(1.0, 0.03)
"""MiB."""
_ENTRIES: Final = Slack(16, 0.02)
_REQUESTS: Final = Slack(8, 0.05)
_FEW: Final = Slack(1, 0.05)
"""For files and threads."""


def hourly(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[str, float]:
    """Requests between two counts, by verb and kind."""
    asked: Counter[str] = Counter()
    for (method, path), count in (after - before).items():
        asked[f"{method} {kind(path)}"] += count
    return {name: float(count) for name, count in asked.items()}


def kind(path: str) -> str:
    """A request's path without the names in it: `/api/v1/nodes/a/status` is `nodes/status`."""
    parts = [part for part in path.split("/") if part]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:  # noqa: PLR2004 - something within one
        parts = parts[2:]
    return "/".join(parts[:1] + parts[2:]) or "discovery"


def verdict(what: str, looks: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, float]]) -> Iterator[Figure]:
    """How many things grow; each that does has a line of its own."""
    looks, asked = looks[_WARM:], asked[_WARM:]
    memory = [look["rss"] / _MIB for look in looks]
    line = trend(memory)
    yield Figure(f"{what}, resident memory", Sample(tuple(memory), "MiB"))
    yield Figure("  its slope", Sample((1024 * line.slope,), f"KiB an hour (standard error {1024 * line.error:.1f})"))
    yield from _grown("  memory that grows", growing([{"rss": value} for value in memory], _MEMORY))
    few = [{name: look[name] for name in ("files", "threads")} for look in looks]
    yield from _grown("  open files and threads that grow", growing(few, _FEW))
    places = {place for look in looks for place in look["sizes"]}
    if places:
        grown = growing([look["sizes"] for look in looks], _ENTRIES)
        yield from _grown(f"  containers that grow, of {len(places):,}", grown)
    yield Figure("  API requests in an hour", Sample(tuple(sum(hour.values()) for hour in asked), ""))
    yield from _grown("  kinds of requests that grow", growing(asked, _REQUESTS))


def _grown(what: str, grown: Mapping[str, Trend]) -> Iterator[Figure]:
    yield Figure(what, Sample((len(grown),), ""), Target(0))
    for name, line in grown.items():
        yield Figure(f"    {name}, an hour", Sample((line.slope,), ""))
