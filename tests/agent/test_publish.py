"""The agent's writes, its own labels and the well-known nvidia.com/ ones, on both API servers."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import NODES, ApiUnderTest, node
from tests.support.machines import probed
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.labels import NO_GPUS, Labels
from toposcope.agent.nvidia_labels import KEYS, NvidiaLabelPublisher, nvidia_labels_for
from toposcope.agent.publish import MANAGER, NodeEvent, Publisher
from toposcope.api import label_keys
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError
from toposcope.simulator.profile import load_profile

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


def test_an_unchanged_description_is_no_request(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    before = version(api)
    assert publisher.publish(GOOD) is None
    assert version(api) == before


def test_a_restarted_agent_writes_nothing_when_the_node_is_right(
    api: ApiUnderTest, publisher: Publisher, clients: Callable[[], ApiClient]
) -> None:
    publisher.publish(GOOD)
    before = version(api)
    assert Publisher(clients(), "n1").publish(GOOD) is None
    assert version(api) == before


def test_a_label_that_no_longer_applies_is_removed(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(
        Description(
            Labels({label_keys.GPUS: "7", label_keys.STATE: "degraded"}),
            annotations={label_keys.MATRIX: '{"version":1}'},
        )
    )
    assert ours(api) == {label_keys.GPUS: "7", label_keys.STATE: "degraded"}


def test_unknown_labels_keep_their_values(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(unknown("hang", "NVML hangs")) is not None
    assert ours(api) == {**GOOD.labels.known, label_keys.STATE: "unknown"}
    assert api.get(f"{NODES}/n1")["metadata"]["annotations"][label_keys.MATRIX] == '{"version":1}'


def test_a_node_without_gpus_carries_nothing_of_ours(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert publisher.publish(Description(NO_GPUS)) is not None
    assert ours(api) == {}
    assert label_keys.MATRIX not in api.get(f"{NODES}/n1")["metadata"]["annotations"]


def test_foreign_writes_under_our_prefix_are_reverted_at_the_next_refresh(
    api: ApiUnderTest, publisher: Publisher
) -> None:
    publisher.publish(GOOD)
    patch = {"metadata": {"labels": {label_keys.GPUS: "99", label_keys.NVLINK_DOMAIN: None}}}
    api.patch(f"{NODES}/n1", patch)
    publisher.refresh()
    assert publisher.publish(GOOD) is not None
    assert ours(api) == GOOD.labels.known


def test_a_recreated_node_is_labelled_again(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    api.create(NODES, node("n1", labels={"foreign": "stays"}))
    changed = Description(
        Labels({label_keys.GPUS: "4", label_keys.STATE: "ok"}), annotations={label_keys.MATRIX: '{"version":1}'}
    )
    assert publisher.publish(changed) is not None
    assert ours(api) == changed.labels.known


def test_a_deleted_node_is_an_error_and_not_recreated(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    assert api.request("DELETE", f"{NODES}/n1")[0] == 200
    with pytest.raises(ApiError) as error:
        publisher.publish(unknown("hang", "NVML hangs"))
    assert error.value.not_found
    assert api.get(NODES)["items"] == []


def test_cleanup_removes_our_keys_even_if_co_owned(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(GOOD)
    also = {"metadata": {"labels": {label_keys.GPUS: "8", f"{label_keys.PREFIX}old": "x"}}}
    api.patch(f"{NODES}/n1?fieldManager=somebody", also)
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
    events = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert [(e["regarding"]["name"], e["reason"], e["note"]) for e in events if e["reason"] == "NodeDegraded"] == [
        ("n1", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active")
    ]


def test_events_of_a_moment_take_names_of_two_digits_until_too_many_are_taken(
    api: ApiUnderTest, clients: Callable[[], ApiClient]
) -> None:
    """The admission policy lets a node have 256 of them."""
    api.create(NODES, node("n1"))
    publisher = Publisher(clients(), "n1", lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    publisher.refresh()
    for _ in range(4):
        publisher.record_event(NodeEvent("Normal", "NodeHealthy", "all there"))
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        publisher.record_event(NodeEvent("Normal", "NodeHealthy", "all there"))
    events = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    names = [e["metadata"]["name"] for e in events if e["reason"] == "NodeHealthy"]
    assert len(names) == 4
    assert all(re.fullmatch("n1[.][0-9a-f]{2}", name) for name in names)


CLIQUE = "nvidia.com/gpu.clique"


@pytest.fixture
def tray(tmp_path: Path) -> Description:
    return describe(probed(load_profile("gb200-nvl72-tray"), tmp_path), "n1")


@pytest.fixture
def nvidia_labels(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> NvidiaLabelPublisher:
    api.create(NODES, node("n1"))
    return NvidiaLabelPublisher(clients(), "n1")


def metadata(api: ApiUnderTest) -> dict[str, Any]:
    return api.get(f"{NODES}/n1")["metadata"]


def theirs(api: ApiUnderTest) -> dict[str, str]:
    return {key: value for key, value in (metadata(api).get("labels") or {}).items() if key in KEYS}


def gfd_writes(api: ApiUnderTest, **labels: str | None) -> None:
    patch = {"metadata": {"labels": {f"nvidia.com/gpu.{name}": value for name, value in labels.items()}}}
    api.patch(f"{NODES}/n1?fieldManager=nfd-master", patch)


def test_nvidia_labels_without_an_owner_are_written_once(
    api: ApiUnderTest, nvidia_labels: NvidiaLabelPublisher, tray: Description
) -> None:
    assert nvidia_labels.publish(tray, metadata(api))
    assert theirs(api) == nvidia_labels_for(tray)
    assert theirs(api)[CLIQUE] == "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
    assert not nvidia_labels.publish(tray, metadata(api))


def test_nvidia_labels_with_an_owner_are_left_alone(
    api: ApiUnderTest, nvidia_labels: NvidiaLabelPublisher, tray: Description
) -> None:
    gfd_writes(api, clique="theirs", count="4")
    nvidia_labels.publish(tray, metadata(api))
    assert theirs(api)[CLIQUE] == "theirs"
    assert theirs(api)["nvidia.com/gpu.product"] == "NVIDIA-GB200"


def test_an_nvidia_label_is_given_up_when_an_owner_appears(
    api: ApiUnderTest, nvidia_labels: NvidiaLabelPublisher, tray: Description
) -> None:
    nvidia_labels.publish(tray, metadata(api))
    gfd_writes(api, clique="theirs")
    nvidia_labels.publish(tray, metadata(api))
    assert theirs(api)[CLIQUE] == "theirs"
    gfd_writes(api, clique=None)
    assert CLIQUE not in theirs(api)


def test_an_owner_that_appears_in_between_is_a_conflict_and_wins(
    api: ApiUnderTest, nvidia_labels: NvidiaLabelPublisher, tray: Description
) -> None:
    seen = metadata(api)
    gfd_writes(api, clique="theirs")
    with pytest.raises(ApiError) as error:
        nvidia_labels.publish(tray, seen)
    assert error.value.conflict
    assert theirs(api) == {CLIQUE: "theirs"}


def test_unknown_nvidia_labels_stay(api: ApiUnderTest, nvidia_labels: NvidiaLabelPublisher, tray: Description) -> None:
    nvidia_labels.publish(tray, metadata(api))
    assert not nvidia_labels.publish(unknown("hang", "NVML hangs"), metadata(api))
    assert theirs(api) == nvidia_labels_for(tray)


def test_without_multi_node_nvlink_there_is_no_clique(tmp_path: Path) -> None:
    labels = nvidia_labels_for(describe(probed(load_profile("dgx-h200"), tmp_path), "n1"))
    assert CLIQUE not in labels
    assert labels["nvidia.com/nvswitch.present"] == "true"
    assert nvidia_labels_for(unknown("hang", "x")) == {}
