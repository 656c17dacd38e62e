"""The same causes in a running cluster with the upstream CRDs: the same page as from files."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.explain.causes import CAUSES, Cause
from tests.explain.test_causes import PAGES
from tests.explain.waiting import NOW, Object
from tests.support.api import NODES, ApiUnderTest, Clients, create_namespace, create_service_account
from tests.support.controller import controller_of
from tests.support.paths import CRD
from tests.support.publishing import Time, install
from tests.support.upstream_crds import stand_in
from toposcope.cli.main import main
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.explain.object_store import AROUND, POD, SUBJECTS
from toposcope.kube.client import ApiClient

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
OURS = CRD
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
        self._made: list[str] = []
        install(api, *UPSTREAM)
        api.install_crd(yaml.safe_load(OURS.read_text(encoding="utf-8")))
        for kind in (*SUBJECTS, *AROUND):
            # The embedded server leaves Jobs and Deployments out.
            if (kind.kind in STAND_INS and kind.group != OWN_API) or (
                not api.is_real and kind.group in {"apps", "batch"}
            ):
                api.install_crd(
                    stand_in(kind.group, kind.versions[0], kind.kind, kind.plural, namespaced=kind.namespaced)
                )
        create_namespace(api, "ml")
        create_service_account(api, "ml", "default")

    def fill(self, cause: Cause) -> None:
        """Make the objects of a cause, and let the controller look at them."""
        for document in cause.objects():
            self._make(document)
        time = Time()
        reconciler = Reconciler(Wiring(self._client, runtime=time))
        controller = controller_of(self._client, reconciler)
        for _ in range(2):
            controller.once()
            time.seconds += 60.0

    def empty(self) -> None:
        """Remove them: no garbage collector runs here."""
        for path in reversed(self._made):
            options = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
            }
            code, answer = self.api.request("DELETE", path, options)
            assert code == 200, answer
        self._made.clear()

    def _make(self, document: Object) -> None:
        document = {key: value for key, value in document.items() if value is not None}
        collection = _collection(document)
        if document["kind"] == "Node":
            document = _as_kubelet_has_it(document)
        if document["kind"] == "ClusterTopology":
            del document["status"]  # that is the controller's
        made = self.api.create(collection, document)
        path = f"{collection}/{document['metadata']['name']}"
        self._made.append(path)
        if made.get("spec", {}).get("taints"):
            # A node is tainted until the node controller finds it Ready, and there is none.
            self.api.patch(path, {"spec": {"taints": document["spec"].get("taints")}})
        status = document.get("status")
        if status and made.get("status") != status:
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
    metadata = {key: value for key, value in node["metadata"].items() if key in ("name", "labels", "annotations")}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": NOW}
    spec = {key: node["spec"][key] for key in ("unschedulable", "taints") if node["spec"].get(key)}
    status: dict[str, Any] = {key: node["status"][key] for key in ("allocatable", "capacity")}
    reported = {**status, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": reported}


@pytest.fixture
def cluster(api: ApiUnderTest, clients: Clients) -> Iterator[Cluster]:
    found = Cluster(api, clients())
    yield found
    found.empty()


def test_every_cause(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them on one server: to install so many CRDs takes longer than to ask."""
    kubeconfig = str(cluster.api.kubeconfig)
    for cause in CAUSES:
        cluster.fill(cause)
        capsys.readouterr()
        code = main(["explain", cause.subject, "-n", "ml", "--kubeconfig", kubeconfig])
        printed = capsys.readouterr()
        assert printed.out == (PAGES / f"{cause.name}.txt").read_text(encoding="utf-8"), cause.name
        assert (code, printed.err) == (cause.code, ""), cause.name
        cluster.empty()
