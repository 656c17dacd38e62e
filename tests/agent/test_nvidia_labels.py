"""Labels under nvidia.com/: written where NVIDIA's own components write none, and left to them where they do."""

from pathlib import Path

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.machines import probed
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.nvidia_labels import KEYS, NvidiaLabelPublisher, nvidia_labels_for
from toposcope.kube.errors import ApiError
from toposcope.simulator.profile import load_profile

NODE = f"{NODES}/n1"
PREFIX = "nvidia.com/"
CLIQUE = "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766"
OURS = {
    "gpu.clique": CLIQUE,
    "gpu.count": "4",
    "gpu.product": "NVIDIA-GB200",
    "nvlink.version": "5.0",
    "nvswitch.present": "true",
}


class Tray:
    """The Node of a GB200 tray, on which GPU feature discovery may run too."""

    def __init__(self, api: ApiUnderTest, clients: Clients, folder: Path) -> None:
        api.create(NODES, node("n1"))
        self._api = api
        self._publisher = NvidiaLabelPublisher(clients(), "n1")
        raw = probed(load_profile("gb200-nvl72-tray"), folder)
        self.description = describe(raw, "n1")
        self.seen = api.get(NODE)["metadata"]

    def feature_discovery_writes(self, labels: dict[str, str | None]) -> None:
        """By node-feature-discovery's master, keys without their prefix."""
        keys = {}
        for key, value in labels.items():
            keys[PREFIX + key] = value
        body = {"metadata": {"labels": keys}}
        self._api.patch(f"{NODE}?fieldManager=nfd-master", body)

    def agent_reads(self) -> None:
        """The agent reads its Node: what others write later it does not know."""
        self.seen = self._api.get(NODE)["metadata"]

    def agent_writes(self, description: Description | None = None) -> bool:
        """Have the agent write; whether there was anything to write."""
        description = description or self.description
        return self._publisher.publish(description, self.seen)

    def labels(self) -> dict[str, str]:
        """The labels that the agent knows, keys without their prefix."""
        metadata = self._api.get(NODE)["metadata"]
        labels = metadata.get("labels") or {}
        known = {}
        for key, value in labels.items():
            if key in KEYS:
                known[key.removeprefix(PREFIX)] = value
        return known


@pytest.fixture
def tray(api: ApiUnderTest, clients: Clients, tmp_path: Path) -> Tray:
    return Tray(api, clients, tmp_path)


def test_labels_without_owner_are_written_once_and_stay(tray: Tray) -> None:
    assert tray.agent_writes()
    assert tray.labels() == OURS

    tray.agent_reads()
    assert not tray.agent_writes()
    assert tray.labels() == OURS

    hanging = unknown("hang", "NVML hangs")
    assert not tray.agent_writes(hanging)
    assert tray.labels() == OURS


def test_labels_with_an_owner_are_left_alone(tray: Tray) -> None:
    tray.feature_discovery_writes({"gpu.clique": "theirs", "gpu.count": "4"})
    tray.agent_reads()
    assert tray.agent_writes()
    assert tray.labels() == {**OURS, "gpu.clique": "theirs"}


def test_label_goes_to_an_owner_and_with_it(tray: Tray) -> None:
    assert tray.agent_writes()
    tray.feature_discovery_writes({"gpu.clique": "theirs"})
    tray.agent_reads()
    assert not tray.agent_writes()
    assert tray.labels() == {**OURS, "gpu.clique": "theirs"}

    tray.feature_discovery_writes({"gpu.clique": None})
    without_clique = dict(OURS)
    del without_clique["gpu.clique"]
    assert tray.labels() == without_clique


def test_owner_that_comes_while_the_agent_writes_wins(tray: Tray) -> None:
    tray.feature_discovery_writes({"gpu.clique": "theirs"})
    with pytest.raises(ApiError, match="409"):
        tray.agent_writes()
    assert tray.labels() == {"gpu.clique": "theirs"}


def test_node_without_multi_node_nvlink_has_no_clique(tmp_path: Path) -> None:
    raw = probed(load_profile("dgx-h200"), tmp_path)
    labels = nvidia_labels_for(describe(raw, "n1"))
    assert "nvidia.com/gpu.clique" not in labels
    assert labels["nvidia.com/nvswitch.present"] == "true"


def test_nothing_is_labelled_while_nothing_is_known() -> None:
    hanging = unknown("hang", "x")
    assert nvidia_labels_for(hanging) == {}
