"""HyperNodes as they are drawn: tests/controller/test_publish_hyper_nodes.py has what becomes of them."""

import re

from tests.support.cluster import BLOCK, RACK, gpu_node
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.volcano.hyper_nodes import draw, tiers_of

ORDERS = {
    ("zone block rack", "zone rack", "zone row"): {"zone": 3, "block": 2, "rack": 1, "row": 1},
    ("zone rack", "zone rack nvlink-domain"): {"zone": 3, "rack": 2, "nvlink-domain": 1},
    ("rack block", "block rack"): {},
    ("", "rack"): {"rack": 1},
}
"""Levels of the topologies of one cluster to the tiers of all."""


def test_a_tier_is_one_above_all_that_stand_below_it_anywhere() -> None:
    found = {orders: tiers_of([order.split() for order in orders]) for orders in ORDERS}
    assert found == ORDERS


def test_where_orders_contradict_each_other_each_topology_counts_for_itself() -> None:
    levels = Level("block", BLOCK), Level("rack", RACK)
    drawn = draw("a", levels, Table([gpu_node("n")]), {})
    assert [(hyper_node.domain, hyper_node.tier) for hyper_node in drawn.values()] == [("rack", 1), ("block", 2)]


def test_names_are_different_for_each_path_and_valid_for_any_value() -> None:
    values = ["r", "R", "r_", "-".join(["x" * 20] * 3), "..."]
    nodes = Table([gpu_node(f"n{i}", {"rack": value}) for i, value in enumerate(values)])
    names = [name for topology in ("a", "b.c" * 80) for name in draw(topology, [Level("rack", RACK)], nodes, {})]
    assert len(set(names)) == 2 * len(set(values))
    assert all(re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) and len(name) < 253 for name in names)
