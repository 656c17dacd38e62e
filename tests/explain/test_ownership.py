"""Which object is meant, what belongs to it, and the errors where there is none."""

import pytest

from tests.explain.causes import grove
from tests.explain.waiting import named, owned
from tests.support.tables import each_case
from toposcope.explain.object_store import ObjectStore, kinds_called, owner_of
from toposcope.explain.ownership import ObjectNotFoundError, ownership_of, subject_of
from toposcope.integrations.framework.features import Object, Ref
from toposcope.integrations.grove.features import CLIQUE_SET
from toposcope.snapshot.model import NOTHING, Owner, PodView, Snapshot


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


@each_case("tables/explain.yaml")
def test_kinds_have_the_names_that_kubectl_takes(word: str, kind: str | None) -> None:
    found = next(iter(kinds_called(word)), None)
    assert (found.kind if found else None) == kind


def test_ambiguous_names_need_a_namespace() -> None:
    other = grove()["PodCliqueSet/llm"]
    other["metadata"] = {"name": "llm", "namespace": "test"}
    both = store(grove()["PodCliqueSet/llm"], other)
    with pytest.raises(ObjectNotFoundError, match="exists in several namespaces; choose one with -n: ml, test"):
        subject_of(both, snapshot(), CLIQUE_SET, "llm", None)
    assert subject_of(both, snapshot(), CLIQUE_SET, "llm", "test").namespace == "test"


@each_case("tables/explain.yaml")
def test_errors_for_missing_objects(name: str, namespace: str | None, words: str) -> None:
    with pytest.raises(ObjectNotFoundError) as caught:
        subject_of(store(grove()["PodCliqueSet/llm"]), snapshot(), CLIQUE_SET, name, namespace)
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
