"""Rules between the pods of workloads that are too large for trying every order: what is known of each kind of rule."""

from typing import Any

import pytest
from tests.placement.test_pod_rules import (
    APP,
    HOST,
    RACK,
    Object,
    apart,
    job,
    near,
    node,
    running,
    spread,
    template,
    term,
    verdict,
)

MANY = 201
"""More pods than it tries every order for."""
ZONE = "topology.kubernetes.io/zone"
OTHERS = {"app": "other"}
BESIDE_EACH_OTHER = near(term(RACK, APP))


def large(name: str, rack: str, *, gpus: int = 200) -> Object:
    """A node with room for hundreds of pods."""
    item = node(name, gpus=gpus, cpu="2000", rack=rack)
    item["status"]["allocatable"]["pods"] = "1000"
    return item


def without_rack() -> Object:
    """A large node without the label of a rack."""
    item = large("x1", "")
    del item["metadata"]["labels"][RACK]
    return item


def two_roles(workers: int, worker: Object, launchers: int, launcher: Object) -> Object:
    """An MPIJob; the workers are its first kind of pods."""
    roles: dict[str, Any] = {
        "Worker": {"replicas": workers, "template": worker},
        "Launcher": {"replicas": launchers, "template": launcher},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"mpiReplicaSpecs": roles},
    }


def unknown_under(fields: str) -> str:
    return (
        f"unclear: kube-scheduler places pods one by one, and with {fields} it is unknown whether its "
        "choices leave nodes for the last ones"
    )


RACK_A = [large("a1", "a"), large("a2", "a")]
RACK_B = [large("b1", "b"), large("b2", "b")]
TWO_RACKS = [*RACK_A, *RACK_B]


# one kind that stays together


def test_pods_of_one_rack_fit_where_each_rack_has_room_for_all() -> None:
    together = template(APP, affinity=BESIDE_EACH_OTHER)
    assert verdict(job(400, together), TWO_RACKS) == "fits: 400 pods on 2 nodes"


def test_pods_of_one_rack_are_unclear_where_one_rack_is_too_small() -> None:
    together = template(APP, affinity=BESIDE_EACH_OTHER)
    assert verdict(job(400, together), [*TWO_RACKS, large("c1", "c")]) == (
        "unclear: every pod can get a node, but kube-scheduler places pods one by one: if the first ones take the "
        "wrong nodes, only 200 of 400 pods find a node (podAffinity keeps them in one topology.example.com/rack)"
    )


def test_pods_of_one_rack_cannot_fit_where_no_rack_has_room_for_all() -> None:
    together = template(APP, affinity=BESIDE_EACH_OTHER)
    assert verdict(job(401, together), TWO_RACKS) == (
        "cannot fit: 400 of 401 pods find a node: podAffinity keeps them in one topology.example.com/rack; "
        "2 nodes didn't match pod affinity rules"
    )


def test_pods_of_one_rack_that_others_crowd_are_unclear() -> None:
    together = template(APP, affinity=BESIDE_EACH_OTHER)
    crowding = two_roles(MANY, together, 300, template({}))
    assert verdict(crowding, TWO_RACKS) == unknown_under("podAffinity")


# several kinds that stay together


def test_kinds_of_one_rack_fit_where_each_rack_has_room_for_all() -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    launcher = template({}, gpus=0, affinity=BESIDE_EACH_OTHER)
    without_gpus = large("c1", "c", gpus=0)
    assert verdict(two_roles(400, worker, 1, launcher), [*TWO_RACKS, without_gpus]) == "fits: 401 pods on 2 nodes"


def test_kinds_of_one_rack_are_unclear_where_one_rack_is_too_small() -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    launcher = template({}, gpus=0, affinity=BESIDE_EACH_OTHER)
    assert verdict(two_roles(400, worker, 1, launcher), [*TWO_RACKS, large("c1", "c")]) == (
        "unclear: every pod can get a node, but kube-scheduler places pods one by one: if the first ones take the "
        "wrong nodes, only 200 of 400 pods of Worker find a node (podAffinity keeps them in one "
        "topology.example.com/rack)"
    )


@pytest.mark.regression
def test_kinds_of_one_rack_are_unclear_where_only_the_second_can_start() -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    launcher = template(APP, gpus=0, affinity=BESIDE_EACH_OTHER)
    without_gpus = large("c1", "c", gpus=0)
    assert verdict(two_roles(MANY, worker, 1, launcher), [*TWO_RACKS, without_gpus]) == (
        "unclear: every pod can get a node, but kube-scheduler places pods one by one: if the first ones take the "
        "wrong nodes, only 0 of 201 pods of Worker find a node (podAffinity keeps them in one "
        "topology.example.com/rack)"
    )


@pytest.mark.regression
def test_kinds_of_one_rack_are_unclear_where_small_pods_split_the_nodes() -> None:
    small = template(APP, affinity=BESIDE_EACH_OTHER)
    whole_node = template(APP, gpus=200, affinity=BESIDE_EACH_OTHER)
    assert verdict(two_roles(200, small, 1, whole_node), TWO_RACKS) == unknown_under("podAffinity")


def test_kinds_of_one_rack_that_share_no_node_need_a_node_each() -> None:
    alone = {**BESIDE_EACH_OTHER, **apart(term(HOST, {"app": "x"}), term(HOST, {"app": "y"}))}
    worker = template(APP, affinity=alone)
    launcher = template({"app": "y"}, gpus=0, affinity=alone)
    workload = two_roles(MANY, worker, 1, launcher)
    rack_a = [large(f"a{number}", "a", gpus=1) for number in range(MANY + 1)]
    rack_b = [large(f"b{number}", "b", gpus=1) for number in range(MANY + 1)]

    assert verdict(workload, [*rack_a, *rack_b]) == "fits: 202 pods on 202 nodes"
    assert verdict(workload, [*rack_a, *rack_b[1:]]) == (
        "unclear: every pod can get a node, but kube-scheduler places pods one by one: if the first ones take the "
        "wrong nodes, only 0 of 1 pod of Launcher find a node (podAffinity keeps them in a topology.example.com/rack "
        "with pods that it selects)"
    )


def test_kind_that_follows_pods_without_rules_is_unclear() -> None:
    launcher = template({}, gpus=0, affinity=BESIDE_EACH_OTHER)
    assert verdict(two_roles(MANY, template(APP), 1, launcher), TWO_RACKS) == unknown_under("podAffinity")


def test_kinds_that_follow_by_different_labels_are_unclear() -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    launcher = template({}, gpus=0, affinity=near(term(HOST, APP)))
    assert verdict(two_roles(MANY, worker, 1, launcher), TWO_RACKS) == unknown_under("podAffinity")


def test_kinds_that_also_spread_are_unclear() -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    wide = [spread(HOST, {"app": "y"})]
    launcher = template({"app": "y"}, gpus=0, affinity=BESIDE_EACH_OTHER, topologySpreadConstraints=wide)
    workload = two_roles(MANY, worker, 1, launcher)
    assert verdict(workload, TWO_RACKS) == unknown_under("podAffinity, topologySpreadConstraints")


@pytest.mark.parametrize(
    ("racks", "expected"), [(256, "fits: 202 pods on 1 node"), (257, unknown_under("podAffinity"))]
)
def test_kinds_of_one_rack_are_known_with_up_to_256_racks(racks: int, expected: str) -> None:
    worker = template(APP, affinity=BESIDE_EACH_OTHER)
    launcher = template({}, gpus=0, affinity=BESIDE_EACH_OTHER)
    nodes = [large(f"n{number}", f"r{number}", gpus=MANY) for number in range(racks)]
    assert verdict(two_roles(MANY, worker, 1, launcher), nodes) == expected


# kinds that stay apart


def test_kind_with_a_node_for_each_rival_fits() -> None:
    cache = running("cache", "a1", {"app": "cache"})
    worker = template(APP, affinity=near(term(RACK, {"app": "cache"})))
    launcher = template({"app": "y"}, gpus=0, affinity=apart(term(HOST, {"app": "y"})))
    assert verdict(two_roles(MANY, worker, 4, launcher), [*TWO_RACKS, cache]) == "fits: 205 pods on 4 nodes"


def test_kind_whose_nodes_others_can_fill_is_unclear() -> None:
    launcher = template({"app": "y"}, affinity=apart(term(HOST, {"app": "y"})))
    workload = two_roles(MANY, template(APP), 4, launcher)
    assert verdict(workload, TWO_RACKS) == unknown_under("podAntiAffinity")
    assert verdict(workload, [*TWO_RACKS, large("a3", "a", gpus=300)]) == unknown_under("podAntiAffinity")


def test_kind_kept_apart_by_two_shared_labels_is_unclear() -> None:
    nodes = [large("a1", "a"), large("a2", "a"), large("b1", "b"), large("b2", "b")]
    for item, zone in zip(nodes, "xyxy", strict=True):
        item["metadata"]["labels"][ZONE] = zone
    by_rack_and_zone = apart(term(RACK, {"app": "y"}), term(ZONE, {"app": "y"}))
    launcher = template({"app": "y"}, gpus=0, affinity=by_rack_and_zone)
    workload = two_roles(MANY, template(APP), 2, launcher)
    assert verdict(workload, nodes) == unknown_under("podAntiAffinity")


# kinds that spread


def test_pods_that_spread_and_have_a_port_each_fit_on_as_many_nodes() -> None:
    nodes = [large(f"n{number}", "ab"[number % 2]) for number in range(MANY + 1)]
    alone = template(APP, port=8080, topologySpreadConstraints=[spread(RACK, APP)])
    assert verdict(job(MANY, alone), nodes) == "fits: 201 pods on 201 nodes"


def test_pods_that_spread_twice_are_unclear() -> None:
    by_rack_and_host = [spread(RACK, APP), spread(HOST, APP)]
    wide = template(APP, topologySpreadConstraints=by_rack_and_host)
    assert verdict(job(MANY, wide), TWO_RACKS) == unknown_under("topologySpreadConstraints")


def test_pods_that_spread_and_stay_apart_by_a_shared_label_are_unclear() -> None:
    nodes = [large(f"n{number}", f"r{number}") for number in range(MANY)]
    nodes.append(large("last", "r0"))
    wide = template(APP, affinity=apart(term(RACK, APP)), topologySpreadConstraints=[spread(HOST, APP)])
    assert verdict(job(MANY, wide), nodes) == unknown_under("podAntiAffinity, topologySpreadConstraints")


def test_kind_that_a_spread_counts_is_unclear() -> None:
    counts_both = template({"app": "y"}, topologySpreadConstraints=[spread(RACK, {})])
    counts_both["spec"]["topologySpreadConstraints"][0]["labelSelector"] = {
        "matchExpressions": [{"key": "app", "operator": "Exists"}]
    }
    workload = two_roles(MANY, template(APP), 2, counts_both)
    assert verdict(workload, TWO_RACKS) == unknown_under("topologySpreadConstraints")


def test_kinds_with_one_port_and_too_few_nodes_for_both_are_unclear() -> None:
    nodes = [large(f"n{number}", "a") for number in range(MANY)]
    on_port = template(APP, port=8080)
    assert verdict(two_roles(150, on_port, 150, template({}, port=8080)), nodes) == unknown_under("hostPort")


# nodes and pods that a rule does not count


def test_pods_of_one_rack_leave_out_a_node_of_no_rack() -> None:
    together = template(APP, affinity=BESIDE_EACH_OTHER)
    assert verdict(job(400, together), [*TWO_RACKS, without_rack()]) == "fits: 400 pods on 2 nodes"


def test_pods_apart_from_others_alone_take_all_room_of_another_rack() -> None:
    apart_from_others = template(APP, affinity=apart(term(RACK, OTHERS)))
    there = [*TWO_RACKS, running("other", "a1", OTHERS)]
    assert verdict(job(400, apart_from_others), there) == "fits: 400 pods on 2 nodes"
    assert verdict(job(401, apart_from_others), there).startswith("does not fit now: ")


def test_spread_that_counts_only_others_leaves_all_room() -> None:
    beside_others = template(APP, topologySpreadConstraints=[spread(RACK, OTHERS)])
    assert verdict(job(800, beside_others), TWO_RACKS) == "fits: 800 pods on 4 nodes"


def test_spread_pods_leave_out_a_node_of_no_rack() -> None:
    spread_pods = template(APP, topologySpreadConstraints=[spread(RACK, APP)])
    assert verdict(job(800, spread_pods), [*TWO_RACKS, without_rack()]) == "fits: 800 pods on 4 nodes"


def test_spread_pods_beside_many_that_they_count_are_unclear() -> None:
    worker = template(APP, topologySpreadConstraints=[spread(RACK, APP)])
    crowding = two_roles(MANY, worker, 2, template(APP))
    assert verdict(crowding, [*TWO_RACKS, without_rack()]) == unknown_under("topologySpreadConstraints")


@pytest.mark.slow
def test_few_pods_on_many_different_nodes_are_judged_by_each_rack() -> None:
    """More orders than can be tried: each of five racks has eight nodes, one for each pod."""
    nodes = []
    for number in range(40):
        nodes.append(node(f"n{number}", gpus=1 + number % 8, cpu=f"{10 + number}", rack=f"r{number % 5}"))
    alone_on_hosts_of_a_rack = {**near(term(RACK, APP)), **apart(term(HOST, APP))}
    assert verdict(job(8, template(APP, affinity=alone_on_hosts_of_a_rack)), nodes) == "fits: 8 pods on 8 nodes"
    assert verdict(job(9, template(APP, affinity=alone_on_hosts_of_a_rack)), nodes).startswith(
        "cannot fit: 8 of 9 pods"
    )
