"""Kueue's annotations and Workloads: each rule with one that keeps it and one that breaks it, in Kueue's own words."""

import json
from typing import Any

import pytest

from tests.support.workloads import (
    GPU,
    HOST,
    KNOWN,
    LEVELS,
    RACK,
    ZONE,
    Object,
    accepted,
    jobset,
    leader_worker_set,
    replicated,
    reported,
    template,
    understood,
    workload,
)
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.kueue.workload import FLAVORS_UNKNOWN
from toposcope.integrations.kueue.workload import SYSTEM as KUEUE_SYSTEM
from toposcope.topology.levels import Level

PREFIX = "kueue.x-k8s.io/"
REQUIRED = PREFIX + "podset-required-topology"
PREFERRED = PREFIX + "podset-preferred-topology"
UNCONSTRAINED = PREFIX + "podset-unconstrained-topology"
SLICE = PREFIX + "podset-slice-required-topology"
SIZE = PREFIX + "podset-slice-size"
LAYERS = PREFIX + "podset-slice-required-topology-constraints"
GROUP = PREFIX + "podset-group-name"
QUEUE = {PREFIX + "queue-name": "gpus"}
ON_PODS = "spec.template.metadata.annotations"


def job(annotations: Object, pods: int = 8, **labels: str) -> Object:
    spec = {"parallelism": pods, "template": template(8, annotations)}
    return workload("batch/v1", "Job", spec, None, **(labels or QUEUE))


def queued(document: Object) -> Object:
    document["metadata"]["labels"] = QUEUE
    return document


def layers(*entries: tuple[str, int]) -> str:
    return json.dumps([{"topology": topology, "size": size} for topology, size in entries])


def read(document: Object, known: ClusterFacts = KNOWN) -> Reading:
    assert KUEUE_SYSTEM.claims(document)
    return KUEUE_SYSTEM.read(document, known)


def tree(document: Object) -> Group:
    workload = accepted(read(document))
    assert workload.placeable
    return workload.groups[0]


@pytest.mark.parametrize(
    ("annotations", "required", "preferred"),
    [({REQUIRED: RACK.key}, RACK, None), ({PREFERRED: RACK.key}, None, RACK), ({UNCONSTRAINED: "true"}, None, None)],
)
def test_a_pod_set_as_a_whole(annotations: Object, required: Any, preferred: Any) -> None:
    (pod_set,) = tree(job(annotations)).groups
    assert (pod_set.required, pod_set.preferred, pod_set.total()) == (required, preferred, {"pods": 8, GPU: 64})


def test_slices() -> None:
    (pod_set,) = tree(job({REQUIRED: ZONE.key, SLICE: RACK.key, SIZE: "4"})).groups
    assert (pod_set.required, pod_set.pods) == (ZONE, ())
    assert [(group.copies, group.required, group.total()["pods"]) for group in pod_set.groups] == [(2, RACK, 4)]


def test_slices_within_slices() -> None:
    (pod_set,) = tree(job({LAYERS: layers((ZONE.key, 8), (RACK.key, 4), (HOST.key, 2))}, 16)).groups
    (zone,) = pod_set.groups
    assert (zone.copies, zone.required) == (2, ZONE)
    (rack,) = zone.groups
    assert (rack.copies, rack.required) == (2, RACK)
    (host,) = rack.groups
    assert (host.copies, host.required, host.total()["pods"]) == (2, HOST, 2)
    assert pod_set.total()["pods"] == 16


def test_all_jobs_of_a_kind_are_one_pod_set() -> None:
    on_pods = {REQUIRED: ZONE.key, SLICE: RACK.key, SIZE: "4"}
    (workers,) = tree(queued(jobset(replicated("workers", 3, 4, on_pods=on_pods)))).groups
    assert (workers.required, workers.total()["pods"]) == (ZONE, 12)
    assert [(group.copies, group.required) for group in workers.groups] == [(3, RACK)]


def test_leader_and_workers_in_one_domain() -> None:
    together = {REQUIRED: RACK.key, GROUP: "one"}
    document = queued(leader_worker_set(3, 5, None, together))
    document["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["annotations"] = together
    group = tree(document)
    assert group.copies == 3
    (pair,) = group.groups
    assert (pair.name, pair.required) == ("pod set group one", RACK)
    assert [pods.count for pods in pair.pods] == [1, 4]


def test_a_pod_group_stands_for_all_its_pods() -> None:
    annotations = {REQUIRED: RACK.key, PREFIX + "pod-group-total-count": "6"}
    labels = {**QUEUE, PREFIX + "pod-group-name": "g"}
    reading = read(workload("v1", "Pod", template()["spec"], annotations, **labels))
    whole = accepted(reading)
    assert whole.groups[0].total()["pods"] == 6
    assert whole.notes == ("counted as 6 pods like this one, the whole pod group", FLAVORS_UNKNOWN)
    annotations[PREFIX + "pod-group-total-count"] = "six"
    wrong = read(workload("v1", "Pod", template()["spec"], annotations, **labels))
    assert [finding.rule for finding in wrong.findings] == ["kueue/pod-group"]


def pod_set(name: str, count: int, **request: Any) -> Object:
    return {"name": name, "count": count, "template": template(), "topologyRequest": request}


def test_a_workload_of_kueue() -> None:
    sets = [
        pod_set("a", 8, required=ZONE.key, podSetSliceRequiredTopology=RACK.key, podSetSliceSize=4),
        pod_set("b", 4, podsetSliceRequiredTopologyConstraints=[{"topology": RACK.key, "size": 2}]),
        pod_set("c", 2, unconstrained=True),
    ]
    a, b, c = tree(workload("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": sets})).groups
    assert (a.required, [(group.copies, group.required) for group in a.groups]) == (ZONE, [(2, RACK)])
    assert [(group.copies, group.required) for group in b.groups] == [(2, RACK)]
    assert (c.required, c.total()["pods"]) == (None, 2)


ONE = (
    'must not contain more than one topology annotation: ["kueue.x-k8s.io/podset-required-topology", '
    '"kueue.x-k8s.io/podset-preferred-topology", "kueue.x-k8s.io/podset-unconstrained-topology"]'
)
ABOVE = f"podset slice topology {ZONE.key} is above the podset topology {RACK.key}"
CHARACTERS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
PREFIX_PART = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character"
)


@pytest.mark.parametrize(
    ("annotations", "key", "message"),
    [
        ({REQUIRED: RACK.key, PREFERRED: RACK.key}, "", ONE),
        ({REQUIRED: RACK.key, UNCONSTRAINED: "true"}, "", ONE),
        ({UNCONSTRAINED: "yes"}, UNCONSTRAINED, "must be a boolean value"),
        ({REQUIRED: ""}, REQUIRED, "name part must be non-empty"),
        ({REQUIRED: "example.com/rack!"}, REQUIRED, f"name part must consist of {CHARACTERS}"),
        ({REQUIRED: "r" * 64}, REQUIRED, "name part must be no more than 63 bytes"),
        ({REQUIRED: "Example.com/rack"}, REQUIRED, PREFIX_PART),
        ({REQUIRED: "rack"}, REQUIRED, "no Topology has the level rack"),
        ({SLICE: "example.com/rak", SIZE: "2"}, SLICE, "no Topology has the level example.com/rak of the slices"),
        ({SLICE: RACK.key}, SIZE, f"must be set when '{SLICE}' is specified"),
        ({REQUIRED: RACK.key, SIZE: "2"}, SIZE, f"may not be set when '{SLICE}' is not specified"),
        ({SLICE: RACK.key, SIZE: "two"}, SIZE, "must be a numeric value"),
        ({SLICE: RACK.key, SIZE: "0"}, SIZE, "must be greater than or equal to 1"),
        ({SLICE: RACK.key, SIZE: "9"}, SIZE, "must not be greater than pod set count 8"),
        ({REQUIRED: RACK.key, SLICE: ZONE.key, SIZE: "2"}, SLICE, ABOVE),
        (
            {LAYERS: "[", REQUIRED: ZONE.key},
            LAYERS,
            "must be a valid JSON array: Expecting value: line 1 column 2 (char 1)",
        ),
        ({LAYERS: "[]"}, LAYERS, "must contain between 1 and 3 constraints"),
        (
            {LAYERS: layers((ZONE.key, 8)), SLICE: RACK.key, SIZE: "2"},
            LAYERS,
            f"may not be set when '{SLICE}' is specified",
        ),
        ({GROUP: "7", REQUIRED: RACK.key}, GROUP, "must not be a number"),
        ({GROUP: "g"}, GROUP, f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified"),
        (
            {GROUP: "g", REQUIRED: ZONE.key, SLICE: RACK.key, SIZE: "2"},
            GROUP,
            f"may not be set when '{SIZE}' is specified",
        ),
        ({GROUP: "g", REQUIRED: ZONE.key}, GROUP, "can only define groups of exactly 2 pod sets, got: 1 pod set(s)"),
    ],
)
def test_what_kueue_refuses(annotations: Object, key: str, message: str) -> None:
    reading = read(job(annotations))
    assert ("error", f"{ON_PODS}[{key}]" if key else ON_PODS, message) in reported(reading)
    assert all(finding.fix for finding in reading.findings)


@pytest.mark.parametrize(
    ("slices", "place", "message"),
    [
        ([(ZONE, 8), (RACK, 3)], "[1].size", "must evenly divide the parent layer size 8"),
        ([(ZONE, 9)], "[0].size", "must not be greater than pod set count 8"),
        ([(ZONE, 0)], "[0].size", "must be greater than or equal to 1"),
        ([(RACK, 4), (RACK, 2)], "[1].topology", f"Duplicate value: {RACK.key} (also at index 0)"),
        ([(RACK, 4), (ZONE, 2)], "[1].topology", ABOVE),
    ],
)
def test_slice_layers_that_kueue_refuses(slices: list[tuple[Level, int]], place: str, message: str) -> None:
    reading = read(job({LAYERS: layers(*((level.key, size) for level, size in slices))}))
    assert ("error", f"{ON_PODS}[{LAYERS}]{place}", message) in reported(reading)
    assert all(finding.fix for finding in reading.findings)


def test_a_domain_is_no_key() -> None:
    assert read(job({REQUIRED: "rack"})).findings[0].fix == "label keys are taken here: write 'example.com/rack'"
    assert read(job({REQUIRED: "example.com/rak"})).findings[0].fix == "did you mean 'example.com/rack'?"


def test_groups_of_two_that_do_not_match() -> None:
    members = [
        replicated("a", 1, 2, on_pods={GROUP: "g", REQUIRED: RACK.key}),
        replicated("b", 1, 3, on_pods={GROUP: "g", REQUIRED: ZONE.key}),
    ]
    reading = read(queued(jobset(*members)))
    paths = [f"spec.replicatedJobs[{n}].template.{ON_PODS}" for n in range(2)]
    leader = (
        "can only define groups where at least one pod set has only 1 replica, "
        "got: 2 replica(s) and 3 replica(s) in the group"
    )
    levels = "must specify '{}' or '{}' topology consistent with '{}' in group 'g'"
    assert reported(reading) == [
        ("error", f"{paths[0]}[{GROUP}]", leader),
        ("error", f"{paths[1]}[{GROUP}]", leader),
        ("error", paths[0], levels.format(REQUIRED, PREFERRED, paths[1])),
        ("error", paths[1], levels.format(REQUIRED, PREFERRED, paths[0])),
    ]


def test_a_workload_without_a_queue_is_left_alone() -> None:
    reading = read(job({REQUIRED: RACK.key}, app="x"))
    assert [(finding.rule, finding.severity) for finding in reading.findings] == [("kueue/queue-name", "warning")]


def test_annotations_count_on_pod_templates_only() -> None:
    reading = read(workload("batch/v1", "Job", {"template": template()}, {REQUIRED: RACK.key}, **QUEUE))
    message = "Kueue does not read this on a Job"
    assert reported(reading) == [("warning", f"metadata.annotations[{REQUIRED}]", message)]


def test_each_pod_of_a_deployment_is_alone() -> None:
    spec = {"replicas": 3, "template": template(8, {REQUIRED: RACK.key})}
    reading = read(workload("apps/v1", "Deployment", spec, None, **QUEUE))
    assert [finding.rule for finding in reading.findings] == ["kueue/each-pod-alone"]
    (group,) = understood(reading).groups
    assert (group.copies, group.total()["pods"]) == (3, 1)


def test_every_topology_with_the_levels_may_be_meant() -> None:
    topologies = {
        "a": TopologyLevels("a", LEVELS),
        "b": TopologyLevels("b", (ZONE, HOST)),
        "c": TopologyLevels("c", (RACK, HOST), "Topology"),
    }
    reading = read(job({REQUIRED: RACK.key}), ClusterFacts(topologies))
    whole = accepted(reading)
    assert whole.topology == "a"
    assert [alternative.topology for alternative in reading.alternatives] == ["c"]
    assert whole.notes == ("the ResourceFlavor decides which topology it is: a, c", FLAVORS_UNKNOWN)


def test_room_is_not_claimed_for_levels_that_are_not_understood() -> None:
    for annotations in ({REQUIRED: "rack"}, {REQUIRED: RACK.key, SLICE: ZONE.key, SIZE: "2"}):
        whole = understood(read(job(annotations)))
        assert not whole.placeable
        assert whole.notes == ("room is not checked before the levels are right",)


def test_levels_of_several_topologies() -> None:
    topologies = {"a": TopologyLevels("a", (ZONE, HOST)), "b": TopologyLevels("b", (RACK, HOST))}
    reading = read(job({REQUIRED: ZONE.key, SLICE: RACK.key, SIZE: "2"}), ClusterFacts(topologies))
    assert [(finding.rule, finding.severity) for finding in reading.findings] == [("kueue/one-topology", "warning")]
    assert not understood(reading).placeable


def test_where_no_topology_is_known_nothing_is_claimed() -> None:
    workload = accepted(read(job({REQUIRED: RACK.key}), ClusterFacts()))
    assert not workload.placeable
    assert workload.notes == ("no topology is known: levels and room are not checked",)


@pytest.mark.parametrize(
    "document",
    [
        workload("batch/v1", "Job", {"template": template()}),
        {},
        {"kind": "Job"},
        workload("v1", "ConfigMap", None, {REQUIRED: "x"}),
    ],
)
def test_what_is_not_for_kueue(document: Object) -> None:
    assert not KUEUE_SYSTEM.claims(document)
