"""What each kind of workload asks for, from manifests as people write them and from what nobody should write."""

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from toposcope.integrations.dynamo import api as dynamo
from toposcope.integrations.framework.level_requests import (
    MAX_LEVEL_REQUESTS,
    LevelRequest,
    WatchedKind,
    WorkloadRef,
    level_request,
    read_object,
)
from toposcope.integrations.grove import api as grove
from toposcope.integrations.jobset import api as jobset
from toposcope.integrations.kai import api as kai
from toposcope.integrations.kubernetes import workload as workloads
from toposcope.integrations.kueue import api as kueue
from toposcope.integrations.lws import api as leaderworkerset
from toposcope.integrations.watched import WATCHED

ZONE = "topology.kubernetes.io/zone"
BLOCK = "cloud.provider.com/topology-block"
RACK = "cloud.provider.com/topology-rack"
HOST = "kubernetes.io/hostname"
SLICES = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
JOB, DEPLOYMENT, STATEFUL_SET = workloads.JOBS, workloads.DEPLOYMENTS, workloads.STATEFUL_SETS


@dataclass(frozen=True)
class Case:
    name: str
    source: WatchedKind
    version: str
    manifest: str
    needs: set[LevelRequest]


def required(term: str, topology: str | None = None) -> LevelRequest:
    return LevelRequest(term, required=True, topology=topology)


def preferred(term: str, topology: str | None = None) -> LevelRequest:
    return LevelRequest(term, required=False, topology=topology)


def label(term: str, *, required: bool = True) -> LevelRequest:
    return LevelRequest(term, required=required, any_label=True)


CASES = [
    Case(
        "a deployment and its parts, by list",
        dynamo.DEPLOYMENTS,
        "v1beta1",
        """
        spec:
          backendFramework: vllm
          topologyConstraint: {clusterTopologyName: gpu-cluster, packDomain: block}
          components:
          - componentName: Frontend
          - componentName: Prefill
            topologyConstraint: {packDomain: rack}
          - componentName: Decode
            topologyConstraint: {packDomain: nvlink-domain}
        """,
        {
            required("block", "gpu-cluster"),
            required("rack", "gpu-cluster"),
            required("nvlink-domain", "gpu-cluster"),
        },
    ),
    Case(
        "a deployment and its parts, by name",
        dynamo.DEPLOYMENTS,
        "v1alpha1",
        """
        spec:
          topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
          services:
            Frontend: {replicas: 1}
            VllmWorker: {topologyConstraint: {packDomain: rack}}
            Planner: null
        """,
        {required("zone", "grove-topology"), required("rack", "grove-topology")},
    ),
    Case(
        "parts only",
        dynamo.DEPLOYMENTS,
        "v1beta1",
        """
        spec:
          topologyConstraint: {clusterTopologyName: cluster}
          components: [{topologyConstraint: {packDomain: rack}}, {topologyConstraint: {packDomain: rack}}]
        """,
        {required("rack", "cluster")},
    ),
    Case(
        "KV transfer by a topology's domain",
        dynamo.DEPLOYMENTS,
        "v1beta1",
        "spec: {experimental: {kvTransferPolicy: {clusterTopologyName: cluster, domain: rack}}}",
        {required("rack", "cluster")},
    ),
    Case(
        "KV transfer by a label of one's own",
        dynamo.DEPLOYMENTS,
        "v1beta1",
        f"spec: {{experimental: {{kvTransferPolicy: {{labelKey: {ZONE}, domain: az, enforcement: preferred}}}}}}",
        {label(ZONE, required=False)},
    ),
    Case(
        "annotations on a deployment",
        dynamo.DEPLOYMENTS,
        "v1beta1",
        f"""
        metadata:
          annotations:
            kai.scheduler/topology: topology-1
            kai.scheduler/topology-preferred-placement: {ZONE}
        """,
        {preferred(ZONE, "topology-1")},
    ),
    Case("no constraint", dynamo.DEPLOYMENTS, "v1beta1", "spec: {components: [{componentName: Frontend}]}", set()),
    Case(
        "set, scaling group and clique",
        grove.POD_CLIQUE_SETS,
        "v1alpha1",
        """
        spec:
          replicas: 2
          template:
            topologyConstraint: {topologyName: gb200, pack: {required: block}}
            podCliqueScalingGroups:
            - name: model
              cliqueNames: [leader, worker]
              topologyConstraint: {pack: {required: rack, preferred: nvlink-domain}}
            cliques:
            - name: router
            - name: leader
            - name: worker
              topologyConstraint: {pack: {preferred: host}}
        """,
        {required("block", "gb200"), required("rack", "gb200"), preferred("nvlink-domain", "gb200")}
        | {preferred("host", "gb200")},
    ),
    Case(
        "the old field, without names (alpha.4-8) and with old names next to new ones",
        grove.POD_CLIQUE_SETS,
        "v1alpha1",
        """
        spec:
          template:
            topologyConstraint: {packDomain: zone}
            cliques:
            - {name: a, topologyConstraint: {packDomain: rack, pack: {preferred: host}}}
        """,
        {required("zone"), required("rack"), preferred("host")},
    ),
    Case(
        "names are inherited from the scaling group, then from the set",
        grove.POD_CLIQUE_SETS,
        "v1alpha1",
        """
        spec:
          template:
            topologyConstraint: {topologyName: outer, pack: {required: zone}}
            podCliqueScalingGroups:
            - {name: g, cliqueNames: [a, b], topologyConstraint: {topologyName: inner, pack: {required: rack}}}
            cliques:
            - {name: a, topologyConstraint: {pack: {required: host}}}
            - {name: b, topologyConstraint: {topologyName: own, pack: {required: host}}}
            - {name: c, topologyConstraint: {pack: {required: host}}}
        """,
        {required("zone", "outer"), required("rack", "inner"), required("host", "inner"), required("host", "own")}
        | {required("host", "outer")},
    ),
    Case(
        "a pod group and its sub-groups",
        kai.POD_GROUPS,
        "v2alpha2",
        f"""
        spec:
          minMember: 8
          topologyConstraint: {{topology: network, requiredTopologyLevel: {ZONE}, preferredTopologyLevel: rack}}
          subGroups:
          - {{name: a, minMember: 4, topologyConstraint: {{requiredTopologyLevel: {RACK}}}}}
          - {{name: b, minMember: 4, topologyConstraint: {{topology: other, preferredTopologyLevel: {HOST}}}}}
          - {{name: c, minMember: 0}}
        """,
        {required(ZONE, "network"), preferred("rack", "network"), required(RACK, "network"), preferred(HOST, "other")},
    ),
    Case(
        "a pod group without a constraint",
        kai.POD_GROUPS,
        "v2alpha2",
        "spec: {minMember: 1, topologyConstraint: {}, subGroups: [{name: a}]}",
        set(),
    ),
    *(
        Case(
            f"pod sets in {version}",
            kueue.WORKLOADS,
            version,
            f"""
            spec:
              queueName: gpus
              podSets:
              - {{name: launcher, count: 1, topologyRequest: {{unconstrained: true}}}}
              - {{name: driver, count: 1, topologyRequest: {{required: {BLOCK}}}}}
              - {{name: worker, count: 8, topologyRequest: {{preferred: {RACK}, podSetSliceSize: 4,
                  podSetSliceRequiredTopology: {HOST}}}}}
              - {{name: plain, count: 1}}
            """,
            {required(BLOCK), preferred(RACK), required(HOST)},
        )
        for version in kueue.WORKLOADS.versions
    ),
    Case(
        "slices on several levels",
        kueue.WORKLOADS,
        "v1beta2",
        f"""
        spec:
          podSets:
          - name: main
            topologyRequest:
              podsetSliceRequiredTopologyConstraints:
              - {{topology: {BLOCK}, size: 32}}
              - {{topology: {RACK}, size: 16}}
        """,
        {required(BLOCK), required(RACK)},
    ),
    Case(
        "exclusive groups and sub-groups",
        leaderworkerset.LEADER_WORKER_SETS,
        "v1",
        f"""
        metadata:
          annotations:
            leaderworkerset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool
            leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: {RACK}
        """,
        {label("cloud.google.com/gke-nodepool"), label(RACK)},
    ),
    Case(
        "templates of leader and workers",
        leaderworkerset.LEADER_WORKER_SETS,
        "v1",
        f"""
        spec:
          leaderWorkerTemplate:
            size: 5
            leaderTemplate: {{metadata: {{annotations: {{kueue.x-k8s.io/podset-required-topology: {BLOCK}}}}}}}
            workerTemplate:
              metadata:
                annotations:
                  kueue.x-k8s.io/podset-preferred-topology: {RACK}
                  kai.scheduler/topology: cluster
                  kai.scheduler/segment-topology-required-placement: {RACK}
        """,
        {required(BLOCK), preferred(RACK), required(RACK, "cluster")},
    ),
    *(
        Case(
            f"exclusive jobs in {version}",
            jobset.JOBSETS,
            version,
            f"""
            metadata: {{annotations: {{alpha.jobset.sigs.k8s.io/exclusive-topology: {ZONE}}}}}
            spec:
              replicatedJobs:
              - name: driver
                template: {{spec: {{template: {{spec: {{}}}}}}}}
              - name: workers
                template:
                  metadata: {{annotations: {{alpha.jobset.sigs.k8s.io/exclusive-topology: {RACK}}}}}
                  spec:
                    template: {{metadata: {{annotations: {{kueue.x-k8s.io/podset-required-topology: {BLOCK}}}}}}}
            """,
            {label(ZONE), label(RACK), required(BLOCK)},
        )
        for version in jobset.JOBSETS.versions
    ),
    Case(
        "a training job for KAI",
        JOB,
        "v1",
        f"""
        metadata:
          annotations:
            kai.scheduler/topology: cluster
            kai.scheduler/topology-required-placement: {ZONE}
            kai.scheduler/topology-preferred-placement: {RACK}
        spec:
          template:
            metadata:
              annotations:
                kai.scheduler/segment-size: "4"
                kai.scheduler/segment-topology-required-placement: {RACK}
                kai.scheduler/segment-topology-preferred-placement: {HOST}
        """,
        {required(ZONE, "cluster"), preferred(RACK, "cluster"), required(RACK, "cluster"), preferred(HOST, "cluster")},
    ),
    Case(
        "a template's own topology wins",
        STATEFUL_SET,
        "v1",
        f"""
        metadata: {{annotations: {{kai.scheduler/topology: outer}}}}
        spec:
          template:
            metadata:
              annotations: {{kai.scheduler/topology: inner, kai.scheduler/topology-required-placement: {RACK}}}
        """,
        {required(RACK, "inner")},
    ),
    Case(
        "a job for Kueue, several levels of slices",
        JOB,
        "v1",
        f"""
        metadata: {{labels: {{kueue.x-k8s.io/queue-name: gpus}}}}
        spec:
          template:
            metadata:
              annotations:
                kueue.x-k8s.io/podset-required-topology: {ZONE}
                kueue.x-k8s.io/podset-slice-required-topology-constraints: |
                  [{{"topology": "{BLOCK}", "size": 32}}, {{"topology": "{RACK}", "sizes": [1, 3]}}]
        """,
        {required(ZONE), required(BLOCK), required(RACK)},
    ),
    Case(
        "a deployment for Kueue",
        DEPLOYMENT,
        "v1",
        f"""
        spec:
          template:
            metadata:
              annotations:
                kueue.x-k8s.io/podset-slice-required-topology: {HOST}
                kueue.x-k8s.io/podset-slice-size: "2"
                kueue.x-k8s.io/podset-unconstrained-topology: "true"
        """,
        {required(HOST)},
    ),
    Case(
        "annotations that say nothing",
        DEPLOYMENT,
        "v1",
        f"""
        metadata:
          annotations: {{kai.scheduler/topology: cluster, kai.scheduler/topology-required-placement: "", note: {RACK}}}
        """,
        set(),
    ),
]


def manifest(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text) or {}
    names = {"name": "train", "namespace": "team-a", "uid": "uid-1", "resourceVersion": "7"}
    return {**found, "metadata": names | found.get("metadata", {})}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.source.kind}: {case.name}")
def test_needs(case: Case) -> None:
    reading = read_object(case.source, case.version, json.dumps(manifest(case.manifest)).encode())
    assert reading.problem == ""
    assert set(reading.requests) == case.needs
    assert len(reading.requests) == len(case.needs)
    api_version = f"{case.source.group}/{case.version}"
    assert reading.workload == WorkloadRef(api_version, case.source.kind, "team-a", "train", "uid-1")
    assert (reading.version, reading.finished, reading.owner) == ("7", False, None)


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        (dynamo.DEPLOYMENTS, "spec: {topologyConstraint: rack}", "$.spec.topologyConstraint"),
        (dynamo.DEPLOYMENTS, "spec: {components: {a: {}}}", "$.spec.components"),
        (grove.POD_CLIQUE_SETS, "spec: {template: {cliques: [{topologyConstraint: {packDomain: 3}}]}}", "packDomain"),
        (kai.POD_GROUPS, "spec: {subGroups: [7]}", "$.spec.subGroups[0]"),
        (kueue.WORKLOADS, "spec: {podSets: [{topologyRequest: {required: [a]}}]}", "topologyRequest.required"),
        (kueue.WORKLOADS, "status: {conditions: Finished}", "$.status.conditions"),
        (jobset.JOBSETS, "metadata: {annotations: {a: 1}}", "$.metadata.annotations"),
        (leaderworkerset.LEADER_WORKER_SETS, "spec: []", "$.spec"),
        (JOB, "metadata: {annotations: {kai.scheduler/topology-required-placement: räck}}", "'räck' is neither"),
        (JOB, "metadata: {annotations: {kai.scheduler/topology-required-placement: 'a b'}}", "'a b' is neither"),
        (
            DEPLOYMENT,
            f"spec: {{template: {{metadata: {{annotations: {{{SLICES}: '[3]'}}}}}}}}",
            f"annotation {SLICES} is no JSON list",
        ),
    ],
)
def test_what_is_malformed_asks_for_nothing_and_says_why(source: WatchedKind, text: str, said: str) -> None:
    reading = read_object(source, source.versions[0], json.dumps(manifest(text)).encode())
    assert said in reading.problem
    assert reading.requests == ()
    assert reading.workload.name == "train"


@pytest.mark.parametrize("source", WATCHED, ids=lambda source: source.kind)
@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"metadata":null}', b'{"metadata":{"name":3}}'),
        *(b"\xff" * 100, b'{"metadata":{"name":"\\ud800"}}', b'{"metadata":' * 100_000),
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_what_is_no_object_belongs_to_nobody(source: WatchedKind, raw: bytes) -> None:
    reading = read_object(source, source.versions[0], raw)
    assert reading.problem
    assert (reading.workload.name, reading.requests) == ("", ())


@pytest.mark.parametrize("source", WATCHED, ids=lambda source: source.kind)
def test_nothing_raises_whatever_stands_in_place_of_a_value(source: WatchedKind) -> None:
    rng = random.Random(11)
    junk: tuple[Any, ...] = (None, 0, -1.5, True, "", "räck/☃", [], {}, [[]], {"": None}, "x" * 5000)
    documents = [manifest(case.manifest) for case in CASES if case.source is source]
    for document in documents:
        paths = list(_paths(document))
        for path in paths:
            for value in rng.sample(junk, 4):
                spoiled = json.loads(json.dumps(document))
                _put(spoiled, path, value)
                reading = read_object(source, source.versions[0], json.dumps(spoiled, ensure_ascii=False).encode())
                assert all(len(asked.level) <= 317 and asked.level.isascii() for asked in reading.requests)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def _put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


@pytest.mark.parametrize("source", WATCHED, ids=lambda source: source.kind)
def test_null_is_as_good_as_absent(source: WatchedKind) -> None:
    document = manifest("{}") | {"spec": None, "status": None}
    document["metadata"] |= {"annotations": None, "ownerReferences": None}
    reading = read_object(source, source.versions[0], json.dumps(document).encode())
    assert (reading.requests, reading.problem) == ((), "")


def test_an_object_as_large_as_one_can_be() -> None:
    clique = {
        "name": "c",
        "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}},
        "spec": {"podSpec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "x" * 1000}]}]}},
    }
    document = manifest("{}") | {"spec": {"template": {"cliques": [clique] * 1000}}}
    reading = read_object(grove.POD_CLIQUE_SETS, "v1alpha1", json.dumps(document).encode())
    assert (reading.requests, reading.problem) == ((required("rack", "cluster"),), "")


def test_one_workload_keeps_so_many_needs_and_no_more() -> None:
    parts = {f"p{i}": {"topologyConstraint": {"packDomain": f"level-{i}"}} for i in range(1000)}
    reading = read_object(
        dynamo.DEPLOYMENTS, "v1alpha1", json.dumps(manifest("{}") | {"spec": {"services": parts}}).encode()
    )
    assert reading.requests == tuple(required(f"level-{i}") for i in range(MAX_LEVEL_REQUESTS))
    assert reading.problem == "asks for 1000 levels; only the first 64 count"


def test_names_in_any_script() -> None:
    text = """
    metadata: {name: 訓練-Ж, namespace: 名前空間}
    spec: {topologyConstraint: {requiredTopologyLevel: rack, topology: Ω}}
    """
    reading = read_object(kai.POD_GROUPS, "v2alpha2", json.dumps(manifest(text)).encode())
    assert reading.workload == WorkloadRef("scheduling.run.ai/v2alpha2", "PodGroup", "名前空間", "訓練-Ж", "uid-1")
    assert reading.requests == (required("rack", "Ω"),)


def test_equal_needs_are_one_object_and_names_have_an_end() -> None:
    assert level_request("rack", required=True) is level_request("rack", required=True)
    assert level_request("rack", required=True, topology="") == required("rack")
    with pytest.raises(ValueError, match="more than 253 characters"):
        level_request("rack", required=True, topology="x" * 254)
    with pytest.raises(ValueError, match="neither a domain"):
        level_request("x" * 318, required=True)


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (JOB, "Complete"),
        (JOB, "Failed"),
        (jobset.JOBSETS, "Completed"),
        (jobset.JOBSETS, "Failed"),
        (kueue.WORKLOADS, "Finished"),
    ],
)
def test_what_has_run_to_its_end(source: WatchedKind, condition: str) -> None:
    def finished(kind: str, status: str) -> bool:
        document = manifest(f"status: {{conditions: [{{type: Other}}, {{type: {kind}, status: '{status}'}}]}}")
        return read_object(source, source.versions[0], json.dumps(document).encode()).finished

    assert finished(condition, "True")
    assert not finished(condition, "False")
    assert not finished("Suspended", "True")


def owned(*owners: dict[str, Any]) -> dict[str, Any]:
    document = manifest(f"spec: {{topologyConstraint: {{requiredTopologyLevel: {RACK}}}}}")
    document["metadata"]["ownerReferences"] = list(owners)
    return document


def owner(kind: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": kind, "name": kind.lower(), "uid": uid, **more}


@pytest.mark.parametrize(
    ("owners", "found"),
    [
        ([], None),
        ([owner("RayJob", "1")], "RayJob"),
        ([owner("RayJob", "1"), owner("Queue", "2", controller=True)], "Queue"),
        ([owner("Pod", "1", controller=False), owner("Pod", "2")], None),
    ],
)
def test_the_owner_is_the_controller_or_the_only_one(owners: list[dict[str, Any]], found: str | None) -> None:
    reading = read_object(kai.POD_GROUPS, "v2alpha2", json.dumps(owned(*owners)).encode())
    assert (reading.owner.kind if reading.owner else None) == found
    if reading.owner:
        assert reading.owner == WorkloadRef(
            "example.com/v1", reading.owner.kind, "team-a", reading.owner.name, reading.owner.uid
        )


@pytest.mark.parametrize(
    ("source", "kind", "asks"),
    [
        (kai.POD_GROUPS, "PodGang", False),
        (kai.POD_GROUPS, "RayJob", True),
        (STATEFUL_SET, "Pod", False),
        (STATEFUL_SET, "LeaderWorkerSet", True),
    ],
)
def test_what_only_repeats_its_maker_asks_for_nothing(source: WatchedKind, kind: str, asks: bool) -> None:
    document = owned(owner(kind, "1", controller=True))
    document["metadata"]["annotations"] = {"kai.scheduler/topology-required-placement": RACK}
    assert bool(read_object(source, source.versions[0], json.dumps(document).encode()).requests) == asks
