"""Topologies and levels that a command is about."""

import pytest
from tests.snapshot.clusters import names, node_of, scoped, snapshot, view
from tests.support.cluster import RACK, ZONE
from tests.support.publishing import spec_levels
from tests.support.saved import Object, cluster_topology
from toposcope.api.label_keys import LEAF
from toposcope.snapshot.levels import LevelView, Sizes, crossings_of, level_views
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import LevelNotFoundError, Origin, TopologyNotFoundError, select_scope


def cluster_of(*names: str) -> Snapshot:
    """One node and ClusterTopologies of these names."""
    topologies = []
    for name in names:
        topology = cluster_topology()
        topology["metadata"] = {"name": name, "uid": name}
        topologies.append(topology)
    return snapshot([view("a")], (), *topologies)


def levels_of(*nodes: NodeView, topology: Object | None = None) -> tuple[LevelView, ...]:
    """The levels that a command shows of these nodes."""
    topologies = [topology] if topology else []
    cluster = snapshot(nodes, (), *topologies)
    return level_views(select_scope(cluster))


def test_topology_is_the_named_the_only_or_cluster() -> None:
    only = select_scope(cluster_of("x"))
    assert only.name == "x"
    preferred = select_scope(cluster_of("x", "cluster"))
    assert preferred.name == "cluster"
    named = select_scope(cluster_of("x", "y"), "y")
    assert named.name == "y"


def test_one_of_several_topologies_must_be_named() -> None:
    cluster = cluster_of("x", "y")
    with pytest.raises(TopologyNotFoundError, match="several ClusterTopologies; name one of: x, y"):
        select_scope(cluster)


def test_misspelt_topology_is_an_error_with_a_suggestion() -> None:
    cluster = cluster_of("rack")
    with pytest.raises(TopologyNotFoundError, match=r"no ClusterTopology 'rakc' \(did you mean 'rack'\?\); existing"):
        select_scope(cluster, "rakc")


def test_levels_come_from_the_spec() -> None:
    row = {"domain": "row", "key": "example.com/row"}
    scope = scoped(view("a"), levels=[row])
    assert scope.path == "row"


def test_levels_come_from_the_status() -> None:
    nodes = [view("a"), view("b", rack=None)]
    remembered = cluster_topology(status={"levels": spec_levels(RACK)})
    scope = select_scope(snapshot(nodes, (), remembered))
    assert "rack" in scope.path


def test_levels_come_from_the_labels() -> None:
    scope = scoped(view("a"))
    assert scope.path == "zone > block > rack > nvlink-domain > host"
    nodes = [view("a"), view("b", rack=None)]
    scope = select_scope(snapshot(nodes))
    assert "rack" not in scope.path


def test_gpus_of_device_plugins_are_shown_without_agents() -> None:
    document = {
        "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"allocatable": {"amd.com/gpu": "4"}},
    }
    with_gpus = node_of(document)
    without_gpus = node_of({"metadata": {"name": "cpu-only"}})
    cluster = Snapshot("a test", None, (without_gpus, with_gpus), ())
    scope = select_scope(cluster)
    assert scope.origin == Origin.INFERRED
    assert names(scope.nodes) == ["n"]
    assert scope.path == "zone"


def test_level_can_be_named_by_domain_or_key() -> None:
    scope = scoped(view("a"))
    assert scope.level("rack") == 2
    assert scope.level("cloud.google.com/gce-topology-subblock") == 2
    with pytest.raises(LevelNotFoundError, match=r"no level 'racks' \(did you mean 'rack'\?\); the levels are: zone"):
        scope.level("racks")


@pytest.mark.parametrize("name", ["zone", ZONE])
def test_known_level_that_the_spec_leaves_out_says_so(name: str) -> None:
    scope = scoped(view("a"), levels=spec_levels(RACK))
    with pytest.raises(LevelNotFoundError) as caught:
        scope.level(name)
    assert str(caught.value) == f"there is no level {name!r}: spec.levels does not list it; the levels are: rack"


def test_level_that_too_few_nodes_carry_says_how_many() -> None:
    scope = scoped(view("a", labels={LEAF: "leaf-1"}), view("b", rack=None))
    for name, key in (("rack", RACK), ("leaf", LEAF)):
        with pytest.raises(LevelNotFoundError) as caught:
            scope.level(name)
        assert str(caught.value) == (
            f"there is no level {name!r}, because 1 of 2 nodes lack {key} and all 2 must carry it; lacking: b; "
            "the levels are: zone > block > nvlink-domain > host"
        )


def test_topology_of_no_cluster_names_what_exists() -> None:
    with pytest.raises(TopologyNotFoundError) as caught:
        select_scope(Snapshot("a test", None, (view("a"),), ()), "rack")
    assert str(caught.value) == "there is no ClusterTopology 'rack'; existing: none"


def test_table_of_fewer_levels_is_the_one_of_all() -> None:
    scope = scoped(view("a"))
    table_of_another_label = scope.table_with(["example.com/row"])
    table = scope.table()
    assert table is not table_of_another_label
    assert scope.table_with([RACK, ZONE]) is table


RACKS_IN_TWO_BLOCKS = [
    view("a"),
    view("b"),
    view("c", rack="r2", cordoned=True),
    view("d", rack="r2", block="b2"),
]
"""Two racks are called r2, in different blocks."""


def test_levels_tell_coverage_sizes_and_who_needs_them() -> None:
    required_by = [
        {"domain": "rack", "workloads": 3},
        {"domain": "row", "workloads": 2},
    ]
    topology = cluster_topology({"requiredBy": required_by}, required=["block"])
    views = levels_of(*RACKS_IN_TWO_BLOCKS, topology=topology)
    levels = {level.domain: level for level in views}
    rack = levels["rack"]
    assert rack.domains == 3
    assert rack.sizes == Sizes(1, 1, 2)
    assert rack.nodes == 4
    assert rack.usable == 3
    assert rack.workloads == 3
    assert levels["block"].is_required_by_spec
    row = levels.pop("row")
    assert row.problem == "required, but on no node"
    assert len(levels) == 5
    for level in levels.values():
        assert level.problem == "", level.domain


def test_reused_rack_name_is_a_problem_of_the_hierarchy() -> None:
    scope = select_scope(snapshot(RACKS_IN_TWO_BLOCKS))
    (problem,) = crossings_of(scope).problems
    assert problem.startswith("rack 'r2' lies under block 'b1' and 'b2'")


REUSED_RACKS = [
    view("b1r1", block="b1", rack="r1"),
    view("b1r2", block="b1", rack="r2"),
    view("b2r1", block="b2", rack="r1"),
    view("b2r2", block="b2", rack="r2"),
]


def topology_with(status: str, reason: str) -> Object:
    """What the controller says of the hierarchy."""
    condition = {
        "type": "HierarchyConsistent",
        "status": status,
        "reason": reason,
        "message": "gangs",
    }
    return cluster_topology({"conditions": [condition]})


@pytest.mark.regression
def test_reused_names_are_a_problem_where_they_are_mixed() -> None:
    mixed = topology_with("False", "NamesMixed")
    cluster = snapshot(REUSED_RACKS, (), mixed)
    problems, notes = crossings_of(select_scope(cluster))
    assert problems == ["gangs"]
    assert len(notes) == 0


@pytest.mark.regression
@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(cluster_topology({"conditions": []}), id="unknown"),
        pytest.param(topology_with("True", "NamesReused"), id="reused"),
    ],
)
def test_reused_names_are_a_note_where_nobody_mixes_them(topology: Object) -> None:
    cluster = snapshot(REUSED_RACKS, (), topology)
    problems, notes = crossings_of(select_scope(cluster))
    assert problems == []
    assert len(notes) == 1


def test_level_that_some_nodes_lack_is_listed_outside_the_topology() -> None:
    levels = levels_of(view("a"), view("b", rack=None))
    (outside,) = [level for level in levels if not level.is_in_topology]
    assert outside.domain == "rack"
    last = levels[-1]
    assert last.missing_nodes == ("b",)
    assert last.problem == "not a level of the topology, because 1 node lacks it and all 2 must carry it"


def test_placeholder_of_a_level_is_named() -> None:
    levels = levels_of(view("a"), view("b", rack="no-topology"))
    last = levels[-1]
    assert "because 1 node lacks it (1 with the placeholder 'no-topology')" in last.problem


def test_level_of_the_spec_is_kept_and_counts_who_falls_out() -> None:
    topology = cluster_topology(levels=spec_levels(RACK))
    (rack,) = levels_of(view("a"), view("b", rack=None), topology=topology)
    assert rack.problem == "1 node lacks it and falls out of the topology"
