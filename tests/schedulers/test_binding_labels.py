"""The component binding-labels beside real schedulers: whoever binds a pod, it gets the path of its node."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.schedulers import build, clusters, gangs, play, programs
from tests.schedulers.clusters import GPU, HOST, made
from tests.support.api import ApiUnderTest, create_namespace, wait_until
from tests.support.bound_pods import NAMESPACE_SWITCH, create_node_paths, share_node_paths
from tests.support.paths import MANIFESTS
from tests.support.programs import lacking
from tools.apiserver.build import BuildError
from toposcope.integrations.binding_paths import encode

pytestmark = pytest.mark.slow

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICY = MANIFESTS / "components" / "binding-labels" / "policy.yaml"
BLOCK, RACK = clusters.LEVELS[:2]
NODES = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
"""The rack of each."""


def gpu_node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "Kubelet", "message": ""}
    labels = {BLOCK: "b1", RACK: NODES[name], HOST: name}
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}
    return made("Node", name, {"taints": []}, labels=labels, status=status)


def install(api: ApiUnderTest) -> None:
    """The policy and its parameter, the nodes, and the label that the namespace opts in with."""
    create_namespace(api, "toposcope-system")
    api.patch("/api/v1/namespaces/default", {"metadata": {"labels": NAMESPACE_SWITCH}})
    paths = {name: f"block=b1,rack={rack},host=" for name, rack in NODES.items()}
    share_node_paths(api)
    create_node_paths(api, encode(paths).data)
    policy, binding = yaml.load_all(POLICY.read_text(), yaml.CSafeLoader)
    code, answer = api.request("POST", f"{GROUP}/mutatingadmissionpolicies", policy)
    if code == 404:
        pytest.skip("this kube-apiserver has no MutatingAdmissionPolicy v1 (Kubernetes 1.36)")
    assert code == 201, answer
    api.create(f"{GROUP}/mutatingadmissionpolicybindings", binding)
    play.create(api, [gpu_node(name) for name in NODES])
    _wait_until_in_force(api)


def _wait_until_in_force(api: ApiUnderTest) -> None:
    """The API server takes up a policy some moments after it was created."""
    numbers = iter(range(1000))

    def is_labelled() -> bool:
        name = f"probe-{next(numbers)}"
        job = _job(name, pods=1)
        play.create(api, play.pods_made_of(job))
        answer, message = play.answer_of_scheduler(api, job)
        assert answer == "placed", message
        (pod,) = play.pods_of(api, name)
        play.remove(api, [made("Pod", f"{name}-0", {})])
        return "annotations" in pod["metadata"]

    wait_until(is_labelled, "the policy is in force", play.PATIENCE)


def _job(name: str, *, pods: int, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi", GPU: "8"}, "limits": {GPU: "8"}},
    }
    template = {
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        }
    }
    return made("Job", name, {"parallelism": pods, "completions": pods, "template": template, **spec})


def assert_path_of_their_nodes(pods: list[dict[str, Any]], *, count: int) -> None:
    """Each pod carries the path of the node that it is bound to."""
    assert len(pods) == count
    for pod in pods:
        node = pod["spec"]["nodeName"]
        rack = NODES[node]
        assert pod["metadata"]["annotations"]["gpu.topology/path"] == f"block=b1,rack={rack},host={node}"
        labels = pod["metadata"]["labels"]
        assert labels["gpu.topology/path-block"] == "b1"
        assert labels["gpu.topology/path-rack"] == rack
        assert labels["gpu.topology/path-host"] == node


def test_pods_of_a_gang_get_the_path_of_their_nodes(gang_scheduler: ApiUnderTest) -> None:
    install(gang_scheduler)
    group = made("PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": 4}}})
    template = _job("gang", pods=4)["spec"]["template"]["spec"]
    members = [gangs.member("gang", number, template) for number in range(4)]

    play.create(gang_scheduler, [group, *members])

    def bound() -> list[dict[str, Any]]:
        return [pod for pod in play.pods_of(gang_scheduler, "gang") if "nodeName" in pod["spec"]]

    wait_until(lambda: len(bound()) == 4, "the gang is bound", play.PATIENCE)
    assert_path_of_their_nodes(bound(), count=4)


def test_pods_that_kueue_admits_get_the_path_of_their_nodes(kueue: ApiUnderTest, folder: Path) -> None:
    try:
        scheduler = build.kube_scheduler()
        controllers = build.kube_controller_manager()
    except BuildError as error:
        lacking("SCHEDULERS", error)
    with (
        programs.kube_scheduler(scheduler, kueue, folder),
        programs.controller_manager(controllers, kueue, folder),
    ):
        install(kueue)
        quotas = [{"name": name, "nominalQuota": "1000Gi"} for name in ("cpu", "memory", GPU)]
        flavors = [{"name": "gpu", "resources": quotas}]
        groups = [{"coveredResources": ["cpu", "memory", GPU], "flavors": flavors}]
        queue = {"namespaceSelector": {}, "resourceGroups": groups}
        play.create(
            kueue,
            [
                made("ResourceFlavor", "gpu", {"nodeLabels": {BLOCK: "b1"}, "topologyName": "cluster"}),
                made("ClusterQueue", "queue", queue),
                made("LocalQueue", "queue", {"clusterQueue": "queue"}),
            ],
        )
        job = _job("admitted", pods=2, suspend=True)
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
        job["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}

        kueue.create(play.PATHS["Job"], job)

        def bound() -> list[dict[str, Any]]:
            pods = kueue.get(f"{play.PATHS['Pod']}?labelSelector=batch.kubernetes.io/job-name%3Dadmitted")["items"]
            return [pod for pod in pods if "nodeName" in pod["spec"]]

        wait_until(lambda: len(bound()) == 2, "the Job's pods are bound", play.PATIENCE)
        pods = bound()
        assert_path_of_their_nodes(pods, count=2)
        assert len({NODES[pod["spec"]["nodeName"]] for pod in pods}) == 1
