"""Slots: by hand, and against brute force on random small clusters."""

import random
from pathlib import Path

import pytest
from tests.planning.clusters import at_random, capacity, cluster, node, pods
from tests.support.saved import pod, saved
from toposcope.cli.main import main
from toposcope.planning.capacity import View
from toposcope.planning.slots import gpus_per_pod, shape_of, sizes_of, slots, without_repeats
from toposcope.snapshot.model import NodeView, Snapshot


def counted(snapshot: Snapshot, gpus: int, per_pod: int = 8) -> dict[str, tuple[int, ...]]:
    table, _ = capacity(snapshot)
    return {row.level.domain: tuple(row.fitting[view] for view in View) for row in slots(table, (gpus,), per_pod)}


RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]


def test_now_ended_and_empty() -> None:
    busy = [*pods("job", "n0", "n2"), *pods("web", "n4", kind="StatefulSet")]
    assert counted(cluster(RACKS, busy), 16) == {"block": (2, 3, 4), "rack": (1, 3, 4)}


def test_what_no_gang_can_use() -> None:
    table, _ = capacity(cluster(RACKS, pods("job", "n0", "n2", "n4")))
    shares = {row.level.domain: row.fragmented for row in slots(table, (16,), 8)}
    assert shares == {"block": pytest.approx(1 - 32 / 40), "rack": pytest.approx(1 - 16 / 40)}


def test_a_gang_smaller_than_a_node_is_one_pod() -> None:
    assert counted(cluster(RACKS[:1], pods("small", "n0", gpus=3)), 2)["host"] == (2, 4, 4)


def test_nodes_that_take_no_pods_or_lack_a_level() -> None:
    bare = NodeView("x", "x", {"gpu.topology/gpus": 0}, ("8",), True, True, (), {"nvidia.com/gpu": 8}, {}, None)
    snapshot = cluster([*RACKS[:1], node("n1", "b0", "r0", ready=False), bare])
    assert counted(snapshot, 8)["host"] == (1, 1, 2)
    assert capacity(snapshot)[0].left_out == ["x"]


def test_default_sizes() -> None:
    nodes = [node(f"n{i}", "b", f"r{i // 18}", 4) for i in range(36)] + [node("big", "b", "r3", 8)]
    table, _ = capacity(cluster(nodes))
    assert gpus_per_pod(table) == 4
    assert sizes_of(table, 4) == (4, 8, 16, 32, 64, 72, 128, 152)


@pytest.mark.parametrize("seed", range(40))
def test_slots_are_those_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    gpus, per_pod = rng.randint(1, 5), rng.randint(1, 3)
    table, _ = capacity(snapshot)
    pod_kind, wanted = shape_of(gpus, per_pod)
    each = dict(pod_kind.requests)["nvidia.com/gpu"]
    rows = {row.level.domain: row.fitting[View.NOW] for row in slots(table, (gpus,), per_pod)}
    for depth, domain in enumerate(("block", "rack", "host"), 1):
        free: dict[tuple[str, ...], list[int]] = {}
        for facts in snapshot.nodes:
            if facts.usable:
                free.setdefault(facts.values[:depth], []).append((snapshot.free(facts) or {})["nvidia.com/gpu"])
        assert rows.get(domain, 0) == sum(most(amounts, each, wanted) for amounts in free.values())


def most(free: list[int], each: int, wanted: int) -> int:
    """As many gangs as can be taken out of the nodes, pod by pod."""
    gangs = placed = 0
    left = list(free)
    while (number := next((i for i, amount in enumerate(left) if amount >= each), None)) is not None:
        left[number] -= each
        placed += 1
        gangs = placed // wanted
    return gangs


TAINTED = [{"key": "x", "effect": "NoSchedule"}]
"""All nodes of a cluster that no pod without tolerations may use."""


@pytest.mark.regression
@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
@pytest.mark.parametrize("why", ["has a taint that pods have to tolerate", "none of 1 node offers nvidia.com/gpu"])
def test_no_slot_can_be_counted(output: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "a", "gpu.topology/gpus": "8"}
    tainted = "taint" in why
    one = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": labels}}
    allocatable = {"nvidia.com/gpu": "8"} if tainted else {}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
    objects = [one | {"status": status, "spec": {"taints": TAINTED if tainted else []}}, pod("p", "a", 0)]
    (tmp_path / "cluster.json").write_text(saved(objects))
    assert main(["slots", "--from", str(tmp_path / "cluster.json"), "-o", output]) == 0
    printed = capsys.readouterr().out
    if output in ("json", "yaml"):
        assert "slots" in printed
        return
    assert why in printed
    assert ("No node offers whole GPUs." in printed) == (not tainted)


def test_rows_that_say_the_same_as_a_narrower_level_are_left_out() -> None:
    table, _ = capacity(cluster(RACKS[:2]))
    rows = [*slots(table, (8, 16), 8)]
    assert [(row.gpus, row.level.domain) for row in without_repeats(rows)] == [(8, "host"), (16, "rack")]
    assert without_repeats(rows[:1]) == rows[:1]
    assert without_repeats([]) == []


@pytest.mark.regression
def test_a_node_with_fewer_gpus_than_none_offers_none() -> None:
    table, _ = capacity(cluster([node("a", "b0", "r0", -8), node("b", "b0", "r0", 4)]))
    assert gpus_per_pod(table) == 4
    alone, _ = capacity(cluster([node("a", "b0", "r0", -8)]))
    assert (gpus_per_pod(alone), sizes_of(alone, 1)) == (1, ())
