"""Which pod is in which copy of a group, by the labels that each system sets."""

from dataclasses import replace

from toposcope.explain.observed_placement import copies_of
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.lws.api import GROUP_KEY, SUBGROUP_KEY
from toposcope.snapshot.model import NOTHING, PodView
from toposcope.topology.levels import Level

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
    top, scaling = Group("llm", PODS, required=RACK, copies=2), Group("scaling group decode", PODS, required=RACK)
    assert names(copies_of("Grove", top, pods, whole=True)) == {"0": ["a", "b", "d"], "1": ["c"]}
    assert names(copies_of("Grove", scaling, pods, whole=False)) == {"llm-0-decode-0": ["a"], "llm-0-decode-1": ["b"]}
    # Of the scaling group only `copies` are in the gang of the set, the others are gangs of their own.
    assert names(copies_of("Grove", replace(top, groups=(scaling,)), pods, whole=True)) == {"0": ["a", "d"], "1": ["c"]}
    router = Group("clique router", PODS, required=RACK)
    assert names(copies_of("Grove", router, pods, whole=False)) == {"": ["c"]}


def test_copies_of_leader_worker_set_groups_and_sub_groups() -> None:
    pods = [labelled(name, {GROUP_KEY: name[0], SUBGROUP_KEY: name}) for name in ("a1", "a2", "b1")]
    group = Group("group", PODS, required=RACK, copies=2, anti_affinity=GROUP_KEY)
    assert names(copies_of("LeaderWorkerSet", group, pods, whole=True)) == {"a": ["a1", "a2"], "b": ["b1"]}
    inner = Group("sub-group", PODS, required=RACK, copies=2, anti_affinity=SUBGROUP_KEY)
    assert names(copies_of("LeaderWorkerSet", inner, pods, whole=False)) == {"a1": ["a1"], "a2": ["a2"], "b1": ["b1"]}


def test_kueue_pod_sets() -> None:
    pods = [labelled(name, {"kueue.x-k8s.io/podset": name}) for name in ("leader", "worker")]
    group = Group("pod set worker", PODS, required=RACK)
    assert names(copies_of("Kueue", group, pods, whole=False)) == {"": ["worker"]}


def test_unlabelled_pods_are_the_whole_or_unknown() -> None:
    pods = [labelled("a", {}), labelled("b", {})]
    assert copies_of("KAI", Group("train", PODS, required=RACK), pods, whole=True) == {"": tuple(pods)}
    assert copies_of("KAI", Group("segment", PODS, required=RACK, copies=2), pods, whole=False) is None
    assert copies_of("KAI", Group("train", PODS, required=RACK, copies=2), pods, whole=True) is None
