"""The command around the answer: its arguments, its errors, and what stays unknown."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.explain.waiting import (
    LEVELS,
    Object,
    binding,
    cluster_topology,
    created_by_grove,
    kai_topology,
    named,
    nodes,
    pod,
    pod_clique_set,
    pod_spec,
    scheduler_resources,
)
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
    objects = [*nodes(), *scheduler_resources(), *created_by_grove(pod_clique_set())]
    assert explain(objects, tmp_path, *subject.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"toposcope explain: {words}")


def steps(output: str) -> dict[str, tuple[str, str]]:
    document = yaml.safe_load(output)
    return {step["step"]: (step["outcome"], step["message"]) for step in document["steps"]}


def test_kinds_missing_from_the_files_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, the ClusterTopology and the workload alone: what schedulers read is not taken for absent."""
    assert explain([*nodes(), cluster_topology(), pod_clique_set()], tmp_path, "pcs/llm", "-o", "yaml") == 0
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


@pytest.mark.parametrize(
    ("kept", "outcome"), [(("a", "b"), "passed"), (("a",), "passed"), ((), "passed"), (("c",), "failed")]
)
def test_of_levels_that_are_gone_a_resource_may_keep_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: tuple[str, ...], outcome: str
) -> None:
    """Grove's binding keeps those that its workloads require."""
    gone = [(name, f"example.com/{name}") for name in ("a", "b")]
    topology = cluster_topology(levels=[{"domain": domain, "key": key} for domain, key in (*gone, *LEVELS)])
    path = [*((name, f"example.com/{name}") for name in kept), *LEVELS]
    resources = [topology, binding(*path), kai_topology(*(key for _, key in path))]
    explain([*nodes(), *resources, *created_by_grove(pod_clique_set())], tmp_path, "pcs/llm", "-o", "yaml")
    assert steps(capsys.readouterr().out)["drift"][0] == outcome


def test_grove_has_not_reported_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [*nodes(), *scheduler_resources(), *created_by_grove(pod_clique_set(reported=None))]
    assert explain(items, tmp_path, "pcs/llm", "-o", "yaml") == 0
    outcome, message = steps(capsys.readouterr().out)["features"]
    assert outcome == "unknown"
    assert message.startswith("Grove has not reported on the topology constraints")


@pytest.mark.parametrize(
    ("name", "who"), [("theirs", "its author has to"), ("cluster", "Toposcope does, unless spec.publish.kai is")]
)
def test_a_binding_that_names_a_missing_kai_topology(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, who: str
) -> None:
    """It names a KAI Topology that is not there; that another has the binding's own name would not count."""
    naming = binding()
    naming["spec"]["schedulerTopologyBindings"] = [{"schedulerName": "kai-scheduler", "topologyReference": name}]
    others = scheduler_resources()[2:] if name == "theirs" else [kai_topology(name="other")]
    items = [*nodes(), cluster_topology(), naming, *others, *created_by_grove(pod_clique_set())]
    assert explain(items, tmp_path, "pcs/llm", "-o", "yaml") == 1
    printed = capsys.readouterr().out
    outcome, message = steps(printed)["features"]
    assert (outcome, message) == ("failed", f"KAI has no Topology {name}, so it cannot keep Grove's pods together")
    assert f"so Grove does not create it: {who}" in " ".join(printed.split())


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
