"""HyperNodes as they are drawn, from the levels of topologies and the nodes of a cluster."""

import re

import pytest
from tests.support.cluster import BLOCK, RACK, gpu_node
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.volcano.hyper_nodes import draw, tiers_of


@pytest.mark.parametrize(
    ("orders", "tiers"),
    [
        pytest.param(
            ["zone block rack", "zone rack", "zone row"],
            {"zone": 3, "block": 2, "rack": 1, "row": 1},
            id="three-topologies",
        ),
        pytest.param(
            ["zone rack", "zone rack nvlink-domain"],
            {"zone": 3, "rack": 2, "nvlink-domain": 1},
            id="one-level-more",
        ),
        pytest.param(["rack block", "block rack"], {}, id="contradiction"),
        pytest.param(["", "rack"], {"rack": 1}, id="no-levels"),
    ],
)
def test_tier_is_one_above_all_that_stand_below_it(orders: list[str], tiers: dict[str, int]) -> None:
    topologies = [order.split() for order in orders]
    assert tiers_of(topologies) == tiers


def test_topology_counts_for_itself_where_orders_contradict_each_other() -> None:
    levels = [Level("block", BLOCK), Level("rack", RACK)]
    nodes = Table([gpu_node("n")])
    rack, block = draw("a", levels, nodes, {}).values()
    assert (rack.domain, rack.tier) == ("rack", 1)
    assert (block.domain, block.tier) == ("block", 2)


def test_names_differ_by_path_and_are_valid_for_any_value() -> None:
    values = ["r", "R", "r_", "-".join(["x" * 20] * 3), "..."]
    nodes = []
    for number, value in enumerate(values):
        nodes.append(gpu_node(f"n{number}", {"rack": value}))
    names: list[str] = []
    for topology in ("a", "b.c" * 80):
        names += draw(topology, [Level("rack", RACK)], Table(nodes), {})
    assert len(set(names)) == 2 * len(values)
    for name in names:
        assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) < 253
