"""What the token of the controller may do on a real API server, and what it may not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.manifests.rights import (
    EVENTS,
    OTHER,
    OWN,
    SERIES,
    Attempt,
    apply,
    apply_node,
    event,
    granted,
    json_patch,
    kubeconfig_with,
    make_node,
    merge,
    rbac,
    reaching,
    surprises,
    unbound_token,
    untouched,
    wait_for,
)
from tests.manifests.support import NAMESPACE, TOPOLOGIES
from tests.support.api import NODES, ApiUnderTest, wait_until

GROUP = "gpu.topology/v1alpha1"
UID = "11111111-2222-3333-4444-555555555555"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/toposcope-system/leases"
LEASE = f"{LEASES}/toposcope-controller"
DAEMON_SETS = "/apis/apps/v1/namespaces/toposcope-system/daemonsets"
ELSEWHERE = LEASES.replace("toposcope-system", "kube-system")
NO_SEGMENTS_OF_ITS_OWN = "the ClusterTopology of a segment has no segments"
ONLY_SEGMENTS = "the controller may only write ClusterTopologies that it made for segments of another"
NO_OTHER_OWNER = "the controller may not give a ClusterTopology another owner"
ONLY_OWN_EVENTS = "the controller may only write Events of its own"
PLAIN_EVENTS = "Events of the controller name no related object"
RELATED = {"apiVersion": "v1", "kind": "Node", "name": "confined-other"}


def segment(
    name: str, *, owner: str = "ClusterTopology", managed_by: str = "toposcope", version: str = GROUP, **spec: Any
) -> dict[str, Any]:
    """A ClusterTopology as the controller makes it for a segment of another."""
    return {
        "apiVersion": GROUP,
        "kind": "ClusterTopology",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": managed_by},
            "ownerReferences": [
                {"apiVersion": version, "kind": owner, "name": "cluster", "uid": UID, "controller": True}
            ],
        },
        "spec": spec,
    }


def apply_segment(what: str, name: str, says: str, **parts: Any) -> Attempt:
    return apply(what, f"{TOPOLOGIES}/{name}", segment(name, **parts), says)


def lease(name: str) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


STATUS = {"nodes": 2, "levelPath": "zone > host"}
REQUIRED = {"required": ["rack"]}
ABOUT_A_POD = event("a.5", kind="Pod", about="trainer", by="gpu.topology/controller")

MAY = (
    Attempt("list Nodes", "GET", NODES),
    Attempt("read a Node", "GET", OWN),
    Attempt("list topologies", "GET", TOPOLOGIES),
    merge("patch status", f"{TOPOLOGIES}/cluster/status", {"status": {"nodes": 2}}),
    apply(
        "apply status",
        f"{TOPOLOGIES}/cluster/status",
        {"apiVersion": GROUP, "kind": "ClusterTopology", "metadata": {"name": "cluster"}, "status": STATUS},
    ),
    Attempt("make the topology of a segment", "POST", TOPOLOGIES, segment("cluster-rack", segments="Off")),
    json_patch("change it", f"{TOPOLOGIES}/cluster-rack", "replace", "/spec", REQUIRED),
    Attempt("take it back", "DELETE", f"{TOPOLOGIES}/cluster-rack"),
    Attempt("report on a workload", "POST", EVENTS, ABOUT_A_POD),
    merge("count its Event on", f"{EVENTS}/a.5", SERIES),
    Attempt("make the Lease", "POST", LEASES, lease("toposcope-controller")),
    Attempt("read the Lease", "GET", LEASE),
    Attempt("look at the agents' DaemonSet", "GET", f"{DAEMON_SETS}/toposcope-agent"),
    Attempt("read why it has no pods", "GET", f"{NAMESPACE}/events"),
)

MAY_NOT = (
    Attempt("read another Lease", "GET", f"{LEASES}/other", says=rbac("get", "leases")),
    Attempt("take another Lease", "PUT", f"{LEASES}/other", lease("other"), says=rbac("update", "leases")),
    merge("patch the Lease", LEASE, {"metadata": {"labels": {"a": "b"}}}, rbac("patch", "leases")),
    Attempt("delete the Lease", "DELETE", LEASE, says=rbac("delete", "leases")),
    Attempt("list Leases", "GET", LEASES, says=rbac("list", "leases")),
    Attempt("elect elsewhere", "POST", ELSEWHERE, lease("toposcope-controller"), says=rbac("create", "leases")),
    apply_node("label a Node", OWN, rbac("patch", "nodes"), labels={"gpu.topology/gpus": "8"}),
    merge("cordon", OWN, {"spec": {"unschedulable": True}}, rbac("patch", "nodes")),
    Attempt("delete a Node", "DELETE", OTHER, says=rbac("delete", "nodes")),
    merge("change what an admin asked for", f"{TOPOLOGIES}/cluster", {"spec": REQUIRED}, ONLY_SEGMENTS),
    Attempt("delete a topology", "DELETE", f"{TOPOLOGIES}/cluster", says=ONLY_SEGMENTS),
    apply_segment("take an admin's topology over", "cluster", ONLY_SEGMENTS),
    apply_segment("make one that is nobody's", "a", ONLY_SEGMENTS, managed_by="me"),
    apply_segment("make one of something else", "b", ONLY_SEGMENTS, owner="Node"),
    apply_segment("make one of Grove's ClusterTopology", "d", ONLY_SEGMENTS, version="grove.io/v1alpha1"),
    apply_segment("make one with segments of its own", "c", NO_SEGMENTS_OF_ITS_OWN, segments="Auto"),
    json_patch(
        "give one to another",
        f"{TOPOLOGIES}/owned",
        "replace",
        "/metadata/ownerReferences/0/uid",
        UID.replace("1", "9"),
        NO_OTHER_OWNER,
    ),
    Attempt("delete all topologies", "DELETE", TOPOLOGIES, says=rbac("deletecollection", "clustertopologies")),
    Attempt("speak for the kubelet", "POST", EVENTS, event("a.7", by="kubelet"), says=ONLY_OWN_EVENTS),
    Attempt("speak for an agent", "POST", EVENTS, event("a.8"), says=ONLY_OWN_EVENTS),
    *(
        Attempt(f"put {field} into an Event", "POST", EVENTS, {**ABOUT_A_POD, "metadata": metadata}, says=PLAIN_EVENTS)
        for field, metadata in (
            ("finalizers", {"name": "a.9", "finalizers": ["a.b/c"]}),
            ("annotations", {"name": "a.9", "annotations": {"a": "x" * 250_000}}),
        )
    ),
    Attempt(
        "relate", "POST", EVENTS, {**ABOUT_A_POD, "metadata": {"name": "a.9"}, "related": RELATED}, says=PLAIN_EVENTS
    ),
    merge("write on in an Event of another", f"{EVENTS}/confined-own.kubelet", SERIES, ONLY_OWN_EVENTS),
    Attempt("read Events", "GET", EVENTS, says=rbac("list", "events")),
    Attempt("read Events elsewhere", "GET", "/api/v1/namespaces/default/events", says=rbac("list", "events")),
    Attempt("look at another DaemonSet", "GET", f"{DAEMON_SETS}/a", says=rbac("get", "daemonsets")),
    merge("change the agents'", f"{DAEMON_SETS}/toposcope-agent", REQUIRED, rbac("patch", "daemonsets")),
)

# One for each role and policy.
PROBES = (
    Attempt("reading Nodes", "GET", NODES),
    merge("its own topologies only", f"{TOPOLOGIES}/cluster?dryRun=All", {"spec": REQUIRED}, ONLY_SEGMENTS),
    Attempt("honest Events", "POST", f"{EVENTS}?dryRun=All", event("a.0", by="kubelet"), says=ONLY_OWN_EVENTS),
    Attempt("making Leases", "POST", f"{LEASES}?dryRun=All", lease("toposcope-controller")),
)

# Kinds of others: they need not be served for the right to be checked.
_KEEPS = frozenset({"get", "create", "patch", "delete"})
_FOLLOWS = frozenset({"list", "watch"})
KINDS = {
    ("gpu.topology", "clustertopologies"): _KEEPS | _FOLLOWS,
    ("grove.io", "clustertopologybindings"): _KEEPS | _FOLLOWS,
    ("grove.io", "clustertopologies"): _KEEPS | _FOLLOWS,
    ("kai.scheduler", "topologies"): _KEEPS | _FOLLOWS,
    ("kueue.x-k8s.io", "topologies"): _KEEPS | _FOLLOWS,
    ("kueue.x-k8s.io", "resourceflavors"): _FOLLOWS,
    ("nvidia.com", "dynamographdeployments"): _FOLLOWS,
    ("grove.io", "podcliquesets"): _FOLLOWS,
    ("scheduling.run.ai", "podgroups"): _FOLLOWS,
    ("kueue.x-k8s.io", "workloads"): _FOLLOWS,
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): _FOLLOWS,
    ("jobset.x-k8s.io", "jobsets"): _FOLLOWS,
    ("batch", "jobs"): _FOLLOWS,
    ("apps", "deployments"): _FOLLOWS,
    ("apps", "statefulsets"): _FOLLOWS,
    ("apps", "daemonsets"): frozenset(),
    ("", "pods"): frozenset(),
}


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest) -> str:
    """A token of the controller, on a cluster with two Nodes, a segment's topology and an Event of the kubelet."""
    api = installed_once
    for path in (OWN, OTHER):
        make_node(api, path)
    api.create(EVENTS, event("confined-own.kubelet", by="kubelet"))
    api.create(TOPOLOGIES, segment("owned"))
    token = unbound_token(api, "toposcope-controller")
    wait_for(api, PROBES, token)
    return token


def test_it_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    assert surprises(installed_once, MAY, token) == {}


def test_it_may_do_nothing_else(installed_once: ApiUnderTest, token: str) -> None:
    before = untouched(installed_once)
    assert surprises(installed_once, (*MAY_NOT, *reaching("toposcope-controller")), token) == {}
    assert untouched(installed_once) == before


@pytest.mark.parametrize(("group", "resource"), KINDS)
def test_its_role_names_what_it_publishes_and_reads(
    installed_once: ApiUnderTest, token: str, group: str, resource: str
) -> None:
    assert granted(installed_once, token, group, resource) == KINDS[group, resource]


def test_it_may_elect_itself_and_give_its_lease_back(installed_once: ApiUnderTest, token: str, tmp_path: Path) -> None:
    api = installed_once
    # One that is about to expire: whoever makes a new one waits as long as it lasts.
    api.request("DELETE", LEASE)
    api.create(LEASES, lease("toposcope-controller") | {"spec": {"leaseDurationSeconds": 1}})
    flags = ["--kubeconfig", str(kubeconfig_with(api, token, tmp_path)), "--leader-elect", "--debounce", "0"]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen([sys.executable, "-m", "toposcope.controller", *flags], stdout=log, stderr=log)
    try:
        wait_until(lambda: "conditions" in api.get(f"{TOPOLOGIES}/cluster").get("status", {}), "it writes")
        assert api.get(LEASE)["spec"]["holderIdentity"]
    finally:
        program.terminate()
        code = program.wait(timeout=30)
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert (code, "WARNING" in text) == (0, False), text
    assert api.get(LEASE)["spec"]["holderIdentity"] == ""
