"""The order in which nodes can go down: by hand, and against counting anew on random small clusters."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from tests.planning.clusters import at_random, capacity, cluster, node, pods
from tests.support.tables import each_case
from toposcope.planning.budgets import Budget, Budgets, budget_of
from toposcope.planning.capacity import View
from toposcope.planning.changes import drained
from toposcope.planning.drain_order import DrainOrder, Step, faults, units_of
from toposcope.planning.slots import slots
from toposcope.snapshot.files import load_files
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import write_packed

RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]


def order(
    snapshot: Snapshot,
    budgets: Budgets | None = None,
    sizes: tuple[int, ...] = (16, 8),
    per_pod: int = 8,
    depth: int = 0,
) -> list[Step]:
    table, gangs = capacity(snapshot)
    kept = budgets or Budgets()
    return [*DrainOrder(table, kept, sizes, per_pod).steps(units_of(snapshot, table, gangs, kept, depth))]


def test_what_runs_nothing_and_breaks_no_large_slot_goes_first() -> None:
    names = [step.unit.name for step in order(cluster(RACKS, pods("g", "n0", "n2", "n4")))]
    assert names[:3] == ["n5", "n1", "n3"]  # the other halves of racks in use; of three free nodes in a block one first
    assert {*names[-3:]} == {"n0", "n2", "n4"}


def test_whole_racks_and_what_stops_with_them() -> None:
    steps = order(cluster(RACKS, pods("g", "n0", "n2")), depth=2)
    assert [step.unit.name for step in steps][-2:] == ["b0/r0", "b0/r1"]
    assert [gang.name for gang in steps[-1].unit.gangs] == ["g"]


def test_what_needs_maintenance_goes_first() -> None:
    sick = msgspec.structs.replace(RACKS[6], conditions={"Ready": "True", "GpuXidWatch": "True"})
    (first, *_) = order(cluster([*RACKS[:6], sick, RACKS[7]]))
    assert (first.unit.name, first.unit.needs) == ("n6", ("GpuXidWatch",))


@pytest.mark.regression
@each_case("tables/planning.yaml")
def test_which_conditions_are_faults(status: str, faulty: list[str], fine: list[str]) -> None:
    found = faults(msgspec.structs.replace(RACKS[0], conditions=dict.fromkeys(faulty + fine, status)))
    assert found == tuple(sorted(faulty))


@pytest.mark.regression
def test_a_cordoned_node_that_still_runs_a_gang_is_drained_too() -> None:
    closed = [msgspec.structs.replace(node, schedulable=node.name not in ("n0", "n1")) for node in RACKS]
    names = [step.unit.name for step in order(cluster(closed, pods("g", "n0", "n2")))]
    assert "n1" not in names
    assert names[-2:] == ["n0", "n2"]  # it costs no slot: nothing can be placed there


def test_a_budget_lets_only_so_many_go_together() -> None:
    budgets = Budgets()
    budgets.budgets.append(Budget("ml", "keep", (), 1))
    running = pods("g", "n0", "n2")
    for pod in running:
        budgets.labelled(f"{pod.namespace}/{pod.name}", {})
    steps = order(cluster(RACKS[:4], running), budgets)
    assert [step.blocked for step in steps] == [(), (), (), ("ml/keep",)]


@each_case("tables/planning.yaml")
def test_what_a_budget_covers(selector: object, labels: dict[str, str], covers: bool) -> None:
    budget = budget_of({"metadata": {"name": "b", "namespace": "ml"}, "spec": {"selector": selector}})
    assert budget.allowed == 0
    assert (budget.covers("ml", labels), budget.covers("other", labels)) == (covers, False)


@pytest.mark.regression
def test_a_saved_file_says_which_pods_a_budget_covers(tmp_path: Path) -> None:
    budgets, running = Budgets(), pods("g", "n0", "n2")
    budgets.put({"kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "ml"}, "spec": {}})
    budgets.labelled("ml/g-0", {"app": "g"})
    with (tmp_path / "cluster.toposcope").open("wb") as file:
        kept = tuple(budgets.documents(running))
        write_packed(replace(cluster(RACKS, running), objects=kept), file)
    again = Budgets()
    snapshot = load_files([file.name], others=again)
    assert [[pod.name for pod in again.of(name)] for name in ("ml/g-0", "ml/g-1", "other/g-0")] == [["keep"], [], []]
    assert [step.blocked for step in order(snapshot, again)][-1] == ("ml/keep",)


@pytest.mark.parametrize("seed", range(40))
def test_losses_are_those_of_counting_anew(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    sizes, per_pod = (rng.randint(1, 3), rng.randint(4, 6)), rng.randint(1, 2)
    down: list[str] = []
    for step in islice(order(snapshot, None, sizes, per_pod), 4):
        before = fitting(drained(snapshot, down), sizes, per_pod)
        down.append(step.unit.name)
        after = fitting(drained(snapshot, down), sizes, per_pod)
        told = {loss.gpus: (loss.level.domain, loss.before, loss.after) for loss in step.losses}
        for gpus in sizes:
            lost = [
                (domain, before[size, domain], count)
                for domain in ("host", "rack", "block")
                for size, count in [(gpus, after.get((gpus, domain), 0))]
                if count != before.get((gpus, domain), 0)
            ]
            assert told.get(gpus) == (lost[0] if lost else None)


def fitting(snapshot: Snapshot, sizes: tuple[int, ...], per_pod: int) -> dict[tuple[int, str], int]:
    table, _ = capacity(snapshot)
    return {(row.gpus, row.level.domain): row.fitting[View.NOW] for row in slots(table, sizes, per_pod)}
