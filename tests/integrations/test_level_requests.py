"""Which levels each watched kind asks for, from well-formed manifests and malformed ones; and who asks."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.documents import document
from tests.support.paths import DOCUMENTS
from toposcope.integrations.framework.level_requests import (
    MAX_LEVEL_REQUESTS,
    LevelRequest,
    ObjectRequests,
    WatchedKind,
    WorkloadRef,
    level_request,
    read_object,
    roll_up,
)
from toposcope.integrations.registry import WATCHED, read_annotations

RACK = "example.com/rack"
KINDS = {(kind.group, kind.kind): kind for kind in WATCHED}
EVERY_KIND = pytest.mark.parametrize("kind", WATCHED, ids=lambda kind: kind.kind)
DYNAMO = KINDS["nvidia.com", "DynamoGraphDeployment"]
GROVE_SET = KINDS["grove.io", "PodCliqueSet"]
JOB = KINDS["batch", "Job"]
JOB_SET = KINDS["jobset.x-k8s.io", "JobSet"]
KAI_POD_GROUP = KINDS["scheduling.run.ai", "PodGroup"]
KUEUE_WORKLOAD = KINDS["kueue.x-k8s.io", "Workload"]
LEADER_WORKER_SET = KINDS["leaderworkerset.x-k8s.io", "LeaderWorkerSet"]
DEPLOYMENT = KINDS["apps", "Deployment"]
STATEFUL_SET = KINDS["apps", "StatefulSet"]


def required(level: str, topology: str | None = None, *, any_label: bool = False) -> LevelRequest:
    return LevelRequest(level, is_required=True, topology=topology, accepts_any_label=any_label)


def preferred(level: str, topology: str | None = None, *, any_label: bool = False) -> LevelRequest:
    return LevelRequest(level, is_required=False, topology=topology, accepts_any_label=any_label)


def kind_of(manifest: Any) -> tuple[WatchedKind, str]:
    """The watched kind of a manifest, and its version."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return KINDS[group, manifest["kind"]], version


def requests_of(name: str, *versions: str) -> set[LevelRequest]:
    """What tests/documents/level_requests/NAME.yaml asks for, in its own version or in each of these."""
    manifest = document(f"level_requests/{name}")
    kind, own_version = kind_of(manifest)
    answers = []
    for version in versions or (own_version,):
        asked = read(kind, manifest, version)
        assert asked.problem == ""
        assert asked.workload == WorkloadRef(f"{kind.group}/{version}", kind.kind, "team-a", "train", "uid-1")
        assert asked.version == "7"
        assert not asked.has_finished
        assert asked.owner is None
        assert len(set(asked.requests)) == len(asked.requests)
        answers.append(set(asked.requests))
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def read(kind: WatchedKind, manifest: Any, version: str = "") -> ObjectRequests:
    """Read an object of this kind, as the API server sends it."""
    raw = json.dumps(manifest, ensure_ascii=False).encode()
    return read_object(kind, version or kind.versions[0], raw, read_annotations)


def an_object(**fields: Any) -> dict[str, Any]:
    """An object `team-a/train` with these fields; `annotations` and `metadata` go where they belong."""
    metadata = {"name": "train", "namespace": "team-a", "uid": "uid-1", "resourceVersion": "7"}
    metadata["annotations"] = fields.pop("annotations", None)
    metadata |= fields.pop("metadata", {})
    return {**fields, "metadata": metadata}


def test_deployment_asks_for_levels_of_listed_components() -> None:
    requests = requests_of("dynamo-components-by-list")
    assert requests == {
        required("block", "gpu-cluster"),
        required("rack", "gpu-cluster"),
        required("nvlink-domain", "gpu-cluster"),
    }


def test_deployment_asks_for_levels_of_named_services() -> None:
    requests = requests_of("dynamo-components-by-name")
    assert requests == {required("zone", "grove-topology"), required("rack", "grove-topology")}


def test_equal_components_ask_once() -> None:
    requests = requests_of("dynamo-components-only")
    assert requests == {required("rack", "cluster")}


def test_transfer_policy_asks_for_the_domain_of_its_topology() -> None:
    requests = requests_of("dynamo-transfer-by-topology")
    assert requests == {required("rack", "cluster")}


def test_preferred_transfer_policy_asks_for_any_label() -> None:
    requests = requests_of("dynamo-transfer-by-label")
    assert requests == {preferred("example.com/zone", any_label=True)}


def test_overrides_ask_for_levels_of_grove() -> None:
    requests = requests_of("dynamo-overrides")
    assert requests == {required("block", "cluster"), required("rack", "cluster"), preferred("host", "cluster")}


def test_annotations_of_a_deployment_ask_for_a_level() -> None:
    requests = requests_of("dynamo-annotations")
    assert requests == {preferred("example.com/zone", "topology-1")}


def test_deployment_without_constraint_asks_for_nothing() -> None:
    requests = requests_of("dynamo-no-constraint")
    assert requests == set()


def test_set_group_and_clique_ask_for_levels() -> None:
    requests = requests_of("grove-all-parts")
    assert requests == {
        required("block", "gb200"),
        required("rack", "gb200"),
        preferred("nvlink-domain", "gb200"),
        preferred("host", "gb200"),
    }


def test_pack_domain_of_older_versions_asks_for_a_level() -> None:
    requests = requests_of("grove-pack-domain")
    assert requests == {required("zone"), required("rack"), preferred("host")}


def test_topology_is_inherited_from_the_group_then_from_the_set() -> None:
    requests = requests_of("grove-inherited-names")
    assert requests == {
        required("zone", "outer"),
        required("rack", "inner"),
        required("host", "inner"),
        required("host", "own"),
        required("host", "outer"),
    }


def test_pod_group_and_its_sub_groups_ask_for_levels() -> None:
    requests = requests_of("kai-sub-groups")
    assert requests == {required("zone", "network"), preferred("rack", "network"), preferred("host", "other")}


def test_pod_group_without_constraint_asks_for_nothing() -> None:
    requests = requests_of("kai-no-constraint")
    assert requests == set()


def test_pod_sets_ask_for_levels() -> None:
    requests = requests_of("kueue-pod-sets", "v1", "v1beta1", "v1beta2")
    assert requests == {required("block"), preferred("rack"), required("host")}


def test_slice_layers_ask_for_levels() -> None:
    requests = requests_of("kueue-slice-layers")
    assert requests == {required("block"), required("rack")}


def test_exclusive_groups_ask_for_any_label() -> None:
    requests = requests_of("lws-exclusive")
    assert requests == {
        required("cloud.google.com/gke-nodepool", any_label=True),
        required("example.com/rack", any_label=True),
    }


def test_templates_of_leader_and_workers_ask_for_levels() -> None:
    requests = requests_of("lws-templates")
    assert requests == {required("block"), preferred("rack"), required("rack", "cluster")}


def test_exclusive_jobs_ask_for_any_label() -> None:
    requests = requests_of("jobset-exclusive", "v1", "v1alpha2")
    assert requests == {required("zone", any_label=True), required("rack", any_label=True), required("block")}


def test_job_of_kai_asks_for_levels_and_segments() -> None:
    requests = requests_of("kai-job")
    assert requests == {
        required("zone", "cluster"),
        preferred("rack", "cluster"),
        required("rack", "cluster"),
        preferred("host", "cluster"),
    }


def test_topology_of_a_template_comes_before_that_of_its_owner() -> None:
    requests = requests_of("kai-template")
    assert requests == {required("rack", "inner")}


def test_job_of_kueue_asks_for_levels_of_slice_layers() -> None:
    requests = requests_of("kueue-job")
    assert requests == {required("zone"), required("block"), required("rack")}


def test_deployment_of_kueue_asks_for_the_level_of_slices() -> None:
    requests = requests_of("kueue-deployment")
    assert requests == {required("host")}


def test_annotations_without_level_ask_for_nothing() -> None:
    requests = requests_of("no-level")
    assert requests == set()


def test_gang_asks_for_any_label() -> None:
    requests = requests_of("gang-pod-group", "v1alpha2", "v1alpha3", "v1beta1")
    assert requests == {required("example.com/rack", any_label=True)}


def test_gang_without_constraint_asks_for_nothing() -> None:
    requests = requests_of("gang-no-constraint", "v1alpha2", "v1alpha3", "v1beta1")
    assert requests == set()


def test_templates_of_a_workload_ask_for_any_label() -> None:
    requests = requests_of("gang-templates", "v1alpha2", "v1alpha3", "v1beta1")
    assert requests == {
        required("example.com/rack", any_label=True),
        required("topology.kubernetes.io/zone", any_label=True),
    }


def test_nested_templates_of_a_workload_ask_for_any_label() -> None:
    requests = requests_of("gang-nested-templates", "v1alpha3", "v1beta1")
    assert requests == {
        required("l0", any_label=True),
        required("l1", any_label=True),
        required("l2", any_label=True),
        required("l3", any_label=True),
    }


def test_group_of_groups_asks_for_any_label() -> None:
    requests = requests_of("gang-group-of-groups")
    assert requests == {required("example.com/block", any_label=True)}


def test_job_asks_for_its_own_gang() -> None:
    requests = requests_of("gang-job")
    assert requests == {required("example.com/rack", any_label=True)}


def test_tier_number_asks_for_the_label_of_the_tier() -> None:
    requests = requests_of("volcano-tier-number")
    assert requests == {required("volcano.sh/tier/2", any_label=True)}


def test_tier_names_of_a_job_and_its_parts_ask_for_levels() -> None:
    requests = requests_of("volcano-tier-names")
    assert requests == {required("block"), preferred("rack")}


def test_hard_mode_without_tier_asks_for_nothing() -> None:
    requests = requests_of("volcano-no-tier")
    assert requests == set()


def test_pod_group_of_volcano_and_its_parts_ask_for_levels() -> None:
    requests = requests_of("volcano-pod-group")
    assert requests == {required("topology.kubernetes.io/zone"), required("volcano.sh/tier/0", any_label=True)}


def test_ended_job_of_volcano_asks_for_nothing() -> None:
    requests = requests_of("volcano-ended-job")
    assert requests == set()


def test_ended_pod_group_of_volcano_asks_for_nothing() -> None:
    requests = requests_of("volcano-ended-pod-group")
    assert requests == set()


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        pytest.param(DYNAMO, {"topologyConstraint": "rack"}, "$.spec.topologyConstraint", id="constraint"),
        pytest.param(DYNAMO, {"components": {"a": {}}}, "$.spec.components", id="components"),
        pytest.param(
            GROVE_SET,
            {"template": {"cliques": [{"topologyConstraint": {"packDomain": 3}}]}},
            "packDomain",
            id="pack-domain",
        ),
        pytest.param(KAI_POD_GROUP, {"subGroups": [7]}, "$.spec.subGroups[0]", id="sub-groups"),
        pytest.param(
            KUEUE_WORKLOAD,
            {"podSets": [{"topologyRequest": {"required": ["a"]}}]},
            "topologyRequest.required",
            id="pod-sets",
        ),
        pytest.param(LEADER_WORKER_SET, [], "$.spec", id="spec"),
    ],
)
def test_malformed_spec_asks_for_nothing_and_says_why(kind: WatchedKind, spec: Any, problem: str) -> None:
    asked = read(kind, an_object(spec=spec))
    assert problem in asked.problem
    assert asked.requests == ()
    assert asked.workload.name == "train"


@pytest.mark.parametrize("level", ["räck", "a b"])
def test_malformed_level_asks_for_nothing_and_says_why(level: str) -> None:
    asked = read(JOB, an_object(annotations={"kai.scheduler/topology-required-placement": level}))
    assert f"'{level}' is neither" in asked.problem
    assert asked.requests == ()
    assert asked.workload.name == "train"


def test_malformed_slice_layers_ask_for_nothing_and_say_why() -> None:
    annotations = {"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[3]"}
    template = {"metadata": {"annotations": annotations}}
    asked = read(DEPLOYMENT, an_object(spec={"template": template}))
    assert "is not a JSON list" in asked.problem
    assert asked.requests == ()
    assert asked.workload.name == "train"


def test_malformed_conditions_ask_for_nothing_and_say_why() -> None:
    asked = read(KUEUE_WORKLOAD, an_object(status={"conditions": "Finished"}))
    assert "$.status.conditions" in asked.problem
    assert asked.requests == ()
    assert asked.workload.name == "train"


def test_malformed_annotations_ask_for_nothing_and_say_why() -> None:
    asked = read(JOB_SET, an_object(annotations={"a": 1}))
    assert "$.metadata.annotations" in asked.problem
    assert asked.requests == ()
    assert asked.workload.name == "train"


@EVERY_KIND
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half-an-object"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"x"', id="text"),
        pytest.param(b"{}", id="empty-object"),
        pytest.param(b'{"metadata":null}', id="no-metadata"),
        pytest.param(b'{"metadata":{"name":3}}', id="number-as-name"),
        pytest.param(b"\xff" * 100, id="no-utf8"),
        pytest.param(b'{"metadata":{"name":"\\ud800"}}', id="half-a-surrogate"),
        pytest.param(b'{"metadata":' * 100_000, id="too-deep"),
    ],
)
def test_anything_but_an_object_has_no_name(kind: WatchedKind, raw: bytes) -> None:
    asked = read_object(kind, kind.versions[0], raw, read_annotations)
    assert asked.problem
    assert asked.workload.name == ""
    assert asked.requests == ()


VALUES: tuple[Any, ...] = (None, 0, -1.5, True, "", "räck/☃", [], {}, [[]], {"": None}, "x" * 5000)


@EVERY_KIND
def test_no_value_in_an_object_raises(kind: WatchedKind) -> None:
    rng = random.Random(11)
    for file in sorted((DOCUMENTS / "level_requests").iterdir()):
        manifest = document(f"level_requests/{file.stem}")
        if kind_of(manifest)[0] is not kind:
            continue
        for path in paths_in(manifest):
            for value in rng.sample(VALUES, 4):
                asked = read(kind, with_value(manifest, path, value))
                for request in asked.requests:
                    assert len(request.level) <= 317
                    assert request.level.isascii()


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys and indexes that lead to each value inside of another one."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*path, key)
        yield from paths_in(child, (*path, key))


def with_value(manifest: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at this path."""
    copied = copy.deepcopy(manifest)
    parent = copied
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return copied


@EVERY_KIND
def test_null_is_the_same_as_absent(kind: WatchedKind) -> None:
    nulls = an_object(metadata={"annotations": None, "ownerReferences": None}, spec=None, status=None)
    asked = read(kind, nulls)
    assert asked.requests == ()
    assert asked.problem == ""


def test_object_of_a_megabyte_is_read() -> None:
    variable = {"name": "A", "value": "x" * 1000}
    clique = {
        "name": "c",
        "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}},
        "spec": {"podSpec": {"containers": [{"name": "main", "env": [variable]}]}},
    }
    asked = read(GROVE_SET, an_object(spec={"template": {"cliques": [clique] * 1000}}))
    assert asked.requests == (required("rack", "cluster"),)
    assert asked.problem == ""


def test_only_the_first_64_levels_of_a_workload_count() -> None:
    services = {}
    for number in range(1000):
        services[f"p{number}"] = {"topologyConstraint": {"packDomain": f"level-{number}"}}
    asked = read(DYNAMO, an_object(spec={"services": services}), "v1alpha1")
    assert len(asked.requests) == MAX_LEVEL_REQUESTS
    for number, request in enumerate(asked.requests):
        assert request == required(f"level-{number}")
    assert asked.problem == "requests 1000 levels; only the first 64 count"


def test_names_may_be_in_any_script() -> None:
    constraint = {"topologyConstraint": {"requiredTopologyLevel": "rack", "topology": "Ω"}}
    metadata = {"name": "訓練-Ж", "namespace": "名前空間"}
    asked = read(KAI_POD_GROUP, an_object(metadata=metadata, spec=constraint))
    assert asked.workload == WorkloadRef("scheduling.run.ai/v2alpha2", "PodGroup", "名前空間", "訓練-Ж", "uid-1")
    assert asked.requests == (required("rack", "Ω"),)


def test_equal_requests_are_one_object() -> None:
    assert level_request("rack", is_required=True) is level_request("rack", is_required=True)
    assert level_request("rack", is_required=True, topology="") == required("rack")


def test_request_with_a_name_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 253 characters"):
        level_request("rack", is_required=True, topology="x" * 254)
    with pytest.raises(ValueError, match="neither a domain"):
        level_request("x" * 318, is_required=True)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        pytest.param(JOB, "Complete", id="complete-job"),
        pytest.param(JOB, "Failed", id="failed-job"),
        pytest.param(JOB_SET, "Completed", id="completed-jobset"),
        pytest.param(JOB_SET, "Failed", id="failed-jobset"),
        pytest.param(KUEUE_WORKLOAD, "Finished", id="finished-workload"),
    ],
)
def test_object_has_finished_by_its_condition(kind: WatchedKind, condition: str) -> None:
    assert with_condition(kind, condition, "True").has_finished
    assert not with_condition(kind, condition, "False").has_finished
    assert not with_condition(kind, "Suspended", "True").has_finished


def with_condition(kind: WatchedKind, condition: str, status: str) -> ObjectRequests:
    conditions = [{"type": "Other"}, {"type": condition, "status": status}]
    return read(kind, an_object(status={"conditions": conditions}))


def owner(kind: str, **fields: Any) -> dict[str, Any]:
    """An owner reference."""
    return {"apiVersion": "example.com/v1", "kind": kind, "name": kind.lower(), "uid": f"uid-{kind}", **fields}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([owner("RayJob")], "RayJob", id="the-only-one"),
        pytest.param([owner("RayJob"), owner("Queue", controller=True)], "Queue", id="controller"),
        pytest.param([owner("Pod", controller=False), owner("Job")], None, id="two-without-controller"),
    ],
)
def test_owner_is_the_controller_or_the_only_one(owners: list[dict[str, Any]], expected: str | None) -> None:
    asked = read(KAI_POD_GROUP, an_object(metadata={"ownerReferences": owners}))
    if expected is None:
        assert asked.owner is None
    else:
        assert asked.owner == WorkloadRef("example.com/v1", expected, "team-a", expected.lower(), f"uid-{expected}")


@pytest.mark.parametrize(
    ("kind", "owner_kind", "asks"),
    [
        pytest.param(KAI_POD_GROUP, "PodGang", False, id="pod-group-of-grove"),
        pytest.param(KAI_POD_GROUP, "RayJob", True, id="pod-group-of-ray"),
        pytest.param(STATEFUL_SET, "Pod", False, id="stateful-set-of-a-leader"),
        pytest.param(STATEFUL_SET, "LeaderWorkerSet", True, id="stateful-set-of-leaders"),
    ],
)
def test_object_that_repeats_its_owner_asks_for_nothing(kind: WatchedKind, owner_kind: str, asks: bool) -> None:
    metadata = {
        "annotations": {"kai.scheduler/topology-required-placement": RACK},
        "ownerReferences": [owner(owner_kind, controller=True)],
    }
    spec = {"topologyConstraint": {"topology": "network", "requiredTopologyLevel": RACK}}
    asked = read(kind, an_object(metadata=metadata, spec=spec))
    assert bool(asked.requests) == asks


def a_workload(name: str) -> WorkloadRef:
    return WorkloadRef("v1", "Job", "ns", name, name)


def asking(name: str, *requests: LevelRequest, owned_by: str = "", **fields: Any) -> ObjectRequests:
    """An object that asks for these levels."""
    above = a_workload(owned_by) if owned_by else None
    return ObjectRequests(a_workload(name), "1", above, requests=requests, **fields)


def rolled_up(*objects: ObjectRequests) -> dict[str, set[LevelRequest]]:
    """The requests of each workload by its name, the same in either order of the objects."""
    forwards = {workload.name: set(requests) for workload, requests in roll_up(objects).items()}
    backwards = {workload.name: set(requests) for workload, requests in roll_up(objects[::-1]).items()}
    assert forwards == backwards
    return forwards


def test_requests_of_a_chain_of_owners_count_for_the_topmost() -> None:
    pod_group = asking("a", required("rack"), preferred("host"), owned_by="b")
    assert rolled_up(pod_group, asking("b", owned_by="c"), asking("c", preferred("host"))) == {
        "c": {required("rack"), preferred("host")}
    }


def test_requests_count_for_an_owner_that_is_not_watched() -> None:
    first = asking("a", required("rack"), owned_by="ray")
    second = asking("b", required("rack"), owned_by="ray")
    assert rolled_up(first, second) == {"ray": {required("rack")}}


def test_requests_below_a_finished_owner_do_not_count() -> None:
    finished = asking("a", required("rack"), has_finished=True)
    below = asking("b", required("rack"), owned_by="a")
    assert rolled_up(finished, below) == {}


def test_owner_of_a_finished_object_still_counts() -> None:
    above = asking("a", required("rack"))
    finished = asking("b", required("rack"), owned_by="a", has_finished=True)
    assert rolled_up(above, finished) == {"a": {required("rack")}}


def test_objects_without_requests_do_not_count() -> None:
    assert rolled_up(asking("a"), asking("b", problem="malformed")) == {}


def test_owners_of_each_other_end_somewhere() -> None:
    first = asking("a", required("rack"), owned_by="b")
    second = asking("b", required("rack"), owned_by="a")
    names = {workload.name for workload in roll_up([first, second])}
    assert names <= {"a", "b"}
