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
from toposcope.ui.views import PageView, views_of


def _named(name: str, uid: str, parent: str = "", **spec: Any) -> dict[str, Any]:
    """A ClusterTopology, which may be a segment of another one."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": uid,
        "generation": 1,
    }
    if parent:
        owner = {
            "uid": parent,
            "controller": True,
            "kind": "ClusterTopology",
            "name": "p",
        }
        metadata["ownerReferences"] = [owner]
        metadata["labels"] = {"app.kubernetes.io/managed-by": "toposcope"}
    topology = cluster_topology(**spec)
    topology["metadata"] = metadata
    return topology


def _views(nodes: tuple[NodeView, ...], *topologies: dict[str, Any]) -> tuple[PageView, ...]:
    """The views of a cluster without pods."""
    return views_of(snapshot(nodes, (), *topologies))


WITH_A_RACK = {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}


RACK_LEVEL = {"domain": "rack", "key": RACK}


HOST_LEVEL = {"domain": "host", "key": label_keys.HOSTNAME}


def test_default_topology_comes_first_and_segments_know_their_parent() -> None:
    topologies = [
        _named("aaa", "3"),
        _named("cluster", "1", segments="Auto"),
        _named("cluster-rack", "2", parent="1", nodeSelector=WITH_A_RACK),
    ]
    views = _views(rack_nodes(), *topologies)
    default, other, segment = [view.summary for view in views]
    assert default.id == "cluster"
    assert default.kind == "topology"
    assert default.parent is None
    assert other.id == "aaa"
    assert other.kind == "topology"
    assert other.parent is None
    assert segment.id == "cluster-rack"
    assert segment.kind == "topology"
    assert segment.parent == "cluster"


def test_segments_in_the_status_are_views() -> None:
    segment = {
        "name": "rack",
        "levels": [RACK_LEVEL, HOST_LEVEL],
        "nodeSelector": WITH_A_RACK,
    }
    first, second = rack_nodes(2)
    alone = view("alone", None)
    topology = cluster_topology({"segments": [segment]})
    whole, part = _views((first, second, alone), topology)
    summary = part.summary
    assert summary.id == "cluster/rack"
    assert summary.name == "rack"
    assert summary.parent == "cluster"
    assert summary.kind == "segment"
    assert [level.domain for level in summary.levels] == ["rack", "host"]
    assert whole.takes(first)
    assert whole.takes(second)
    assert whole.takes(alone)
    assert part.takes(first)
    assert part.takes(second)
    assert not part.takes(alone)


def test_cluster_without_topology_has_inferred_views() -> None:
    nodes = (view("alone", None), *rack_nodes(2))
    without_topology = Snapshot("a test", None, nodes, ())
    inferred, *suggested = [view.summary for view in views_of(without_topology)]
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
    strange = {"type": "FabricHealthy", "status": "Maybe"}
    topology = cluster_topology({"conditions": [covered, strange]})
    (found,) = _views(rack_nodes(), topology)
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
    facts = facts_of(rack_nodes(), cluster_topology(status))
    shown = fetched(broadcaster_of(facts))
    assert len(decoded(shown)) == 4


def test_nodes_in_no_view_have_a_reason() -> None:
    silent = node_of(
        {
            "metadata": {
                "name": "silent",
                "labels": {label_keys.GPU_PRESENT: "true"},
            },
            "status": {
                "allocatable": {"nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )
    plain = node_of({"metadata": {"name": "cpu-only"}})
    selector = {"matchLabels": {RACK: "r0"}}
    topology = cluster_topology(nodeSelector=selector)
    facts = facts_of((*rack_nodes(), silent, plain), topology)
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
    without_agent = node_of(
        {
            "metadata": {
                "name": "new",
                "labels": {label_keys.GPU_PRESENT: "true"},
            },
            "status": {},
        }
    )
    without_rack = view("bare", "no-topology")
    topology = cluster_topology(levels=[RACK_LEVEL])
    facts = facts_of((*rack_nodes(), without_rack, without_agent), topology)
    shown = fetched(broadcaster_of(facts))
    (summary,) = shown["views"]
    assert summary["nodes"] == 5
    assert summary["leftOut"] == 1
    assert summary["withoutAgent"] == 1
    assert summary["leftOutGpus"] * 5 == summary["gpus"]


def test_placeholders_are_not_domains() -> None:
    without_rack = view("a", "no-topology")
    nodes = (without_rack, view("b", "r1"))
    topology = cluster_topology(levels=[RACK_LEVEL, HOST_LEVEL])
    broadcaster = broadcaster_of(facts_of(nodes, topology))
    shown = fetched(broadcaster)
    rows = decoded(shown)
    assert rows["a"]["labels"][RACK] in shown["placeholders"]
    assert broadcaster.state
    only_view = broadcaster.state.views[0]
    assert list(domain_path(without_rack, only_view)) == []
    assert rows["b"]["labels"] == {label_keys.HOSTNAME: "b", RACK: "r1"}


@pytest.mark.parametrize(
    ("generation", "words"),
    [pytest.param(1, "of the controller's status", id="seen"), pytest.param(2, "is of an earlier spec", id="outdated")],
)
def test_view_notes_levels_of_the_status_that_labels_do_not_have(generation: int, words: str) -> None:
    topology = _named("cluster", "1")
    topology["metadata"]["generation"] = generation
    topology["status"] = {
        "observedGeneration": 1,
        "levels": [HOST_LEVEL],
    }
    (found,) = _views(rack_nodes(), topology)
    (problem,) = found.summary.problems
    assert words in problem
