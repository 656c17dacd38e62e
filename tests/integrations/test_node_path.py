"""Where a node is: the levels in effect on it, broadest first, by the plan and its own labels."""

from tests.support.cluster import BLOCK, RACK, ZONE, gpu_node
from tests.support.publishing import levels
from toposcope.api.requirement import Requirement
from toposcope.integrations.node_path import NodePath, PathStep, path_keys, path_of, paths_of
from toposcope.integrations.node_plan import NodePlan, PlannedTopology

LEVELS = levels(ZONE, BLOCK, RACK)
OF_B1 = (Requirement(BLOCK, "In", frozenset({"b1"})),)


def plan_with(*topologies: PlannedTopology, has_all_paths: bool = True) -> NodePlan:
    return NodePlan(topologies, frozenset({"unknown"}), has_all_paths=has_all_paths)


EVERY_NODE = PlannedTopology("all", (), LEVELS)
FIRST_BLOCK = PlannedTopology("b1", OF_B1, levels(BLOCK, RACK))


def values(path: NodePath) -> dict[str, str]:
    return {step.level: step.value for step in path.steps}


def test_path_is_every_level_broadest_first() -> None:
    node = gpu_node("n1", {"zone": "z", "block": "b1", "rack": "r2"})
    assert path_of(plan_with(EVERY_NODE), node) == NodePath(
        topology="all",
        steps=(
            PathStep("zone", ZONE, "z"),
            PathStep("block", BLOCK, "b1"),
            PathStep("rack", RACK, "r2"),
        ),
        is_complete=True,
    )


def test_path_ends_before_the_first_level_that_is_missing() -> None:
    node = gpu_node("n1", {"zone": "z", "block": "unknown", "rack": "r2"})
    path = path_of(plan_with(EVERY_NODE), node)
    assert values(path) == {"zone": "z"}
    assert not path.is_complete


def test_oldest_topology_that_selects_the_node_gives_its_path() -> None:
    plan = plan_with(FIRST_BLOCK, EVERY_NODE)
    in_b1 = gpu_node("n1", {"zone": "z", "block": "b1", "rack": "r"})
    in_b2 = gpu_node("n2", {"zone": "z", "block": "b2", "rack": "r"})
    assert [path.topology for path in paths_of(plan, in_b1)] == ["b1", "all"]
    assert values(path_of(plan, in_b1)) == {"block": "b1", "rack": "r"}
    assert path_of(plan, in_b2).topology == "all"


def test_node_that_no_topology_selects_has_no_path() -> None:
    node = gpu_node("n1", {"block": "b2"})
    assert path_of(plan_with(FIRST_BLOCK), node) == NodePath(None, (), is_complete=False)


def test_topology_without_levels_in_effect_gives_no_complete_path() -> None:
    node = gpu_node("n1", {})
    path = path_of(plan_with(PlannedTopology("new", (), ())), node)
    assert path == NodePath("new", (), is_complete=False)


def test_path_is_not_complete_where_the_plan_left_topologies_out() -> None:
    node = gpu_node("n1", {"zone": "z", "block": "b1", "rack": "r2"})
    path = path_of(plan_with(EVERY_NODE, has_all_paths=False), node)
    assert len(path.steps) == 3
    assert not path.is_complete


def test_labels_of_selectors_and_levels_decide_the_path() -> None:
    assert path_keys(plan_with(FIRST_BLOCK)) == {BLOCK, RACK}
