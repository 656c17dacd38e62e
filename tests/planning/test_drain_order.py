"""The order in which nodes can go down: by hand, and against counting anew on random small clusters."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.planning import clusters
from tests.planning.clusters import GPUS_ALONE, RACKS, at_random, capacity, cluster, pods
from toposcope.planning.budgets import Budget, Budgets, budget_of
from toposcope.planning.capacity import FreeBasis
from toposcope.planning.changes import drained
from toposcope.planning.drain_order import DrainOrder, DrainStep, faults, over_budget, units_of
from toposcope.planning.slots import slots
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import write_packed
from toposcope.snapshot.reach import Basis, PodShape

TWO_SIZES = (16, 8)


def order(
    snapshot: Snapshot,
    budgets: Budgets | None = None,
    *,
    sizes: tuple[int, ...] = TWO_SIZES,
    per_pod: int = 8,
    depth: int = 0,
) -> list[DrainStep]:
    """All nodes, or all domains of a level, in the order in which they should be drained."""
    table, gangs = capacity(snapshot)
    kept = budgets or Budgets()
    units = units_of(snapshot, table, gangs, kept, depth)
    drain_order = DrainOrder(table, kept, sizes, per_pod, GPUS_ALONE)
    return list(drain_order.steps(units))


def test_node_without_cpu_costs_no_slot() -> None:
    """Its GPUs are free, but no pod can get them: it goes first."""
    hungry = PodShape(gpus=8, cpu=32, memory=0, basis=Basis.LIKE)
    web = clusters.pod("web", 0, "n3", gpus=0, cpu=60, kind="StatefulSet")
    snapshot = cluster(RACKS, [web])
    table, gangs = capacity(snapshot)
    units = units_of(snapshot, table, gangs, Budgets(), 0)
    first, *_others = DrainOrder(table, Budgets(), (8,), 8, hungry).steps(units)
    assert first.unit.name == "n3"
    assert first.losses == ()


def names(steps: list[DrainStep]) -> list[str]:
    return [step.unit.name for step in steps]


def test_idle_nodes_that_break_no_large_slot_go_first() -> None:
    snapshot = cluster(RACKS, pods("g", "n0", "n2", "n4"))

    first, second, third, *_others, a, b, c = names(order(snapshot))

    # The other halves of racks in use; in a block with three free nodes, one of these first.
    assert first == "n5"
    assert second == "n1"
    assert third == "n3"
    assert {a, b, c} == {"n0", "n2", "n4"}


def test_whole_racks_name_the_gangs_that_stop() -> None:
    snapshot = cluster(RACKS, pods("g", "n0", "n2"))

    *_, before_last, last = order(snapshot, depth=2)

    assert before_last.unit.name == "b0/r0"
    assert last.unit.name == "b0/r1"
    (gang,) = last.unit.gangs
    assert gang.name == "g"


def test_node_that_needs_maintenance_goes_first() -> None:
    conditions = {
        "Ready": "True",
        "GpuXidWatch": "True",
    }
    sick = structs.replace(RACKS[6], conditions=conditions)
    nodes = [*RACKS[:6], sick, RACKS[7]]

    first, *_ = order(cluster(nodes))

    assert first.unit.name == "n6"
    assert first.unit.needs == ("GpuXidWatch",)


BY_KUBELET = ("MemoryPressure", "NetworkUnavailable", "NodeNotReady")
BY_NODE_PROBLEM_DETECTOR = (
    "ContainerRuntimeUnhealthy",
    "CorruptDockerOverlay2",
    "CperHardwareErrorFatal",
    "DiskBadBlock",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
    "KernelDeadlock",
    "NTPProblem",
    "ReadonlyFilesystem",
    "XfsShutdown",
)
BY_NVSENTINEL = (
    "CSPMaintenance",
    "DCGMError",
    "EthernetDegradationCheck",
    "GpuDcgmConnectivityFailure",
    "GpuNvlinkWatch",
    "InfiniBandStateCheck",
    "MultipleRemediations",
    "NVSwitchDown",
    "RepeatedXID31OnSameGPU",
    "SysLogsGPUFallenOff",
    "SysLogsXIDError",
    "XID74Reg2Bit13Set",
)
BY_AKS_AND_NEBIUS = (
    "GPUClockThrottling",
    "GPUMissing",
    "HardwareIssuesSuspected",
    "IBLinkFlapping",
    "NebiusGPUError",
    "NebiusMaintenanceScheduled",
    "NVLinkStatusInactive",
    "SoperatorChecksNodeDegraded",
    "UnhealthyNvidiaDevicePlugin",
    "VMEventScheduled",
    "XIDErrors",
)
GOOD_WHEN_TRUE = (
    "Ready",
    "EtcdIsVoter",
    "AcceleratedHardwareReady",
    "SufficientIP",
    "ContainerdHasNoDeprecations",
    "HasNoErrors",
    "NicoHealthy",
    "Provisioned",
)
"""Of k3s and RKE2, EKS, Alibaba and others."""
FAULTS_WHEN_TRUE = BY_KUBELET + BY_NODE_PROBLEM_DETECTOR + BY_NVSENTINEL + BY_AKS_AND_NEBIUS


def faults_of(status: str, conditions: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these conditions are faults in a node that has all of them with this status."""
    statuses = dict.fromkeys(conditions, status)
    node = structs.replace(RACKS[0], conditions=statuses)
    return faults(node)


@pytest.mark.regression
def test_conditions_that_name_a_problem_are_faults_when_true() -> None:
    all_conditions = FAULTS_WHEN_TRUE + GOOD_WHEN_TRUE
    found = faults_of("True", all_conditions)
    assert found == tuple(sorted(FAULTS_WHEN_TRUE))


@pytest.mark.regression
def test_conditions_that_name_health_are_faults_when_false() -> None:
    health = ("AcceleratedHardwareReady", "KernelReady", "NicoHealthy")
    others = (
        "EtcdIsVoter",
        "SufficientIP",
        "Provisioned",
        "DiskPressure",
        "NetworkUnavailable",
        "KubeletUnhealthy",
        "NodeNotReady",
        "GPUMissing",
        "KernelDeadlock",
    )
    assert faults_of("False", health + others) == health


@pytest.mark.regression
def test_no_condition_is_a_fault_when_unknown() -> None:
    assert faults_of("Unknown", ("KernelDeadlock", "KernelReady", "EtcdIsVoter")) == ()


@pytest.mark.regression
def test_cordoned_node_that_runs_a_gang_is_drained_last() -> None:
    nodes = []
    for node in RACKS:
        is_cordoned = node.name in ("n0", "n1")
        nodes.append(structs.replace(node, is_schedulable=not is_cordoned))
    running = pods("g", "n0", "n2")

    drained_names = names(order(cluster(nodes, running)))

    assert "n1" not in drained_names
    # Nothing can be placed on n0, so draining it costs no slot.
    *_, before_last, last = drained_names
    assert before_last == "n0"
    assert last == "n2"


def test_budget_blocks_the_second_pod_that_it_covers() -> None:
    budgets = Budgets()
    budgets.budgets.append(Budget("ml", "keep", (), 1))
    running = pods("g", "n0", "n2")
    for pod in running:
        budgets.labelled(f"{pod.namespace}/{pod.name}", {})
    snapshot = cluster(RACKS[:4], running)

    first, second, third, last = order(snapshot, budgets)

    assert first.blocked == ()
    assert second.blocked == ()
    assert third.blocked == ()
    assert last.blocked == ("ml/keep",)


def test_budget_selects_by_all_its_conditions_in_its_namespace() -> None:
    budget = budget_of(
        {
            "metadata": {"name": "keep", "namespace": "ml"},
            "spec": {
                "selector": {
                    "matchLabels": {"app": "train"},
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
                }
            },
            "status": {"disruptionsAllowed": 1},
        }
    )
    assert budget.allowed == 1
    assert budget.covers("ml", {"app": "train", "tier": "gold"})
    assert not budget.covers("ml", {"app": "train", "tier": "bronze"})
    assert not budget.covers("ml", {"app": "train"})
    assert not budget.covers("web", {"app": "train", "tier": "gold"})


def test_condition_of_a_budget_that_is_unknown_does_not_keep_pods_from_it() -> None:
    strange = {"key": "tier", "operator": "Like", "values": ["g"]}
    budget = budget_of(
        {
            "metadata": {"name": "keep", "namespace": "ml"},
            "spec": {"selector": {"matchExpressions": [strange]}},
        }
    )
    assert budget.covers("ml", {})
    assert budget.allowed == 0


def test_budget_is_exceeded_by_one_pod_more_than_it_lets_go() -> None:
    budgets = Budgets()
    budgets.budgets.append(Budget("ml", "keep", (), 1))
    running = pods("g", "n0", "n2")
    for pod in running:
        budgets.labelled(f"{pod.namespace}/{pod.name}", {})
    snapshot = cluster(RACKS[:4], running)

    assert over_budget(snapshot, budgets, ["n0"]) == {}
    assert over_budget(snapshot, budgets, ["n0", "n2"]) == {"ml/keep": (2, 1)}


@pytest.mark.parametrize(
    ("selector", "labels", "is_covered"),
    [
        pytest.param(
            {},
            {},
            True,
            id="empty-selector",
        ),
        pytest.param(
            {"matchLabels": {"a": "1"}},
            {"a": "1", "b": "2"},
            True,
            id="label",
        ),
        pytest.param(
            {"matchLabels": {"a": "1"}},
            {},
            False,
            id="no-label",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]},
            {},
            True,
            id="not-in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            {"a": ""},
            True,
            id="exists",
        ),
    ],
)
def test_budget_covers_pods_that_its_selector_matches(
    selector: dict[str, Any], labels: dict[str, str], is_covered: bool
) -> None:
    document = {
        "metadata": {"name": "b", "namespace": "ml"},
        "spec": {"selector": selector},
    }
    budget = budget_of(document)
    assert budget.allowed == 0
    assert budget.covers("ml", labels) is is_covered
    assert budget.covers("other", labels) is False


BUDGET: dict[str, Any] = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "keep", "namespace": "ml"},
    "spec": {},
}


@pytest.mark.regression
def test_saved_file_keeps_which_pods_a_budget_covers(tmp_path: Path) -> None:
    running = pods("g", "n0", "n2")
    budgets = Budgets()
    budgets.put(BUDGET)
    budgets.labelled("ml/g-0", {"app": "g"})
    kept = tuple(budgets.documents(running))
    saved = replace(cluster(RACKS, running), objects=kept)
    path = tmp_path / "cluster.toposcope"
    with path.open("wb") as file:
        write_packed(saved, file)

    loaded = Budgets()
    snapshot = load_files([str(path)], others=loaded)

    (budget,) = loaded.of("ml/g-0")
    assert budget.name == "keep"
    assert list(loaded.of("ml/g-1")) == []
    assert list(loaded.of("other/g-0")) == []
    *_, last = order(snapshot, loaded)
    assert last.blocked == ("ml/keep",)


@pytest.mark.parametrize("seed", range(40))
def test_losses_are_those_of_counting_anew(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    sizes = (rng.randint(1, 3), rng.randint(4, 6))
    per_pod = rng.randint(1, 2)
    steps = order(snapshot, sizes=sizes, per_pod=per_pod)
    down: list[str] = []
    before = fitting(drained(snapshot, down), sizes, per_pod)
    for step in steps[:4]:
        down.append(step.unit.name)
        after = fitting(drained(snapshot, down), sizes, per_pod)

        losses = {}
        for loss in step.losses:
            losses[loss.gpus] = (loss.level.domain, loss.before, loss.after)
        for gpus in sizes:
            expected = first_loss(gpus, before, after)
            assert losses.get(gpus) == expected
        before = after


Fitting = dict[tuple[int, str], int]


def fitting(snapshot: Snapshot, sizes: tuple[int, ...], per_pod: int) -> Fitting:
    """How many gangs of each size fit now, by level."""
    table, _ = capacity(snapshot)
    counts = {}
    for row in slots(table, sizes, per_pod, GPUS_ALONE):
        size_and_level = (row.gpus, row.level.domain)
        counts[size_and_level] = row.fitting[FreeBasis.NOW]
    return counts


def first_loss(gpus: int, before: Fitting, after: Fitting) -> tuple[str, int, int] | None:
    """The narrowest level at which fewer gangs of this size fit."""
    for domain in ("host", "rack", "block"):
        count = after.get((gpus, domain), 0)
        count_before = before.get((gpus, domain), 0)
        if count != count_before:
            return domain, count_before, count
    return None
