"""Slots: by hand, and against brute force on random small clusters."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.planning.clusters import GPU, RACKS, at_random, capacity, cluster, node, node_without_levels, pods
from tests.support.saved import pod, saved
from toposcope.cli.main import main
from toposcope.planning.capacity import View
from toposcope.planning.slots import gpus_per_pod, shape_of, sizes_of, slots, without_repeats
from toposcope.snapshot.model import Snapshot


def counted(snapshot: Snapshot, gpus: int, per_pod: int = 8) -> dict[str, tuple[int, ...]]:
    """How many gangs fit, by level: now, when Jobs have ended, and in the empty cluster."""
    table, _ = capacity(snapshot)
    fitting = {}
    for row in slots(table, (gpus,), per_pod):
        fitting[row.level.domain] = tuple(row.fitting[view] for view in View)
    return fitting


def test_slots_are_counted_now_after_jobs_and_when_empty() -> None:
    running = [*pods("job", "n0", "n2"), *pods("web", "n4", kind="StatefulSet")]
    assert counted(cluster(RACKS, running), 16) == {"block": (2, 3, 4), "rack": (1, 3, 4)}


def test_gpus_that_no_gang_can_use_are_fragmented() -> None:
    table, _ = capacity(cluster(RACKS, pods("job", "n0", "n2", "n4")))
    shares = {row.level.domain: row.fragmented for row in slots(table, (16,), 8)}
    assert shares == {"block": pytest.approx(1 - 32 / 40), "rack": pytest.approx(1 - 16 / 40)}


def test_gang_smaller_than_a_node_is_one_pod() -> None:
    assert counted(cluster(RACKS[:1], pods("small", "n0", gpus=3)), 2)["host"] == (2, 4, 4)


def test_node_that_is_not_ready_counts_only_when_empty() -> None:
    snapshot = cluster([RACKS[0], node("n1", "b0", "r0", ready=False)])
    assert counted(snapshot, 8)["host"] == (1, 1, 2)


def test_node_without_levels_is_left_out() -> None:
    snapshot = cluster([RACKS[0], node_without_levels("x")])
    table, _ = capacity(snapshot)
    assert counted(snapshot, 8)["host"] == (1, 1, 1)
    assert table.left_out == ["x"]


def test_default_sizes_are_powers_of_two_and_whole_racks() -> None:
    nodes = [node(f"n{number}", "b", f"r{number // 18}", 4) for number in range(36)]
    table, _ = capacity(cluster([*nodes, node("big", "b", "r3", 8)]))
    assert gpus_per_pod(table) == 4
    assert sizes_of(table, 4) == (4, 8, 16, 32, 64, 72, 128, 152)


@pytest.mark.parametrize("seed", range(40))
def test_slots_are_those_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    gpus, per_pod = rng.randint(1, 5), rng.randint(1, 3)
    table, _ = capacity(snapshot)
    pod_kind, wanted = shape_of(gpus, per_pod)
    each = dict(pod_kind.requests)[GPU]
    rows = {row.level.domain: row.fitting[View.NOW] for row in slots(table, (gpus,), per_pod)}
    for depth, domain in enumerate(("block", "rack", "host"), 1):
        gangs = 0
        for amounts in free_gpus(snapshot, depth).values():
            gangs += most_gangs(amounts, each, wanted)
        assert rows.get(domain, 0) == gangs


def free_gpus(snapshot: Snapshot, depth: int) -> dict[tuple[str, ...], list[int]]:
    """The free GPUs of usable nodes, by domain."""
    free: dict[tuple[str, ...], list[int]] = {}
    for node_view in snapshot.nodes:
        if node_view.usable:
            amounts = snapshot.free(node_view) or {}
            free.setdefault(node_view.values[:depth], []).append(amounts[GPU])
    return free


def most_gangs(free: list[int], each: int, wanted: int) -> int:
    """As many gangs of `wanted` pods as can be taken out of the nodes, pod by pod."""
    placed = 0
    for amount in free:
        remaining = amount
        while remaining >= each:
            remaining -= each
            placed += 1
    return placed // wanted


TAINTED = [{"key": "x", "effect": "NoSchedule"}]


def saved_node(*, taints: list[dict[str, str]], allocatable: dict[str, str]) -> dict[str, Any]:
    """A Node whose agent counts eight GPUs."""
    labels = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "a", "gpu.topology/gpus": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": labels},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable},
    }


@pytest.fixture
def tainted_node(tmp_path: Path) -> str:
    """A file with a node that no pod without tolerations may use, and a pod on it."""
    return saved_in(tmp_path, saved_node(taints=TAINTED, allocatable={GPU: "8"}))


@pytest.fixture
def node_without_plugin(tmp_path: Path) -> str:
    """A file with a node whose GPUs no device plugin offers, and a pod on it."""
    return saved_in(tmp_path, saved_node(taints=[], allocatable={}))


def saved_in(folder: Path, node: dict[str, Any]) -> str:
    file = folder / "cluster.json"
    file.write_text(saved([node, pod("p", "a", 0)]))
    return str(file)


@pytest.mark.regression
@pytest.mark.parametrize("output", ["table", "wide"])
def test_taint_of_all_nodes_is_named(output: str, tainted_node: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slots", "--from", tainted_node, "-o", output]) == 0
    printed = capsys.readouterr().out
    assert "has a taint that pods have to tolerate" in printed
    assert "No node offers whole GPUs." not in printed


@pytest.mark.regression
@pytest.mark.parametrize("output", ["table", "wide"])
def test_missing_device_plugin_is_named(
    output: str, node_without_plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slots", "--from", node_without_plugin, "-o", output]) == 0
    printed = capsys.readouterr().out
    assert "none of 1 node offers nvidia.com/gpu" in printed
    assert "No node offers whole GPUs." in printed


@pytest.mark.regression
@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("file", ["tainted_node", "node_without_plugin"])
def test_document_without_slots_is_written(
    output: str, file: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slots", "--from", request.getfixturevalue(file), "-o", output]) == 0
    assert "slots" in capsys.readouterr().out


def test_rows_that_repeat_a_narrower_level_are_left_out() -> None:
    table, _ = capacity(cluster(RACKS[:2]))
    rows = [*slots(table, (8, 16), 8)]
    assert [(row.gpus, row.level.domain) for row in without_repeats(rows)] == [(8, "host"), (16, "rack")]
    assert without_repeats(rows[:1]) == rows[:1]
    assert without_repeats([]) == []


@pytest.mark.regression
def test_node_with_less_than_no_gpus_offers_none() -> None:
    negative = node("a", "b0", "r0", -8)
    alone, _ = capacity(cluster([negative]))
    assert gpus_per_pod(alone) == 1
    assert sizes_of(alone, 1) == ()

    beside_another, _ = capacity(cluster([negative, node("b", "b0", "r0", 4)]))
    assert gpus_per_pod(beside_another) == 4
