"""What the token of an agent may do on a real API server, and what it may not."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, Manifests, run_kubectl
from tests.support.api import NODES, ApiUnderTest, node, pod_token
from tests.support.tables import named_objects
from toposcope.agent.nvidia_labels import KEYS as NVIDIA_LABELS
from toposcope.api.label_keys import GPUS, MATRIX, REFERENCE

ANEW, LATE = f"{NODES}/confined-anew", f"{NODES}/confined-late"
ONLY_LABELS = "the agent may only write labels under gpu.topology/"
ONLY_NUMBERS = "the agent may only write numbers from 0 to 9999 in its numeric labels"
FEW_LABELS = "the agent may keep at most 64 labels under gpu.topology/ on its Node"
SMALL_ANNOTATIONS = "the agent may keep at most 4 annotations under gpu.topology/ on its Node"
PLAIN_EVENTS = "Events of the agent name no related object"
NO_CLAIM = "the agent's token carries no node claim"


def many(count: int, **values: str) -> dict[str, str]:
    return {f"gpu.topology/l{number}": "x" * 63 for number in range(count)} | values


NUMERIC: dict[str, str] = named_objects("rights/numbers.yaml")

MAY = (
    rights.apply_node("write every number", rights.OWN, labels=NUMERIC),
    # One more is there.
    rights.apply_node("write as many labels as a later version may have", rights.OWN, labels=many(63)),
    rights.apply_node("write large annotations", rights.OWN, annotations={MATRIX: "x" * 16384, REFERENCE: "x" * 16384}),
    *rights.attempts("agent", "may"),
)
MAY_NOT = (
    *rights.attempts("agent", "may not"),
    *rights.attempts("anyone", "may not", "toposcope-agent"),
    *(rights.apply_node(f"label {key}", rights.OWN, ONLY_LABELS, labels={key: "x"}) for key in sorted(NVIDIA_LABELS)),
    *(
        rights.apply_node(f"claim {value} in {key}", rights.OWN, ONLY_NUMBERS, labels={key: value})
        for key in sorted(NUMERIC)
        for value in ("2147483648", "10000", "9" * 63, "8x", "4_4", "")
    ),
    # What every watch of Nodes or Events would carry.
    rights.apply_node("label beyond measure", rights.OWN, FEW_LABELS, labels=many(65)),
    rights.apply_node("fill the Node with labels", rights.OWN, FEW_LABELS, labels=many(6000)),
    rights.apply_node("annotate at length", rights.OWN, SMALL_ANNOTATIONS, annotations={MATRIX: "x" * 16385}),
    rights.apply_node("fill the Node with annotations", rights.OWN, SMALL_ANNOTATIONS, annotations=many(5)),
    *(
        rights.Attempt(what, "POST", rights.EVENTS, body, says=PLAIN_EVENTS)
        for what, body in (
            ("fill an Event with annotations", rights.event("a.13", metadata={"annotations": {"a": "x" * 250_000}})),
            *(
                (f"fill an Event's {field}", rights.event("a.15", regarding={field: "x" * 250_000}))
                for field in ("fieldPath", "apiVersion", "namespace")
            ),
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
    for path in (rights.OWN, rights.OTHER, ANEW):
        rights.make_node(api, path)

    def token(name: str) -> str:
        return pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", f"on-{name}", nodeName=name)))

    api.patch(rights.OWN, {"metadata": {"labels": {"gpu.topology/unique-rack": "a"}}})
    api.create(rights.EVENTS, rights.event("confined-own.kubelet", by="kubelet"))
    cluster = Cluster(api, token("confined-own"), token("confined-anew"))
    rights.wait_for(api, rights.attempts("agent", "in force"), cluster.agent)
    return cluster


def test_it_may_do_its_work(cluster: Cluster) -> None:
    before = rights.untouched(cluster.api)
    assert rights.surprises(cluster.api, MAY, cluster.agent) == {}
    assert rights.untouched(cluster.api) == before


@pytest.mark.regression
def test_it_may_do_nothing_else(cluster: Cluster) -> None:
    before = rights.untouched(cluster.api)
    assert rights.surprises(cluster.api, MAY_NOT, cluster.agent) == {}
    assert rights.untouched(cluster.api) == before
    assert cluster.api.request("GET", f"{NODES}/ghost")[0] == 404


def test_the_program_needs_no_more(cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = rights.untouched(cluster.api)
    assert rights.run_agent("confined-own", rights.kubeconfig_with(cluster.api, cluster.agent, tmp_path)) == 0
    assert [record for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []
    assert rights.untouched(cluster.api) == before
    assert cluster.api.get(rights.OWN)["metadata"]["labels"]["gpu.topology/gpu-product"] == "NVIDIA-H200"


def test_its_role_lets_it_watch_nodes_and_not_list_them(cluster: Cluster) -> None:
    expected = rights.grants("agent")
    assert {kind: rights.granted(cluster.api, cluster.agent, *kind) for kind in expected} == expected


@pytest.mark.regression
def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    tried = (
        rights.apply_node("label", rights.OWN, NO_CLAIM, labels={GPUS: "8"}),
        rights.Attempt("report", "POST", rights.EVENTS, rights.event("a.6"), says=NO_CLAIM),
    )
    assert rights.surprises(cluster.api, tried, rights.unbound_token(cluster.api, "toposcope-agent")) == {}


def test_a_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    assert cluster.api.request("DELETE", ANEW)[0] == 200
    rights.make_node(cluster.api, ANEW)
    says = "node confined-anew was recreated after its agent got its token"
    attempt = rights.apply_node("label", ANEW, says, labels={GPUS: "8"})
    assert rights.surprises(cluster.api, (attempt,), cluster.agent_of_the_old_node) == {}


@pytest.mark.regression
def test_a_token_older_than_its_node_writes_nothing_once_the_node_is_there(cluster: Cluster, base: Manifests) -> None:
    """Such a token names the Node without its uid: it would fit every later Node of that name."""
    api = cluster.api
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", "early", nodeName="confined-late")))
    says = "the token of the agent on node confined-late is older than the Node"
    tried = (
        rights.apply_node("label", LATE, says, labels={GPUS: "8"}),
        rights.Attempt("report", "POST", rights.EVENTS, rights.event("a.7", about="confined-late"), says=says),
    )
    for _ in range(2):
        rights.make_node(api, LATE)
        assert rights.surprises(api, tried, token) == {}
        assert api.request("DELETE", LATE)[0] == 200


@pytest.mark.regression
def test_keys_of_others_beyond_the_bounds_do_not_stop_the_agent(cluster: Cluster) -> None:
    slot, notes = "gpu.topology/slot", "gpu.topology/notes"
    metadata = {"labels": many(70, **{slot: "far"}), "annotations": many(6, **{notes: "x" * 20_000})}
    more = {"finalizers": ["a.b/c"]}  # of one who also wrote what the agent may not
    cluster.api.patch(rights.OWN, {"metadata": metadata | more, "spec": {"unschedulable": True}})
    ours = f"{rights.OWN}?fieldManager=toposcope-agent"
    attempts = (
        rights.merge("write a label that is there", ours, {"metadata": {"labels": {"gpu.topology/l1": "y"}}}),
        rights.merge("write no number", ours, {"metadata": {"labels": {slot: "farther"}}}, ONLY_NUMBERS),
        rights.merge("write at length", ours, {"metadata": {"annotations": {notes: "y" * 20_000}}}, SMALL_ANNOTATIONS),
    )
    assert rights.surprises(cluster.api, attempts, cluster.agent) == {}
    none = {field: dict.fromkeys(keys) for field, keys in metadata.items()}
    cluster.api.patch(rights.OWN, {"metadata": none | {"finalizers": None}, "spec": {"unschedulable": None}})


def test_the_policies_bind_nobody_else(cluster: Cluster) -> None:
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
