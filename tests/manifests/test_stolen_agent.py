"""What somebody with the token of one agent can make the controller publish: nothing about other nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest
from tests.manifests.rights import apply_node, wait_for
from tests.manifests.support import NAMESPACE, Manifests
from tests.support.api import NODES, ApiUnderTest, node, pod_token
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import NoWorkloads
from tests.support.publishing import BINDINGS, Time, found, install, make_publishers
from toposcope.api.cluster_topology import PATH, read
from toposcope.api.label_keys import CHASSIS, GPUS, HOSTNAME, NVLINK_DOMAIN, STATE
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

pytestmark = pytest.mark.slow

FABRIC: Final = "c0ffee00-0000-4000-8000-000000000000"
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2/topologies"
STOLEN: Final = "stolen-0"
GRACE: Final = 600.0
TRUE: Final = {GPUS: "8", STATE: "ok", NVLINK_DOMAIN: f"{FABRIC}.1", CHASSIS: "1"}
LIES: Final[Sequence[Mapping[str, str]]] = (
    {},
    {GPUS: "8"},
    {**TRUE, NVLINK_DOMAIN: f"{FABRIC}.2"},
    {**TRUE, NVLINK_DOMAIN: "no-topology"},
    {**TRUE, NVLINK_DOMAIN: "", CHASSIS: "", STATE: "degraded", GPUS: "9999"},
    {**TRUE, "gpu.topology/rack": "r1", "gpu.topology/block": "elsewhere", "gpu.topology/zone": "z"},
    {f"gpu.topology/l{number}": "x" * 63 for number in range(64)},
)
"""What the token lets its holder write of its own Node, each in place of the one before."""
READY: Final = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": None}


@dataclass
class Cluster:
    """Six nodes, the production passes over them, and the token of an agent on the first."""

    api: ApiUnderTest
    client: ApiClient
    token: str
    time: Time = field(default_factory=Time)

    def __post_init__(self) -> None:
        publishers = make_publishers(self.time)(self.client)
        wiring = Wiring(self.client, publishers, self.time)
        self.reconciler = Reconciler(wiring)

    def settle(self) -> None:
        """Two passes with the grace period between them."""
        for _ in range(2):
            decode = NodeDecoder({ZONE, BLOCK, RACK, HOSTNAME, *TRUE})
            nodes = []
            for document in self.api.get(NODES)["items"]:
                _, _, node_facts = decode(msgspec.json.encode(document))
                nodes.append(node_facts)
            topology = read(self.api.get(f"{PATH}/cluster"))
            self.reconciler.reconcile([topology], nodes, NoWorkloads())
            self.time.seconds += GRACE + 1

    def published(self) -> dict[str, Any]:
        """What schedulers read."""
        seen = {}
        for path in (BINDINGS, KUEUE):
            item = found(self.api, f"{path}/cluster")
            if item:
                uid = item["metadata"]["uid"]
                seen[path] = (uid, item["spec"])
        return seen

    def status(self) -> dict[str, Any]:
        """The status of the ClusterTopology."""
        topology = self.api.get(f"{PATH}/cluster")
        status: dict[str, Any] = topology["status"]
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        """One condition of the ClusterTopology."""
        conditions = {}
        for condition in self.status()["conditions"]:
            conditions[condition["type"]] = condition
        return conditions[kind]

    def is_available(self, domain: str) -> bool:
        """Whether a level of the ClusterTopology is available."""
        levels = {}
        for level in self.status()["levels"]:
            levels[level["domain"]] = level["available"]
        return levels[domain]

    def others(self) -> list[Any]:
        """All that is not the thief's own Node."""
        others = []
        for item in self.api.get(NODES)["items"]:
            metadata = item["metadata"]
            if metadata["name"] != STOLEN:
                others.append(metadata)
        return others

    def write(self, labels: Mapping[str, str], name: str = STOLEN) -> int:
        """Apply labels with the stolen token; the answer's code."""
        attempt = apply_node(
            "write labels",
            f"{NODES}/{name}",
            labels=dict(labels),
        )
        code, _ = self.api.request(
            attempt.method,
            attempt.path,
            attempt.body,
            content_type=attempt.media,
            token=self.token,
        )
        return code


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, base: Manifests) -> Iterator[Cluster]:
    api = installed_once
    install(
        api,
        "grove-clustertopologybindings-alpha10",
        "kai-topologies-v0.17",
        "kueue-topologies-v0.19",
    )
    for number in range(6):
        name = STOLEN if not number else f"honest-{number}"
        rack = number // 3
        labels = {
            ZONE: "z",
            BLOCK: "b",
            RACK: f"r{rack}",
            HOSTNAME: name,
            **TRUE,
            NVLINK_DOMAIN: f"{FABRIC}.{rack + 1}",
            CHASSIS: str(rack + 1),
        }
        api.create(NODES, node(name, labels=labels))
        status = {
            "conditions": [READY],
            "allocatable": {"nvidia.com/gpu": "8"},
        }
        api.patch(f"{NODES}/{name}/status", {"status": status})
    # The base brings it along.
    spec = {"required": ["rack", "nvlink-domain"]}
    api.patch(f"{PATH}/cluster", {"spec": spec})
    pod = base.pod("agent", "stolen", nodeName=STOLEN)
    created = api.create(f"{NAMESPACE}/pods", pod)
    token = pod_token(api, created)
    another_node = apply_node(
        "label another node",
        f"{NODES}/honest-1",
        "may not write",
        labels={GPUS: "9"},
    )
    wait_for(api, [another_node], token)
    client = ApiClient(load(str(api.kubeconfig)))
    yield Cluster(api, client, token)
    client.close()


def test_stolen_token_changes_nothing_about_other_nodes(cluster: Cluster) -> None:
    cluster.settle()
    published = cluster.published()
    others = cluster.others()
    assert published.keys() == {BINDINGS, KUEUE}
    topology = cluster.api.get(f"{KUEUE}/cluster")
    label_keys = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert label_keys == [ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME]
    for lie in LIES:
        assert cluster.write(lie) == 200
        cluster.settle()
        assert cluster.published() == published
        assert cluster.others() == others
        assert cluster.is_available("rack")
        assert cluster.is_available("nvlink-domain")
        available = cluster.condition("TopologyLevelsAvailable")
        assert available["status"] == "True"
    assert cluster.write({GPUS: "0"}, "honest-1") == 403
    assert cluster.write({**TRUE, GPUS: "2147483640"}) == 403


@pytest.mark.regression
def test_implausible_number_does_not_stop_the_status(cluster: Cluster) -> None:
    """Without the policy, or by a writer whom it does not confine."""
    honest = 0
    for metadata in cluster.others():
        honest += int(metadata["labels"][GPUS])
    for count in ("2147483640", "9" * 63):
        labels = {GPUS: count}
        cluster.api.patch(
            f"{NODES}/{STOLEN}",
            {"metadata": {"labels": labels}},
        )
        cluster.settle()
        assert cluster.status()["gpus"] == honest + 8
        reporting = cluster.condition("AgentsReporting")
        assert reporting["status"] == "False"
        assert reporting["reason"] == "ImplausibleLabels"
        assert reporting["message"].startswith(
            f"1 node has a {GPUS} label that is not a number from 0 to 9999: {STOLEN}"
        )
