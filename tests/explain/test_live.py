"""The same causes in a running cluster with the upstream CRDs: the same page as from files."""

from collections.abc import Iterator

import pytest
import yaml
from tests.explain.causes import CAUSES, Cause
from tests.explain.waiting import Object, condition
from tests.support.api import NODES, ApiUnderTest, Clients, create_namespace, create_service_account
from tests.support.controller import controller_of
from tests.support.pages import read_page
from tests.support.paths import CRD
from tests.support.publishing import Time, install
from tests.support.upstream_crds import stand_in
from toposcope.cli.main import main
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.explain.object_store import AROUND, POD, SUBJECTS
from toposcope.kube.client import ApiClient
from toposcope.kube.discovery import Kind

pytestmark = pytest.mark.slow

UPSTREAM = (
    "grove-clustertopologybindings-alpha10",
    "grove-podcliquesets-alpha12",
    "kai-topologies-v0.17",
    "kai-podgroups-v0.17",
    "kueue-topologies-v0.19",
    "kueue-resourceflavors-v0.19",
    "dynamo-dynamographdeployments-v1beta1-reduced",
)
OWN_API = "scheduling.k8s.io"
"""A real server serves no CRD in it, and its own kinds only behind gates."""
STAND_INS = {"PodClique", "PodGang", "Workload", "LocalQueue", "ClusterQueue", "JobSet", "LeaderWorkerSet"}
"""Kinds whose CRDs are not at hand: these take any spec."""
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
KINDS = {kind.key: kind for kind in (POD, *SUBJECTS, *AROUND)}


class Cluster:
    """An API server with everybody's CRDs, and the controller."""

    def __init__(self, api: ApiUnderTest, client: ApiClient) -> None:
        self.api = api
        self._client = client
        self._created: list[str] = []
        install(api, *UPSTREAM)
        api.install_crd(yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader))
        for kind in (*SUBJECTS, *AROUND):
            if self._needs_stand_in(kind):
                api.install_crd(
                    stand_in(kind.group, kind.versions[0], kind.kind, kind.plural, is_namespaced=kind.is_namespaced)
                )
        create_namespace(api, "ml")
        create_service_account(api, "ml", "default")

    def _needs_stand_in(self, kind: Kind) -> bool:
        if not self.api.is_real and kind.group in {"apps", "batch"}:
            return True  # the embedded server leaves Jobs and Deployments out
        return kind.kind in STAND_INS and kind.group != OWN_API

    def fill(self, cause: Cause) -> None:
        """Make the objects of a cause, and let the controller look at them."""
        for document in cause.build().objects:
            self._create(document)
        time = Time()
        reconciler = Reconciler(Wiring(self._client, runtime=time))
        controller = controller_of(self._client, reconciler)
        for _ in range(2):
            controller.once()
            time.seconds += 60.0

    def empty(self) -> None:
        """Remove them: no garbage collector runs here."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        }
        for path in reversed(self._created):
            code, answer = self.api.request("DELETE", path, options)
            assert code == 200, answer
        self._created.clear()

    def _create(self, document: Object) -> None:
        collection = _collection(document)
        if document["kind"] == "Node":
            document = _as_kubelet_has_it(document)
        if document["kind"] == "ClusterTopology":
            del document["status"]  # that is the controller's
        created = self.api.create(collection, document)
        path = f"{collection}/{document['metadata']['name']}"
        self._created.append(path)

        if created.get("spec", {}).get("taints"):
            # A node is tainted until the node controller finds it Ready, and there is none.
            self.api.patch(path, {"spec": {"taints": document["spec"].get("taints")}})
        status = document.get("status")
        if status and created.get("status") != status:
            self.api.patch(f"{path}/status", {"status": status})


def _collection(document: Object) -> str:
    group, _, version = document["apiVersion"].rpartition("/")
    if document["kind"] == "Node":
        return NODES
    if group == "gpu.topology":
        return TOPOLOGIES
    plural = KINDS[group, document["kind"]].plural
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _as_kubelet_has_it(node: Object) -> Object:
    """Without what the API server fills in."""
    ready = condition("Ready", "True", "Test", "")
    spec = {}
    for key in ("unschedulable", "taints"):
        if node["spec"].get(key):
            spec[key] = node["spec"][key]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node["metadata"]["name"],
            "labels": node["metadata"]["labels"],
            "annotations": node["metadata"]["annotations"],
        },
        "spec": spec,
        "status": {
            "allocatable": node["status"]["allocatable"],
            "capacity": node["status"]["capacity"],
            "conditions": [ready],
        },
    }


@pytest.fixture
def cluster(api: ApiUnderTest, clients: Clients) -> Iterator[Cluster]:
    cluster = Cluster(api, clients())
    yield cluster
    cluster.empty()


def test_every_cause_has_the_page_from_files_in_a_running_cluster(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them on one server: to install so many CRDs takes longer than to ask."""
    kubeconfig = str(cluster.api.kubeconfig)
    for cause in CAUSES:
        cluster.fill(cause)
        capsys.readouterr()
        code = main(["explain", cause.subject, "-n", "ml", "--kubeconfig", kubeconfig])
        printed = capsys.readouterr()
        assert printed.out == read_page(f"explain/pages/{cause.name}.txt"), cause.name
        assert printed.err == "", cause.name
        assert code == cause.code, cause.name
        cluster.empty()
