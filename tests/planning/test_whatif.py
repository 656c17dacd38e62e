"""What a change does to gangs and slots: by hand, and against brute force on random small clusters."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest
from msgspec import structs
from tests.planning.clusters import HOST, RACK, at_random, capacity, cluster, node, pods
from tests.support.tables import each_case
from tests.support.workloads import job
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.planning.capacity import View
from toposcope.planning.changes import added
from toposcope.planning.freeing import freeings
from toposcope.planning.gangs import gangs_of, named
from toposcope.planning.rehoming import Outcome
from toposcope.planning.required import RequiredLevels
from toposcope.planning.slots import one_pod, slots
from toposcope.planning.whatif import Changes, NewNodes, WhatIf, vacated, whatif
from toposcope.snapshot.model import PodView, Snapshot

RACKS = [node(f"n{i}", f"b{i // 4}", f"r{i // 2}") for i in range(8)]
"""Two blocks of two racks of two nodes."""


def drain(snapshot: Snapshot, *names: str) -> WhatIf:
    return changed(snapshot, Changes(drain=frozenset(names)))


def changed(snapshot: Snapshot, changes: Changes) -> WhatIf:
    return whatif(snapshot, None, *capacity(snapshot), changes)


def outcomes(result: WhatIf) -> dict[str, tuple[str, str]]:
    return {moved.gang.name: (moved.outcome.value, "/".join(moved.domain[-1:])) for moved in result.rehomed}


def room(result: WhatIf, gpus: int, domain: str) -> tuple[int, int]:
    found = []
    for side in (result.before, result.after):
        rows = {row.level.domain: row.fitting[View.NOW] for row in slots(side, (gpus,), 8)}
        found.append(rows.get(domain, 0))
    return found[0], found[1]


def busy(*free: str) -> list[PodView]:
    return pods("busy", *(node.name for node in RACKS if node.name not in free), kind="StatefulSet")


@each_case("tables/planning.yaml")
def test_what_becomes_of_a_gang(free: Sequence[str], gang: Sequence[str], gone: str, outcome: list[str]) -> None:
    taken = [node.name for node in RACKS if node.name not in free]
    snapshot = cluster(RACKS, [*pods("g", *gang), *pods("busy", *taken, kind="StatefulSet")])
    result = drain(snapshot, gone)
    assert outcomes(result) == {"g": tuple(outcome)}
    assert result.well == (outcome[0] in ("stays", "moves"))


@pytest.mark.parametrize(
    "key", ["kueue.x-k8s.io/podset-required-topology", "leaderworkerset.sigs.k8s.io/exclusive-topology"]
)
def test_a_gang_waits_that_requires_its_rack(key: str) -> None:
    one_gang, asks = {"kueue.x-k8s.io/pod-group-name": "g"}, {key: RACK}
    gang = [
        PodView("ml", f"g-{i}", f"n{i}", "Running", {"nvidia.com/gpu": 8}, None, one_gang, asks, "", "") for i in (0, 1)
    ]
    result = drain(cluster(RACKS, [*gang, *busy("n0", "n1", "n2")]), "n0")
    ((name, outcome),) = outcomes(result).items()
    assert (name, outcome[0]) == ("g", "waits")
    assert result.rehomed[0].required is not None


@pytest.mark.regression
@pytest.mark.parametrize(
    ("version", "kind", "constraint", "mark"),
    [
        ("scheduler.grove.io/v1alpha1", "PodGang", {"packConstraint": {"required": RACK}}, "grove.io/podgang"),
        ("scheduling.run.ai/v2alpha2", "PodGroup", {"requiredTopologyLevel": RACK}, "pod-group-name"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {"highestTierName": "rack"}, "scheduling.k8s.io/group-name"),
    ],
)
def test_a_gang_waits_whose_object_requires_its_rack(
    version: str, kind: str, constraint: dict[str, Any], mark: str
) -> None:
    marks: tuple[dict[str, str], dict[str, str]] = ({mark: "g"}, {}) if kind == "PodGang" else ({}, {mark: "g"})
    gang = [PodView("ml", f"g-{i}", f"n{i}", "Running", {"nvidia.com/gpu": 8}, None, *marks, "", "") for i in (0, 1)]
    snapshot = cluster(RACKS, [*gang, *busy("n0", "n1", "n2")])
    required = RequiredLevels()
    place = "networkTopology" if "volcano" in version else "topologyConstraint"
    head = {"apiVersion": version, "kind": kind, "metadata": {"namespace": "ml", "name": "g"}}
    required.put({**head, "spec": {place: {**constraint, "mode": "soft"}}} if "volcano" in version else head)
    assert not required.keys
    required.put({**head, "spec": {place: {"topologyName": "x", **constraint}}})
    again = RequiredLevels()
    for document in required.documents():  # through a file of `toposcope save`
        again.put(document)
    for keys, outcome in (({}, "spreads"), (again.keys, "waits")):
        before = capacity(snapshot)[0]
        result = whatif(snapshot, None, before, gangs_of(snapshot, keys), Changes(drain=frozenset({"n0"})))
        assert [moved.outcome.value for moved in result.rehomed] == [outcome]


@pytest.mark.regression
def test_new_nodes_have_none_of_the_taints_for_the_state_of_the_one_they_are_like() -> None:
    taints = (Taint("node.kubernetes.io/not-ready", "", "NoExecute"), Taint("dedicated", "x", "NoSchedule"))
    like = structs.replace(node("n0", ready=False), taints=taints)
    _, new = added(cluster([like]), like, 1, {}).nodes
    assert (new.usable, new.taints) == (True, taints[1:])


def test_the_largest_gang_is_placed_first_and_takes_the_room() -> None:
    running = [*pods("small", "n0"), *pods("large", "n1", "n2"), *busy("n0", "n1", "n2", "n3")]
    assert outcomes(drain(cluster(RACKS, running), "n0", "n1")) == {"large": ("stays", "r1"), "small": ("waits", "")}


def test_slots_before_and_after_a_drain() -> None:
    result = drain(cluster(RACKS, pods("g", "n0")), "n0", "n1")
    assert outcomes(result) == {"g": ("moves", "n2")}
    assert room(result, 16, "rack") == (3, 2)


def test_more_nodes_and_the_end_of_a_gang() -> None:
    snapshot = cluster(RACKS, [*pods("g", "n0"), *busy("n0")])
    changes = Changes(named(gangs_of(snapshot), "g"), NewNodes(2, RACKS[7], {RACK: "r9"}))
    result = changed(snapshot, changes)
    assert room(result, 8, "host") == (0, 3)
    new = [node for node in result.snapshot.nodes if "-new-" in node.name]
    assert [(node.label(RACK), node.label(HOST), node.label("example.com/block")) for node in new] == [
        ("r9", "n7-new-1", "b1"),
        ("r9", "n7-new-2", "b1"),
    ]


def test_admitted_workloads_take_their_room_one_after_the_other() -> None:
    first, second = (
        {**asked, "metadata": {**asked["metadata"], "name": name}}
        for name in ("one", "two")
        for asked in [job(3, None, {"kueue.x-k8s.io/podset-required-topology": "example.com/block"})]
    )
    result = changed(cluster(RACKS, busy("n0", "n1", "n2")), Changes(admit=(first, second)))
    assert [(answer.subject.split()[0], answer.fits) for answer in result.admitted] == [
        ("job/one", True),
        ("job/two", False),
    ]
    assert room(result, 8, "host") == (3, 0)


@pytest.mark.parametrize("seed", range(60))
def test_a_drain_at_random(seed: int) -> None:
    """No node is overfull afterwards, and nobody waits for whom there was room alone."""
    rng = random.Random(seed)
    snapshot = at_random(rng)
    usable = [node.name for node in snapshot.nodes if node.usable]
    if not usable:
        return
    gone = frozenset(rng.sample(usable, 1))
    result = drain(snapshot, *gone)
    for facts in result.snapshot.nodes:
        taken = result.snapshot.requested.get(facts.name, {})
        assert all(taken.get(name, 0) <= amount for name, amount in facts.allocatable.items())
        assert facts.name not in gone or not taken
    waiting = [gang for gang in result.rehomed if gang.outcome is Outcome.WAITS]
    assert len(result.snapshot.pods or ()) + sum(gang.lost for gang in waiting) == len(snapshot.pods or ())
    if len(waiting) == len(result.rehomed) == 1:
        lost = [placement for placement in waiting[0].gang.placed if placement.node in gone]
        free = {node.name: result.snapshot.free(node) or {} for node in result.snapshot.nodes if node.usable}
        assert not fits(lost, {name: dict(amounts) for name, amounts in free.items()})


def fits(members: Sequence[PodView], free: Mapping[str, dict[str, int]]) -> bool:
    if not members:
        return True
    for amounts in free.values():
        if all(amounts.get(name, 0) >= amount for name, amount in members[0].requests.items()):
            for name, amount in members[0].requests.items():
                amounts[name] -= amount
            if fits(members[1:], free):
                return True
            for name, amount in members[0].requests.items():
                amounts[name] += amount
    return False


@pytest.mark.parametrize("seed", range(60))
def test_the_fewest_pods_are_moved(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    gpus, per_pod, depth = rng.randint(2, 6), rng.randint(1, 3), rng.randint(1, 2)
    table, _ = capacity(snapshot)
    best = next(
        freeings(table, snapshot.pods or (), gpus=gpus, per_pod=per_pod, depth=depth, movable=lambda _: True), None
    )
    assert (len(best.pods) if best else None) == fewest(snapshot, gpus, min(gpus, per_pod), depth)


def fewest(snapshot: Snapshot, gpus: int, each: int, depth: int) -> int | None:
    """Tries every set of pods."""
    wanted = -(-gpus // each)
    running = snapshot.pods or ()
    for count in range(len(running) + 1):
        for moved in combinations(running, count):
            freed = Counter[str]()
            for running_pod in moved:
                freed[running_pod.node] += running_pod.requests["nvidia.com/gpu"]
            domains: Counter[tuple[str, ...]] = Counter()
            for one_node in snapshot.nodes:
                if one_node.usable:
                    free = (snapshot.free(one_node) or {})["nvidia.com/gpu"] + freed[one_node.name]
                    domains[one_node.values[:depth]] += free // each
            if any(slots >= wanted for slots in domains.values()):
                return count
    return None


def test_moving_pods_to_free_a_rack() -> None:
    snapshot = cluster(RACKS, [*busy("n0", "n1", "n4"), *pods("g", "n0")])
    table, gangs = capacity(snapshot)
    freeing = next(freeings(table, snapshot.pods or (), gpus=16, per_pod=8, depth=2, movable=lambda _: True))
    assert [pod.name for pod in freeing.pods] == ["g-0"]
    (moved,) = vacated(snapshot, None, table, gangs_of(snapshot), freeing=freeing, gpus=16, per_pod=8)
    assert (moved.outcome, [placement.node for placement in moved.placed]) == (Outcome.MOVES, ["n4"])
    assert len(gangs) == 2


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_of_a_changed_cluster_is_what_counting_anew_finds(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    before, gangs = capacity(snapshot)
    for view in View:
        before.sums(view, one_pod(2), 2)
    result = whatif(
        snapshot, None, before, gangs, Changes(gangs[:1], None, frozenset({rng.choice(snapshot.nodes).name}))
    )
    anew, _ = capacity(result.snapshot)
    for view in View:
        assert result.after.slots(view, one_pod(2)) == anew.slots(view, one_pod(2))
        assert result.after.sums(view, one_pod(2), 2) == anew.sums(view, one_pod(2), 2)
