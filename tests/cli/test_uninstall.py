"""`toposcope uninstall` on a cluster where everything has been written, among things of others."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.api import MERGE, NODES, ApiUnderTest, Clients, create_namespace, node
from tests.support.bound_pods import share_node_paths
from tests.support.controller import make_topology, share_crd
from tests.support.publishing import KAI, Time, finalizer, found
from tests.support.upstream_crds import upstream_crd
from toposcope.cli.removal import Remover, WaitTimeoutError, find_all
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.listing import everything
from toposcope.kube.runtime import Event

pytestmark = pytest.mark.slow

TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
HOME = "/namespaces/toposcope-system"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
AGENTS, CONTROLLERS = f"/apis/apps/v1{HOME}/daemonsets", f"/apis/apps/v1{HOME}/deployments"
PLANS = f"/api/v1{HOME}/configmaps"
PATHS = f"/apis/gpu.topology/v1alpha1{HOME}/nodepaths"
PODS, OURS = f"/api/v1{HOME}/pods", {"app.kubernetes.io/name": "toposcope"}
FOREIGN_LABELS = {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.count": "8", "x.gpu.topology/a": "b"}
CREATED = {"example.com/note": "keep"}
THEIRS = {"n1": {"example.com/applied": "keep"}, "n2": {"topology.slinky.slurm.net/spec": "by:hand"}}
PROGRAMS_LEFT: dict[str, Any] = {AGENTS: ["somebody-elses"], CONTROLLERS: []}
STOPPED = ("stop    daemonset.apps/east-toposcope-agent", "stop    deployment.apps/toposcope-controller")
LAST = (
    "to remove the rest: kubectl delete --ignore-not-found -k manifests/base (or your overlay), "
    "or helm uninstall toposcope\n"
)


def program(kind: str, name: str) -> dict[str, Any]:
    """An agent or controller; an overlay gives other names, and keeps the labels."""
    component = name.rpartition("-")[2]
    labels = {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": component}
    container = {"name": "main", "image": "example.invalid/a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def theirs(path: str, name: str, level: dict[str, str]) -> dict[str, Any]:
    """An object of a published kind that somebody made by hand."""
    api_version, _, plural = path.removeprefix("/apis/").rpartition("/")
    kinds = {"topologies": "Topology", "clustertopologybindings": "ClusterTopologyBinding"}
    return {
        "apiVersion": api_version,
        "kind": kinds[plural],
        "metadata": {"name": name},
        "spec": {"levels": [level]},
    }


@pytest.fixture
def cluster(api: ApiUnderTest, toposcope: Command) -> ApiUnderTest:
    """Two agents and a controller have written; things of others lie beside."""
    share_crd(api)
    share_node_paths(api)
    for crd in ("kueue-topologies-v0.19", "kueue-resourceflavors-v0.19", "kai-topologies-v0.17"):
        api.share_crd(upstream_crd(crd))
    create_namespace(api, "toposcope-system")
    if api.is_real:  # the embedded one keeps no programs
        api.create(AGENTS, program("DaemonSet", "east-toposcope-agent"))
        api.create(AGENTS, program("DaemonSet", "somebody-elses"))
        api.create(CONTROLLERS, program("Deployment", "toposcope-controller"))

    to_it = ("--kubeconfig", api.kubeconfig)
    for name in ("n1", "n2"):
        path = f"{NODES}/{name}"
        labels = {**FOREIGN_LABELS, "kubernetes.io/hostname": name}
        api.create(NODES, node(name, labels=labels, annotations=CREATED))
        annotated = node(name, annotations=THEIRS[name])
        code, answer = api.apply(path, annotated, "by-hand")
        assert code == 200, answer
        toposcope(f"agent --once --nvidia-labels --profile dgx-h200 --node-name {name}", *to_it)
    api.create(NODES, node("cpu-1"))
    make_topology(api, "c", publish={"slinky": "Auto"})
    host = {"nodeLabel": "kubernetes.io/hostname"}
    api.create(KUEUE, theirs(KUEUE, "by-hand", host))
    api.create(KAI, theirs(KAI, "by-hand", host))
    toposcope("controller --once --node-paths", *to_it)
    for name in ("n1", "n2"):
        toposcope(f"agent --once --nvidia-labels --slinky --profile dgx-h200 --node-name {name}", *to_it)

    annotations = api.get(f"{NODES}/n1")["metadata"]["annotations"]
    assert "topology.slinky.slurm.net/spec" in annotations
    assert found(api, f"{KUEUE}/c")
    assert found(api, f"{KAI}/c")
    return api


@pytest.fixture
def uninstall(api: ApiUnderTest, toposcope: Command) -> Command:
    return partial(toposcope, "uninstall --kubeconfig", api.kubeconfig)


class Sleeping(Time):
    """Time passes while somebody waits."""

    def event(self) -> Event:
        return Passing(self)


class Passing(threading.Event):
    """Never set: who waits for it sleeps."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self._time = time

    def wait(self, timeout: float | None = None) -> bool:
        self._time.seconds += timeout or 0.0
        return False


def remover(client: ApiClient, time: Time) -> Remover:
    """One that waits for three seconds of this time."""
    return Remover(client, lambda _: None, 3.0, time)


def state(api: ApiUnderTest) -> dict[str, Any]:
    """All that matters here, by path: names, and each Node's labels and annotations."""
    collections = [KUEUE, KAI, TOPOLOGIES]
    if api.is_real:
        collections += [AGENTS, CONTROLLERS]
    found: dict[str, Any] = {}
    for path in collections:
        found[path] = [item["metadata"]["name"] for item in api.get(path)["items"]]
    for item in api.get(NODES)["items"]:
        metadata = item["metadata"]
        found[metadata["name"]] = (metadata.get("labels"), metadata.get("annotations"))
    return found


def test_cluster_without_toposcope_has_nothing_to_remove(uninstall: Command) -> None:
    assert "nothing to remove" in uninstall().out


def test_plan_is_shown_and_nothing_changes_without_yes(cluster: ApiUnderTest, uninstall: Command) -> None:
    before = state(cluster)
    lines = uninstall().out.splitlines()
    assert state(cluster) == before
    assert lines[0] == f"cluster {cluster.url}"
    assert lines[1:-2] == [
        *(STOPPED if cluster.is_real else ()),
        "delete  topology.kai.scheduler/c",
        "delete  topology.kueue.x-k8s.io/c",
        "delete  clustertopology.gpu.topology/c",
        "delete  configmap/toposcope-node-plan",
        "delete  nodepaths.gpu.topology/toposcope-node-paths",
    ]
    assert lines[-2].startswith("clean   2 nodes of ")
    assert lines[-1] == "nothing was changed; to remove it, add --yes"


def test_all_of_ours_goes_and_nothing_else(cluster: ApiUnderTest, uninstall: Command) -> None:
    assert uninstall("--yes").out.endswith(LAST)
    left = {
        name: ({**FOREIGN_LABELS, "kubernetes.io/hostname": name}, {**CREATED, **annotations})
        for name, annotations in THEIRS.items()
    }
    assert state(cluster) == {
        **(PROGRAMS_LEFT if cluster.is_real else {}),
        KUEUE: ["by-hand"],
        KAI: ["by-hand"],
        TOPOLOGIES: [],
        "cpu-1": (None, None),
        **left,
    }
    assert uninstall("--yes").out == f"cluster {cluster.url}\nnothing to remove; {LAST}"


def test_nothing_goes_while_a_flavor_holds_a_topology(cluster: ApiUnderTest, uninstall: Command) -> None:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "h200"},
        "spec": {"nodeLabels": {"a": "b"}, "topologyName": "c"},
    }
    cluster.create(FLAVORS, flavor)
    before = state(cluster)
    ran = uninstall("--yes", code=1)
    assert state(cluster) == before
    assert "delete  topology.kueue.x-k8s.io/c\n        ! in use by ResourceFlavor h200\n" in ran.out
    assert ran.err.startswith("toposcope uninstall: something is in use: see above")


def test_levels_that_workloads_require_are_shown(cluster: ApiUnderTest, uninstall: Command) -> None:
    required = {"domain": "rack", "workloads": 3}
    status = {"status": {"requiredBy": [required]}}
    code, answer = cluster.request("PATCH", f"{TOPOLOGIES}/c/status", status, content_type=MERGE)
    assert code == 200, answer
    ran = uninstall()
    assert "! workloads require levels of it: rack (3)" in ran.out


def test_programs_are_gone_before_anything_else_goes(cluster: ApiUnderTest, clients: Clients) -> None:
    sent: list[str] = []

    class RecordingClient(ApiClient):
        def _about_to_send(self, request: Request) -> None:
            if request.method != "GET":
                sent.append(request.path.rpartition("/")[0])

    client = clients()
    client.__class__ = RecordingClient
    remover(client, Sleeping()).carry_out(find_all(client))
    programs = PROGRAMS_LEFT if cluster.is_real else ()
    assert list(dict.fromkeys(sent)) == [*programs, KAI, KUEUE, TOPOLOGIES, PLANS, PATHS, NODES]


def create_pod(api: ApiUnderTest, name: str, labels: dict[str, str]) -> None:
    """A pod of the home namespace."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    if api.is_real:  # admission wants it, and the embedded one has none
        code, _ = api.request("POST", f"/api/v1{HOME}/serviceaccounts", account)
        assert code in {201, 409}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/a"}]},
    }
    api.create(PODS, document)


@pytest.mark.parametrize("component", ["agent", "controller"])
def test_pods_that_still_run_end_it_before_labels_go(cluster: ApiUnderTest, clients: Clients, component: str) -> None:
    create_pod(cluster, "running", OURS | {"app.kubernetes.io/component": component})
    time, client = Sleeping(), clients()
    before = state(cluster)
    with pytest.raises(WaitTimeoutError, match="pods of Toposcope are still running") as caught:
        remover(client, time).carry_out(find_all(client))
    assert "kubectl get pods -n toposcope-system" in str(caught.value)
    assert time.seconds == 3.0
    assert state(cluster) == before | (PROGRAMS_LEFT if cluster.is_real else {})
    cluster.request("DELETE", f"{PODS}/running?gracePeriodSeconds=0")
    remover(client, time).carry_out(find_all(client))
    assert find_all(client).is_empty


@pytest.mark.regression
def test_pods_that_write_nothing_do_not_hold_it_back(cluster: ApiUnderTest, clients: Clients) -> None:
    """The page, and what others run under the same name."""
    create_pod(cluster, "page", OURS | {"app.kubernetes.io/component": "ui"})
    create_pod(cluster, "theirs", OURS | {"app.kubernetes.io/component": "backup"})
    create_pod(cluster, "bare", OURS)
    create_pod(cluster, "other", {"app.kubernetes.io/name": "other", "app.kubernetes.io/component": "agent"})
    time, client = Sleeping(), clients()
    remover(client, time).carry_out(find_all(client))
    assert time.seconds == 0.0
    assert find_all(client).is_empty


def test_object_with_a_new_holder_is_reported_by_finalizer(cluster: ApiUnderTest, clients: Clients) -> None:
    time, client = Sleeping(), clients()
    plan = find_all(client)
    with (
        finalizer(cluster, f"{KAI}/c", "example.com/hold"),
        pytest.raises(WaitTimeoutError, match=r"kai\.scheduler/c is being deleted but still exists; .*example\.com"),
    ):
        remover(client, time).carry_out(plan)


def test_object_that_comes_back_is_reported(
    cluster: ApiUnderTest, uninstall: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = Remover.carry_out

    def and_an_agent_writes(self: Remover, plan: Any) -> None:
        carry_out(self, plan)
        cluster.patch(f"{NODES}/cpu-1", {"metadata": {"labels": {"gpu.topology/gpus": "8"}}})

    monkeypatch.setattr(Remover, "carry_out", and_an_agent_writes)
    ran = uninstall("--yes", code=1)
    assert "it came back:\nclean   1 node of 1 label or annotation\n" in ran.out
    assert "Argo CD" in ran.err


def test_no_answer_is_no_success(tmp_path: Path, toposcope: Command) -> None:
    kubeconfig = tmp_path / "none"
    ran = toposcope(f"uninstall --kubeconfig {kubeconfig}", code=2)
    assert str(kubeconfig) in ran.err


def test_long_list_is_read_page_by_page(api: ApiUnderTest, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.kube.pages.PAGE_OBJECTS", 2)
    for number in range(5):
        parity = str(number % 2)
        api.create(NODES, node(f"n{number}", labels={"odd": parity}))
    client = clients()
    nodes = everything(client, NODES)
    names = [found["metadata"]["name"] for found in nodes]
    assert names == ["n0", "n1", "n2", "n3", "n4"]
    odd_nodes = everything(client, NODES, selector="odd=1")
    odd_names = [found["metadata"]["name"] for found in odd_nodes]
    assert odd_names == ["n1", "n3"]
