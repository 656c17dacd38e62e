"""Verdicts that are unclear whatever room there is: pods that are unknown, fields that were not read."""

from tests.placement.test_pod_rules import HOST, RACK, apart, deployment, job, near, node, template, term
from tests.support.checking import check

APP = {"app": "x"}


def test_pods_of_a_bare_pod_group_are_unknown() -> None:
    pod_group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    answer = check(pod_group, [node("n0")])
    assert answer.verdict == "unclear: its pods are unknown; check the Job that creates them"


def test_field_that_was_not_read_makes_a_fit_unclear() -> None:
    answer = check(job(2, template({}, newField="x")), [node("n0")])
    assert answer.verdict == "unclear: spec.template.spec.newField is not read; without it: fits: 2 pods on 1 node"


def test_unclear_verdict_stays_unclear_beside_a_field_that_was_not_read() -> None:
    workload = job(2, template({}, newField="x", schedulerName="mine"))
    answer = check(workload, [node("n0")])
    assert answer.verdict == "unclear: schedulerName mine: the rules of that scheduler are unknown"


def test_mates_that_must_share_a_full_node_are_counted() -> None:
    together = template(APP, gpus=8, affinity=near(term(HOST, APP)))
    answer = check(deployment(2, together), [node("n0"), node("n1")])
    assert answer.verdict == (
        "cannot fit: 1 of 2 pods finds a node: podAffinity keeps them in one kubernetes.io/hostname; "
        "1 node didn't match pod affinity rules"
    )


def test_pods_apart_by_two_labels_are_held_to_the_stricter_one() -> None:
    separate = template(APP, gpus=8, affinity=apart(term(HOST, APP), term(RACK, APP)))
    nodes = [node("n0", rack="a"), node("n1", rack="a"), node("n2")]
    answer = check(deployment(3, separate), nodes)
    assert answer.verdict == (
        f"cannot fit: 2 of 3 pods find a node: podAntiAffinity allows one per {HOST}, {RACK}; "
        "1 node didn't match pod anti-affinity rules"
    )
