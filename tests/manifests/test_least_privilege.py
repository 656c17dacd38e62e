"""What the tokens of the agent and of the controller may do on a real API server, and what they may not."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.compat import KEYS as NVIDIA_LABELS
from tests.manifests.support import NAMESPACE, TOPOLOGIES, Manifests
from tests.support.api import APPLY, JSON_PATCH, MERGE, NODES, ApiUnderTest, node, pod_token, wait_until

pytestmark = pytest.mark.real_api("RBAC, TokenRequest and ValidatingAdmissionPolicy")

OWN, OTHER = f"{NODES}/confined-own", f"{NODES}/confined-other"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
# What a Node brings along that is not ours to touch.
FOREIGN = {
    "labels": {"example.com/pool": "h100", "topology.kubernetes.io/zone": "a"},
    "annotations": {"example.com/note": "keep"},
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
LEASE = f"{LEASES}/toposcope-controller"
# All of an Event that an update may change.
SERIES = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}

ONLY_LABELS = "the agent may only write labels under gpu.topology/"
ONLY_ANNOTATIONS = "the agent may only write annotations under gpu.topology/"
ONLY_SPEC = "the agent may not write Node.spec"
ONLY_OWN_NODE = "the agent on node confined-own may not write node confined-other"
ONLY_OWN_EVENTS = "the agent may only write Events of its own"
NO_OWNERS = "the agent may not write finalizers or ownerReferences"
NO_CLAIM = "the agent's token carries no node claim"
ONLY_SEGMENTS = "the controller may only write ClusterTopologies that it made for segments of another"
NO_OTHER_OWNER = "the controller may not give a ClusterTopology another owner"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, and for a refused one what the answer must say."""

    what: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    says: str = ""


def apply_metadata(path: str, **metadata: Any) -> dict[str, Any]:
    return {
        "path": f"{path}?fieldManager=toposcope-agent&force=true",
        "body": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": path.rpartition("/")[2], **metadata}},
        "media": APPLY,
    }


def event(
    name: str, *, kind: str = "Node", about: str = "confined-own", by: str = "gpu.topology/agent"
) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"apiVersion": "v1", "kind": kind, "name": about},
        "reportingController": by,
        "reportingInstance": "confined-own",
        "action": "Discover",
        "reason": "GpuMissing",
        "type": "Warning",
    }


def segment(name: str, *, owner: str = "ClusterTopology", managed_by: str = "toposcope", **spec: Any) -> dict[str, Any]:
    """A ClusterTopology as the controller makes it for a segment of another."""
    uid = "11111111-2222-3333-4444-555555555555"
    return {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": managed_by},
            "ownerReferences": [
                {
                    "apiVersion": "gpu.topology/v1alpha1",
                    "kind": owner,
                    "name": "cluster",
                    "uid": uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def apply_segment(name: str, **parts: Any) -> dict[str, Any]:
    path = f"{TOPOLOGIES}/{name}?fieldManager=toposcope-controller&force=true"
    return {"path": path, "body": segment(name, **parts), "media": APPLY}


def lease(name: str) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


def rbac(verb: str, resource: str) -> str:
    return f'cannot {verb} resource "{resource}"'


AGENT_MAY = (
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

AGENT_MAY_NOT = (
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


# What neither program may: reach for more than it was given.
def reaching(account: str) -> tuple[Attempt, ...]:
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "toposcope-system"}],
    }
    role = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    policies = "/apis/admissionregistration.k8s.io/v1"
    return (
        Attempt("read secrets", "GET", "/api/v1/secrets", says=rbac("list", "secrets")),
        Attempt("read configuration", "GET", f"{NAMESPACE}/configmaps", says=rbac("list", "configmaps")),
        Attempt("read pods", "GET", "/api/v1/pods", says=rbac("list", "pods")),
        Attempt("run in a pod", "POST", f"{NAMESPACE}/pods/a/exec?command=sh", says=rbac("create", "pods/exec")),
        Attempt("make a pod", "POST", f"{NAMESPACE}/pods", {"kind": "Pod"}, says=rbac("create", "pods")),
        Attempt(
            "bind itself to more",
            "POST",
            f"{roles}/clusterrolebindings",
            binding,
            says=rbac("create", "clusterrolebindings"),
        ),
        Attempt(
            "widen its role",
            "PATCH",
            f"{roles}/clusterroles/{account}",
            role,
            MERGE,
            says=rbac("patch", "clusterroles"),
        ),
        *(
            Attempt(
                f"make a token of {name}",
                "POST",
                f"{NAMESPACE}/serviceaccounts/{name}/token",
                token_request,
                says=rbac("create", "serviceaccounts/token"),
            )
            for name in ("toposcope-agent", "toposcope-controller")
        ),
        Attempt(
            "switch its policy off",
            "DELETE",
            f"{policies}/validatingadmissionpolicybindings/toposcope-agent.gpu.topology",
            says=rbac("delete", "validatingadmissionpolicybindings"),
        ),
        Attempt(
            "soften its policy",
            "PATCH",
            f"{policies}/validatingadmissionpolicies/toposcope-agent.gpu.topology",
            {"spec": {"failurePolicy": "Ignore"}},
            MERGE,
            says=rbac("patch", "validatingadmissionpolicies"),
        ),
    )


# All as expected once rights and policies have taken effect.
PROBES = (
    Attempt("read", "GET", OWN),
    Attempt("report", "POST", f"{EVENTS}?dryRun=All", event("a.0")),
    Attempt("lie", "POST", f"{EVENTS}?dryRun=All", event("a.0", by="kubelet"), says=ONLY_OWN_EVENTS),
    Attempt("label", "PATCH", f"{OWN}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE, says=ONLY_LABELS),
)

CONTROLLER_PROBES = (
    Attempt("read", "GET", NODES),
    Attempt(
        "ask for more",
        "PATCH",
        f"{TOPOLOGIES}/cluster?dryRun=All",
        {"spec": {"required": ["rack"]}},
        MERGE,
        says=ONLY_SEGMENTS,
    ),
)

CONTROLLER_MAY = (
    Attempt("list Nodes", "GET", NODES),
    Attempt("read a Node", "GET", OWN),
    Attempt("list topologies", "GET", TOPOLOGIES),
    Attempt("patch status", "PATCH", f"{TOPOLOGIES}/cluster/status", {"status": {"nodes": 2}}, MERGE),
    Attempt(
        "apply status",
        "PATCH",
        f"{TOPOLOGIES}/cluster/status?fieldManager=toposcope-controller&force=true",
        {
            "apiVersion": "gpu.topology/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "cluster"},
            "status": {"nodes": 2, "levelPath": "zone > host"},
        },
        APPLY,
    ),
    Attempt("make the topology of a segment", "POST", TOPOLOGIES, segment("cluster-rack", segments="Off")),
    Attempt(
        "change it",
        "PATCH",
        f"{TOPOLOGIES}/cluster-rack",
        [{"op": "replace", "path": "/spec", "value": {"required": ["rack"]}}],
        JSON_PATCH,
    ),
    Attempt("take it back", "DELETE", f"{TOPOLOGIES}/cluster-rack"),
    Attempt(
        "report on a workload", "POST", EVENTS, event("a.5", kind="Pod", about="trainer", by="gpu.topology/controller")
    ),
    Attempt("write on in an Event of another", "PATCH", f"{EVENTS}/confined-own.kubelet", SERIES, MERGE),
    Attempt("make the Lease", "POST", LEASES, lease("toposcope-controller")),
    Attempt("read the Lease", "GET", LEASE),
)

CONTROLLER_MAY_NOT = (
    Attempt("read another Lease", "GET", f"{LEASES}/other", says=rbac("get", "leases")),
    Attempt("take another Lease", "PUT", f"{LEASES}/other", lease("other"), says=rbac("update", "leases")),
    Attempt(
        "patch the Lease", "PATCH", LEASE, {"metadata": {"labels": {"a": "b"}}}, MERGE, says=rbac("patch", "leases")
    ),
    Attempt("delete the Lease", "DELETE", LEASE, says=rbac("delete", "leases")),
    Attempt("list Leases", "GET", LEASES, says=rbac("list", "leases")),
    Attempt(
        "elect elsewhere",
        "POST",
        LEASES.replace("toposcope-system", "kube-system"),
        lease("toposcope-controller"),
        says=rbac("create", "leases"),
    ),
    Attempt(
        "label a Node", "PATCH", **apply_metadata(OWN, labels={"gpu.topology/gpus": "8"}), says=rbac("patch", "nodes")
    ),
    Attempt("cordon", "PATCH", OWN, {"spec": {"unschedulable": True}}, MERGE, says=rbac("patch", "nodes")),
    Attempt("delete a Node", "DELETE", OTHER, says=rbac("delete", "nodes")),
    Attempt(
        "change what an admin asked for",
        "PATCH",
        f"{TOPOLOGIES}/cluster",
        {"spec": {"required": ["rack"]}},
        MERGE,
        says=ONLY_SEGMENTS,
    ),
    Attempt("delete a topology", "DELETE", f"{TOPOLOGIES}/cluster", says=ONLY_SEGMENTS),
    Attempt("take an admin's topology over", "PATCH", **apply_segment("cluster"), says=ONLY_SEGMENTS),
    Attempt("make one that is nobody's", "PATCH", **apply_segment("a", managed_by="me"), says=ONLY_SEGMENTS),
    Attempt("make one of something else", "PATCH", **apply_segment("b", owner="Node"), says=ONLY_SEGMENTS),
    Attempt(
        "make one with segments of its own",
        "PATCH",
        **apply_segment("c", segments="Auto"),
        says="the ClusterTopology of a segment has no segments",
    ),
    Attempt(
        "give one to another",
        "PATCH",
        f"{TOPOLOGIES}/owned",
        [{"op": "replace", "path": "/metadata/ownerReferences/0/uid", "value": "99999999-2222-3333-4444-555555555555"}],
        JSON_PATCH,
        says=NO_OTHER_OWNER,
    ),
    Attempt("delete all topologies", "DELETE", TOPOLOGIES, says=rbac("deletecollection", "clustertopologies")),
    Attempt("read Events", "GET", EVENTS, says=rbac("list", "events")),
)

# Kinds of others: they need not be served for the right to be checked.
_KEEPS = frozenset({"get", "create", "patch", "delete"})
_FOLLOWS = frozenset({"list", "watch"})
FOREIGN_KINDS = {
    ("gpu.topology", "clustertopologies"): _KEEPS | _FOLLOWS,
    ("grove.io", "clustertopologybindings"): _KEEPS | _FOLLOWS,
    ("grove.io", "clustertopologies"): _KEEPS | _FOLLOWS,
    ("kai.scheduler", "topologies"): _KEEPS | _FOLLOWS,
    ("kueue.x-k8s.io", "topologies"): _KEEPS | _FOLLOWS,
    ("kueue.x-k8s.io", "resourceflavors"): frozenset({"list"}),
    **dict.fromkeys(
        (
            ("nvidia.com", "dynamographdeployments"),
            ("grove.io", "podcliquesets"),
            ("scheduling.run.ai", "podgroups"),
            ("kueue.x-k8s.io", "workloads"),
            ("leaderworkerset.x-k8s.io", "leaderworkersets"),
            ("jobset.x-k8s.io", "jobsets"),
            ("batch", "jobs"),
            ("apps", "deployments"),
            ("apps", "statefulsets"),
        ),
        _FOLLOWS,
    ),
    ("apps", "daemonsets"): frozenset(),
    ("", "pods"): frozenset(),
}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Cluster:
    """An installed base, two Nodes and an agent on the first of them."""

    api: ApiUnderTest
    agent: str
    agent_without_claim: str
    controller: str

    def surprises(self, attempts: tuple[Attempt, ...], token: str) -> dict[str, tuple[int, str]]:
        """The attempts that did not end as the table says."""
        found = {}
        for a in attempts:
            code, answer = self.api.request(a.method, a.path, a.body, content_type=a.media, token=token)
            message = answer.get("message", "")
            as_expected = code == 403 and a.says in message if a.says else code in {200, 201}
            if not as_expected:
                found[a.what] = (code, message)
        return found

    def untouched(self) -> list[dict[str, Any]]:
        """All of both Nodes that is not the agent's to write."""
        return [without_ours(self.api.get(path)) for path in (OWN, OTHER)]


def without_ours(entry: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in entry["metadata"].items() if k not in {"managedFields", "resourceVersion"}}
    for field in ("labels", "annotations"):
        metadata[field] = {k: v for k, v in metadata[field].items() if not k.startswith("gpu.topology/")}
    return {**entry, "metadata": metadata}


def make_node(api: ApiUnderTest, path: str) -> None:
    api.create(NODES, node(path.rpartition("/")[2], **FOREIGN))


def unbound_token(api: ApiUnderTest, account: str) -> str:
    """A token as `kubectl create token` gets it: bound to no pod, so that it names no node."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = api.create(f"{NAMESPACE}/serviceaccounts/{account}/token", request)["status"]["token"]
    return token


@pytest.fixture
def cluster(installed: ApiUnderTest, base: Manifests) -> Iterator[Cluster]:
    api = installed
    for path in (OWN, OTHER):
        make_node(api, path)
    pod = api.create(f"{NAMESPACE}/pods", base.pod("agent", "confined", nodeName="confined-own"))
    api.create(EVENTS, event("confined-own.kubelet", by="kubelet"))
    cluster = Cluster(
        api,
        agent=pod_token(api, pod),
        agent_without_claim=unbound_token(api, "toposcope-agent"),
        controller=unbound_token(api, "toposcope-controller"),
    )
    # Roles and policies take effect a moment after they are written.
    wait_until(lambda: not cluster.surprises(PROBES, cluster.agent), "the agent is let in and confined")
    api.create(TOPOLOGIES, segment("owned"))
    wait_until(
        lambda: not cluster.surprises(CONTROLLER_PROBES, cluster.controller), "the controller is in and confined"
    )
    yield cluster
    api.request("DELETE", f"{NAMESPACE}/pods/confined?gracePeriodSeconds=0")


def test_the_agent_may_do_its_work(cluster: Cluster) -> None:
    before = cluster.untouched()
    assert cluster.surprises(AGENT_MAY, cluster.agent) == {}
    assert cluster.untouched() == before


def confined(cluster: Cluster, token: str, folder: Path) -> Path:
    """A kubeconfig with this token."""
    config = yaml.safe_load(cluster.api.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    kubeconfig = folder / "confined"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    return kubeconfig


def test_a_controller_may_elect_itself_and_give_its_lease_back(cluster: Cluster, tmp_path: Path) -> None:
    cluster.api.create(LEASES, lease("toposcope-controller") | {"spec": {"leaseDurationSeconds": 1}})
    flags = ["--kubeconfig", str(confined(cluster, cluster.controller, tmp_path)), "--leader-elect", "--debounce", "0"]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen([sys.executable, "-m", "controller", *flags], stdout=log, stderr=log)
    try:
        wait_until(lambda: bool(cluster.api.get(f"{TOPOLOGIES}/cluster").get("status")), "it writes")
        assert cluster.api.get(LEASE)["spec"]["holderIdentity"]
    finally:
        program.terminate()
        code = program.wait(timeout=30)
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert (code, "WARNING" in said) == (0, False), said
    assert cluster.api.get(LEASE)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_the_programs_need_no_more_than_their_tokens_allow(cluster: Cluster, program: str, tmp_path: Path) -> None:
    before = cluster.untouched()
    kubeconfig = confined(cluster, {"agent": cluster.agent, "controller": cluster.controller}[program], tmp_path)
    flags = {"agent": ["--profile", "dgx-h200", "--node-name", "confined-own"], "controller": []}[program]
    ran = subprocess.run(
        [sys.executable, "-m", "cli.main", program, "--once", "--kubeconfig", str(kubeconfig), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, False), ran.stderr
    assert cluster.untouched() == before
    if program == "agent":
        assert cluster.api.get(OWN)["metadata"]["labels"]["gpu.topology/gpu-product"] == "NVIDIA-H200"
    else:
        assert cluster.api.get(f"{TOPOLOGIES}/cluster")["status"]["conditions"]


def test_the_agent_may_do_nothing_else(cluster: Cluster) -> None:
    before = cluster.untouched()
    assert cluster.surprises((*AGENT_MAY_NOT, *reaching("toposcope-agent")), cluster.agent) == {}
    assert cluster.untouched() == before
    assert cluster.api.request("GET", f"{NODES}/ghost")[0] == 404


def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    attempts = (
        Attempt("label", "PATCH", **apply_metadata(OWN, labels={"gpu.topology/gpus": "8"}), says=NO_CLAIM),
        Attempt("report", "POST", EVENTS, event("a.6"), says=NO_CLAIM),
    )
    assert cluster.surprises(attempts, cluster.agent_without_claim) == {}


def test_a_node_made_anew_under_the_same_name_is_another_node(cluster: Cluster) -> None:
    assert cluster.api.request("DELETE", OWN)[0] == 200
    make_node(cluster.api, OWN)
    label = apply_metadata(OWN, labels={"gpu.topology/gpus": "8"})
    says = "the agent on node confined-own may not write node confined-own"
    assert cluster.surprises((Attempt("label", "PATCH", **label, says=says),), cluster.agent) == {}


def test_the_policies_bind_nobody_else(cluster: Cluster) -> None:
    label = {"metadata": {"labels": {"example.com/pool": "h200"}}}
    assert cluster.api.request("PATCH", OTHER, label, content_type=MERGE)[0] == 200


def test_the_controller_may_do_its_work(cluster: Cluster) -> None:
    assert cluster.surprises(CONTROLLER_MAY, cluster.controller) == {}


def test_the_controller_may_do_nothing_else(cluster: Cluster) -> None:
    before = cluster.untouched()
    assert cluster.surprises((*CONTROLLER_MAY_NOT, *reaching("toposcope-controller")), cluster.controller) == {}
    assert cluster.untouched() == before


@pytest.mark.parametrize(("group", "resource"), FOREIGN_KINDS)
def test_the_controller_may_write_only_what_it_publishes(cluster: Cluster, group: str, resource: str) -> None:
    granted = set()
    for verb in VERBS:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        _, answer = cluster.api.request("POST", path, review, token=cluster.controller)
        if answer["status"]["allowed"]:
            granted.add(verb)
    assert granted == FOREIGN_KINDS[group, resource]
