"""`toposcope suggest`: ClusterTopologies for the nodes there are, claims that can be met, taints for faulty GPUs."""

from pathlib import Path

import pytest
from tests.cli.clusters import (
    RACK,
    demo,
    empty,
    few_of_a_kind,
    linked,
    one_of_many,
    one_of_many_with_stricter_topology,
    one_without_agent,
    plain,
    sliced,
    two_kinds,
    two_kinds_with_topology,
)
from tests.cli.conftest import CommandOnCluster

pytestmark = pytest.mark.regression


# ClusterTopologies


def test_two_kinds_of_nodes_get_two_topologies(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(two_kinds, "suggest")
    assert [document["metadata"]["name"] for document in ran.documents] == ["cluster-rack", "cluster-base"]
    assert f"- key: {RACK}\n      operator: DoesNotExist" in ran.out
    assert "# 26 nodes, 136 GPUs: gb200-01, gb200-02, gb200-03, ..." in ran.out
    assert f"# Other nodes lack {RACK}: in one topology with these, schedulers would ignore them." in ran.out


def test_few_nodes_of_a_kind_get_a_warning(toposcope_on: CommandOnCluster) -> None:
    assert "# So few nodes may just be missing a label." in toposcope_on(few_of_a_kind, "suggest").out


def test_level_that_nearly_all_nodes_carry_is_suggested(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(one_of_many, "suggest")
    assert ran.yaml["spec"]["levels"][2]["key"] == RACK
    assert "# 40 of 41 have " in ran.out
    assert "# A level is missing on bare: Kueue and KAI leave it out." in ran.out
    assert "note: 1 node lacks a level of cluster, and Kueue and KAI leave such a node out: bare" in ran.err
    assert "nodeSelector" not in ran.out + ran.err


def test_share_that_a_topology_asks_for_is_kept(toposcope_on: CommandOnCluster) -> None:
    first, second = toposcope_on(one_of_many_with_stricter_topology, "suggest").documents
    assert first["spec"]["minCoveragePercent"] == 99
    assert second["spec"]["minCoveragePercent"] == 99


def test_topology_that_exists_would_change(toposcope_on: CommandOnCluster) -> None:
    assert "ClusterTopology cluster already exists; applying this changes it" in toposcope_on(plain, "suggest").err


def test_topology_of_the_same_nodes_is_not_changed(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(two_kinds_with_topology, "suggest").err
    assert "ClusterTopology cluster has the same nodes and is not changed" in err


def test_empty_cluster_gets_no_topology(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(empty, "suggest", code=1)
    assert ran.out == ""
    assert "toposcope suggest: there are no nodes with GPUs" in ran.err


def test_node_without_agent_is_a_warning(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(one_without_agent, "suggest", code=1)
    assert ran.yaml["metadata"]["name"] == "cluster"
    assert "warning: 1 node has GPUs but no label gpu.topology/gpus: gb200-01; " in ran.err


def test_suggestion_is_written_into_a_file(toposcope_on: CommandOnCluster, folder: Path) -> None:
    ran = toposcope_on(one_without_agent, "suggest -o topology.yaml", code=1)
    assert ran.out == ""
    assert "kind: ClusterTopology\n" in (folder / "topology.yaml").read_text()


# Claims for GPUs that are linked on the machines here


def test_claim_for_linked_gpus_with_nics(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(linked, "suggest claim --gpus 2 --link nvlink --nic")
    assert "# 2 GPUs, linked by NVLink, each with a NIC of class rdma on its PCIe root." in ran.out
    assert "# Can be met on 2 of 5 nodes with GPUs of gpu.nvidia.com, on 2 now: h200-1, h200-2" in ran.out
    assert "# Not for NVIDIA L40S: GPUs that it could get are not linked, or not known to be, on l40s-1." in ran.out
    assert ran.yaml["metadata"]["name"] == "gpus-2-nvlink-nic"
    devices = ran.yaml["spec"]["spec"]["devices"]
    assert devices["requests"][3]["exactly"] == {"deviceClassName": "rdma", "count": 1}
    assert devices["constraints"][1] == {
        "requests": ["gpu-1", "nic-1"],
        "matchAttribute": "resource.kubernetes.io/pcieRoot",
    }
    selector = devices["requests"][0]["exactly"]["selectors"][0]
    assert selector["cel"]["expression"] == (
        'device.attributes["gpu.nvidia.com"].productName in ["NVIDIA GB200", "NVIDIA H200"]'
    )


def test_claim_for_whole_nodes_for_scripts(toposcope_on: CommandOnCluster) -> None:
    template = toposcope_on(linked, "suggest claim --gpus 8 --link nvlink -o json").json["items"][0]
    assert template["kind"] == "ResourceClaimTemplate"
    request = template["spec"]["spec"]["devices"]["requests"][0]
    assert request["name"] == "gpus"
    assert request["exactly"]["count"] == 8


@pytest.mark.parametrize(
    ("flags", "comments"),
    [
        pytest.param("--gpus 8 --link nvlink", ["on 2 of 5 nodes", "on 1 now: h200-1, h200-2"], id="nvlink"),
        pytest.param(
            "--gpus 2 --link numa --nic rdma",
            ["2 GPUs, on one NUMA node, each with a NIC of class rdma on its PCIe root", "on 2 of 5 nodes"],
            id="numa-with-nic",
        ),
    ],
)
def test_claim_says_where_it_can_be_met(flags: str, comments: list[str], toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(linked, f"suggest claim {flags}").out
    for comment in comments:
        assert comment in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param("--gpus 2 --link pcie", "2 GPUs, on one PCIe root: no claim can get that on any of 5", id="pcie"),
        pytest.param("--gpus 16 --link nvlink", "no claim can get that on any of 5 nodes", id="nvlink"),
    ],
)
def test_claim_that_no_node_can_meet_is_an_error(flags: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(linked, f"suggest claim {flags}", code=1).err


def test_claim_for_a_nic_has_a_name(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(sliced, "suggest claim --nic -o name")
    assert ran.out.split() == ["resourceclaimtemplate.resource.k8s.io/gpus-1-nic"]


def test_claim_for_a_nic_needs_a_device_class(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(demo, "suggest claim --nic", code=2).err
    assert "--nic: there is no DeviceClass of NICs" in err


def test_claim_for_no_gpu_is_refused(toposcope_on: CommandOnCluster) -> None:
    assert "0 is too small; give 1 to 16" in toposcope_on(linked, "suggest claim --gpus 0", code=2).err


def test_claim_goes_by_pci_addresses_where_the_driver_is_wrong(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(sliced, "suggest claim --gpus 2 --link nvlink").out
    assert "2 GPUs linked by NVLink, by PCI address" in out
    assert "on 6 of 7 nodes" in out


# Taints for degraded GPUs


def test_faulty_gpu_gets_a_device_taint_rule(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(sliced, "suggest taints")
    assert "DeviceTaintRules need the feature gate" in ran.err
    assert "# h200-3: GPU 1: 17 of 18 NVLinks active" in ran.out
    assert ran.yaml["kind"] == "DeviceTaintRule"
    assert ran.yaml["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": "h200-3", "device": "gpu-1"}
    assert ran.yaml["spec"]["taint"] == {"key": "gpu.topology/degraded", "value": "true", "effect": "NoSchedule"}


def test_healthy_gpus_get_no_taint(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(linked, "suggest taints")
    assert ran.out == ""
    assert "no agent reports a faulty GPU" in ran.err
