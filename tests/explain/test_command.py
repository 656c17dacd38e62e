"""The command around the answer: its arguments, its errors, and what stays unknown."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.explain.causes import grove
from tests.explain.waiting import Object, named, nodes, pod, pod_spec
from tests.support.saved import saved
from tests.support.tables import each_case
from toposcope.cli.main import main
from toposcope.explain.live import load_objects
from toposcope.integrations.kueue.features import CLUSTER_QUEUE
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError


def explain(items: Iterable[Object], folder: Path, *arguments: str) -> int:
    file = folder / "cluster.json"
    file.write_text(saved(list(items)), encoding="utf-8")
    return main(["explain", *arguments, "--from", str(file)])


@each_case("tables/explain.yaml")
def test_errors_for_what_cannot_be_explained(
    subject: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [*nodes(), *grove().values()]
    assert explain(objects, tmp_path, *subject.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"toposcope explain: {words}")


def steps(output: str) -> dict[str, tuple[str, str]]:
    document = yaml.safe_load(output)
    return {step["step"]: (step["outcome"], step["message"]) for step in document["steps"]}


def test_kinds_missing_from_the_files_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, the ClusterTopology and the workload alone: what schedulers read is not taken for absent."""
    few = [grove()[name] for name in ("ClusterTopology/cluster", "PodCliqueSet/llm")]
    assert explain([*nodes(), *few], tmp_path, "pcs/llm", "-o", "yaml") == 0
    printed = capsys.readouterr()
    assert "there are no Pods in the files" in printed.err
    found = steps(printed.out)
    assert found["topology"] == (
        "unknown",
        (
            "cannot tell whether Grove has a ClusterTopologyBinding cluster: the files have no "
            "ClusterTopologyBinding (kubectl get clustertopologybindings.grove.io -A)"
        ),
    )
    assert found["room"] == ("unknown", "pods are not visible, so free resources are unknown")
    assert found["drift"][0] == "unknown"
    assert found["labels"][0] == found["levels"][0] == "passed"


def test_a_pod_without_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain([*nodes(), pod("alone")], tmp_path, "pod/alone") == 0
    assert capsys.readouterr().out.startswith("pod/alone -n ml (KAI): 1 pod, 0 with a node, 1 waiting\n")


def test_a_finished_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = named("batch/v1", "Job", "done", {"parallelism": 100, "template": {"spec": pod_spec()}})
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert explain([*nodes(), pod("other"), job], tmp_path, "job/done") == 0
    assert capsys.readouterr().out.startswith("job/done -n ml (KAI): has finished\n")


class PodsOnly:
    """An API server that serves nothing but pods and forbids ClusterQueues."""

    namespace = "ml"

    def call(self, request: Request) -> object:
        if "clusterqueues" in request.path:
            raise ApiError(403, "Forbidden", "no")
        if "/pods" not in request.path:
            raise ApiError(404, "NotFound", "page not found")
        assert request.query["fieldSelector"] == "metadata.name=p"
        if "continue" not in request.query:
            return {"items": [{"metadata": {"name": "q", "namespace": "ml"}}], "metadata": {"continue": "more"}}
        return msgspec.json.decode(b'{"items": [{"metadata": {"name": "p", "namespace": "ml"}}], "metadata": {}}')


def test_forbidden_kinds_are_unread_and_unserved_kinds_are_empty() -> None:
    found = load_objects(PodsOnly(), None, "p")  # type: ignore[arg-type]  # stands in for a client
    assert [ref.name for ref in found.objects] == ["q", "p"]
    assert found.unread == {CLUSTER_QUEUE.key: "clusterqueues.kueue.x-k8s.io may not be listed with these credentials"}
