"""`toposcope levels`: the levels of a topology, and who lacks them."""

import pytest
from tests.cli.clusters import demo, gaps
from tests.cli.conftest import Command, CommandOnCluster
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression


def test_levels_of_the_demo_are_their_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "levels", code=1)
    assert ran.out == expected_page("cli/pages/levels.txt", ran.out)


def test_levels_are_named_from_broad_to_narrow(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "levels -o name", code=1)
    assert ran.out.split() == ["zone", "block", "rack", "nvlink-domain", "host"]


def test_levels_show_nodes_without_agent(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(gaps, "levels", code=1).out
    assert (
        "! not counted: 2 nodes with 16 GPUs have no label gpu.topology/gpus: new-1, old-1; is the agent's DaemonSet"
        in out
    )


def test_levels_for_scripts_list_nodes_without_agent(toposcope_on: CommandOnCluster) -> None:
    levels = toposcope_on(gaps, "levels -o json", code=1).json
    assert levels["withoutAgent"] == ["new-1", "old-1"]


@pytest.mark.usefixtures("folder")
def test_missing_kubeconfig_is_named(toposcope: Command) -> None:
    assert "/no/such/kubeconfig" in toposcope("levels --kubeconfig /no/such/kubeconfig", code=2).err
