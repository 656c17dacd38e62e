"""Whether gangs share the domains that objects of their schedulers require, or annotations of their pods."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest
from tests.planning.clusters import RACK, RACKS, cluster, node, node_without_levels, pods
from tests.support.documents import read_manifests
from toposcope.planning.kept import BrokenBy, KeptResult, UnreadReason
from toposcope.planning.kept_gangs import KeptGang, KeptPart
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.snapshot.model import NodeView, PodView
from toposcope.snapshot.scope import select_scope

GROVE = {"grove.io/podgang": "llm-0"}
LWS = "leaderworkerset.sigs.k8s.io/"


def labelled(pod: PodView, labels: dict[str, str], annotations: dict[str, str]) -> PodView:
    return msgspec.structs.replace(pod, labels=labels, annotations=annotations)


def in_clique(pod: PodView, clique: str) -> PodView:
    return labelled(pod, {**GROVE, "grove.io/podclique": clique}, {})


def in_scaling_group(pod: PodView) -> PodView:
    return in_clique(pod, "llm-0-decode-0-worker")


def in_worker(pod: PodView) -> PodView:
    return in_clique(pod, "llm-0-worker")


def in_kai_group(pod: PodView) -> PodView:
    return labelled(pod, {"kai.scheduler/subgroup-name": "worker"}, {"pod-group-name": "pg"})


def in_kube_group(pod: PodView) -> PodView:
    return msgspec.structs.replace(pod, wants={"schedulingGroup": {"podGroupName": "pg"}})


def in_composite(pod: PodView) -> PodView:
    """One pod in each of two PodGroups."""
    group = "one" if pod.name == "train-0" else "another"
    return msgspec.structs.replace(pod, wants={"schedulingGroup": {"podGroupName": group}})


def in_volcano_group(pod: PodView, task: str = "worker") -> PodView:
    member = labelled(pod, {}, {"scheduling.k8s.io/group-name": "pg"})
    return msgspec.structs.replace(member, selectable=("volcano.sh/task-spec", task))


def in_exclusive_job(pod: PodView, job: str = "a") -> PodView:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "sim",
        "jobset.sigs.k8s.io/job-key": job,
    }
    return labelled(pod, labels, {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK})


def in_exclusive_group(pod: PodView, group: str = "0") -> PodView:
    labels = {
        LWS + "name": "serve",
        LWS + "group-index": group,
        LWS + "group-key": f"key-{group}",
    }
    annotations = {
        LWS + "exclusive-topology": RACK,
        LWS + "size": "2",
    }
    return labelled(pod, labels, annotations)


Member = Callable[..., PodView]
"""Puts a pod into a gang."""
GANGS = [
    pytest.param(in_worker, "pod-gang", id="grove-gang"),
    pytest.param(in_worker, "clique", id="grove-clique"),
    pytest.param(in_scaling_group, "scaling-group", id="grove-scaling-group"),
    pytest.param(in_kai_group, "kai-group", id="kai-group"),
    pytest.param(in_kai_group, "kai-sub-group", id="kai-sub-group"),
    pytest.param(in_kube_group, "kube-group", id="kube-scheduler-group"),
    pytest.param(in_composite, "kube-composite", id="kube-scheduler-composite"),
    pytest.param(in_volcano_group, "volcano-tier-name", id="volcano-tier-name"),
    pytest.param(in_exclusive_job, "", id="jobset"),
    pytest.param(in_exclusive_group, "", id="leader-worker-set"),
]
"""How pods become a gang that has to stay within a rack, and the file of the object that says so."""


class Gang(NamedTuple):
    """Running pods, and the files of the objects that say what they require."""

    running: Sequence[PodView]
    files: Sequence[str]


def gang_of(member: Member, *files: str, on: Sequence[str] = ("n0", "n1")) -> Gang:
    """A gang of a pod on each of these nodes."""
    running = []
    for pod in pods("train", *on):
        running.append(member(pod))
    return Gang(running, [file for file in files if file])


def kept(gang: Gang, nodes: Sequence[NodeView] = RACKS) -> list[KeptGang]:
    snapshot = cluster(nodes, gang.running)
    required = RequiredLevels()
    for file in gang.files:
        for document in read_manifests(f"kept/{file}.yaml"):
            required.put(document)
    return list(Plan(snapshot, select_scope(snapshot), required).kept)


def only_part(gang: Gang, nodes: Sequence[NodeView] = RACKS) -> KeptPart:
    """The only requirement; gangs of one PodGroup each share that of a CompositePodGroup."""
    first, *others = kept(gang, nodes)
    (part,) = first.parts
    for other in others:
        (same,) = other.parts
        assert (same.name, same.placement) == (part.name, part.placement)
    return part


def results_by_name(gang: Gang) -> dict[str, str]:
    """The result of each part of the only gang."""
    (only,) = kept(gang)
    return {part.name: part.placement.result.value for part in only.parts}


@pytest.mark.parametrize(("member", "file"), GANGS)
def test_gang_in_its_rack_is_a_match(member: Member, file: str) -> None:
    part = only_part(gang_of(member, file))
    assert part.placement.result is KeptResult.MATCH


@pytest.mark.parametrize(("member", "file"), GANGS)
def test_gang_whose_node_changes_its_rack_is_a_violation(member: Member, file: str) -> None:
    moved = node("n1", "b0", "r9")
    placement = only_part(gang_of(member, file), [RACKS[0], moved, *RACKS[2:]]).placement

    assert placement.result is KeptResult.VIOLATION
    assert placement.broken_by is BrokenBy.UNKNOWN
    first, second = placement.domains
    assert [pod.node for pod in first.pods] == ["n0"]
    assert [pod.node for pod in second.pods] == ["n1"]


@pytest.mark.parametrize(("member", "file"), GANGS)
def test_gang_whose_node_lost_its_label_is_unobservable(member: Member, file: str) -> None:
    unlabelled = node_without_levels("n1")
    placement = only_part(gang_of(member, file), [RACKS[0], unlabelled, *RACKS[2:]]).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    (unread,) = placement.unread
    assert unread.reason is UnreadReason.NO_LABEL


@pytest.mark.parametrize(("member", "file"), GANGS)
def test_gang_on_a_node_that_is_gone_is_unobservable(member: Member, file: str) -> None:
    placement = only_part(gang_of(member, file), [RACKS[0], *RACKS[2:]]).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    (unread,) = placement.unread
    assert unread.reason is UnreadReason.NODE_GONE


@pytest.mark.parametrize(
    ("member", "file", "field"),
    [
        pytest.param(
            in_worker,
            "malformed-grove",
            "spec.topologyConstraint.packConstraint.required of PodGang ml/llm-0",
            id="grove",
        ),
        pytest.param(
            in_kai_group,
            "malformed-kai",
            "spec.topologyConstraint.requiredTopologyLevel of PodGroup ml/pg",
            id="kai",
        ),
        pytest.param(
            in_kube_group,
            "malformed-kube-scheduler",
            "spec.schedulingConstraints.topology of PodGroup ml/pg",
            id="kube-scheduler",
        ),
        pytest.param(
            in_volcano_group,
            "malformed-volcano",
            "spec.networkTopology.highestTierAllowed of PodGroup ml/pg",
            id="volcano",
        ),
    ],
)
def test_request_that_cannot_be_read_is_unobservable(member: Member, file: str, field: str) -> None:
    (gang,) = kept(gang_of(member, file))

    assert gang.result is KeptResult.UNOBSERVABLE
    assert [part.unread for part in gang.parts if part.unread] == [field]


def test_each_clique_has_a_rack_of_its_own() -> None:
    one, another, third = pods("train", "n0", "n1", "n2")
    running = [
        in_clique(one, "a"),
        in_clique(another, "a"),
        in_clique(third, "b"),
    ]
    assert results_by_name(Gang(running, ["two-cliques"])) == {"a": "MATCH", "b": "MATCH"}


def test_gang_with_fewer_pods_than_its_object_needs_is_unobservable() -> None:
    placement = only_part(gang_of(in_kai_group, "kai-group", on=["n0"])).placement

    assert placement.result is KeptResult.UNOBSERVABLE
    assert placement.placed == 1
    assert placement.expected == 2


def test_kai_level_without_topology_requires_nothing() -> None:
    assert kept(gang_of(in_kai_group, "kai-without-topology")) == []


def test_soft_volcano_constraint_requires_nothing() -> None:
    assert kept(gang_of(in_volcano_group, "volcano-soft")) == []


@pytest.mark.parametrize(
    ("nodes", "result", "reasons"),
    [
        pytest.param(("n0", "n1"), "MATCH", [], id="one-hyper-node"),
        pytest.param(("n0", "n2"), "VIOLATION", [], id="two-hyper-nodes"),
        pytest.param(("n0", "n7"), "UNOBSERVABLE", ["no-domain"], id="no-hyper-node"),
    ],
)
def test_tier_of_volcano_goes_by_hyper_nodes(nodes: tuple[str, str], result: str, reasons: list[str]) -> None:
    part = only_part(gang_of(in_volcano_group, "volcano-tier", "hyper-nodes", on=nodes))

    assert part.required == "tier 1"
    assert part.placement.result.value == result
    assert [place.reason.value for place in part.placement.unread] == reasons


def test_tier_of_volcano_without_hyper_nodes_is_unobservable() -> None:
    part = only_part(gang_of(in_volcano_group, "volcano-tier"))

    assert part.placement.result is KeptResult.UNOBSERVABLE
    assert not part.is_level_known


def test_sub_groups_of_volcano_are_judged_by_their_labels() -> None:
    one, another, third = pods("train", "n0", "n1", "n2")
    running = [
        in_volcano_group(one, "a"),
        in_volcano_group(another, "a"),
        in_volcano_group(third, "b"),
    ]
    results = results_by_name(Gang(running, ["volcano-sub-groups"]))
    assert results == {"task a": "MATCH", "task b": "MATCH"}


EXCLUSIVE = [
    pytest.param(in_exclusive_job, id="jobset"),
    pytest.param(in_exclusive_group, id="leader-worker-set"),
]


def two_groups(member: Member) -> tuple[list[PodView], list[PodView]]:
    """Two exclusive groups of two pods in one rack."""
    first = [member(pod, "0") for pod in pods("first", "n0", "n0")]
    second = [member(pod, "1") for pod in pods("second", "n1", "n1")]
    return first, second


@pytest.mark.parametrize("member", EXCLUSIVE)
def test_two_exclusive_groups_in_one_rack_are_a_violation(member: Member) -> None:
    first, second = two_groups(member)
    placement = kept(Gang([*first, *second], []))[0].parts[0].placement

    assert placement.result is KeptResult.VIOLATION
    assert placement.broken_by is BrokenBy.OTHERS
    (intruder,) = placement.intruders
    assert intruder.pod.name == "second-0"


@pytest.mark.parametrize(
    ("member", "result"),
    [
        pytest.param(in_exclusive_job, "VIOLATION", id="jobset"),
        pytest.param(in_exclusive_group, "MATCH", id="leader-worker-set"),
    ],
)
def test_only_exclusive_jobs_keep_off_other_namespaces(member: Member, result: str) -> None:
    first, second = two_groups(member)
    elsewhere = []
    for pod in second:
        elsewhere.append(msgspec.structs.replace(pod, namespace="elsewhere"))
    gangs = kept(Gang([*first, *elsewhere], []))

    assert [gang.result.value for gang in gangs] == [result, result]


def test_exclusive_job_goes_by_the_value_alone() -> None:
    """Pod affinity knows no block around a rack."""
    nodes = [node("n0", "b0", "r0"), node("n1", "b1", "r0")]
    assert only_part(gang_of(in_exclusive_job), nodes).placement.result is KeptResult.MATCH
