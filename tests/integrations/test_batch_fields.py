"""Fields, labels and kinds of Volcano, Ray, JobSet, LeaderWorkerSet, OSMO and Run:ai that leave no verdict."""

from typing import Any

import pytest
from tests.support.documents import document, edited
from toposcope.integrations.unread import field_uses

pytestmark = pytest.mark.regression

Object = dict[str, Any]
RAY_CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "rc"},
    "spec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}},
}
WORKFLOW = {"workflow": {"name": "w", "tasks": [{"name": "t"}], "resources": {"default": {"gpu": 8}}}}


def unread(workload: Object, path: str, value: Any) -> list[str]:
    """The fields of a workload that are not read, where it has this value in one place."""
    return [field.field for field in field_uses().unread(edited(workload, {path: value}))]


@pytest.mark.parametrize(
    ("workload", "path", "value"),
    [
        pytest.param(document("volcano/job"), "spec.schedulerName", "other", id="scheduler"),
        pytest.param(document("volcano/job"), "spec.tasks[0].topologyPolicy", "single-numa-node", id="numa"),
        pytest.param(document("volcano/job"), "spec.tasks[0].gang", 3, id="unknown-field"),
        pytest.param(document("volcano/job"), "metadata.annotations[volcano.sh/revocable-zone]", "z", id="zone"),
        pytest.param(document("exclusive/jobset"), "spec.managedBy", "kueue.x-k8s.io/multikueue", id="managed"),
        pytest.param(document("exclusive/jobset"), "metadata.labels[jobset.sigs.k8s.io/other]", "x", id="label"),
        pytest.param(RAY_CLUSTER, "spec.managedBy", "kueue.x-k8s.io/multikueue", id="ray-managed"),
        pytest.param(RAY_CLUSTER, "spec.headGroupSpec.replicas", 2, id="ray-unknown-field"),
        pytest.param(WORKFLOW, "workflow.resources.default.platform", "h100", id="platform"),
        pytest.param(WORKFLOW, "workflow.backend", "other", id="backend"),
    ],
)
def test_field_that_may_decide_is_not_read(workload: Object, path: str, value: Any) -> None:
    assert unread(workload, path, value) == [path]


@pytest.mark.parametrize(
    ("workload", "path", "value"),
    [
        pytest.param(document("volcano/job"), "spec.schedulerName", "volcano", id="scheduler"),
        pytest.param(document("volcano/job"), "spec.plugins", {"svc": [], "ssh": []}, id="plugins"),
        pytest.param(document("volcano/job"), "spec.tasks[0].policies", [{"event": "TaskCompleted"}], id="policies"),
        pytest.param(document("exclusive/jobset"), "spec.failurePolicy", {"maxRestarts": 3}, id="failures"),
        pytest.param(RAY_CLUSTER, "spec.headGroupSpec.rayStartParams", {"num-cpus": "0"}, id="ray-parameters"),
        pytest.param(WORKFLOW, "workflow.tasks[0].image", "x", id="image"),
    ],
)
def test_field_that_decides_nothing_is_no_matter(workload: Object, path: str, value: Any) -> None:
    assert unread(workload, path, value) == []


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("batch.volcano.sh/v1alpha1", "CronJob", id="volcano"),
        pytest.param("ray.io/v1", "RayCronJob", id="ray"),
        pytest.param("run.ai/v2alpha1", "TrainingWorkload", id="runai"),
    ],
)
def test_kind_whose_pods_nobody_reads_is_said(api_version: str, kind: str) -> None:
    (field,) = field_uses().unread_pods({"apiVersion": api_version, "kind": kind})
    assert field.field == "kind"
