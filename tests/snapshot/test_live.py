import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from tests.snapshot.clusters import names
from tests.support.api import (
    NODES,
    RBAC,
    ApiUnderTest,
    Clients,
    account_token,
    bind,
    create_namespace,
    create_service_account,
    role,
)
from tests.support.paths import CRD
from tests.support.saved import Object, cluster_topology, demo_nodes, pod
from tests.support.slices import NICS, attributes, slice_of
from tests.support.upstream_crds import stand_in
from toposcope.integrations.dra.compute_domains import DRIVER
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import ApiError
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.snapshot.live import ForbiddenError, WantedParts, load_live
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"


def look(client: ApiClient, wanted: WantedParts | None = None) -> Snapshot:
    return load_live(client, "a server", NOW, wanted or WantedParts())


def fill(api: ApiUnderTest) -> None:
    """Three nodes, two pods; what the API server itself fills in is not sent."""
    for node in demo_nodes(most=3, faulty=("gb200-02",)):
        metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        created = api.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "spec": {},
            },
        )
        created["status"] = {
            "allocatable": node["status"]["allocatable"],
            "capacity": node["status"]["capacity"],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        code, answer = api.request("PUT", f"{NODES}/{metadata['name']}/status", created)
        assert code == 200, answer
    create_namespace(api, "train")
    create_service_account(api, "train", "default")
    create_pod(api, "one", "gb200-01")
    create_pod(api, "two", "gb200-03")


def create_pod(api: ApiUnderTest, name: str, node: str) -> None:
    """A pod with three GPUs."""
    document = pod(name, node, 3)
    document["status"] = {}
    api.create("/api/v1/namespaces/train/pods", document)


def test_cluster_is_read_as_it_is(api: ApiUnderTest, clients: Clients) -> None:
    fill(api)
    api.install_crd(yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader))
    api.create(TOPOLOGIES, cluster_topology(required=["rack"]) | {"metadata": {"name": "cluster"}, "status": {}})
    seen = look(clients())
    assert seen.source == "a server"
    assert seen.taken_at == NOW
    assert seen.warnings == ()
    assert names(seen.nodes) == ["gb200-01", "gb200-02", "gb200-03"]
    assert [seen.free_gpus(node) for node in seen.nodes] == [1, 4, 1]
    assert [node.matrix is not None for node in seen.nodes] == [False, True, False]
    scope = select_scope(seen)
    assert scope.name == "cluster"
    assert scope.path == "zone > block > rack > nvlink-domain > host"
    (topology,) = seen.topologies
    assert topology.required == ("rack",)


def test_one_node_with_its_matrix_and_no_pods(api: ApiUnderTest, clients: Clients) -> None:
    fill(api)
    wanted = WantedParts(
        has_pods=False,
        has_published=True,
        node="gb200-03",
        keep_matrix=lambda _name, _not_ok: True,
    )
    seen = look(clients(), wanted)
    (node,) = seen.nodes
    assert node.name == "gb200-03"
    assert node.matrix is not None
    assert seen.pods is None
    assert seen.topologies == ()
    assert seen.published == ()
    assert seen.warnings == ()


def bare_node(name: str) -> Object:
    """A Node of which only the name matters."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
    }


def queue_object(kind: str, name: str, **fields: Any) -> Object:
    """An object of Kueue."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        **fields,
    }


def kept_of_kueue(snapshot: Snapshot) -> set[tuple[str, str, str]]:
    """Kind, name and version of Kueue's objects: of other kinds the server has some of its own."""
    kept = set()
    for document in snapshot.objects:
        version = document["apiVersion"]
        if version.startswith("kueue.x-k8s.io/"):
            kept.add((document["kind"], document["metadata"]["name"], version))
    return kept


def test_other_resources_are_read_where_they_are_served(api: ApiUnderTest, clients: Clients) -> None:
    fill(api)
    wanted = WantedParts(has_pods=False, has_published=True)
    before = look(clients(), wanted)
    assert kept_of_kueue(before) == set()
    assert before.served["limitranges"]
    assert not before.served["localqueues.kueue.x-k8s.io"]

    group = "kueue.x-k8s.io"
    for kind, plural in (("Workload", "workloads"), ("LocalQueue", "localqueues")):
        api.install_crd(stand_in(group, "v1beta2", kind, plural))
    admission = {"clusterQueue": "cq", "podSetAssignments": []}
    queue = queue_object("LocalQueue", "q", spec={"clusterQueue": "cq"})
    waiting = queue_object("Workload", "q", spec={"podSets": []})
    held = queue_object(
        "Workload",
        "held",
        spec={"podSets": []},
        status={"admission": admission},
    )
    path = f"/apis/{group}/v1beta2/namespaces/train"
    api.create(f"{path}/localqueues", queue)
    api.create(f"{path}/workloads", waiting)
    api.create(f"{path}/workloads", held)

    seen = look(clients(), wanted)
    assert seen.warnings == ()
    assert seen.served["workloads.kueue.x-k8s.io"] is True
    assert kept_of_kueue(seen) == {
        ("LocalQueue", "q", f"{group}/v1beta2"),
        ("Workload", "held", f"{group}/v1beta2"),
        ("Workload", "q", f"{group}/v1beta2"),
    }


def test_more_than_a_page(api: ApiUnderTest, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.kube.pages.PAGE_OBJECTS", 2)
    for number in range(5):
        api.create(NODES, bare_node(f"n{number}"))
    progress: list[tuple[str, int]] = []

    def note(what: str, count: int, share: float | None = None) -> None:
        del share
        progress.append((what, count))

    seen = load_live(clients(), "s", NOW, WantedParts(has_pods=False), note)
    assert names(seen.nodes) == ["n0", "n1", "n2", "n3", "n4"]
    assert progress[:5] == [
        ("ClusterTopologies", 0),
        ("nodes", 0),
        ("nodes", 2),
        ("nodes", 4),
        ("nodes", 5),
    ]


@pytest.mark.real_api("the embedded server lets everybody do everything")
def test_forbidden_list_is_a_warning_but_of_nodes_an_error(api: ApiUnderTest) -> None:
    fill(api)
    create_service_account(api, "train", "viewer")
    token = account_token(api, "train", "viewer")
    admin = load(str(api.kubeconfig))
    assert api.ca_file
    tls = admin.tls
    client = ApiClient(ClusterAccess(admin.server, tls, lambda: token, "train"))
    try:
        with pytest.raises(ForbiddenError, match=r"^these credentials cannot list nodes, .* the verb list on nodes "):
            look(client)
        rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
        bind(api, role("see-nodes", rule), "train", "viewer")
        seen = _once_allowed(client)
        more = look(client, WantedParts(has_pods=False, has_published=True))
    finally:
        client.close()
        api.request("DELETE", f"{RBAC}/clusterrolebindings/see-nodes")
        api.request("DELETE", f"{RBAC}/clusterroles/see-nodes")
    assert len(seen.nodes) == 3
    assert seen.pods is None
    topologies, pods = seen.warnings
    assert pods.startswith("these credentials cannot list pods, so free GPUs are unknown; ask an admin for")
    assert "the verb list on pods in all namespaces (the API server: pods is forbidden: User " in pods
    assert topologies.startswith("these credentials cannot list clustertopologies.gpu.topology, so levels")
    assert more.warnings[-2].startswith("these credentials cannot list limitranges, resourcequotas, ")
    assert "so how they change or reject pods is unknown; ask an admin" in more.warnings[-2]
    assert "priorityclasses.scheduling.k8s.io" not in more.served
    # One sentence for all of Kueue's kinds, and a workload's queue counts as not known.
    assert more.warnings[-1].startswith(
        "these credentials cannot list localqueues.kueue.x-k8s.io, clusterqueues.kueue.x-k8s.io, "
    )
    assert "so queues, quota and PodGroups are unknown; ask an admin" in more.warnings[-1]
    assert "localqueues.kueue.x-k8s.io" not in more.served


def _once_allowed(client: ApiClient) -> Snapshot:
    """The authorizer hears of a new binding a moment later; each question is a request, which is pause enough."""
    for _ in range(2000):
        try:
            return look(client)
        except ForbiddenError:
            pass
    pytest.fail("the binding never took effect")


class Answering:
    """An API server that answers lists by their plural, with items or an error; it serves nothing else."""

    namespace = "ml"

    def __init__(self, answers: Mapping[str, list[Object] | ApiError]) -> None:
        self._answers = answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def read(self, request: Request) -> bytes:
        """The whole list, on one page."""
        plural = request.path.rpartition("/")[2]
        found = self._answers.get(plural, ApiError(404, "NotFound", "page not found"))
        if isinstance(found, ApiError):
            raise found
        return json.dumps({"metadata": {}, "items": found}).encode()


def look_at(**answers: list[Object] | ApiError) -> Snapshot:
    """The cluster of an API server with one GPU node and these lists."""
    lists = {"nodes": demo_nodes(of=["h200-1"]), **answers}
    return look(Answering(lists))  # type: ignore[arg-type]  # answers as a client does


def test_pods_that_the_server_cannot_list_are_an_error() -> None:
    broken = ApiError(500, "InternalError", "etcd is gone")
    with pytest.raises(ApiError, match="etcd is gone"):
        look_at(pods=broken)


def test_forbidden_compute_domains_are_missed_where_the_driver_is() -> None:
    daemon = {"name": "daemon-0", "attributes": attributes(type="daemon", id=0)}
    forbidden = ApiError(403, "Forbidden", "no")
    seen = look_at(pods=[], resourceslices=[slice_of("h200-1", DRIVER, [daemon])], computedomains=forbidden)

    assert len(seen.inventory.nodes["h200-1"].devices) == 1
    (warning,) = seen.warnings
    assert warning.startswith(
        "these credentials cannot list computedomains.resource.nvidia.com, "
        "so which ComputeDomains nodes are in is unknown; "
    )


def test_forbidden_compute_domains_are_not_missed_without_the_driver() -> None:
    nic = {"name": "nic-0", "attributes": attributes(k8s__pcieRoot="pci0000:00")}
    forbidden = ApiError(403, "Forbidden", "no")
    seen = look_at(pods=[], resourceslices=[slice_of("h200-1", NICS, [nic])], computedomains=forbidden)

    assert seen.warnings == ()


def test_list_that_outlives_its_page_tokens_begins_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("toposcope.kube.pages.PAGE_OBJECTS", 2)
    with EmbeddedApiServer() as server:
        api = ApiUnderTest.of_embedded(server, tmp_path)
        for number in range(3):
            api.create(NODES, bare_node(f"n{number}"))
        client = ApiClient(load(str(tmp_path / "kubeconfig")))
        pages: list[int] = []

        def expire(what: str, count: int, share: float | None = None) -> None:
            del what, share
            if count == 0:
                return
            pages.append(count)
            if len(pages) == 1:
                api.create(NODES, bare_node("n9"))
                server.faults.expire_history()

        seen = load_live(client, "s", NOW, WantedParts(has_pods=False), expire)
        client.close()
    assert names(seen.nodes) == ["n0", "n1", "n2", "n9"]
    assert pages == [2, 2, 4]
