"""Slots: by hand, and against brute force on random small clusters."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.planning.clusters import (
    GPU,
    GPUS_ALONE,
    RACKS,
    at_random,
    capacity,
    cluster,
    node,
    node_without_levels,
    pods,
)
from tests.support.saved import pod, saved
from toposcope.cli.main import main
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.planning.capacity import FreeBasis
from toposcope.planning.slots import gpus_per_pod, shape_of, sizes_of, slots, without_repeats
from toposcope.snapshot.model import Snapshot


def counted(snapshot: Snapshot, gpus: int, per_pod: int = 8) -> dict[str, tuple[int, ...]]:
    """How many gangs fit, by level: now, when Jobs have ended, and in the empty cluster."""
    table, _ = capacity(snapshot)
    fitting = {}
    for row in slots(table, (gpus,), per_pod, GPUS_ALONE):
        fitting[row.level.domain] = tuple(row.fitting[view] for view in FreeBasis)
    return fitting


def test_slots_are_counted_now_after_jobs_and_when_empty() -> None:
    job = pods("job", "n0", "n2")
    web = pods("web", "n4", kind="StatefulSet")
    snapshot = cluster(RACKS, [*job, *web])
    assert counted(snapshot, 16) == {
        "block": (2, 3, 4),
        "rack": (1, 3, 4),
    }


def test_gpus_that_no_gang_can_use_are_fragmented() -> None:
    running = pods("job", "n0", "n2", "n4")
    snapshot = cluster(RACKS, running)
    table, _ = capacity(snapshot)

    block, rack = slots(table, (16,), 8, GPUS_ALONE)

    assert block.level.domain == "block"
    of_block = pytest.approx(1 - 32 / 40)
    assert block.fragmented_share == of_block
    assert rack.level.domain == "rack"
    of_rack = pytest.approx(1 - 16 / 40)
    assert rack.fragmented_share == of_rack


def test_gang_smaller_than_a_node_is_one_pod() -> None:
    running = pods("small", "n0", gpus=3)
    snapshot = cluster(RACKS[:1], running)
    slots_of_two = counted(snapshot, 2)
    assert slots_of_two["host"] == (2, 4, 4)


def test_node_that_is_not_ready_counts_only_when_empty() -> None:
    not_ready = node("n1", "b0", "r0", ready=False)
    snapshot = cluster([RACKS[0], not_ready])
    slots_of_eight = counted(snapshot, 8)
    assert slots_of_eight["host"] == (1, 1, 2)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("key", "is_ready"),
    [
        pytest.param("node.kubernetes.io/unschedulable", True, id="cordoned"),
        pytest.param("node.kubernetes.io/not-ready", False, id="not ready"),
        pytest.param("node.kubernetes.io/unreachable", False, id="unreachable"),
    ],
)
def test_taint_of_a_state_goes_with_it_when_empty(key: str, is_ready: bool) -> None:
    """Kubernetes adds it to a node that is cordoned or not Ready."""
    taint = Taint(key, "", "NoSchedule")
    closed = msgspec.structs.replace(
        node("n1", "b0", "r0"),
        is_ready=is_ready,
        is_schedulable=not is_ready,
        taints=(taint,),
    )
    slots_of_eight = counted(cluster([RACKS[0], closed]), 8)
    assert slots_of_eight["host"] == (1, 1, 2)


def test_node_without_levels_is_left_out() -> None:
    bare = node_without_levels("x")
    snapshot = cluster([RACKS[0], bare])
    slots_of_eight = counted(snapshot, 8)
    assert slots_of_eight["host"] == (1, 1, 1)
    table, _ = capacity(snapshot)
    assert table.left_out == ["x"]


def test_default_sizes_are_powers_of_two_and_whole_racks() -> None:
    nodes = [node("big", "b", "r3", 8)]
    for number in range(18):
        in_first_rack = node(f"a{number}", "b", "r0", 4)
        in_second_rack = node(f"b{number}", "b", "r1", 4)
        nodes += [in_first_rack, in_second_rack]

    table, _ = capacity(cluster(nodes))

    assert gpus_per_pod(table) == 4
    assert sizes_of(table, 4, GPUS_ALONE) == (
        4,
        8,
        16,
        32,
        64,
        72,  # a whole rack
        128,
        152,  # all of them
    )


@pytest.mark.parametrize("seed", range(40))
def test_slots_are_those_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    gpus = rng.randint(1, 5)
    per_pod = rng.randint(1, 3)
    table, _ = capacity(snapshot)
    counts = {}
    for row in slots(table, (gpus,), per_pod, GPUS_ALONE):
        counts[row.level.domain] = row.fitting[FreeBasis.NOW]

    pod_kind, wanted = shape_of(gpus, per_pod, GPUS_ALONE)
    each = dict(pod_kind.requests)[GPU]
    for depth, domain in enumerate(("block", "rack", "host"), 1):
        gangs = 0
        free = free_gpus(snapshot, depth)
        for amounts in free.values():
            gangs += most_gangs(amounts, each, wanted)
        count = counts.get(domain, 0)
        assert count == gangs


def free_gpus(snapshot: Snapshot, depth: int) -> dict[tuple[str, ...], list[int]]:
    """The free GPUs of usable nodes, by domain."""
    free: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for node_view in snapshot.nodes:
        if not node_view.is_usable:
            continue
        domain = node_view.values[:depth]
        amounts = snapshot.free(node_view) or {}
        free[domain].append(amounts[GPU])
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
    labels = {
        "topology.kubernetes.io/zone": "z",
        "kubernetes.io/hostname": "a",
        "gpu.topology/gpus": "8",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": labels},
        "spec": {"taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": allocatable,
        },
    }


@pytest.fixture
def tainted_node(tmp_path: Path) -> str:
    """A file with a node that no pod without tolerations may use, and a pod on it."""
    node = saved_node(taints=TAINTED, allocatable={GPU: "8"})
    return saved_in(tmp_path, node)


@pytest.fixture
def node_without_plugin(tmp_path: Path) -> str:
    """A file with a node whose GPUs no device plugin offers, and a pod on it."""
    node = saved_node(taints=[], allocatable={})
    return saved_in(tmp_path, node)


def saved_in(folder: Path, node: dict[str, Any]) -> str:
    file = folder / "cluster.json"
    running = pod("p", "a", 0)
    file.write_text(saved([node, running]))
    return str(file)


def printed_slots(file: str, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `toposcope slots` prints of a saved cluster."""
    code = main(["slots", "--from", file, "-o", output])
    assert code == 0
    return capsys.readouterr().out


@pytest.mark.regression
@pytest.mark.parametrize("output", ["table", "wide"])
def test_taint_of_all_nodes_is_named(output: str, tainted_node: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_slots(tainted_node, output, capsys)
    assert "has a taint that pods have to tolerate" in printed
    assert "No node offers whole GPUs." not in printed


@pytest.mark.regression
@pytest.mark.parametrize("output", ["table", "wide"])
def test_missing_device_plugin_is_named(
    output: str, node_without_plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = printed_slots(node_without_plugin, output, capsys)
    assert "none of 1 node offers nvidia.com/gpu" in printed
    assert "No node offers whole GPUs." in printed


@pytest.mark.regression
@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("file", ["tainted_node", "node_without_plugin"])
def test_document_without_slots_is_written(
    output: str, file: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = request.getfixturevalue(file)
    printed = printed_slots(path, output, capsys)
    assert "slots" in printed


def test_rows_that_repeat_a_narrower_level_are_left_out() -> None:
    table, _ = capacity(cluster(RACKS[:2]))
    rows = list(slots(table, (8, 16), 8, GPUS_ALONE))

    on_a_host, in_a_rack = without_repeats(rows)

    assert on_a_host.gpus == 8
    assert on_a_host.level.domain == "host"
    assert in_a_rack.gpus == 16
    assert in_a_rack.level.domain == "rack"


def test_one_row_repeats_none() -> None:
    table, _ = capacity(cluster(RACKS[:2]))
    in_block, *_others = slots(table, (8, 16), 8, GPUS_ALONE)
    assert without_repeats([in_block]) == [in_block]
    assert without_repeats([]) == []


def test_rows_of_another_size_are_kept_though_as_many_fit() -> None:
    large = node("a", gpus=8)
    small = node("b", gpus=4)
    table, _ = capacity(cluster([large, small]))
    rows = list(slots(table, (8, 12), 4, GPUS_ALONE))

    on_a_host, in_a_rack = without_repeats(rows)

    assert on_a_host.gpus == 8
    assert on_a_host.level.domain == "host"
    assert in_a_rack.gpus == 12
    assert in_a_rack.level.domain == "rack"


@pytest.mark.regression
def test_node_with_less_than_no_gpus_offers_none() -> None:
    negative = node("a", "b0", "r0", -8)
    snapshot = cluster([negative])
    table, _ = capacity(snapshot)
    assert gpus_per_pod(table) == 1
    assert sizes_of(table, 1, GPUS_ALONE) == ()


@pytest.mark.regression
def test_node_with_less_than_no_gpus_is_ignored_beside_another() -> None:
    negative = node("a", "b0", "r0", -8)
    other = node("b", "b0", "r0", 4)
    snapshot = cluster([negative, other])
    table, _ = capacity(snapshot)
    assert gpus_per_pod(table) == 4
