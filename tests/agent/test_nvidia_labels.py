"""The well-known nvidia.com/ labels: only where nobody else writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import MERGE, NODES, ApiUnderTest, node
from tests.support.machines import probed
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.nvidia_labels import KEYS, NvidiaLabelPublisher, nvidia_labels_for
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import ApiError
from toposcope.simulator.profile import load_profile

CLIQUE = "nvidia.com/gpu.clique"


@pytest.fixture
def tray(tmp_path: Path) -> Description:
    return describe(probed(load_profile("gb200-nvl72-tray"), tmp_path), "n1")


@pytest.fixture
def publisher(api: ApiUnderTest, clients: Callable[[], ApiClient]) -> NvidiaLabelPublisher:
    api.create(NODES, node("n1"))
    return NvidiaLabelPublisher(clients(), "n1")


def metadata(api: ApiUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{NODES}/n1")["metadata"]
    return found


def theirs(api: ApiUnderTest) -> dict[str, str]:
    return {key: value for key, value in (metadata(api).get("labels") or {}).items() if key in KEYS}


def gfd_writes(api: ApiUnderTest, **labels: str | None) -> None:
    patch = {"metadata": {"labels": {f"nvidia.com/gpu.{name}": value for name, value in labels.items()}}}
    code, answer = api.request("PATCH", f"{NODES}/n1?fieldManager=nfd-master", patch, content_type=MERGE)
    assert code == 200, answer


def test_on_a_free_node_all_are_written_once(
    api: ApiUnderTest, publisher: NvidiaLabelPublisher, tray: Description
) -> None:
    assert publisher.publish(tray, metadata(api))
    assert theirs(api) == nvidia_labels_for(tray)
    assert theirs(api)[CLIQUE] == "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
    assert not publisher.publish(tray, metadata(api))


def test_what_somebody_else_wrote_is_left_alone(
    api: ApiUnderTest, publisher: NvidiaLabelPublisher, tray: Description
) -> None:
    gfd_writes(api, clique="theirs", count="4")
    publisher.publish(tray, metadata(api))
    assert theirs(api)[CLIQUE] == "theirs"
    assert theirs(api)["nvidia.com/gpu.product"] == "NVIDIA-GB200"


def test_a_label_is_given_up_when_an_owner_appears(
    api: ApiUnderTest, publisher: NvidiaLabelPublisher, tray: Description
) -> None:
    publisher.publish(tray, metadata(api))
    gfd_writes(api, clique="theirs")
    publisher.publish(tray, metadata(api))
    assert theirs(api)[CLIQUE] == "theirs"
    gfd_writes(api, clique=None)
    assert CLIQUE not in theirs(api)


def test_an_owner_that_appears_in_between_is_a_conflict_and_wins(
    api: ApiUnderTest, publisher: NvidiaLabelPublisher, tray: Description
) -> None:
    seen = metadata(api)
    gfd_writes(api, clique="theirs")
    with pytest.raises(ApiError) as error:
        publisher.publish(tray, seen)
    assert error.value.conflict
    assert theirs(api) == {CLIQUE: "theirs"}


def test_what_is_not_known_stays(api: ApiUnderTest, publisher: NvidiaLabelPublisher, tray: Description) -> None:
    publisher.publish(tray, metadata(api))
    assert not publisher.publish(unknown("hang", "NVML hangs"), metadata(api))
    assert theirs(api) == nvidia_labels_for(tray)


def test_without_multi_node_nvlink_there_is_no_clique(tmp_path: Path) -> None:
    labels = nvidia_labels_for(describe(probed(load_profile("dgx-h200"), tmp_path), "n1"))
    assert CLIQUE not in labels
    assert labels["nvidia.com/nvswitch.present"] == "true"
    assert nvidia_labels_for(unknown("hang", "x")) == {}
