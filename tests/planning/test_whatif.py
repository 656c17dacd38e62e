"""What a change does to gangs and slots: by hand, and against brute force on random small clusters."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest
from msgspec import structs
from tests.planning import clusters
from tests.planning.clusters import (
    BLOCK,
    GPU,
    GPUS_ALONE,
    HOST,
    RACK,
    RACKS,
    at_random,
    busy,
    capacity,
    cluster,
    node,
    pods,
)
from tests.support.workloads import job
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.changes import added
from toposcope.planning.freeing import freeings
from toposcope.planning.gangs import Gang, gangs_of, named
from toposcope.planning.rehoming import RehomingOutcome
from toposcope.planning.required import RequiredLevels
from toposcope.planning.slots import one_pod, shape_of, slots
from toposcope.planning.whatif import Changes, NewNodes, WhatIf, vacated, whatif
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.snapshot.reach import Basis, PodShape

Object = dict[str, Any]


def drain(snapshot: Snapshot, *names: str) -> WhatIf:
    changes = Changes(drain=frozenset(names))
    return changed(snapshot, changes)


def changed(snapshot: Snapshot, changes: Changes) -> WhatIf:
    table, gangs = capacity(snapshot)
    return whatif(snapshot, None, table, gangs, changes)


def outcomes(result: WhatIf) -> dict[str, tuple[str, str]]:
    """What becomes of each gang, and the narrowest domain that it is in."""
    moved = {}
    for rehomed in result.rehomed:
        narrowest = rehomed.domain[-1] if rehomed.domain else ""
        moved[rehomed.gang.name] = (rehomed.outcome.value, narrowest)
    return moved


def room(result: WhatIf, gpus: int, domain: str) -> tuple[int, int]:
    """How many gangs fit at a level, before and after."""
    before = fitting_now(result.before, gpus, domain)
    after = fitting_now(result.after, gpus, domain)
    return before, after


def fitting_now(table: Capacity, gpus: int, domain: str) -> int:
    """How many gangs fit at a level."""
    for row in slots(table, (gpus,), 8, GPUS_ALONE):
        if row.level.domain == domain:
            return row.fitting[FreeBasis.NOW]
    return 0


def gang_of_two(
    *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> list[PodView]:
    """Pods of 8 GPUs on n0 and n1 that have no owner."""
    gang: list[PodView] = []
    for pod in pods("g", "n0", "n1", kind=""):
        member = structs.replace(
            pod,
            labels=labels or {},
            annotations=annotations or {},
        )
        gang.append(member)
    return gang


@pytest.mark.parametrize(
    ("free", "gang", "outcome", "domain"),
    [
        pytest.param(
            ["n0", "n1", "n2"],
            ["n0", "n1"],
            "spreads",
            "b0",
            id="another-rack-of-the-block",
        ),
        pytest.param(
            ["n0", "n1", "n4", "n5"],
            ["n0", "n1"],
            "moves",
            "r2",
            id="whole-rack-elsewhere",
        ),
        pytest.param(
            ["n0", "n2", "n3"],
            ["n0", "n2"],
            "stays",
            "r1",
            id="rack-that-it-is-in",
        ),
        pytest.param(
            ["n0", "n1"],
            ["n0", "n1"],
            "waits",
            "n1",
            id="no-room",
        ),
    ],
)
def test_gang_of_a_drained_node_goes_where_there_is_room(
    free: Sequence[str], gang: Sequence[str], outcome: str, domain: str
) -> None:
    running = [*pods("g", *gang), *busy(*free)]
    snapshot = cluster(RACKS, running)

    result = drain(snapshot, "n0")

    assert outcomes(result) == {"g": (outcome, domain)}
    assert result.is_harmless == (outcome in ("stays", "moves"))


@pytest.mark.parametrize(
    "key",
    ["kueue.x-k8s.io/podset-required-topology", "leaderworkerset.sigs.k8s.io/exclusive-topology"],
    ids=["kueue", "leader-worker-set"],
)
def test_gang_whose_annotation_requires_its_rack_waits(key: str) -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "g"}
    gang = gang_of_two(labels=labels, annotations={key: RACK})
    others = busy("n0", "n1", "n2")
    snapshot = cluster(RACKS, [*gang, *others])

    result = drain(snapshot, "n0")

    (rehomed,) = result.rehomed
    assert rehomed.gang.name == "g"
    assert rehomed.outcome is RehomingOutcome.WAITS
    assert rehomed.required is not None


def outcome_with(required: RequiredLevels, gang: Sequence[PodView]) -> str:
    """What becomes of the gang if n0 is drained and these objects say what it requires."""
    others = busy("n0", "n1", "n2")
    snapshot = cluster(RACKS, [*gang, *others])
    table, _ = capacity(snapshot)
    gangs = gangs_of(snapshot, required.keys)
    drain_first = Changes(drain=frozenset({"n0"}))
    result = whatif(snapshot, None, table, gangs, drain_first)
    (rehomed,) = result.rehomed
    return rehomed.outcome.value


POD_GANG = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {"namespace": "ml", "name": "g"},
    "spec": {"topologyConstraint": {"topologyName": "x", "packConstraint": {"required": RACK}}},
}
KAI_POD_GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"namespace": "ml", "name": "g"},
    "spec": {"topologyConstraint": {"topology": "x", "requiredTopologyLevel": RACK}},
}
VOLCANO_POD_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"namespace": "ml", "name": "g"},
    "spec": {"networkTopology": {"topologyName": "x", "highestTierName": "rack"}},
}


@pytest.mark.regression
@pytest.mark.parametrize(
    ("requires", "labels", "annotations"),
    [
        pytest.param(
            POD_GANG,
            {"grove.io/podgang": "g"},
            {},
            id="grove",
        ),
        pytest.param(
            KAI_POD_GROUP,
            {},
            {"pod-group-name": "g"},
            id="kai",
        ),
        pytest.param(
            VOLCANO_POD_GROUP,
            {},
            {"scheduling.k8s.io/group-name": "g"},
            id="volcano",
        ),
    ],
)
def test_gang_whose_object_requires_its_rack_waits(
    requires: Object, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    gang = gang_of_two(labels=labels, annotations=annotations)
    required = RequiredLevels()
    assert outcome_with(required, gang) == "spreads"

    required.put(requires)
    assert outcome_with(required, gang) == "waits"

    saved_and_loaded = RequiredLevels()
    for document in required.documents():
        saved_and_loaded.put(document)
    assert outcome_with(saved_and_loaded, gang) == "waits"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("item", "spec"),
    [
        pytest.param(
            POD_GANG,
            None,
            id="grove-without-spec",
        ),
        pytest.param(
            KAI_POD_GROUP,
            None,
            id="kai-without-spec",
        ),
        pytest.param(
            KAI_POD_GROUP,
            {"topologyConstraint": {"requiredTopologyLevel": RACK}},
            id="kai-without-topology",
        ),
        pytest.param(
            VOLCANO_POD_GROUP,
            {"networkTopology": {"highestTierName": "rack", "mode": "soft"}},
            id="volcano-soft",
        ),
    ],
)
def test_object_without_a_hard_requirement_requires_nothing(item: Object, spec: Object | None) -> None:
    changed_item = dict(item)
    if spec:
        changed_item["spec"] = spec
    else:
        del changed_item["spec"]
    required = RequiredLevels()
    required.put(changed_item)
    assert not required.keys


@pytest.mark.regression
def test_new_node_has_no_taint_for_the_state_of_its_model() -> None:
    not_ready = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
    dedicated = Taint("dedicated", "x", "NoSchedule")
    model = structs.replace(
        node("n0", ready=False),
        taints=(not_ready, dedicated),
    )
    snapshot = cluster([model])

    _, new = added(snapshot, model, 1, {}).nodes

    assert new.is_usable
    assert new.taints == (dedicated,)


def test_largest_gang_is_placed_first_and_takes_the_room() -> None:
    small = pods("small", "n0")
    large = pods("large", "n1", "n2")
    others = busy("n0", "n1", "n2", "n3")
    snapshot = cluster(RACKS, [*small, *large, *others])

    result = drain(snapshot, "n0", "n1")

    assert outcomes(result) == {
        "large": ("stays", "r1"),
        "small": ("waits", ""),
    }


def test_drain_costs_the_slots_of_its_nodes() -> None:
    snapshot = cluster(RACKS, pods("g", "n0"))

    result = drain(snapshot, "n0", "n1")

    assert outcomes(result) == {"g": ("moves", "n2")}
    assert room(result, 16, "rack") == (3, 2)


def test_new_nodes_and_the_end_of_a_gang_give_room() -> None:
    running = [*pods("g", "n0"), *busy("n0")]
    snapshot = cluster(RACKS, running)
    ending = named(gangs_of(snapshot), "g")
    new_nodes = NewNodes(2, RACKS[7], {RACK: "r9"})

    result = changed(snapshot, Changes(ending, new_nodes))

    assert room(result, 8, "host") == (0, 3)
    *_, first, second = result.snapshot.nodes
    assert len(result.snapshot.nodes) == len(RACKS) + 2
    assert first.label(HOST) == "n7-new-1"
    assert first.label(RACK) == "r9"
    assert first.label(BLOCK) == "b1"
    assert second.label(HOST) == "n7-new-2"
    assert second.label(RACK) == "r9"
    assert second.label(BLOCK) == "b1"


def kueue_job(name: str) -> Object:
    """A Job of three pods that stays in a block."""
    item = job(3, None, {"kueue.x-k8s.io/podset-required-topology": BLOCK})
    item["metadata"]["name"] = name
    del item["spec"]["template"]["spec"]["schedulerName"]
    return item


def test_admitted_workloads_take_their_room_one_after_the_other() -> None:
    admit = (kueue_job("one"), kueue_job("two"))
    snapshot = cluster(RACKS, busy("n0", "n1", "n2"))

    result = changed(snapshot, Changes(admit=admit))

    first, second = result.admitted
    assert first.subject.startswith("job/one")
    assert first.fits
    assert second.subject.startswith("job/two")
    assert not second.fits
    assert room(result, 8, "host") == (3, 0)


@pytest.mark.parametrize("seed", range(60))
def test_random_drain_overfills_no_node_and_leaves_no_gang_that_fits(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    usable = [node.name for node in snapshot.nodes if node.is_usable]
    if not usable:
        return
    gone = rng.choice(usable)

    result = drain(snapshot, gone)

    assert_no_node_is_overfilled(result.snapshot)
    assert not result.snapshot.requested.get(gone)

    lost = 0
    waiting = []
    for rehomed in result.rehomed:
        if rehomed.outcome is RehomingOutcome.WAITS:
            waiting.append(rehomed)
            lost += rehomed.lost
    running_before = snapshot.pods or ()
    still_running = result.snapshot.pods or ()
    assert len(still_running) + lost == len(running_before)
    if len(waiting) == len(result.rehomed) == 1:
        assert_does_not_fit(waiting[0].gang, gone, result.snapshot)


def assert_no_node_is_overfilled(snapshot: Snapshot) -> None:
    """Pods request no more of a node than it has."""
    for node_view in snapshot.nodes:
        taken = snapshot.requested.get(node_view.name, {})
        for name, amount in node_view.allocatable.items():
            assert taken.get(name, 0) <= amount


def assert_does_not_fit(gang: Gang, gone: str, snapshot: Snapshot) -> None:
    """The pods of a gang that were on a drained node have no place on the others."""
    displaced = [placement for placement in gang.placed if placement.node == gone]
    free = {}
    for node_view in snapshot.nodes:
        if node_view.is_usable:
            free[node_view.name] = dict(snapshot.free(node_view) or {})
    assert not fits(displaced, free)


def fits(members: Sequence[PodView], free: Mapping[str, dict[str, int]]) -> bool:
    """Tries every node for every pod."""
    if not members:
        return True
    first, *others = members
    for amounts in free.values():
        if not has_room(amounts, first):
            continue
        for name, amount in first.requests.items():
            amounts[name] -= amount
        if fits(others, free):
            return True
        for name, amount in first.requests.items():
            amounts[name] += amount
    return False


def has_room(amounts: Mapping[str, int], pod: PodView) -> bool:
    """Whether a node with so much free takes a pod."""
    for name, amount in pod.requests.items():
        if amounts.get(name, 0) < amount:
            return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_fewest_pods_are_moved_to_free_a_slot(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    gpus = rng.randint(2, 6)
    per_pod = rng.randint(1, 3)
    depth = rng.randint(1, 2)
    table, _ = capacity(snapshot)

    found = freeings(
        table,
        snapshot.pods or (),
        gpus=gpus,
        per_pod=per_pod,
        like=GPUS_ALONE,
        depth=depth,
        movable=lambda _: True,
    )
    best = next(found, None)

    moved = len(best.pods) if best else None
    assert moved == fewest_moved(snapshot, gpus, min(gpus, per_pod), depth)


def fewest_moved(snapshot: Snapshot, gpus: int, each: int, depth: int) -> int | None:
    """Tries every set of pods."""
    wanted = -(-gpus // each)
    running = snapshot.pods or ()
    for count in range(len(running) + 1):
        for moved in combinations(running, count):
            if most_slots(snapshot, moved, each, depth) >= wanted:
                return count
    return None


def most_slots(snapshot: Snapshot, moved: Sequence[PodView], each: int, depth: int) -> int:
    """The most pods of so many GPUs that a domain takes when these pods are gone."""
    freed = Counter[str]()
    for pod in moved:
        freed[pod.node] += pod.requests[GPU]
    domains: Counter[tuple[str, ...]] = Counter()
    for node_view in snapshot.nodes:
        if not node_view.is_usable:
            continue
        amounts = snapshot.free(node_view) or {}
        free = amounts[GPU] + freed[node_view.name]
        domain = node_view.values[:depth]
        domains[domain] += free // each
    return max(domains.values(), default=0)


def test_pods_that_are_moved_to_free_a_rack_find_another_node() -> None:
    others = busy("n0", "n1", "n4")
    snapshot = cluster(RACKS, [*others, *pods("g", "n0")])
    table, gangs = capacity(snapshot)
    assert len(gangs) == 2

    found = freeings(
        table,
        snapshot.pods or (),
        gpus=16,
        per_pod=8,
        like=GPUS_ALONE,
        depth=2,
        movable=lambda _: True,
    )
    freeing = next(found)
    (leaving,) = freeing.pods
    assert leaving.name == "g-0"

    (moved,) = vacated(
        snapshot,
        None,
        table,
        gangs,
        freeing=freeing,
        gang=shape_of(16, 8, GPUS_ALONE),
    )
    assert moved.outcome is RehomingOutcome.MOVES
    (placed,) = moved.placed
    assert placed.node == "n4"


def test_domain_whose_cpu_others_hold_is_not_freed_for_nothing() -> None:
    """The pods with GPUs of n0 could go, but a pod without any holds the CPU that the gang needs there."""
    hungry = PodShape(gpus=8, cpu=32, memory=0, basis=Basis.LIKE)
    web = clusters.pod("web", 0, "n0", gpus=0, cpu=60, kind="StatefulSet")
    snapshot = cluster(RACKS[:4], [web, clusters.pod("g", 0, "n0", cpu=4), clusters.pod("h", 0, "n2", cpu=4)])
    table, _ = capacity(snapshot)
    found = freeings(
        table,
        snapshot.pods or (),
        gpus=16,
        per_pod=8,
        like=hungry,
        depth=2,
        movable=lambda _: True,
    )
    (freeing,) = found
    assert freeing.domain == ("b0", "r1")
    (leaving,) = freeing.pods
    assert leaving.name == "h-0"


def test_pod_with_much_cpu_is_moved_before_one_with_as_many_gpus() -> None:
    """Of two pods with four GPUs each, only one holds the CPU that is short."""
    frugal = PodShape(gpus=4, cpu=30, memory=0, basis=Basis.LIKE)
    running = [clusters.pod("a", 0, "n0", gpus=4, cpu=4), clusters.pod("z", 0, "n0", gpus=4, cpu=50)]
    snapshot = cluster(RACKS[:1], running)
    table, _ = capacity(snapshot)
    (freeing,) = freeings(
        table,
        snapshot.pods or (),
        gpus=4,
        per_pod=4,
        like=frugal,
        depth=2,
        movable=lambda _: True,
    )
    (leaving,) = freeing.pods
    assert leaving.name == "z-0"


@pytest.mark.parametrize("seed", range(20))
def test_changed_capacity_is_that_of_counting_anew(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = at_random(rng)
    before, gangs = capacity(snapshot)
    kind = one_pod(2)
    for view in FreeBasis:
        before.sums(view, kind, 2)
    gone = rng.choice(snapshot.nodes)
    changes = Changes(
        finish=gangs[:1],
        drain=frozenset({gone.name}),
    )

    result = whatif(snapshot, None, before, gangs, changes)

    anew, _ = capacity(result.snapshot)
    for view in FreeBasis:
        assert result.after.slots(view, kind) == anew.slots(view, kind)
        assert result.after.sums(view, kind, 2) == anew.sums(view, kind, 2)
