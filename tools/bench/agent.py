"""The agent from outside (memory, start, a cycle), and one probe part by part.

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
_INTERVAL_SECONDS: Final = 60.0
_MIB: Final = 1 << 20
_PATIENCE_SECONDS: Final = 20.0
_ROLES: Final = ("agent", "worker")
_MOST_TIMES_FLOOR: Final = 1.3
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
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
        metrics = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, _, value = line.rpartition(" ")
            metrics[name] = float(value)
        return metrics

    def after_probes(self, count: int) -> list[psutil.Process]:
        """Its processes, once it has probed so often and published. Raises MeasurementError."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.program.check()
            with contextlib.suppress(OSError):  # it does not listen yet
                metrics = self.scrape()
                self._check_probes(metrics)
                published = metrics["toposcope_agent_last_successful_publish_timestamp_seconds"]
                probes = metrics["toposcope_agent_probe_duration_seconds_count"]
                if published and probes >= count:
                    return tree(self.program.pid)
            time.sleep(0.05)

        raise self.program.failure(f"no {count} probes and labels within {_PATIENCE_SECONDS:.0f} s")

    def _check_probes(self, metrics: Mapping[str, float]) -> None:
        """Raise MeasurementError when a probe failed."""
        for name, value in metrics.items():
            if value and name.startswith(_FAILURES):
                raise self.program.failure("a probe failed")


def _flags(site: Site, interval: float, port: int) -> tuple[str, ...]:
    return (
        "--metrics-port",
        str(port),
        "--interval",
        str(interval),
        "--spread",
        "0",
        "--sysfs",
        str(site.machine.sysfs),
    )


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
    runs = range(1 + (1 if quick else 3))
    with site_with(len(runs)) as site:
        agents = [_agent_memory(site, f"node-{run}") for run in runs]
        interpreters = [_memory_of("interpreter", site, is_bare=False) for _ in runs]
        floors = [_memory_of("nvml_calls", site, is_bare=True) for _ in runs]
    # The first run of each compiles.
    trees = [agent.tree for agent in agents[1:]]
    workers = [agent.worker for agent in agents[1:]]
    interpreter = Held("interpreter with ssl, http.client, json", interpreters[1:])
    calls = Held("only its NVML calls", floors[1:])
    yield _held(
        Held("agent, whole process tree", trees),
        "total",
        Target(36),
        beside=(interpreter, calls),
    )
    yield _held(
        Held("  of it anonymous", trees),
        "anonymous",
        Target(20),
        beside=(interpreter, calls),
    )
    floor_mib = max(calls.sample("anonymous").values)
    yield _held(
        Held("  worker, anonymous (shared pages split)", workers),
        "anonymous",
        Target(_MOST_TIMES_FLOOR * floor_mib, limit=floor_mib),
        beside=(calls,),
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What a program held in several runs."""

    program: str
    runs: Sequence[Memory]

    def sample(self, part: str) -> Sample:
        """One part of it."""
        values = [getattr(memory, part) / _MIB for memory in self.runs]
        return Sample(tuple(values), "MiB")


def _held(what: Held, part: str, target: Target, beside: Sequence[Held]) -> Figure:
    """One part of what several runs held."""
    peers = []
    for other in beside:
        sample = other.sample(part)
        peers.append(Peer(other.program, sample))
    return Figure(
        what.program,
        what.sample(part),
        target,
        tuple(peers),
    )


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """Memory of an agent's processes together, and of its worker."""

    tree: Memory
    worker: Memory


def _agent_memory(site: Site, node: str) -> AgentMemory:
    with _agent(site, node, interval=0.5) as agent:
        processes = agent.after_probes(3)
        count = len(processes)
        expected = len(_ROLES)
        if count != expected:
            raise agent.program.failure(f"{count} processes instead of {expected}")

        _, worker = processes
        return AgentMemory(
            tree=memory(processes),
            worker=memory([worker]),
        )


def _memory_of(name: str, site: Site, *, is_bare: bool) -> Memory:
    with program(name, site.environment("node-0"), site.folder, is_bare=is_bare) as running:
        running.word()
        return memory(tree(running.pid))


def start_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU and time from a program's start to its first PATCH, which the server holds meanwhile."""
    runs = 4 if quick else 10
    agents = []
    patches = []
    with site_with(2 * runs) as site:
        flags = _flags(site, _INTERVAL_SECONDS, port=0)
        for number in range(runs):
            start = _until_patch(site, "agent", f"node-{number}", *flags)
            agents.append(start)
        for number in range(runs, 2 * runs):
            start = _until_patch(site, "patch", f"node-{number}")
            patches.append(start)

    # The first run of each compiles.
    cpu, elapsed = _columns(agents[1:])
    peer_cpu, peer_elapsed = _columns(patches[1:])

    limit = "ssl, http.client, json and one PATCH"
    yield Figure(
        "agent, start to first PATCH, CPU",
        cpu,
        Target(120, limit=33),
        peers=(Peer(limit, peer_cpu),),
    )
    yield Figure(
        "  elapsed",
        elapsed,
        peers=(Peer(limit, peer_elapsed),),
    )


def _columns(runs: Sequence[tuple[float, float]]) -> tuple[Sample, Sample]:
    """CPU and elapsed time of several runs."""
    cpu, elapsed = zip(*runs, strict=True)
    return Sample(cpu, "ms"), Sample(elapsed, "ms")


def _until_patch(site: Site, name: str, node: str, *flags: str) -> tuple[float, float]:
    """CPU of a program and its processes until its PATCH arrives, and the time; milliseconds."""
    site.server.tell("hold", "PATCH", "/api/v1/nodes/")
    environment = site.environment(node)
    cpu = 0.0
    began = time.monotonic()

    with program(name, environment, site.folder, *flags) as running:
        came: float = site.server.wait(running, "held")
        for process in tree(running.pid):
            cpu += cpu_seconds(process.pid)
        site.server.tell("release")

    elapsed = came - began
    return 1000 * cpu, 1000 * elapsed


_SETTLED_SECONDS: Final = 10.0
"""Seconds after which an agent has seen its first write, on which it probes once more."""


def cycle_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU of both processes for one turn, and for a minute of waiting.

    A turn is probe, describe, compare, the messages between the processes, and the wait. While they
    wait, both look for events every other second.
    """
    cycles = 3 if quick else 11
    seconds = 4.0 if quick else 12.0
    with site_with(1) as site:
        with _agent(site, "node-0", interval=1.0) as agent:
            costs = _cycle_costs(agent, cycles)
        yield Figure(
            "agent, CPU per cycle, both processes",
            Sample(costs, "ms"),
            Target(5),
        )
        with _agent(site, "node-0", _INTERVAL_SECONDS) as agent:
            waiting = _waiting_cost(agent, seconds)

    yield Figure("agent waiting, CPU in a minute", Sample((waiting,), "ms"))


def _cycle_costs(agent: _RunningAgent, cycles: int) -> tuple[float, ...]:
    """Milliseconds of CPU of each cycle."""
    pids = [process.pid for process in agent.after_probes(2)]
    worker = pids[-1]
    costs = []
    before = idle(*pids)
    for _ in range(cycles):
        busy(worker, _PATIENCE_SECONDS)
        after = idle(*pids)
        costs.append(1000 * (after - before))
        before = after
    return tuple(costs)


def _waiting_cost(agent: _RunningAgent, seconds: float) -> float:
    """Milliseconds of CPU a minute of waiting costs, measured for `seconds`."""
    pids = [process.pid for process in agent.after_probes(1)]
    time.sleep(_SETTLED_SECONDS)

    before = idle(*pids)
    time.sleep(seconds)
    after = 0.0
    for pid in pids:
        after += cpu_seconds(pid)

    used = after - before
    return 1000 * used * 60 / seconds


class _NotedFiles(Files):
    """Notes which files are read."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def text(self, path: str) -> str:
        self.paths.append(path)
        return super().text(path)


def probe_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU of a whole cycle, then of its parts: NVML and sysfs, and what is concluded from them."""
    runs = 20 if quick else 100
    cycle, waiting = cycle_figures(quick=quick)
    with scratch() as folder:
        machine = make(PROFILE, folder)
        machine.load()
        files = _files_of_a_cycle(machine)
        ask_all = partial(floor.ask, machine.calls)
        ask_at_rest = partial(floor.ask, machine.calls_at_rest)
        nvml_alone = cpu(ask_all, runs)
        nvml_at_rest = cpu(ask_at_rest, runs)
        files_alone = cpu(partial(_read, files), runs)
        sysfs = Sysfs(machine.sysfs)
        whole_probe = cpu(lambda: probe(Nvml(pynvml), sysfs, None), runs)
        describe_raw = partial(describe, machine.raw, "node-0")
        conclusions = cpu(describe_raw, runs)

    calls = len(machine.calls)
    calls_at_rest = len(machine.calls_at_rest)
    share = Peer(f"NVML's share: its {calls_at_rest} calls alone", nvml_at_rest)
    yield replace(cycle, peers=(share,))
    yield waiting

    gpus = len(machine.raw.gpus)
    nics = len(machine.raw.nics)
    yield Figure(
        f"probe of {gpus} GPUs and {nics} NICs, CPU",
        whole_probe,
        peers=(
            Peer(f"its {calls} NVML calls alone", nvml_alone),
            Peer(f"its {len(files)} sysfs files alone", files_alone),
        ),
    )
    yield Figure("labels and annotation from a probe, CPU", conclusions)


def _files_of_a_cycle(machine: Machine) -> list[str]:
    """The files of sysfs that a probe reads, but for those that it reads once in a process."""
    nvml = Nvml(pynvml)
    noted = _NotedFiles()
    noting = Sysfs(machine.sysfs, noted)

    probe(nvml, noting, None)
    noted.paths.clear()
    probe(nvml, noting, None)

    files = []
    for file in noted.paths:
        if os.path.exists(file):  # noqa: PTH110 - a string
            files.append(file)
    return files


def _read(files: Sequence[str]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 1 << 16)
        os.close(descriptor)
