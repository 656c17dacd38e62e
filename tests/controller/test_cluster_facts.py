"""Fabric facts and shared nodes as API servers take them: valid, published side by side, written once."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.api import NODES, ApiUnderTest, node
from tests.support.cluster import BLOCK, RACK, ZONE, fabric
from tests.support.controller import NoWorkloads, condition, make_topology, share_crd, status_of
from tests.support.publishing import BINDINGS, KAI, Time, install, node_labels, patch
from tools.apiserver.grove_operator import start_grove
from toposcope.api import cluster_topology
from toposcope.api.label_keys import CHASSIS, GPU_PRODUCT, GPUS, HOSTNAME, NVLINK_DOMAIN, RAILS, STATE
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.publishers.grove import GrovePublisher
from toposcope.controller.publishers.kai import KaiPublisher
from toposcope.controller.publishers.kueue import KueuePublisher
from toposcope.controller.reconcile import Reconciler
from toposcope.kube.client import ApiClient
from toposcope.topology.catalogue import BUILT_IN

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
TRACKED = BUILT_IN.tracked | {GPUS, GPU_PRODUCT}
LEVELS = (ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)


class Cluster:
    """One API server, and a reconciler that looks at it from scratch each time it is asked to."""

    def __init__(self, api: ApiUnderTest, client: ApiClient) -> None:
        self.api = api
        time = Time()
        publishers = (GrovePublisher(client), KaiPublisher(client, time, 0.0), KueuePublisher(client, time, 0.0))
        self.reconciler = Reconciler(client, publishers, time, instance="test")
        share_crd(api)

    def topology(self, name: str = "cluster", **parts: Any) -> None:
        make_topology(self.api, name, **parts)

    def node(self, name: str, rack: str, domain: str, product: str = "GB200", **more: str) -> None:
        places = {ZONE: "z", BLOCK: "b", RACK: rack, HOSTNAME: name}
        ours = {NVLINK_DOMAIN: domain, GPUS: "4", GPU_PRODUCT: product, CHASSIS: f"c-{rack}", STATE: "ok"}
        self.api.create(NODES, node(name, labels=places | ours | {f"gpu.topology/{k}": v for k, v in more.items()}))

    def look(self) -> None:
        topologies = [cluster_topology.read(body) for body in self.api.get(cluster_topology.PATH)["items"]]
        decode = NodeDecoder(TRACKED)
        nodes = [decode(msgspec.json.encode(body))[2] for body in self.api.get(NODES)["items"]]
        self.reconciler.reconcile(topologies, nodes, NoWorkloads())

    def condition(self, kind: str, name: str = "cluster") -> dict[str, Any]:
        return condition(self.api, kind, name)

    def rests(self, *paths: str) -> bool:
        """Whether further passes change no object of these collections."""
        before = self._versions(*paths)
        for _ in range(3):
            self.look()
        return before == self._versions(*paths)

    def _versions(self, *paths: str) -> list[str]:
        return [item["metadata"]["resourceVersion"] for path in paths for item in self.api.get(path)["items"]]


@pytest.fixture
def cluster(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> Cluster:
    return Cluster(api, clients())


def test_faults_of_the_fabric_are_in_the_status(cluster: Cluster) -> None:
    for i in range(4):
        cluster.node(f"a{i}", "r1", fabric(1))
        cluster.node(f"d{i}", "r4", fabric(4))
        cluster.node(f"b{i}", "r2", fabric(2, clique=i % 2), state="degraded" if i < 2 else "ok")
        if i < 3:
            cluster.node(f"c{i}", "r3", fabric(3))
    cluster.node("c3", "r3", "c3", state="degraded")
    cluster.topology()
    cluster.look()
    found = status_of(cluster.api)
    uuid = fabric(2).partition(".")[0]
    assert found["fabric"] == {
        "degradedNodes": 3,
        "unknownNodes": 0,
        "splitDomains": 2,
        "smallDomains": 1,
        "splits": [
            {"by": "fabric", "name": uuid, "domains": 2, "nodes": 4},
            {"by": "chassis", "name": "c-r3", "domains": 2, "nodes": 4},
        ],
        "small": [{"name": fabric(3), "gpus": 12, "usual": 16}],
    }
    racks = next(level for level in found["levels"] if level["domain"] == "rack")
    assert racks["degradedDomains"] == 2
    assert racks["degraded"] == [{"name": "r2", "nodes": 2}, {"name": "r3", "nodes": 1}]
    assert cluster.condition("FabricHealthy")["reason"] == "DomainsSplit"
    assert "FabricHealthy" not in cluster.condition("Ready")["message"]
    assert cluster.rests(cluster_topology.PATH)


def test_a_cable_in_the_wrong_switch_is_in_the_status_and_in_one_event_on_its_node(cluster: Cluster) -> None:
    """With the longest texts that an annotation can have."""
    expected, found, nic, port = (letter * 255 for letter in "eanp")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for i in range(5):
        leaf = {"nic": nic, "switch": expected, "id": expected[:-1], "port": port}
        wrong = leaf | {"switch": expected, "id": found}
        rails = [leaf | {"id": "other"}, leaf if i else wrong]
        cluster.api.create(NODES, node(f"n{i}", labels={GPUS: "8"}, annotations={RAILS: json.dumps(rails)}))
        patch(cluster.api, f"{NODES}/n{i}/status", ready)
    cluster.topology(gracePeriod="0s")
    cluster.look()
    one = {"node": "n0", "nic": nic, "port": port}
    one |= {"switch": f"{expected} ({found})", "expected": f"{expected} ({expected[:-1]})"}
    shared = [{"name": expected, "switches": 3}]
    assert status_of(cluster.api)["rails"] == {
        "nodes": 5,
        "miscabledRails": 1,
        "miscabled": [one],
        "sharedNames": shared,
    }
    assert cluster.condition("RailsConsistent")["reason"] == "RailsMiscabled"
    assert cluster.rests(cluster_topology.PATH)
    events = cluster.api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    about = [(event["type"], event["reason"]) for event in events if event["regarding"]["kind"] == "Node"]
    assert about == [("Warning", "RailsMiscabled")]


def overlapping(cluster: Cluster) -> None:
    """Four nodes; `everything` has all of them, `gb200` three and `h200` one."""
    for i in range(4):
        cluster.node(f"n{i}", f"r{i // 2}", fabric(1 + i // 2), product="GB200" if i else "H200")
    cluster.topology("everything")
    gb200 = {"nodeSelector": {"matchLabels": {GPU_PRODUCT: "GB200"}}}
    cluster.topology("gb200", **gb200, levels=[{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOSTNAME}])
    h200 = {"nodeSelector": {"matchLabels": {GPU_PRODUCT: "H200"}}}
    cluster.topology("h200", **h200)


def binding_keys(api: ApiUnderTest, name: str) -> tuple[str, ...]:
    return tuple(level["key"] for level in api.get(f"{BINDINGS}/{name}")["spec"]["levels"])


def test_topologies_that_share_nodes_are_all_published_and_name_each_other(cluster: Cluster) -> None:
    install(cluster.api, "grove-clustertopologybindings-alpha10", "kai-topologies-v0.17", "kueue-topologies-v0.19")
    overlapping(cluster)
    cluster.look()
    start_grove(cluster.api)  # makes the KAI Topologies, which are its own here
    cluster.look()
    for name, keys in (("everything", LEVELS), ("gb200", (RACK, HOSTNAME)), ("h200", LEVELS)):
        assert binding_keys(cluster.api, name) == node_labels(cluster.api, f"{KUEUE}/{name}") == keys
    shared = {name: cluster.condition("SelectorsDisjoint", name) for name in ("everything", "gb200", "h200")}
    assert {condition["status"] for condition in shared.values()} == {"False"}
    assert shared["everything"]["message"].startswith("Of 4 nodes, 3 with 'gb200', 1 with 'h200' are shared")
    assert shared["gb200"]["message"].startswith("Of 3 nodes, 3 with 'everything' are shared")
    assert all(cluster.condition("Ready", name)["status"] == "True" for name in shared)
    assert cluster.rests(cluster_topology.PATH, BINDINGS, KUEUE)


def test_kai_gets_a_topology_of_each_where_grove_is_not_served(cluster: Cluster) -> None:
    install(cluster.api, "kai-topologies-v0.17")
    overlapping(cluster)
    cluster.look()
    for name, keys in (("everything", LEVELS), ("gb200", (RACK, HOSTNAME)), ("h200", LEVELS)):
        assert node_labels(cluster.api, f"{KAI}/{name}") == keys
    assert cluster.rests(cluster_topology.PATH, KAI)


def test_topologies_that_stop_sharing_say_so(cluster: Cluster) -> None:
    cluster.node("n1", "r1", fabric(1))
    cluster.topology("one")
    cluster.topology("two")
    cluster.look()
    assert cluster.condition("SelectorsDisjoint", "one")["reason"] == "NodesShared"
    assert cluster.api.request("DELETE", f"{cluster_topology.PATH}/two")[0] == 200
    cluster.look()
    assert cluster.condition("SelectorsDisjoint", "one")["reason"] == "NoSharedNodes"
    assert set(cluster.reconciler.reports) == {"one"}
