"""`toposcope score`: how close the pods of gangs run."""

import pytest
from tests.cli.clusters import jobs, nodes_only, parts, single
from tests.cli.conftest import Command, CommandOnCluster, Write
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression

NOT_COUNTED = "! not counted: 1 pod with parts of GPUs (MIG"


def test_scores_of_gangs_are_their_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "score")
    assert ran.out == expected_page("cli/pages/score.txt", ran.out)


def test_gang_below_a_score_is_listed_with_code_1(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(jobs, "score --below 0.9 -o name", code=1).out == "train/apart\n"


def test_no_gang_below_a_score_is_said(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(jobs, "score train/close --below 0.9").out == "no gang scores that low (1 checked)\n"


def test_score_for_scripts_says_how_many_domains_a_gang_spans(toposcope_on: CommandOnCluster) -> None:
    gang = toposcope_on(jobs, "score apart -o json").json["gangs"][0]
    assert gang["score"] == 0.5
    assert gang["betterNow"] is True
    assert gang["pods"] == 2
    assert gang["gpus"] == 16
    assert gang["levels"][2] == {
        "domain": "rack",
        "spans": 2,
        "fewestNow": 1,
        "fewest": 1,
    }


def test_wide_scores_count_the_domains_of_each_level(toposcope_on: CommandOnCluster) -> None:
    assert "zone 1, block 1, rack 2" in toposcope_on(jobs, "score -o wide").out


def test_pods_with_parts_of_gpus_are_not_scored(toposcope_on: CommandOnCluster) -> None:
    assert NOT_COUNTED in toposcope_on(parts, "score").out


@pytest.mark.usefixtures("folder")
def test_pods_of_a_volcano_group_are_a_gang(toposcope_on: CommandOnCluster, write: Write) -> None:
    write(
        "pods.yaml",
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: vc-0, namespace: ml, annotations: {scheduling.k8s.io/group-name: vc}}
        spec: {nodeName: h200-1, containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
        status: {phase: Running}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: vc-1, namespace: ml, annotations: {scheduling.k8s.io/group-name: vc}}
        spec: {nodeName: h200-5, containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}
        status: {phase: Running}
        """,
    )
    assert "ml/vc" in toposcope_on(jobs, "score --from pods.yaml -o name").out.splitlines()


def test_score_needs_pods(toposcope_on: CommandOnCluster) -> None:
    assert "what runs and what is free are unknown" in toposcope_on(nodes_only, "score", code=2).err


def test_single_pods_are_no_gangs(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(single, "score").out == "no gang of several GPU pods is running\n"


def test_missing_gang_is_an_error(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(jobs, "score nobody", code=2).err
    assert "no gang with GPUs is called 'nobody'; toposcope score -o name lists those that run" in err


@pytest.mark.usefixtures("folder")
def test_score_above_1_is_refused(toposcope: Command) -> None:
    err = toposcope("score --below 2", code=2).err
    assert "argument --below: '2' is not a score; give a number from 0 to 1, such as 0.8" in err


GANG_OF_KAI = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: ml
  labels: {{job: kept}}
  annotations:
    pod-group-name: kept
    kai.scheduler/topology-required-placement: cloud.google.com/gce-topology-subblock
spec: {{nodeName: {node}, containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: "4"}}}}}}]}}
status: {{phase: Running}}
"""


@pytest.mark.usefixtures("folder")
def test_gang_in_two_racks_that_requires_one_is_a_violation(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("pods.yaml", "---".join(GANG_OF_KAI.format(name=f"k-{node}", node=node) for node in ("h200-3", "h200-5")))
    out = toposcope_on(jobs, "score --from pods.yaml").out.splitlines()
    (row,) = [line for line in out if " ml/kept " in line]
    assert "KEPT" in out[0]
    assert row.split()[-1] == "VIOLATION"
    (reason,) = [line for line in out if line.startswith("! ml/kept")]
    assert "pod/k-h200-3 on h200-3 is in" in reason
    assert "pod/k-h200-5 on h200-5 is in" in reason


@pytest.mark.usefixtures("folder")
def test_kept_gang_for_scripts_names_its_pods_by_domain(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("pods.yaml", "---".join(GANG_OF_KAI.format(name=f"k-{node}", node=node) for node in ("h200-3", "h200-4")))
    (kept,) = toposcope_on(jobs, "score --from pods.yaml -o json").json["kept"]
    assert kept["name"] == "kept"
    assert kept["result"] == "MATCH"
    (domain,) = kept["parts"][0]["domains"]
    assert [pod["node"] for pod in domain["pods"]] == ["h200-3", "h200-4"]
