"""The agent's writes, its own labels and the well-known nvidia.com/ ones, on both API servers."""

import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.machines import probed
from tests.support.runtime import ManualRuntime
from tests.support.tables import each_case, each_row
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.labels import NO_GPUS, Labels
from toposcope.agent.nvidia_labels import KEYS, NvidiaLabelPublisher, nvidia_labels_for
from toposcope.agent.planned import MANAGER
from toposcope.agent.publish import NodeEvent, Publisher
from toposcope.api import label_keys
from toposcope.kube.errors import ApiError
from toposcope.simulator.profile import load_profile

NODE = f"{NODES}/n1"


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """What happens to a Node, in this order, and what it carries then."""

    delete: bool = False
    create: bool = False
    by_hand: dict[str, dict[str, str | None]] = {}
    """Metadata that others write."""
    apply: dict[str, str] = {}
    """Labels that others apply."""
    refresh: bool = False
    anew: bool = False
    """Whether the agent has begun again."""
    cleanup: int | None = None
    """Keys that go."""
    publish: dict[str, str] | None = None
    """Labels without their prefix and an annotation; none where there are no GPUs, `problem` where nothing is known."""
    missing: bool = False
    """Whether the answer is that there is no Node."""
    wrote: bool | None = None
    ours: dict[str, str] | None = None
    """All labels without their prefix. The annotation is there where any is."""


class Written(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    steps: list[Step]


def make_node(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1", labels={"foreign": "stays"}, annotations={"foreign": "stays"}))


def prefixed(labels: dict[str, str]) -> dict[str, str]:
    return {label_keys.PREFIX + key: value for key, value in labels.items()}


def happens(api: ApiUnderTest, publisher: Publisher, step: Step) -> None:
    if step.delete:
        assert api.request("DELETE", NODE)[0] == 200
    if step.create:
        make_node(api)
    if step.by_hand:
        api.patch(f"{NODE}?fieldManager=somebody", {"metadata": step.by_hand})
    if step.apply:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": step.apply}}
        assert api.apply(NODE, body, "co-owner")[0] == 200
    if step.refresh:
        publisher.refresh()
    assert step.cleanup is None or publisher.cleanup() == step.cleanup


@each_row("written.yaml", Written, ids=lambda row: row.case)
def test_what_a_node_carries(row: Written, api: ApiUnderTest, clients: Clients) -> None:
    make_node(api)
    publisher = Publisher(clients(), "n1")
    for number, step in enumerate(row.steps):
        publisher = Publisher(clients(), "n1") if step.anew else publisher
        happens(api, publisher, step)
        if step.publish is not None:
            before = [item["metadata"]["resourceVersion"] for item in api.get(NODES)["items"]]
            labels = Labels(prefixed(step.publish)) if step.publish else NO_GPUS
            wanted = Description(labels, annotations={label_keys.MATRIX: "{}"} if step.publish else {})
            with pytest.raises(ApiError, match="404") if step.missing else contextlib.nullcontext():
                wrote = publisher.publish(unknown("hang", "NVML hangs") if "problem" in step.publish else wanted)
                assert step.wrote in (None, wrote is not None), number
            after = [item["metadata"]["resourceVersion"] for item in api.get(NODES)["items"]]
            assert step.wrote is None or (before != after) == step.wrote, number
        if step.ours is not None:
            metadata = api.get(NODE)["metadata"]
            found = {key: value for key, value in metadata["labels"].items() if key != "foreign"}
            assert found == prefixed(step.ours), number
            assert metadata["labels"]["foreign"] == metadata["annotations"]["foreign"] == "stays"
            assert (label_keys.MATRIX in metadata["annotations"]) == bool(step.ours), number
        if step.missing:
            assert api.get(NODES)["items"] == []


@pytest.fixture
def publisher(api: ApiUnderTest, clients: Clients) -> Publisher:
    make_node(api)
    return Publisher(clients(), "n1")


def test_what_is_written_is_ours(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.publish(Description(Labels(prefixed({"gpus": "8"}))))
    fields = api.get(NODE)["metadata"]["managedFields"]
    assert [entry["operation"] for entry in fields if entry["manager"] == MANAGER] == ["Apply"]


def test_an_event_about_the_node_is_found_by_its_name(api: ApiUnderTest, publisher: Publisher) -> None:
    publisher.refresh()
    publisher.record_event(NodeEvent("Warning", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active"))
    events = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert [(e["regarding"]["name"], e["reason"], e["note"]) for e in events if e["reason"] == "NodeDegraded"] == [
        ("n1", "NodeDegraded", "GPU 3: 17 of 18 NVLinks active")
    ]


def test_events_of_a_moment_take_names_of_two_digits_until_too_many_are(api: ApiUnderTest, clients: Clients) -> None:
    """The admission policy lets a node have 256 of them."""
    api.create(NODES, node("n1"))
    publisher = Publisher(clients(), "n1", runtime=ManualRuntime(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()))
    publisher.refresh()
    for _ in range(4):
        publisher.record_event(NodeEvent("Normal", "NodeHealthy", "all there"))
    with pytest.raises(ApiError, match="409 AlreadyExists"):
        publisher.record_event(NodeEvent("Normal", "NodeHealthy", "all there"))
    events = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    names = [e["metadata"]["name"] for e in events if e["reason"] == "NodeHealthy"]
    assert len(names) == 4
    assert all(re.fullmatch("n1[.][0-9a-f]{2}", name) for name in names)


@each_case("tables/agent.yaml")
def test_labels_of_nvidia_s_own_components_are_theirs(
    api: ApiUnderTest, clients: Clients, tmp_path: Path, steps: list[dict[str, Any]]
) -> None:
    """`gfd`: what they write, when the agent may have read the Node; `wrote`: whether it wrote then, or a conflict."""
    api.create(NODES, node("n1"))
    publisher = NvidiaLabelPublisher(clients(), "n1")
    tray = describe(probed(load_profile("gb200-nvl72-tray"), tmp_path), "n1")
    for number, step in enumerate(steps):
        seen = api.get(NODE)["metadata"]
        patch = {"metadata": {"labels": {f"nvidia.com/{name}": value for name, value in step.get("gfd", {}).items()}}}
        api.patch(f"{NODE}?fieldManager=nfd-master", patch)
        if "wrote" in step:
            found = unknown("hang", "NVML hangs") if step.get("unknown") else tray
            with pytest.raises(ApiError, match="409") if step["wrote"] is None else contextlib.nullcontext():
                assert publisher.publish(found, seen) == step["wrote"], number
        labels = api.get(NODE)["metadata"].get("labels") or {}
        theirs = {key.removeprefix("nvidia.com/"): value for key, value in labels.items() if key in KEYS}
        assert theirs == step.get("labels", theirs), number


def test_without_multi_node_nvlink_there_is_no_clique(tmp_path: Path) -> None:
    labels = nvidia_labels_for(describe(probed(load_profile("dgx-h200"), tmp_path), "n1"))
    assert "nvidia.com/gpu.clique" not in labels
    assert labels["nvidia.com/nvswitch.present"] == "true"
    assert nvidia_labels_for(unknown("hang", "x")) == {}


@pytest.mark.regression
@pytest.mark.real_api("an apply without labels removes those that nobody owns")
def test_a_clean_up_leaves_labels_that_nobody_owns(api: ApiUnderTest, clients: Clients) -> None:
    """Such labels are left where somebody wrote managedFields, and an apply that names no labels would remove them."""
    api.create(NODES, node("n1", labels={"example.com/pool": "a"}))
    counted = node("n1", labels={"nvidia.com/gpu.count": "8"})
    assert api.apply(NODE, counted, "toposcope-agent-nvidia")[0] == 200
    ours = [
        entry for entry in api.get(NODE)["metadata"]["managedFields"] if entry["manager"] == "toposcope-agent-nvidia"
    ]
    api.patch(NODE, {"metadata": {"managedFields": ours}})
    assert Publisher(clients(), "n1").cleanup() == 1
    assert api.get(NODE)["metadata"]["labels"] == {"example.com/pool": "a"}
