"""Topologies and levels that a command is about."""

import pytest
from tests.snapshot.clusters import names, node_of, scoped, snapshot, view
from tests.support.cluster import RACK
from tests.support.publishing import spec_levels
from tests.support.saved import Object, cluster_topology
from toposcope.snapshot.levels import Sizes, crossings_of, level_views
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import LevelNotFoundError, Origin, TopologyNotFoundError, select_scope


def cluster_of(*names: str) -> Snapshot:
    """One node and ClusterTopologies of these names."""
    topologies = []
    for name in names:
        topology = cluster_topology()
        topology["metadata"] = {"name": name, "uid": name}
        topologies.append(topology)
    return snapshot([view("a")], (), *topologies)


def test_topology_is_the_named_the_only_or_cluster() -> None:
    assert select_scope(cluster_of("x")).name == "x"
    assert select_scope(cluster_of("x", "cluster")).name == "cluster"
    assert select_scope(cluster_of("x", "y"), "y").name == "y"


def test_one_of_several_topologies_must_be_named() -> None:
    with pytest.raises(TopologyNotFoundError, match="several ClusterTopologies; name one of: x, y"):
        select_scope(cluster_of("x", "y"))


def test_misspelt_topology_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(TopologyNotFoundError, match=r"no ClusterTopology 'rakc' \(did you mean 'rack'\?\); existing"):
        select_scope(cluster_of("rack"), "rakc")


def test_levels_come_from_the_spec_the_status_or_the_labels() -> None:
    nodes = [view("a"), view("b", rack=None)]
    remembered = cluster_topology(status={"levels": spec_levels(RACK)})
    assert scoped(view("a"), levels=[{"domain": "row", "key": "example.com/row"}]).path == "row"
    assert scoped(view("a")).path == "zone > block > rack > nvlink-domain > host"
    assert "rack" in select_scope(snapshot(nodes, (), remembered)).path
    assert "rack" not in select_scope(snapshot(nodes)).path


def test_gpus_of_device_plugins_are_shown_without_agents() -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    with_gpus = node_of({"metadata": {"name": "n", "labels": zone}, "status": {"allocatable": {"amd.com/gpu": "4"}}})
    without_gpus = node_of({"metadata": {"name": "cpu-only"}})
    scope = select_scope(Snapshot("a test", None, (without_gpus, with_gpus), ()))
    assert scope.origin == Origin.INFERRED
    assert names(scope.nodes) == ["n"]
    assert scope.path == "zone"


def test_level_can_be_named_by_domain_or_key() -> None:
    scope = scoped(view("a"))
    assert scope.level("rack") == 2
    assert scope.level("cloud.google.com/gce-topology-subblock") == 2
    with pytest.raises(LevelNotFoundError, match=r"no level 'racks' \(did you mean 'rack'\?\); the levels are: zone"):
        scope.level("racks")


RACKS_IN_TWO_BLOCKS = [view("a"), view("b"), view("c", rack="r2", cordoned=True), view("d", rack="r2", block="b2")]
"""Two racks are called r2, in different blocks."""


def test_levels_tell_coverage_sizes_and_who_needs_them() -> None:
    required_by = [{"domain": "rack", "workloads": 3}, {"domain": "row", "workloads": 2}]
    topology = cluster_topology({"requiredBy": required_by}, required=["block"])
    views = level_views(select_scope(snapshot(RACKS_IN_TWO_BLOCKS, (), topology)))
    levels = {level.domain: level for level in views}
    rack = levels["rack"]
    assert rack.domains == 3
    assert rack.sizes == Sizes(1, 1, 2)
    assert rack.nodes == 4
    assert rack.usable == 3
    assert rack.workloads == 3
    assert levels["block"].by_spec
    assert levels.pop("row").problem == "required, but on no node"
    assert [level.problem for level in levels.values()] == [""] * 5


def test_reused_rack_name_is_a_problem_of_the_hierarchy() -> None:
    (problem,) = crossings_of(select_scope(snapshot(RACKS_IN_TWO_BLOCKS))).problems
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
    problems, notes = crossings_of(select_scope(snapshot(REUSED_RACKS, (), mixed)))
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
    problems, notes = crossings_of(select_scope(snapshot(REUSED_RACKS, (), topology)))
    assert problems == []
    assert len(notes) == 1


def test_level_that_some_nodes_lack_is_listed_outside_the_topology() -> None:
    levels = level_views(scoped(view("a"), view("b", rack=None)))
    outside = [level for level in levels if not level.in_topology]
    assert [level.domain for level in outside] == ["rack"]
    assert levels[-1].missing_nodes == ("b",)
    assert levels[-1].problem == ("not a level of the topology, because 1 node lacks it and all 2 must carry it")


def test_placeholder_of_a_level_is_named() -> None:
    levels = level_views(scoped(view("a"), view("b", rack="no-topology")))
    assert "because 1 node lacks it (1 with the value 'no-topology', which names no place)" in levels[-1].problem


def test_level_of_the_spec_is_kept_and_counts_who_falls_out() -> None:
    nodes = [view("a"), view("b", rack=None)]
    (rack,) = level_views(scoped(*nodes, levels=spec_levels(RACK)))
    assert rack.problem == "1 node lacks it and falls out of the topology"
