"""`toposcope nodes`: nodes by place, label, name and state."""

import pytest
from tests.cli.clusters import busy_cpus, demo, gaps, miscabled, sliced, tainted, tolerated, under_pressure
from tests.cli.conftest import Command, CommandOnCluster
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression


def test_nodes_of_a_rack_are_their_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "nodes --in rack=rack-3", code=1)
    assert ran.out == expected_page("cli/pages/nodes-of-a-rack.txt", ran.out)


def test_nodes_are_selected_by_labels(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "nodes -l gpu.topology/gpus=8,gpu.topology/state=ok -o name")
    assert ran.out.split() == [
        "node/h200-1",
        "node/h200-2",
        "node/h200-4",
        "node/h200-5",
        "node/h200-6",
        "node/h200-7",
        "node/h200-8",
    ]


@pytest.mark.regression
@pytest.mark.parametrize("flags", ["", " -o json", " -o name"])
def test_missing_rack_is_an_error_with_the_nearest(flags: str, toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, f"nodes --in rack=rack-33{flags}", code=2)
    assert ran.out == ""
    assert "there is no rack 'rack-33'; did you mean 'rack-3', 'rack-4' or 'rack-2'?" in ran.err


@pytest.mark.regression
def test_rack_unlike_any_other_is_an_error_with_some(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(demo, "nodes --in rack=typo", code=2).err
    assert "there is no rack 'typo'; the 4 racks are rack-1, rack-2, rack-3, ..." in err


def test_rack_without_matching_nodes_is_no_error(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(demo, "nodes --in rack=rack-4 --state unknown").out
    assert out == "no matching nodes (30 checked)\n"


def test_degraded_node_for_scripts_has_its_reasons(toposcope_on: CommandOnCluster) -> None:
    found = toposcope_on(demo, "nodes --state degraded -o json", code=1).json
    node = found["nodes"][0]
    assert node["name"] == "h200-3"
    gpus = {"allocatable": 8, "free": 8}
    assert node["resources"] == {"nvidia.com/gpu": gpus}
    assert node["reasons"] == ["GPU 1: 17 of 18 NVLinks active"]


def test_nodes_with_gpus_and_no_agent_are_listed(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(gaps, "nodes --state no-agent -o name", code=1)
    assert ran.out.split() == ["node/new-1", "node/old-1"]


def test_nodes_without_agent_have_gpus_for_scripts(toposcope_on: CommandOnCluster) -> None:
    nodes = toposcope_on(gaps, "nodes --state no-agent -o json", code=1).json["nodes"]
    assert nodes[0]["gpus"] == 8
    assert nodes[1]["gpus"] == 8


def test_nodes_are_named_as_kubectl_names_them(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(gaps, "nodes node/h200-2 h200-1 -o name", code=1)
    assert ran.out.split() == ["node/h200-1", "node/h200-2"]


def test_nodes_takes_the_name_of_a_node_as_well_as_of_a_topology(toposcope_on: CommandOnCluster) -> None:
    assert "! new-1: no label gpu.topology/gpus" in toposcope_on(gaps, "nodes cluster new-1", code=1).out


def test_missing_node_is_an_error_with_a_suggestion(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(gaps, "nodes h200-33", code=2).err
    assert "there is no node 'h200-33' in " in err
    assert "did you mean 'h200-3'?" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("nodes -l a=b=c", "label selector: 'a=b=c'", id="label"),
        pytest.param("nodes --in row=1", "there is no level 'row'", id="domain"),
    ],
)
def test_nodes_of_a_wrong_selector_are_an_error(line: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(demo, line, code=2).err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("nodes --state odd", "'odd' (choose from 'ok', 'ready',", id="state"),
        pytest.param("nodes --in rack", "'rack' is not LEVEL=VALUE", id="domain"),
    ],
)
def test_wrong_flag_of_nodes_is_named(line: str, message: str, toposcope: Command) -> None:
    assert message in toposcope(line, code=2).err


@pytest.mark.regression
def test_free_gpus_out_of_reach_have_a_column_and_a_reason(toposcope_on: CommandOnCluster) -> None:
    """marin#8249: a Job without GPUs holds the CPU of two nodes."""
    ran = toposcope_on(busy_cpus, "nodes n0 n1")
    head, blocked, free, *remarks = ran.out.splitlines()
    assert head.split()[:5] == ["NAME", "GPUS", "FREE", "BLOCKED", "STATE"]
    assert blocked.split()[:5] == ["n0", "8", "8", "8", "ok"]
    assert free.split()[:4] == ["n1", "8", "8", "ok"]
    assert remarks[-1] == "  8 GPUs on 1 node (n0), where too little CPU is left: train/cpu-0 holds it"


@pytest.mark.regression
def test_free_gpus_out_of_reach_are_in_the_document(toposcope_on: CommandOnCluster) -> None:
    found = toposcope_on(busy_cpus, "nodes n0 n1 -o json").json
    first, second = found["nodes"]
    assert first["blockedGpus"] == {"cpu": 8}
    assert "blockedGpus" not in second
    assert [(block["reason"], block["nodes"]) for block in found["blocked"]] == [("cpu", ["n0"])]


def test_taints_of_an_admin_are_shown(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(tainted, "nodes --state tainted -o wide").out
    assert "h200-8" in out
    assert "team=vision:NoSchedule" in out


def test_taint_of_a_kubelet_counts_as_taint(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(under_pressure, "nodes --state tainted -o name").out == "node/h200-8\n"


def test_taints_that_gpu_pods_tolerate_mark_no_node(toposcope_on: CommandOnCluster) -> None:
    """As AKS sets one on all GPU nodes."""
    assert toposcope_on(tolerated, "nodes --state tainted -o name").out == ""


def test_miscabled_node_is_listed(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(miscabled, "nodes --state miscabled -o name").out == "node/l40s-1\n"


def test_miscabled_node_is_listed_with_its_cable(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(miscabled, "nodes --state miscabled").out
    assert "\n! l40s-1: mlx5_0 of l40s-1 goes to leaf-2, expected leaf-1\n" in out


def test_miscabled_node_for_scripts_has_its_cable(toposcope_on: CommandOnCluster) -> None:
    found = toposcope_on(miscabled, "nodes l40s-1 -o json").json
    node = found["nodes"][0]
    assert node["states"] == ["ok", "ready", "miscabled"]
    assert node["miscabled"] == ["mlx5_0 of l40s-1 goes to leaf-2, expected leaf-1"]


def test_node_for_scripts_has_its_compute_domains(toposcope_on: CommandOnCluster) -> None:
    node = toposcope_on(sliced, "nodes gb200-01 -o json").json["nodes"][0]
    assert node["computeDomains"] == ["train/wide"]
