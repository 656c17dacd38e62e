"""The command around the answer: which object is meant, what belongs to it, errors, and what stays unknown."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
import yaml
from tests.explain.causes import grove
from tests.explain.waiting import Object, named, nodes, owned, pod, pod_spec
from tests.support.saved import saved
from tests.support.tables import each_case
from toposcope.cli.main import main
from toposcope.explain.object_store import ObjectStore, kinds_called, load_objects, owner_of
from toposcope.explain.ownership import ObjectNotFoundError, ownership_of, subject_of
from toposcope.integrations.framework.features import Ref
from toposcope.integrations.grove.api import POD_CLIQUE_SETS
from toposcope.integrations.kueue.api import CLUSTER_QUEUE
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError
from toposcope.snapshot.model import NOTHING, Owner, PodView, Snapshot


def explain(items: Iterable[Object], folder: Path, *arguments: str) -> int:
    file = folder / "cluster.json"
    file.write_text(saved(list(items)), encoding="utf-8")
    return main(["explain", *arguments, "--from", str(file)])


@each_case("tables/explain.yaml")
def test_what_cannot_be_explained(subject: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert list(found.unread) == [CLUSTER_QUEUE.key]
    assert found.why_unknown(CLUSTER_QUEUE) == ("clusterqueues.kueue.x-k8s.io may not be listed with these credentials")


def store(*documents: Object) -> ObjectStore:
    found = ObjectStore()
    for document in documents:
        found.put(document)
    return found


def view(name: str, owner: Owner | None = None, **annotations: str) -> PodView:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    return PodView("ml", name, "", "Pending", NOTHING, owner, {}, notes, "", "")


def snapshot(*pods: PodView) -> Snapshot:
    return Snapshot("test", None, (), pods)


SET = Ref("grove.io", "PodCliqueSet", "ml", "llm")


@pytest.mark.regression
@each_case("tables/explain.yaml")
def test_kinds_have_the_names_that_kubectl_takes(word: str, kind: str | None) -> None:
    found = next(iter(kinds_called(word)), None)
    assert (found.kind if found else None) == kind


def test_ambiguous_names_need_a_namespace() -> None:
    other = grove()["PodCliqueSet/llm"]
    other["metadata"] = {"name": "llm", "namespace": "test"}
    both = store(grove()["PodCliqueSet/llm"], other)
    with pytest.raises(ObjectNotFoundError, match="exists in several namespaces; choose one with -n: ml, test"):
        subject_of(both, snapshot(), POD_CLIQUE_SETS, "llm", None)
    assert subject_of(both, snapshot(), POD_CLIQUE_SETS, "llm", "test").namespace == "test"


@each_case("tables/explain.yaml")
def test_errors_for_missing_objects(name: str, namespace: str | None, words: str) -> None:
    with pytest.raises(ObjectNotFoundError) as caught:
        subject_of(store(grove()["PodCliqueSet/llm"]), snapshot(), POD_CLIQUE_SETS, name, namespace)
    assert str(caught.value) == words


def test_an_unread_owner_is_named() -> None:
    document = owned(grove()["PodCliqueSet/llm"], named("example.com/v1", "Thing", "above"))
    found = ownership_of(store(document), snapshot(), SET)
    assert (found.top, found.unread_owner) == (SET, Ref("example.com", "Thing", "ml", "above"))


def test_ownership_cycles_end() -> None:
    one, two = named("batch/v1", "Job", "one"), named("batch/v1", "Job", "two")
    found = ownership_of(store(owned(one, two), owned(two, one)), snapshot(), Ref("batch", "Job", "ml", "one"))
    assert [ref.name for ref in found.chain] == ["one", "two"]


def test_the_only_owner_counts_even_if_not_the_controller() -> None:
    document = named("scheduling.run.ai/v2alpha2", "PodGroup", "pg")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}
    document["metadata"]["ownerReferences"] = [reference]
    assert owner_of(document) == Ref("batch", "Job", "ml", "train")
    document["metadata"]["ownerReferences"] = [reference, {**reference, "name": "other"}]
    assert owner_of(document) is None
