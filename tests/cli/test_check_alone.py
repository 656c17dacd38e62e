"""`toposcope check` without a cluster: what needs none is checked, and the exit code says that the rest was not.

What the documents have counts as applied; of any other topology it is not known which levels it has.
"""

import pytest
from tests.cli.conftest import Command, Ran, Write
from tests.cli.test_check import SMALL, document
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression

NOT_CHECKED = "note: not checked without a cluster: topologies, levels, queues, existing objects, and room"
WARNING = "warning: checked without a cluster: no API server is configured: "
EMPTY_CLIQUE = (
    "{name: worker, spec: {roleName: worker, replicas: 4, podSpec: {schedulerName: kai-scheduler, containers: []}}}"
)


def assert_checked_alone(ran: Ran) -> None:
    """Nothing is said of room, and a warning why."""
    assert WARNING in ran.err
    assert "fit" not in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err


def grove_set(topology_constraint: str) -> str:
    """A PodCliqueSet of Grove with this constraint in line 6."""
    return (
        "apiVersion: grove.io/v1alpha1\n"
        "kind: PodCliqueSet\n"
        "metadata: {name: own, namespace: ml, labels: {kai.scheduler/queue: research}}\n"
        "spec:\n"
        "  template:\n"
        f"    topologyConstraint: {topology_constraint}\n"
        f"    cliques: [{EMPTY_CLIQUE}]\n"
        "  replicas: 1\n"
    )


def kueue_job(annotations: str) -> str:
    """A Job in a queue of Kueue whose pods have these annotations."""
    return (
        "apiVersion: batch/v1\n"
        "kind: Job\n"
        "metadata: {name: tune, labels: {kueue.x-k8s.io/queue-name: gpus}}\n"
        "spec:\n"
        "  parallelism: 2\n"
        "  template:\n"
        f"    metadata: {{annotations: {annotations}}}\n"
        "    spec: {restartPolicy: Never, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}\n"
    )


WRONG_FIELD = grove_set("{topologyName: cluster, pack: {requird: rack}}")


def test_workload_alone_is_unclear(toposcope: Command, write: Write) -> None:
    write("work.yaml", SMALL)
    ran = toposcope("check -f work.yaml", code=3)
    assert_checked_alone(ran)
    assert "1 workload checked\n" in ran.out
    assert NOT_CHECKED in ran.out


def test_level_outside_the_catalogue_is_advice(toposcope: Command, write: Write) -> None:
    write("work.yaml", grove_set("{topologyName: cluster, pack: {required: shelf}}"))
    ran = toposcope("check -f work.yaml", code=3)
    assert_checked_alone(ran)
    assert "advice: spec.template.topologyConstraint.pack.required (line 6):" in ran.out
    assert NOT_CHECKED in ran.out


def test_wrong_field_needs_no_cluster(toposcope: Command, write: Write) -> None:
    write("work.yaml", WRONG_FIELD)
    ran = toposcope("check -f work.yaml", code=1)
    assert_checked_alone(ran)
    assert "error: " in ran.out
    assert NOT_CHECKED in ran.out


def test_part_broader_than_the_whole_needs_no_cluster(toposcope: Command, write: Write) -> None:
    write(
        "work.yaml",
        """
        apiVersion: grove.io/v1alpha1
        kind: PodCliqueSet
        metadata: {name: parts, namespace: ml, labels: {kai.scheduler/queue: research}}
        spec:
          template:
            topologyConstraint: {topologyName: cluster, pack: {required: rack}}
            cliques:
            - name: w
              spec: {replicas: 1}
              topologyConstraint: {topologyName: cluster, pack: {required: zone}}
          replicas: 1
        """,
    )
    ran = toposcope("check -f work.yaml", code=1)
    assert_checked_alone(ran)
    assert "narrower" in ran.out
    assert NOT_CHECKED in ran.out


def test_domain_where_kueue_takes_label_keys_is_advice(toposcope: Command, write: Write) -> None:
    write("work.yaml", kueue_job("{kueue.x-k8s.io/podset-required-topology: rack}"))
    ran = toposcope("check -f work.yaml", code=3)
    assert_checked_alone(ran)
    assert "a label key is required here" in ran.out
    assert NOT_CHECKED in ran.out


def test_hyper_nodes_that_only_a_cluster_has_are_not_missed(toposcope: Command, write: Write) -> None:
    write("work.yaml", document("../volcano/job.yaml"))
    ran = toposcope("check -f work.yaml", code=3)
    assert_checked_alone(ran)
    assert "HyperNode" not in ran.out
    assert ran.out.endswith("1 workload checked\n")


def test_two_annotations_of_kueue_need_no_cluster(toposcope: Command, write: Write) -> None:
    annotations = "{kueue.x-k8s.io/podset-required-topology: a.b/c, kueue.x-k8s.io/podset-preferred-topology: a.b/c}"
    write("work.yaml", kueue_job(annotations))
    ran = toposcope("check -f work.yaml", code=1)
    assert_checked_alone(ran)
    assert "must not contain more than one topology annotation" in ran.out
    assert NOT_CHECKED in ran.out


@pytest.mark.parametrize(
    ("name", "code"),
    [("unknown-levels", 1), ("kai-topology-in-files", 1), ("kueue-topology-in-files", 1), ("osmo-workflow", 3)],
)
def test_check_of_documents_alone_is_its_page(name: str, code: int, toposcope: Command, write: Write) -> None:
    write("work.yaml", document(f"{name}.yaml"))
    ran = toposcope("check -f work.yaml", code=code)
    assert_checked_alone(ran)
    assert ran.out == expected_page(f"cli/pages/check-{name}.txt", ran.out)


def test_workload_alone_has_no_verdict_for_scripts(toposcope: Command, write: Write) -> None:
    write("work.yaml", kueue_job("{kueue.x-k8s.io/podset-required-topology: cloud.google.com/gce-topology-block}"))
    ran = toposcope("check -f work.yaml -o json", code=3)
    assert_checked_alone(ran)
    (workload,) = ran.json["workloads"]
    assert workload["topology"] is None
    assert workload["verdict"] is None


def test_wrong_field_is_found_although_the_cluster_does_not_answer(toposcope: Command, write: Write) -> None:
    write("work.yaml", WRONG_FIELD)
    write(
        "kubeconfig",
        """
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
        contexts: [{name: c, context: {cluster: c}}]
        current-context: c
        """,
    )
    ran = toposcope("check -f work.yaml --kubeconfig kubeconfig", code=2)
    assert "1 workload checked, 1 error" in ran.out
    assert "toposcope check: http://127.0.0.1:1" in ran.err
