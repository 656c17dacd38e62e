"""The controller's computing alone, in this process.

A full assessment, and the flow of node events.
"""

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.workspace import MeasurementError
from toposcope.api.cluster_topology import read
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.informer import Cache
from toposcope.controller.loop import collect_rarely
from toposcope.controller.memory import Memory
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.status import conditions_of, status_of
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.coverage import level_sizes
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.reflector import Reflector
from toposcope.kube.requests import NODES
from toposcope.simulator.cluster import large_cluster

TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT}
_TOPOLOGY: Final = read(
    {"metadata": {"name": "cluster", "uid": "1"}, "spec": {"required": ["rack"]}}
)
_KIB: Final = 1024


def recompute_figures(*, quick: bool) -> Iterator[Figure]:
    """One assessment of all nodes, beside counting distinct tuples of their label values.

    And the status of a ClusterTopology that comes of it, as JSON.
    """
    collect_rarely()  # as the controller does
    runs, target = 10 if quick else 30, Target(10, limit=1.4)
    yield _recompute(_small_facts(15_000), target, runs)
    hosts = _small_facts(15_000, host="ip-{}.example.com")
    yield _recompute(hosts, target, runs, " whose hostname label is not their name")
    yield _recompute(_small_facts(10_000, rails=8), Target(10), runs, " of 8 rails")
    if quick:
        return
    facts = _small_facts(100_000)
    yield _recompute(facts, Target(50, limit=11), runs=10)
    assessment = assess(_TOPOLOGY, Evidence(facts), Memory())
    levels, nodes = assessment.effective.levels, assessment.selected
    sizes = cpu(lambda: level_sizes(levels, nodes), runs=10)
    yield Figure(f"GPUs of every domain, {len(facts):,} nodes (metrics, after the status)", sizes)
    conditions = conditions_of(_TOPOLOGY, assessment, (), anything_served=False)
    status = status_of(_TOPOLOGY, assessment, (), datetime.now(UTC), conditions)
    size = len(msgspec.json.encode(status))
    yield Figure(f"status of {len(facts):,} nodes", Sample((size / _KIB,), "KiB"), Target(16))


def _recompute(facts: Sequence[NodeFacts], target: Target, runs: int, what: str = "") -> Figure:
    index = {fact.name: fact for fact in facts}
    # what a node shares with others is not spelled out in its facts
    rows = [fact.values for fact in facts]
    took = cpu(lambda: assess(_TOPOLOGY, Evidence(Table(index.copy())), Memory()), runs)
    counting = (Peer("count distinct tuples of values", cpu(lambda: Counter(iter(rows)), runs)),)
    return Figure(f"full recompute, {len(facts):,} nodes{what}", took, target, counting)


def _small_facts(nodes: int, host: str = "{}", rails: int = 0) -> list[NodeFacts]:
    """The nodes of a large cluster; `host` makes a hostname label of a node's name."""
    decode = NodeDecoder(TRACKED)
    return [
        decode(msgspec.json.encode(_small_object(node, host)))[2]
        for node in large_cluster(nodes, rails=rails)
    ]


def _small_object(node: dict[str, Any], host: str = "{}") -> dict[str, Any]:
    """A Node without what nobody keeps of it."""
    metadata = node["metadata"]
    labels = metadata["labels"] | {HOSTNAME: host.format(metadata["name"])}
    metadata = {**metadata, "labels": labels, "managedFields": []}
    return {"metadata": metadata, "status": {**node["status"], "images": []}}


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


class Replayed:
    """A client whose first stream lists the nodes.

    Its second sends an event for each, then stops.
    """

    def __init__(
        self, listed: Iterable[bytes], events: Iterable[bytes], stop: threading.Event
    ) -> None:
        self._streams = iter((listed, events))
        self._stop = stop
        self.cpu = 0.0
        """Seconds that the second stream took."""

    def stream(self, _request: Request, _idle_timeout: float) -> Iterator[bytes]:
        """The next stream."""
        lines = next(self._streams)
        began = time.process_time()
        yield from lines
        self.cpu = time.process_time() - began
        self._stop.set()


def events_figures(*, quick: bool) -> Iterator[Figure]:
    """Node events from the socket's lines to the index, each a changed label of a full-sized Node.

    Beside decoding.
    """
    nodes, runs = 1_000, 3 if quick else 9
    objects = [msgspec.json.encode(node) for node in large_cluster(nodes)]
    decode = NodeDecoder(TRACKED)
    alone = cpu(lambda: [decode(obj) for obj in objects], runs)
    peer = Peer(
        "decoding alone", Sample(tuple(1000 * nodes / value for value in alone.values), "/s")
    )
    rates = Sample(tuple(_event_rate(objects) for _ in range(runs)), "/s")
    yield Figure("node events handled, one core", rates, Target(10_000, at_most=False), (peer,))


def _event_rate(objects: Sequence[bytes]) -> float:
    """Events a second that reach the index of a cluster of these nodes."""
    stop = threading.Event()
    bookmark = {
        "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    }
    small = (msgspec.json.encode(_small_object(node)) for node in large_cluster(len(objects)))
    listed = [
        *(_line("ADDED", obj) for obj in small),
        _line("BOOKMARK", msgspec.json.encode(bookmark)),
    ]
    client = Replayed(
        listed, [_line("MODIFIED", obj.replace(b'"block-', b'"other-')) for obj in objects], stop
    )
    index: Cache[NodeFacts] = Cache(lambda: None)
    Reflector(cast("ApiClient", client), NODES, NodeDecoder(TRACKED), index, stop).run()
    if sum(
        any(value.startswith("other-") for value in facts.values) for facts in index.items()
    ) != len(objects):
        raise MeasurementError("not every event came through")
    return len(objects) / client.cpu


def _line(kind: str, obj: bytes) -> bytes:
    """An object as the event of a watch."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), obj)
