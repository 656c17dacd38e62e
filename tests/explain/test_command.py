"""The command around the answer: which object is meant, what belongs to it, errors, and what stays unknown."""

from pathlib import Path

import pytest
import yaml
from tests.explain.waiting import WaitingCluster, grove_set, named, pod, pod_spec
from toposcope.cli.main import main


def explain(cluster: WaitingCluster, folder: Path, *arguments: str) -> int:
    """The exit code of `toposcope explain` on the saved cluster."""
    file = cluster.save(folder)
    return main(["explain", *arguments, "--from", str(file)])


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        pytest.param("llm", "'llm' is not KIND/NAME or KIND NAME; write for example podcliqueset/llm", id="name-alone"),
        pytest.param(
            "pcs/", "'pcs/' is not KIND/NAME or KIND NAME; write for example podcliqueset/llm", id="kind-alone"
        ),
        pytest.param("pcs lml", "there is no podcliqueset/lml; did you mean 'llm'?", id="misspelt-name"),
        pytest.param("pcs/lml", "there is no podcliqueset/lml; did you mean 'llm'?", id="misspelt-name-after-slash"),
        pytest.param("service/n1", "cannot explain the kind 'service'; choose one of: ", id="kind-of-no-workload"),
        pytest.param(
            "job/llm", "cannot read job/llm: the files have no Job (kubectl get jobs.batch -A)", id="kind-not-saved"
        ),
        pytest.param("pod/llm", "there is no pod/llm\n", id="missing-pod"),
    ],
)
def test_subject_that_cannot_be_explained_is_an_error(
    subject: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = explain(grove_set(), tmp_path, *subject.split())
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.startswith(f"toposcope explain: {message}")


def test_kinds_missing_from_the_files_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, the ClusterTopology and the workload alone: what schedulers read is not taken for absent."""
    full = grove_set()
    cluster = WaitingCluster(full["ClusterTopology/cluster"], full["PodCliqueSet/llm"])
    code = explain(cluster, tmp_path, "pcs/llm", "-o", "yaml")
    printed = capsys.readouterr()
    assert code == 0
    assert "there are no Pods in the files" in printed.err

    steps = {step["step"]: step for step in yaml.load(printed.out, yaml.CSafeLoader)["steps"]}
    assert steps["topology"]["outcome"] == "unknown"
    assert steps["topology"]["message"] == (
        "cannot tell whether Grove has a ClusterTopologyBinding cluster: the files have no "
        "ClusterTopologyBinding (kubectl get clustertopologybindings.grove.io -A)"
    )
    assert steps["room"]["outcome"] == "unknown"
    assert steps["room"]["message"] == "pods are not visible, so free resources are unknown"
    assert steps["drift"]["outcome"] == "unknown"
    assert steps["labels"]["outcome"] == "passed"
    assert steps["levels"]["outcome"] == "passed"


def test_pod_without_owner_is_explained_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = explain(WaitingCluster(pod("alone", message="")), tmp_path, "pod/alone")
    assert code == 0
    first_line = capsys.readouterr().out.splitlines()[0]
    assert first_line == "pod/alone -n ml (KAI): 1 pod, 0 with a node, 1 waiting"


def test_finished_job_waits_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = named("batch/v1", "Job", "done", {"parallelism": 100, "template": {"spec": pod_spec()}})
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    code = explain(WaitingCluster(pod("other"), job), tmp_path, "job/done")
    assert code == 0
    first_line = capsys.readouterr().out.splitlines()[0]
    assert first_line == "job/done -n ml (KAI): has finished"
