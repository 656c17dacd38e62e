"""What is observed of a workload: its copies, the domains that Kueue assigned, what schedulers say."""

import gzip
import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.explain.waiting import Object
from tests.support.paths import FIXTURES
from tests.support.tables import each_row, named_objects
from toposcope.api.levels import Level
from toposcope.explain.diagnosis import meaning
from toposcope.explain.observed_placement import copies_of
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.kueue.queues import AssignedDomain, assigned_domains
from toposcope.integrations.lws.api import GROUP_KEY, SUBGROUP_KEY
from toposcope.snapshot.model import NOTHING, PodView

RACK = Level("rack", "example.com/rack")
PODS = (Pods("pods", 2, ()),)


def labelled(name: str, labels: dict[str, str]) -> PodView:
    return PodView("ml", name, "n1", "Running", NOTHING, None, labels, {}, "", "")


def names(found: object) -> object:
    return {copy: [pod.name for pod in pods] for copy, pods in found.items()} if isinstance(found, dict) else found


def grove(name: str, clique: str, group: str = "", copy: str = "0", set_copy: str = "0") -> PodView:
    labels = {"grove.io/podclique": clique, "grove.io/podcliqueset-replica-index": set_copy}
    if group:
        labels |= {"grove.io/podcliquescalinggroup": group, "grove.io/podcliquescalinggroup-replica-index": copy}
    return labelled(name, labels)


def test_copies_of_grove_sets_scaling_groups_and_cliques() -> None:
    pods = [
        grove("a", "llm-0-decode-0-leader", "llm-0-decode", "0"),
        grove("b", "llm-0-decode-1-leader", "llm-0-decode", "1"),
        grove("c", "llm-1-router", set_copy="1"),
        grove("d", "llm-0-pre-router"),
    ]
    top, scaling = (
        Group("llm", PODS, required=RACK, copies=2),
        replace(Group.of_kind("scaling group", "decode", PODS), required=RACK),
    )
    assert names(copies_of("Grove", top, pods, whole=True)) == {"0": ["a", "b", "d"], "1": ["c"]}
    assert names(copies_of("Grove", scaling, pods, whole=False)) == {"llm-0-decode-0": ["a"], "llm-0-decode-1": ["b"]}
    # Of the scaling group only `copies` are in the gang of the set, the others are gangs of their own.
    assert names(copies_of("Grove", replace(top, groups=(scaling,)), pods, whole=True)) == {"0": ["a", "d"], "1": ["c"]}
    router = replace(Group.of_kind("clique", "router", PODS), required=RACK)
    assert names(copies_of("Grove", router, pods, whole=False)) == {"": ["c"]}


def test_copies_of_leader_worker_set_groups_and_sub_groups() -> None:
    pods = [labelled(name, {GROUP_KEY: name[0], SUBGROUP_KEY: name}) for name in ("a1", "a2", "b1")]
    group = Group("group", PODS, required=RACK, copies=2, anti_affinity=GROUP_KEY)
    assert names(copies_of("LeaderWorkerSet", group, pods, whole=True)) == {"a": ["a1", "a2"], "b": ["b1"]}
    inner = Group("sub-group", PODS, required=RACK, copies=2, anti_affinity=SUBGROUP_KEY)
    assert names(copies_of("LeaderWorkerSet", inner, pods, whole=False)) == {"a1": ["a1"], "a2": ["a2"], "b1": ["b1"]}


def test_kueue_pod_sets() -> None:
    pods = [labelled(name, {"kueue.x-k8s.io/podset": name}) for name in ("leader", "worker")]
    group = replace(Group.of_kind("pod set", "worker", PODS), required=RACK)
    assert names(copies_of("Kueue", group, pods, whole=False)) == {"": ["worker"]}


def test_unlabelled_pods_are_the_whole_or_unknown() -> None:
    pods = [labelled("a", {}), labelled("b", {})]
    assert copies_of("KAI", Group("train", PODS, required=RACK), pods, whole=True) == {"": tuple(pods)}
    assert copies_of("KAI", Group("segment", PODS, required=RACK, copies=2), pods, whole=False) is None
    assert copies_of("KAI", Group("train", PODS, required=RACK, copies=2), pods, whole=True) is None


HOST = "kubernetes.io/hostname"
ASSIGNED = named_objects("assigned_nodes.yaml")
OLD, NEW = ASSIGNED["old"], ASSIGNED["new"]


def admitted(assignment: Object, name: str = "main") -> Object:
    return {"status": {"admission": {"podSetAssignments": [{"name": name, "topologyAssignment": assignment}]}}}


def test_both_forms_name_the_same_domains() -> None:
    found = [(domain.values, domain.pods) for domain in assigned_domains(admitted(OLD))]
    assert found == [(("r1", "n1"), 2), (("r1", "n2"), 1)]
    found = [(domain.values, domain.pods) for domain in assigned_domains(admitted(NEW))]
    assert found == [(("r1", "n1"), 2), (("r1", "n2"), 1), (("r2", "n3.local"), 4), (("r3", "n4"), 1)]
    assert next(assigned_domains(admitted(OLD, "w"))) == AssignedDomain("w", ("rack", HOST), ("r1", "n1"), 2)


@pytest.mark.parametrize(
    "wrong", [{}, {"levels": 3, "domains": "x"}, {"slices": [{"domainCount": "x"}, 3]}, {"domains": [3]}]
)
def test_malformed_assignments_name_nothing_that_matters(wrong: Any) -> None:
    assert all(not domain.levels for domain in assigned_domains(admitted(wrong)))


class Message(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    meaning: str = ""


@pytest.mark.regression
@each_row("scheduler_messages.yaml", Message, ids=lambda row: row.text[:80] or "no text")
def test_the_meaning_of_a_message(row: Message) -> None:
    assert meaning(row.text) == row.meaning


RECORDED = json.loads(gzip.decompress((FIXTURES / "answers" / "kueue.json.gz").read_bytes()))


@pytest.mark.regression
def test_every_recorded_message_of_kueue_has_a_meaning() -> None:
    texts = {case.get("message", "") for state in RECORDED["states"] for case in state["cases"]} - {""}
    assert len(texts) > 100
    assert [text for text in texts if not meaning(text)] == []
    # Each count of nodes that were left out is said, too.
    for text in texts:
        left_out = text.partition("; excluded: ")[2]
        assert meaning(text).count("nodes ") == len(re.findall(r": \d+(?:,|$)", left_out)), (text, meaning(text))
