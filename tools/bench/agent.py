"""The agent from outside: memory, start and a cycle.

And one probe with what follows from it, part by part.

The programs are the production code on a recorded DGX H200 (8 GPUs, 12 NICs): in-cluster
configuration, TLS, metrics port, two processes. What no recording has is NVIDIA's libnvidia-ml and
its time in the driver.
"""

import contextlib
import os
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil
import pynvml

from tools.bench import floor
from tools.bench.machine import Machine, make
from tools.bench.recompute import cpu
from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.usage import Memory, busy, cpu_seconds, idle, memory, tree
from tools.bench.workspace import ApiServer, Program, api_server, program, scratch
from toposcope.agent.describe import describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files

PROFILE: Final = "dgx-h200"
_FAILURES: Final = "toposcope_agent_probe_failures_total"
_INTERVAL: Final = 60.0
_MIB: Final = 1 << 20
_PATIENCE: Final = 20.0
_ROLES: Final = ("agent", "worker")
_OVER_FLOOR: Final = 1.3
"""So many times a worker may hold what its NVML calls alone do."""


@dataclass(frozen=True, slots=True)
class Site:
    """A server with bare Nodes, and the machine that every one of them is."""

    folder: Path
    server: ApiServer
    machine: Machine

    def environment(self, node: str) -> dict[str, str]:
        """That of an agent's container."""
        return {**self.server.environment, **self.machine.environment, "NODE_NAME": node}


@contextlib.contextmanager
def site_with(nodes: int) -> Iterator[Site]:
    """A site with so many bare Nodes, `node-0` and on."""
    with scratch() as folder, api_server(folder, machines=nodes) as server:
        yield Site(folder, server, make(PROFILE, folder))


@dataclass(frozen=True, slots=True)
class _RunningAgent:
    program: Program
    port: int

    def scrape(self) -> Mapping[str, float]:
        """The agent's metrics by name and labels."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/metrics", timeout=_PATIENCE
        ) as answer:
            lines = answer.read().decode().splitlines()
        return {
            name: float(value)
            for line in lines
            if line[0] != "#"
            for name, _, value in [line.rpartition(" ")]
        }

    def after_probes(self, count: int) -> list[psutil.Process]:
        """Its processes, once it has probed so often and published. Raises MeasurementError."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self.program.check()
            with contextlib.suppress(OSError):  # it does not listen yet
                metrics = self.scrape()
                if any(value for name, value in metrics.items() if name.startswith(_FAILURES)):
                    raise self.program.failure("a probe failed")
                published = metrics["toposcope_agent_last_successful_publish_timestamp_seconds"]
                if published and metrics["toposcope_agent_probe_duration_seconds_count"] >= count:
                    return tree(self.program.pid)
            time.sleep(0.05)
        raise self.program.failure(f"no {count} probes and labels within {_PATIENCE:.0f} s")


def _flags(site: Site, interval: float, port: int) -> tuple[str, ...]:
    flags = {
        "--metrics-port": port,
        "--interval": interval,
        "--spread": 0,
        "--sysfs": site.machine.sysfs,
    }
    return tuple(str(word) for flag in flags.items() for word in flag)


@contextlib.contextmanager
def _agent(site: Site, node: str, interval: float) -> Iterator[_RunningAgent]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with program(
        "agent", site.environment(node), site.folder, *_flags(site, interval, port)
    ) as running:
        yield _RunningAgent(running, port)


def memory_figures(*, quick: bool) -> Iterator[Figure]:
    """Memory of the process tree after three probes, one write and as many scrapes as that took."""
    runs = 1 if quick else 3
    with site_with(1 + runs) as site:
        trees, agents, workers = zip(
            *[_agent_memory(site, f"node-{run}") for run in range(1 + runs)][1:], strict=True
        )
        limits = {
            name: [_memory_of(program, site, bare=bare) for _ in range(1 + runs)][1:]
            for name, program, bare in (
                ("interpreter with ssl, http.client, json", "interpreter", False),
                ("only its NVML calls", "nvml_calls", True),
            )
        }
    yield _held("agent, whole process tree", trees, "total", Target(36), **limits)
    yield _held("  of it anonymous", trees, "anonymous", Target(20), **limits)
    yield _held("  as PSS beside this benchmark", trees, "pss")
    calls = limits.popitem()
    for role, runs_of_it in (("agent", agents), ("worker", workers)):
        yield _held(f"  {role}, PSS", runs_of_it, "pss")
        if role == "agent":
            yield _held("  agent, anonymous (shared pages split)", agents, "anonymous")
    for what, part in (
        ("anonymous (shared pages split)", "anonymous"),
        ("with the pages of files in full", "total"),
    ):
        floor = max(getattr(held, part) for held in calls[1]) / _MIB
        yield _held(
            f"  worker, {what}",
            workers,
            part,
            Target(_OVER_FLOOR * floor, limit=floor),
            **dict([calls]),
        )


def _held(
    what: str,
    runs: Sequence[Memory],
    part: str,
    target: Target | None = None,
    **peers: list[Memory],
) -> Figure:
    """One part of what several runs held."""
    every = (runs, *peers.values())
    ours, *others = (
        Sample(tuple(getattr(held, part) / _MIB for held in run), "MiB") for run in every
    )
    return Figure(what, ours, target, tuple(map(Peer, peers, others)))


def _agent_memory(site: Site, node: str) -> list[Memory]:
    """Memory of an agent's processes together, and of each."""
    with _agent(site, node, interval=0.5) as agent:
        processes = agent.after_probes(3)
        if len(processes) != len(_ROLES):
            raise agent.program.failure(f"{len(processes)} processes instead of {len(_ROLES)}")
        return [memory(processes), *(memory([process]) for process in processes)]


def _memory_of(name: str, site: Site, *, bare: bool) -> Memory:
    with program(name, site.environment("node-0"), site.folder, bare=bare) as running:
        running.word()
        return memory(tree(running.pid))


def start_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU and time from a program's start to its first PATCH, which the server holds meanwhile."""
    runs = 1 + (3 if quick else 9)
    with site_with(2 * runs) as site:
        flags = _flags(site, _INTERVAL, port=0)
        agents = [_until_patch(site, "agent", f"node-{run}", *flags) for run in range(runs)][1:]
        patches = [_until_patch(site, "patch", f"node-{runs + run}") for run in range(runs)][1:]
    limit = "ssl, http.client, json and one PATCH"
    cpu, elapsed = (Sample(values, "ms") for values in zip(*agents, strict=True))
    peer_cpu, peer_elapsed = (
        Peer(limit, Sample(values, "ms")) for values in zip(*patches, strict=True)
    )
    yield Figure("agent, start to first PATCH, CPU", cpu, Target(120, limit=33), (peer_cpu,))
    yield Figure("  elapsed", elapsed, None, (peer_elapsed,))


def _until_patch(site: Site, name: str, node: str, *flags: str) -> tuple[float, float]:
    """CPU of a program and its processes until its PATCH arrives, and the time; milliseconds."""
    site.server.tell("hold", "PATCH", "/api/v1/nodes/")
    began = time.monotonic()
    with program(name, site.environment(node), site.folder, *flags) as running:
        came: float = site.server.wait(running, "held")
        cpu = sum(cpu_seconds(process.pid) for process in tree(running.pid))
        site.server.tell("release")
    return 1000 * cpu, 1000 * (came - began)


_SETTLED: Final = 10.0
"""Seconds after which an agent has seen its first write, on which it probes once more."""


def cycle_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU of both processes for one turn.

    Probe, describe, compare, the messages between them, and the wait.

    Then for a minute of waiting alone, in which both look for events every other second.
    """
    cycles, seconds = (3, 4.0) if quick else (11, 12.0)
    with site_with(1) as site:
        with _agent(site, "node-0", interval=1.0) as agent:
            pids = [process.pid for process in agent.after_probes(2)]
            clocks = [idle(*pids)]
            for _ in range(cycles):
                busy(pids[-1], _PATIENCE)
                clocks.append(idle(*pids))
        costs = tuple(1000 * (after - before) for before, after in pairwise(clocks))
        yield Figure("agent, CPU per cycle, both processes", Sample(costs, "ms"), Target(5))
        with _agent(site, "node-0", _INTERVAL) as agent:
            pids = [process.pid for process in agent.after_probes(1)]
            time.sleep(_SETTLED)
            before = idle(*pids)
            time.sleep(seconds)
            used = sum(map(cpu_seconds, pids)) - before
    yield Figure("agent waiting, CPU in a minute", Sample((1000 * used * 60 / seconds,), "ms"))


class _NotedFiles(Files):
    """Notes which files are read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def text(self, path: str) -> str:
        self.asked.append(path)
        return super().text(path)


def probe_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU of a whole cycle, then of its parts: NVML and sysfs, and what is concluded from them."""
    runs = 20 if quick else 100
    (cycle, waiting) = cycle_figures(quick=quick)
    with scratch() as folder:
        machine = make(PROFILE, folder)
        machine.load()
        nvml, sysfs = Nvml(pynvml), Sysfs(machine.sysfs)
        noted = _NotedFiles()
        noting = Sysfs(machine.sysfs, noted)
        probe(nvml, noting, None)
        noted.asked.clear()  # what is read once in a process is no part of a cycle
        probe(nvml, noting, None)
        files = [file for file in noted.asked if os.path.exists(file)]  # noqa: PTH110 - a string
        alone = cpu(partial(floor.ask, machine.calls), runs)
        at_rest = cpu(partial(floor.ask, machine.calls_at_rest), runs)
        yield replace(
            cycle,
            peers=(Peer(f"NVML's share: its {len(machine.calls_at_rest)} calls alone", at_rest),),
        )
        share = Sample((100 * at_rest.value / cycle.sample.value,), "%")
        yield Figure("  NVML's share of it", share)
        yield waiting
        yield Figure(
            f"probe of {len(machine.raw.gpus)} GPUs and {len(machine.raw.nics)} NICs, CPU",
            cpu(lambda: probe(Nvml(pynvml), sysfs, None), runs),
            None,
            (
                Peer(f"its {len(machine.calls)} NVML calls alone", alone),
                Peer(f"its {len(files)} sysfs files alone", cpu(lambda: _read(files), runs)),
            ),
        )
        yield Figure(
            "labels and annotation from a probe, CPU",
            cpu(lambda: describe(machine.raw, "node-0"), runs),
        )


def _read(files: Sequence[str]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 1 << 16)
        os.close(descriptor)
