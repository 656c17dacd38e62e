"""The controller's computing alone, in this process: a full assessment, and node events."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tools.bench.report import Figure, Peer, Sample, Target
from toposcope.api.cluster_topology import read
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.loop import collect_rarely
from toposcope.controller.memory import Memory
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.status import conditions_of, status_of
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import level_sizes
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.simulator.cluster import large_cluster

TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT}
_TOPOLOGY: Final = read(
    {"metadata": {"name": "cluster", "uid": "1"}, "spec": {"required": ["rack"]}}
)
_KIB: Final = 1024


def recompute_figures(*, quick: bool) -> Iterator[Figure]:
    """One assessment of all nodes, and the size of the status that comes of it, as JSON.

    The assessment is measured beside counting distinct tuples of the nodes' label values.
    """
    collect_rarely()  # as the controller does
    runs = 10 if quick else 30
    target = Target(10, limit=1.4)

    plain = _small_facts(15_000)
    yield _recompute(plain, target, runs)
    hosts = _small_facts(15_000, host="ip-{}.example.com")
    yield _recompute(hosts, target, runs, " whose hostname label is not their name")
    with_rails = _small_facts(10_000, rails=8)
    yield _recompute(with_rails, Target(10), runs, " of 8 rails")
    if not quick:
        yield from _largest_figures()


def _largest_figures() -> Iterator[Figure]:
    """The same of 100,000 nodes, and what is made of such an assessment."""
    facts = _small_facts(100_000)
    count = f"{len(facts):,}"
    target = Target(50, limit=11)
    yield _recompute(facts, target, runs=10)

    evidence = Evidence(facts)
    assessment = assess(_TOPOLOGY, evidence, Memory())
    levels = assessment.effective.levels
    nodes = assessment.selected
    sizes = cpu(lambda: level_sizes(levels, nodes), runs=10)
    yield Figure(f"GPUs of every domain, {count} nodes (metrics, after the status)", sizes)

    conditions = conditions_of(_TOPOLOGY, assessment, (), is_any_served=False)
    now = datetime.now(UTC)
    status = status_of(_TOPOLOGY, assessment, (), now, conditions)
    encoded = msgspec.json.encode(status)
    size = len(encoded) / _KIB
    yield Figure(
        f"status of {count} nodes",
        Sample((size,), "KiB"),
        Target(16),
    )


def _recompute(facts: Sequence[NodeFacts], target: Target, runs: int, what: str = "") -> Figure:
    index = {fact.name: fact for fact in facts}
    # what a node shares with others is not spelled out in its facts
    rows = [fact.values for fact in facts]
    took = cpu(lambda: assess(_TOPOLOGY, Evidence(Table(index.copy())), Memory()), runs)
    counting = cpu(lambda: Counter(iter(rows)), runs)
    return Figure(
        f"full recompute, {len(facts):,} nodes{what}",
        took,
        target,
        (Peer("count distinct tuples of values", counting),),
    )


def _small_facts(nodes: int, host: str = "{}", rails: int = 0) -> list[NodeFacts]:
    """The nodes of a large cluster; `host` makes a hostname label of a node's name."""
    decode = NodeDecoder(TRACKED)
    decoded = []
    for node in large_cluster(nodes, rails=rails):
        _, _, facts = decode(msgspec.json.encode(_small_object(node, host)))
        decoded.append(facts)
    return decoded


def _small_object(node: dict[str, Any], host: str) -> dict[str, Any]:
    """A Node reduced to the fields the controller keeps."""
    metadata = node["metadata"]
    name = metadata["name"]
    return {
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], HOSTNAME: host.format(name)},
            "managedFields": [],
        },
        "status": {**node["status"], "images": []},
    }


def cpu(work: Callable[[], object], runs: int) -> Sample:
    """Milliseconds of this thread's CPU that `work` takes, the first time not counted."""
    work()
    gc.collect()
    costs = []
    for _ in range(runs):
        began = time.thread_time()
        work()
        costs.append(1000 * (time.thread_time() - began))
    return Sample(tuple(costs), "ms")
