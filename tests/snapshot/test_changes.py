"""What is different between two looks at a cluster."""

from tests.snapshot.clusters import snapshot, view
from tests.support.cluster import RACK
from tests.support.saved import cluster_topology
from toposcope.api.levels import Level
from toposcope.snapshot.changes import Change, ChangeKind, changes
from toposcope.snapshot.model import NodeView, PublishedTopology
from toposcope.snapshot.scope import Scope, select_scope


def scope(*nodes: NodeView, ready: str = "") -> Scope:
    """The nodes under a ClusterTopology, which may say whether it is Ready."""
    conditions = []
    if ready:
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "Because",
        }
        conditions.append(condition)
    topology = cluster_topology({"conditions": conditions})
    return select_scope(snapshot(nodes, (), topology))


def differences(before: Scope, after: Scope) -> list[Change]:
    """What has changed, where nothing is published."""
    return changes(before, after, [], [])


def published(*domains: str) -> PublishedTopology:
    """KAI's Topology `cluster` with these levels."""
    levels = tuple(Level("", domain) for domain in domains)
    return PublishedTopology("kai.scheduler/v1alpha1", "Topology", "cluster", levels, {})


def test_same_cluster_has_not_changed() -> None:
    before = scope(view("a"))
    after = scope(view("a"))
    assert differences(before, after) == []


def test_rack_that_is_gone_is_one_change_and_a_node_another() -> None:
    before = scope(
        view("a0"),
        view("a1"),
        view("a2"),
        view("b0", "r2"),
        view("b1", "r2"),
        view("b2", "r2"),
    )
    after = scope(
        view("a0"),
        view("a1"),
        view("c0", "r3"),
        view("a9"),
    )
    assert differences(before, after) == [
        Change(ChangeKind.DOMAIN_GONE, "rack", "z/b1/r2", "", ("b0", "b1", "b2")),
        Change(ChangeKind.NODE_GONE, "node", "z/b1/r1", "", ("a2",)),
        Change(ChangeKind.DOMAIN_NEW, "rack", "", "z/b1/r3", ("c0",)),
        Change(ChangeKind.NODE_NEW, "node", "", "z/b1/r1", ("a9",)),
    ]


def test_broadest_domain_that_is_gone_stands_for_what_was_in_it() -> None:
    before = scope(
        view("a"),
        view("b", "x", block="b2"),
        view("c", "y", block="b2"),
    )
    after = scope(view("a"))
    gone = Change(ChangeKind.DOMAIN_GONE, "block", "z/b2", "", ("b", "c"))
    assert differences(before, after) == [gone]


def test_nodes_that_move_together_are_one_change_at_the_broadest_level() -> None:
    before = scope(
        view("a"),
        view("b"),
        view("c"),
    )
    after = scope(
        view("a", "r7", block="b2"),
        view("b", "r8", block="b2"),
        view("c"),
    )
    moved = Change(ChangeKind.MOVED, "block", "b1", "b2", ("a", "b"))
    assert differences(before, after) == [moved]


def test_state_hardware_levels_and_published_resources_change() -> None:
    before = scope(view("a"), view("b"))
    sick = view(
        "a",
        state="degraded",
        labels={"gpu.topology/shape": "ffff"},
        gpus=7,
    )
    without_rack = view("b", None, ready=False)
    after = scope(sick, without_rack)
    published_before = published("zone", "rack")
    published_after = published("zone")
    assert changes(before, after, [published_before], [published_after]) == [
        Change(ChangeKind.LEVEL, "rack", RACK, ""),
        Change(ChangeKind.PUBLISHED, "topology.kai.scheduler/cluster", "zone > rack", "zone"),
        Change(ChangeKind.MOVED, "rack", "r1", "", ("b",)),
        Change(ChangeKind.STATE, "state", "ok", "degraded", ("a",)),
        Change(ChangeKind.STATE, "state", "ok", "not-ready", ("b",)),
        Change(ChangeKind.HARDWARE, "gpus", "8", "7", ("a",)),
        Change(ChangeKind.HARDWARE, "shape", "", "ffff", ("a",)),
        Change(ChangeKind.HARDWARE, "allocatable GPUs", "8", "7", ("a",)),
    ]


def test_condition_that_turns_is_a_change() -> None:
    before = scope(view("a"), ready="True")
    after = scope(view("a"), ready="False")
    turned = Change(
        ChangeKind.CONDITION,
        "Ready",
        "True (Because)",
        "False (Because)",
    )
    assert differences(before, after) == [turned]
