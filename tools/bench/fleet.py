"""What 100,000 agents and their controllers ask of one API server, replayed.

Three moments: at rest; at a roll-out in which every agent starts within a given time; and after an hour in which the
API server was away. The replay runs the production loop and publisher of a sample of agents under one clock of their
own, against a server that only counts; its rates are scaled to the fleet.
"""

import argparse
import heapq
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from tools.bench.agent import Site, site_with
from tools.bench.machine import make
from tools.bench.report import Figure, Sample, Target
from tools.bench.workspace import MeasurementError, scratch
from toposcope.agent.loop import RESYNC_FACTOR, RESYNC_SECONDS, RETRY_FACTOR, Agent
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import Options, add_arguments, options
from toposcope.agent.publish import Publisher
from toposcope.agent.raw import RawLink, RawNode
from toposcope.controller.election import SPREAD, Timing
from toposcope.controller.loop import RESYNC_SECONDS as LOOK_SECONDS
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import UnreachableError
from toposcope.kube.reflector import WATCH_FACTOR, WATCH_SECONDS

FLEET: Final = 100_000
_SAMPLE: Final = 1_000
_HOUR: Final = 3600.0
_LINK_DOWN: Final = 0
_ROLLOUT: Final = 60.0
"""Seconds in which all agents start at the first installation: the image is pulled and nothing else holds them back."""
_WATCHES: Final = 12
"""What a controller follows at most: nodes, topologies, CRDs, four published kinds and the kinds of workloads."""
_GROUPS: Final = 9
"""Requests of one look at discovery."""


@dataclass(slots=True)
class CountingServer:
    """Stands for the API server: knows each agent's Node, counts reads and writes by second, and can be away."""

    clock: list[float]
    away: bool = False
    reads: Counter[int] = field(default_factory=Counter)
    writes: Counter[int] = field(default_factory=Counter)
    tried: Counter[int] = field(default_factory=Counter)
    _nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def call(self, request: Request) -> Any:
        """Answer as an API server does. Raises Unreachable while it is away."""
        second = int(self.clock[0])
        self.tried[second] += 1
        if self.away:
            raise UnreachableError("away")
        if request.method == "POST":  # an Event
            return {}
        node = self._nodes.setdefault(request.path, {"uid": request.path, "labels": {}, "annotations": {}})
        if request.method == "PATCH":
            self.writes[second] += 1
            metadata = msgspec.json.decode(request.body or b"")["metadata"]
            node |= {name: metadata[name] for name in ("labels", "annotations")}
        else:
            self.reads[second] += 1
        return {"metadata": node}

    def forget(self) -> None:
        """Count anew."""
        for counts in (self.reads, self.writes, self.tried):
            counts.clear()


@dataclass(slots=True)
class Hardware:
    """Stands for the process that probes: the same machine each time, or with a link of its first GPU `down`."""

    raw: RawNode
    down: bool = False

    def probe(self) -> RawNode:
        """What the probe sees."""
        if not self.down:
            return self.raw
        first, *others = self.raw.gpus
        lost, *links = first.links
        return self.raw._replace(gpus=(first._replace(links=(RawLink(lost.link, _LINK_DOWN), *links)), *others))


def simulated_agent(
    node: str, hardware: Hardware, client: ApiClient, clock: list[float], seed: int = 0, *flags: str
) -> Agent:
    """The production loop and publisher of one agent on a clock of its own."""
    logging.getLogger("agent").addHandler(logging.NullHandler())  # its news is no part of the report
    return Agent(
        _options(node, *flags),
        cast("ProbeProcess", hardware),
        Publisher(client, node),
        AgentMetrics(),
        now=lambda: clock[0],
        monotonic=lambda: clock[0],
        rng=random.Random(seed),  # noqa: S311 - jitter, not a secret
    )


class Fleet:
    """A sample of agents, each with its own rng, on one clock; agents turn as `agent.run` makes them turn."""

    def __init__(self, raw: RawNode, agents: int, starting: float, seed: int = 0) -> None:
        self.clock = [0.0]
        self.server = CountingServer(self.clock)
        self.spread = _options("node").spread
        self.interval = _options("node").interval
        rng = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._waiting: list[tuple[float, int, Agent | None]] = [
            (rng.uniform(0, starting), i, None) for i in range(agents)
        ]
        self._hardware = Hardware(raw)
        heapq.heapify(self._waiting)

    def until(self, end: float) -> None:
        """Let all agents live until that time, in seconds since the first could start."""
        while self._waiting[0][0] <= end:
            self.clock[0], i, agent = heapq.heappop(self._waiting)
            agent = agent or self._agent(i)
            agent.sync()
            heapq.heappush(self._waiting, (self.clock[0] + max(agent.seconds_until_sync(), 1e-6), i, agent))
        self.clock[0] = end

    def _agent(self, i: int) -> Agent:
        return simulated_agent(f"node-{i}", self._hardware, cast("ApiClient", self.server), self.clock, i)


def _options(node: str, *flags: str) -> Options:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options(parser, parser.parse_args(["--node-name", node, *flags]))


def fleet_figures(*, quick: bool) -> Iterator[Figure]:
    """Requests a second of 100,000 agents in each moment, as 1,000 (300 when quick) make them."""
    sample = 300 if quick else _SAMPLE
    with scratch() as folder:
        fleet = Fleet(make("dgx-h200", folder).raw, sample, _ROLLOUT)
    server, scale = fleet.server, FLEET / sample

    def rate(name: str, counts: Counter[int], start: float, end: float) -> Figure:
        asked = scale * sum(count for second, count in counts.items() if start <= second < end) / (end - start)
        return Figure(f"{FLEET:,} agents, {name}", Sample((asked,), ""))

    fleet.until(_ROLLOUT + fleet.spread + 1)
    if sum(server.writes.values()) < sample:
        raise MeasurementError(f"{sum(server.writes.values())} of {sample} agents wrote their labels")
    ours = f"all start within {_ROLLOUT:.0f} s"
    yield rate(f"{ours}, reads /s", server.reads, 0, _ROLLOUT)
    yield rate(f"{ours}, writes /s at most", server.writes, fleet.spread, _ROLLOUT)
    yield Figure("  requests of one agent until it is labelled", Sample((sum(server.tried.values()) / sample,), ""))

    fleet.until(3 * _HOUR)  # by then nobody moves with the others any more
    server.forget()
    fleet.until(4 * _HOUR)
    yield rate("at rest, reads /s", server.reads, 3 * _HOUR, 4 * _HOUR)
    yield rate("at rest, writes /s", server.writes, 3 * _HOUR, 4 * _HOUR)

    server.away = True
    server.forget()
    fleet.until(5 * _HOUR)
    yield rate("API server away for an hour, tries /s", server.tried, 4.5 * _HOUR, 5 * _HOUR)
    server.away = False
    server.forget()
    back, wave = 5 * _HOUR, fleet.interval * RETRY_FACTOR[0]
    fleet.until(back + 2 * RESYNC_SECONDS)
    yield rate("it is back, reads /s in the first 30 s", server.reads, back, back + wave)
    all_back = max(second for second in server.reads if second < back + RESYNC_SECONDS / 2) - back + 1
    yield Figure("  seconds until all have read their Node", Sample((all_back,), "s"))
    again = back + fleet.interval * (int(RESYNC_SECONDS * RESYNC_FACTOR[0] / fleet.interval) + 1)
    yield rate("one resync later, reads /s at most", server.reads, again, again + wave)
    yield rate("after the outage, writes /s", server.writes, back, back + 2 * RESYNC_SECONDS)
    timing, middle = Timing(), sum(WATCH_FACTOR) / 2
    # The leader renews its Lease, the other reads it; both renew their watches and ask discovery.
    reads = 1 / (timing.retry * (1 + SPREAD / 2)) + 2 * (_WATCHES / (WATCH_SECONDS * middle) + _GROUPS / LOOK_SECONDS)
    yield Figure("2 controllers, reads /s, watches begun and Leases read included", Sample((reads,), ""))
    yield Figure("2 controllers, writes /s (the Lease)", Sample((1 / timing.retry,), ""))


# One agent: an hour at rest, and an hour beside a link that flaps. The API server is a real process.
_INTERVAL: Final = 60.0
_FLAP: Final = 5.0


@contextmanager
def _labelled() -> Iterator[tuple[Site, Hardware, Agent, list[float]]]:
    """An agent that has written its labels, at second 0 of its clock; the server counts from there."""
    clock = [0.0]
    with site_with(1) as site:
        hardware = Hardware(site.machine.raw)
        agent = simulated_agent("node-0", hardware, site.server.client(), clock, 0, "--spread", "0")
        if not agent.sync():
            raise MeasurementError("the agent could not publish")
        site.server.tell("forget")
        yield site, hardware, agent, clock


def rest_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs a second
    """API requests in an hour of the agent's own clock, after the labels were written."""
    with _labelled() as (site, _, agent, clock):
        while clock[0] < _HOUR:
            clock[0] += _INTERVAL
            agent.sync()
        methods = [entry[0] for entry in site.server.tell("entries")]
    writes = sum(method != "GET" for method in methods)
    yield Figure("agent at rest, writes in an hour", Sample((writes,), ""), Target(0))
    yield Figure("agent at rest, reads in an hour", Sample((methods.count("GET"),), ""), Target(6))


def flapping_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs seconds
    """Writes in an hour of the agent's own clock in which a link goes down or comes up, and says so, every 5 s.

    The agent turns as `toposcope.agent.run` makes it turn: at each event, and in between when it wants to.
    """
    with _labelled() as (site, hardware, agent, clock):
        turns, event = 0, _FLAP
        while clock[0] < _HOUR:
            due = clock[0] + agent.seconds_until_sync()
            if event <= due:
                clock[0] = max(event, clock[0] + agent.min_pause())
                hardware.down = not hardware.down
                event += _FLAP
            else:
                clock[0] = due
            agent.sync()
            turns += 1
        entries = site.server.tell("entries")
    writes = sum(method == "PATCH" and "/nodes/" in path for method, path, *_ in entries)
    if turns < _HOUR / _FLAP or not writes:
        raise MeasurementError(f"{turns} probes and {writes} writes in an hour of a link that flaps: nothing happened")
    yield Figure("a link goes up and down every 5 s, writes to the Node in an hour", Sample((writes,), ""), Target(60))
    events = sum(method == "POST" and "/events" in path for method, path, *_ in entries)
    yield Figure("  Events in that hour", Sample((events,), ""))
    yield Figure("  probes in that hour", Sample((turns,), ""))
