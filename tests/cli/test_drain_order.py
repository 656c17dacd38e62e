"""`toposcope drain-order`: which nodes or domains to drain first."""

import pytest
from tests.cli.clusters import jobs, kept_by_a_budget, spared_by_a_budget
from tests.cli.conftest import CommandOnCluster
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression

NO_MORE_EVICTIONS = "cannot go down with those above: train/keep allows no more evictions"


def test_drain_order_of_nodes_is_its_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "drain-order -n 4")
    assert ran.out == expected_page("cli/pages/drain-order.txt", ran.out)


def test_drain_order_for_scripts_says_what_each_step_costs(toposcope_on: CommandOnCluster) -> None:
    step = toposcope_on(jobs, "drain-order --level rack -o json").json["steps"][0]
    assert step["name"] == "zone-1/block-1/rack-2"
    assert step["slots"][0] == {
        "gpus": 64,
        "domain": "block",
        "before": 1,
        "after": 0,
    }


def test_drain_order_names_the_nodes_of_domains(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "drain-order --level rack -n 1 -o name")
    assert ran.out.split() == ["l40s-1", "l40s-2", "l40s-3", "l40s-4"]


def test_wide_drain_order_names_gangs(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(jobs, "drain-order --level rack -o wide").out
    assert "rack-3 runs train/apart" in out
    assert "The first 4 of 4 racks can be down together; 3 gangs lose pods." in out


def test_drain_order_does_not_mention_a_budget_that_allows_it(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(spared_by_a_budget, "drain-order")
    assert NO_MORE_EVICTIONS not in ran.out + ran.err


def test_drain_order_says_which_budget_keeps_a_pod(toposcope_on: CommandOnCluster) -> None:
    assert NO_MORE_EVICTIONS in toposcope_on(kept_by_a_budget, "drain-order", code=1).out
