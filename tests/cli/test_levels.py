"""`toposcope levels`: the levels of a topology, and who lacks them."""

import pytest
from tests.cli.clusters import GPUS, HOST, SavedCluster, demo, gaps
from tests.cli.conftest import Command, CommandOnCluster
from tests.support.pages import expected_page
from toposcope.cli.output import NO_TOPOLOGY

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


def home_made() -> SavedCluster:
    """Four nodes of which the labels of racks and leafs are the admin's own."""
    cluster = SavedCluster(most=0)
    for number in range(4):
        labels = {
            HOST: f"n{number}",
            GPUS: "8",
            "topology.kubernetes.io/rack": f"r{number // 2}",
            "topology.rook.io/rack": f"r{number // 2}",
            "example.com/leaf-switch": "sw0",
            "nvidia.com/gpu-clique": "c0",
            "ib.coreweave.cloud/fabric": "f",
        }
        cluster.add_node(f"n{number}", labels)
    return cluster


YOURS = (
    "and is not a level: no known platform writes it; "
    "if you do, map it to domain '{}' in the controller's --config FILE"
)
LEAF_SWITCH = f"example.com/leaf-switch is on 4 of 4 nodes {YOURS.format('leaf')}"
CLIQUE = (
    "nvidia.com/gpu-clique is on 4 of 4 nodes and is not a level: "
    "no known platform writes it; the key is nvidia.com/gpu.clique (on 0)"
)
RACK_OF_KUBERNETES = f"topology.kubernetes.io/rack is on 4 of 4 nodes {YOURS.format('rack')}"
RACK_OF_ROOK = f"topology.rook.io/rack is on 4 of 4 nodes {YOURS.format('rack')}"
RETIRED = (
    "ib.coreweave.cloud/fabric is on 4 of 4 nodes and is retired: "
    "an older CoreWeave wrote it, and later versions leave it behind; "
    "its successor is backend.coreweave.cloud/fabric (on 0); "
    "level 'fabric' uses it for as long as nodes carry it"
)
HINTS = [LEAF_SWITCH, CLIQUE, RACK_OF_KUBERNETES, RACK_OF_ROOK, RETIRED]


@pytest.mark.parametrize("command", ["levels", "tree"])
def test_labels_that_look_like_levels_are_hints(command: str, toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(home_made, command, code=1).out  # no ClusterTopology
    assert [line for line in out.splitlines() if line.startswith("hint: ")] == [f"hint: {hint}" for hint in HINTS]


@pytest.mark.parametrize("command", ["levels", "tree", "status"])
def test_hints_are_for_programs_too(command: str, toposcope_on: CommandOnCluster) -> None:
    hints = toposcope_on(home_made, f"{command} -o json", code=1).json["hints"]
    assert [hint["message"] for hint in hints] == HINTS
    assert hints[0]["reason"] == "NearMiss"
    assert hints[0]["key"] == "example.com/leaf-switch"
    assert hints[0]["domain"] is None


@pytest.mark.regression
def test_levels_without_a_topology_are_a_problem(toposcope_on: CommandOnCluster) -> None:
    said = f"! {NO_TOPOLOGY}"
    assert said in toposcope_on(home_made, "levels", code=1).out.splitlines()


def two_platforms() -> SavedCluster:
    """Two nodes that AWS labels, and two that Topograph does."""
    cluster = SavedCluster(most=0)
    for number in range(4):
        key = "topology.k8s.aws/network-node-layer-2" if number < 2 else "fabric.topograph.run/tier-1"
        cluster.add_node(f"n{number}", {HOST: f"n{number}", GPUS: "8", key: "b"})
    return cluster


def test_level_with_a_key_on_each_half_is_shown_with_both(toposcope_on: CommandOnCluster) -> None:
    levels = toposcope_on(two_platforms, "levels -o json", code=1).json["levels"]
    assert [(level["domain"], level["key"], level["nodes"]) for level in levels] == [
        ("host", "kubernetes.io/hostname", 4),
        ("block", "topology.k8s.aws/network-node-layer-2", 2),
        ("block", "fabric.topograph.run/tier-1", 2),
    ]
    assert levels[1]["problem"] == (
        "not a level of the topology, because 2 nodes lack it "
        "(others have fabric.topograph.run/tier-1: toposcope suggest divides the nodes) and all 4 must carry it"
    )
