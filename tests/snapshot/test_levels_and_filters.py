import pytest

from tests.snapshot.clusters import scoped, snapshot, view
from tests.support.saved import cluster_topology
from toposcope.api.cluster_topology import Requirement
from toposcope.snapshot.filters import SelectorError, filter_nodes, parse, states
from toposcope.snapshot.levels import Sizes, crossings_of, level_views
from toposcope.snapshot.scope import select_scope


def test_levels_tell_coverage_sizes_and_who_needs_them() -> None:
    nodes = [view("a"), view("b"), view("c", rack="r2", cordoned=True), view("d", rack="r2", block="b2")]
    status = {"requiredBy": [{"domain": "rack", "workloads": 3}, {"domain": "row", "workloads": 2}]}
    found = {
        level.domain: level
        for level in level_views(select_scope(snapshot(nodes, (), cluster_topology(status, required=["block"]))))
    }
    rack = found["rack"]
    # Two racks are called r2, in different blocks.
    assert (rack.domains, rack.sizes, rack.nodes, rack.usable, rack.workloads) == (3, Sizes(1, 1, 2), 4, 3, 3)
    assert found["block"].by_spec
    assert found["row"].problem == "required, but on no node"
    assert [level.problem for level in found.values() if level.domain != "row"] == [""] * 5
    [crossing] = crossings_of(select_scope(snapshot(nodes))).problems
    assert crossing.startswith("rack 'r2' lies under block 'b1' and 'b2'")


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
    levels = [{"domain": "rack", "key": "cloud.google.com/gce-topology-subblock"}]
    [rack] = level_views(scoped(view("a"), view("b", rack=None), levels=levels))
    assert rack.problem == "1 node lacks it and falls out of the topology"


def test_nodes_are_filter_nodes_by_label_domain_and_state() -> None:
    nodes = [
        view("a"),
        view("b", state="degraded"),
        view("c", rack="r2", ready=False),
        view("d", rack=None, cordoned=True),
    ]
    levels = [{"domain": "rack", "key": "cloud.google.com/gce-topology-subblock"}]
    found = scoped(*nodes, levels=levels)

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
