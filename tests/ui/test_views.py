"""The views of one cluster."""

from typing import Any

import pytest
from tests.snapshot.clusters import node_of, snapshot, view
from tests.support.cluster import RACK
from tests.support.saved import cluster_topology
from tests.ui.serving import broadcaster_of, decoded, facts_of, fetched, rack_nodes
from toposcope.api import label_keys
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui.nodes import NO_AGENT, NOT_SELECTED, domain_path
from toposcope.ui.views import View, views_of


def _named(name: str, uid: str, parent: str = "", **spec: Any) -> dict[str, Any]:
    """A ClusterTopology, which may be a segment of another one."""
    topology = cluster_topology(**spec)
    topology["metadata"] = {"name": name, "uid": uid, "generation": 1}
    if parent:
        owner = {
            "uid": parent,
            "controller": True,
            "kind": "ClusterTopology",
            "name": "p",
        }
        topology["metadata"] |= {"ownerReferences": [owner], "labels": {"app.kubernetes.io/managed-by": "toposcope"}}
    return topology


def _views(nodes: tuple[NodeView, ...], *topologies: dict[str, Any]) -> tuple[View, ...]:
    """The views of a cluster without pods."""
    return views_of(snapshot(nodes, (), *topologies))


def test_default_topology_comes_first_and_segments_know_their_parent() -> None:
    selector = {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}
    topologies = [
        _named("aaa", "3"),
        _named("cluster", "1", segments="Auto"),
        _named("cluster-rack", "2", parent="1", nodeSelector=selector),
    ]
    default, other, segment = _views(rack_nodes(), *topologies)
    assert default.summary.id == "cluster"
    assert default.summary.kind == "topology"
    assert default.summary.parent is None
    assert other.summary.id == "aaa"
    assert other.summary.kind == "topology"
    assert other.summary.parent is None
    assert segment.summary.id == "cluster-rack"
    assert segment.summary.kind == "topology"
    assert segment.summary.parent == "cluster"


def test_segments_in_the_status_are_views() -> None:
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": label_keys.HOSTNAME}]
    selector = {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}
    status = {"segments": [{"name": "rack", "levels": levels, "nodeSelector": selector}]}
    nodes = (*rack_nodes(2), view("alone", None))
    whole, part = _views(nodes, cluster_topology(status))
    summary = part.summary
    assert summary.id == "cluster/rack"
    assert summary.name == "rack"
    assert summary.parent == "cluster"
    assert summary.kind == "segment"
    assert [level.domain for level in summary.levels] == ["rack", "host"]
    assert [whole.takes(node) for node in nodes] == [True, True, True]
    assert [part.takes(node) for node in nodes] == [True, True, False]


def test_cluster_without_topology_has_inferred_views() -> None:
    nodes = (*rack_nodes(2), view("alone", None))
    in_order = tuple(sorted(nodes, key=lambda node: node.name))
    inferred, *suggested = [view.summary for view in views_of(Snapshot("a test", None, in_order, ()))]
    assert inferred.id == ""
    assert inferred.kind == "inferred"
    assert inferred.nodes == 3
    assert [summary.parent for summary in suggested] == ["", ""]
    assert sorted(summary.nodes for summary in suggested) == [1, 2]


def test_conditions_of_the_status() -> None:
    covered = {
        "type": "LevelsCovered",
        "status": "False",
        "reason": "R",
        "message": "M",
        "lastTransitionTime": "T",
    }
    conditions = [covered, {"type": "FabricHealthy", "status": "Maybe"}]
    (found,) = _views(rack_nodes(), cluster_topology({"conditions": conditions}))
    first, second = found.summary.conditions
    assert first.status == "False"
    assert first.reason == "R"
    assert first.message == "M"
    assert first.since == "T"
    assert first.advisory is False
    assert second.status == "Unknown"
    assert second.message == ""
    assert second.advisory is True


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": "x"}, id="conditions-text"),
        pytest.param({"conditions": {"a": 1}}, id="conditions-object"),
        pytest.param({"segments": "x"}, id="segments-text"),
        pytest.param({"segments": [{"levels": "x"}]}, id="levels-of-a-segment"),
        pytest.param({"segments": [{"nodeSelector": 7}]}, id="selector-of-a-segment"),
        pytest.param({"levels": "x"}, id="levels-text"),
        pytest.param({"levels": [{"domain": 1}]}, id="domain-number"),
        pytest.param({"requiredBy": 7}, id="required-by-number"),
        pytest.param({"requiredBy": [7, {"domain": "x", "workloads": "many"}]}, id="workloads-text"),
    ],
)
def test_malformed_status_hides_nothing(status: Any) -> None:
    broadcaster = broadcaster_of(facts_of(rack_nodes(), cluster_topology(status)))
    assert len(decoded(fetched(broadcaster))) == 4


def test_nodes_in_no_view_have_a_reason() -> None:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    silent = node_of({"metadata": {"name": "silent", "labels": {label_keys.GPU_PRESENT: "true"}}, "status": status})
    plain = node_of({"metadata": {"name": "cpu-only"}})
    selector = {"matchLabels": {RACK: "r0"}}
    facts = facts_of((*rack_nodes(), silent, plain), cluster_topology(nodeSelector=selector))
    shown = fetched(broadcaster_of(facts))
    rows = decoded(shown)
    reasons = {name: row["apart"] for name, row in rows.items()}
    assert reasons == {
        "n0": "",
        "n1": "",
        "n2": NOT_SELECTED,
        "n3": NOT_SELECTED,
        "silent": NO_AGENT,
    }
    assert rows["silent"]["marks"] == ["no-agent"]
    assert shown["otherNodes"] == 1


@pytest.mark.regression
def test_view_counts_as_commands_and_status_do() -> None:
    selected = {"metadata": {"name": "new", "labels": {label_keys.GPU_PRESENT: "true"}}, "status": {}}
    levels = [{"domain": "rack", "key": RACK}]
    facts = facts_of((*rack_nodes(), view("bare", "no-topology"), node_of(selected)), cluster_topology(levels=levels))
    (summary,) = fetched(broadcaster_of(facts))["views"]
    assert summary["nodes"] == 5
    assert summary["leftOut"] == 1
    assert summary["withoutAgent"] == 1
    assert summary["leftOutGpus"] * 5 == summary["gpus"]


def test_placeholders_are_not_domains() -> None:
    nodes = (view("a", "no-topology"), view("b", "r1"))
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": label_keys.HOSTNAME}]
    broadcaster = broadcaster_of(facts_of(nodes, cluster_topology(levels=levels)))
    shown = fetched(broadcaster)
    rows = decoded(shown)
    assert rows["a"]["labels"][RACK] in shown["placeholders"]
    assert broadcaster.state
    assert list(domain_path(nodes[0], broadcaster.state.views[0])) == []
    assert rows["b"]["labels"] == {label_keys.HOSTNAME: "b", RACK: "r1"}


@pytest.mark.parametrize(
    ("generation", "words"),
    [pytest.param(1, "of the controller's status", id="seen"), pytest.param(2, "is not of this spec", id="outdated")],
)
def test_view_notes_levels_of_the_status_that_labels_do_not_have(generation: int, words: str) -> None:
    level = {"domain": "host", "key": label_keys.HOSTNAME}
    topology = _named("cluster", "1")
    topology["metadata"]["generation"] = generation
    topology["status"] = {"observedGeneration": 1, "levels": [level]}
    (found,) = _views(rack_nodes(), topology)
    (problem,) = found.summary.problems
    assert words in problem
