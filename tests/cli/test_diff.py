"""`toposcope diff`: what changed between two looks at a cluster."""

import pytest
from tests.cli.clusters import changed_demo, demo
from tests.cli.conftest import CommandOnCluster, Save

pytestmark = pytest.mark.regression


def test_diff_says_what_changed(toposcope_on: CommandOnCluster, save: Save) -> None:
    ran = toposcope_on(changed_demo, f"diff {save(demo)}", code=1)
    assert ran.out.splitlines() == [
        "- rack zone-1/block-1/rack-2 is gone with 4 nodes: l40s-1, l40s-2, l40s-3, ... (4 in all)",
        "~ 2 nodes moved from rack rack-3 to rack-9: h200-1, h200-2",
        "~ 1 node: state degraded -> ok: h200-3",
        "~ 1 node: nvlink-links 17 -> 18: h200-3",
        "~ 1 node: shape caa6e47199 -> c36b93f002: h200-3",
    ]


def test_diff_of_a_cluster_with_itself_is_none(toposcope_on: CommandOnCluster, save: Save) -> None:
    ran = toposcope_on(demo, f"diff {save(demo)}")
    assert ran.out == "no changes: 30 nodes\n"


def test_diff_for_scripts_names_what_is_gone(toposcope_on: CommandOnCluster, save: Save) -> None:
    found = toposcope_on(changed_demo, f"diff {save(demo)} -o json", code=1).json
    change = found["changes"][0]
    assert change["kind"] == "domain-gone"
    assert change["subject"] == "rack"
    assert change["before"] == "zone-1/block-1/rack-2"
    assert change["nodes"] == ["l40s-1", "l40s-2", "l40s-3", "l40s-4"]


def test_diff_with_a_missing_file_is_an_error(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "diff /no/such", code=2)
    assert "/no/such: No such file" in ran.err
