"""What Kueue's Configuration says of quota: transformations, excluded prefixes, undeclared resources."""

from typing import Any

import pytest
import yaml
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.kueue_objects import admitted, quotas
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.resource_rules import resource_rules

pytestmark = pytest.mark.regression

FITS = "fits: example.com/rack r1 (2 nodes, 16 free GPUs)"
NOT_READ = (
    "and Kueue's Configuration was not read (resources.transformations, excludeResourcePrefixes, quotaCheckStrategy): "
    "kubectl get configmap kueue-manager-config -n kueue-system -o yaml"
)
TOTAL_MEMORY = {
    "input": "nvidia.com/gpumem",
    "strategy": "Replace",
    "outputs": {"nvidia.com/total-gpumem": "1"},
    "multiplyBy": "nvidia.com/gpu",
}
TOTAL_CORES = {
    "input": "nvidia.com/gpucores",
    "strategy": "Replace",
    "outputs": {"nvidia.com/total-gpucores": "1"},
    "multiplyBy": "nvidia.com/gpu",
}


def configuration(**resources: Any) -> Object:
    """The configuration of Kueue's manager."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "metadata": {"name": "configuration"},
        "resources": resources,
    }


def config_map(**resources: Any) -> Object:
    """The ConfigMap that the configuration is in."""
    text = yaml.safe_dump(configuration(**resources))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": text},
    }


@pytest.fixture
def hami(kueue: CheckedCluster) -> CheckedCluster:
    """Each pod has 2 GPUs with 30 cores and 1024 of memory each, and the queue has quota of the totals alone."""
    for node in ("n0", "n1"):
        for resource in ("gpucores", "gpumem"):
            kueue.edit(f"Node/{node}", f"status.allocatable[nvidia.com/{resource}]", "100000")
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": "1024"}
    kueue.edit_workload("spec.template.spec.containers[0].resources.limits", limits)
    cover(kueue, cores="120", memory="4096")
    return kueue


def cover(kueue: CheckedCluster, *, cores: str, memory: str) -> None:
    """Quota of the total cores and memory."""
    flavor = quotas("f")
    flavor["resources"] += [
        {"name": "nvidia.com/total-gpucores", "nominalQuota": cores},
        {"name": "nvidia.com/total-gpumem", "nominalQuota": memory},
    ]
    covered = [resource["name"] for resource in flavor["resources"]]
    group = {"coveredResources": covered, "flavors": [flavor]}
    kueue.edit("ClusterQueue/cq", "spec.resourceGroups", [group])


def test_resource_without_quota_is_unclear_without_the_configuration(hami: CheckedCluster) -> None:
    assert hami.check().verdict == f"unclear: ClusterQueue cq has no quota of nvidia.com/gpucores, {NOT_READ}"


def test_resource_without_quota_cannot_fit_by_the_configuration(hami: CheckedCluster) -> None:
    hami.add(config_map())
    assert hami.check().verdict == "cannot fit: ClusterQueue cq has no quota of nvidia.com/gpucores"


def test_no_room_is_known_without_the_configuration(hami: CheckedCluster) -> None:
    hami.edit("Node/n0", "status.allocatable[nvidia.com/gpumem]", "10")
    hami.edit("Node/n1", "status.allocatable[nvidia.com/gpumem]", "10")
    assert hami.check().verdict == (
        "cannot fit: a pod of pod set pods needs 1024 nvidia.com/gpumem, "
        "and no node that it may use has more than 10 (n0)"
    )


def test_transformed_resources_count_against_the_quota_of_their_outputs(hami: CheckedCluster) -> None:
    hami.add(config_map(transformations=[TOTAL_CORES, TOTAL_MEMORY]))
    assert hami.check().verdict == FITS

    cover(hami, cores="119", memory="4096")
    assert hami.check().verdict == (
        "cannot fit: ClusterQueue cq has a quota of at most 119 nvidia.com/total-gpucores in flavor f, "
        "120 nvidia.com/total-gpucores requested"
    )


def test_configuration_beside_the_workload_counts(hami: CheckedCluster) -> None:
    document = configuration(transformations=[TOTAL_CORES, TOTAL_MEMORY])
    hami.put_beside(yaml.safe_dump(document))
    assert hami.check().verdict == FITS


def test_excluded_resources_need_no_quota(hami: CheckedCluster) -> None:
    hami.add(config_map(excludeResourcePrefixes=["nvidia.com/gpucores", "nvidia.com/gpumem"]))
    assert hami.check().verdict == FITS


def test_undeclared_resources_need_no_quota_where_they_are_ignored(hami: CheckedCluster) -> None:
    hami.add(config_map(quotaCheckStrategy="IgnoreUndeclared"))
    assert hami.check().verdict == FITS


def test_two_configurations_that_differ_are_as_good_as_none(hami: CheckedCluster) -> None:
    hami.add(config_map(quotaCheckStrategy="IgnoreUndeclared"))
    other = config_map()
    other["metadata"]["name"] = "kueue-manager-config-old"
    hami.add(other)
    assert hami.check().verdict == f"unclear: ClusterQueue cq has no quota of nvidia.com/gpucores, {NOT_READ}"


def test_jobs_without_integration_are_left_alone(kueue: CheckedCluster) -> None:
    document = configuration()
    document["integrations"] = {"frameworks": ["jobset.x-k8s.io/jobset", "pod"]}
    kueue.put_beside(yaml.safe_dump(document))
    assert kueue.check().verdict == (
        "unclear: Kueue's Configuration does not list batch/job in integrations.frameworks, so Kueue does not "
        "manage the workload"
    )


def test_pods_that_are_not_ready_may_block_the_admission(kueue: CheckedCluster) -> None:
    document = configuration()
    document["waitForPodsReady"] = {"blockAdmission": True}
    kueue.put_beside(yaml.safe_dump(document))
    assert kueue.check().verdict == FITS

    kueue.add(admitted(gpus=0))
    assert kueue.check().verdict == (
        "unclear: Kueue's Configuration sets waitForPodsReady.blockAdmission: nothing is admitted until the pods of "
        "all admitted Workloads are ready, which is not checked"
    )


def counted(requests: dict[str, int], *transformations: Any, **resources: Any) -> dict[str, int]:
    """What counts of the requests of a pod."""
    document = configuration(transformations=list(transformations), **resources)
    cluster = ClusterFacts(objects={("config.kueue.x-k8s.io", "Configuration"): (document,)})
    return resource_rules(cluster).counted(tuple(requests.items()))


def test_input_that_is_retained_counts_beside_its_outputs() -> None:
    mig = {"input": "nvidia.com/mig-1g.5gb", "outputs": {"memory": "5Gi", "credits": "500m"}}
    assert counted({"nvidia.com/mig-1g.5gb": 3, "memory": 1024}, mig) == {
        "nvidia.com/mig-1g.5gb": 3,
        "memory": 1024 + 3 * 5 * 1024**3,
        "credits": 2,
    }


def test_cpu_is_transformed_by_whole_cores() -> None:
    to_credits = {"input": "cpu", "strategy": "Replace", "outputs": {"credits": "2"}}
    to_cpu = {"input": "a/b", "strategy": "Replace", "outputs": {"cpu": "250m"}}
    assert counted({"cpu": 1500, "a/b": 3}, to_credits, to_cpu) == {"credits": 3, "cpu": 750}


def test_negative_outputs_cancel_others_and_never_a_request() -> None:
    charge = {"input": "a/gpu", "strategy": "Replace", "outputs": {"memory": "4"}}
    allowance = {"input": "a/vm", "strategy": "Replace", "outputs": {"memory": "-10"}}
    assert counted({"a/gpu": 1, "a/vm": 1, "memory": 100}, charge, allowance) == {"memory": 100}
