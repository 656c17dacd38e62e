"""From 1,000 to 100,000 nodes: what the controller and the commands cost, as curves with their growth exponents.

Beside them in the same run the limit (a program that only reads the same bytes, one that decodes and keeps) and the
naive way (the `kubernetes` package's typed client). `--write` draws docs/pictures/scale.svg.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import psutil

from tools.bench.controller import (
    at_rest,
    change,
    column,
    compile_programs,
    first_status,
    racks_of,
    topology,
    until_done,
)
from tools.bench.curves import Curve, curve_rows
from tools.bench.recompute import event_rate
from tools.bench.report import Rows, Sample
from tools.bench.snapshot_commands import WORKLOAD, runs_on, write_cluster
from tools.bench.usage import idle
from tools.bench.workspace import ApiServer, MeasurementError, Program, cluster, has_room, scratch
from tools.figures import FOLDER

_SIZES: Final = {1_000: 3, 3_000: 3, 10_000: 3, 30_000: 1, 100_000: 1}
"""Nodes to runs."""
_CHANGES: Final = {1_000: 50, 3_000: 50, 10_000: 50, 30_000: 30, 100_000: 30}
_QUICK: Final = 3_000
_NAIVE: Final = 10_000
"""The typed client takes milliseconds and 200 kB a node: beyond this it shows nothing new."""
_NODE_ON_DISK: Final = 60_000
_MIB: Final = 1 << 20
_KIB: Final = 1024
PICTURE: Final = FOLDER.parent / "pictures" / "scale.svg"

SYNC, PEAK, CHANGED, LAST = (
    "first look, CPU",
    "first look, peak memory",
    "change to status, p50",
    "change to status, p99",
)
DRAIN, KEEP, NAIVE = "read the bytes only", "read, decode, keep", "typed client of `kubernetes`"

PANELS: Final = {
    "First sync of the controller, CPU in s": {
        SYNC: "controller",
        f"{KEEP}, CPU": "decode, keep",
        f"{DRAIN}, CPU": "bytes only",
        f"{NAIVE}, CPU": "typed client",
    },
    "Its peak memory in MiB": {
        PEAK: "controller",
        f"{KEEP}, peak": "decode, keep",
        f"{DRAIN}, peak": "bytes only",
        f"{NAIVE}, peak": "typed client",
    },
    "A changed label to the new status, in ms": {CHANGED: "p50", LAST: "p99"},
    "Commands on a saved cluster, CPU in s": {"tree, CPU": "tree", "check, CPU": "check"},
}
"""Panels of the picture: the start of a row's name to what its curve is called."""


@dataclass(slots=True)
class Curves:
    """Curves as they grow, in the order in which they are first heard of."""

    all: dict[str, Curve] = field(default_factory=dict)

    def add(self, name: str, unit: str, nodes: int, sample: Sample, *, limit: bool = False) -> None:
        """One more point."""
        old = self.all.get(name) or Curve(name, unit, {}, limit)
        self.all[name] = Curve(name, unit, {**old.points, nodes: sample}, limit)


def scale_report(*, quick: bool) -> Rows:
    """The table of all curves."""
    curves = Curves()
    compile_programs()
    for nodes, runs in _SIZES.items():
        if quick and nodes > _QUICK:
            break
        if not has_room(nodes):
            continue
        with cluster(nodes) as (folder, server):
            _controller(curves, folder, server, nodes, runs, quick=quick)
            _peers(curves, folder, server, nodes, runs)
        curves.add("node events handled", "/s", nodes, event_rate(nodes, runs))
        _commands(curves, nodes, runs)
        print(f"{nodes:,} nodes done", file=sys.stderr, flush=True)
    return curve_rows(sorted(curves.all.values(), key=lambda curve: curve.limit))


def _controller(curves: Curves, folder: Path, server: ApiServer, nodes: int, runs: int, *, quick: bool) -> None:
    syncs = []
    for last in (False,) * (runs - 1) + (True,):
        with first_status(folder, server, nodes) as (running, used):
            syncs.append(used)
            if last:
                _changes(curves, server, running, nodes)
                if not quick:
                    writes, reads = at_rest(server)
                    curves.add("API writes at rest, in 65 s", "", nodes, Sample((writes,), ""))
                    curves.add("API reads at rest, in 65 s", "", nodes, Sample((reads,), ""))
    for name, unit, at in ((SYNC, "s", 0), (PEAK, "MiB", 1), ("API requests of the first look", "", 3)):
        curves.add(name, unit, nodes, column(syncs, at, unit))


def _changes(curves: Curves, server: ApiServer, running: Program, nodes: int) -> None:
    idle(running.pid)
    client = server.client()
    size = len(msgspec.json.encode(topology(client)["status"]))
    curves.add("status", "KiB", nodes, Sample((size / _KIB,), "KiB"))
    racks = racks_of(client)
    waits = []
    before = idle(running.pid)
    for i in range(_CHANGES[nodes]):
        name, rack = racks[i // 2]
        waits.append(1000 * change(server, client, name, rack if i % 2 else "a-rack-of-its-own", running)[0])
    used = 1000 * (idle(running.pid) - before) / len(waits)
    for what, share in ((CHANGED, 0.5), (LAST, 0.99)):
        curves.add(what, "ms", nodes, Sample(tuple(waits), "ms", share))
    curves.add("change, CPU with what follows", "ms", nodes, Sample((used,), "ms"))


def _peers(curves: Curves, folder: Path, server: ApiServer, nodes: int, runs: int) -> None:
    for name, called in (("drain", DRAIN), ("decode", KEEP), ("naive", NAIVE)):
        if name == "naive" and nodes > _NAIVE:
            continue
        used = [until_done(name, folder, server.environment) for _ in range(1 if name == "naive" else runs)]
        curves.add(f"{called}, CPU", "s", nodes, column(used, 0, "s"), limit=True)
        curves.add(f"{called}, peak memory", "MiB", nodes, column(used, 1, "MiB"), limit=True)


def _commands(curves: Curves, nodes: int, runs: int) -> None:
    with scratch() as folder:
        if psutil.disk_usage(str(folder)).free < nodes * _NODE_ON_DISK:
            print(f"commands left out at {nodes:,} nodes: the disk is too full for their file", file=sys.stderr)
            return
        file, work = folder / "cluster.json", folder / "work.yaml"
        work.write_text(WORKLOAD, encoding="utf-8")
        pods = write_cluster(file, nodes)
        results = runs_on(file, work, runs)
    if not pods:
        raise MeasurementError("the cluster of the commands has no pods")
    for command in ("tree", "check"):
        curves.add(f"{command}, CPU", "s", nodes, column(results[command], 0, "s"))
        curves.add(f"{command}, peak memory", "MiB", nodes, column(results[command], 2, "MiB"))
    curves.add("read the file only, CPU", "s", nodes, column(results["read"], 0, "s"), limit=True)
