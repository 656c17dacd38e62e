"""The component binding-labels on a real kube-apiserver: labels come with a binding, and none fails for them."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.api import ApiUnderTest, create_namespace, create_service_account, wait_until
from tests.support.bound_pods import (
    NAMESPACE_SWITCH,
    PATHS,
    binding_to,
    create_node_paths,
    share_node_paths,
    waiting_pod,
)
from tests.support.paths import MANIFESTS
from toposcope.integrations.binding_paths import encode

pytestmark = pytest.mark.real_api("admission")

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
POLICY = MANIFESTS / "components" / "binding-labels" / "policy.yaml"
GOOD = encode(
    {
        "n1": "rack=r1,host=",
        "n10": "rack=r2,nvlink-domain=,host=",
        "n2": "rack=r2",
    },
    shards=2,
).data
OF_N2 = {
    "gpu.topology/path": "rack=r2",
    "gpu.topology/path-rack": "r2",
}
"""What a pod on that node gets."""
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(real_api: ApiUnderTest) -> Iterator[ApiUnderTest]:
    """A server with the policy in force in namespace `on`."""
    status, _ = real_api.request("GET", POLICIES)
    if status != 200:
        pytest.skip("this kube-apiserver has no MutatingAdmissionPolicy v1 (Kubernetes 1.36)")
    for namespace in ("on", "off", "toposcope-system"):
        create_namespace(real_api, namespace)
        create_service_account(real_api, namespace, "default")
    switched_on = {"metadata": {"labels": NAMESPACE_SWITCH}}
    real_api.patch("/api/v1/namespaces/on", switched_on)
    share_node_paths(real_api)
    keep(real_api, GOOD)
    apply_policy(real_api)
    in_force(real_api, "first")
    yield real_api
    remove_policy(real_api)


def apply_policy(api: ApiUnderTest) -> None:
    """Create policy and binding; they are in force some moments later."""
    text = POLICY.read_text()
    policy, binding = yaml.load_all(text, yaml.CSafeLoader)
    api.create(POLICIES, policy)
    api.create(BINDINGS, binding)


def remove_policy(api: ApiUnderTest) -> None:
    """Delete both."""
    for path in (BINDINGS, POLICIES):
        api.request("DELETE", f"{path}/toposcope-binding-labels.gpu.topology")


def keep(api: ApiUnderTest, data: Any) -> None:
    """Make the object with the paths anew with these entries."""
    api.request("DELETE", PATHS)
    create_node_paths(api, data)


def in_force(api: ApiUnderTest, prefix: str, *, is_labelled: bool = True) -> None:
    """Wait until bindings get what the good paths say, or nothing."""
    tries = itertools.count()

    def is_as_expected() -> bool:
        name = f"{prefix}-{next(tries)}"
        return bool(bound(api, name, "n1")) == is_labelled

    wait_until(is_as_expected, "the paths are in force")


def make_pod(api: ApiUnderTest, name: str, namespace: str = "on") -> str:
    """Create a pod that waits; its path."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = waiting_pod(name)
    api.create(pods, pod)
    return f"{pods}/{name}"


def keys_on(api: ApiUnderTest, pod: str) -> dict[str, str]:
    """Its labels and annotations."""
    metadata = api.get(pod)["metadata"]
    labels = metadata.get("labels", {})
    annotations = metadata.get("annotations", {})
    return {**labels, **annotations}


def bound(api: ApiUnderTest, name: str, node: str, namespace: str = "on", **metadata: Any) -> dict[str, str]:
    """Make a pod, bind it to the node, and give its labels and annotations."""
    pod = make_pod(api, name, namespace)
    binding = binding_to(node, name, **metadata)
    api.create(f"{pod}/binding", binding)
    spec = api.get(pod)["spec"]
    assert spec["nodeName"] == node
    return keys_on(api, pod)


def test_labels_of_the_path_come_in_the_write_that_binds(cluster: ApiUnderTest) -> None:
    pod = make_pod(cluster, "whole")
    before = cluster.get(pod)["metadata"]["resourceVersion"]
    cluster.create(f"{pod}/binding", binding_to("n1", "whole"))
    watch = f"watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dwhole&resourceVersion={before}"
    _, only_event = cluster.request("GET", f"/api/v1/namespaces/on/pods?{watch}")
    after = only_event["object"]
    assert after["spec"]["nodeName"] == "n1"
    assert after["metadata"]["annotations"] == {"gpu.topology/path": "rack=r1,host=n1"}
    assert after["metadata"]["labels"] == {
        "gpu.topology/path-rack": "r1",
        "gpu.topology/path-host": "n1",
    }


def test_levels_that_end_at_the_node_have_its_name(cluster: ApiUnderTest) -> None:
    assert bound(cluster, "own-name", "n10") == {
        "gpu.topology/path": "rack=r2,nvlink-domain=n10,host=n10",
        "gpu.topology/path-rack": "r2",
        "gpu.topology/path-nvlink-domain": "n10",
        "gpu.topology/path-host": "n10",
    }


def test_path_without_the_host_is_written_as_far_as_known(cluster: ApiUnderTest) -> None:
    assert bound(cluster, "short", "n2") == OF_N2


SENT: dict[str, Any] = {
    "labels": {
        "gpu.topology/path-rack": "forged",
        "gpu.topology/path-room": "forged",
    },
    "annotations": {
        "gpu.topology/path": "rack=forged",
        "example.com/note": "kept",
    },
}


def test_keys_of_the_sender_are_replaced(cluster: ApiUnderTest) -> None:
    assert bound(cluster, "forged", "n2", **SENT) == {**OF_N2, "example.com/note": "kept"}


def test_keys_of_the_sender_go_where_the_node_has_no_path(cluster: ApiUnderTest) -> None:
    assert bound(cluster, "forged-unknown", "n4", **SENT) == {"example.com/note": "kept"}


def test_binding_by_the_older_resource_is_labelled_too(cluster: ApiUnderTest) -> None:
    pod = make_pod(cluster, "older")
    binding = binding_to("n2", "older")
    cluster.create("/api/v1/namespaces/on/bindings", binding)
    assert keys_on(cluster, pod) == OF_N2


@pytest.mark.parametrize("node", ["n3", "n4", "a", "n", "n1.example.com"])
def test_node_without_a_path_is_bound_without_labels(cluster: ApiUnderTest, node: str) -> None:
    assert bound(cluster, f"unknown-{node}", node) == {}


def test_namespace_without_the_label_is_untouched(cluster: ApiUnderTest) -> None:
    assert bound(cluster, "elsewhere", "n1", namespace="off") == {}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="no-data"),
        pytest.param({"starts": "n1", "paths": "\n0:rack=r1\n"}, id="no-shard"),
        pytest.param({"starts": "n1", "0": "\nn1=0", "paths": "\n0:rack=r1\n"}, id="line-without-an-end"),
        pytest.param({"starts": "n1", "0": "\nn1=7\n", "paths": "\n0:rack=r1\n"}, id="unknown-number"),
        pytest.param({"starts": "n1", "0": "\nn1=0\n", "paths": "\n0:rack\n"}, id="no-value"),
        pytest.param({"starts": "n1", "0": "\nn1=0\n", "paths": "\n0:rack=a b\n"}, id="no-label-value"),
        pytest.param({"starts": "n1", "0": "\nn1=0\n", "paths": f"\n0:rack={'r' * 70}\n"}, id="long-value"),
        pytest.param({"starts": "n1", "0": "\nn1=0\n", "paths": f"\n0:rack={'r' * 900_000}\n"}, id="huge-value"),
    ],
)
def test_corrupt_paths_fail_no_binding(cluster: ApiUnderTest, data: Any, request: pytest.FixtureRequest) -> None:
    case = request.node.callspec.id
    keep(cluster, data)
    in_force(cluster, case, is_labelled=False)
    keep(cluster, GOOD)
    in_force(cluster, f"after-{case}")


def test_missing_paths_fail_no_binding(cluster: ApiUnderTest) -> None:
    cluster.request("DELETE", PATHS)
    in_force(cluster, "missing", is_labelled=False)
    keep(cluster, GOOD)
    in_force(cluster, "after-missing")


@pytest.mark.regression
def test_policy_that_is_applied_again_writes_what_the_paths_are_then(cluster: ApiUnderTest) -> None:
    """A ConfigMap as parameter would be the one that the API server knew when the policy was removed."""
    remove_policy(cluster)
    in_force(cluster, "removed", is_labelled=False)
    keep(cluster, {"starts": "n1", "0": "\nn1=0\n", "paths": "\n0:rack=r9\n"})
    apply_policy(cluster)
    in_force(cluster, "again")
    assert bound(cluster, "moved", "n1") == {"gpu.topology/path": "rack=r9", "gpu.topology/path-rack": "r9"}
    keep(cluster, GOOD)
    wait_until(lambda: bound(cluster, f"good-{next(NUMBERS)}", "n2") == OF_N2, "the good paths are in force again")
