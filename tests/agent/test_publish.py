"""The agent's writes, on the embedded and on a real API server."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api import MERGE, NODES, ApiUnderTest, node
from toposcope.agent.describe import Description, unknown
from toposcope.agent.events import NodeEvent
from toposcope.agent.labels import NO_GPUS, Labels
from toposcope.agent.publish import MANAGER, Publisher
from toposcope.api import label_keys
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError

GOOD = Description(
    Labels({label_keys.GPUS: "8", label_keys.NVLINK_DOMAIN: "n1", label_keys.STATE: "ok"}),
    annotations={label_keys.MATRIX: '{"version":1}'},
)


@pytest.fixture
def publisher(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> Publisher:
    api.create(NODES, node("n1", labels={"foreign": "stays"}, annotations={"foreign": "stays"}))
    return Publisher(clients(), "n1")


def ours(api: ApiUnderTest) -> dict[str, str]:
    labels = api.get(f"{NODES}/n1")["metadata"]["labels"]
    assert labels["foreign"] == "stays"
    return {key: value for key, value in labels.items() if key.startswith(label_keys.PREFIX)}


def version(api: ApiUnderTest) -> Any:
    return api.get(f"{NODES}/n1")["metadata"]["resourceVersion"]


def test_labels_and_annotation_are_ours_on_the_node(api: ApiUnderTest, publisher: Publisher) -> None:
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known
    metadata = api.get(f"{NODES}/n1")["metadata"]
    assert metadata["annotations"][label_keys.MATRIX] == '{"version":1}'
    assert [entry["operation"] for entry in metadata["managedFields"] if entry["manager"] == MANAGER] == ["Apply"]


def test_the_same_again_is_no_request_at_all(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    before = version(api)
    assert publisher.publish(GOOD) is None
    assert version(api) == before


def test_a_new_agent_that_finds_it_right_writes_nothing(
    api: ApiUnderTest, publisher: Publisher, clients: Callable[[], ApiClient]
) -> None:
    publisher.publish(GOOD)
    before = version(api)
    assert Publisher(clients(), "n1").publish(GOOD) is None
    assert version(api) == before


def test_a_label_that_is_no_longer_true_goes(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(
        Description(
            Labels({label_keys.GPUS: "7", label_keys.STATE: "degraded"}),
            annotations={label_keys.MATRIX: '{"version":1}'},
        )
    )
    assert ours(api) == {label_keys.GPUS: "7", label_keys.STATE: "degraded"}


def test_what_is_not_known_stays_as_it_was(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(unknown("hang", "NVML hangs")) is not None
    assert ours(api) == {**GOOD.labels.known, label_keys.STATE: "unknown"}
    assert api.get(f"{NODES}/n1")["metadata"]["annotations"][label_keys.MATRIX] == '{"version":1}'


def test_a_node_without_gpus_carries_nothing_of_ours(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(Description(NO_GPUS)) is not None
    assert ours(api) == {}
    assert label_keys.MATRIX not in api.get(f"{NODES}/n1")["metadata"]["annotations"]


def test_what_somebody_else_wrote_under_our_prefix_is_repaired_at_the_next_look(
    api: ApiUnderTest, publisher: Publisher
) -> None:
    publisher.publish(GOOD)
    patch = {"metadata": {"labels": {label_keys.GPUS: "99", label_keys.NVLINK_DOMAIN: None}}}
    assert api.request("PATCH", f"{NODES}/n1", patch, content_type="application/merge-patch+json")[0] == 200
    publisher.refresh()
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known


def test_a_node_made_anew_under_the_same_name_is_labelled_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    api.create(NODES, node("n1", labels={"foreign": "stays"}))
    changed = Description(
        Labels({label_keys.GPUS: "4", label_keys.STATE: "ok"}), annotations={label_keys.MATRIX: '{"version":1}'}
    )
    assert publisher.publish(changed) is not None
    assert ours(api) == changed.labels.known


def test_a_node_that_is_gone_is_an_error_and_not_made_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    with pytest.raises(ApiError) as error:
        publisher.publish(unknown("hang", "NVML hangs"))
    assert error.value.not_found
    assert api.get(NODES)["items"] == []


def test_cleanup_removes_everything_of_ours_whoever_owns_it_too(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    also = {"metadata": {"labels": {label_keys.GPUS: "8", f"{label_keys.PREFIX}old": "x"}}}
    assert api.request("PATCH", f"{NODES}/n1?fieldManager=somebody", also, content_type=MERGE)[0] == 200
    code, _ = api.apply(
        f"{NODES}/n1",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {label_keys.STATE: "ok"}}},
        "co-owner",
    )
    assert code == 200
    assert publisher.cleanup() == 5
    assert ours(api) == {}
    metadata = api.get(f"{NODES}/n1")["metadata"]
    assert metadata["annotations"]["foreign"] == "stays"
    assert label_keys.MATRIX not in metadata["annotations"]
    assert publisher.cleanup() == 0


def test_after_a_cleanup_an_agent_labels_the_node_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    publisher.cleanup()
    publisher.refresh()
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known


def test_an_event_about_the_node_is_found_by_its_name(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    publisher.record_event(NodeEvent("Warning", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active"))
    found = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert [(e["regarding"]["name"], e["reason"], e["note"]) for e in found if e["reason"] == "NodeDegraded"] == [
        ("n1", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active")
    ]
