"""`toposcope explain` of a node: its agent, its hardware, the driver's word beside NVML's and sysfs's.

tests/explain/ has the workloads.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.clusters import RACK, SavedCluster, gaps, sliced
from tests.cli.conftest import Command, CommandOnCluster, Save

pytestmark = pytest.mark.regression


def test_healthy_node_has_nothing_wrong(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/h200-1").out
    assert "Nothing is wrong with it." in out
    assert "8 by ResourceSlices of gpu.nvidia.com, 7 free" in out
    assert "agrees with NVML and sysfs on 8 GPUs" in out


def test_node_whose_driver_disagrees_with_the_hardware(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node h200-2", code=1).out
    assert (
        "Why: gpu.nvidia.com and the hardware disagree: "
        "GPU 3: gpu-3 of gpu.nvidia.com has pcieRoot pci0000:ff, but sysfs has pci0000:59"
    ) in out
    assert "GPU 3: gpu-3 of gpu.nvidia.com has numaNode 7, but sysfs has 0" in out
    assert "kubectl get resourceslices --field-selector spec.nodeName=h200-2 -o yaml" in out


def test_node_whose_driver_has_a_gpu_that_nvml_does_not_show(toposcope_on: CommandOnCluster) -> None:
    node = toposcope_on(sliced, "explain no/h200-4 -o json", code=1).json
    assert node["well"] is False
    (driver,) = (step for step in node["steps"] if step["step"] == "driver")
    assert driver["outcome"] == "failed"
    assert driver["details"] == [
        "the ResourceSlices of gpu.nvidia.com have gpu-0 (GPU-other), which NVML does not show"
    ]


def test_degraded_node_says_why(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/h200-3", code=1).out
    assert "Why: it is degraded: GPU 1: 17 of 18 NVLinks active" in out


def test_node_whose_compute_domain_is_not_ready(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/gb200-01", code=1).out
    assert "the IMEX daemon of ComputeDomain train/wide is not ready on it" in out
    assert "ComputeDomain train/wide has it in clique fabric.32766, but NVML reports " in out


def test_node_of_a_compute_domain_of_two_cliques(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/gb200-02").out
    assert "ComputeDomain train/wide has 2 nodes in 2 cliques, which share no memory with each other" in out


def test_node_without_driver_has_gpus_of_the_device_plugin(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/l40s-2").out
    assert "4 as nvidia.com/gpu, 4 free" in out
    assert "gpu.nvidia.com publishes nothing about it" in out


def test_node_without_agent_says_so(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(gaps, "explain node/new-1", code=1).out
    assert "no label gpu.topology/gpus: no agent has labelled it" in out


def test_missing_node_is_an_error(toposcope_on: CommandOnCluster) -> None:
    misspelt = toposcope_on(sliced, "explain node/gb200-011", code=2).err
    assert "; did you mean 'gb200-11'?" in misspelt
    assert "there is no node 'none'" in toposcope_on(sliced, "explain node/none -o name", code=2).err


def test_pod_in_a_compute_domain_of_two_cliques(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain pod/p -n train").out
    assert (
        "ComputeDomain train/wide has 2 nodes in 2 cliques, which share no memory with each other; "
        "1 of its 1 nodes are in it"
    ) in out


def faulty_nodes() -> SavedCluster:
    """The demo's nodes, of which each named below has one fault of its own."""
    cluster = SavedCluster()
    nodes = cluster.nodes
    cluster.remove_rack(["gb200-01"])
    nodes["gb200-02"]["spec"] = {"unschedulable": True}
    cluster.taint("gb200-03", key="team", value="a", effect="NoSchedule")
    cluster.labels("h200-8")[RACK] = "rack-1"
    nodes["h200-7"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return cluster


@pytest.mark.parametrize(
    ("node", "why", "command"),
    [
        pytest.param(
            "gb200-01",
            f"it lacks level rack (label {RACK}): KAI and Kueue leave it out",
            f"kubectl get nodes -L {RACK}",
            id="lacks-rack",
        ),
        pytest.param(
            "gb200-02",
            "it is cordoned: no new pods are scheduled on it",
            "kubectl uncordon gb200-02",
            id="cordoned",
        ),
        pytest.param(
            "gb200-03",
            "it has the taint team=a:NoSchedule: only pods that tolerate this are scheduled",
            "kubectl describe node gb200-03",
            id="tainted",
        ),
        pytest.param(
            "h200-8",
            "it may be misplaced: rack rack-1 lies under block block-2 by this node alone, "
            "and under block-1 by 17 others; correct its label or its cables",
            "toposcope levels",
            id="misplaced",
        ),
        pytest.param(
            "h200-7",
            "it is not Ready: its kubelet does not answer, or reports a fault; no pods start on it",
            "kubectl describe node h200-7",
            id="not-ready",
        ),
    ],
)
def test_node_says_what_keeps_pods_away(node: str, why: str, command: str, toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(faulty_nodes, f"explain node/{node}", code=1).out
    assert f"Why: {why}\n" in out
    assert f"  next: {command}\n" in out


def test_neighbours_of_faulty_nodes_have_nothing_wrong(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(faulty_nodes, "explain node/gb200-04").out
    assert "Nothing is wrong with it." in out
    assert "  ok      place         zone zone-1, block block-1, rack rack-1, " in out


def with_agent_pods(statuses: dict[str, dict[str, Any]]) -> SavedCluster:
    """The demo's nodes, and the pods of agents on nodes of these names."""
    cluster = SavedCluster()
    for node, status in statuses.items():
        agent = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"toposcope-agent-{node}",
                "namespace": "toposcope-system",
                "labels": {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": "agent"},
            },
            "spec": {"nodeName": node, "containers": [{"name": "agent"}]},
            "status": {"phase": "Running", **status},
        }
        cluster.others.append(agent)
    return cluster


def crashing_agent() -> SavedCluster:
    crashing = {"name": "agent", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    down = {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [crashing]}
    up = {"conditions": [{"type": "Ready", "status": "True"}]}
    return with_agent_pods({"h200-1": down, "h200-2": up})


def test_node_whose_agent_crashes_says_so(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(crashing_agent, "explain node/h200-1", code=1).out
    why = "its agent is not Ready (CrashLoopBackOff): nothing checks that its labels are still true"
    assert f"Why: {why}\n" in out
    assert "Nothing is wrong with it." in toposcope_on(crashing_agent, "explain node/h200-2").out


def agent_beside_a_crashing_container() -> SavedCluster:
    working = {"name": "agent", "ready": True, "state": {"running": {}}}
    crashing = {"name": "node-endpoint", "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [working, crashing]}
    return with_agent_pods({"h200-1": status})


def test_node_whose_agent_works_says_nothing_of_other_containers(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(agent_beside_a_crashing_container, "explain node/h200-1").out
    assert "Nothing is wrong with it." in out


def test_saved_cluster_knows_whose_agent_crashes(tmp_path: Path, save: Save, toposcope: Command) -> None:
    file = tmp_path / "cluster.topo"
    toposcope(f"save {file} --from {save(crashing_agent)}")
    assert "its agent is not Ready (CrashLoopBackOff)" in toposcope(f"explain node/h200-1 --from {file}", code=1).out
