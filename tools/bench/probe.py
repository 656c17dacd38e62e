"""One probe and what follows from it, in this process, part by part."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pynvml

from tools.bench.agent import PROFILE, cycle_figures
from tools.bench.recompute import cpu
from tools.bench.record import record
from tools.bench.replay import Replay
from tools.bench.report import Figure, Peer, Sample
from toposcope.agent.describe import describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Files, Sysfs


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
    with TemporaryDirectory(prefix="toposcope-bench-") as name:
        machine = record(PROFILE, Path(name))
        replay, sysfs = Replay(machine.tape), Sysfs(machine.sysfs)
        nvml = Nvml(replay)
        noted = _NotedFiles()
        noting = Sysfs(machine.sysfs, noted)
        probe(nvml, noting, None)
        noted.asked.clear()  # what is read once in a process is no part of a cycle
        probe(nvml, noting, None)
        files = [file for file in noted.asked if os.path.exists(file)]  # noqa: PTH110 - a string
        alone = cpu(lambda: _ask(replay, machine.calls), runs)
        yield replace(cycle, peers=(Peer(f"NVML's share: its {len(machine.calls)} calls alone", alone),))
        share = Sample((100 * alone.value / cycle.sample.value,), "%")
        yield Figure("  NVML's share of it", share)
        yield waiting
        yield Figure(
            f"probe of {len(machine.raw.gpus)} GPUs and {len(machine.raw.nics)} NICs, CPU",
            cpu(lambda: probe(nvml, sysfs, None), runs),
            None,
            (
                Peer(f"its {len(machine.calls)} NVML calls alone", alone),
                Peer(f"its {len(files)} sysfs files alone", cpu(lambda: _read(files), runs)),
            ),
        )
        yield Figure("labels and annotation from a probe, CPU", cpu(lambda: describe(machine.raw, "node-0"), runs))


def _ask(replay: Replay, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    for function, arguments in calls:
        try:
            getattr(replay, function)(*arguments)
        except pynvml.NVMLError:
            continue


def _read(files: Sequence[str]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 1 << 16)
        os.close(descriptor)
