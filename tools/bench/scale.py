"""From 1,000 to 100,000 nodes: what the controller and the commands cost, as curves with their growth exponents.

Beside them in the same run the limit (a program that only reads the same bytes, one that decodes and keeps) and the
naive way (the `kubernetes` package's typed client). `--write` draws docs/pictures/scale.svg.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import linear_regression
from typing import Final

import matplotlib as mpl
import msgspec
import psutil
from matplotlib.figure import Figure as Canvas

from tools.bench.controller import at_rest, change, column, compile_programs, first_status, moves, topology, until_done
from tools.bench.recompute import event_rate
from tools.bench.report import Rows, Sample, number
from tools.bench.snapshot_commands import runs_on, write_cluster
from tools.bench.usage import idle
from tools.bench.workspace import ApiServer, MeasurementError, Program, cluster, has_room, scratch
from tools.figures import FOLDER

_LIMIT: Final = "limit: "


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost in one unit at several sizes; `limit` when it is a peer and not ours."""

    name: str
    unit: str
    points: Mapping[int, Sample]
    limit: bool = False

    @property
    def line(self) -> list[tuple[float, float]]:
        """Sizes and values, for those that are more than nothing."""
        return [(float(size), sample.value) for size, sample in sorted(self.points.items()) if sample.value > 0]

    @property
    def exponent(self) -> float | None:
        """The k of cost ~ nodes ** k; None where there are not two points."""
        return exponent(self.line)

    @property
    def tail(self) -> float | None:
        """The same for the larger half of the sizes, in which what every start costs weighs little."""
        return exponent(self.line[len(self.line) // 2 :])


def exponent(line: Sequence[tuple[float, float]]) -> float | None:
    """The slope of log(cost) over log(size) by least squares; None where there are not two sizes."""
    if len({size for size, _ in line}) < 2:  # noqa: PLR2004 - two points make a line
        return None
    return linear_regression([log(size) for size, _ in line], [log(cost) for _, cost in line]).slope


def curve_rows(curves: Sequence[Curve]) -> Rows:
    """A head, then a row a curve, a column a size, and the exponents over all sizes and over the larger half."""
    sizes = sorted({size for curve in curves for size in curve.points})
    rows: Rows = [("nodes", *(f"{size:,}" for size in sizes), "exponent", "larger half")]
    for curve in curves:
        cells = [number(curve.points[size].value) if size in curve.points else "" for size in sizes]
        name = f"{curve.name}, {curve.unit}" if curve.unit else curve.name
        rows.append((_LIMIT * curve.limit + name, *cells, _shown(curve.exponent), _shown(curve.tail)))
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def draw(table: Rows, panels: Mapping[str, Mapping[str, str]], path: Path) -> None:
    """Draw rows of a table of `curve_rows` as SVG, on axes that count in powers of ten, with each curve's exponent.

    `panels` has the title of each pair of axes and, for the start of a row's name, what the curve is called. Curves of
    limits are dashed. Rows that are missing, and values of 0, are left out.
    """
    (_, *columns), *rows = table
    sizes = [int(column.replace(",", "")) for column in columns[:-2]]
    # Words stay words, and equal figures make equal files.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "toposcope"}):
        canvas = Canvas(figsize=(10, 7), layout="constrained")
        for axes, (title, names) in zip(canvas.subplots(2, 2).flat, panels.items(), strict=True):
            for name, called in names.items():
                for row in (row for row in rows if row[0].removeprefix(_LIMIT).startswith(name)):
                    *cells, k, _ = row[1:]
                    costs = [float(cell.replace(",", "") or 0) for cell in cells]
                    points = [point for point in zip(sizes, costs, strict=True) if point[1]]
                    style = "o--" if row[0].startswith(_LIMIT) else "o-"
                    axes.loglog(*zip(*points, strict=True), style, label=f"{called}, n^{k}" if k else called)
            axes.set(title=title, xlabel="nodes")
            axes.grid(visible=True, alpha=0.4)
            axes.legend()
        canvas.savefig(path, format="svg", metadata={"Date": None})


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
    changes = moves(client, _CHANGES[nodes])
    before = idle(running.pid)
    waits = [1000 * change(server, client, name, rack, running)[0] for name, rack in changes]
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
        file = folder / "cluster.json"
        pods = write_cluster(file, nodes)
        results = runs_on(file, runs)
    if not pods:
        raise MeasurementError("the cluster of the commands has no pods")
    for command in ("tree", "check"):
        curves.add(f"{command}, CPU", "s", nodes, column(results[command], 0, "s"))
        curves.add(f"{command}, peak memory", "MiB", nodes, column(results[command], 2, "MiB"))
    curves.add("read the file only, CPU", "s", nodes, column(results["read"], 0, "s"), limit=True)
