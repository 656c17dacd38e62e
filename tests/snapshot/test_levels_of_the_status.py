"""Commands show the levels and the verdict of the controller's status where that is current, and say where it isn't."""

from typing import Any

import pytest
from tests.snapshot.clusters import snapshot, view
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.saved import cluster_topology
from toposcope.planning.changes import added
from toposcope.snapshot.levels import crossings_of
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope, select_scope

OBSERVED = 3
KEYS = {
    "zone": ZONE,
    "block": BLOCK,
    "rack": RACK,
    "host": "kubernetes.io/hostname",
}
BY_LABELS = "zone > block > rack > host"


def topology(*domains: str, observed: int = OBSERVED, conditions: Any = (), generation: int = OBSERVED) -> Any:
    """A ClusterTopology whose status has these levels."""
    levels = [{"domain": domain, "key": KEYS[domain]} for domain in domains]
    status = {"observedGeneration": observed, "levels": levels, "conditions": list(conditions)}
    document = cluster_topology(status)
    document["metadata"]["generation"] = generation
    return document


def cluster(document: Any) -> Snapshot:
    nodes = [view("a"), view("b", rack="r2"), view("c", rack="r3")]
    return snapshot(nodes, (), document)


def scope_of(document: Any) -> Scope:
    return select_scope(cluster(document))


def shown(scope: Scope) -> list[str]:
    return [level.domain for level in scope.levels if level.domain in KEYS]


def test_where_status_and_labels_agree_nothing_is_noted() -> None:
    agreeing = scope_of(cluster_topology())
    domains = [level.domain for level in agreeing.levels]
    levels = [{"domain": level.domain, "key": level.key} for level in agreeing.levels]
    document = topology()
    document["status"]["levels"] = levels
    scope = scope_of(document)
    assert [level.domain for level in scope.levels] == domains
    assert scope.disagreement is None


def test_levels_of_a_current_status_are_shown_and_labels_noted() -> None:
    scope = scope_of(topology("zone", "rack"))
    assert shown(scope) == ["zone", "rack"]
    assert scope.disagreement
    assert scope.disagreement.note.startswith("the levels are those of the controller's status; node labels say zone")
    assert "block > rack" in scope.disagreement.note


def test_a_status_of_an_earlier_spec_is_not_shown_but_noted() -> None:
    scope = scope_of(topology("zone", "rack", generation=OBSERVED + 1))
    assert "block" in shown(scope)
    assert scope.disagreement
    assert scope.disagreement.note == (
        "the levels are inferred from labels, because the controller's status is of an earlier spec; it has zone > rack"
    )


def test_a_status_that_the_server_refused_is_not_shown() -> None:
    refused = {
        "type": "Ready",
        "status": "False",
        "reason": "StatusRefused",
        "message": "too long",
    }
    scope = scope_of(topology("zone", "rack", conditions=[refused]))
    assert "block" in shown(scope)


def test_levels_of_a_spec_need_no_status() -> None:
    document = topology("zone", "rack")
    document["spec"]["levels"] = [{"domain": "block", "key": BLOCK}]
    scope = scope_of(document)
    assert (shown(scope), scope.disagreement) == (["block"], None)


def test_what_would_be_is_computed() -> None:
    seen = cluster(topology("zone", "rack"))
    more = added(seen, seen.nodes[0], 2, {})
    scope = select_scope(more)
    assert "block" in shown(scope)
    assert scope.disagreement is None


@pytest.mark.parametrize(
    ("status", "observed", "problems", "notes"),
    [("True", OBSERVED, 0, 1), ("False", OBSERVED, 1, 0), ("True", OBSERVED - 1, 1, 0)],
)
def test_the_controller_decides_whether_crossed_names_are_a_problem(
    status: str, observed: int, problems: int, notes: int
) -> None:
    verdict = {
        "type": "HierarchyConsistent",
        "status": status,
        "reason": "LevelsNest",
        "message": "as it says",
    }
    nodes = [view("a"), view("b", block="b2"), view("c", rack="r2")]
    document = topology("zone", "block", "rack", "host", observed=observed, conditions=[verdict])
    crossings = crossings_of(select_scope(snapshot(nodes, (), document)))
    assert (len(crossings.problems), len(crossings.notes)) == (problems, notes)


def test_what_only_the_controller_finds_is_a_problem() -> None:
    verdict = {
        "type": "HierarchyConsistent",
        "status": "False",
        "reason": "ValuesReadAlike",
        "message": "r.1 and r-1",
    }
    document = topology("zone", "block", "rack", "host", conditions=[verdict])
    crossings = crossings_of(scope_of(document))
    assert (crossings.problems, crossings.notes) == (["r.1 and r-1"], [])
