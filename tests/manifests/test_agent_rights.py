"""What the token of an agent may do on a real API server, and what it may not."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.manifests.rights import (
    EVENTS,
    OTHER,
    OWN,
    Attempt,
    apply_node,
    attempts,
    event,
    granted,
    grants,
    kubeconfig_with,
    make_node,
    merge,
    run_agent,
    surprises,
    unbound_token,
    untouched,
    wait_for,
)
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node, pod_token
from toposcope.agent.nvidia_labels import KEYS as NVIDIA_LABELS
from toposcope.api import label_keys
from toposcope.api.label_keys import GPUS, GPUS_PER_NUMA, MATRIX, NVLINK_VERSION, REFERENCE

ANEW, LATE = f"{NODES}/confined-anew", f"{NODES}/confined-late"
ONLY_LABELS = "the agent may only write labels under gpu.topology/"
ONLY_NUMBERS = "the agent may only write numbers from 0 to 9999 in its numeric labels"
FEW_LABELS = "the agent may keep at most 64 labels under gpu.topology/ on its Node"
SMALL_ANNOTATIONS = "the agent may keep at most 4 annotations under gpu.topology/ on its Node"
PLAIN_EVENTS = "Events of the agent name no related object"
NO_CLAIM = "the agent's token carries no node claim"


def many(count: int, **values: str) -> dict[str, str]:
    return {f"gpu.topology/l{number}": "x" * 63 for number in range(count)} | values


NUMERIC = {
    GPUS: "16",
    GPUS_PER_NUMA: "0-2-0-2-0-2-0-2",
    NVLINK_VERSION: "5.0",
    label_keys.NUMA_NODES: "2",
    label_keys.NVLINK_BANDWIDTH: "956",
    label_keys.NVLINK_DOMAINS: "1",
    label_keys.NVLINK_DOMAIN_SIZE: "9999",
    label_keys.NVLINK_LINKS: "18",
    label_keys.NVSWITCHES: "0",
    label_keys.SLOT: "255",
    label_keys.TRAY: "0",
}

MAY = (
    apply_node("write every number", OWN, labels=NUMERIC),
    apply_node("write as many labels as a later version may have", OWN, labels=many(64)),
    apply_node("write large annotations", OWN, annotations={MATRIX: "x" * 16384, REFERENCE: "x" * 16384}),
    *attempts("agent", "may"),
)
MAY_NOT = (
    *attempts("agent", "may not"),
    *(apply_node(f"label {key}", OWN, ONLY_LABELS, labels={key: "x"}) for key in sorted(NVIDIA_LABELS)),
    *(
        apply_node(f"claim {value} in {key}", OWN, ONLY_NUMBERS, labels={key: value})
        for key in sorted(NUMERIC)
        for value in ("2147483648", "10000", "9" * 63, "8x", "4_4", "")
    ),
    # What every watch of Nodes or Events would carry.
    apply_node("label beyond measure", OWN, FEW_LABELS, labels=many(65)),
    apply_node("fill the Node with labels", OWN, FEW_LABELS, labels=many(6000)),
    apply_node("annotate at length", OWN, SMALL_ANNOTATIONS, annotations={MATRIX: "x" * 16385}),
    apply_node("fill the Node with annotations", OWN, SMALL_ANNOTATIONS, annotations=many(5)),
    *(
        Attempt(what, "POST", EVENTS, body, says=PLAIN_EVENTS)
        for what, body in (
            ("fill an Event with annotations", event("a.13", metadata={"annotations": {"a": "x" * 250_000}})),
            ("fill an Event's reference", event("a.15", regarding={"fieldPath": "x" * 250_000})),
        )
    ),
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
    wait_for(api, attempts("agent", "in force"), cluster.agent)
    return cluster


def test_it_may_do_its_work(cluster: Cluster) -> None:
    before = untouched(cluster.api)
    assert surprises(cluster.api, MAY, cluster.agent) == {}
    assert untouched(cluster.api) == before


def test_it_may_do_nothing_else(cluster: Cluster) -> None:
    before = untouched(cluster.api)
    assert surprises(cluster.api, (*MAY_NOT, *attempts("anyone", "may not", "toposcope-agent")), cluster.agent) == {}
    assert untouched(cluster.api) == before
    assert cluster.api.request("GET", f"{NODES}/ghost")[0] == 404


def test_the_program_needs_no_more_than_its_token_allows(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = untouched(cluster.api)
    assert run_agent("confined-own", kubeconfig_with(cluster.api, cluster.agent, tmp_path)) == 0
    assert [record for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []
    assert untouched(cluster.api) == before
    assert cluster.api.get(OWN)["metadata"]["labels"]["gpu.topology/gpu-product"] == "NVIDIA-H200"


def test_its_role_lets_it_watch_nodes_and_not_list_them(cluster: Cluster) -> None:
    expected = grants("agent")
    assert {kind: granted(cluster.api, cluster.agent, *kind) for kind in expected} == expected


def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    attempts = (
        apply_node("label", OWN, NO_CLAIM, labels={GPUS: "8"}),
        Attempt("report", "POST", EVENTS, event("a.6"), says=NO_CLAIM),
    )
    assert surprises(cluster.api, attempts, unbound_token(cluster.api, "toposcope-agent")) == {}


def test_a_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    assert cluster.api.request("DELETE", ANEW)[0] == 200
    make_node(cluster.api, ANEW)
    says = "node confined-anew was recreated after its agent got its token"
    attempt = apply_node("label", ANEW, says, labels={GPUS: "8"})
    assert surprises(cluster.api, (attempt,), cluster.agent_of_the_old_node) == {}


def test_a_token_older_than_its_node_writes_nothing_once_the_node_is_there(cluster: Cluster, base: Manifests) -> None:
    """Such a token names the Node without its uid: it would fit every later Node of that name."""
    api = cluster.api
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", "early", nodeName="confined-late")))
    says = "the token of the agent on node confined-late is older than the Node"
    attempts = (
        apply_node("label", LATE, says, labels={GPUS: "8"}),
        Attempt("report", "POST", EVENTS, event("a.7", about="confined-late"), says=says),
    )
    for _ in range(2):
        make_node(api, LATE)
        assert surprises(api, attempts, token) == {}
        assert api.request("DELETE", LATE)[0] == 200


def test_keys_of_others_beyond_the_bounds_do_not_stop_the_agent(cluster: Cluster) -> None:
    metadata = {"labels": many(70), "annotations": many(6, **{"gpu.topology/notes": "x" * 20_000})}
    cluster.api.patch(OWN, {"metadata": metadata})
    attempt = merge("write a label that is there", OWN, {"metadata": {"labels": {"gpu.topology/l1": "y"}}})
    assert surprises(cluster.api, (attempt,), cluster.agent) == {}
    cluster.api.patch(OWN, {"metadata": {field: dict.fromkeys(keys) for field, keys in metadata.items()}})


def test_the_policies_bind_nobody_else(cluster: Cluster) -> None:
    cluster.api.patch(OTHER, {"metadata": {"labels": {"example.com/pool": "h200"}}})


def test_labels_survive_a_rolling_update_and_a_new_install(
    cluster: Cluster, base: Manifests, kubectl: str, tmp_path: Path
) -> None:
    api = cluster.api
    api.create(NODES, node("confined-kept", labels={"example.com/pool": "a"}))
    kept = f"{NODES}/confined-kept"

    def agent_of(pod: str) -> dict[str, str]:
        """The Node's version and labels once the agent of this pod has run; then the pod ends."""
        made = api.create(f"{NAMESPACE}/pods", base.pod("agent", pod, nodeName="confined-kept"))
        assert run_agent("confined-kept", kubeconfig_with(api, pod_token(api, made), tmp_path)) == 0
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
