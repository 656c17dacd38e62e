"""What Kueue refuses of a job as a whole: elastic jobs, KubeRay's objects, too many pod sets."""

import pytest
from tests.integrations.kueue.annotations import UNCONSTRAINED
from tests.support.checked_cluster import CheckedCluster, Object
from tests.support.checking import Finding, error, warning

pytestmark = pytest.mark.regression

ELASTIC = "kueue.x-k8s.io/elastic-job"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
REFUSED = "unclear: Kueue rejects the workload as written, even on an empty cluster"


FITS = "fits: 2 pods on 2 nodes"


@pytest.fixture
def anywhere(kueue: CheckedCluster) -> CheckedCluster:
    """The same, and the Job asks for no level."""
    kueue.annotate_pods(REQUIRED, None)
    return kueue


def assert_refused(cluster: CheckedCluster, finding: Finding) -> None:
    """Kueue refuses the workload, for this reason alone."""
    answer = cluster.check()
    assert answer.findings == [finding]
    assert answer.verdict == REFUSED


def elastic(field: str, message: str, *, fix: str) -> Finding:
    """What is wrong with an elastic job."""
    return error("kueue/elastic-job", field, message, fix=fix)


def test_elastic_job_that_requires_a_level_is_refused(kueue: CheckedCluster) -> None:
    kueue.annotate(ELASTIC, "true")
    level = elastic(
        f"spec.template.metadata.annotations[{REQUIRED}]",
        "required topology is not supported with elastic jobs",
        fix=f"use kueue.x-k8s.io/podset-unconstrained-topology, or remove {ELASTIC}",
    )
    assert_refused(kueue, level)


def test_elastic_job_without_a_level_fits(anywhere: CheckedCluster) -> None:
    anywhere.annotate(ELASTIC, "true")
    answer = anywhere.check()
    assert answer.findings == []
    assert answer.verdict == FITS


def test_elastic_job_with_fewer_pods_is_refused(anywhere: CheckedCluster) -> None:
    anywhere.annotate(ELASTIC, "true")
    anywhere.annotate("kueue.x-k8s.io/job-min-parallelism", "1")
    fewer_pods = elastic(
        "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]",
        "partial admission and elastic job cannot be used together",
        fix="keep one of the two annotations",
    )
    assert_refused(anywhere, fewer_pods)


def test_annotation_that_says_false_is_no_elastic_job(kueue: CheckedCluster) -> None:
    kueue.annotate(ELASTIC, "false")
    assert kueue.check().findings == []


def test_elastic_jobset_is_refused(kueue: CheckedCluster) -> None:
    kueue.submit(JOBSET)
    kueue.annotate(ELASTIC, "true")
    jobset = elastic(
        f"metadata.annotations[{ELASTIC}]",
        "elastic job is not supported for JobSet",
        fix=f"remove the annotation {ELASTIC}",
    )
    assert_refused(kueue, jobset)


def test_unconstrained_false_is_never_admitted(anywhere: CheckedCluster) -> None:
    anywhere.edit_workload(UNCONSTRAINED, "false")
    request_without_a_level = error(
        "kueue/unconstrained",
        UNCONSTRAINED,
        "Kueue 0.19 reads it as a request without a level and never admits it; later versions reject it",
        fix='set "true", or remove it',
    )
    assert_refused(anywhere, request_without_a_level)


def test_unconstrained_false_beside_slices_is_warned_of(anywhere: CheckedCluster) -> None:
    """Kueue 0.19.2 admits it: slices alone begin at the highest level."""
    anywhere.annotate_pods("kueue.x-k8s.io/podset-slice-required-topology", "kubernetes.io/hostname")
    anywhere.annotate_pods("kueue.x-k8s.io/podset-slice-size", "1")
    anywhere.edit_workload(UNCONSTRAINED, "false")
    answer = anywhere.check()
    assert answer.findings == [
        warning(
            "kueue/unconstrained",
            UNCONSTRAINED,
            "Kueue 0.19 ignores it with slices; later versions reject it",
            fix='set "true", or remove it',
        )
    ]
    assert answer.verdict == FITS


def test_unconstrained_true_fits(anywhere: CheckedCluster) -> None:
    anywhere.edit_workload(UNCONSTRAINED, "true")
    assert anywhere.check().verdict == FITS


def test_spreading_of_a_later_version_is_unclear(kueue: CheckedCluster) -> None:
    kueue.annotate_pods("kueue.x-k8s.io/podset-topology-spreading", "[]")
    assert kueue.check().verdict == (
        "unclear: spec.template.metadata.annotations[kueue.x-k8s.io/podset-topology-spreading]: Kueue 0.19 ignores "
        "it; later versions may exclude domains by it (TASTopologySpreading), which is not checked"
    )


def test_slice_sizes_of_a_later_version_are_unclear(anywhere: CheckedCluster) -> None:
    layers = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    anywhere.annotate_pods(layers, '[{"topology": "example.com/rack", "sizes": [1, 1]}]')
    answer = anywhere.check()
    assert answer.findings == []
    assert answer.verdict == (
        f"unclear: spec.template.metadata.annotations[{layers}]: sizes lists a size for each domain, "
        "which Kueue 0.19 ignores and which is not checked"
    )


def test_gated_workload_waits_for_its_gate(kueue: CheckedCluster) -> None:
    kueue.annotate("kueue.x-k8s.io/admission-gated-by", "example.com/budget")
    assert kueue.check().verdict == (
        "does not fit now: Kueue admits it only after its annotation kueue.x-k8s.io/admission-gated-by "
        "(example.com/budget) is removed"
    )


def test_workload_that_is_not_active_waits(kueue: CheckedCluster) -> None:
    kueue.submit("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Workload
        metadata: {name: w, namespace: ml}
        spec: {queueName: queue, active: false, podSets: [{name: main, count: 1}]}
    """)
    kueue.edit_workload("spec.podSets[0].topologyRequest", {"required": "example.com/rack"})
    kueue.edit_workload("spec.podSets[0].template", {"spec": ONE_GPU})
    assert kueue.check().verdict == (
        "does not fit now: spec.active is false, and Kueue admits no Workload that is not active"
    )


@pytest.mark.parametrize("key", ["prebuilt-workload-name", "of-a-later-version"])
def test_annotation_that_is_not_read_is_unclear(kueue: CheckedCluster, key: str) -> None:
    kueue.annotate(f"kueue.x-k8s.io/{key}", "x")
    assert kueue.check().verdict == (
        f"unclear: metadata.annotations[kueue.x-k8s.io/{key}] is not read; "
        "without it: fits: example.com/rack r1 (2 nodes, 16 free GPUs)"
    )


ONE_GPU = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
JOBSET = """
    apiVersion: jobset.x-k8s.io/v1alpha2
    kind: JobSet
    metadata: {name: set, namespace: ml, labels: {kueue.x-k8s.io/queue-name: queue}}
    spec:
      replicatedJobs:
        - name: workers
          template:
            spec:
              template:
                spec:
                  containers: [{name: c, image: example.invalid/c, resources: {limits: {nvidia.com/gpu: '1'}}}]
"""


def with_pod_sets(kueue: CheckedCluster, count: int) -> None:
    kueue.submit(JOBSET)
    jobs: list[Object] = []
    for number in range(count):
        container = {"name": "c", "image": "example.invalid/c", "resources": {"requests": {"memory": "1Gi"}}}
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        jobs.append({"name": f"job-{number}", "template": template})
    kueue.edit_workload("spec.replicatedJobs", jobs)


def test_nineteen_pod_sets_are_refused(kueue: CheckedCluster) -> None:
    with_pod_sets(kueue, 19)
    too_many = error(
        "kueue/pod-sets",
        "spec",
        "it has 19 pod sets, and a Workload must have at most 18 items",
        fix="merge similar roles, or create several jobs",
    )
    assert_refused(kueue, too_many)


def test_nine_pod_sets_need_a_new_version(kueue: CheckedCluster) -> None:
    with_pod_sets(kueue, 9)
    answer = kueue.check()
    assert answer.findings == [
        warning(
            "kueue/pod-sets",
            "spec",
            "it has 9 pod sets, and before Kueue 0.19 a Workload has at most 8",
            fix="update Kueue, or merge similar roles",
        )
    ]
    assert answer.verdict == "fits: 9 pods on 1 node"
