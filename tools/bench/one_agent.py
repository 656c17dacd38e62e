"""One agent under a clock of its own: an hour at rest, and an hour beside a link that flaps.

The production loop and publisher run beside an API server that is a process of its own.
"""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from tools.bench.agent import Site, site_with
from tools.bench.report import Figure, Sample, Target
from tools.bench.workspace import MeasurementError
from toposcope.agent.loop import Agent, AgentParts
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import AgentOptions
from toposcope.agent.publish import NodePublisher
from toposcope.agent.raw import RawLink, RawNode
from toposcope.kube.runtime import Runtime

_HOUR_SECONDS: Final = 3600.0
_LINK_DOWN: Final = 0
_INTERVAL_SECONDS: Final = 60.0
_FLAP_SECONDS: Final = 5.0


@dataclass(slots=True)
class Hardware:
    """Stands for the process that probes: the same machine, or with a link of GPU 0 down."""

    raw: RawNode
    is_down: bool = False

    def probe(self) -> RawNode:
        """What the probe sees."""
        if not self.is_down:
            return self.raw
        first, *others = self.raw.gpus
        lost, *links = first.links
        return self.raw._replace(
            gpus=(first._replace(links=(RawLink(lost.link, _LINK_DOWN), *links)), *others)
        )


class Clock(Runtime):
    """A machine on which only the measurement moves time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Seconds since the measurement began."""
        return self.seconds

    def now(self) -> datetime:
        """The same as a time."""
        return datetime.fromtimestamp(self.seconds, UTC)

    def rng(self) -> random.Random:
        """The same jitter each time."""
        return random.Random(0)  # noqa: S311 - jitter, not a secret


@contextmanager
def _labelled() -> Iterator[tuple[Site, Hardware, Agent, Clock]]:
    """An agent with the production loop and publisher that wrote its labels at second 0."""
    # its news is no part of the report
    logging.getLogger("agent").addHandler(logging.NullHandler())
    clock = Clock()
    with site_with(1) as site:
        hardware = Hardware(site.machine.raw)
        parts = AgentParts(
            AgentOptions("node-0", spread=0.0),
            cast("ProbeProcess", hardware),
            NodePublisher(site.server.client(), "node-0"),
            AgentMetrics(),
        )
        agent = Agent(parts, clock)
        if not agent.sync():
            raise MeasurementError("the agent could not publish")
        site.server.tell("forget")
        yield site, hardware, agent, clock


def rest_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs a second
    """API requests in an hour of the agent's own clock, after the labels were written."""
    with _labelled() as (site, _, agent, clock):
        while clock.seconds < _HOUR_SECONDS:
            clock.seconds += _INTERVAL_SECONDS
            agent.sync()
        entries = site.server.tell("entries")

    methods = [method for method, *_ in entries]
    reads = methods.count("GET")
    writes = len(methods) - reads
    yield Figure(
        "agent at rest, writes in an hour",
        Sample((writes,), ""),
        Target(0),
    )
    yield Figure(
        "agent at rest, reads in an hour",
        Sample((reads,), ""),
        Target(6),
    )


def flapping_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs seconds
    """Writes in an hour of the agent's clock in which a link goes down or comes up every 5 s.

    The agent's turns are those of `toposcope.agent.run`: one at each event, and others when it
    wants to.
    """
    with _labelled() as (site, hardware, agent, clock):
        turns = 0
        event = _FLAP_SECONDS
        while clock.seconds < _HOUR_SECONDS:
            due = clock.seconds + agent.seconds_until_sync()
            if event <= due:
                earliest = clock.seconds + agent.min_pause()
                clock.seconds = max(event, earliest)
                hardware.is_down = not hardware.is_down
                event += _FLAP_SECONDS
            else:
                clock.seconds = due
            agent.sync()
            turns += 1
        entries = site.server.tell("entries")

    writes = 0
    events = 0
    for method, path, *_ in entries:
        if method == "PATCH" and "/nodes/" in path:
            writes += 1
        if method == "POST" and "/events" in path:
            events += 1

    if turns < _HOUR_SECONDS / _FLAP_SECONDS or not writes:
        raise MeasurementError(
            f"{turns} probes and {writes} writes in an hour of a link that flaps: nothing happened"
        )
    yield Figure(
        "a link goes up and down every 5 s, writes to the Node in an hour",
        Sample((writes,), ""),
        Target(60),
    )
    yield Figure("  Events in that hour", Sample((events,), ""))
    yield Figure("  probes in that hour", Sample((turns,), ""))
