"""An hour of an agent's life under a clock of its own: at rest, and beside a link that flaps.

The loop, the publisher and the API server are the real ones; the hardware is what one real probe saw.
"""

import argparse
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from tools.bench.agent import Site, site_with
from tools.bench.report import Figure, Sample, Target
from tools.bench.workspace import MeasurementError
from toposcope.agent.loop import Agent
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import Options, add_arguments, options
from toposcope.agent.publish import Publisher
from toposcope.agent.raw import RawLink, RawNode

_INTERVAL: Final = 60.0
_HOUR: Final = 3600.0
_FLAP: Final = 5.0
_LINK_DOWN: Final = 0


@dataclass(frozen=True, slots=True)
class _KnownHardware:
    """Stands for the process that probes: the same answer each time."""

    raw: RawNode

    def probe(self) -> RawNode:
        return self.raw


def rest_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs a second
    """API requests in an hour of the agent's own clock, after the labels were written."""
    clock = [0.0]
    with site_with(1) as site:
        agent = _simulated_agent(site, _KnownHardware(site.machine.raw), clock)
        if not agent.sync():
            raise MeasurementError("the agent could not publish")
        site.server.tell("forget")
        while clock[0] < _HOUR:
            clock[0] += _INTERVAL
            agent.sync()
        methods = [entry[0] for entry in site.server.tell("entries")]
    writes = sum(method != "GET" for method in methods)
    yield Figure("agent at rest, writes in an hour", Sample((writes,), ""), Target(0))
    yield Figure("agent at rest, reads in an hour", Sample((methods.count("GET"),), ""), Target(6))


@dataclass(slots=True)
class _FlappingHardware:
    """Stands for the process that probes: one link of the first GPU is down every other time."""

    raw: RawNode
    down: bool = False

    def probe(self) -> RawNode:
        if not self.down:
            return self.raw
        first, *others = self.raw.gpus
        lost, *links = first.links
        return self.raw._replace(gpus=(first._replace(links=(RawLink(lost.link, _LINK_DOWN), *links)), *others))


def flapping_figures(*, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - an hour costs seconds
    """Writes in an hour of the agent's own clock in which a link goes down or comes up, and says so, every 5 s.

    The agent turns as `toposcope.agent.run` makes it turn: at each event, and in between when it wants to.
    """
    clock = [0.0]
    with site_with(1) as site:
        hardware = _FlappingHardware(site.machine.raw)
        agent = _simulated_agent(site, hardware, clock)
        if not agent.sync():
            raise MeasurementError("the agent could not publish")
        site.server.tell("forget")
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


def _simulated_agent(site: Site, hardware: _KnownHardware | _FlappingHardware, clock: list[float]) -> Agent:
    logging.getLogger("agent").addHandler(logging.NullHandler())  # its news is no part of the report
    return Agent(
        _options("--node-name", "node-0", "--spread", "0"),
        cast("ProbeProcess", hardware),
        Publisher(site.server.client(), "node-0"),
        AgentMetrics(),
        now=lambda: clock[0],
        monotonic=lambda: clock[0],
        rng=random.Random(0),  # noqa: S311 - jitter, not a secret
    )


def _options(*flags: str) -> Options:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options(parser, parser.parse_args(flags))
