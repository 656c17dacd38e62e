"""What the token of an agent may do on a real API server, and what it may not."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.manifests.rights import (
    EVENTS,
    OTHER,
    OWN,
    SERIES,
    Attempt,
    apply_metadata,
    event,
    kubeconfig_with,
    make_node,
    rbac,
    reaching,
    surprises,
    unbound_token,
    untouched,
    wait_for,
)
from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests, run_kubectl
from tests.support.api import JSON_PATCH, MERGE, NODES, ApiUnderTest, node, pod_token
from toposcope.agent.nvidia_labels import KEYS as NVIDIA_LABELS
from toposcope.cli.main import main

ANEW = f"{NODES}/confined-anew"
ONLY_LABELS = "the agent may only write labels under gpu.topology/"
ONLY_ANNOTATIONS = "the agent may only write annotations under gpu.topology/"
ONLY_SPEC = "the agent may not write Node.spec"
ONLY_OWN_NODE = "the agent on node confined-own may not write node confined-other"
ONLY_OWN_EVENTS = "the agent may only write Events of its own"
NO_OWNERS = "the agent may not write finalizers or ownerReferences"
NO_CLAIM = "the agent's token carries no node claim"

MAY = (
    Attempt("read its Node", "GET", OWN),
    Attempt("read another Node by name", "GET", OTHER),
    Attempt(
        "apply its labels and annotation",
        "PATCH",
        **apply_metadata(OWN, labels={"gpu.topology/gpus": "8"}, annotations={"gpu.topology/matrix": "{}"}),
    ),
    Attempt("drop them again", "PATCH", **apply_metadata(OWN)),
    Attempt("report on its Node", "POST", EVENTS, event("confined-own.1")),
    Attempt("count its Event on", "PATCH", f"{EVENTS}/confined-own.1", SERIES, MERGE),
)

MAY_NOT = (
    # Foreign keys, in every way that a patch can touch them.
    *(
        Attempt(f"label {key}", "PATCH", **apply_metadata(OWN, labels={key: "x"}), says=ONLY_LABELS)
        for key in (
            "node-role.kubernetes.io/control-plane",
            *sorted(NVIDIA_LABELS),
            "gpu.topology.example.com/gpus",
            "x.gpu.topology/gpus",
            "gpu.topology",
        )
    ),
    Attempt(
        "overwrite a label", "PATCH", OWN, {"metadata": {"labels": {"example.com/pool": "x"}}}, MERGE, says=ONLY_LABELS
    ),
    Attempt(
        "remove a label", "PATCH", OWN, {"metadata": {"labels": {"example.com/pool": None}}}, MERGE, says=ONLY_LABELS
    ),
    Attempt(
        "remove all labels",
        "PATCH",
        OWN,
        [{"op": "remove", "path": "/metadata/labels"}],
        JSON_PATCH,
        says=ONLY_LABELS,
    ),
    Attempt(
        "hide a foreign label among its own",
        "PATCH",
        **apply_metadata(OWN, labels={"gpu.topology/gpus": "8", "example.com/pool": "x"}),
        says=ONLY_LABELS,
    ),
    Attempt("annotate", "PATCH", **apply_metadata(OWN, annotations={"example.com/new": "x"}), says=ONLY_ANNOTATIONS),
    Attempt(
        "remove all annotations",
        "PATCH",
        OWN,
        [{"op": "remove", "path": "/metadata/annotations"}],
        JSON_PATCH,
        says=ONLY_ANNOTATIONS,
    ),
    # The rest of its Node.
    Attempt("cordon", "PATCH", OWN, {"spec": {"unschedulable": True}}, MERGE, says=ONLY_SPEC),
    Attempt("taint", "PATCH", OWN, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, MERGE, says=ONLY_SPEC),
    Attempt("hold the Node", "PATCH", OWN, {"metadata": {"finalizers": ["a.b/c"]}}, MERGE, says=NO_OWNERS),
    Attempt(
        "have the Node collected",
        "PATCH",
        OWN,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
        MERGE,
        says=NO_OWNERS,
    ),
    Attempt("write status", "PATCH", f"{OWN}/status", {"status": {}}, MERGE, says=rbac("patch", "nodes/status")),
    Attempt("replace", "PUT", OWN, {"apiVersion": "v1", "kind": "Node", "metadata": {}}, says=rbac("update", "nodes")),
    Attempt("delete", "DELETE", OWN, says=rbac("delete", "nodes")),
    Attempt("reach through the kubelet", "GET", f"{OWN}/proxy/", says=rbac("get", "nodes/proxy")),
    # Other Nodes.
    Attempt(
        "label another Node", "PATCH", **apply_metadata(OTHER, labels={"gpu.topology/gpus": "8"}), says=ONLY_OWN_NODE
    ),
    Attempt(
        "write another agent's annotation",
        "PATCH",
        **apply_metadata(OTHER, annotations={"gpu.topology/matrix": "{}"}),
        says=ONLY_OWN_NODE,
    ),
    Attempt(
        "remove another agent's annotation",
        "PATCH",
        OTHER,
        {"metadata": {"annotations": {"gpu.topology/matrix": None}}},
        MERGE,
        says=ONLY_OWN_NODE,
    ),
    Attempt(
        "taint another Node",
        "PATCH",
        OTHER,
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        MERGE,
        says=ONLY_OWN_NODE,
    ),
    Attempt("list", "GET", NODES, says=rbac("list", "nodes")),
    Attempt("watch", "GET", f"{NODES}?watch=true", says=rbac("watch", "nodes")),
    Attempt("delete all", "DELETE", NODES, says=rbac("deletecollection", "nodes")),
    Attempt(
        "create",
        "POST",
        NODES,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}},
        says=rbac("create", "nodes"),
    ),
    Attempt("apply to a Node that is gone", "PATCH", **apply_metadata(f"{NODES}/ghost"), says=rbac("create", "nodes")),
    # Events about anything else, or in another's name.
    Attempt(
        "report on another Node",
        "POST",
        EVENTS,
        event("a.1", about="confined-other"),
        says="the agent on node confined-own may not write Events about Node confined-other",
    ),
    Attempt("report on a Pod", "POST", EVENTS, event("a.2", kind="Pod"), says="may not write Events about Pod"),
    Attempt("speak for the kubelet", "POST", EVENTS, event("a.3", by="kubelet"), says=ONLY_OWN_EVENTS),
    Attempt(
        "rewrite the kubelet's Event",
        "PATCH",
        f"{EVENTS}/confined-own.kubelet",
        SERIES,
        MERGE,
        says=ONLY_OWN_EVENTS,
    ),
    Attempt("read Events", "GET", EVENTS, says=rbac("list", "events")),
    Attempt(
        "report elsewhere",
        "POST",
        EVENTS.replace("default", "kube-system"),
        event("a.4"),
        says=rbac("create", "events"),
    ),
    Attempt("read topologies", "GET", TOPOLOGIES, says=rbac("list", "clustertopologies")),
)

# One for each role and policy.
PROBES = (
    Attempt("reading Nodes", "GET", OWN),
    Attempt("making Events", "POST", f"{EVENTS}?dryRun=All", event("a.0")),
    Attempt("honest Events", "POST", f"{EVENTS}?dryRun=All", event("a.0", by="kubelet"), says=ONLY_OWN_EVENTS),
    Attempt("own labels", "PATCH", f"{OWN}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE, says=ONLY_LABELS),
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An installed base and Nodes with agents on two of them."""

    api: ApiUnderTest
    agent: str
    agent_of_the_old_node: str


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, base: Manifests) -> Cluster:
    api = installed_once
    for path in (OWN, OTHER, ANEW):
        make_node(api, path)

    def token(name: str) -> str:
        return pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", f"on-{name}", nodeName=name)))

    api.create(EVENTS, event("confined-own.kubelet", by="kubelet"))
    cluster = Cluster(api, token("confined-own"), token("confined-anew"))
    wait_for(api, PROBES, cluster.agent)
    return cluster


def test_it_may_do_its_work(cluster: Cluster) -> None:
    before = untouched(cluster.api)
    assert surprises(cluster.api, MAY, cluster.agent) == {}
    assert untouched(cluster.api) == before


def test_it_may_do_nothing_else(cluster: Cluster) -> None:
    before = untouched(cluster.api)
    assert surprises(cluster.api, (*MAY_NOT, *reaching("toposcope-agent")), cluster.agent) == {}
    assert untouched(cluster.api) == before
    assert cluster.api.request("GET", f"{NODES}/ghost")[0] == 404


def test_the_program_needs_no_more_than_its_token_allows(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = untouched(cluster.api)
    kubeconfig = kubeconfig_with(cluster.api, cluster.agent, tmp_path)
    flags = ["--once", "--profile", "dgx-h200", "--node-name", "confined-own", "--kubeconfig", str(kubeconfig)]
    assert main(["agent", *flags]) == 0
    assert [record for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []
    assert untouched(cluster.api) == before
    assert cluster.api.get(OWN)["metadata"]["labels"]["gpu.topology/gpu-product"] == "NVIDIA-H200"


def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    attempts = (
        Attempt("label", "PATCH", **apply_metadata(OWN, labels={"gpu.topology/gpus": "8"}), says=NO_CLAIM),
        Attempt("report", "POST", EVENTS, event("a.6"), says=NO_CLAIM),
    )
    assert surprises(cluster.api, attempts, unbound_token(cluster.api, "toposcope-agent")) == {}


def test_a_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    assert cluster.api.request("DELETE", ANEW)[0] == 200
    make_node(cluster.api, ANEW)
    label = apply_metadata(ANEW, labels={"gpu.topology/gpus": "8"})
    says = "node confined-anew was recreated after its agent got its token"
    attempt = Attempt("label", "PATCH", **label, says=says)
    assert surprises(cluster.api, (attempt,), cluster.agent_of_the_old_node) == {}


def test_the_policies_bind_nobody_else(cluster: Cluster) -> None:
    label = {"metadata": {"labels": {"example.com/pool": "h200"}}}
    assert cluster.api.request("PATCH", OTHER, label, content_type=MERGE)[0] == 200


def test_labels_survive_a_rolling_update_and_a_new_install(
    cluster: Cluster, base: Manifests, kubectl: str, tmp_path: Path
) -> None:
    api = cluster.api
    api.create(NODES, node("confined-kept", labels={"example.com/pool": "a"}))
    kept = f"{NODES}/confined-kept"

    def agent_of(pod: str) -> dict[str, str]:
        """The Node's version and labels once the agent of this pod has run; then the pod ends."""
        made = api.create(f"{NAMESPACE}/pods", base.pod("agent", pod, nodeName="confined-kept"))
        kubeconfig = kubeconfig_with(api, pod_token(api, made), tmp_path)
        flags = ["--once", "--profile", "dgx-h200", "--node-name", "confined-kept", "--kubeconfig", str(kubeconfig)]
        assert main(["agent", *flags]) == 0
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
