"""What `check` says where a scheduler counts shares as GPUs: it follows the scheduler, and warns."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.snapshot.clusters import node_of, pod_of, snapshot
from tests.support.saved import cluster_topology
from tests.support.sharing import mixed_cluster, sharing_node
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.document import Finding
from toposcope.placement.check import Checked, Checker
from toposcope.placement.nodes import nodes_of
from toposcope.placement.sentences import answer
from toposcope.placement.shares import SharedRoom, with_shares
from toposcope.placement.verdict import judge

Object = dict[str, Any]
GPU = "nvidia.com/gpu"


def job(pods: int, gpus: int, *, resource: str = GPU, **spec: Any) -> Object:
    """A Job whose pods all run at once."""
    container = {"name": "main", "image": "x", "resources": {"limits": {resource: gpus}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def checked(cluster: list[Object], workload: Mapping[str, Any]) -> Checked:
    nodes = [node_of(item) for item in cluster if item["kind"] == "Node"]
    pods = [pod_of(item) for item in cluster if item["kind"] == "Pod"]
    (result,) = Checker(snapshot(nodes, pods, cluster_topology())).check(workload)
    return result


def share_findings(result: Checked) -> list[Finding]:
    return [finding for finding in result.reading.findings if finding.rule == "gpus/shares"]


def notes(result: Checked) -> str:
    assert result.reading.workload
    return "\n".join(result.reading.workload.notes)


@pytest.mark.parametrize(("pods", "gpus"), [(4, 8), (1, 39), (8, 8), (12, 4)])
def test_job_that_fits_only_on_shares_is_warned_of(pods: int, gpus: int) -> None:
    result = checked(mixed_cluster(), job(pods, gpus))
    assert result.verdict
    assert result.verdict.kind == "fits"
    assert answer(result.verdict).endswith("on shares of GPUs, not on whole GPUs")
    (warning,) = share_findings(result)
    assert warning.severity == "warning"
    assert "nvidia.com/gpu is a share of a GPU on 2 nodes" in warning.message
    assert "mig-single, sliced" in warning.message
    assert result.is_ok


def test_job_that_fits_on_whole_gpus_is_noted() -> None:
    result = checked(mixed_cluster(), job(1, 8))
    assert result.verdict
    assert answer(result.verdict) == "fits: 1 pod on 1 node"
    assert share_findings(result) == []
    assert "it fits on whole GPUs too" in notes(result)


def test_job_that_does_not_fit_notes_that_shares_count() -> None:
    result = checked(mixed_cluster(), job(1, 80))
    assert result.verdict
    assert result.verdict.kind == "never"
    assert "these count as GPUs here, as they do for the scheduler" in notes(result)


def test_selector_for_whole_gpus_needs_no_warning() -> None:
    result = checked(mixed_cluster(), job(1, 8, nodeSelector={"kubernetes.io/hostname": "eight"}))
    assert share_findings(result) == []
    assert "share" not in notes(result)


def test_selector_for_shares_is_warned_of() -> None:
    result = checked(mixed_cluster(), job(1, 1, nodeSelector={"kubernetes.io/hostname": "sliced"}))
    (warning,) = share_findings(result)
    assert "on 1 node that it may use: sliced (time slices)" in warning.message


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "cpu"])
def test_request_for_named_shares_needs_no_warning(resource: str) -> None:
    result = checked(mixed_cluster(), job(1, 2, resource=resource))
    assert share_findings(result) == []
    assert "share of a GPU" not in notes(result)


def test_taint_that_keeps_a_job_off_shares_counts() -> None:
    tainted = sharing_node("hami", offers={GPU: 40})
    tainted["spec"]["taints"] = [{"key": "shared", "effect": "NoSchedule"}]
    result = checked([tainted, sharing_node("whole", offers={GPU: 4})], job(1, 4))
    assert share_findings(result) == []
    assert "share of a GPU" not in notes(result)


def test_best_domain_of_shares_counts_no_gpus() -> None:
    seen = snapshot([node_of(sharing_node("hami", offers={GPU: 40}))])
    nodes = list(nodes_of(seen, None, {}))
    gang = Group("train", (Pods("p", 2, ((GPU, 8),)),), required=HOST)
    verdict = judge([gang], (HOST,), nodes)
    room = SharedRoom(("hami",), ("shares",))
    assert "(1 node, 40 free GPUs)" in answer(verdict)
    assert "(1 node, 40 free nvidia.com/gpu)" in answer(with_shares(verdict, room, nodes, (HOST,)))


def test_best_domain_without_shares_counts_gpus_beside_shares_elsewhere() -> None:
    seen = snapshot([node_of(sharing_node("whole", offers={GPU: 16})), node_of(sharing_node("hami", offers={GPU: 4}))])
    nodes = list(nodes_of(seen, None, {}))
    gang = Group("train", (Pods("p", 2, ((GPU, 8),)),), required=HOST)
    verdict = judge([gang], (HOST,), nodes)
    room = SharedRoom(("hami",), ("shares",))
    assert "(1 node, 16 free GPUs)" in answer(with_shares(verdict, room, nodes, (HOST,)))


def test_selector_of_other_nodes_keeps_a_job_off_shares() -> None:
    cluster = [sharing_node("hami", offers={GPU: 40}), sharing_node("whole", offers={GPU: 4})]
    result = checked(cluster, job(1, 4, nodeSelector={"kubernetes.io/hostname": "whole"}))
    assert share_findings(result) == []
    assert "share of a GPU" not in notes(result)


HOST = Level("host", "kubernetes.io/hostname")
