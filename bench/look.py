"""`toposcope tree` and `check` on saved clusters, from a program's start to its end, beside reading the same bytes.

The file is what `kubectl get nodes,pods -A -o json` prints (without managedFields, many lines): the labels, conditions
and images of GPU nodes, and two or three pods on each. Everything is in the page cache.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.report import Figure, Peer, Sample
from bench.workplace import MeasurementFailed
from simulator.cluster import large_cluster
from simulator.pod_object import pod_objects

_SIZES: Final = {1_000: 3, 15_000: 3, 100_000: 1}
"""Nodes to runs."""
_MIB: Final = 1 << 20
_KIB: Final = 1024
_PEAK: Final = """
import sys
status = open("/proc/self/status").read()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), file=sys.stderr)
"""
"""Said at the end by the program itself: what the system keeps of a process that has ended counts its parent's too."""
_COMMAND: Final = f"from cli.main import main\nmain()\n{_PEAK}"
_READ: Final = (
    f"import sys\nwith open(sys.argv[1], 'rb') as file:\n    while file.read(1 << 20):\n        pass\n{_PEAK}"
)


_WORKLOAD: Final = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: model, namespace: bench}
spec:
  replicas: 2
  template:
    topologyConstraint: {topologyName: cluster, pack: {required: block}}
    cliques:
    - {name: router, spec: {replicas: 4, podSpec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}}
    - name: leader
      spec: {replicas: 1, podSpec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}
    - name: worker
      spec: {replicas: 3, podSpec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}
    podCliqueScalingGroups:
    - name: decode
      replicas: 8
      cliqueNames: [leader, worker]
      topologyConstraint: {pack: {required: rack}}
"""
"""Two replicas in one block each, with eight groups in one rack each: a tree, so the placement is a search."""


def look_figures(*, quick: bool) -> Iterator[Figure]:
    """CPU and peak memory of the whole commands."""
    for nodes, runs in _SIZES.items():
        if quick and nodes > min(_SIZES):
            return
        with TemporaryDirectory(prefix="toposcope-bench-") as folder:
            file, work = Path(folder) / "cluster.json", Path(folder) / "work.yaml"
            work.write_text(_WORKLOAD, encoding="utf-8")
            pods = _save(file, nodes)
            size = file.stat().st_size / _MIB
            source = ("--from", str(file))
            trees = [_run(_COMMAND, b"all nodes", "tree", *source) for _ in range(1 + runs)][1:]
            checks = [_run(_COMMAND, b"fits", "check", "-f", str(work), *source) for _ in range(1 + runs)][1:]
            reads = [_run(_READ, b"", str(file)) for _ in range(1 + runs)][1:]
        peers = _samples(reads)
        for command, found in (("tree", trees), ("check", checks)):
            cpu, peak = _samples(found)
            what = f"{command} of {nodes:,} nodes and {pods:,} pods ({size:,.0f} MiB)"
            yield Figure(f"{what}, CPU", cpu, None, (Peer("read the bytes only", peers[0]),))
            yield Figure("  peak memory", peak, None, (Peer("read the bytes only", peers[1]),))


def _samples(runs: list[tuple[float, float]]) -> tuple[Sample, Sample]:
    """CPU and memory of several runs."""
    cpu, peak = zip(*runs, strict=True)
    return Sample(cpu, "s"), Sample(peak, "MiB")


def _save(file: Path, nodes: int) -> int:
    """Write the cluster down as kubectl prints it; how many pods are in it."""
    pods = 0
    first = True
    with file.open("wb") as out:
        out.write(b'{\n    "apiVersion": "v1",\n    "items": [\n')
        for number, node in enumerate(large_cluster(nodes)):
            shown = node | {
                "metadata": {name: part for name, part in node["metadata"].items() if name != "managedFields"}
            }
            own = list(pod_objects(node, number))
            pods += len(own)
            for each in (shown, *own):
                text = msgspec.json.format(msgspec.json.encode(each), indent=4).replace(b"\n", b"\n        ")
                out.write((b"        " if first else b",\n        ") + text)
                first = False
        out.write(b'\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')
    return pods


def _run(program: str, expected: bytes, *arguments: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of one process, which has to say what is expected. Raises MeasurementFailed."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        said, peak = (pipe.read() if pipe else b"" for pipe in (process.stdout, process.stderr))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or expected not in said:
        raise MeasurementFailed(f"{' '.join(arguments)} ended with code {process.returncode}: {peak.decode()[-200:]}")
    return usage.ru_utime + usage.ru_stime, int(peak.split()[-1]) * _KIB / _MIB
