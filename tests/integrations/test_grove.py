"""Grove's PodCliqueSet: each rule with a set that keeps it and one that breaks it, in Grove's own words."""

import copy
from typing import Any

import pytest

from tests.support.workloads import HOST, KNOWN, RACK, ZONE, accepted
from toposcope.integrations.framework.system import Reading
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
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": {"replicas": 2, "template": template},
    }


def clique(name: str, replicas: int, constraint: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"replicas": replicas, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec, "topologyConstraint": constraint}


def packed(domain: str, **more: Any) -> dict[str, Any]:
    return {"topologyName": "cluster", "pack": {"required": domain}, **more}


def read(document: dict[str, Any], before: dict[str, Any] | None = None) -> Reading:
    return GROVE.read(document, KNOWN, before)


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
    reading = read(pod_clique_set(constraint))
    assert reported(reading) == [(field, message)]
    assert reading.findings[0].severity == "error"
    assert reading.findings[0].fix


def test_the_fix_offers_the_name_that_was_meant() -> None:
    assert read(pod_clique_set(packed("rak"))).findings[0].fix == "did you mean 'rack'?"
    by_key = read(pod_clique_set(packed("example.com/rack"))).findings[0]
    assert by_key.fix == "Grove takes the domain: write 'rack'"


def test_a_part_is_not_kept_together_more_broadly_than_the_whole() -> None:
    document = pod_clique_set(packed("rack"), router=packed("zone"))
    message = (
        "PodCliqueSet topology constraint domain 'rack' is narrower than "
        "PodClique 'router' topology constraint domain 'zone'"
    )
    assert reported(read(document)) == [("spec.template.cliques[0].topologyConstraint", message)]


def test_a_clique_is_compared_with_its_scaling_group_first() -> None:
    document = pod_clique_set(packed("zone"), packed("host"), leader=packed("rack"))
    message = (
        "PodCliqueScalingGroup 'decode' topology constraint domain 'host' is narrower than "
        "PodClique 'leader' topology constraint domain 'rack'"
    )
    assert reported(read(document)) == [("spec.template.cliques[1].topologyConstraint", message)]


def test_one_topology_for_all() -> None:
    document = pod_clique_set(packed("zone"), router=packed("rack", topologyName="other"))
    message = (
        "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
    )
    assert reported(read(document)) == [("spec.template.cliques[0].topologyConstraint.topologyName", message)]


def test_a_clique_inherits_the_topology_of_its_scaling_group() -> None:
    assert read(pod_clique_set(None, packed("rack"), leader=MUST_HAVE_HOST)).findings == ()
    document = pod_clique_set(None, packed("rack"), leader=MUST_HAVE_HOST, router=MUST_HAVE_HOST)
    assert [finding.rule for finding in read(document).findings] == ["grove/topology-name"]


def test_a_preferred_level_that_is_not_narrower_has_no_effect() -> None:
    constraint = {"topologyName": "cluster", "pack": {"required": "rack", "preferred": "zone"}}
    (finding,) = read(pod_clique_set(constraint)).findings
    assert (finding.severity, finding.rule) == ("warning", "grove/preferred-no-effect")


def test_constraints_do_not_change_once_the_set_exists() -> None:
    before = pod_clique_set(packed("zone"))
    after = copy.deepcopy(before)
    assert read(after, before).findings == ()
    after["spec"]["template"]["topologyConstraint"]["pack"]["required"] = "rack"
    assert reported(read(after, before)) == [(TOP, "field is immutable")]


def test_an_old_set_keeps_its_pack_domain() -> None:
    document = pod_clique_set({"topologyName": "cluster", "packDomain": "rack"})
    assert read(document, copy.deepcopy(document)).findings == ()


def test_a_scaling_group_of_cliques_that_do_not_exist() -> None:
    document = pod_clique_set()
    document["spec"]["template"]["podCliqueScalingGroups"][0]["cliqueNames"] = ["leadr"]
    (finding,) = read(document).findings
    assert (finding.rule, finding.fix) == ("grove/clique-found", "did you mean 'leader'?")
