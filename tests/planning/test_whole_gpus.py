"""Plans are made of whole GPUs: shares that go by the name of GPUs hold no gang."""

import pytest
from tests.planning.clusters import GPU, GPUS_ALONE, PLACES, cluster, node, pod, pods
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.freeing import freeings
from toposcope.planning.gangs import gangs_of
from toposcope.planning.plan import Plan
from toposcope.planning.slots import gpus_per_pod, slots
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import select_scope


def sliced(name: str, gpus: int = 4, offered: int = 40) -> NodeView:
    """A node whose GPUs are offered in shares."""
    return NodeView(
        name=name,
        uid=name,
        places=PLACES,
        values=("b", "r", name, str(gpus)),
        is_ready=True,
        is_schedulable=True,
        taints=(),
        allocatable={GPU: offered, "cpu": 64_000, "pods": 110},
        conditions={},
        matrix=None,
    )


def plan(snapshot: Snapshot) -> Plan:
    return Plan(snapshot, select_scope(snapshot))


def fitting(snapshot: Snapshot, gpus: int, per_pod: int) -> dict[str, int]:
    """Gangs that fit now, by level."""
    capacity = plan(snapshot).capacity
    counts = {}
    for row in slots(capacity, (gpus,), per_pod, GPUS_ALONE):
        counts[row.level.domain] = row.fitting[FreeBasis.NOW]
    return counts


@pytest.mark.parametrize("per_pod", [1, 2, 4, 8, 32])
def test_gang_is_not_put_on_a_host_with_fewer_gpus(per_pod: int) -> None:
    nodes = [sliced("a"), sliced("b"), node("whole", gpus=4)]
    snapshot = cluster(nodes)
    assert fitting(snapshot, 32, per_pod) == {}


def test_only_whole_gpus_make_slots() -> None:
    nodes = [
        sliced("a"),
        node("four", gpus=4),
        node("eight", gpus=8),
    ]
    snapshot = cluster(nodes)
    assert fitting(snapshot, 8, 8) == {
        "block": 1,
        "rack": 1,
        "host": 1,
    }
    assert fitting(snapshot, 12, 4) == {
        "block": 1,
        "rack": 1,
    }
    drawn = plan(snapshot)
    assert gpus_per_pod(drawn.capacity) == 8


def test_node_that_lost_a_gpu_has_one_less_whatever_is_offered() -> None:
    seven_left = sliced("n", gpus=7, offered=8)
    snapshot = cluster([seven_left])
    assert fitting(snapshot, 8, 8) == {}
    assert fitting(snapshot, 7, 7) == {
        "block": 1,
        "rack": 1,
        "host": 1,
    }


def test_pods_with_shares_are_counted_as_parts_and_make_no_gang() -> None:
    nodes = [
        sliced("a"),
        sliced("b"),
        node("whole"),
    ]
    running = pods("shared", "a", "b", gpus=2)

    drawn = plan(cluster(nodes, running))

    assert drawn.gangs == ()
    assert drawn.scores == ()
    assert drawn.parts == 2
    assert drawn.shared == ("a", "b")


def test_gang_on_whole_gpus_could_not_be_closer_on_shares() -> None:
    nodes = [
        node("n1", "b1", "r1"),
        node("n2", "b2", "r2"),
        sliced("s", gpus=8, offered=80),
    ]
    running = pods("train", "n1", "n2")

    drawn = plan(cluster(nodes, running))

    (score,) = drawn.scores
    assert score.value == 1.0
    assert not score.can_improve


def test_pods_on_shares_are_not_moved_to_free_gpus() -> None:
    on_shares = pods("shared", "s", gpus=30)
    on_whole_gpus = pods("job", "n", gpus=4)
    nodes = [sliced("s"), node("n")]

    drawn = plan(cluster(nodes, [*on_shares, *on_whole_gpus]))

    (freeing,) = freeings(
        drawn.capacity,
        drawn.counted.pods or (),
        gpus=8,
        per_pod=8,
        like=GPUS_ALONE,
        depth=3,
        movable=lambda _: True,
    )
    (moved,) = freeing.pods
    assert moved.name == "job-0"


def test_pods_that_end_give_no_gpus_back_where_they_hold_shares() -> None:
    running = pod("shared", 0, "s", gpus=40)
    snapshot = cluster([sliced("s")], [running])
    capacity = Capacity(
        snapshot,
        select_scope(snapshot),
        gangs_of(snapshot),
    )
    rows = list(slots(capacity, (4,), 4, GPUS_ALONE))
    assert rows == []
