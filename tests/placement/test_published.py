"""The topology that a scheduler reads decides, whatever the ClusterTopology of its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.saved import cluster_topology
from tests.support.workloads import Object, job
from toposcope.api.cluster_topology import read
from toposcope.placement.check import Checked, Checker
from toposcope.snapshot.model import NodeView, Published, Snapshot
from toposcope.topology.levels import Level

if TYPE_CHECKING:
    from collections.abc import Iterable

RACK, HOST, GPUS = "example.com/rack", "kubernetes.io/hostname", "gpu.topology/gpus"
KAI, KUEUE = "topologies.kai.scheduler", "topologies.kueue.x-k8s.io"
BINDING = "clustertopologybindings.grove.io"


def node(name: str, **labels: str) -> NodeView:
    labels = {HOST: name, GPUS: "8", **{key.replace("_", "/"): value for key, value in labels.items() if value}}
    places = {key: number for number, key in enumerate(labels)}
    resources = {"nvidia.com/gpu": 8, "pods": 110}
    return NodeView(name, name, places, tuple(labels.values()), True, True, (), resources, {}, None)


def nodes(rack: str = "r1", key: str = RACK, **more: str) -> tuple[NodeView, ...]:
    return tuple(node(f"n{number}", **{key: rack}, **more) for number in range(2))


def published(kind: str, *keys: str, name: str = "cluster") -> Published:
    group = kind.partition(".")[2]
    levels = [{"nodeLabel": key} for key in keys]
    return Published(
        f"{group}/v1", "Topology", name, tuple(Level("", key) for key in keys), {"spec": {"levels": levels}}
    )


def kai(level: str = RACK) -> Object:
    return job(2, {"kai.scheduler/topology": "cluster", "kai.scheduler/topology-required-placement": level})


def kueue(level: str = RACK) -> Object:
    document = job(2, None, {"kueue.x-k8s.io/podset-required-topology": level})
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    del document["spec"]["template"]["spec"]["schedulerName"]
    return document


def grove() -> Object:
    containers = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]
    pod_spec = {"schedulerName": "kai-scheduler", "containers": containers}
    clique = {"name": "c", "spec": {"replicas": 2, "roleName": "c", "podSpec": pod_spec}}
    constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
    spec = {"template": {"topologyConstraint": constraint, "cliques": [clique]}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "c"}, "spec": spec}


def check(
    document: Object,
    seen: Iterable[NodeView],
    *resources: Published,
    served: dict[str, bool] | None = None,
    documents: tuple[Object, ...] = (),
    **spec: Any,
) -> Checked:
    own = (read(cluster_topology(**spec)),) if spec else ()
    snapshot = Snapshot("test", None, tuple(seen), (), own, resources, served=served or {})
    (checked,) = Checker(snapshot, documents).check(document)
    return checked


RACK_AND_HOST = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": HOST}]
ONLY_HOST = [{"domain": "host", "key": HOST}]


@pytest.mark.parametrize(("document", "kind"), [(kai(HOST), KAI), (kueue(HOST), KUEUE)])
def test_a_level_that_no_node_carries_any_more_keeps_out_everything(document: Object, kind: str) -> None:
    """A Topology stays as it was while somebody holds it: its levels are immutable."""
    bare = nodes(rack="")
    fits = check(document, bare, published(kind, HOST), levels=ONLY_HOST).verdict
    assert fits
    assert fits.kind == "never"  # two pods of 8 GPUs on one host
    verdict = check(document, bare, published(kind, RACK, HOST), levels=ONLY_HOST).verdict
    assert verdict
    assert verdict.kind == "never"
    who = "KAI" if kind == KAI else "Kueue"
    assert verdict.limitation == (
        f"no node carries {RACK}, which Topology cluster has as a level, "
        f"and {who} leaves out every node that lacks a level"
    )


@pytest.mark.parametrize(("document", "kind"), [(kai(), KAI), (kueue(), KUEUE)])
@pytest.mark.parametrize(
    ("seen", "spec"),
    [
        (nodes(gpu_topology=""), {"levels": RACK_AND_HOST}),
        (nodes(), {"levels": RACK_AND_HOST, "nodeSelector": {"matchLabels": {"pool": "other"}}}),
        (nodes(rack="no-topology"), {"levels": RACK_AND_HOST}),
    ],
    ids=["nodes-like-others", "nodes-that-our-selector-leaves-out", "a-placeholder-is-a-value"],
)
def test_every_node_with_the_labels_counts(document: Object, kind: str, seen: Any, spec: Any) -> None:
    checked = check(document, seen, published(kind, RACK, HOST), **spec)
    assert checked.verdict
    assert (checked.errors, checked.verdict.kind) == ((), "fits")


def test_nodes_without_an_agent_count_beside_those_with_one() -> None:
    without = node("bare", **{RACK: "r1", GPUS: ""})
    seen = (node("n0", **{RACK: "r1"}), without)
    for document, kind in ((kai(), KAI), (kueue(), KUEUE)):
        verdict = check(document, seen, published(kind, RACK, HOST), levels=RACK_AND_HOST).verdict
        assert verdict
        assert verdict.kind == "fits"


@pytest.mark.parametrize(
    ("served", "publish", "fix"),
    [
        (True, {}, "ClusterTopology cluster is not published as {kind}; kubectl describe gtopo cluster says why"),
        (True, "Never", "ClusterTopology cluster sets spec.publish.{option}: Never; Auto writes the {resource}"),
        (False, {}, "the cluster does not serve {kind}: is {system} installed?"),
    ],
    ids=["not-published", "never", "not-served"],
)
@pytest.mark.parametrize(
    ("document", "kind", "option", "message"),
    [
        (kai(), KAI, "kai", "Requested topology cluster does not exist"),
        (kueue(), KUEUE, "kueue", "there is no Topology that a ResourceFlavor could name"),
        (grove(), BINDING, "grove", 'ClusterTopologyBinding "cluster" not found'),
    ],
)
def test_without_the_resource_nothing_fits(
    document: Object, kind: str, option: str, message: str, served: bool, publish: Any, fix: str
) -> None:
    spec: dict[str, Any] = {"publish": {option: publish}} if publish else {}
    checked = check(document, nodes(), served={kind: served}, levels=RACK_AND_HOST, **spec)
    (error,) = checked.errors
    resource = "ClusterTopologyBinding" if option == "grove" else "Topology"
    system = {"kai": "KAI", "kueue": "Kueue", "grove": "Grove"}[option]
    assert (error.message, error.fix) == (
        message,
        fix.format(kind=kind, option=option, resource=resource, system=system),
    )
    assert checked.verdict is None


@pytest.mark.parametrize("document", [kai(), kueue(), grove()])
def test_where_nobody_knows_what_is_published_the_cluster_topology_stands_in(document: Object) -> None:
    checked = check(document, nodes(), levels=RACK_AND_HOST)
    assert checked.verdict
    assert checked.verdict.kind == "fits"
    assert checked.reading.workload
    assert checked.reading.workload.notes[-1].endswith(
        " reads is not known: ClusterTopology cluster stands in for what would be published"
    )


def test_the_labels_stand_in_for_everything() -> None:
    rack = "cloud.google.com/gce-topology-subblock"
    checked = check(kueue(rack), nodes(key=rack))
    assert checked.reading.workload
    assert checked.reading.workload.notes[-1] == (
        "which Topology Kueue reads is not known: the hierarchy of the nodes' labels stands in for what would be "
        "published"
    )


def test_a_topology_beside_the_workload_counts_as_applied() -> None:
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "cluster"},
        "spec": {"levels": [{"nodeLabel": RACK, "alias": "shelf"}, {"nodeLabel": HOST}]},
    }
    checked = check(kai("shelf"), nodes(), served={KAI: True}, documents=(topology,))
    assert checked.errors == ()
    assert checked.verdict
    assert checked.verdict.kind == "fits"
