"""What the server sends its worker of the cluster, and what the worker then knows."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from tests.planning.clusters import at_random, cluster, node, pods
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.ui.known import (
    Added,
    KnownCluster,
    KnownCollection,
    Message,
    Removed,
    Sent,
    WorkerCopy,
    decoded,
    encoded,
)

RACKS = [node(f"n{i}", "b", f"r{i}") for i in range(4)]


THOUSAND_NODES = [node(f"n{number:04}", "b", f"r{number}") for number in range(1000)]


@dataclass
class Worker:
    """What the server has sent a worker, and what the worker knows of it."""

    known: WorkerCopy = field(default_factory=WorkerCopy)
    sent: Sent = field(default_factory=Sent)

    def hears(self, cluster: KnownCluster) -> list[Message]:
        """Send the news as the server does; what was sent."""
        messages = list(self.sent.news(cluster))
        for message in messages:
            received = decoded(encoded(message))
            self.known.take(received)
        return messages


@pytest.mark.parametrize("seed", range(20))
def test_worker_knows_each_state_that_it_was_sent(seed: int) -> None:
    rng = random.Random(seed)
    worker = Worker()
    now = at_random(rng)
    for _ in range(10):
        worker.hears(KnownCluster(now))
        snapshot = worker.known.snapshot
        in_order = sorted(now.nodes, key=lambda node: node.name)
        assert snapshot.nodes == tuple(in_order)
        known_pods = sorted(snapshot.pods or (), key=str)
        assert known_pods == sorted(now.pods or (), key=str)
        assert snapshot.topologies == now.topologies
        now = mixed(now, at_random(rng), rng)


def mixed(first: Snapshot, second: Snapshot, rng: random.Random) -> Snapshot:
    """A cluster with most of the nodes and pods of both."""
    nodes = {}
    for candidate in (*first.nodes, *second.nodes):
        if rng.random() < 0.7:
            nodes[candidate.name] = candidate
    running = []
    for snapshot in (first, second):
        for pod_view in snapshot.pods or ():
            if rng.random() < 0.7:
                running.append(pod_view)
    return replace(first, nodes=tuple(nodes.values()), pods=tuple(running))


def test_nothing_is_sent_twice() -> None:
    worker = Worker()
    before = cluster(RACKS, pods("job", "n0", "n1"))
    assert worker.hears(KnownCluster(before)) != []
    the_same = replace(before)
    assert worker.hears(KnownCluster(the_same)) == []

    cordoned = msgspec.structs.replace(RACKS[2], is_schedulable=False)
    nodes = (*RACKS[:2], cordoned, RACKS[3])
    after = replace(before, nodes=nodes)
    assert worker.hears(KnownCluster(after)) == [
        Removed(KnownCollection.NODES, [2]),
        Added(KnownCollection.NODES, [cordoned]),
    ]
    assert worker.known.snapshot == after


def test_large_cluster_is_sent_in_small_parts() -> None:
    large = KnownCluster(cluster(THOUSAND_NODES))
    sizes = []
    for message in Sent().news(large):
        if isinstance(message, Added) and message.collection is KnownCollection.NODES:
            sizes.append(len(message.objects))
    assert sizes == [200] * 5


def test_nodes_share_in_the_worker_what_they_share_in_the_server() -> None:
    worker = Worker()
    large = cluster(THOUSAND_NODES)
    worker.hears(KnownCluster(large))
    first, *others = worker.known.snapshot.nodes
    assert len(others) == 999
    for other in others:
        assert other.places is first.places
        assert other.allocatable is first.allocatable


def test_pods_may_be_unknown_and_become_known() -> None:
    worker = Worker()
    unknown = Snapshot("test", None, tuple(RACKS), None)
    worker.hears(KnownCluster(unknown))
    assert worker.known.snapshot.pods is None
    without_pods = replace(unknown, pods=())
    worker.hears(KnownCluster(without_pods))
    assert worker.known.snapshot.pods == ()


def test_parts_that_a_question_is_not_about_stay() -> None:
    worker = Worker()
    read = Snapshot(
        "test",
        None,
        (),
        None,
        served={"queues.kueue": True},
        objects=({"kind": "Queue"},),
        warnings=("w",),
    )
    required = RequiredLevels()
    required.keys["PodGang", "ml", "g"] = "rack"
    four_racks = cluster(RACKS)
    worker.hears(KnownCluster(four_racks, published=read, required=required))
    two_racks = cluster(RACKS[:2])
    worker.hears(KnownCluster(two_racks))

    known = worker.known
    assert known.with_published.objects == ({"kind": "Queue"},)
    assert known.with_published.served == {"queues.kueue": True}
    assert known.served.warnings == ("w",)
    assert known.required.keys == required.keys
    assert len(known.with_published.nodes) == 2


def test_cluster_with_everything_arrives_as_it_is(tmp_path: Path) -> None:
    objects = [
        *demo_nodes(),
        cluster_topology(),
        pod("a", "gb200-01", 4),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(saved(objects))
    snapshot = load_files([str(file)], keep_matrix=lambda _name, _not_ok: True)
    worker = Worker()
    worker.hears(KnownCluster(snapshot, published=snapshot))
    assert worker.known.with_published == snapshot


def test_mappings_that_cannot_be_changed_arrive_as_such() -> None:
    proxy: Mapping[str, int] = MappingProxyType({"a": 1})
    received = decoded(encoded({"x": proxy}))
    assert isinstance(received["x"], MappingProxyType)
    assert received["x"] == proxy
