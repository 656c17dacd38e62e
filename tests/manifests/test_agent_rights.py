"""What the token of an agent may do on a real API server, and what it may not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.agent_attempts import AS_AGENT, FORBIDDEN, IN_FORCE, ONLY_NUMBERS, SMALL_ANNOTATIONS, WORK, many
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node, pod_token
from toposcope.api.label_keys import GPUS

pytestmark = pytest.mark.slow

ANEW, LATE = f"{NODES}/confined-anew", f"{NODES}/confined-late"
NO_CLAIM = "the agent's token carries no node claim"


@dataclass(frozen=True, slots=True)
class Cluster:
    """An installed base and Nodes with agents on two of them."""

    api: ApiUnderTest
    agent: str
    agent_of_the_old_node: str


def token_of_agent(api: ApiUnderTest, base: Manifests, pod: str, node_name: str) -> str:
    """The token of a new agent on a node."""
    document = base.pod("agent", pod, nodeName=node_name)
    created = api.create(f"{NAMESPACE}/pods", document)
    return pod_token(api, created)


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, base: Manifests) -> Cluster:
    api = installed_once
    for path in (rights.OWN, rights.OTHER, ANEW):
        rights.make_node(api, path)

    api.patch(
        rights.OWN,
        {"metadata": {"labels": {"gpu.topology/unique-rack": "a"}}},
    )
    event = rights.event("confined-own.kubelet", by="kubelet")
    api.create(rights.EVENTS, event)
    cluster = Cluster(
        api,
        agent=token_of_agent(api, base, "on-confined-own", "confined-own"),
        agent_of_the_old_node=token_of_agent(api, base, "on-confined-anew", "confined-anew"),
    )
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
    code, _ = cluster.api.request("GET", f"{NODES}/ghost")
    assert code == 404


def test_program_needs_no_more(cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    api = cluster.api
    before = rights.untouched(api)
    kubeconfig = rights.kubeconfig_with(api, cluster.agent, tmp_path)

    status = rights.run_agent("confined-own", kubeconfig)

    assert status == 0
    assert rights.complaints(caplog) == []
    assert rights.untouched(api) == before
    labels = api.get(rights.OWN)["metadata"]["labels"]
    assert labels["gpu.topology/gpu-product"] == "NVIDIA-H200"


def test_role_lets_the_agent_watch_nodes_and_not_list_them(cluster: Cluster) -> None:
    expected = rights.grants(
        get_watch_patch=["nodes"],
        create=["events.events.k8s.io"],
    )
    granted = rights.granted_of(cluster.api, cluster.agent, expected)
    assert granted == expected


@pytest.mark.regression
def test_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    api = cluster.api
    label = rights.apply_node(
        "label",
        rights.OWN,
        NO_CLAIM,
        labels={GPUS: "8"},
    )
    report = rights.post(
        "report",
        rights.EVENTS,
        rights.event("a.6"),
        NO_CLAIM,
    )
    token = rights.unbound_token(api, "toposcope-agent")
    rights.assert_answers(api, (label, report), token)


def test_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    api = cluster.api
    code, _ = api.request("DELETE", ANEW)
    assert code == 200
    rights.make_node(api, ANEW)
    label = rights.apply_node(
        "label",
        ANEW,
        "node confined-anew was recreated after its agent got its token",
        labels={GPUS: "8"},
    )
    rights.assert_answers(api, (label,), cluster.agent_of_the_old_node)


@pytest.mark.regression
def test_token_older_than_its_node_writes_nothing_once_the_node_is_there(cluster: Cluster, base: Manifests) -> None:
    """Such a token names the Node without its uid: it would fit every later Node of that name."""
    api = cluster.api
    token = token_of_agent(api, base, "early", "confined-late")
    says = "the token of the agent on node confined-late is older than the Node"
    label = rights.apply_node(
        "label",
        LATE,
        says,
        labels={GPUS: "8"},
    )
    report = rights.post(
        "report",
        rights.EVENTS,
        rights.event("a.7", about="confined-late"),
        says,
    )
    for _ in range(2):
        rights.make_node(api, LATE)
        rights.assert_answers(api, (label, report), token)
        code, _ = api.request("DELETE", LATE)
        assert code == 200


@pytest.mark.regression
def test_keys_of_others_beyond_the_bounds_do_not_stop_the_agent(cluster: Cluster) -> None:
    api = cluster.api
    slot = "gpu.topology/slot"
    notes = "gpu.topology/notes"
    labels = many(70, **{slot: "far"})
    annotations = many(6, **{notes: "x" * 20_000})
    metadata = {
        "labels": labels,
        "annotations": annotations,
        "finalizers": ["a.b/c"],  # of one who also wrote what the agent may not
    }
    spec = {"unschedulable": True}
    api.patch(rights.OWN, {"metadata": metadata, "spec": spec})

    attempts = (
        rights.merge_metadata(
            "write a label that is there",
            AS_AGENT,
            labels={"gpu.topology/l1": "y"},
        ),
        rights.merge_metadata(
            "write no number",
            AS_AGENT,
            ONLY_NUMBERS,
            labels={slot: "farther"},
        ),
        rights.merge_metadata(
            "write at length",
            AS_AGENT,
            SMALL_ANNOTATIONS,
            annotations={notes: "y" * 20_000},
        ),
    )
    rights.assert_answers(api, attempts, cluster.agent)

    removed = {
        "labels": dict.fromkeys(labels),
        "annotations": dict.fromkeys(annotations),
        "finalizers": None,
    }
    api.patch(
        rights.OWN,
        {"metadata": removed, "spec": {"unschedulable": None}},
    )


def test_policies_bind_nobody_else(cluster: Cluster) -> None:
    labels = {"example.com/pool": "h200"}
    cluster.api.patch(rights.OTHER, {"metadata": {"labels": labels}})
    event = rights.event("a.20", by="kubelet")
    cluster.api.create(f"{rights.EVENTS}?dryRun=All", event)


@pytest.mark.regression
def test_labels_survive_updates_and_installs(cluster: Cluster, base: Manifests, kubectl: str, tmp_path: Path) -> None:
    api = cluster.api
    name = "confined-kept"
    kept = f"{NODES}/{name}"
    api.create(NODES, node(name, labels={"example.com/pool": "a"}))
    api.patch(kept, {"metadata": {"managedFields": [{}]}})  # as some tools clear them

    def agent_of(pod: str) -> dict[str, Any]:
        """The Node's metadata once the agent of this pod has run; then the pod ends."""
        token = token_of_agent(api, base, pod, name)
        kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
        assert rights.run_agent(name, kubeconfig) == 0
        code, _ = api.request("DELETE", f"{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0")
        assert code == 200
        metadata: dict[str, Any] = api.get(kept)["metadata"]
        return metadata

    before = agent_of("old")
    assert before["labels"]["gpu.topology/gpus"] == "8"

    updated = agent_of("updated")
    assert updated["labels"] == before["labels"]
    assert updated["resourceVersion"] == before["resourceVersion"]  # it wrote nothing, because nothing differs

    as_admin = (kubectl, "--kubeconfig", api.kubeconfig)
    agents = yaml.safe_dump(base.get("DaemonSet", "toposcope-agent"))
    run_kubectl(*as_admin, "delete", "-f", "-", stdin=agents)
    left = api.get(kept)["metadata"]
    assert left["resourceVersion"] == before["resourceVersion"]

    run_kubectl(*as_admin, "apply", "--server-side", "-f", "-", stdin=agents)
    new = agent_of("new")
    assert new["labels"] == before["labels"]
    assert new["resourceVersion"] == before["resourceVersion"]
