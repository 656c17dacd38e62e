"""Kueue's chain: LocalQueue, ClusterQueue, ResourceFlavors, Topology; quota, and what admitted Workloads hold."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tests.placement.test_published import HOST, RACK, kueue, published
from tests.support.workloads import GPU, Object, jobset, replicated
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.kueue.queues import kept
from toposcope.placement.check import Checked, Checker
from toposcope.snapshot.model import NodeView, PodView, Snapshot

KUEUE = "kueue.x-k8s.io/v1beta2"
TOPOLOGY = published("topologies.kueue.x-k8s.io", RACK, HOST, name="t")
SERVED = {"topologies.kueue.x-k8s.io": True}


def node(name: str, *taints: Taint, memory: int = 64, **labels: str) -> NodeView:
    labels = {HOST: name, "pool": "a", **{RACK if key == "rack" else key: value for key, value in labels.items()}}
    places = {key: number for number, key in enumerate(labels)}
    resources = {GPU: 8, "cpu": 64000, "memory": memory << 30, "pods": 110}
    return NodeView(name, name, places, tuple(labels.values()), True, True, taints, resources, {}, None)


NODES = tuple(node(f"n{number}", rack="r1") for number in range(2))


def made(kind: str, name: str, spec: Object, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec, **more}


def flavor(name: str = "f", topology: str | None = "t", **spec: Any) -> Object:
    return made(
        "ResourceFlavor",
        name,
        {"nodeLabels": {"pool": "a"}, **({"topologyName": topology} if topology else {}), **spec},
    )


def cluster_queue(
    *flavors: str, gpus: int = 100, name: str = "cq", limits: Object | None = None, **spec: Any
) -> Object:
    entries = [
        {
            "name": one,
            "resources": [
                {"name": GPU, "nominalQuota": str(gpus), **(limits or {})},
                {"name": "memory", "nominalQuota": "1Ti"},
            ],
        }
        for one in flavors or ("f",)
    ]
    group = {"coveredResources": [GPU, "memory"], "flavors": entries}
    return made("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})


QUEUE = made("LocalQueue", "queue", {"clusterQueue": "cq"}, "ml")


def chain(*objects: Object) -> tuple[Object, ...]:
    """A whole chain, some of it replaced."""
    whole = {(one["kind"], one["metadata"]["name"]): one for one in (QUEUE, cluster_queue(), flavor(), *objects)}
    return tuple(whole.values())


def check(
    document: Object, objects: tuple[Object, ...] = (), nodes: Any = NODES, pods: tuple[PodView, ...] = (), **more: Any
) -> Checked:
    read = tuple(one for document in objects or chain() if (one := kept(document)))
    snapshot = Snapshot("test", None, tuple(nodes), pods, (), (TOPOLOGY,), served=SERVED, objects=read)
    (checked,) = Checker(snapshot, **more).check(document)
    return checked


def kind(checked: Checked) -> str:
    assert checked.errors == ()
    assert checked.verdict
    return checked.verdict.kind


def without_level(pods: int = 2) -> Object:
    document = kueue()
    document["spec"] |= {"parallelism": pods, "completions": pods}
    document["spec"]["template"]["metadata"]["annotations"] = {}
    return document


GPU_TAINT = Taint(GPU, "present", "NoSchedule")
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
NODE_TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("flavors", "nodes", "expected"),
    [
        ([flavor()], NODES, "fits"),
        ([flavor(nodeLabels={"pool": "b"})], NODES, "never"),
        ([flavor()], [node("n0", GPU_TAINT, rack="r1"), node("n1", GPU_TAINT, rack="r1")], "never"),
        (
            [flavor(tolerations=[TOLERATION])],
            [node("n0", GPU_TAINT, rack="r1"), node("n1", GPU_TAINT, rack="r1")],
            "fits",
        ),
        ([flavor(nodeTaints=[NODE_TAINT])], NODES, "never"),
        ([flavor(nodeTaints=[NODE_TAINT], tolerations=[{"operator": "Exists"}])], NODES, "fits"),
        ([flavor("full", nodeLabels={"pool": "b"}), flavor()], NODES, "fits"),
        ([flavor()], [node("n0", rack="r1"), node("n1", rack="r2")], "never"),
    ],
    ids=["fits", "node-labels", "taint", "toleration", "node-taint", "tolerated", "the-second-flavor", "two-racks"],
)
def test_the_flavor_decides_on_the_nodes(flavors: list[Object], nodes: Any, expected: str) -> None:
    names = [one["metadata"]["name"] for one in flavors]
    assert kind(check(kueue(), chain(cluster_queue(*names), *flavors), nodes)) == expected


STOPPED = "its spec.stopPolicy says so; None starts it again"


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([made("LocalQueue", "queue", {"clusterQueue": "cq"}, "other")], "LocalQueue queue doesn't exist"),
        ([made("LocalQueue", "queue", {"clusterQueue": "no"}, "ml")], "ClusterQueue no doesn't exist"),
        (
            [made("LocalQueue", "queue", {"clusterQueue": "cq", "stopPolicy": "Hold"}, "ml")],
            "LocalQueue queue is stopped",
        ),
        ([cluster_queue(stopPolicy="HoldAndDrain")], "ClusterQueue cq is stopped"),
        ([cluster_queue("f", "g")], "ClusterQueue cq is inactive: references missing ResourceFlavor(s): g"),
        ([flavor(topology="no")], 'ClusterQueue cq is inactive: there is no Topology "no" for TAS flavor "f"'),
        (
            [cluster_queue(namespaceSelector=None)],
            "the namespace ml doesn't match the namespaceSelector of ClusterQueue cq",
        ),
        (
            [cluster_queue(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}})],
            "the namespace ml doesn't match the namespaceSelector of ClusterQueue cq",
        ),
    ],
)
def test_a_chain_that_is_broken(objects: list[Object], message: str) -> None:
    checked = check(kueue(), chain(*objects))
    (error,) = checked.errors
    assert (error.message, checked.verdict) == (message, None)
    assert error.field == "metadata.labels[kueue.x-k8s.io/queue-name]"
    assert error.fix


def test_the_level_that_the_flavor_lacks_in_kueues_words() -> None:
    (error,) = check(kueue("example.com/shelf")).errors
    assert (error.rule, error.message) == ("kueue/level-exists", 'Flavor "f" does not contain the requested level')
    (error,) = check(kueue(), chain(flavor(topology=None))).errors
    assert (error.rule, error.message) == (
        "kueue/flavor-topology",
        'Flavor "f" does not support TopologyAwareScheduling',
    )


def admitted(
    name: str, gpus: int, assignment: Object | None = None, pods: int = 2, queue: str = "cq", **more: Any
) -> Object:
    template = {"spec": {"containers": [{"resources": {"requests": {GPU: str(gpus // pods)}}}]}}
    pod_set = {"name": "main", "count": pods, "template": template}
    admission = {
        "clusterQueue": queue,
        "podSetAssignments": [
            {"name": "main", "count": pods, "flavors": {GPU: "f"}, "resourceUsage": {GPU: str(gpus)}}
            | ({"topologyAssignment": assignment} if assignment else {})
        ],
    }
    return made("Workload", name, {"podSets": [pod_set]}, "ml", status={"admission": admission, **more})


LENDER = cluster_queue(gpus=8, name="lender", cohortName="c")
AT_MOST = "ClusterQueue cq has a quota of at most 15 nvidia.com/gpu in flavor f, 16 nvidia.com/gpu requested"
LEFT = "ClusterQueue cq has a quota of 8 nvidia.com/gpu left in flavor f, 16 nvidia.com/gpu requested"


@pytest.mark.parametrize(
    ("objects", "expected", "why"),
    [
        ([cluster_queue(gpus=16)], "fits", ""),
        ([cluster_queue(gpus=15)], "never", AT_MOST),
        ([cluster_queue(gpus=24), admitted("w", 16)], "full", LEFT),
        ([cluster_queue(gpus=24), admitted("w", 16, reclaimablePods=[{"name": "main", "count": 1}])], "fits", ""),
        ([cluster_queue(gpus=8, cohortName="c"), LENDER], "fits", ""),
        ([cluster_queue(gpus=8, cohort="c"), LENDER, admitted("w", 8, queue="lender")], "full", ""),
        ([cluster_queue(gpus=8, cohortName="c", limits={"borrowingLimit": 4}), LENDER], "never", ""),
        (
            [
                cluster_queue(gpus=8, cohortName="c"),
                cluster_queue(gpus=8, name="lender", cohortName="c", limits={"lendingLimit": 4}),
            ],
            "never",
            "",
        ),
        (
            [
                cluster_queue(gpus=8, cohortName="c"),
                made("Cohort", "c", {"parentName": "top"}),
                made("Cohort", "top", cluster_queue(gpus=8)["spec"]),
            ],
            "fits",
            "",
        ),
    ],
    ids=["enough", "never", "used", "reclaimed", "borrows", "lent", "borrowing-limit", "lending-limit", "cohort-above"],
)
def test_quota(objects: list[Object], expected: str, why: str) -> None:
    checked = check(kueue(), chain(*objects))
    assert kind(checked) == expected
    assert checked.verdict
    assert not why or checked.verdict.limitation == why


def test_quota_as_the_queue_reports_it_where_workloads_are_not_known() -> None:
    used = {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "90"}]}]}
    assert kind(check(kueue(), chain(cluster_queue() | {"status": used}))) == "full"


OF_ONE_NODE = {"levels": [HOST], "domains": [{"values": ["n0"], "count": 2}]}
COMPRESSED = {
    "levels": [HOST],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["0", "1"]}}],
            "podCounts": {"individual": [1, 1]},
        }
    ],
}


@pytest.mark.parametrize("assignment", [OF_ONE_NODE, COMPRESSED])
def test_admitted_workloads_hold_their_room(assignment: Object) -> None:
    holder = admitted("w", 8, assignment)
    assert kind(check(kueue(), chain(holder))) == "full"
    # Pods that have their nodes are counted there, and not again.
    small = without_level(1)
    small["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = "4"
    pods = tuple(
        PodView("ml", f"p{number}", f"n{number if assignment is COMPRESSED else 0}", "Running", {GPU: 4}, None,
                {"kueue.x-k8s.io/podset": "main"}, {"kueue.x-k8s.io/workload": "w"}, "default-scheduler", "")
        for number in range(2)
    )  # fmt: skip
    assert kind(check(small, chain(holder), pods=pods)) == "fits"
    own = {**holder, "metadata": {**holder["metadata"], "ownerReferences": [{"kind": "Job", "name": "train"}]}}
    assert kind(check(kueue(), chain(own))) == "fits"


def test_defaults_of_the_namespace_count() -> None:
    limits = [{"type": "Container", "defaultRequest": {"memory": "40Gi"}}]
    ranges = {**made("LimitRange", "r", {"limits": limits}, "ml"), "apiVersion": "v1"}
    document = kueue()
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "4"}}
    document["spec"] |= {"parallelism": 4, "completions": 4}
    assert kind(check(document)) == "fits"
    assert kind(check(document, chain(ranges))) == "never"  # one pod on each of two nodes of 64 GiB
    elsewhere = {**ranges, "metadata": {"name": "r", "namespace": "other"}}
    assert kind(check(document, chain(elsewhere))) == "fits"


def test_a_queue_of_topologies_leaves_out_nodes_without_levels() -> None:
    bare = [node("n0", rack="r1"), node("n1")]
    assert kind(check(without_level(), nodes=bare)) == "never"
    assert kind(check(without_level(1), nodes=bare)) == "fits"
    # Without a topology Kueue leaves the nodes to kube-scheduler.
    assert kind(check(without_level(), chain(flavor(topology=None)), nodes=bare)) == "fits"


def test_fewer_pods_where_the_workload_allows() -> None:
    document = kueue()
    document["spec"] |= {"parallelism": 4, "completions": 4}
    assert kind(check(document)) == "never"
    document["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    checked = check(document)
    assert kind(checked) == "fits"
    assert checked.reading.workload
    assert (
        "admitted with 2 of 4 pods: the workload allows fewer (job-min-parallelism)" in checked.reading.workload.notes
    )
    document["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "4"}
    (error,) = check(document).errors
    assert (error.rule, error.message) == ("kueue/min-parallelism", "should be between 0 and 3")


def test_less_than_a_slice_is_never_admitted() -> None:
    document = kueue()
    document["spec"] |= {"parallelism": 8, "completions": 8}
    document["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    on_pods = document["spec"]["template"]["metadata"]["annotations"]
    on_pods |= {"kueue.x-k8s.io/podset-slice-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "4"}
    checked = check(document)
    assert kind(checked) == "never"
    assert checked.verdict
    assert "less than a slice" in checked.verdict.limitation


def test_slices_that_do_not_divide() -> None:
    document = kueue()
    document["spec"] |= {"parallelism": 3, "completions": 3}
    on_pods = document["spec"]["template"]["metadata"]["annotations"]
    on_pods |= {"kueue.x-k8s.io/podset-slice-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "2"}
    checked = check(document)
    (warning,) = checked.reading.findings
    assert (warning.rule, warning.severity, kind(checked)) == ("kueue/slice-remainder", "warning", "fits")
    assert warning.message == "3 pods are no multiple of the slice size 2: Kueue 0.19 assigns nodes to 2 of them"


def test_a_leader_goes_where_its_workers_may() -> None:
    together = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-group-name": "g"}
    document = jobset(
        replicated("leader", 1, 1, on_pods=dict(together)), replicated("workers", 1, 2, on_pods=dict(together))
    )
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "b"}
    (warning,) = check(document).reading.findings
    assert (warning.rule, warning.severity) == ("kueue/leader-nodes", "warning")
    assert warning.field == "spec.replicatedJobs[0].template.spec.template.spec"


def test_several_copies_are_admitted_one_after_the_other() -> None:
    deployment = {**kueue(), "apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["spec"] = {"replicas": 2, "template": without_level()["spec"]["template"]}
    assert kind(check(deployment, chain(cluster_queue(gpus=16)))) == "fits"
    checked = check(deployment, chain(cluster_queue(gpus=8)))
    assert checked.verdict
    assert checked.verdict.limitation.startswith("after 1 of 2 copies: ClusterQueue cq has a quota of at most 8")


def test_a_chain_beside_the_workload_counts_as_applied() -> None:
    assert kind(check(kueue(), (made("Cohort", "other", {}),), documents=chain())) == "fits"
    (error,) = check(kueue(), (made("Cohort", "other", {}),), documents=chain(cluster_queue(stopPolicy="Hold"))).errors
    assert error.message == "ClusterQueue cq is stopped"


def test_what_is_not_checked_is_said() -> None:
    selector = {"matchLabels": {"team": "x"}}
    queue = cluster_queue(
        namespaceSelector=selector, admissionChecks=["prov"], preemption={"withinClusterQueue": "LowerPriority"}
    )
    workload = check(kueue(), chain(queue, admitted("w", 8))).reading.workload
    assert workload
    assert workload.notes == (
        "whether the labels of namespace ml match the ClusterQueue's selector is not checked",
        "ClusterQueue cq has admission checks, which decide after the quota and are not looked at",
        "the ClusterQueue preempts: where room or quota lacks, Kueue may evict workloads of lower priority for it",
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (made("Topology", "t", {"levels": [{"nodelabel": RACK}]}), "spec.levels[0].nodelabel"),
        (made("ResourceFlavor", "f", {"nodeLabels": {"a": "b"}, "topology": "t"}), "spec.topology"),
        (
            made("Workload", "w", {"podSets": [{"name": "main", "topologyRequest": {"require": RACK}}]}, "ml"),
            "spec.podSets[0].topologyRequest.require",
        ),
    ],
)
def test_fields_that_the_schema_lacks(document: Object, field: str) -> None:
    errors = [finding for finding in check(document).errors if finding.rule == "kueue/field"]
    assert [(error.field, error.message) for error in errors] == [(field, f'unknown field "{field}"')]


def test_many_copies_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out of the trial for time still counts against the quota, and needs room."""
    monkeypatch.setattr("toposcope.integrations.kueue.scheduling._MOST_EVALUATIONS", 1)
    deployment = {**kueue(), "apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["spec"] = {"replicas": 2, "template": without_level()["spec"]["template"]}
    assert kind(check(deployment)) == "fits"
    assert kind(check(deployment, chain(cluster_queue(gpus=8)))) == "never"
    deployment["spec"]["replicas"] = 3
    assert kind(check(deployment)) == "never"  # two nodes


def test_a_queue_called_default_takes_what_names_none() -> None:
    document = kueue()
    document["metadata"]["labels"] = {}
    assert [finding.rule for finding in check(document).reading.findings] == ["kueue/queue-name"]
    default = made("LocalQueue", "default", {"clusterQueue": "cq"}, "ml")
    checked = check(document, chain(default, cluster_queue(gpus=8)))
    assert checked.reading.findings == ()
    assert kind(checked) == "never"


def test_a_topology_above_the_nodes_is_said_to_be_coarse() -> None:
    racks = published("topologies.kueue.x-k8s.io", RACK, name="t")
    snapshot = Snapshot("test", None, NODES, (), (), (racks,), served=SERVED, objects=chain())
    document = kueue()
    document["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    (checked,) = Checker(snapshot).check(document)
    assert checked.verdict
    assert checked.verdict.kind == "never"
    assert checked.reading.workload
    assert checked.reading.workload.notes[-1].startswith("Topology t ends above the nodes: Kueue 0.19 takes each")


def test_a_queue_without_flavors_admits_nothing() -> None:
    empty = cluster_queue(resourceGroups=[])
    (error,) = check(kueue(), chain(empty)).errors
    assert error.message == "ClusterQueue cq has no flavor"
    checked = check(without_level(), chain(empty))
    assert kind(checked) == "never"
    assert checked.verdict
    assert checked.verdict.limitation == f"ClusterQueue cq has no quota of {GPU}"


JUNK: tuple[Any, ...] = (None, [], {}, "", "x", 7, -1, True, 1.5, [None], {"a": None}, "9" * 30, [{}])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, key) for key, _ in inner] + [place for _, below in inner for place in places(below)]


@pytest.mark.parametrize("seed", range(20))
def test_malformed_objects_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    preempts = {"withinClusterQueue": "Any"}
    queue = cluster_queue(cohortName="c", admissionChecks=["x"], preemption=preempts)
    cohort = made("Cohort", "c", {"parentName": "d"})
    whole = chain(queue, cohort, flavor(nodeTaints=[NODE_TAINT], tolerations=[TOLERATION]))
    holders = (admitted("w", 8, OF_ONE_NODE), admitted("v", 8, reclaimablePods=[{"name": "main", "count": 1}]))
    for _ in range(20):
        objects = copy.deepcopy([*whole, *holders, kueue()])
        for document in rng.sample(objects, 3):
            for _ in range(rng.randint(1, 3)):
                container, key = rng.choice(places(document))
                container[key] = copy.deepcopy(rng.choice(JUNK))
        *others, document = objects
        read = tuple(one for other in others if (one := kept(other)))
        snapshot = Snapshot("test", None, NODES, (), (), (TOPOLOGY,), served=SERVED, objects=read)
        assert len(Checker(snapshot, others).check(document)) <= 2
