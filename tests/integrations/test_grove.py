"""Grove's PodCliqueSet: each rule with a set that keeps it and one that breaks it, in Grove's own words."""

import copy
from typing import Any

import pytest

from tests.support.workloads import accepted
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.grove.workload import SYSTEM as GROVE
from toposcope.topology.levels import Level

ZONE, RACK = Level("zone", "topology.kubernetes.io/zone"), Level("rack", "example.com/rack")
HOST = Level("host", "kubernetes.io/hostname")
KNOWN = ClusterFacts({"cluster": TopologyLevels("cluster", (ZONE, RACK, HOST))})


def pod_clique_set(**template: Any) -> dict[str, Any]:
    """One scaling group of two cliques, and a clique of its own."""
    cliques = [clique("router"), clique("leader"), clique("worker", 3)]
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2}
    body = {"cliques": cliques, "podCliqueScalingGroups": [group], **template}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": {"replicas": 2, "template": body},
    }


def clique(name: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {"name": name, "spec": {"replicas": replicas, "podSpec": {"containers": [container]}}, **more}


def packed(domain: str, **more: Any) -> dict[str, Any]:
    return {"topologyName": "cluster", "pack": {"required": domain}, **more}


def read(document: dict[str, Any], before: dict[str, Any] | None = None) -> Reading:
    return GROVE.read(document, KNOWN, before)


def said(reading: Reading) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in reading.findings]


def test_the_tree_of_a_set() -> None:
    document = pod_clique_set(topologyConstraint=packed("zone"))
    document["spec"]["template"]["podCliqueScalingGroups"][0]["topologyConstraint"] = {
        "pack": {"required": "rack", "preferred": "host"}
    }
    workload = accepted(read(document))
    assert (workload.handle, workload.topology) == ("podcliqueset/llm -n ml", "cluster")
    (top,) = workload.groups
    assert (top.copies, top.required) == (2, ZONE)
    assert top.total() == {"pods": 1 + 2 * 4, "nvidia.com/gpu": 8 * (1 + 2 * 4)}
    decode, router = top.groups
    assert (decode.copies, decode.required, decode.preferred) == (2, RACK, HOST)
    assert [group.pods[0].count for group in decode.groups] == [1, 3]
    assert (router.pods[0].name, router.required) == ("router", None)


def test_a_set_that_asks_for_nothing_has_no_topology() -> None:
    workload = accepted(read(pod_clique_set()))
    assert workload.topology is None


TOP = "spec.template.topologyConstraint"


@pytest.mark.parametrize(
    ("constraint", "field", "message"),
    [
        ({"topologyName": "cluster"}, TOP, "topologyConstraint must specify pack or deprecated packDomain"),
        (
            {"topologyName": "cluster", "pack": {}},
            f"{TOP}.pack",
            "pack must specify at least one of required or preferred",
        ),
        (packed("rack", packDomain="rack"), TOP, "must not set both pack.required and deprecated packDomain"),
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
            "topology domain 'example.com/rack' does not exist in cluster topology [zone rack host]",
        ),
    ],
)
def test_what_grove_refuses(constraint: dict[str, Any], field: str, message: str) -> None:
    reading = read(pod_clique_set(topologyConstraint=constraint))
    assert said(reading) == [(field, message)]
    assert reading.findings[0].severity == "error"
    assert reading.findings[0].fix


def test_the_fix_offers_the_name_that_was_meant() -> None:
    assert read(pod_clique_set(topologyConstraint=packed("rak"))).findings[0].fix == "did you mean 'rack'?"
    by_key = read(pod_clique_set(topologyConstraint=packed("example.com/rack"))).findings[0]
    assert by_key.fix == "Grove takes the domain: write 'rack'"


def test_a_part_is_not_kept_together_more_broadly_than_the_whole() -> None:
    document = pod_clique_set(topologyConstraint=packed("rack"))
    document["spec"]["template"]["cliques"][0]["topologyConstraint"] = packed("zone")
    message = (
        "PodCliqueSet topology constraint domain 'rack' is narrower than "
        "PodClique 'router' topology constraint domain 'zone'"
    )
    assert said(read(document)) == [("spec.template.cliques[0].topologyConstraint", message)]


def test_a_clique_is_compared_with_its_scaling_group_first() -> None:
    document = pod_clique_set(topologyConstraint=packed("zone"))
    template = document["spec"]["template"]
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = packed("host")
    template["cliques"][1]["topologyConstraint"] = packed("rack")
    message = (
        "PodCliqueScalingGroup 'decode' topology constraint domain 'host' is narrower than "
        "PodClique 'leader' topology constraint domain 'rack'"
    )
    assert said(read(document)) == [("spec.template.cliques[1].topologyConstraint", message)]


def test_one_topology_for_all() -> None:
    document = pod_clique_set(topologyConstraint=packed("zone"))
    document["spec"]["template"]["cliques"][0]["topologyConstraint"] = packed("rack", topologyName="other")
    message = (
        "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
    )
    assert said(read(document)) == [("spec.template.cliques[0].topologyConstraint.topologyName", message)]


def test_a_clique_inherits_the_topology_of_its_scaling_group() -> None:
    document = pod_clique_set()
    template = document["spec"]["template"]
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = packed("rack")
    template["cliques"][1]["topologyConstraint"] = {"pack": {"required": "host"}}
    assert read(document).findings == ()
    template["cliques"][0]["topologyConstraint"] = {"pack": {"required": "host"}}
    assert [finding.rule for finding in read(document).findings] == ["grove/topology-name"]


def test_a_preferred_level_that_is_not_narrower_has_no_effect() -> None:
    constraint = {"topologyName": "cluster", "pack": {"required": "rack", "preferred": "zone"}}
    (finding,) = read(pod_clique_set(topologyConstraint=constraint)).findings
    assert (finding.severity, finding.rule) == ("warning", "grove/preferred-no-effect")


def test_constraints_do_not_change_once_the_set_exists() -> None:
    before = pod_clique_set(topologyConstraint=packed("zone"))
    after = copy.deepcopy(before)
    assert read(after, before).findings == ()
    after["spec"]["template"]["topologyConstraint"]["pack"]["required"] = "rack"
    assert said(read(after, before)) == [(TOP, "field is immutable")]


def test_an_old_set_keeps_its_pack_domain() -> None:
    document = pod_clique_set(topologyConstraint={"topologyName": "cluster", "packDomain": "rack"})
    assert read(document, copy.deepcopy(document)).findings == ()


def test_a_scaling_group_of_cliques_that_do_not_exist() -> None:
    document = pod_clique_set()
    document["spec"]["template"]["podCliqueScalingGroups"][0]["cliqueNames"] = ["leadr"]
    (finding,) = read(document).findings
    assert (finding.rule, finding.fix) == ("grove/clique-found", "did you mean 'leader'?")
