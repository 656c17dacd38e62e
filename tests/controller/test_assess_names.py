"""Names of domains: reused ones are ordinary unless a workload goes by the value alone. Reported, not enforced."""

import pytest
from tests.support.cluster import BLOCK, RACK, History, gpu_node, gpu_nodes
from tests.support.tables import says
from toposcope.hierarchy.node import NodeFacts

pytestmark = pytest.mark.regression
FULL = "zone > block > rack > nvlink-domain > host"
R1_IN_TWO_BLOCKS = "*rack 'r1' lies under block 'b1' and 'b2'*"


def nodes_in(*places: tuple[str, str]) -> list[NodeFacts]:
    """A node in each of these blocks and racks."""
    nodes = []
    for number, (block, rack) in enumerate(places):
        nodes.append(gpu_node(f"n{number}", {"block": block, "rack": rack}))
    return nodes


MOST_NAMES_REUSED = nodes_in(
    ("b1", "r1"),
    ("b2", "r1"),
    ("b1", "r2"),
    ("b2", "r2"),
    ("b2", "r3"),
)
ONE_NAME_REUSED = nodes_in(
    ("b1", "r1"),
    ("b2", "r1"),
    ("b1", "r2"),
    ("b2", "r3"),
    ("b2", "r4"),
)


def test_reused_names_are_ordinary(history: History) -> None:
    found = history.look(MOST_NAMES_REUSED)
    assert found.effective.path == FULL
    assert history.verdict("HierarchyConsistent") == ("True", "NamesReused")
    message = history.message("HierarchyConsistent")
    assert says(message, R1_IN_TWO_BLOCKS)
    assert "(2 of 3 values do so)" in message
    assert message.endswith("; if the two levels cut across each other, give each its own ClusterTopology")


def test_reused_names_are_ordinary_where_pods_go_by_another_label(history: History) -> None:
    history.by_value = {BLOCK: "Job ml/a"}
    found = history.look(MOST_NAMES_REUSED)
    assert found.effective.path == FULL
    assert ("NamesMixed", BLOCK) not in history.hints
    assert history.verdict("HierarchyConsistent") == ("True", "NamesReused")
    message = history.message("HierarchyConsistent")
    assert says(message, R1_IN_TWO_BLOCKS)
    assert "normal if each block" in message


def test_reused_names_are_mixed_by_who_goes_by_the_value(history: History) -> None:
    """As pod affinity and kube-scheduler's gangs do."""
    history.by_value = {RACK: "PodGroup ml/a"}
    found = history.look(MOST_NAMES_REUSED)
    assert found.effective.path == FULL
    assert history.verdict("HierarchyConsistent") == ("False", "NamesMixed")
    message = history.message("HierarchyConsistent")
    assert says(message, R1_IN_TWO_BLOCKS)
    assert "but PodGroup ml/a groups by this label alone and would mix the domains" in message

    hint = history.hints["NamesMixed", RACK]
    assert hint["domain"] == "rack"
    assert hint["nodes"] == 5
    assert hint["message"].endswith(
        "and PodGroup ml/a groups by this label alone; list rack in spec.uniqueValues and use gpu.topology/unique-rack"
    )


def test_one_reused_name_of_several_may_be_a_wrong_cable(history: History) -> None:
    found = history.look(ONE_NAME_REUSED)
    assert found.effective.path == FULL
    assert history.verdict("HierarchyConsistent") == ("False", "LevelsDoNotNest")
    message = history.message("HierarchyConsistent")
    assert says(message, R1_IN_TWO_BLOCKS)
    assert "or a wrong cable" in message


def test_one_reused_name_of_several_is_mixed_by_gangs(history: History) -> None:
    history.by_value = {RACK: "PodGroup ml/a"}
    found = history.look(ONE_NAME_REUSED)
    assert found.effective.path == FULL
    assert history.verdict("HierarchyConsistent") == ("False", "LevelsDoNotNest")
    message = history.message("HierarchyConsistent")
    assert says(message, R1_IN_TWO_BLOCKS)
    assert "and would mix the domains" in message


def test_values_that_kai_reads_as_one_domain_are_counted_apart(history: History) -> None:
    """KAI joins the values of a path by dots."""
    nodes = nodes_in(("a.b", "c"), ("a", "b.c"))
    found = history.look(nodes)
    assert found.effective.path == FULL
    assert [cover.domains for cover in found.coverage] == [1, 2, 2, 2, 2]
    assert history.verdict("HierarchyConsistent") == ("False", "ValuesReadAlike")
    expected = "*block 'a' > rack 'b.c' and block 'a.b' > rack 'c' are one rack domain to KAI*"
    assert says(history.message("HierarchyConsistent"), expected)


def test_racks_that_span_blocks_are_reported(history: History) -> None:
    """As in the e2e cluster of Grove."""
    found = history.look(
        [
            *gpu_nodes("a", 7, {"zone": "zone-0", "block": "block-0", "rack": "rack-0"}),
            *gpu_nodes("b", 7, {"zone": "zone-0", "block": "block-0", "rack": "rack-1"}),
            *gpu_nodes("c", 6, {"zone": "zone-0", "block": "block-0", "rack": "rack-2"}),
            *gpu_nodes("d", 1, {"zone": "zone-0", "block": "block-1", "rack": "rack-2"}),
            *gpu_nodes("e", 7, {"zone": "zone-0", "block": "block-1", "rack": "rack-3"}),
            *gpu_nodes("f", 2, {"zone": "zone-1", "block": "block-1", "rack": "rack-4"}),
        ]
    )
    assert found.effective.path == FULL
    assert [cover.domains for cover in found.coverage] == [2, 3, 6, 30, 30]
    assert history.verdict("HierarchyConsistent") == ("False", "LevelsDoNotNest")
    message = history.message("HierarchyConsistent")
    assert "block 'block-1' lies under zone 'zone-0' and 'zone-1'" in message
    assert "rack 'rack-2' lies under block 'block-0' and 'block-1'" in message
    assert "a reused name, a rack that spans several block domains, or a wrong cable" in message


def test_names_reused_in_each_block_are_counted_apart(history: History) -> None:
    """As Kueue's racks r1 and r2 are; KAI's racks across zones look the same."""
    nodes = nodes_in(
        ("b1", "r1"),
        ("b1", "r2"),
        ("b2", "r1"),
        ("b2", "r2"),
    )
    found = history.look(nodes)
    assert found.effective.path == FULL
    assert [cover.domains for cover in found.coverage] == [1, 2, 4, 4, 4]
    assert history.verdict("HierarchyConsistent") == ("True", "NamesReused")
    message = history.message("HierarchyConsistent")
    assert "rack 'r1' lies under block 'b1' and 'b2' (2 of 2 values do so)" in message
    assert "if the two levels cut across each other, give each its own ClusterTopology" in message


def test_broad_level_below_a_narrow_one_is_reported(history: History) -> None:
    found = history.look(
        [
            *gpu_nodes("a", 2, {"block": "b0", "rack": "r0"}),
            *gpu_nodes("b", 2, {"block": "b1", "rack": "r0"}),
            *gpu_nodes("c", 2, {"block": "b2", "rack": "r1"}),
            *gpu_nodes("d", 2, {"block": "b3", "rack": "r1"}),
        ]
    )
    assert found.effective.path == FULL
    assert [cover.domains for cover in found.coverage] == [1, 4, 4, 8, 8]
    message = history.message("HierarchyConsistent")
    assert "each block lies within one rack: list them in spec.levels the other way round" in message
