"""The tables of performance.md and reliability.md: of all that was measured, what users feel.

docs/figures/*.json has every row, with ranges, targets and peers.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tools import figures
from toposcope.errors import ToposcopeError


@dataclass(frozen=True)
class Line:
    """A row of a table: one figure, at the size of each column."""

    title: str
    subject: str
    """Under which `make bench` measures it."""
    figure: str
    """Its name, with `{}` for the column and `*` for anything."""
    detail: str = ""
    """The name of one of its details, which are indented below it."""


@dataclass(frozen=True)
class Selection:
    """A table with a column for each size."""

    head: str
    columns: Sequence[str]
    lines: Sequence[Line]


_NODES: Final = ("1,000 nodes", "15,000 nodes", "100,000 nodes")


def _looking(command: str) -> Line:
    """A command that looks at a saved file, until it exits."""
    figure = f"{command} of {{}} and * pods, saved (*), CPU"
    return Line(f"`toposcope {command}`", "look", figure, "elapsed")


def _planning(command: str) -> Line:
    """A command that plans on a saved file, with some of its flags: until it exits."""
    figure = f"{command} of {{}} and * pods, CPU"
    title = command.removesuffix(" *")
    return Line(f"`toposcope {title}`", "planning", figure, "elapsed")


SELECTIONS: Final = {
    "agent": Selection(
        "agent on a DGX H200",
        ("measured",),
        (
            Line("memory, both processes", "memory", "agent, whole process tree"),
            Line(
                "start to first label, elapsed",
                "start",
                "agent, start to first PATCH, CPU",
                "elapsed",
            ),
            Line("CPU of a probe, once a minute", "probe", "agent, CPU per cycle, both processes"),
            Line("CPU between probes, in a minute", "probe", "agent waiting, CPU in a minute"),
            Line("writes in an hour without changes", "rest", "agent at rest, writes in an hour"),
            Line("reads in an hour without changes", "rest", "agent at rest, reads in an hour"),
            Line(
                "writes in an hour while a link goes up and down every 5 s",
                "flapping",
                "a link goes up and down every 5 s, writes to the Node in an hour",
            ),
        ),
    ),
    "node-endpoint": Selection(
        "component `node-endpoint`, on a DGX H200",
        ("measured",),
        (
            Line(
                "requests a second of one CPU",
                "endpoint",
                "node endpoint, requests a second of one CPU, each * KiB",
            ),
            Line(
                "memory of each of 1,000 clients that wait",
                "endpoint",
                "node endpoint, memory of each of 1,000 clients that wait",
            ),
            Line(
                "memory in all",
                "endpoint",
                "node endpoint, memory of each of 1,000 clients that wait",
                "memory in all",
            ),
            Line(
                "a change, until all 1,000 have it",
                "endpoint",
                "node endpoint, memory of each of 1,000 clients that wait",
                "a change, until all have it",
            ),
        ),
    ),
    "controller": Selection(
        "controller",
        _NODES,
        (
            Line("start to first status, elapsed", "sync", "first look at {}, elapsed"),
            Line("peak memory", "sync", "first look at {}, peak memory"),
            Line("full recompute, CPU", "recompute", "full recompute, {}"),
            Line(
                "label changed to status written, median",
                "change",
                "label changed to status written, {}, p50",
            ),
            Line(
                "label changed to status written, p99",
                "change",
                "label changed to status written, {}, p99",
            ),
            Line("size of the status", "recompute", "status of {}"),
        ),
    ),
    "topologies": Selection(
        "many ClusterTopologies",
        ("100", "1,000"),
        (
            Line(
                "a pass that writes every status, CPU",
                "topologies",
                "{} ClusterTopologies *",
                "a pass that*",
            ),
            Line(
                "lost required level to condition",
                "topologies",
                "{} ClusterTopologies *",
                "a required level lost*",
            ),
            Line("peak memory", "topologies", "{} ClusterTopologies *", "peak memory"),
        ),
    ),
    "commands": Selection(
        "command, until it exits",
        _NODES,
        (
            Line(
                "`toposcope save` from kubectl's JSON",
                "look",
                "save of {} and * pods (*), CPU",
                "elapsed",
            ),
            _looking("tree"),
            _looking("check"),
            _planning("score"),
            _planning("slots"),
            _planning("whatif --drain *"),
            _planning("whatif --admit *"),
            _planning("drain-order --level *"),
            Line(
                "`toposcope whatif --free`, peak memory",
                "planning",
                "whatif --free * of {} and * pods, CPU",
                "peak memory",
            ),
        ),
    ),
    "page": Selection(
        "server of `toposcope ui`",
        _NODES,
        (
            Line("first view, CPU", "ui", "first snapshot of {}, CPU"),
            Line("memory, 50 pages open", "ui", "first snapshot of {}, CPU", "memory in the end"),
            Line(
                "sent to a page that opens",
                "ui",
                "first snapshot of {}, CPU",
                "snapshot on the wire",
            ),
            Line(
                "a change, until pages show it",
                "ui",
                "first snapshot of {}, CPU",
                "a state changed, with 50 pages*",
            ),
            Line(
                "CPU at rest, 50 pages open",
                "ui",
                "first snapshot of {}, CPU",
                "at rest with 50 pages, CPU",
            ),
        ),
    ),
}
"""The tables of performance.md."""


class MissingFigureError(ToposcopeError):
    """What a page shows was not measured; the message names it and says where to mend it."""


def performance(name: str) -> str:
    """A table of performance.md. Raises MissingFigureError."""
    selection = SELECTIONS[name]
    tables = figures.read("performance")
    rows = []
    subjects = []
    for line in selection.lines:
        subjects.append(line.subject)
        rows.append([line.title, *_cells(line, selection.columns, tables[line.subject])])
    table = figures.markdown([selection.head, *selection.columns], rows)
    used = [tables[subject] for subject in subjects]
    return "\n\n".join([table, *figures.runs(used)])


def _cells(line: Line, columns: Sequence[str], table: figures.Table) -> list[str]:
    """What was measured at each size; empty where it was not measured at that size."""
    cells = []
    for column in columns:
        cells.append(_measured(line, column, table))
    if not any(cells):
        raise MissingFigureError(
            f"{line.title}: no figure of {line.subject} is called {line.figure!r}: run "
            "`make bench ARGS=--write`, or mend tools/docgen/measured.py"
        )
    return cells


def _measured(line: Line, column: str, table: figures.Table) -> str:
    """The median of a figure, and whether it misses its target; empty where it is missing."""
    wanted = line.figure.format(column)
    is_within = False
    for name, value, target, *_ in table.rows:
        is_detail = not name or name.startswith(" ")
        if not is_detail:
            is_within = fnmatch.fnmatchcase(name, wanted)
        if not is_within or is_detail != bool(line.detail):
            continue
        if line.detail and not fnmatch.fnmatchcase(name.strip(), line.detail):
            continue
        missed = ", misses its target" if target.endswith("missed") else ""
        return value.partition(" (")[0] + missed
    return ""


FAULTS: Final = {
    "API server and etcd": ("api-*", "etcd-*"),
    "connections": (
        "half-open",
        "stalled",
        "slow",
        "cut-mid-line",
        "refused",
        "throttled",
        "token-expired",
    ),
    "controllers and their Lease": ("leader-*", "controller-*", "two-leaders", "lease-*"),
    "objects edited or deleted by others": ("node-*", "crd-*", "*-edited", "published-*"),
    "GPUs and NVML": ("nvml-*", "gpu-*", "links-*"),
    "agents and their machines": ("worker-*", "agent-*", "disk-*", "clock-*"),
}
"""Groups of faults on reliability.md, each with patterns of their names."""

_SECONDS: Final = re.compile(r"(\d+) s \((\d+) s\)")


@dataclass(frozen=True)
class _Fault:
    """A row of the faults that `make chaos` injected."""

    name: str
    times: int
    longest: int
    """Seconds from healing it until everything was correct."""
    violations: int


def faults() -> str:
    """The faults by group. Raises MissingFigureError for one that is in no group."""
    table = figures.read("reliability")["faults"]
    grouped: dict[str, list[_Fault]] = {group: [] for group in FAULTS}
    for fault in _faults(table.rows):
        grouped[_group(fault.name)].append(fault)
    rows = []
    for group, members in grouped.items():
        names = [f"`{fault.name}`" for fault in members]
        rows.append(
            [
                group,
                ", ".join(names),
                str(sum(fault.times for fault in members)),
                f"{max(fault.longest for fault in members)} s",
                str(sum(fault.violations for fault in members)),
            ]
        )
    head = ["what fails", "faults", "times", "settled after, at most", "violations"]
    return "\n\n".join([figures.markdown(head, rows), *figures.runs([table])])


def _faults(rows: Iterable[Sequence[str]]) -> Iterator[_Fault]:
    for name, _, times, settled, violations in rows:
        match = _SECONDS.fullmatch(settled)
        longest = int(match[2]) if match else 0
        yield _Fault(
            name.strip("`"),
            int(times),
            longest,
            int(violations),
        )


def _group(fault: str) -> str:
    for group, patterns in FAULTS.items():
        for pattern in patterns:
            if fnmatch.fnmatchcase(fault, pattern):
                return group
    raise MissingFigureError(
        f"the fault {fault} is in no group: add it to FAULTS in tools/docgen/measured.py"
    )


def fuzzing() -> str:
    """What `make fuzz` feeds, and what holds, each subject as fuzzed last."""
    tables = []
    for table in figures.read("reliability").values():
        if table.head[0] == "subject":
            tables.append(table)
    rows = []
    for table in tables:
        for subject, cases, *_, holds in table.rows:
            rows.append([subject, cases, holds])
    text = figures.markdown(["subject", "cases", "what holds"], rows)
    return "\n\n".join([text, *figures.runs(tables)])
