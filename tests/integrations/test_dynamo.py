"""Dynamo's DynamoGraphDeployment: each rule kept and broken, in Dynamo's own words."""

import copy
from typing import Any

import pytest

from tests.support.workloads import accepted
from toposcope.integrations.dynamo.workload import SYSTEM as DYNAMO
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.topology.levels import Level

ZONE, RACK = Level("zone", "topology.kubernetes.io/zone"), Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
KNOWN = ClusterFacts(
    {"cluster": TopologyLevels("cluster", (ZONE, RACK, HOST))}, frozenset({ZONE.key, RACK.key, HOST.key})
)

ALPHA, BETA = "v1alpha1", "v1beta1"
BOTH = pytest.mark.parametrize("version", [ALPHA, BETA])
NAME = {ALPHA: "topologyProfile", BETA: "clusterTopologyName"}
TOP = "spec.topologyConstraint"
GPUS = {"nvidia.com/gpu": "8"}


def deployment(version: str, top: Any = None, decode: Any = None, prefill: Any = None) -> dict[str, Any]:
    """A frontend, four prefill workers and two replicas of a decode worker that spans two nodes."""
    parts = {
        "frontend": part(version, None),
        "prefill": part(version, prefill, 8, replicas=4),
        "decode": part(version, decode, 8, replicas=2, multinode={"nodeCount": 2}),
    }
    spec: dict[str, Any] = {"topologyConstraint": top} if top is not None else {}
    if version == ALPHA:
        spec["services"] = parts
    else:
        spec["components"] = [{"name": name, **component} for name, component in parts.items()]
    return {
        "apiVersion": f"nvidia.com/{version}",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": spec,
    }


def part(version: str, constraint: Any, gpus: int = 0, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = dict(more)
    if constraint is not None:
        body["topologyConstraint"] = constraint
    if gpus and version == ALPHA:
        body["resources"] = {"limits": {"gpu": str(gpus)}}
    elif gpus:
        container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
        body["podTemplate"] = {"spec": {"containers": [container]}}
    return body


def on(version: str, domain: str | None = None, topology: str = "cluster") -> dict[str, str]:
    return {NAME[version]: topology} | ({"packDomain": domain} if domain is not None else {})


def field(version: str, component: str) -> str:
    where = (
        f"services.{component}"
        if version == ALPHA
        else f"components[{['frontend', 'prefill', 'decode'].index(component)}]"
    )
    return f"spec.{where}.topologyConstraint"


def read(document: dict[str, Any], before: dict[str, Any] | None = None, known: ClusterFacts = KNOWN) -> Reading:
    return DYNAMO.read(document, known, before)


def said(reading: Reading, severity: str = "error") -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in reading.findings if finding.severity == severity]


@BOTH
def test_the_tree_of_a_deployment(version: str) -> None:
    workload = accepted(read(deployment(version, on(version, "zone"), {"packDomain": "rack"})))
    assert (workload.handle, workload.topology) == ("dynamographdeployment/llm -n ml", "cluster")
    (whole,) = workload.groups
    assert (whole.required, whole.copies) == (ZONE, 1)
    assert whole.total() == {"pods": 1 + 4 + 2 * 2, "nvidia.com/gpu": 8 * (4 + 2 * 2)}
    frontend, prefill, decode = whole.groups
    # Each replica of what spans nodes is kept together by itself; all pods of what does not are one clique.
    assert (decode.name, decode.required, decode.copies, decode.pods[0].count) == ("replica of decode", RACK, 2, 2)
    assert (prefill.required, prefill.copies, prefill.pods[0].count) == (None, 1, 4)
    assert frontend.pods[0].requests == ()


@BOTH
def test_a_component_without_a_constraint_stays_where_the_deployment_stays(version: str) -> None:
    workload = accepted(read(deployment(version, on(version, "rack"))))
    (whole,) = workload.groups
    assert whole.required == RACK
    assert all(group.required is None for group in whole.groups)


@BOTH
def test_components_alone_can_be_constrained(version: str) -> None:
    workload = accepted(read(deployment(version, on(version), {"packDomain": "rack"})))
    (whole,) = workload.groups
    assert whole.required is None
    assert [group.required for group in whole.groups] == [None, None, RACK]


@BOTH
def test_without_constraints_there_is_no_topology(version: str) -> None:
    workload = accepted(read(deployment(version)))
    assert workload.topology is None


AVAILABLE = 'does not exist in ClusterTopologyBinding "cluster"; available domains: [host rack zone]'
PATTERN = "in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'"


@BOTH
@pytest.mark.parametrize(
    ("name", "pack", "at", "message", "fix"),
    [
        ("clutser", "rack", "name", "references a ClusterTopologyBinding resource that was not found", "'cluster'"),
        ("cluster", "rak", "packDomain", AVAILABLE, "did you mean 'rack'?"),
        ("cluster", "example.com/rack", "packDomain", f"{TOP}.packDomain {PATTERN}", "write 'rack'"),
        ("cluster", "Rack", "packDomain", f"{TOP}.packDomain {PATTERN}", "did you mean 'rack'?"),
        ("cluster", "rack-", "packDomain", f"{TOP}.packDomain {PATTERN}", "did you mean 'rack'?"),
        ("cluster", "", "packDomain", f"{TOP}.packDomain {PATTERN}", "host, rack, zone"),
        (None, "rack", "name", "Required value", "there are: cluster"),
    ],
)
def test_what_is_refused_of_the_deployment(
    version: str, name: str | None, pack: str, at: str, message: str, fix: str
) -> None:
    top = {"packDomain": pack} | ({NAME[version]: name} if name else {})
    reading = read(deployment(version, top, {"packDomain": "host"}))
    where = f"{TOP}.{NAME[version] if at == 'name' else at}"
    assert reading.workload is not None
    assert not reading.workload.placeable
    assert reading.workload.notes
    assert (where, message) in said(reading)
    assert fix in next(finding.fix for finding in reading.findings if finding.field == where)


@BOTH
def test_an_empty_name(version: str) -> None:
    path = f"{TOP}.{NAME[version]}"
    assert said(read(deployment(version, on(version, "rack", "")))) == [
        (path, f"{path} in body should be at least 1 chars long")
    ]


@BOTH
def test_the_name_of_the_other_version_is_told(version: str) -> None:
    other = NAME[BETA if version == ALPHA else ALPHA]
    (finding,) = read(deployment(version, {other: "cluster", "packDomain": "rack"})).findings
    assert (finding.field, finding.fix) == (f"{TOP}.{NAME[version]}", f"this version calls {other!r} {NAME[version]!r}")


@BOTH
def test_a_component_needs_the_deployment_to_name_the_topology(version: str) -> None:
    (finding,) = read(deployment(version, None, {"packDomain": "rack"})).findings
    assert (finding.field, finding.message) == (TOP, "is required when any component topology constraint is set")
    assert NAME[version] in finding.fix


@BOTH
def test_some_domain_is_needed(version: str) -> None:
    message = "is required when no component topologyConstraint is set"
    assert said(read(deployment(version, on(version)))) == [(f"{TOP}.packDomain", message)]


@BOTH
def test_a_component_is_not_kept_together_more_broadly(version: str) -> None:
    message = 'must be equal to or narrower than the deployment-level domain "rack"'
    reading = read(deployment(version, on(version, "rack"), {"packDomain": "zone"}))
    assert said(reading) == [(f"{field(version, 'decode')}.packDomain", message)]
    assert said(read(deployment(version, on(version, "rack"), {"packDomain": "rack"}))) == []


@BOTH
def test_a_component_domain_that_does_not_exist(version: str) -> None:
    reading = read(deployment(version, on(version, "zone"), {"packDomain": "spine"}))
    assert said(reading) == [(f"{field(version, 'decode')}.packDomain", AVAILABLE)]


@pytest.mark.parametrize(("version", "message"), [(ALPHA, "Required value"), (BETA, AVAILABLE)])
def test_a_component_constraint_without_a_domain(version: str, message: str) -> None:
    reading = read(deployment(version, on(version, "zone"), {}))
    assert said(reading) == [(f"{field(version, 'decode')}.packDomain", message)]


@BOTH
@pytest.mark.parametrize("on_component", [True, False])
def test_one_host_for_what_spans_several_is_advised_against(version: str, on_component: bool) -> None:
    host = {"packDomain": "host"}
    document = deployment(version, on(version), host) if on_component else deployment(version, on(version, "host"))
    (finding,) = read(document).findings
    assert (finding.severity, finding.rule) == ("warning", "dynamo/host-multinode")
    assert finding.field == f"{field(version, 'decode') if on_component else TOP}.packDomain"
    assert read(deployment(version, on(version), None, host)).findings == ()


@BOTH
def test_without_grove_nothing_is_kept_together(version: str) -> None:
    document = deployment(version, on(version, "rack", "unheard-of"), {"packDomain": "zone"})
    document["metadata"]["annotations"] = {"nvidia.com/enable-grove": "False"}
    reading = read(document)
    assert [(finding.severity, finding.rule) for finding in reading.findings] == [("warning", "dynamo/grove-pathway")]
    assert reading.workload is not None
    assert reading.workload.topology is None
    assert all(group.required is None for group, _ in reading.workload.groups[0].everything())
    document["metadata"]["annotations"]["nvidia.com/enable-grove"] = "true"
    assert "dynamo/topology-exists" in {finding.rule for finding in read(document).findings}


IMMUTABLE = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)


@BOTH
@pytest.mark.parametrize(
    ("top", "decode", "at"),
    [
        (("rack",), "rack", TOP),
        (("zone", "other"), "rack", TOP),
        (None, None, TOP),
        (("zone",), "host", "decode"),
        (("zone",), None, "decode"),
    ],
)
def test_constraints_do_not_change(version: str, top: tuple[str, ...] | None, decode: str | None, at: str) -> None:
    known = ClusterFacts({**KNOWN.topologies, "other": TopologyLevels("other", (ZONE, RACK, HOST))})
    before = deployment(version, on(version, "zone"), {"packDomain": "rack"})
    assert read(before, copy.deepcopy(before), known).findings == ()
    after = deployment(version, on(version, *top) if top else None, {"packDomain": decode} if decode else None)
    where = TOP if at == TOP else field(version, "decode")
    assert (where, IMMUTABLE) in said(read(after, before, known))


def test_the_version_of_the_api_is_no_change() -> None:
    before = deployment(ALPHA, on(ALPHA, "zone"), {"packDomain": "rack"})
    assert read(deployment(BETA, on(BETA, "zone"), {"packDomain": "rack"}), before).findings == ()


def test_resources_in_dynamos_own_form() -> None:
    document = deployment(ALPHA)
    service = document["spec"]["services"]["prefill"]
    service["resources"] = {
        "requests": {"cpu": "4", "custom": {"rdma/ib": "1"}},
        "limits": {"gpu": "2", "gpuType": "gpu.intel.com/xe"},
    }
    service["extraPodSpec"] = {
        "nodeSelector": {"pool": "gpu"},
        "mainContainer": {"resources": {"requests": {"cpu": "8"}}},
        "containers": [{"name": "sidecar", "resources": {"requests": {"cpu": "1"}}}],
    }
    workload = accepted(read(document))
    (pods,) = workload.groups[0].groups[1].pods
    assert dict(pods.requests) == {"cpu": 9000, "gpu.intel.com/xe": 2, "rdma/ib": 1}
    assert pods.node_filter.selector == (("pool", "gpu"),)


def test_a_quantity_in_dynamos_own_form_is_named_where_it_stands() -> None:
    document = deployment(ALPHA)
    document["spec"]["services"]["prefill"]["resources"] = {"limits": {"gpu": "many", "custom": {"rdma/ib": "-1"}}}
    assert [finding.field for finding in read(document).findings] == [
        "spec.services.prefill.resources.limits.gpu",
        "spec.services.prefill.resources.limits.custom.rdma/ib",
    ]
