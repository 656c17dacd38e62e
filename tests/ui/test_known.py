"""What the server sends its worker of the cluster, and what the worker then knows."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from tests.planning.clusters import at_random, cluster, node, pods
from tests.support.saved import cluster_topology, demo_nodes, pod, saved
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.ui.known import Added, Cluster, Collection, Known, Message, Removed, Sent, decoded, encoded

RACKS = [node(f"n{i}", "b", f"r{i}") for i in range(4)]


THOUSAND_NODES = [node(f"n{number:04}", "b", f"r{number}") for number in range(1000)]


def told(known: Known, sent: Sent, cluster: Cluster) -> list[Message]:
    """Send the news as the server does; what was sent."""
    messages = list(sent.news(cluster))
    for message in messages:
        known.take(decoded(encoded(message)))
    return messages


@pytest.mark.parametrize("seed", range(20))
def test_worker_knows_each_state_that_it_was_sent(seed: int) -> None:
    rng = random.Random(seed)
    known, sent = Known(), Sent()
    now = at_random(rng)
    for _ in range(10):
        told(known, sent, Cluster(now))
        assert known.snapshot.nodes == tuple(sorted(now.nodes, key=lambda node: node.name))
        assert sorted(known.snapshot.pods or (), key=str) == sorted(now.pods or (), key=str)
        assert known.snapshot.topologies == now.topologies
        now = mixed(now, at_random(rng), rng)


def mixed(first: Snapshot, second: Snapshot, rng: random.Random) -> Snapshot:
    """A cluster with most of the nodes and pods of both."""
    nodes = {}
    for candidate in (*first.nodes, *second.nodes):
        if rng.random() < 0.7:
            nodes[candidate.name] = candidate
    running = []
    for pod_view in (*(first.pods or ()), *(second.pods or ())):
        if rng.random() < 0.7:
            running.append(pod_view)
    return replace(first, nodes=tuple(nodes.values()), pods=tuple(running))


def test_nothing_is_sent_twice() -> None:
    known, sent = Known(), Sent()
    before = cluster(RACKS, pods("job", "n0", "n1"))
    assert told(known, sent, Cluster(before))
    assert told(known, sent, Cluster(replace(before))) == []

    cordoned = msgspec.structs.replace(RACKS[2], schedulable=False)
    after = replace(before, nodes=(*RACKS[:2], cordoned, RACKS[3]))
    assert told(known, sent, Cluster(after)) == [Removed(Collection.NODES, [2]), Added(Collection.NODES, [cordoned])]
    assert known.snapshot == after


def test_large_cluster_is_sent_in_small_parts() -> None:
    sizes = []
    for message in Sent().news(Cluster(cluster(THOUSAND_NODES))):
        if isinstance(message, Added) and message.collection is Collection.NODES:
            sizes.append(len(message.objects))
    assert sizes == [200] * 5


def test_nodes_share_in_the_worker_what_they_share_in_the_server() -> None:
    known, sent = Known(), Sent()
    told(known, sent, Cluster(cluster(THOUSAND_NODES)))
    first, *others = known.snapshot.nodes
    assert len(others) == 999
    for other in others:
        assert other.places is first.places
        assert other.allocatable is first.allocatable


def test_pods_may_be_unknown_and_become_known() -> None:
    known, sent = Known(), Sent()
    unknown = Snapshot("test", None, tuple(RACKS), None)
    told(known, sent, Cluster(unknown))
    assert known.snapshot.pods is None
    told(known, sent, Cluster(replace(unknown, pods=())))
    assert known.snapshot.pods == ()


def test_parts_that_a_question_is_not_about_stay() -> None:
    known, sent = Known(), Sent()
    read = Snapshot(
        "test", None, (), None, served={"queues.kueue": True}, objects=({"kind": "Queue"},), warnings=("w",)
    )
    required = RequiredLevels()
    required.keys["PodGang", "ml", "g"] = "rack"
    told(known, sent, Cluster(cluster(RACKS), published=read, required=required))
    told(known, sent, Cluster(cluster(RACKS[:2])))
    assert known.with_published.objects == ({"kind": "Queue"},)
    assert known.with_published.served == {"queues.kueue": True}
    assert known.served.warnings == ("w",)
    assert known.required.keys == required.keys
    assert len(known.with_published.nodes) == 2


def test_cluster_with_everything_arrives_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(saved([*demo_nodes(), cluster_topology(), pod("a", "gb200-01", 4)]))
    snapshot = load_files([str(file)], keep_matrix=lambda _name, _not_ok: True)
    known, sent = Known(), Sent()
    told(known, sent, Cluster(snapshot, published=snapshot))
    assert known.with_published == snapshot


def test_mappings_that_cannot_be_changed_arrive_as_such() -> None:
    proxy: Mapping[str, int] = MappingProxyType({"a": 1})
    found = decoded(encoded({"x": proxy}))["x"]
    assert isinstance(found, MappingProxyType)
    assert found == proxy
