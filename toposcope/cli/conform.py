"""Print the evidence for "Hardware Topology Awareness" of Kubernetes AI Conformance: what is asked, and what shows it.

The requirement is proposed (kubernetes-sigs/ai-conformance, KAR-5, a SHOULD) and in no checklist up to 1.36.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from toposcope.api import label_keys
from toposcope.cli.command import add_source_arguments, load_snapshot, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS
from toposcope.cli.output import counted, show_document
from toposcope.cli.terminal import Screen, Whole
from toposcope.explain.machine import examine
from toposcope.integrations.dra.audit import DRIVER, NUMA_NODE, PCIE_ROOT
from toposcope.integrations.framework.features import Outcome
from toposcope.snapshot.model import NodeView, Snapshot

_STYLES = {"pass": "green", "fail": "red", "not shown": "yellow"}


class Point(NamedTuple):
    """One point of the requirement: `verdict` is `pass`, `fail` or `not shown` where nothing here could show it."""

    asks: str
    verdict: str
    evidence: tuple[str, ...]
    command: str
    """Shows the objects."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope conform`."""
    add_source_arguments(parser, ("text", "json", "yaml"))


@on_screen("conform")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the evidence; 1 when a point fails."""
    found = list(points(load_snapshot(arguments, published=True, matrices=True)))
    if arguments.output == "text":
        screen.show(_page(screen, found))
    else:
        said = {
            "requirement": "hardware_topology_awareness",
            "points": [point._asdict() for point in found],
        }
        show_document(screen, arguments.output, said)
    return EXIT_PROBLEMS if any(point.verdict == "fail" for point in found) else EXIT_OK


def points(snapshot: Snapshot) -> Iterator[Point]:
    """The points in the order of the requirement's text."""
    nodes = tuple(node for node in snapshot.nodes if node.has_gpus)
    labels = f"{label_keys.INTERCONNECT},{label_keys.NVLINK_DOMAIN},{label_keys.RAIL_ALIGNED}"
    yield _known(
        "how GPUs are connected to each other is known", nodes, label_keys.INTERCONNECT, labels
    )
    yield _known("how near NICs are to GPUs is known", nodes, label_keys.RAIL_ALIGNED, labels)
    states = [
        f"ClusterTopology {topology.name}: {condition.get('type')} is {condition.get('status')}"
        for topology in snapshot.topologies
        for condition in topology.status.get("conditions", ())
        if condition.get("type") == "TopologyLevelsAvailable"
    ]
    read = [f"{published.handle} is there for its scheduler" for published in snapshot.published]
    well = bool(states) and all(state.endswith("True") for state in states)
    verdict = "pass" if well else "fail" if states else "not shown"
    yield Point(
        "schedulers can place workloads by it", verdict, (*states, *read), "kubectl describe gtopo"
    )
    yield _attributes(snapshot, nodes)


def _known(asks: str, nodes: tuple[NodeView, ...], key: str, columns: str) -> Point:
    """A fact that each agent writes as a label."""
    values = Counter(node.label(key) for node in nodes)
    said = [
        f"{counted(count, 'node')}: {key}={value}"
        for value, count in sorted(values.items(), key=str)
        if value
    ]
    lacking = (
        [f"{counted(values[None], 'node')} with GPUs and without this label"]
        if values[None]
        else []
    )
    verdict = "fail" if lacking else "pass" if said else "not shown"
    return Point(asks, verdict, (*said, *lacking), f"kubectl get nodes -L {columns}")


def _attributes(snapshot: Snapshot, nodes: tuple[NodeView, ...]) -> Point:
    """That the DRA driver publishes it, and truly."""
    gpus = [gpu for there in snapshot.inventory.nodes.values() for gpu in there.gpus_of(DRIVER)]
    placed = sum(
        gpu.attribute(PCIE_ROOT) is not None or gpu.attribute(NUMA_NODE) is not None for gpu in gpus
    )
    wrong = [
        f"{node.name}: {step.message}"
        for node in nodes
        for step in examine(snapshot, node)
        if step.name == "driver" and step.outcome is Outcome.FAILED
    ]
    said = f"{placed} of {counted(len(gpus), 'GPU')} in ResourceSlices of {DRIVER} have pcieRoot or numaNode"
    verdict = "not shown" if not gpus else "fail" if wrong or placed < len(gpus) else "pass"
    asks = "it is exposed as DRA attributes, where accelerator and driver support that"
    return Point(asks, verdict, (said, *wrong), "kubectl get resourceslices -o yaml")


def _page(screen: Screen, found: list[Point]) -> Iterator[str]:
    yield screen.paint(
        "Hardware Topology Awareness (AI Conformance, KAR-5: proposed, SHOULD)", "bold"
    )
    for point in found:
        yield ""
        yield f"{screen.paint(point.verdict.upper().ljust(9), _STYLES[point.verdict])}  {point.asks}"
        yield from (f"           {line}" for line in point.evidence)
        yield Whole(f"           show: {point.command}")
