"""The agent's writes to its own Node: the labels, the annotation and the Events, on both API servers."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.runtime import ManualRuntime
from toposcope.agent.describe import Description, unknown
from toposcope.agent.labels import NO_GPUS, Labels
from toposcope.agent.planned import MANAGER
from toposcope.agent.publish import NodeEvent, NodePublisher
from toposcope.api import label_keys
from toposcope.kube.errors import ApiError

NODE = f"{NODES}/n1"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
HEALTHY = {"gpus": "8", "nvlink-domain": "n1", "state": "ok"}
DEGRADED = {"gpus": "7", "state": "degraded"}
HANGING = unknown("hang", "NVML hangs")


def prefixed(labels: dict[str, str]) -> dict[str, str]:
    keys = {}
    for key, value in labels.items():
        keys[label_keys.PREFIX + key] = value
    return keys


def described(labels: dict[str, str]) -> Description:
    """What the agent found: these labels, keys without their prefix, and a matrix."""
    known = Labels(prefixed(labels))
    return Description(known, annotations={label_keys.MATRIX: "{}"})


class LabelledNode:
    """A Node with a foreign label and a foreign annotation, and its agent's publisher."""

    def __init__(self, api: ApiUnderTest, clients: Clients) -> None:
        self._api = api
        self._clients = clients
        self.create()
        self.publisher = NodePublisher(clients(), "n1")

    def create(self) -> None:
        """Register the Node, again if it was deleted."""
        registered = node(
            "n1",
            labels={"foreign": "stays"},
            annotations={"foreign": "stays"},
        )
        self._api.create(NODES, registered)

    def delete(self) -> None:
        """Remove the Node."""
        code, _answer = self._api.request("DELETE", NODE)
        assert code == 200

    def restart_agent(self) -> None:
        """Have an agent that knows nothing of what was written."""
        self.publisher = NodePublisher(self._clients(), "n1")

    def labelled_by_others(self, labels: dict[str, str | None]) -> None:
        """Somebody else writes labels, keys without their prefix."""
        keys = {}
        for key, value in labels.items():
            keys[label_keys.PREFIX + key] = value
        body = {"metadata": {"labels": keys}}
        self._api.patch(f"{NODE}?fieldManager=somebody", body)

    def co_owned(self, labels: dict[str, str]) -> None:
        """Somebody else applies labels."""
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"labels": prefixed(labels)},
        }
        code, _answer = self._api.apply(NODE, body, "co-owner")
        assert code == 200

    def publishes(self, description: Description) -> bool:
        """Have the agent publish; whether it wrote, and the Node changed with that."""
        version_before = self.metadata()["resourceVersion"]
        written = self.publisher.publish(description)
        has_written = written is not None
        version_after = self.metadata()["resourceVersion"]
        has_changed = version_after != version_before
        assert has_changed == has_written
        return has_written

    def metadata(self) -> dict[str, Any]:
        """What the API server has."""
        metadata: dict[str, Any] = self._api.get(NODE)["metadata"]
        return metadata

    def assert_carries(self, labels: dict[str, str]) -> None:
        """Nothing of ours but these labels, with the annotation where there are any; foreign ones stay."""
        metadata = self.metadata()
        annotations = metadata["annotations"]
        assert metadata["labels"] == {"foreign": "stays", **prefixed(labels)}
        assert annotations.get("foreign") == "stays"
        assert (label_keys.MATRIX in annotations) == bool(labels)


@pytest.fixture
def labelled(api: ApiUnderTest, clients: Clients) -> LabelledNode:
    """It carries what a healthy machine has."""
    labelled = LabelledNode(api, clients)
    assert labelled.publishes(described(HEALTHY))
    return labelled


# Labels and annotation


def test_publish_writes_labels_and_annotation_once(labelled: LabelledNode) -> None:
    labelled.assert_carries(HEALTHY)
    assert not labelled.publishes(described(HEALTHY))


def managed_by(metadata: dict[str, Any], manager: str) -> list[dict[str, Any]]:
    """The entries of this field manager."""
    entries = []
    for entry in metadata["managedFields"]:
        if entry["manager"] == manager:
            entries.append(entry)
    return entries


def test_publish_owns_what_it_writes(labelled: LabelledNode) -> None:
    (ours,) = managed_by(labelled.metadata(), MANAGER)
    assert ours["operation"] == "Apply"


def test_restarted_agent_writes_nothing_new(labelled: LabelledNode) -> None:
    labelled.restart_agent()
    assert not labelled.publishes(described(HEALTHY))
    labelled.assert_carries(HEALTHY)


def test_label_that_no_longer_applies_is_removed(labelled: LabelledNode) -> None:
    assert labelled.publishes(described(DEGRADED))
    labelled.assert_carries(DEGRADED)


def test_labels_keep_their_values_while_nothing_is_known(labelled: LabelledNode) -> None:
    assert labelled.publishes(HANGING)
    labelled.assert_carries({**HEALTHY, "state": "unknown"})


def test_node_without_gpus_carries_nothing_of_ours(labelled: LabelledNode) -> None:
    assert labelled.publishes(Description(NO_GPUS))
    labelled.assert_carries({})


def test_changes_by_others_under_our_prefix_are_reverted(labelled: LabelledNode) -> None:
    labelled.labelled_by_others({"gpus": "99", "nvlink-domain": None})
    labelled.publisher.refresh()
    assert labelled.publishes(described(HEALTHY))
    labelled.assert_carries(HEALTHY)


def test_recreated_node_is_labelled_again(labelled: LabelledNode) -> None:
    labelled.delete()
    labelled.create()
    assert labelled.publishes(described(DEGRADED))
    labelled.assert_carries(DEGRADED)


def test_deleted_node_is_an_error_and_not_recreated(labelled: LabelledNode, api: ApiUnderTest) -> None:
    labelled.delete()
    with pytest.raises(ApiError, match="404"):
        labelled.publisher.publish(HANGING)
    assert api.get(NODES)["items"] == []


# Cleanup


def test_cleanup_removes_our_keys_though_others_own_them_too(labelled: LabelledNode) -> None:
    labelled.labelled_by_others({"gpus": "8", "old": "x"})
    labelled.co_owned({"state": "ok"})
    assert labelled.publisher.cleanup() == 5  # four labels and the annotation
    labelled.assert_carries({})
    assert labelled.publisher.cleanup() == 0


def test_agent_labels_a_node_again_after_cleanup(labelled: LabelledNode) -> None:
    labelled.co_owned({"state": "ok"})
    labelled.publisher.cleanup()
    labelled.publisher.refresh()
    assert labelled.publishes(described(HEALTHY))
    labelled.assert_carries(HEALTHY)


@pytest.mark.regression
@pytest.mark.real_api("an apply without labels removes those that nobody owns")
def test_cleanup_leaves_labels_that_nobody_owns(api: ApiUnderTest, clients: Clients) -> None:
    """Such labels are left where somebody wrote managedFields, and an apply that names no labels would remove them."""
    api.create(NODES, node("n1", labels={"example.com/pool": "a"}))
    counted = node("n1", labels={"nvidia.com/gpu.count": "8"})
    code, _answer = api.apply(NODE, counted, "toposcope-agent-nvidia")
    assert code == 200

    metadata = api.get(NODE)["metadata"]
    ours = managed_by(metadata, "toposcope-agent-nvidia")
    api.patch(NODE, {"metadata": {"managedFields": ours}})
    publisher = NodePublisher(clients(), "n1")
    assert publisher.cleanup() == 1
    metadata = api.get(NODE)["metadata"]
    assert metadata["labels"] == {"example.com/pool": "a"}


# Events


def events_of(api: ApiUnderTest, reason: str) -> list[dict[str, Any]]:
    """Events of one reason; a real API server writes others."""
    events = []
    for event in api.get(EVENTS)["items"]:
        if event["reason"] == reason:
            events.append(event)
    return events


def test_event_is_about_the_node_by_its_name(labelled: LabelledNode, api: ApiUnderTest) -> None:
    labelled.publisher.refresh()
    degraded = NodeEvent("Warning", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active")
    labelled.publisher.record_event(degraded)
    (event,) = events_of(api, "NodeDegraded")
    assert event["type"] == "Warning"
    assert event["regarding"]["name"] == "n1"
    assert event["note"] == "GPU 3: 17 of 18 NVLinks active"


def test_events_of_a_moment_have_names_of_two_digits_until_they_run_out(api: ApiUnderTest, clients: Clients) -> None:
    """The admission policy lets a node have 256 of them."""
    api.create(NODES, node("n1"))
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    runtime = ManualRuntime(moment.timestamp())
    publisher = NodePublisher(clients(), "n1", runtime=runtime)
    publisher.refresh()
    healthy = NodeEvent("Normal", "NodeHealthy", "all there")
    recorded = 0
    refusal = ""
    while not refusal:
        try:
            publisher.record_event(healthy)
        except ApiError as error:
            refusal = str(error)
        else:
            recorded += 1

    assert "409 AlreadyExists" in refusal
    # Four moments are tried; two of them may have one name, which depends on the Node's UID.
    assert 2 <= recorded <= 4
    names = [event["metadata"]["name"] for event in events_of(api, "NodeHealthy")]
    assert len(names) == recorded
    for name in names:
        assert re.fullmatch("n1[.][0-9a-f]{2}", name)
