"""Topologies and levels that a command is about, nodes that filters choose, and the tree that it prints."""

import pytest
from tests.snapshot.clusters import node_of, pod_of, scoped, snapshot, view
from tests.support.cluster import BLOCK, RACK
from tests.support.publishing import spec_levels
from tests.support.saved import cluster_topology, pod
from tests.support.tables import each_case
from toposcope.api.requirement import Requirement
from toposcope.snapshot.filters import Mark, SelectorError, filter_nodes, marks, parse, states
from toposcope.snapshot.levels import Sizes, crossings_of, level_views
from toposcope.snapshot.scope import LevelNotFoundError, Origin, TopologyNotFoundError, select_scope
from toposcope.snapshot.tree import Line, left_out, outline, tree


def named(name: str) -> dict[str, object]:
    document = cluster_topology()
    return document | {"metadata": {"name": name, "uid": name}}


def test_the_topology_meant_is_the_named_the_only_or_the_one_called_cluster() -> None:
    nodes = [view("a")]
    assert select_scope(snapshot(nodes, (), named("x"))).name == "x"
    assert select_scope(snapshot(nodes, (), named("x"), named("cluster"))).name == "cluster"
    assert select_scope(snapshot(nodes, (), named("x"), named("y")), "y").name == "y"
    with pytest.raises(TopologyNotFoundError, match=r"several ClusterTopologies; name one of: x, y"):
        select_scope(snapshot(nodes, (), named("x"), named("y")))
    with pytest.raises(TopologyNotFoundError, match=r"no ClusterTopology 'rakc' \(did you mean 'rack'\?\); existing"):
        select_scope(snapshot(nodes, (), named("rack")), "rakc")


def test_levels_come_from_the_spec_the_status_or_the_labels() -> None:
    assert scoped(view("a"), levels=[{"domain": "row", "key": "example.com/row"}]).path == "row"
    assert scoped(view("a")).path == "zone > block > rack > nvlink-domain > host"
    remembered = cluster_topology(status={"levels": spec_levels(RACK)})
    lacking = snapshot([view("a"), view("b", rack=None)], (), remembered)
    assert "rack" in select_scope(lacking).path
    assert "rack" not in select_scope(snapshot([view("a"), view("b", rack=None)])).path


def test_without_agents_and_topology_what_device_plugins_offer_is_shown() -> None:
    bare = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}}}
    with_gpus = bare | {"status": {"allocatable": {"amd.com/gpu": "4"}}}
    found = snapshot([node_of(with_gpus), node_of(bare | {"metadata": {"name": "cpu-only"}})])
    inferred = select_scope(type(found)("a test", None, found.nodes, ()))
    assert (inferred.origin, [node.name for node in inferred.nodes]) == (Origin.INFERRED, ["n"])
    assert inferred.path == "zone"


def test_a_level_can_be_named_by_domain_or_key() -> None:
    found = scoped(view("a"))
    assert found.level("rack") == found.level("cloud.google.com/gce-topology-subblock") == 2
    with pytest.raises(LevelNotFoundError, match=r"no level 'racks' \(did you mean 'rack'\?\); the levels are: zone"):
        found.level("racks")


@pytest.mark.regression
@pytest.mark.parametrize("count", ["2147483640", "9" * 63, "10000", "-1", "8x", "\u0668", ""])
def test_a_count_that_no_hardware_has_is_not_added_up(count: str) -> None:
    seen = snapshot([view("a"), view("b", labels={"gpu.topology/gpus": count})])
    assert tree(seen, select_scope(seen)).gpus == 16


@each_case("snapshot.yaml")
def test_a_taint_marks_a_node_unless_tolerated_or_already_said(key: str, cordoned: bool, expected: list[str]) -> None:
    assert marks(view("a", cordoned=cordoned, taints=[{"key": key, "effect": "NoSchedule"}])) == (*expected,)


def test_free_is_what_pods_leave_on_nodes_that_take_pods() -> None:
    nodes = [view("a"), view("b"), view("c", cordoned=True), view("d", ready=False)]
    pods = [
        pod_of(pod("one", "a", 3)),
        pod_of(pod("two", "a", 1)),
        pod_of(pod("done", "b", 8, phase="Succeeded")),
        pod_of(pod("waiting", None, 8, phase="Pending")),
    ]
    seen = snapshot(nodes, pods)
    assert [seen.free_gpus(node) for node in seen.nodes] == [4, 8, 0, 0]
    free = seen.free(seen.nodes[0])
    assert free is not None
    assert (free["nvidia.com/gpu"], free["pods"], free["cpu"]) == (4, 108, 100_000)
    root = tree(seen, select_scope(seen))
    assert (root.nodes, root.gpus, root.free, root.marks) == (4, 32, 12, {Mark.CORDONED: 1, Mark.NOT_READY: 1})
    unknown = snapshot(nodes, None)
    assert tree(unknown, select_scope(unknown)).free is None


def test_equal_rack_names_in_two_blocks_are_two_racks_and_who_lacks_a_level_stays_above() -> None:
    levels = spec_levels(BLOCK, RACK)
    nodes = [view("a"), view("b", block="b2"), view("c", rack=None), view("d", rack="no-topology")]
    seen = snapshot(nodes, (), cluster_topology(levels=levels))
    root = tree(seen, select_scope(seen))
    assert list(root.children) == ["b1", "b2"]
    assert list(root.children["b1"].children) == ["r1"]
    assert root.children["b1"].left_out == ["c", "d"]
    assert left_out(root) == (2, 16)
    assert list(root.hosts) == ["a", "b"]


def texts(line: Line, depth: int = 0) -> list[str]:
    own = f"{'  ' * depth}{line.level} {'+'.join(line.names)} {line.nodes} {line.gpus}"
    lost = [f"{'  ' * depth}lost {'+'.join(line.left_out)}"] if line.left_out else []
    return [own, *(text for child in line.below for text in texts(child, depth + 1)), *lost]


def test_domains_of_one_shape_share_a_line_and_what_is_not_well_stands_alone() -> None:
    nodes = [view(f"n{rack}{i}", rack=f"r{rack}") for rack in range(5) for i in range(2)]
    nodes[5] = view("n21", rack="r2", state="degraded")
    seen = snapshot(nodes)
    found = select_scope(seen)
    top = outline(tree(seen, found), found.levels)
    assert texts(top) == [
        " cluster 10 80",
        "  zone z 10 80",
        "    block b1 10 80",
        "      rack r0+r1+r3+r4 8 64",
        "        nvlink-domain = host n00 1 8",
        "        nvlink-domain = host n01 1 8",
        "      rack r2 2 16",
        "        nvlink-domain = host n20 1 8",
        "        nvlink-domain = host n21 1 8",
    ]
    assert texts(outline(tree(seen, found), found.levels, 3))[3:] == [
        "      rack r0+r1+r3+r4 8 64",
        "      rack r2 2 16",
    ]
    assert len(texts(outline(tree(seen, found), found.levels, everything=True))) == 3 + 5 + 10


def test_many_that_are_not_well_share_a_line_too() -> None:
    seen = snapshot([view(f"n{i:02}", rack=f"r{i:02}", state="degraded") for i in range(40)])
    found = select_scope(seen)
    block = outline(tree(seen, found), found.levels).below[0].below[0]
    assert [len(line.names) for line in block.below] == [1] * 10 + [30]
    assert block.below[-1].marks == {Mark.DEGRADED: 30}
    assert not block.below[-1].are_equal


def test_what_is_shown_adds_up_whatever_the_cluster_looks_like() -> None:
    states = ["ok", "ok", "ok", "degraded"]
    nodes = [
        view(f"n{i:03}", rack=f"r{i % 7}" if i % 17 else None, block=f"b{i % 3}", gpus=4 + i % 2, state=states[i % 4])
        for i in range(120)
    ]
    seen = snapshot(nodes, (), cluster_topology(levels=spec_levels(BLOCK, RACK)))
    found = select_scope(seen)

    def check(line: Line) -> None:
        if line.below and len(line.names) == 1:
            assert sum(child.nodes for child in line.below) + len(line.left_out) == line.nodes
        for child in line.below:
            check(child)

    top = outline(tree(seen, found), found.levels)
    assert (top.nodes, top.gpus) == (120, sum(node.gpus for node in nodes))
    check(top)


def test_levels_tell_coverage_sizes_and_who_needs_them() -> None:
    nodes = [view("a"), view("b"), view("c", rack="r2", cordoned=True), view("d", rack="r2", block="b2")]
    status = {"requiredBy": [{"domain": "rack", "workloads": 3}, {"domain": "row", "workloads": 2}]}
    views = level_views(select_scope(snapshot(nodes, (), cluster_topology(status, required=["block"]))))
    found = {level.domain: level for level in views}
    rack = found["rack"]
    # Two racks are called r2, in different blocks.
    assert (rack.domains, rack.sizes, rack.nodes, rack.usable, rack.workloads) == (3, Sizes(1, 1, 2), 4, 3, 3)
    assert found["block"].by_spec
    assert found["row"].problem == "required, but on no node"
    assert [level.problem for level in found.values() if level.domain != "row"] == [""] * 5
    [crossing] = crossings_of(select_scope(snapshot(nodes))).problems
    assert crossing.startswith("rack 'r2' lies under block 'b1' and 'b2'")


@pytest.mark.regression
@pytest.mark.parametrize("reason", [None, "NamesReused", "NamesMixed"])
def test_reused_names_are_a_problem_where_the_controller_says_that_somebody_mixes_them(reason: str | None) -> None:
    nodes = [view(f"{block}{rack}", block=block, rack=rack) for block in ("b1", "b2") for rack in ("r1", "r2")]
    said = {"type": "HierarchyConsistent", "status": str(reason != "NamesMixed"), "reason": reason, "message": "gangs"}
    topology = cluster_topology({"conditions": [said] if reason else []})
    problems, notes = crossings_of(select_scope(snapshot(nodes, (), topology)))
    assert (problems, len(notes)) == ((["gangs"], 0) if reason == "NamesMixed" else ([], 1))


def test_a_level_that_some_nodes_lack_is_listed_outside_the_topology() -> None:
    found = level_views(scoped(view("a"), view("b", rack=None)))
    assert [level.domain for level in found if not level.in_topology] == ["rack"]
    assert found[-1].problem == "not a level of the topology, because 1 node lacks it and all 2 must carry it"
    assert found[-1].missing_nodes == ("b",)
    found = level_views(scoped(view("a"), view("b", rack="no-topology")))
    assert "because 1 node lacks it (1 with the value 'no-topology', which names no place)" in found[-1].problem


def test_a_spec_that_names_a_level_keeps_it_and_says_who_falls_out() -> None:
    [rack] = level_views(scoped(view("a"), view("b", rack=None), levels=spec_levels(RACK)))
    assert rack.problem == "1 node lacks it and falls out of the topology"


def test_nodes_are_filter_nodes_by_label_domain_and_state() -> None:
    nodes = [
        view("a"),
        view("b", state="degraded"),
        view("c", rack="r2", ready=False),
        view("d", rack=None, cordoned=True),
    ]
    found = scoped(*nodes, levels=spec_levels(RACK))

    def names(*arguments: object, **asked: object) -> str:
        return "".join(node.name for node in filter_nodes(found, found.nodes, *arguments, **asked))  # type: ignore[arg-type]

    assert names() == "abcd"
    assert names(domains=[("rack", "r1")]) == "ab"
    assert names(conditions=["degraded", "not-ready"]) == "bc"
    assert names(conditions=["ok"]) == "a"
    assert names(conditions=["left-out"]) == "d"
    assert names(parse("gpu.topology/state!=ok")) == "b"
    assert states(found, nodes[3]) == ("cordoned", "ready", "left-out")


def test_selectors_as_kubectl_takes_them() -> None:
    assert parse(" a=b, c!=d,e in (f, g),h notin (i),j,!k/l.m ,n==o") == (
        Requirement("a", "In", frozenset("b")),
        Requirement("c", "NotIn", frozenset("d")),
        Requirement("e", "In", frozenset("fg")),
        Requirement("h", "NotIn", frozenset("i")),
        Requirement("j", "Exists"),
        Requirement("k/l.m", "DoesNotExist"),
        Requirement("n", "In", frozenset("o")),
    )
    assert parse("") == ()


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "=x", "a in (b", "a b", "a > 3", ")"])
def test_bad_selectors_are_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="label selector"):
        parse(text)
