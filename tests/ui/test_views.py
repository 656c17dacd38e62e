"""The views of one cluster."""

from typing import Any

import pytest
from tests.snapshot.clusters import node_of, snapshot, view
from tests.support.cluster import RACK
from tests.support.saved import cluster_topology
from tests.support.tables import each_case
from tests.ui.serving import broadcaster_of, decoded, facts_of, fetched, rack_nodes
from toposcope.api import label_keys
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.ui.nodes import NO_AGENT, NOT_SELECTED, domain_path
from toposcope.ui.views import View, views_of


def _named(name: str, uid: str, parent: str = "", **spec: Any) -> dict[str, Any]:
    owners = [{"uid": parent, "controller": True, "kind": "ClusterTopology", "name": "p"}] if parent else []
    labels = {"app.kubernetes.io/managed-by": "toposcope"} if parent else {}
    return cluster_topology(**spec) | {
        "metadata": {"name": name, "uid": uid, "generation": 1, "ownerReferences": owners, "labels": labels}
    }


def _views(nodes: tuple[NodeView, ...], *topologies: dict[str, Any]) -> tuple[View, ...]:
    return views_of(snapshot(nodes, (), *topologies))


def test_the_default_topology_comes_first_and_segments_know_their_parent() -> None:
    made = {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}
    child = _named("cluster-rack", "2", parent="1", nodeSelector=made)
    found = _views(rack_nodes(), _named("aaa", "3"), _named("cluster", "1", segments="Auto"), child)
    assert [(view.summary.id, view.summary.kind, view.summary.parent) for view in found] == [
        ("cluster", "topology", None),
        ("aaa", "topology", None),
        ("cluster-rack", "topology", "cluster"),
    ]


def test_segments_in_the_status_are_views() -> None:
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": label_keys.HOSTNAME}]
    selector = {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}
    status = {"segments": [{"name": "rack", "levels": levels, "nodeSelector": selector}]}
    nodes = (*rack_nodes(2), view("alone", None))
    whole, part = _views(nodes, cluster_topology(status))
    named = (part.summary.id, part.summary.name, part.summary.parent, part.summary.kind)
    assert named == ("cluster/rack", "rack", "cluster", "segment")
    assert [whole.takes(node) for node in nodes] == [True, True, True]
    assert [part.takes(node) for node in nodes] == [True, True, False]
    assert [level.domain for level in part.summary.levels] == ["rack", "host"]


def test_without_a_topology_there_are_inferred_and_suggested_views() -> None:
    nodes = (*rack_nodes(2), view("alone", None))
    found = views_of(Snapshot("a test", None, tuple(sorted(nodes, key=lambda node: node.name)), ()))
    assert [(view.summary.id, view.summary.kind, view.summary.nodes) for view in found[:1]] == [("", "inferred", 3)]
    assert {view.summary.parent for view in found[1:]} == {""}
    assert sorted(view.summary.nodes for view in found[1:]) == [1, 2]


def test_conditions_of_the_status() -> None:
    covered = {"type": "LevelsCovered", "status": "False", "reason": "R", "message": "M", "lastTransitionTime": "T"}
    conditions = [covered, {"type": "FabricHealthy", "status": "Maybe"}]
    (found,) = _views(rack_nodes(), cluster_topology({"conditions": conditions}))
    first, second = found.summary.conditions
    assert (first.status, first.reason, first.message, first.since, first.advisory) == ("False", "R", "M", "T", False)
    assert (second.status, second.message, second.advisory) == ("Unknown", "", True)


@each_case("tables/ui.yaml")
def test_a_malformed_status_hides_nothing(status: Any) -> None:
    broadcaster = broadcaster_of(facts_of(rack_nodes(), cluster_topology(status)))
    assert len(decoded(fetched(broadcaster))) == 4


def test_nodes_in_no_view_have_a_reason() -> None:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    silent = node_of({"metadata": {"name": "silent", "labels": {label_keys.GPU_PRESENT: "true"}}, "status": status})
    plain = node_of({"metadata": {"name": "cpu-only"}})
    selector = {"matchLabels": {RACK: "r0"}}
    shown = fetched(broadcaster_of(facts_of((*rack_nodes(), silent, plain), cluster_topology(nodeSelector=selector))))
    rows = decoded(shown)
    assert {name: row["apart"] for name, row in rows.items() if row["apart"]} == {
        **dict.fromkeys(("n2", "n3"), NOT_SELECTED),
        "silent": NO_AGENT,
    }
    assert rows["silent"]["marks"] == ["no-agent"]
    assert shown["otherNodes"] == 1


@pytest.mark.regression
def test_a_view_counts_as_commands_and_status_do() -> None:
    selected = {"metadata": {"name": "new", "labels": {label_keys.GPU_PRESENT: "true"}}, "status": {}}
    levels = [{"domain": "rack", "key": RACK}]
    facts = facts_of((*rack_nodes(), view("bare", "no-topology"), node_of(selected)), cluster_topology(levels=levels))
    [summary] = fetched(broadcaster_of(facts))["views"]
    assert [summary[name] for name in ("nodes", "leftOut", "withoutAgent")] == [5, 1, 1]
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


@pytest.mark.parametrize(("generation", "said"), [(1, "of the controller's status"), (2, "is not of this spec")])
def test_a_view_says_where_status_and_labels_disagree_about_the_levels(generation: int, said: str) -> None:
    level = {"domain": "host", "key": label_keys.HOSTNAME}
    topology = _named("cluster", "1")
    topology["metadata"]["generation"] = generation
    topology["status"] = {"observedGeneration": 1, "levels": [level]}
    (found,) = _views(rack_nodes(), topology)
    (problem,) = found.summary.problems
    assert said in problem
