"""The component binding-labels on a real API server: the controller with its own token, an overlay, and a bound pod."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.rights import HOME, PATHS, PLAN
from tests.manifests.support import Manifests, apply_folder, built, create_runtime_class, serve, write_overlay
from tests.support.api import NODES, ApiUnderTest, create_namespace, create_service_account, node, pod_token, wait_until
from tests.support.bound_pods import NAMESPACE_SWITCH, binding_to, waiting_pod
from toposcope.cli.main import main
from toposcope.controller.confinement import RIGHTS
from toposcope.integrations.binding_paths import node_paths, path_of_object
from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

pytestmark = [pytest.mark.slow, pytest.mark.real_api("admission")]

PODS = "/api/v1/namespaces/jobs/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
PLACE = {
    "gpu.topology/gpus": "8",
    "topology.kubernetes.io/zone": "z",
    "cloud.google.com/gce-topology-subblock": "r1",
    "kubernetes.io/hostname": "n1",
}
WRITTEN = {
    "gpu.topology/path": "zone=z,rack=r1,host=n1",
    "gpu.topology/path-zone": "z",
    "gpu.topology/path-rack": "r1",
    "gpu.topology/path-host": "n1",
}


class Cluster:
    """An overlay of the base with the component, one Node, and a namespace whose pods get labels."""

    def __init__(self, api: ApiUnderTest, kubectl: str, folder: Path, **fields: Any) -> None:
        status, _ = api.request("GET", POLICIES)
        if status != 200:
            pytest.skip("this kube-apiserver has no MutatingAdmissionPolicy v1 (Kubernetes 1.36)")
        self.api = api
        self._folder = folder
        serve(api, kubectl)
        overlay = write_overlay(folder / "overlay", ("binding-labels",), **fields)
        apply_folder(api, kubectl, overlay)
        create_runtime_class(api)
        self.manifests: Manifests = built(kubectl, overlay)
        api.create(NODES, node("n1", labels=PLACE))
        create_namespace(api, "jobs")
        create_service_account(api, "jobs", "default")
        switched_on = {"metadata": {"labels": NAMESPACE_SWITCH}}
        api.patch("/api/v1/namespaces/jobs", switched_on)
        self._pods = 0

    def controller_token(self) -> str:
        """A token of a pod of the controller, whatever the overlay calls it, with the rights of the component."""
        (deployment,) = self.manifests.of_kind("Deployment")
        template = deployment["spec"]["template"]
        home = deployment["metadata"]["namespace"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a-controller"},
            "spec": template["spec"],
        }
        created = self.api.create(f"/api/v1/namespaces/{home}/pods", pod)
        token = pod_token(self.api, created)
        paths = path_of_object(home)
        wait_until(
            lambda: self.api.ask("GET", paths, token=token).code == 404,
            "the controller may read the paths",
        )
        return token

    def kubeconfig(self, token: str) -> Path:
        return rights.kubeconfig_with(self.api, token, self._folder)

    def bound(self) -> dict[str, str]:
        """What of ours is on a pod that has just been bound: the API server copies the zone by itself."""
        self._pods += 1
        name = f"pod-{self._pods}"
        pod = waiting_pod(name)
        self.api.create(PODS, pod)
        binding = binding_to("n1", name)
        self.api.create(f"{PODS}/{name}/binding", binding)
        metadata = self.api.get(f"{PODS}/{name}")["metadata"]
        labels = metadata.get("labels", {})
        annotations = metadata.get("annotations", {})
        ours = {}
        for key, value in {**labels, **annotations}.items():
            if key.startswith("gpu.topology/"):
                ours[key] = value
        return ours

    def wait_for_labels(self) -> None:
        wait_until(lambda: self.bound() == WRITTEN, "pods get the labels of their node's path")


@pytest.fixture
def cluster(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> Cluster:
    return Cluster(api, kubectl, tmp_path.resolve())


def test_pod_gets_its_path_also_when_the_controller_is_gone(cluster: Cluster) -> None:
    token = cluster.controller_token()
    assert cluster.bound() == {}
    assert main(["controller", "--once", "--node-paths", "--kubeconfig", str(cluster.kubeconfig(token))]) == 0
    # The controller has ended by now.
    cluster.wait_for_labels()


def test_controller_may_keep_this_object_and_no_other(cluster: Cluster) -> None:
    token = cluster.controller_token()
    paths = node_paths("toposcope-system", {})
    other = PATHS.replace("toposcope-node-paths", "other")
    work = (
        rights.apply("write the paths", PATHS, paths),
        rights.get("read the paths", PATHS),
        rights.delete("delete the paths", PATHS),
    )
    forbidden = (
        rights.delete("delete the agents' plan", PLAN, 'cannot delete resource "configmaps"'),
        rights.get("read another", other, 'cannot get resource "nodepaths"'),
        rights.get("list them", other.removesuffix("/other"), 'cannot list resource "nodepaths"'),
        rights.get("read ConfigMaps", f"{HOME}/configmaps", 'cannot list resource "configmaps"'),
        rights.get(
            "read it elsewhere",
            path_of_object("jobs"),
            'cannot get resource "nodepaths"',
        ),
    )
    rights.assert_answers(cluster.api, work, token)
    rights.assert_answers(cluster.api, forbidden, token)
    client = ApiClient(load(str(cluster.kubeconfig(token))))
    try:
        assert AccountRights(RIGHTS, "toposcope-system").excess(client) == []
    finally:
        client.close()


def test_leader_without_the_flag_deletes_the_paths(cluster: Cluster, tmp_path: Path) -> None:
    token = cluster.controller_token()
    kubeconfig = str(cluster.kubeconfig(token))
    assert main(["controller", "--once", "--node-paths", "--kubeconfig", kubeconfig]) == 0
    cluster.wait_for_labels()
    assert main(["controller", "--once", "--kubeconfig", kubeconfig]) == 0
    assert cluster.api.ask("GET", PATHS).code == 200
    command = [
        sys.executable,
        "-m",
        "toposcope.controller",
        "--kubeconfig",
        kubeconfig,
        "--leader-elect",
        "--debounce",
        "0",
    ]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: cluster.api.ask("GET", PATHS).code == 404, "the paths are deleted")
    finally:
        program.terminate()
        program.wait(timeout=30)
    wait_until(lambda: cluster.bound() == {}, "pods are bound without labels")


def test_policy_follows_an_overlay(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> None:
    moved = Cluster(api, kubectl, tmp_path.resolve(), namespace="gpu-fleet", namePrefix="acme-")
    token = moved.controller_token()
    command = ["controller", "--once", "--node-paths", "--kubeconfig", str(moved.kubeconfig(token))]
    assert main([*command, "--lease-namespace", "gpu-fleet"]) == 0
    moved.wait_for_labels()
    forged = waiting_pod("forged", labels={"gpu.topology/path-rack": "r1"})
    # The guard is another policy than the one that writes the labels, and counts a moment before or after it.
    wait_until(
        lambda: api.request("POST", f"{PODS}?dryRun=All", forged)[0] == 403,
        "a forged path is refused",
    )
