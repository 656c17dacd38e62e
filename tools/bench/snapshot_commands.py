"""Commands on saved clusters, from start to end, beside reading the bytes or loading the cluster.

The file is what `kubectl get nodes,pods -A -o json` prints (without managedFields, many lines): the
labels, conditions and images of GPU nodes, and two or three pods on each. Everything is in the page
cache.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.workspace import MeasurementError, scratch
from toposcope.simulator.cluster import large_cluster
from toposcope.simulator.node_object import pod_objects

_SIZES: Final = {1_000: 3, 15_000: 3, 100_000: 1}
"""Nodes to runs."""
_MIB: Final = 1 << 20
_KIB: Final = 1024
_PEAK: Final = """
import sys
status = open("/proc/self/status").read()
lines = (line.split() for line in status.splitlines())
print(next(words[1] for words in lines if words[0] == "VmHWM:"), file=sys.stderr)
"""
"""Code by which the program itself prints its peak memory at its end.

What the system keeps of a process that has ended counts its parent's too.
"""
_COMMAND: Final = f"from toposcope.cli.main import main\nmain()\n{_PEAK}"
_READ: Final = (
    "import sys\n"
    "with open(sys.argv[1], 'rb') as file:\n"
    "    while file.read(1 << 20):\n"
    f"        pass\n{_PEAK}"
)

_DECODE: Final = f"""
import sys
import msgspec
from toposcope.snapshot.documents import documents
class Meta(msgspec.Struct, gc=False):
    name: str
class Item(msgspec.Struct, gc=False):
    metadata: Meta
items = msgspec.json.Decoder(list[Item])
def take(_, text):
    return len(items.decode(text))
print("items", len(list(documents([sys.argv[1]], print, take_list=take))))
{_PEAK}"""
"""Nothing but the name of each object: less than this cannot be read of JSON."""

_LOAD: Final = f"""
import sys
from toposcope.cli import drain_order, score, slots, whatif
from toposcope.cli.command import paused_gc
from toposcope.snapshot.files import load_files
with paused_gc():
    print("pods", sum(1 for _ in load_files([sys.argv[1]]).pods))
{_PEAK}"""
"""Imports what the commands of docs/check.md import, and loads the file with its pods.

What a command takes beyond that is its own work.
"""
_WORKLOAD: Final = str(Path(__file__).with_name("workload.yaml"))
_PLANNING: Final = {
    "score": b"SCORE",
    "slots": b"UNUSABLE",
    "whatif --drain rack=rack-00001": b"Gangs that fit",
    "whatif --add 8 --like gpu-00000-00 --in rack=rack-new": b"Gangs that fit",
    "whatif --finish research/train-00000": b"Gangs that fit",
    f"whatif --admit {_WORKLOAD}": b"fits",
    "whatif --free 64 --level rack": b"64 GPUs",
    "drain-order": b"down together",
    "drain-order --level rack": b"down together",
}
"""Commands, and what each has to print."""
_BEYOND: Final = {15_000: 1.0, 100_000: 8.0}
"""Nodes to the CPU seconds that a command may take after loading."""


def look_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU, time and peak memory of whole commands on kubectl's file, then on a saved one."""
    for nodes, runs in _SIZES.items():
        if quick and nodes > min(_SIZES):
            return

        with scratch() as folder:
            file = folder / "cluster.json"
            small = folder / "cluster.toposcope"
            pods = write_cluster(file, nodes)
            first = runs_on(file, runs)
            save = (
                "save",
                str(small),
                "--from",
                str(file),
            )
            saved = _several(runs, _COMMAND, b"saved", *save)
            runs_again = max(3, runs)
            again = runs_on(small, runs_again)
            file_mib = file.stat().st_size / _MIB
            small_mib = small.stat().st_size / _MIB

        cluster = f"of {nodes:,} nodes and {pods:,} pods"
        of_file = f"{cluster} ({file_mib:,.0f} MiB)"
        of_small = f"{cluster}, saved ({small_mib:.1f} MiB)"
        beside = {
            "read the bytes only": first["read"],
            "read, decode the names only": first["decode"],
        }
        beside_saved = {
            "read the bytes only": again["read"],
        }

        for command in ("tree", "check"):
            yield from _figures(f"{command} {of_file}", first[command], beside)
        yield from _figures(f"save {of_file}", saved, beside)
        for command in ("tree", "check"):
            yield from _figures(f"{command} {of_small}", again[command], beside_saved)


def planning_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU, time and peak memory of commands that help to decide, on a file of `toposcope save`."""
    for nodes, seconds in _BEYOND.items():
        if quick and nodes > min(_BEYOND):
            return

        with scratch() as folder:
            file = folder / "cluster.json"
            small = folder / "cluster.toposcope"
            pods = write_cluster(file, nodes)
            _run(_COMMAND, b"saved", "save", str(small), "--from", str(file))
            cluster = f"{nodes:,} nodes and {pods:,} pods"
            yield from _plans(
                small,
                cluster,
                runs=_SIZES[nodes],
                target=Target(seconds),
            )


def _plans(saved: Path, cluster: str, *, runs: int, target: Target) -> Iterator[Figure]:
    """What each command that helps to decide costs on one saved cluster."""
    loaded = _several(runs, _LOAD, b"pods", str(saved))
    loading = _column(loaded, 0, "s").value
    beside = {"load nodes and pods only": loaded}

    for command, expected in _PLANNING.items():
        arguments = (*command.split(), "--from", str(saved))
        results = _several(runs, _COMMAND, expected, *arguments)
        beyond = []
        for cpu, *_ in results:
            beyond.append(max(0.0, cpu - loading))

        name = command.replace(_WORKLOAD, "FILE")
        what = f"{name} of {cluster}"
        yield Figure(
            f"{what}, CPU after loading",
            Sample(tuple(beyond), "s"),
            target,
        )
        yield from _figures(what, results, beside)


def runs_on(file: Path, runs: int) -> dict[str, "Runs"]:
    """Both commands, reading the bytes alone, and decoding the least of JSON, on one file."""
    name = str(file)
    tree = ("tree", "--from", name)
    check = ("check", "-f", _WORKLOAD, "--from", name)

    results = {
        "read": _several(runs, _READ, b"", name),
        "tree": _several(runs, _COMMAND, b"all nodes", *tree),
        "check": _several(runs, _COMMAND, b"fits", *check),
    }
    if file.suffix == ".json":
        results["decode"] = _several(runs, _DECODE, b"items", name)
    return results


Runs = list[tuple[float, float, float]]
"""CPU seconds, seconds and peak MiB of each run."""


def _several(runs: int, program: str, expected: bytes, *arguments: str) -> Runs:
    """So many runs; before several of them one more, which is not counted."""
    if runs > 1:
        _run(program, expected, *arguments)
    return [_run(program, expected, *arguments) for _ in range(runs)]


def _figures(what: str, results: Runs, beside: dict[str, Runs]) -> Iterator[Figure]:
    columns = (
        (f"{what}, CPU", "s"),
        ("  elapsed", "s"),
        ("  peak memory", "MiB"),
    )
    for number, (name, unit) in enumerate(columns):
        peers = []
        for peer, runs in beside.items():
            sample = _column(runs, number, unit)
            peers.append(Peer(peer, sample))

        yield Figure(
            name,
            _column(results, number, unit),
            peers=tuple(peers),
        )


def _column(runs: Runs, number: int, unit: str) -> Sample:
    return Sample(tuple(run[number] for run in runs), unit)


def write_cluster(file: Path, nodes: int) -> int:
    """Write the cluster down as kubectl prints it; how many pods are in it."""
    pods = 0
    first = True
    with file.open("wb") as out:
        out.write(b'{\n    "apiVersion": "v1",\n    "items": [\n')
        for number, node in enumerate(large_cluster(nodes)):
            shown = node | {
                "metadata": {
                    name: part for name, part in node["metadata"].items() if name != "managedFields"
                }
            }
            own = list(pod_objects(node, number))
            pods += len(own)
            for document in (shown, *own):
                text = msgspec.json.format(msgspec.json.encode(document), indent=4).replace(
                    b"\n", b"\n        "
                )
                out.write((b"        " if first else b",\n        ") + text)
                first = False
        out.write(
            b'\n    ],\n    "kind": "List",\n    "metadata": {\n'
            b'        "resourceVersion": ""\n    }\n}\n'
        )
    return pods


def _run(program: str, expected: bytes, *arguments: str) -> tuple[float, float, float]:
    """CPU seconds, seconds and peak MiB of one process, which has to say what is expected.

    Raises MeasurementError.
    """
    command = [sys.executable, "-c", program, *arguments]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        output = _read_all(process.stdout)
        peak = _read_all(process.stderr)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)

    code = process.returncode
    if code or expected not in output:
        what = " ".join(arguments)
        errors = peak.decode()
        end = errors[-200:]
        raise MeasurementError(f"{what} ended with code {code}: {end}")

    cpu_used = usage.ru_utime + usage.ru_stime
    *_, peak_kib = peak.split()
    peak_mib = int(peak_kib) * _KIB / _MIB
    return cpu_used, elapsed, peak_mib


def _read_all(pipe: IO[bytes] | None) -> bytes:
    if pipe is None:
        return b""
    return pipe.read()
