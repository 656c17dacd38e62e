"""The agent's writes, on the embedded and on a real API server."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.describe import Description, unknown
from agent.labels import NO_GPUS, Labels
from agent.publish import MANAGER, Publisher
from kube.client import ApiClient
from kube.errors import ApiError
from tests.support.api import NODES, ApiUnderTest, node
from topology import keys

GOOD = Description(
    Labels({keys.GPUS: "8", keys.NVLINK_DOMAIN: "n1", keys.STATE: "ok"}), annotations={keys.MATRIX: '{"version":1}'}
)


@pytest.fixture
def publisher(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> Publisher:
    api.create(NODES, node("n1", labels={"foreign": "stays"}, annotations={"foreign": "stays"}))
    return Publisher(clients(), "n1")


def ours(api: ApiUnderTest) -> dict[str, str]:
    labels = api.get(f"{NODES}/n1")["metadata"]["labels"]
    assert labels["foreign"] == "stays"
    return {key: value for key, value in labels.items() if key.startswith(keys.PREFIX)}


def version(api: ApiUnderTest) -> Any:
    return api.get(f"{NODES}/n1")["metadata"]["resourceVersion"]


def test_labels_and_annotation_are_ours_on_the_node(api: ApiUnderTest, publisher: Publisher) -> None:
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known
    metadata = api.get(f"{NODES}/n1")["metadata"]
    assert metadata["annotations"][keys.MATRIX] == '{"version":1}'
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
        Description(Labels({keys.GPUS: "7", keys.STATE: "degraded"}), annotations={keys.MATRIX: '{"version":1}'})
    )
    assert ours(api) == {keys.GPUS: "7", keys.STATE: "degraded"}


def test_what_is_not_known_stays_as_it_was(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(unknown("hang", "NVML hangs")) is not None
    assert ours(api) == {**GOOD.labels.known, keys.STATE: "unknown"}
    assert api.get(f"{NODES}/n1")["metadata"]["annotations"][keys.MATRIX] == '{"version":1}'


def test_a_node_without_gpus_carries_nothing_of_ours(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(Description(NO_GPUS)) is not None
    assert ours(api) == {}
    assert keys.MATRIX not in api.get(f"{NODES}/n1")["metadata"]["annotations"]


def test_what_somebody_else_wrote_under_our_prefix_is_repaired_at_the_next_look(
    api: ApiUnderTest, publisher: Publisher
) -> None:
    publisher.publish(GOOD)
    patch = {"metadata": {"labels": {keys.GPUS: "99", keys.NVLINK_DOMAIN: None}}}
    assert api.request("PATCH", f"{NODES}/n1", patch, content_type="application/merge-patch+json")[0] == 200
    publisher.refresh()
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known


def test_a_node_made_anew_under_the_same_name_is_labelled_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    api.create(NODES, node("n1", labels={"foreign": "stays"}))
    changed = Description(Labels({keys.GPUS: "4", keys.STATE: "ok"}), annotations={keys.MATRIX: '{"version":1}'})
    assert publisher.publish(changed) is not None
    assert ours(api) == changed.labels.known


def test_a_node_that_is_gone_is_an_error_and_not_made_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    with pytest.raises(ApiError) as error:
        publisher.publish(unknown("hang", "NVML hangs"))
    assert error.value.not_found
    assert api.get(NODES)["items"] == []
