"""Whether gangs share the domains that objects of their schedulers require, or annotations of their pods."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.planning.clusters import RACK, RACKS, cluster, node, node_without_levels, pods
from toposcope.planning.kept import BrokenBy, KeptResult, UnreadReason
from toposcope.planning.kept_gangs import KeptGang, KeptPart
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import NodeView, PodView
from toposcope.snapshot.scope import select_scope

Document = dict[str, Any]
ONE_RACK = {"topologyConstraint": {"packConstraint": {"required": RACK}}}
KAI_RACK = {"topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": RACK}}
KUBE_RACK = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
HARD_RACK = {"networkTopology": {"mode": "hard", "highestTierName": "rack"}}
TIER_1 = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}


def document(api_version: str, kind: str, name: str, spec: Document) -> Document:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml"},
        "spec": spec,
    }


def pod_gang(spec: Document) -> Document:
    return document("scheduler.grove.io/v1alpha1", "PodGang", "llm-0", spec)


def kai_group(spec: Document) -> Document:
    return document("scheduling.run.ai/v2alpha2", "PodGroup", "pg", spec)


def kube_group(spec: Document) -> Document:
    return document("scheduling.k8s.io/v1alpha2", "PodGroup", "pg", spec)


def composite(spec: Document) -> Document:
    return document("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "whole", spec)


def volcano_group(spec: Document) -> Document:
    return document("scheduling.volcano.sh/v1beta1", "PodGroup", "pg", spec)


def hyper_node(name: str, *nodes: str) -> Document:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": member}}} for member in nodes]
    return document("topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": 1, "members": members})


def changed(pod: PodView, **fields: Any) -> PodView:
    return msgspec.structs.replace(pod, **fields)


def in_clique(pod: PodView, clique: str) -> PodView:
    return changed(pod, labels={"grove.io/podgang": "llm-0", "grove.io/podclique": clique})


def in_kai_group(pod: PodView, sub_group: str) -> PodView:
    return changed(pod, annotations={"pod-group-name": "pg"}, labels={"kai.scheduler/subgroup-name": sub_group})


def in_kube_group(pod: PodView, name: str = "pg") -> PodView:
    return changed(pod, wants={"schedulingGroup": {"podGroupName": name}})


def in_volcano_group(pod: PodView, task: str) -> PodView:
    return changed(pod, annotations={"scheduling.k8s.io/group-name": "pg"}, selectable=("volcano.sh/task-spec", task))


def in_exclusive_job(pod: PodView, job: str, namespace: str = "ml") -> PodView:
    labels = {"jobset.sigs.k8s.io/jobset-name": "sim", "jobset.sigs.k8s.io/job-key": job}
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    return changed(pod, labels=labels, annotations=annotations, namespace=namespace)


def in_exclusive_group(pod: PodView, group: str, namespace: str = "ml") -> PodView:
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "serve",
        "leaderworkerset.sigs.k8s.io/group-index": group,
        "leaderworkerset.sigs.k8s.io/group-key": f"{namespace}-{group}",
    }
    annotations = {"leaderworkerset.sigs.k8s.io/exclusive-topology": RACK, "leaderworkerset.sigs.k8s.io/size": "2"}
    return changed(pod, labels=labels, annotations=annotations, namespace=namespace)


class Gang(NamedTuple):
    """A gang, and the objects that say what it requires."""

    running: Sequence[PodView]
    documents: Sequence[Document]


def whole_pod_gang() -> Gang:
    running = [in_clique(pod, "llm-0-worker") for pod in pods("train", "n0", "n1")]
    return Gang(running, [pod_gang({**ONE_RACK, "podgroups": [{"name": "llm-0-worker", "minReplicas": 2}]})])


def clique() -> Gang:
    running = [in_clique(pod, "llm-0-worker") for pod in pods("train", "n0", "n1")]
    return Gang(running, [pod_gang({"podgroups": [{"name": "llm-0-worker", "minReplicas": 2, **ONE_RACK}]})])


def scaling_group() -> Gang:
    running = [in_clique(pod, "llm-0-decode-0-worker") for pod in pods("train", "n0", "n1")]
    config = {"name": "llm-0-decode-0", "podGroupNames": ["llm-0-decode-0-worker"], **ONE_RACK}
    return Gang(running, [pod_gang({"topologyConstraintGroupConfigs": [config], "podgroups": []})])


def whole_kai_group() -> Gang:
    running = [in_kai_group(pod, "") for pod in pods("train", "n0", "n1")]
    return Gang(running, [kai_group({**KAI_RACK, "minMember": 2})])


def kai_sub_group() -> Gang:
    running = [in_kai_group(pod, "worker") for pod in pods("train", "n0", "n1")]
    outer = {"name": "all", "minMember": 2, **KAI_RACK}
    return Gang(running, [kai_group({"subGroups": [outer, {"name": "worker", "parent": "all"}]})])


def whole_kube_group() -> Gang:
    running = [in_kube_group(pod) for pod in pods("train", "n0", "n1")]
    return Gang(running, [kube_group({**KUBE_RACK, "schedulingPolicy": {"gang": {"minCount": 2}}})])


def composite_group() -> Gang:
    one, another = pods("train", "n0", "n1")
    leaves = []
    for name in ("one", "another"):
        leaf = kube_group({"parentCompositePodGroupName": "whole"})
        leaf["metadata"]["name"] = name
        leaves.append(leaf)
    return Gang([in_kube_group(one, "one"), in_kube_group(another, "another")], [composite(KUBE_RACK), *leaves])


def volcano_tier_name() -> Gang:
    running = [in_volcano_group(pod, "worker") for pod in pods("train", "n0", "n1")]
    return Gang(running, [volcano_group({**HARD_RACK, "minMember": 2})])


def exclusive_job() -> Gang:
    return Gang([in_exclusive_job(pod, "a") for pod in pods("train", "n0", "n1")], [])


def exclusive_group() -> Gang:
    return Gang([in_exclusive_group(pod, "0") for pod in pods("train", "n0", "n1")], [])


GANGS = [
    pytest.param(whole_pod_gang, id="grove-gang"),
    pytest.param(clique, id="grove-clique"),
    pytest.param(scaling_group, id="grove-scaling-group"),
    pytest.param(whole_kai_group, id="kai-group"),
    pytest.param(kai_sub_group, id="kai-sub-group"),
    pytest.param(whole_kube_group, id="kube-scheduler-group"),
    pytest.param(composite_group, id="kube-scheduler-composite"),
    pytest.param(volcano_tier_name, id="volcano-tier-name"),
    pytest.param(exclusive_job, id="jobset"),
    pytest.param(exclusive_group, id="leader-worker-set"),
]


def kept(gang: Gang, nodes: Sequence[NodeView] = RACKS) -> list[KeptGang]:
    snapshot = cluster(nodes, gang.running)
    required = RequiredLevels()
    for required_document in gang.documents:
        required.put(required_document)
    return list(Plan(snapshot, select_scope(snapshot), required).kept)


def only_part(gang: Gang, nodes: Sequence[NodeView] = RACKS) -> KeptPart:
    """The only requirement; gangs of one PodGroup each share that of a CompositePodGroup."""
    first, *others = kept(gang, nodes)
    (part,) = first.parts
    for other in others:
        assert [(same.name, same.placement) for same in other.parts] == [(part.name, part.placement)]
    return part


@pytest.mark.parametrize("gang", GANGS)
def test_gang_in_its_rack_is_a_match(gang: Callable[[], Gang]) -> None:
    assert only_part(gang()).placement.result is KeptResult.MATCH


@pytest.mark.parametrize("gang", GANGS)
def test_gang_whose_node_changes_its_rack_is_a_violation(gang: Callable[[], Gang]) -> None:
    placement = only_part(gang(), [RACKS[0], node("n1", "b0", "r9"), *RACKS[2:]]).placement

    assert placement.result is KeptResult.VIOLATION
    assert placement.broken_by is BrokenBy.UNKNOWN
    assert [[pod.node for pod in domain.pods] for domain in placement.domains] == [["n0"], ["n1"]]


@pytest.mark.parametrize("gang", GANGS)
def test_gang_whose_node_lost_its_label_is_unobservable(gang: Callable[[], Gang]) -> None:
    placement = only_part(gang(), [RACKS[0], node_without_levels("n1"), *RACKS[2:]]).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    assert [place.reason for place in placement.unread] == [UnreadReason.NO_LABEL]


@pytest.mark.parametrize("gang", GANGS)
def test_gang_on_a_node_that_is_gone_is_unobservable(gang: Callable[[], Gang]) -> None:
    placement = only_part(gang(), [RACKS[0], *RACKS[2:]]).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    assert [place.reason for place in placement.unread] == [UnreadReason.NODE_GONE]


UNREADABLE = [
    pytest.param(
        whole_pod_gang,
        pod_gang({"topologyConstraint": {"packConstraint": {"required": 7}}}),
        "spec.topologyConstraint.packConstraint.required of PodGang ml/llm-0",
        id="grove",
    ),
    pytest.param(
        whole_kai_group,
        kai_group({"topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": 7}}),
        "spec.topologyConstraint.requiredTopologyLevel of PodGroup ml/pg",
        id="kai",
    ),
    pytest.param(
        whole_kube_group,
        kube_group({"schedulingConstraints": {"topology": RACK}}),
        "spec.schedulingConstraints.topology of PodGroup ml/pg",
        id="kube-scheduler",
    ),
    pytest.param(
        volcano_tier_name,
        volcano_group({"networkTopology": {"mode": "hard", "highestTierAllowed": "1"}}),
        "spec.networkTopology.highestTierAllowed of PodGroup ml/pg",
        id="volcano",
    ),
]


@pytest.mark.parametrize(("gang", "malformed", "unread"), UNREADABLE)
def test_request_that_cannot_be_read_is_unobservable(
    gang: Callable[[], Gang], malformed: Document, unread: str
) -> None:
    parts = kept(Gang(gang().running, [malformed]))[0].parts

    assert {part.placement.result for part in parts} == {KeptResult.UNOBSERVABLE}
    assert [part.unread for part in parts if part.unread] == [unread]


def test_clique_of_another_rack_is_no_part_of_the_first() -> None:
    one, another, third = pods("train", "n0", "n1", "n2")
    running = [in_clique(one, "a"), in_clique(another, "a"), in_clique(third, "b")]
    cliques = [{"name": "a", **ONE_RACK}, {"name": "b", **ONE_RACK}]
    (gang,) = kept(Gang(running, [pod_gang({"podgroups": cliques})]))

    assert [(part.name, part.placement.result.value) for part in gang.parts] == [("a", "MATCH"), ("b", "MATCH")]


def test_gang_with_fewer_pods_than_its_object_needs_is_unobservable() -> None:
    gang = whole_kai_group()
    placement = only_part(Gang(gang.running, [kai_group({**KAI_RACK, "minMember": 4})])).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    assert (placement.placed, placement.expected) == (2, 4)


def test_kai_level_without_topology_requires_nothing() -> None:
    constraint = {"topologyConstraint": {"requiredTopologyLevel": RACK}}
    assert kept(Gang(whole_kai_group().running, [kai_group(constraint)])) == []


def test_soft_volcano_constraint_requires_nothing() -> None:
    soft = {"networkTopology": {"mode": "soft", "highestTierAllowed": 1}}
    assert kept(Gang(volcano_tier_name().running, [volcano_group(soft)])) == []


HYPER_NODES = [hyper_node("leaf-a", "n0", "n1"), hyper_node("leaf-b", "n2", "n3")]


@pytest.mark.parametrize(
    ("nodes", "result", "reasons"),
    [
        pytest.param(("n0", "n1"), "MATCH", [], id="one-hyper-node"),
        pytest.param(("n0", "n2"), "VIOLATION", [], id="two-hyper-nodes"),
        pytest.param(("n0", "n7"), "UNOBSERVABLE", ["no-domain"], id="no-hyper-node"),
    ],
)
def test_tier_of_volcano_goes_by_hyper_nodes(nodes: tuple[str, str], result: str, reasons: list[str]) -> None:
    running = [in_volcano_group(pod, "worker") for pod in pods("train", *nodes)]
    part = only_part(Gang(running, [volcano_group(TIER_1), *HYPER_NODES]))

    assert (part.required, part.placement.result.value) == ("tier 1", result)
    assert [place.reason.value for place in part.placement.unread] == reasons


def test_tier_of_volcano_without_hyper_nodes_is_unobservable() -> None:
    part = only_part(Gang(volcano_tier_name().running, [volcano_group(TIER_1)]))

    assert part.placement.result is KeptResult.UNOBSERVABLE
    assert not part.is_level_known


def test_sub_groups_of_volcano_are_judged_by_their_labels() -> None:
    one, another, third = pods("train", "n0", "n1", "n2")
    running = [in_volcano_group(one, "a"), in_volcano_group(another, "a"), in_volcano_group(third, "b")]
    policy = {"name": "task", "matchLabelKeys": ["volcano.sh/task-spec"], **HARD_RACK}
    (gang,) = kept(Gang(running, [volcano_group({"subGroupPolicy": [policy]})]))

    assert [(part.name, part.placement.result.value) for part in gang.parts] == [
        ("task a", "MATCH"),
        ("task b", "MATCH"),
    ]


EXCLUSIVE = [
    pytest.param(in_exclusive_job, True, id="jobset"),
    pytest.param(in_exclusive_group, False, id="leader-worker-set"),
]


@pytest.mark.parametrize(("member", "in_all_namespaces"), EXCLUSIVE)
def test_two_exclusive_groups_in_one_rack_are_a_violation(
    member: Callable[..., PodView], in_all_namespaces: bool
) -> None:
    one, another = pods("train", "n0", "n0"), pods("other", "n1", "n1")
    together = [member(pod, "0") for pod in one] + [member(pod, "1") for pod in another]
    apart = [member(pod, "0") for pod in one] + [member(pod, "1", "else") for pod in another]

    first = kept(Gang(together, []))[0].parts[0].placement
    assert (first.result, first.broken_by) == (KeptResult.VIOLATION, BrokenBy.OTHERS)
    assert [intruder.pod.name for intruder in first.intruders] == ["other-0"]
    results = {gang.result for gang in kept(Gang(apart, []))}
    assert results == {KeptResult.VIOLATION if in_all_namespaces else KeptResult.MATCH}


def test_exclusive_job_goes_by_the_value_alone() -> None:
    """Pod affinity knows no block around a rack."""
    running = exclusive_job().running
    placement = only_part(Gang(running, []), [node("n0", "b0", "r0"), node("n1", "b1", "r0")]).placement
    assert placement.result is KeptResult.MATCH
