"""Which object is meant by a name, and whose it is."""

import pytest
from tests.explain.waiting import Object, grove_set, named, owned
from toposcope.explain.object_store import ObjectStore, owner_of
from toposcope.explain.ownership import ObjectNotFoundError, ownership_of, subject_of
from toposcope.integrations.framework.features import Ref
from toposcope.integrations.grove.api import POD_CLIQUE_SETS
from toposcope.snapshot.model import Snapshot

LLM = Ref("grove.io", "PodCliqueSet", "ml", "llm")
NO_PODS = Snapshot("test", None, (), ())


def store_of(*documents: Object) -> ObjectStore:
    """A store with these objects."""
    store = ObjectStore()
    for document in documents:
        store.put(document)
    return store


def test_name_in_two_namespaces_needs_a_namespace() -> None:
    in_ml = grove_set()["PodCliqueSet/llm"]
    in_test = {**in_ml, "metadata": {"name": "llm", "namespace": "test"}}
    store = store_of(in_ml, in_test)
    with pytest.raises(ObjectNotFoundError) as caught:
        subject_of(store, NO_PODS, POD_CLIQUE_SETS, "llm", None)
    assert str(caught.value) == "podcliqueset/llm exists in several namespaces; choose one with -n: ml, test"
    assert subject_of(store, NO_PODS, POD_CLIQUE_SETS, "llm", "test").namespace == "test"


@pytest.mark.parametrize(
    ("name", "namespace", "message"),
    [
        pytest.param("lml", "ml", "there is no podcliqueset/lml in namespace ml; did you mean 'llm'?", id="misspelt"),
        pytest.param(
            "llm", "test", "there is no podcliqueset/llm in namespace test; it is in namespace ml", id="elsewhere"
        ),
        pytest.param("other", None, "there is no podcliqueset/other", id="nowhere"),
    ],
)
def test_missing_object_is_an_error_that_helps(name: str, namespace: str | None, message: str) -> None:
    store = store_of(grove_set()["PodCliqueSet/llm"])
    with pytest.raises(ObjectNotFoundError) as caught:
        subject_of(store, NO_PODS, POD_CLIQUE_SETS, name, namespace)
    assert str(caught.value) == message


def test_unread_owner_is_named() -> None:
    document = owned(grove_set()["PodCliqueSet/llm"], named("example.com/v1", "Thing", "above"))
    ownership = ownership_of(store_of(document), NO_PODS, LLM)
    assert ownership.top == LLM
    assert ownership.unread_owner == Ref("example.com", "Thing", "ml", "above")


def test_ownership_cycle_ends() -> None:
    first = named("batch/v1", "Job", "first")
    second = named("batch/v1", "Job", "second")
    store = store_of(owned(first, second), owned(second, first))
    ownership = ownership_of(store, NO_PODS, Ref("batch", "Job", "ml", "first"))
    assert [ref.name for ref in ownership.chain] == ["first", "second"]


def test_only_owner_counts_even_if_it_is_not_the_controller() -> None:
    document = named("scheduling.run.ai/v2alpha2", "PodGroup", "pg")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}
    document["metadata"]["ownerReferences"] = [reference]
    assert owner_of(document) == Ref("batch", "Job", "ml", "train")
    document["metadata"]["ownerReferences"] = [reference, {**reference, "name": "other"}]
    assert owner_of(document) is None
