from dataclasses import replace

from tests.snapshot.clusters import scoped, snapshot, view
from tests.support.saved import cluster_topology
from toposcope.api import label_keys
from toposcope.snapshot.changes import Change, Kind, changes
from toposcope.snapshot.model import Published
from toposcope.snapshot.scope import select_scope
from toposcope.topology.levels import Level


def test_nothing_is_nothing() -> None:
    assert changes(scoped(view("a")), scoped(view("a"))) == []


def test_a_rack_that_is_gone_is_one_change_and_a_node_another() -> None:
    before = scoped(*(view(f"a{i}") for i in range(3)), *(view(f"b{i}", rack="r2") for i in range(3)))
    after = scoped(view("a0"), view("a1"), view("c0", rack="r3"), view("a9"))
    assert changes(before, after) == [
        Change(Kind.DOMAIN_GONE, "rack", "z/b1/r2", "", ("b0", "b1", "b2")),
        Change(Kind.NODE_GONE, "node", "z/b1/r1", "", ("a2",)),
        Change(Kind.DOMAIN_NEW, "rack", "", "z/b1/r3", ("c0",)),
        Change(Kind.NODE_NEW, "node", "", "z/b1/r1", ("a9",)),
    ]


def test_the_broadest_domain_that_is_gone_stands_for_what_was_in_it() -> None:
    before = scoped(view("a"), view("b", block="b2", rack="x"), view("c", block="b2", rack="y"))
    assert changes(before, scoped(view("a"))) == [Change(Kind.DOMAIN_GONE, "block", "z/b2", "", ("b", "c"))]


def test_nodes_that_move_together_are_one_change_at_the_broadest_level() -> None:
    before = scoped(view("a"), view("b"), view("c"))
    after = scoped(view("a", block="b2", rack="r7"), view("b", block="b2", rack="r8"), view("c"))
    assert changes(before, after) == [Change(Kind.MOVED, "block", "b1", "b2", ("a", "b"))]


def test_state_hardware_levels_and_published_resources() -> None:
    before = scoped(view("a"), view("b"))
    after = scoped(
        view("a", state="degraded", labels={label_keys.SHAPE: "ffff"}, gpus=7), view("b", rack=None, ready=False)
    )
    old = Published("kai.scheduler/v1alpha1", "Topology", "cluster", (Level("", "zone"), Level("", "rack")), {})
    new = replace(old, levels=(Level("", "zone"),))
    assert changes(before, after, [old], [new]) == [
        Change(Kind.LEVEL, "rack", "cloud.google.com/gce-topology-subblock", ""),
        Change(Kind.PUBLISHED, "topology.kai.scheduler/cluster", "zone > rack", "zone"),
        Change(Kind.MOVED, "rack", "r1", "", ("b",)),
        Change(Kind.STATE, "state", "ok", "degraded", ("a",)),
        Change(Kind.STATE, "state", "ok", "not-ready", ("b",)),
        Change(Kind.HARDWARE, "gpus", "8", "7", ("a",)),
        Change(Kind.HARDWARE, "shape", "", "ffff", ("a",)),
        Change(Kind.HARDWARE, "allocatable GPUs", "8", "7", ("a",)),
    ]


def test_conditions_that_turn() -> None:
    def with_condition(status: str) -> dict[str, object]:
        return cluster_topology({"conditions": [{"type": "Ready", "status": status, "reason": "Because"}]})

    was, now = (select_scope(snapshot([view("a")], (), with_condition(status))) for status in ("True", "False"))
    assert changes(was, now) == [Change(Kind.CONDITION, "Ready", "True (Because)", "False (Because)")]
