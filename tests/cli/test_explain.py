"""`toposcope explain` of a node: its agent, its hardware, the driver's word beside NVML's and sysfs's.

tests/explain/ has the workloads.
"""

import pytest
from tests.cli.clusters import gaps, sliced
from tests.cli.conftest import CommandOnCluster

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
        "GPU 3: gpu-3 of gpu.nvidia.com says pcieRoot pci0000:ff, sysfs says pci0000:59"
    ) in out
    assert "GPU 3: gpu-3 of gpu.nvidia.com says numaNode 7, sysfs says 0" in out
    assert "kubectl get resourceslices --field-selector spec.nodeName=h200-2 -o yaml" in out


def test_node_whose_driver_has_a_gpu_that_nvml_does_not_show(toposcope_on: CommandOnCluster) -> None:
    node = toposcope_on(sliced, "explain no/h200-4 -o json", code=1).json
    assert node["well"] is False
    driver = node["steps"][3]
    assert driver["step"] == "driver"
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
    assert "ComputeDomain train/wide has it in clique fabric.32766, and NVML in " in out


def test_node_of_a_compute_domain_of_two_cliques(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "explain node/gb200-02").out
    assert "ComputeDomain train/wide has 2 nodes in 2 cliques, between which no memory is shared" in out


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
        "ComputeDomain train/wide has 2 nodes in 2 cliques, between which no memory is shared; "
        "1 of its 1 nodes are in it"
    ) in out
