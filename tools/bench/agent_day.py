"""The inside of `tools.bench.programs.soak_agent`: an agent that turns when it is told to."""

import logging
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tools.bench.snapshot_commands_inside import look, rss
from toposcope.agent.collector import AgentCollector
from toposcope.agent.loop import Agent
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.nvml.supervisor import ProbeProcess
from toposcope.agent.options import Options
from toposcope.agent.publish import Publisher
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.telemetry.handler import page


def serve(chosen: Options, probe: ProbeProcess, orders: Iterable[str], rng: random.Random) -> int:
    """Carry out orders until there are no more. Raises ValueError for one that is not known."""
    logging.disable()  # its news is no part of what is looked at
    clock = [0.0]
    metrics = AgentMetrics()
    publisher = Publisher(ApiClient(load(None, os.environ, Path(os.environ["BENCH_ACCOUNT"]))), chosen.node_name)
    agent = Agent(chosen, probe, publisher, metrics, now=lambda: clock[0], monotonic=lambda: clock[0], rng=rng)
    print('"ready"', flush=True)
    for line in orders:
        match msgspec.json.decode(line):
            case ["turns", int() as count]:
                answer: Any = 0
                for _ in range(count):
                    clock[0] += agent.seconds_until_sync()
                    answer += agent.sync()
                page(AgentCollector(metrics, lambda: probe.worker))
            case ["look"]:
                worker = probe.worker
                answer = look() | {"worker": rss(worker) if worker else 0}
            case ["worker"]:
                answer = probe.worker
            case other:
                raise ValueError(f"no such order: {other}")
        print(msgspec.json.encode(answer).decode(), flush=True)
    return 0
