"""Grove's PodCliqueSet: each rule with a set that keeps it and one that breaks it, in Grove's own words."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from tests.support.workloads import HOST, KNOWN, RACK, ZONE, accepted
from toposcope.integrations.framework.system import ClusterFacts, Reading, SchedulerProfiles
from toposcope.integrations.grove.schedulers import profiles_of
from toposcope.integrations.grove.workload import SYSTEM as GROVE

MUST_HAVE_HOST = {"pack": {"required": "host"}}


def pod_clique_set(top: Any = None, decode: Any = None, **parts: Any) -> dict[str, Any]:
    """One scaling group `decode` of two cliques, and a clique of its own; each with a constraint, or None."""
    cliques = [clique(name, 3 if name == "worker" else 1, parts.get(name)) for name in ("router", "leader", "worker")]
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "topologyConstraint": decode}
    template = {"cliques": cliques, "podCliqueScalingGroups": [group], "topologyConstraint": top}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "ml", "labels": {"kai.scheduler/queue": "research"}},
        "spec": {"replicas": 2, "template": template},
    }


def clique(name: str, replicas: int, constraint: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = {"schedulerName": "kai-scheduler", "containers": [container]}
    spec = {"roleName": name, "replicas": replicas, "podSpec": pod}
    return {"name": name, "spec": spec, "topologyConstraint": constraint}


def packed(domain: str, **more: Any) -> dict[str, Any]:
    return {"topologyName": "cluster", "pack": {"required": domain}, **more}


def read(document: dict[str, Any], before: dict[str, Any] | None = None, known: ClusterFacts = KNOWN) -> Reading:
    return GROVE.read(document, known, before)


def reported(reading: Reading) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in reading.findings]


def test_the_tree_of_a_set() -> None:
    workload = accepted(read(pod_clique_set(packed("zone"), {"pack": {"required": "rack", "preferred": "host"}})))
    assert (workload.handle, workload.topology) == ("podcliqueset/llm -n ml", "cluster")
    (top,) = workload.groups
    assert (top.copies, top.required) == (2, ZONE)
    assert top.total() == {"pods": 1 + 2 * 4, "nvidia.com/gpu": 8 * (1 + 2 * 4)}
    decode, router = top.groups
    assert (decode.copies, decode.required, decode.preferred) == (2, RACK, HOST)
    assert [group.pods[0].count for group in decode.groups] == [1, 3]
    assert (router.pods[0].name, router.required) == ("router", None)


def test_what_kai_places_at_once() -> None:
    """The base gang has `minAvailable` (1) of the scaling group's 2 replicas; each other one is a gang of its own."""
    workload = accepted(read(pod_clique_set(packed("zone"), {"pack": {"required": "rack"}})))
    base, scaled = workload.pod_groups
    assert workload.gang
    assert (base.required, base.copies, base.total()["pods"]) == (ZONE, 2, 1 + 4)
    assert [group.name for group in base.groups] == ["scaling group decode", "clique router"]
    assert (scaled.required, scaled.copies, scaled.total()["pods"]) == (RACK, 2, 4)
    assert "beyond its minAvailable by themselves: not always in the zone of the others" in workload.notes[0]
    whole = pod_clique_set(packed("zone"))
    assert [gang.required for gang in accepted(read(whole)).pod_groups] == [ZONE, ZONE]
    whole["spec"]["template"]["podCliqueScalingGroups"][0]["minAvailable"] = 2
    (only,) = accepted(read(whole)).pod_groups
    assert only.total()["pods"] == 1 + 2 * 4
    # A clique that starts with fewer pods than it asks for: which of them belong to the gang is KAI's to decide.
    whole["spec"]["template"]["cliques"][2]["spec"]["minAvailable"] = 2
    assert (accepted(read(whole)).gang, accepted(read(whole)).pod_groups) == (None, ())


def test_a_set_that_asks_for_nothing_has_no_topology() -> None:
    workload = accepted(read(pod_clique_set()))
    assert workload.topology is None


TOP = "spec.template.topologyConstraint"


@pytest.mark.parametrize(
    ("constraint", "field", "message"),
    [
        ({"topologyName": "cluster"}, f"{TOP}.pack", "topologyConstraint must specify pack or deprecated packDomain"),
        (
            {"topologyName": "cluster", "pack": {}},
            f"{TOP}.pack",
            "pack must specify at least one of required or preferred",
        ),
        (
            packed("rack", packDomain="rack"),
            f"{TOP}.pack.required",
            "must not set both pack.required and deprecated packDomain",
        ),
        (
            {"topologyName": "cluster", "packDomain": "rack"},
            f"{TOP}.packDomain",
            "packDomain is deprecated and cannot be used on new workloads; use pack.required",
        ),
        (packed("rack", topologyName="clutser"), f"{TOP}.topologyName", 'ClusterTopologyBinding "clutser" not found'),
        (
            {"pack": {"required": "rack"}},
            f"{TOP}.topologyName",
            "topologyName is required when topologyConstraint is set and cannot be inherited",
        ),
        (
            packed("rak"),
            f"{TOP}.pack.required",
            "topology domain 'rak' does not exist in cluster topology [zone rack host]",
        ),
        (
            packed("example.com/rack"),
            f"{TOP}.pack.required",
            f"{TOP}.pack.required in body should match '^[a-z][a-z0-9-]*$'",
        ),
        (packed(""), f"{TOP}.pack.required", f"{TOP}.pack.required in body should be at least 1 chars long"),
        (packed("r" * 64), f"{TOP}.pack.required", "may not be more than 63 bytes"),
        (packed("rack", pak={}), f"{TOP}.pak", f'unknown field "{TOP}.pak"'),
    ],
)
def test_what_grove_refuses(constraint: dict[str, Any], field: str, message: str) -> None:
    reading = read(pod_clique_set(constraint))
    assert (field, message) in reported(reading)
    assert reading.findings[0].severity == "error"
    assert reading.findings[0].fix


def test_the_fix_offers_the_name_that_was_meant() -> None:
    assert read(pod_clique_set(packed("rak"))).findings[0].fix == "did you mean 'rack'?"
    by_key = read(pod_clique_set(packed("example.com/rack"))).findings[0]
    assert by_key.fix == "Grove takes the domain: write 'rack'"


def broken(document: dict[str, Any], *keys: str | int, value: Any) -> dict[str, Any]:
    """A copy with another value at this place of the template; None: without any."""
    changed = copy.deepcopy(document)
    place = changed["spec"]["template"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return changed


NARROWER = "topology constraint domain 'host' is narrower than"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            pod_clique_set(packed("host"), router=packed("zone")),
            [(TOP, f"PodCliqueSet {NARROWER} PodClique 'router' topology constraint domain 'zone'")],
        ),
        (
            pod_clique_set(packed("zone"), packed("host"), leader=packed("rack")),
            [
                (
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint",
                    f"PodCliqueScalingGroup 'decode' {NARROWER} PodClique 'leader' topology constraint domain 'rack'",
                )
            ],
        ),
        (
            pod_clique_set(
                {"topologyName": "cluster", "pack": {"preferred": "host"}}, router={"pack": {"preferred": "zone"}}
            ),
            [
                (
                    f"{TOP}.pack.preferred",
                    f"PodCliqueSet {NARROWER} PodClique 'router' topology constraint domain 'zone'",
                )
            ],
        ),
        # Required and preferred levels are not compared with each other.
        (pod_clique_set({"topologyName": "cluster", "pack": {"preferred": "host"}}, packed("zone")), []),
        # Grove compares no levels while one does not exist.
        (
            pod_clique_set(packed("host"), router=packed("zone"), leader=packed("shelf")),
            [
                (
                    "spec.template.cliques[1].topologyConstraint.pack.required",
                    "topology domain 'shelf' does not exist in cluster topology [zone rack host]",
                )
            ],
        ),
    ],
)
def test_a_part_is_not_kept_together_more_broadly_than_the_whole(
    document: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert reported(read(document)) == expected


def test_one_topology_for_all() -> None:
    message = (
        "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
    )
    inherited = pod_clique_set(packed("zone"), router=packed("rack", topologyName="other"))
    assert reported(read(inherited)) == [("spec.template.cliques[0].topologyConstraint.topologyName", message)]
    apart = pod_clique_set(None, packed("zone"), router=packed("rack", topologyName="other"))
    assert [text for _, text in reported(read(apart))] == [message, message]


def test_a_clique_inherits_the_topology_of_its_scaling_group() -> None:
    assert read(pod_clique_set(None, packed("rack"), leader=MUST_HAVE_HOST)).findings == ()
    document = pod_clique_set(None, packed("rack"), leader=MUST_HAVE_HOST, router=MUST_HAVE_HOST)
    assert [finding.rule for finding in read(document).findings] == ["grove/topology-name"]


@pytest.mark.parametrize(
    ("preferred", "message", "placeable"),
    [
        ("zone", f"{TOP}.pack.preferred is coarser than {TOP}.pack.required and is redundant", False),
        ("rack", "preferred 'rack' is not narrower than the required level, so it has no effect", True),
    ],
)
def test_a_preferred_level_that_is_not_narrower(preferred: str, message: str, placeable: bool) -> None:
    """Grove warns of a broader one; KAI schedules nothing then."""
    reading = read(pod_clique_set({"topologyName": "cluster", "pack": {"required": "rack", "preferred": preferred}}))
    (finding,) = reading.findings
    assert (finding.severity, finding.rule, finding.message) == ("warning", "grove/preferred-no-effect", message)
    assert reading.workload
    assert reading.workload.placeable is placeable


SET = pod_clique_set(packed("zone"), {"pack": {"required": "rack"}})
CLIQUE = ("cliques", 0)
GROUP = ("podCliqueScalingGroups", 0)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("cliques",), [], "at least one PodClique must be defined"),
        ((*CLIQUE, "name"), "", "field cannot be empty"),
        ((*CLIQUE, "name"), "Router", "invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain"),
        ((*CLIQUE, "name"), "leader", 'Duplicate value: ["leader"]'),
        ((*CLIQUE, "spec", "roleName"), "leader", 'Duplicate value: ["leader"]'),
        ((*CLIQUE, "spec", "roleName"), None, "Required value"),
        ((*CLIQUE, "spec", "replicas"), 0, "must be greater than 0"),
        ((*CLIQUE, "spec", "minAvailable"), 2, "minAvailable must not be greater than replicas"),
        ((*CLIQUE, "spec", "minAvailable"), 0, "must be greater than 0"),
        (
            (*CLIQUE, "spec", "autoScalingConfig"),
            {"minReplicas": 0, "maxReplicas": 4},
            "must be greater than or equal to podCliqueSpec.minAvailable",
        ),
        (
            (*CLIQUE, "spec", "autoScalingConfig"),
            {"minReplicas": 3, "maxReplicas": 2},
            "must be greater than or equal to podCliqueSpec.minReplicas",
        ),
        (
            ("cliques", 1, "spec", "autoScalingConfig"),
            {"maxReplicas": 2},
            "AutoScalingConfig is not allowed to be defined for PodClique that is part of scaling group",
        ),
        ((*CLIQUE, "spec", "podSpec", "topologySpreadConstraints"), [], "must not be set"),
        ((*CLIQUE, "spec", "podSpec", "nodeName"), "n1", "must not be set"),
        ((*GROUP, "name"), "De_code", "invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain"),
        ((*GROUP, "cliqueNames"), ["leader", "leader"], 'Duplicate value: ["leader"]'),
        ((*GROUP, "cliqueNames"), ["leadr"], "unidentified PodClique names found"),
        ((*GROUP, "replicas"), 0, "must be greater than 0"),
        ((*GROUP, "minAvailable"), 3, "minAvailable must not be greater than replicas"),
        (
            (*GROUP, "scaleConfig"),
            {"minReplicas": 0, "maxReplicas": 2},
            "scaleConfig.minReplicas must be greater than or equal to minAvailable",
        ),
        # 3 + 38 + 6 characters, and 3 + 43 without a group
        (
            (*GROUP, "name"),
            "d" * 38,
            (
                "combined resource name length 47 exceeds 45-character limit required for pod naming. "
                f"Consider shortening: PodCliqueSet 'llm', PodCliqueScalingGroup '{'d' * 38}', or PodClique 'leader'"
            ),
        ),
        (
            (*CLIQUE, "name"),
            "r" * 43,
            (
                "combined resource name length 46 exceeds 45-character limit required for pod naming. "
                f"Consider shortening: PodCliqueSet 'llm' or PodClique '{'r' * 43}'"
            ),
        ),
        (("topologyConstrain",), packed("zone"), 'unknown field "spec.template.topologyConstrain"'),
        (
            (*CLIQUE, "spec", "podSpec", "schedulername"),
            "kai-scheduler",
            'unknown field "spec.template.cliques[0].spec.podSpec.schedulername"',
        ),
        (
            (*CLIQUE, "spec", "podSpec", "containers", 0, "resource"),
            {},
            'unknown field "spec.template.cliques[0].spec.podSpec.containers[0].resource"',
        ),
        (
            (*CLIQUE, "topologyConstraints"),
            packed("zone"),
            'unknown field "spec.template.cliques[0].topologyConstraints"',
        ),
    ],
)
def test_what_grove_refuses_of_its_parts(keys: tuple[str | int, ...], value: Any, message: str) -> None:
    assert not read(SET).findings
    found = [finding for finding in read(broken(SET, *keys, value=value)).findings if finding.severity == "error"]
    assert found[0].message == message
    assert found[0].fix


@pytest.mark.parametrize(
    ("after", "messages"),
    [
        ({"leader": ["router"], "worker": ["leader"]}, []),
        ({"leader": ["worker"], "worker": ["leader"]}, ["clique must not have circular dependencies"]),
        ({"leader": ["leader"]}, ["clique dependency cannot refer to itself"]),
        (
            {"leader": ["other"]},
            ["unknown clique names found, all clique dependencies must be defined as cliques"],
        ),
    ],
)
def test_an_explicit_order_of_cliques(after: dict[str, list[str]], messages: list[str]) -> None:
    document = broken(SET, "cliqueStartupType", value="CliqueStartupTypeExplicit")
    for part in document["spec"]["template"]["cliques"]:
        part["spec"]["startsAfter"] = after.get(part["name"])
    assert [finding.message for finding in read(document).findings] == messages


def test_a_field_that_newer_versions_may_have_is_a_warning() -> None:
    (finding,) = read(broken(SET, "rollout", value={})).findings
    assert (finding.severity, finding.message) == ("warning", 'unknown field "spec.template.rollout"')


def test_a_set_without_replicas_has_no_pods() -> None:
    document = copy.deepcopy(SET)
    del document["spec"]["replicas"]
    (finding,) = read(document).findings
    assert (finding.severity, finding.field) == ("warning", "spec.replicas")


# Schedulers: Grove refuses those that are not enabled, and only KAI keeps constraints.

KUBE = profiles_of({"scheduler": {"profiles": [{"name": "kai-scheduler"}]}})
KAI = profiles_of({"scheduler": {"defaultProfileName": "kai-scheduler", "profiles": [{"name": "kai-scheduler"}]}})
VOLCANO = profiles_of({"scheduler": {"profiles": [{"name": "volcano"}]}})
ONLY_KAI_KEEPS = "default-scheduler keeps no topology constraint: Grove accepts it, and the pods land anywhere"


def scheduled(*names: str | None, top: Any = None) -> dict[str, Any]:
    """The set with a scheduler for each of its three cliques."""
    document = pod_clique_set(top)
    for part, name in zip(document["spec"]["template"]["cliques"], names, strict=True):
        part["spec"]["podSpec"]["schedulerName"] = name
    return document


ZONED = packed("zone")


@pytest.mark.parametrize(
    ("document", "profiles", "rules"),
    [
        (scheduled(None, None, None), None, []),
        (scheduled(None, None, None, top=ZONED), None, ["warning grove/scheduler-default"]),
        (scheduled(None, None, None, top=ZONED), KUBE, ["warning grove/scheduler-name"]),
        (scheduled(None, None, None, top=ZONED), KAI, []),
        (scheduled(*["default-scheduler"] * 3, top=ZONED), KAI, ["warning grove/scheduler-name"]),
        (scheduled(*["default-scheduler"] * 3), KAI, []),
        (scheduled(None, None, "kai-scheduler", top=ZONED), None, ["error grove/one-scheduler"]),
        (scheduled(None, None, "kai-scheduler", top=ZONED), KAI, []),
        (scheduled("default-scheduler", *["kai-scheduler"] * 2), KAI, ["error grove/one-scheduler"]),
        (scheduled(*["slurm"] * 3), None, ["error grove/scheduler-enabled"]),
        (scheduled(*["volcano"] * 3), None, ["warning grove/scheduler-enabled"]),
        (scheduled(*["volcano"] * 3), KAI, ["error grove/scheduler-enabled"]),
        (scheduled(*["volcano"] * 3), VOLCANO, []),
        (scheduled(*["volcano"] * 3, top=ZONED), None, ["error grove/scheduler-enabled"]),
        (scheduled(*["volcano"] * 3, top=ZONED), VOLCANO, ["error grove/scheduler-enabled"]),
    ],
)
def test_who_schedules_the_pods(document: dict[str, Any], profiles: SchedulerProfiles | None, rules: list[str]) -> None:
    on = None if profiles is None else replace(profiles, topology_aware=True)
    found = read(document, known=replace(KNOWN, grove=on)).findings
    assert [f"{finding.severity} {finding.rule}" for finding in found] == rules


def test_no_room_is_promised_where_nothing_keeps_the_pods_together() -> None:
    reading = read(scheduled(*["default-scheduler"] * 3, top=ZONED))
    assert [finding.message for finding in reading.findings] == [ONLY_KAI_KEEPS]
    assert reading.workload
    assert not reading.workload.placeable


def test_topology_aware_scheduling_is_disabled() -> None:
    reading = read(pod_clique_set(packed("zone")), known=replace(KNOWN, grove=KAI))
    message = "topology constraints are not allowed when Topology Aware Scheduling is disabled"
    assert reported(reading) == [(TOP, message)]


@pytest.mark.parametrize(
    ("own", "router", "found"),
    [
        ("research", "", []),
        ("", "research", []),
        ("research", "research", []),
        (
            "",
            "",
            [("warning", "no KAI queue is configured on PodCliqueSet ml/llm or its PodClique templates")],
        ),
        (
            "research",
            "x",
            [
                (
                    "error",
                    'KAI queue on PodCliqueSet ml/llm is "research" but PodClique template "router" resolves to "x"',
                )
            ],
        ),
    ],
)
def test_kai_needs_one_queue(own: str, router: str, found: list[tuple[str, str]]) -> None:
    document = broken(SET, *CLIQUE, "annotations", value={"kai.scheduler/queue": router})
    document["metadata"]["labels"] = {"kai.scheduler/queue": own}
    assert [(finding.severity, finding.message) for finding in read(document).findings] == found
    assert not read(document, document).findings or own == "research"  # it exists without


# Changes

LEGACY = pod_clique_set({"packDomain": "zone"}, router={"packDomain": "rack"})


@pytest.mark.parametrize(
    ("before", "keys", "value", "messages"),
    [
        (
            SET,
            ("topologyConstraint", "pack", "required"),
            "rack",
            [
                (
                    'PodCliqueSet topology constraint cannot be changed from required="zone" preferred="" '
                    'to required="rack" preferred=""'
                )
            ],
        ),
        (
            SET,
            ("topologyConstraint", "topologyName"),
            "other",
            ['topologyName cannot be changed from "cluster" to "other"'],
        ),
        (
            SET,
            (*CLIQUE, "topologyConstraint"),
            MUST_HAVE_HOST,
            ["PodClique 'router' topology constraint cannot be added after creation"],
        ),
        (
            SET,
            (*GROUP, "topologyConstraint"),
            None,
            ["PodCliqueScalingGroup 'decode' topology constraint cannot be removed after creation"],
        ),
        (
            SET,
            (*GROUP, "topologyConstraint", "topologyName"),
            "cluster",
            ["PodCliqueScalingGroup 'decode' topology constraint topologyName cannot be changed from '' to 'cluster'"],
        ),
        (SET, ("topologyConstraint", "packDomain"), None, []),
        (SET, (*CLIQUE, "spec", "replicas"), 5, []),
        (SET, (*GROUP, "replicas"), 5, []),
        (SET, (*CLIQUE, "spec", "roleName"), "other", ["field is immutable"]),
        (
            SET,
            (*CLIQUE, "spec", "podSpec", "schedulerName"),
            "default-scheduler",
            ["field is immutable", "the schedulerName for all pods have to be the same"],
        ),
        (SET, (*GROUP, "cliqueNames"), ["worker", "leader"], ["field is immutable"]),
        (SET, ("cliqueStartupType",), "CliqueStartupTypeInOrder", ["field is immutable"]),
        (
            SET,
            (*CLIQUE, "name"),
            "gateway",
            ["not allowed to change clique composition, new clique name 'gateway' is not allowed"],
        ),
        (
            SET,
            (*GROUP, "name"),
            "prefill",
            ["not allowed to change scaling group composition, new scaling group name 'prefill' is not allowed"],
        ),
        (SET, ("podCliqueScalingGroups",), [], ["not allowed to add or remove PodCliqueScalingGroupConfigs"]),
        (
            pod_clique_set({"topologyName": "cluster", "packDomain": "zone"}),
            ("topologyConstraint",),
            packed("zone"),
            [],
        ),
        (
            pod_clique_set({"topologyName": "cluster", "packDomain": "zone"}),
            ("topologyConstraint",),
            packed("rack"),
            [
                (
                    "PodCliqueSet deprecated packDomain migration can only move packDomain to pack.required without "
                    'changing the required or preferred topology domain (old required="zone" preferred="", '
                    'new required="rack" preferred="")'
                )
            ],
        ),
        (LEGACY, ("topologyConstraint", "topologyName"), "cluster", []),
        (LEGACY, ("topologyConstraint", "topologyName"), "none", ['ClusterTopologyBinding "none" not found']),
    ],
)
def test_what_may_change_once_the_set_exists(
    before: dict[str, Any], keys: tuple[str | int, ...], value: Any, messages: list[str]
) -> None:
    after = broken(before, *keys, value=value)
    found = read(after, before).findings
    assert [finding.message for finding in found if finding.severity == "error"] == messages


def test_cliques_may_stand_in_another_order_unless_they_start_in_it() -> None:
    after = copy.deepcopy(SET)
    after["spec"]["template"]["cliques"].reverse()
    assert read(after, SET).findings == ()
    before = broken(SET, "cliqueStartupType", value="CliqueStartupTypeInOrder")
    after = broken(after, "cliqueStartupType", value="CliqueStartupTypeInOrder")
    messages = [finding.message for finding in read(after, before).findings]
    assert messages[0].endswith("Expected 'worker' at position 0, got 'worker'")
    assert len(messages) == 2


def test_levels_that_went_do_not_keep_an_object_from_changing() -> None:
    """Grove looks at them at creation only; the object as it stands is broken all the same."""
    document = pod_clique_set(packed("shelf"))
    changed = broken(document, *CLIQUE, "spec", "replicas", value=5)
    assert [finding.severity for finding in read(changed, document).findings] == ["warning"]
    assert [finding.severity for finding in read(document, document).findings] == ["error"]
