"""Dynamo's DynamoGraphDeployment: each rule kept and broken, in Dynamo's own words."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api import ApiUnderTest
from tests.support.upstream_crds import described, upstream_crd
from tests.support.workloads import KNOWN, LEVELS, RACK, ZONE, accepted, understood
from tests.support.workloads import reported as reported_with_severity
from toposcope.integrations.dynamo.workload import SYSTEM as DYNAMO
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading

ALPHA, BETA = "v1alpha1", "v1beta1"
BOTH = pytest.mark.parametrize("version", [ALPHA, BETA])
NAME = {ALPHA: "topologyProfile", BETA: "clusterTopologyName"}
TOP = "spec.topologyConstraint"


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


def constrained(version: str, top: tuple[str, ...] | None, decode: str | None) -> dict[str, Any]:
    """A deployment with the domain (and the topology) of the whole, and the domain of the decode workers."""
    whole = on(version, *top) if top is not None else None
    return deployment(version, whole, {"packDomain": decode} if decode else None)


def field(version: str, component: str) -> str:
    number = ["frontend", "prefill", "decode"].index(component)
    where = f"services.{component}" if version == ALPHA else f"components[{number}]"
    return f"spec.{where}.topologyConstraint"


def read(document: dict[str, Any], before: dict[str, Any] | None = None, known: ClusterFacts = KNOWN) -> Reading:
    return DYNAMO.read(document, known, before)


def reported(reading: Reading, severity: str = "error") -> list[tuple[str, str]]:
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
@pytest.mark.parametrize(
    ("top", "decode", "whole", "groups"),
    [(("rack",), None, RACK, [None] * 3), ((), "rack", None, [None, None, RACK]), (None, None, None, [None] * 3)],
    ids=["deployment only", "component only", "none"],
)
def test_where_constraints_stand(
    version: str, top: tuple[str, ...] | None, decode: str | None, whole: Any, groups: Any
) -> None:
    workload = accepted(read(constrained(version, top, decode)))
    assert workload.topology == ("cluster" if top is not None else None)
    assert workload.groups[0].required == whole
    assert [group.required for group in workload.groups[0].groups] == groups


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
    workload = understood(reading)
    assert (workload.placeable, bool(workload.notes)) == (False, True)
    assert (where, message) in reported(reading)
    assert fix in next(finding.fix for finding in reading.findings if finding.field == where)


@BOTH
@pytest.mark.parametrize(
    ("top", "decode", "at", "message"),
    [
        (("rack", ""), None, "name", "{path} in body should be at least 1 chars long"),
        ((), None, "packDomain", "is required when no component topologyConstraint is set"),
        (("rack",), "zone", "decode", 'must be equal to or narrower than the deployment-level domain "rack"'),
        (("rack",), "rack", "decode", ""),
        (("zone",), "spine", "decode", AVAILABLE.replace("Binding", "")),
    ],
    ids=["empty name", "no domain at all", "broader component", "equal component", "unknown component domain"],
)
def test_rules_of_names_and_domains(
    version: str, top: tuple[str, ...], decode: str | None, at: str, message: str
) -> None:
    places = {"name": f"{TOP}.{NAME[version]}", "packDomain": f"{TOP}.packDomain"}
    path = places.get(at) or f"{field(version, 'decode')}.packDomain"
    expected = [(path, message.format(path=path) if at == "name" else message)] if message else []
    assert reported(read(constrained(version, top, decode))) == expected


@BOTH
def test_the_name_of_the_other_version_is_recognised(version: str) -> None:
    other = NAME[BETA if version == ALPHA else ALPHA]
    (finding,) = read(deployment(version, {other: "cluster", "packDomain": "rack"})).findings
    assert (finding.field, finding.fix) == (f"{TOP}.{NAME[version]}", f"this version calls {other!r} {NAME[version]!r}")


@BOTH
def test_a_component_needs_the_deployment_to_name_the_topology(version: str) -> None:
    (finding,) = read(deployment(version, None, {"packDomain": "rack"})).findings
    assert (finding.field, finding.message) == (TOP, "is required when any component topology constraint is set")
    assert NAME[version] in finding.fix


@pytest.mark.parametrize(("version", "message"), [(ALPHA, "Required value"), (BETA, AVAILABLE.replace("Binding", ""))])
def test_a_component_constraint_without_a_domain(version: str, message: str) -> None:
    reading = read(deployment(version, on(version, "zone"), {}))
    assert reported(reading) == [(f"{field(version, 'decode')}.packDomain", message)]


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
    workload = understood(reading)
    assert workload.topology is None
    assert all(group.required is None for group, _ in workload.groups[0].everything())
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
    known = ClusterFacts({**KNOWN.topologies, "other": TopologyLevels("other", LEVELS)})
    before = deployment(version, on(version, "zone"), {"packDomain": "rack"})
    assert read(before, copy.deepcopy(before), known).findings == ()
    where = TOP if at == TOP else field(version, "decode")
    assert (where, IMMUTABLE) in reported(read(constrained(version, top, decode), before, known))


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


@pytest.mark.real_api("lengths of text")
@pytest.mark.parametrize("source", [described, upstream_crd])
@pytest.mark.parametrize("version", NAME)
def test_the_crd_and_we_say_the_same(api: ApiUnderTest, version: str, source: Callable[[str], dict[str, Any]]) -> None:
    api.install_crd(source(f"dynamo-dynamographdeployments-{version}-reduced"))
    path = f"/apis/nvidia.com/{version}/namespaces/default/dynamographdeployments"
    name, rack = NAME[version], {"packDomain": "rack"}
    for top, worker in (
        ({name: "cluster", "packDomain": "Rack"}, None),
        ({name: "cluster", "packDomain": ""}, None),
        ({name: "", "packDomain": "rack"}, None),
        ({"packDomain": "rack"}, None),
        ({name: "cluster"}, {"packDomain": "-rack"}),
        ({name: "cluster"}, {}),
        ({name: "cluster"}, rack),
        ({name: "cluster", "packDomain": "rack"}, rack),
    ):
        document = deployment(version, top, worker)
        document["metadata"]["namespace"] = "default"
        findings = read(document).findings
        code, answer = api.request("POST", f"{path}?dryRun=All", document)
        if code != 201:
            assert code == 422, answer
            assert any(finding.message in answer["message"] for finding in findings), (answer["message"], findings)
        by_crd = {"dynamo/domain-pattern", "dynamo/topology-name", "dynamo/component-domain"}
        assert (code == 201) == by_crd.isdisjoint(finding.rule for finding in findings), (answer, findings)


ONLY_ZONES = ClusterFacts({"cluster": TopologyLevels("cluster", (ZONE, RACK))}, frozenset({ZONE.key}))
POLICY = "spec.experimental.kvTransferPolicy"


def transferred(
    policy: Any, version: str = BETA, before: Any = None, grove: str = "true"
) -> list[tuple[str, str, str]]:
    """The findings on a deployment with this policy, which had another one `before`."""

    def document(transfer: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"nvidia.com/{version}",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llm", "annotations": {"nvidia.com/enable-grove": grove}},
            "spec": {"experimental": {"kvTransferPolicy": transfer}},
        }

    reading = read(document(policy), document(before) if before else None, ONLY_ZONES)
    assert all(finding.fix for finding in reading.findings)
    return reported_with_severity(reading)


@pytest.mark.parametrize(
    ("version", "policy"),
    [
        (BETA, {"clusterTopologyName": "cluster", "domain": "zone", "enforcement": "required"}),
        (BETA, {"labelKey": ZONE.key, "domain": "zone"}),
        (BETA, {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred", "preferredWeight": 0.85}),
        (ALPHA, {"labelKey": ZONE.key, "domain": "anything"}),
    ],
)
def test_policies_that_keep_the_rules(version: str, policy: dict[str, Any]) -> None:
    assert transferred(policy, version) == []


ONE_OF = "exactly one of labelKey or clusterTopologyName is required"
NOT_FOUND = "references a ClusterTopologyBinding resource that was not found"
UNHEARD = "so workers will not know their domain"


@pytest.mark.parametrize(
    ("policy", "severity", "at", "message"),
    [
        ({"domain": "zone"}, "error", "", ONE_OF),
        ({"labelKey": ZONE.key, "clusterTopologyName": "cluster", "domain": "zone"}, "error", "", ONE_OF),
        ({"labelKey": ZONE.key}, "error", ".domain", "Required value"),
        ({"clusterTopologyName": "other", "domain": "zone"}, "error", ".clusterTopologyName", NOT_FOUND),
        (
            {"clusterTopologyName": "cluster", "domain": "spine"},
            "error",
            ".domain",
            'does not exist in ClusterTopologyBinding "cluster"; available domains: [rack zone]',
        ),
        (
            {"clusterTopologyName": "cluster", "domain": "rack"},
            "warning",
            ".domain",
            f"no node carries the label 'example.com/rack', {UNHEARD}",
        ),
        (
            {"labelKey": "topology.kubernetes.io/zones", "domain": "zone"},
            "warning",
            ".labelKey",
            f"no node carries the label 'topology.kubernetes.io/zones', {UNHEARD}",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred"},
            "error",
            "",
            "preferredWeight is required when enforcement is preferred",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "preferredWeight": 0.5},
            "error",
            "",
            "preferredWeight may only be set when enforcement is preferred",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred", "preferredWeight": 2},
            "error",
            ".preferredWeight",
            f"{POLICY}.preferredWeight in body should be less than or equal to 1",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "enforcement": "preferred", "preferredWeight": -0.5},
            "error",
            ".preferredWeight",
            f"{POLICY}.preferredWeight in body should be greater than or equal to 0",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "enforcement": "always"},
            "error",
            ".enforcement",
            'Unsupported value: "always": supported values: "required", "preferred"',
        ),
        (
            {"labelKey": ZONE.key, "domain": "Zone"},
            "error",
            ".domain",
            f"{POLICY}.domain in body should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'",
        ),
        (
            {"labelKey": ZONE.key, "domain": "zone", "weight": 1},
            "error",
            ".weight",
            f'unknown field "{POLICY}.weight"',
        ),
    ],
)
def test_policies_that_break_one(policy: dict[str, Any], severity: str, at: str, message: str) -> None:
    assert transferred(policy) == [(severity, POLICY + at, message)]


def test_the_older_version_knows_labels_only() -> None:
    assert transferred({"domain": "zone"}, ALPHA) == [("error", f"{POLICY}.labelKey", "Required value")]


def test_a_topology_needs_grove() -> None:
    message = 'requires the Grove pathway; remove or unset annotation "nvidia.com/enable-grove" (currently "false")'
    policy = {"clusterTopologyName": "cluster", "domain": "zone"}
    assert ("error", f"{POLICY}.clusterTopologyName", message) in transferred(policy, grove="false")
    assert transferred({"labelKey": ZONE.key, "domain": "zone"}, grove="false") == []


def test_a_policy_does_not_change() -> None:
    policy = {"labelKey": ZONE.key, "domain": "zone"}
    assert transferred(policy, before={**policy, "enforcement": "required"}) == []
    ((severity, field, message),) = transferred(policy, before={**policy, "domain": "rack"})
    assert (severity, field) == ("error", POLICY)
    assert message == (
        "is immutable and cannot be added, removed, or changed after creation; "
        "delete and recreate the DynamoGraphDeployment to change the KV transfer policy"
    )


# Overrides: what Dynamo passes on to Grove as it stands

ON_RACK = {"topologyName": "cluster", "pack": {"required": "rack"}}
LATER = "Grove's webhook refuses the PodCliqueSet later: "
ROOT_VALUE = "spec.providerOverride.value"


def override(value: Any, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "grove.io/v1alpha1", "value": value, **more}


def on_set(constraint: Any) -> dict[str, Any]:
    return override({"spec": {"template": {"topologyConstraint": constraint}}})


def overridden(root: Any = None, prefill: Any = None, decode: Any = None, **roles: Any) -> dict[str, Any]:
    document = deployment(BETA)
    spec = document["spec"]
    spec["providerOverride"] = root
    spec["components"][1]["providerOverride"] = prefill
    spec["components"][2]["providerOverride"] = decode
    if roles:
        names = ("leader", "worker")
        spec["components"][2]["roles"] = [{"name": name, "providerOverride": roles.get(name)} for name in names]
    return document


def test_the_tree_of_overrides() -> None:
    host = override({"topologyConstraint": {"pack": {"required": "host"}}})
    rack = override({"topologyConstraint": {"pack": {"required": "rack", "preferred": "host"}}})
    document = overridden(on_set({"topologyName": "cluster", "pack": {"required": "zone"}}), rack, rack, worker=host)
    workload = accepted(read(document))
    (top,) = workload.groups
    assert (workload.topology, top.required) == ("cluster", ZONE)
    frontend, prefill, decode = top.groups
    assert (frontend.required, prefill.required, prefill.preferred) == (None, RACK, LEVELS[-1])
    assert (decode.required, decode.copies, [pods.count for pods in decode.pods]) == (RACK, 2, [1])
    assert [(group.required, group.pods[0].count) for group in decode.groups] == [(LEVELS[-1], 1)]


@pytest.mark.parametrize(
    ("document", "at", "message"),
    [
        (
            overridden(on_set({"topologyName": "cluster", "pack": {"required": "shelf"}})),
            f"{ROOT_VALUE}.spec.template.topologyConstraint.pack.required",
            f"{LATER}topology domain 'shelf' does not exist in cluster topology [zone rack host]",
        ),
        (
            overridden(on_set({"topologyName": "clutser", "pack": {"required": "rack"}})),
            f"{ROOT_VALUE}.spec.template.topologyConstraint.topologyName",
            f'{LATER}ClusterTopologyBinding "clutser" not found',
        ),
        (
            overridden(None, override({"topologyConstraint": {"pack": {"required": "rack"}}})),
            "spec.components[1].providerOverride.value.topologyConstraint.topologyName",
            f"{LATER}topologyName is required when topologyConstraint is set and cannot be inherited",
        ),
        (
            overridden(on_set(ON_RACK), None, override({"topologyConstraint": {"pack": {"required": "zone"}}})),
            f"{ROOT_VALUE}.spec.template.topologyConstraint",
            (
                f"{LATER}PodCliqueSet topology constraint domain 'rack' is narrower than "
                "PodCliqueScalingGroup 'decode' topology constraint domain 'zone'"
            ),
        ),
        (
            overridden(on_set(ON_RACK), leader=override({"topologyConstraint": {"pack": {"required": "zone"}}})),
            f"{ROOT_VALUE}.spec.template.topologyConstraint",
            (
                f"{LATER}PodCliqueSet topology constraint domain 'rack' is narrower than "
                "PodClique 'decode-ldr' topology constraint domain 'zone'"
            ),
        ),
        (
            overridden(override({"spec": {"template": {"cliques": []}}})),
            f"{ROOT_VALUE}.spec.template.cliques",
            "is Dynamo-owned or not enabled for provider override",
        ),
        (overridden(override({"spec": {}})), f"{ROOT_VALUE}.spec.template", "is required"),
        (overridden(override("rack")), ROOT_VALUE, "must be a JSON object"),
        (
            overridden(None, override({})),
            "spec.components[1].providerOverride.value.topologyConstraint",
            "topologyConstraint, minAvailable or rollingUpdate is required",
        ),
        (
            overridden(on_set(ON_RACK) | {"target": "PodClique"}),
            "spec.providerOverride.target",
            'must match the provider-context target "PodCliqueSet"',
        ),
        (
            overridden(on_set(ON_RACK) | {"apiVersion": "grove.io/v1"}),
            "spec.providerOverride.apiVersion",
            'Unsupported value: "grove.io/v1": supported values: "grove.io/v1alpha1"',
        ),
        (
            overridden(on_set({**ON_RACK, "pak": {}})),
            f"{ROOT_VALUE}.spec.template.topologyConstraint.pak",
            f'unknown field "{ROOT_VALUE}.spec.template.topologyConstraint.pak"',
        ),
    ],
)
def test_overrides_that_break_a_rule(document: dict[str, Any], at: str, message: str) -> None:
    assert (at, message) in reported(read(document))
    assert not understood(read(document)).placeable


def test_overrides_and_typed_constraints_exclude_each_other() -> None:
    document = overridden(None, override({"topologyConstraint": ON_RACK}))
    document["spec"]["topologyConstraint"] = on(BETA, "rack")
    (where, message) = reported(read(document))[0]
    assert where == "spec.components[1].providerOverride.value"
    assert message.startswith("cannot be combined with spec.topologyConstraint or components[].topologyConstraint")


def test_a_change_of_an_override_fails_at_grove() -> None:
    before = overridden(on_set(ON_RACK))
    after = overridden(on_set({"topologyName": "cluster", "pack": {"required": "zone"}}))
    assert read(copy.deepcopy(before), before).findings == ()
    (finding,) = read(after, before).findings
    assert finding.message.startswith(f"{LATER}PodCliqueSet topology constraint cannot be changed from required=")


# Who runs the pods

PROVIDER = "nvidia.com/workload-provider"


def provided(provider: str, **annotations: str) -> dict[str, Any]:
    document = deployment(BETA, on(BETA, "rack", "unheard-of"))
    document["metadata"]["annotations"] = {PROVIDER: provider, **annotations}
    return document


@pytest.mark.parametrize(
    ("document", "rules"),
    [
        (provided("grove"), ["dynamo/topology-exists"]),
        (provided("grove", **{"nvidia.com/enable-grove": "false"}), ["dynamo/topology-exists"]),
        (provided("component"), ["dynamo/grove-pathway"]),
        (provided("slurm"), ["dynamo/provider", "dynamo/grove-pathway"]),
    ],
)
def test_what_dynamo_wrote_decides(document: dict[str, Any], rules: list[str]) -> None:
    assert [finding.rule for finding in read(document).findings] == rules


def test_the_provider_does_not_change() -> None:
    after, before = provided("component"), provided("grove")
    assert (f"metadata.annotations[{PROVIDER}]", "field is immutable") in reported(read(after, before))
    del after["metadata"]["annotations"][PROVIDER]  # kubectl leaves alone what it did not write
    assert reported(read(after, before)) == []


def test_a_policy_on_a_topology_needs_the_provider() -> None:
    document = provided("component")
    document["spec"] = {"experimental": {"kvTransferPolicy": {"clusterTopologyName": "cluster", "domain": "zone"}}}
    message = 'requires the Grove pathway, but workload provider "component" is selected'
    assert reported(read(document)) == [(f"{POLICY}.clusterTopologyName", message)]


def test_an_override_needs_the_provider() -> None:
    document = overridden(on_set(ON_RACK))
    document["metadata"]["annotations"] = {"nvidia.com/enable-grove": "false"}
    message = 'requires workload provider "grove", but "component" is selected'
    assert reported(read(document)) == [("spec.providerOverride", message)]


# Roles, names, changes


def with_roles(*roles: dict[str, Any], nodes: int = 3, **more: Any) -> dict[str, Any]:
    multinode = {"multinode": {"nodeCount": nodes}} if nodes > 1 else {}
    return {
        **deployment(BETA),
        "spec": {"components": [{"name": "decode", "roles": list(roles), **multinode, **more}]},
    }


def template(gpus: int) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}


def test_roles_have_their_own_pods() -> None:
    leader = {"name": "leader", "podTemplate": template(1)}
    workload = accepted(read(with_roles(leader, {"name": "worker", "replicas": 2, "podTemplate": template(8)})))
    assert workload.groups[0].total() == {"pods": 3, "nvidia.com/gpu": 17}


@pytest.mark.parametrize(
    ("document", "at", "message"),
    [
        (
            with_roles({"name": "leader"}, {"name": "worker"}, nodes=1),
            "",
            (
                "roles are supported only for component shapes that define a role schema; "
                "this release supports multinode and LPX components"
            ),
        ),
        (with_roles({"name": "leader"}), "", 'must contain the "worker" role'),
        (
            with_roles({"name": "leader"}, {"name": "worker"}, {"name": "worker"}),
            "[2].name",
            'Duplicate value: "worker"',
        ),
        (
            with_roles({"name": "leader"}, {"name": "worker"}, {"name": "boss"}),
            "[2].name",
            'Unsupported value: "boss": supported values: "leader", "worker"',
        ),
        (
            with_roles({"name": "leader"}, {"name": "worker", "replicas": 3}),
            "[1].replicas",
            'must equal 2 for multinode role "worker"',
        ),
        (
            with_roles({"name": "leader", "podTemplate": template(1)}, {"name": "worker"}),
            "[1].podTemplate",
            "is required on every role when role-specific PodTemplates are used",
        ),
    ],
)
def test_roles_that_break_a_rule(document: dict[str, Any], at: str, message: str) -> None:
    assert reported(read(document)) == [(f"spec.components[0].roles{at}", message)]


@pytest.mark.parametrize(
    ("name", "nodes", "length"),
    # The deployment's own name is cut to 8 characters where it has to be.
    [("w" * 37, 1, 0), ("w" * 38, 1, 46), ("w" * 16, 2, 0), ("w" * 17, 2, 46)],
)
def test_names_that_pods_are_made_of(name: str, nodes: int, length: int) -> None:
    document = deployment(BETA)
    document["metadata"]["name"] = "a-long-name"
    document["spec"]["components"] = [{"name": name, "multinode": {"nodeCount": nodes}}]
    found = read(document).findings
    assert [finding.rule for finding in found] == ["dynamo/name-length"] * bool(length)
    assert not length or f"combined resource name length {length} exceeds the 45-character" in found[0].message


@BOTH
def test_levels_that_went_do_not_keep_a_deployment_from_changing(version: str) -> None:
    before = deployment(version, on(version, "shelf"))
    after = copy.deepcopy(before)
    assert [finding.severity for finding in read(after, before).findings] == ["warning"]
    assert [finding.severity for finding in read(before, before).findings] == ["error"]


@pytest.mark.parametrize(
    ("version", "constraint"),
    [(ALPHA, {"packDomain": "rack", "topologyProfile": "cluster"}), (BETA, {"packDomain": "rack", "level": "rack"})],
)
def test_a_field_that_components_do_not_have(version: str, constraint: dict[str, str]) -> None:
    document = deployment(version, on(version, "zone"), constraint)
    (name,) = set(constraint) - {"packDomain"}
    path = f"{field(version, 'decode')}.{name}"
    assert reported(read(document)) == [(path, f'unknown field "{path}"')]


def test_a_misspelt_constraint_does_not_go_unnoticed() -> None:
    document = deployment(BETA, on(BETA, "zone"))
    document["spec"]["components"][0]["topologyConstraints"] = {"packDomain": "rack"}
    assert [finding.rule for finding in read(document).findings] == ["dynamo/field"]
