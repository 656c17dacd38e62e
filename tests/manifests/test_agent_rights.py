"""What the token of an agent may do on a real API server, and what it may not."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.agent_attempts import AS_AGENT, FORBIDDEN, IN_FORCE, ONLY_NUMBERS, SMALL_ANNOTATIONS, WORK, many
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node, pod_token
from toposcope.api.label_keys import GPUS

ANEW, LATE = f"{NODES}/confined-anew", f"{NODES}/confined-late"
NO_CLAIM = "the agent's token carries no node claim"


@dataclass(frozen=True, slots=True)
class Cluster:
    """An installed base and Nodes with agents on two of them."""

    api: ApiUnderTest
    agent: str
    agent_of_the_old_node: str


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, base: Manifests) -> Cluster:
    api = installed_once
    for path in (rights.OWN, rights.OTHER, ANEW):
        rights.make_node(api, path)

    def token(name: str) -> str:
        return pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", f"on-{name}", nodeName=name)))

    api.patch(rights.OWN, {"metadata": {"labels": {"gpu.topology/unique-rack": "a"}}})
    api.create(rights.EVENTS, rights.event("confined-own.kubelet", by="kubelet"))
    cluster = Cluster(api, token("confined-own"), token("confined-anew"))
    rights.wait_for(api, IN_FORCE, cluster.agent)
    return cluster


def test_token_may_do_its_work(cluster: Cluster) -> None:
    before = rights.untouched(cluster.api)
    rights.assert_answers(cluster.api, WORK, cluster.agent)
    assert rights.untouched(cluster.api) == before


@pytest.mark.regression
@pytest.mark.parametrize("kind", FORBIDDEN)
def test_token_may_do_nothing_else(cluster: Cluster, kind: str) -> None:
    before = rights.untouched(cluster.api)
    rights.assert_answers(cluster.api, FORBIDDEN[kind], cluster.agent)
    assert rights.untouched(cluster.api) == before
    assert cluster.api.request("GET", f"{NODES}/ghost")[0] == 404


def test_program_needs_no_more(cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = rights.untouched(cluster.api)
    assert rights.run_agent("confined-own", rights.kubeconfig_with(cluster.api, cluster.agent, tmp_path)) == 0
    assert rights.complaints(caplog) == []
    assert rights.untouched(cluster.api) == before
    assert cluster.api.get(rights.OWN)["metadata"]["labels"]["gpu.topology/gpu-product"] == "NVIDIA-H200"


def test_role_lets_the_agent_watch_nodes_and_not_list_them(cluster: Cluster) -> None:
    expected = rights.grants(get_watch_patch=["nodes"], create=["events.events.k8s.io"])
    assert rights.granted_of(cluster.api, cluster.agent, expected) == expected


@pytest.mark.regression
def test_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    tried = (
        rights.apply_node("label", rights.OWN, NO_CLAIM, labels={GPUS: "8"}),
        rights.post("report", rights.EVENTS, rights.event("a.6"), NO_CLAIM),
    )
    rights.assert_answers(cluster.api, tried, rights.unbound_token(cluster.api, "toposcope-agent"))


def test_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    assert cluster.api.request("DELETE", ANEW)[0] == 200
    rights.make_node(cluster.api, ANEW)
    says = "node confined-anew was recreated after its agent got its token"
    attempt = rights.apply_node("label", ANEW, says, labels={GPUS: "8"})
    rights.assert_answers(cluster.api, (attempt,), cluster.agent_of_the_old_node)


@pytest.mark.regression
def test_token_older_than_its_node_writes_nothing_once_the_node_is_there(cluster: Cluster, base: Manifests) -> None:
    """Such a token names the Node without its uid: it would fit every later Node of that name."""
    api = cluster.api
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", "early", nodeName="confined-late")))
    says = "the token of the agent on node confined-late is older than the Node"
    tried = (
        rights.apply_node("label", LATE, says, labels={GPUS: "8"}),
        rights.post("report", rights.EVENTS, rights.event("a.7", about="confined-late"), says),
    )
    for _ in range(2):
        rights.make_node(api, LATE)
        rights.assert_answers(api, tried, token)
        assert api.request("DELETE", LATE)[0] == 200


@pytest.mark.regression
def test_keys_of_others_beyond_the_bounds_do_not_stop_the_agent(cluster: Cluster) -> None:
    slot, notes = "gpu.topology/slot", "gpu.topology/notes"
    labels = many(70, **{slot: "far"})
    annotations = many(6, **{notes: "x" * 20_000})
    metadata = {
        "labels": labels,
        "annotations": annotations,
        "finalizers": ["a.b/c"],  # of one who also wrote what the agent may not
    }
    cluster.api.patch(rights.OWN, {"metadata": metadata, "spec": {"unschedulable": True}})

    attempts = (
        rights.merge_metadata("write a label that is there", AS_AGENT, labels={"gpu.topology/l1": "y"}),
        rights.merge_metadata("write no number", AS_AGENT, ONLY_NUMBERS, labels={slot: "farther"}),
        rights.merge_metadata("write at length", AS_AGENT, SMALL_ANNOTATIONS, annotations={notes: "y" * 20_000}),
    )
    rights.assert_answers(cluster.api, attempts, cluster.agent)

    removed = {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations), "finalizers": None}
    cluster.api.patch(rights.OWN, {"metadata": removed, "spec": {"unschedulable": None}})


def test_policies_bind_nobody_else(cluster: Cluster) -> None:
    cluster.api.patch(rights.OTHER, {"metadata": {"labels": {"example.com/pool": "h200"}}})
    cluster.api.create(f"{rights.EVENTS}?dryRun=All", rights.event("a.20", by="kubelet"))


@pytest.mark.regression
def test_labels_survive_updates_and_installs(cluster: Cluster, base: Manifests, kubectl: str, tmp_path: Path) -> None:
    api = cluster.api
    api.create(NODES, node("confined-kept", labels={"example.com/pool": "a"}))
    kept = f"{NODES}/confined-kept"
    api.patch(kept, {"metadata": {"managedFields": [{}]}})  # as some tools clear them

    def agent_of(pod: str) -> dict[str, str]:
        """The Node's version and labels once the agent of this pod has run; then the pod ends."""
        made = api.create(f"{NAMESPACE}/pods", base.pod("agent", pod, nodeName="confined-kept"))
        assert rights.run_agent("confined-kept", rights.kubeconfig_with(api, pod_token(api, made), tmp_path)) == 0
        assert api.request("DELETE", f"{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0")[0] == 200
        metadata = api.get(kept)["metadata"]
        return {"version": metadata["resourceVersion"], **metadata["labels"]}

    before = agent_of("old")
    assert before["gpu.topology/gpus"] == "8"
    assert agent_of("updated") == before  # it wrote nothing, because nothing differs
    as_admin = (kubectl, "--kubeconfig", api.kubeconfig)
    agents = yaml.safe_dump(base.get("DaemonSet", "toposcope-agent"))
    run_kubectl(*as_admin, "delete", "-f", "-", stdin=agents)
    assert api.get(kept)["metadata"]["resourceVersion"] == before["version"]
    run_kubectl(*as_admin, "apply", "--server-side", "-f", "-", stdin=agents)
    assert agent_of("new") == before
