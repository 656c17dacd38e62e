"""What labels that arrive with the binding add to a pod's binding, on a real kube-apiserver.

A MutatingAdmissionPolicy on `pods/binding` (v1 from Kubernetes 1.36) finds the path of the node in
one object. Bindings with and without it take turns in two namespaces of one server, so that both
have the same moments of a busy machine.

Beyond bare at 5,000 nodes, 2,500 bindings each: p50 0.65 and p99 1.43 ms with Kubernetes 1.36.3,
0.57 and 1.76 ms with 1.37.2.
That was with a ConfigMap. On a slower machine, in turn with it: p50 1.94 and 1.95 ms, 2.22 with a
ConfigMap.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tools.apiserver.client import AdminApi, wait_until
from tools.apiserver.server import RealApiServer, find_binaries
from tools.bench.real import is_there
from tools.bench.report import Figure, Peer, Sample, Target
from tools.bench.workspace import MeasurementError, scratch
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.integrations.binding_paths import encode, node_paths, path_of_object

_POLICY: Final = (
    Path(__file__).parents[2] / "manifests" / "components" / "binding-labels" / "policy.yaml"
)
_CRD: Final = _POLICY.with_name("crd.yaml")
_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_BARE: Final = "bare"
_LABELLED: Final = "labelled"
_SWITCH: Final = {"gpu.topology/binding-labels": "enabled"}
_NODES_PER_RACK: Final = 16
_RACKS_PER_BLOCK: Final = 16
_STRIDE: Final = 1_009
"""Nodes from one binding to the next, so that all shards are asked."""
_FOUND: Final = 200
_CREATED: Final = 201


def bindings_figures(*, quick: bool) -> Iterator[Figure]:
    """Bindings to 5,000 nodes (500 when quick).

    Yields nothing where there is no kube-apiserver of 1.36 or newer.
    """
    if not is_there():
        return
    nodes = 500 if quick else 5_000
    count = 50 if quick else 2_500

    with _server() as api:
        code, _ = api.request("GET", f"{_GROUP}/mutatingadmissionpolicies")
        if code != _FOUND:
            return
        names = _name_nodes(api, nodes)
        _install(api, names)
        bare, labelled = _bind_in_turn(api, names, count)

    for share, target in ((0.5, None), (0.99, Target(5))):
        without = Sample(bare, "ms", share)
        with_labels = Sample(labelled, "ms", share)
        yield Figure(
            f"binding with labels of the path, {nodes:,} nodes, p{100 * share:.0f}",
            with_labels,
            peers=(Peer("bare", without),),
        )
        beyond = with_labels.value - without.value
        yield Figure("  beyond bare", Sample((beyond,), "ms"), target)


@contextmanager
def _server() -> Iterator[AdminApi]:
    """A server with the namespaces; pods in one of them get labels."""
    with scratch() as folder, RealApiServer(find_binaries()) as server:
        kubeconfig = folder / "kubeconfig"
        api = AdminApi("real", server.url, kubeconfig, server.ca_file, server.admin_token)
        for name, labels in ((_BARE, {}), (_LABELLED, _SWITCH), (HOME_NAMESPACE, {})):
            namespace = _object("Namespace", name)
            namespace["metadata"]["labels"] = labels
            api.create("/api/v1/namespaces", namespace)
            account = _object("ServiceAccount", "default")
            api.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
        yield api
        api.client.close()


def _name_nodes(api: AdminApi, count: int) -> list[str]:
    """Keep the paths of this many nodes, which need not exist; their names."""
    paths = {}
    for number in range(count):
        name = f"gpu-node-{number:05d}.cluster.example.com"
        rack = number // _NODES_PER_RACK
        block = rack // _RACKS_PER_BLOCK
        paths[name] = f"block=b{block},rack=r{rack},nvlink-domain=,host="
    api.install_crd(yaml.load(_CRD.read_text(), yaml.CSafeLoader))
    folder, _, _ = path_of_object(HOME_NAMESPACE).rpartition("/")
    api.create(folder, node_paths(HOME_NAMESPACE, encode(paths).data))
    return list(paths)


def _install(api: AdminApi, nodes: Sequence[str]) -> None:
    """Have the policy in force. Raises MeasurementError."""
    policy, binding = yaml.load_all(_POLICY.read_text(), yaml.CSafeLoader)
    api.create(f"{_GROUP}/mutatingadmissionpolicies", policy)
    api.create(f"{_GROUP}/mutatingadmissionpolicybindings", binding)
    tried = 0

    def is_in_force() -> bool:
        nonlocal tried
        tried += 1
        name = f"tried-{tried}"
        _bind(api, _LABELLED, name, nodes[0])
        return _is_labelled(api, name)

    wait_until(is_in_force, "the policy is in force")


def _bind_in_turn(
    api: AdminApi, nodes: Sequence[str], count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Milliseconds of bindings without and with labels. Raises MeasurementError."""
    bare, labelled = [], []
    for number in range(count):
        name = f"pod-{number}"
        node = nodes[number * _STRIDE % len(nodes)]
        if number % 2:
            bare.append(_bind(api, _BARE, name, node))
        labelled.append(_bind(api, _LABELLED, name, node))
        if number % 2 == 0:
            bare.append(_bind(api, _BARE, name, node))
        if not _is_labelled(api, name):
            raise MeasurementError(f"pod {name} was bound without labels")
    return tuple(bare), tuple(labelled)


def _bind(api: AdminApi, namespace: str, name: str, node: str) -> float:
    """Create a pod and bind it; milliseconds of the latter. Raises MeasurementError."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = _object("Pod", name)
    pod["spec"] = {"containers": [{"name": "main", "image": "none"}]}
    api.create(pods, pod)

    binding = _object("Binding", name)
    binding["target"] = {"apiVersion": "v1", "kind": "Node", "name": node}
    began = time.perf_counter()
    code, answer = api.request("POST", f"{pods}/{name}/binding", binding)
    took = time.perf_counter() - began
    if code != _CREATED:
        raise MeasurementError(f"pod {name} was not bound: {answer}")
    return 1000 * took


def _is_labelled(api: AdminApi, name: str) -> bool:
    pod = api.get(f"/api/v1/namespaces/{_LABELLED}/pods/{name}")
    labels = pod["metadata"].get("labels") or {}
    return "gpu.topology/path-rack" in labels


def _object(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name},
    }
