"""From the neighbours of NICs to rails and leaf labels, with an agent that lives through what may happen to them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.living_agent import Node
from toposcope.agent.raw import RawPort
from toposcope.api.label_keys import MATRIX, RAILS, SWITCHES
from toposcope.hardware.matrix_annotation import parse
from toposcope.hardware.rails import parse_rails
from toposcope.simulator.profile import load_profile

COMPUTE = [f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 9, 10, 11)]
"""The InfiniBand NICs of a DGX H200; the others are Ethernet."""


class Cabled(Node):
    """A DGX H200 in a rail-optimised fabric of eight leaves."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(load_profile("dgx-h200"), folder, spread=0.0, **options)
        self.cables = {nic: f"leaf-{at}" for at, nic in enumerate(COMPUTE, 1)} | {"mlx5_1": "storage-1"}

    def live(self, seconds: float) -> None:
        seen = {
            nic: {"switch": leaf, "id": f"guid:{leaf}", "port": "7", "by": "infiniband"} if leaf else None
            for nic, leaf in self.cables.items()
        }
        self.cluster.annotations[SWITCHES] = json.dumps(seen)
        super().live(seconds)

    @property
    def group(self) -> str | None:
        assert "leaf" not in self.labels
        return self.labels.get("leaf-group")

    @property
    def rails(self) -> list[str | None]:
        return [rail and rail.switch for rail in parse_rails(self.cluster.annotations[RAILS])]


@pytest.fixture
def node(tmp_path: Path) -> Cabled:
    node = Cabled(tmp_path)
    node.live(61)
    return node


LEAVES: list[str | None] = [f"leaf-{number}" for number in range(1, 9)]


@pytest.mark.regression
def test_rails_are_the_nics_nearest_to_gpus(tmp_path: Path) -> None:
    node = Cabled(tmp_path)
    far = {"mlx5_1": (RawPort(1, "InfiniBand", "4: ACTIVE"),)}  # InfiniBand for storage, behind another host bridge
    node.change = lambda raw: raw._replace(
        nics=tuple(nic._replace(ports=far.get(nic.name, nic.ports)) for nic in raw.nics)
    )
    node.live(61)
    assert node.rails == LEAVES
    assert node.group
    assert node.group.startswith("leaf-1..leaf-8-")
    cabled = {device.name: (device.switch, device.port) for device in parse(node.cluster.annotations[MATRIX]).devices}
    assert cabled["mlx5_1"] == ("storage-1", "7")
    assert cabled["mlx5_2"] == ("", "")


def test_without_the_component_nothing_is_said(tmp_path: Path) -> None:
    node = Node(load_profile("dgx-h200"), tmp_path, spread=0.0)
    node.live(1200)
    assert not {"leaf", "leaf-group"} & node.labels.keys()
    assert RAILS not in node.cluster.annotations


def test_a_lost_neighbour_is_unknown_after_the_grace_period_and_never_another_group(node: Cabled) -> None:
    before, node.cables["mlx5_4"] = node.group, ""
    node.live(540)
    assert (node.group, node.rails) == (before, LEAVES)
    node.live(180)
    assert (node.group, node.rails[2]) == (None, None)
    node.cables["mlx5_4"] = "leaf-3"
    node.live(180)
    assert (node.group, node.rails) == (before, LEAVES)


def test_another_switch_counts_once_it_is_steady(node: Cabled) -> None:
    before = node.group
    for leaf in ("leaf-9", "leaf-3", "leaf-8", "leaf-3"):  # each for less than a minute
        node.cables["mlx5_4"] = leaf
        node.live(59)
        assert (node.group, node.rails) == (before, LEAVES)
    node.cables["mlx5_4"] = "leaf-9"
    node.live(180)
    assert node.rails[2] == "leaf-9"
    assert node.group not in {before, None}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lost", ["port", "card", "component", "hardware"])
def test_what_is_lost_changes_no_label_within_grace(node: Cabled, tmp_path: Path, lost: str, restarted: bool) -> None:
    before, gone = node.group, node
    if restarted:
        gone = Cabled(tmp_path)
        gone.cluster = node.cluster
        gone.agent._publisher = node.cluster  # type: ignore[assignment]
    gone.cables.pop("mlx5_9")
    changes: dict[str, Callable[[Any], Any]] = {
        "port": lambda raw: raw._replace(nics=tuple(_down(nic) if nic.name == "mlx5_9" else nic for nic in raw.nics)),
        "card": lambda raw: raw._replace(nics=tuple(nic for nic in raw.nics if nic.name != "mlx5_9")),
    }
    gone.change = changes.get(lost, gone.change)
    gone.failure = "it hangs" if lost == "hardware" else ""
    if lost == "component":
        gone.cables.clear()
    gone.live(580)
    assert (gone.group, gone.rails) == (before, LEAVES)
    gone.live(240)
    assert gone.group == (before if lost == "hardware" else None)


def _down(nic: Any) -> Any:
    return nic._replace(ports=tuple(port._replace(state="1: DOWN") for port in nic.ports))


def test_a_rail_that_went_before_a_restart_leaves_no_group_until_it_is_accepted(node: Cabled, tmp_path: Path) -> None:
    node.cables.pop("mlx5_9")
    node.live(800)
    later = []
    for accept in (False, True):
        again = Cabled(tmp_path, accept_degraded=accept)
        again.cables.pop("mlx5_9")
        again.cluster = node.cluster
        again.agent._publisher = node.cluster  # type: ignore[assignment]
        again.change = lambda raw: raw._replace(nics=tuple(nic for nic in raw.nics if nic.name != "mlx5_9"))
        again.live(180)
        later.append((again.group is not None, again.rails))
    assert later == [(False, [None] * 8), (True, LEAVES[:5] + LEAVES[6:])]


@pytest.mark.parametrize("cabled", [False, True])
def test_the_second_port_of_a_card_is_a_rail_once_it_was_cabled(tmp_path: Path, cabled: bool) -> None:
    node = Cabled(tmp_path)

    def dual(raw: Any) -> Any:
        (first,) = (nic for nic in raw.nics if nic.name == "mlx5_0")
        second = first._replace(name="mlx5_0b", pci=first.pci._replace(address=first.pci.address[:-1] + "1"))
        return raw._replace(nics=(*raw.nics, _down(second)))

    node.change = dual
    node.cables["mlx5_0b"] = "leaf-9" if cabled else ""
    node.live(61)
    assert len(node.rails) == 8 + cabled
    node.cables["mlx5_0b"] = ""
    node.live(800)
    assert node.rails[:2] == (["leaf-1", None] if cabled else ["leaf-1", "leaf-2"])


def test_where_no_nic_is_near_all_are_rails(tmp_path: Path) -> None:
    node = Cabled(tmp_path)

    def far(raw: Any) -> Any:
        moved = (nic._replace(pci=nic.pci._replace(path=("pci0000:00", nic.pci.address))) for nic in raw.nics)
        return raw._replace(nics=tuple(nic for nic in moved if nic.name in {"mlx5_1", "mlx5_2"}))

    node.change = far
    node.cables = {"mlx5_1": "leaf-7", "mlx5_2": "leaf-7"}
    node.live(61)
    assert (node.rails, node.labels["leaf"]) == (["leaf-7", "leaf-7"], "leaf-7")


def test_neighbours_that_are_no_neighbours_are_none(tmp_path: Path) -> None:
    node = Cabled(tmp_path)
    node.cluster.annotations[SWITCHES] = '{"mlx5_0":7}'
    Node.live(node, 61)
    assert (node.rails, node.group) == ([None] * 8, None)


# RDMA devices that a pod took along: the other program does not see them either


def hold(node: Cabled, nic: str) -> None:
    """A pod takes the RDMA device of a NIC along while the agent runs."""
    node.cables.pop(nic)
    node.change = lambda raw: raw._replace(
        nics=tuple(other._replace(held=True) if other.name == nic else other for other in raw.nics)
    )


@pytest.mark.regression
def test_a_rail_that_a_pod_holds_keeps_its_switch(node: Cabled) -> None:
    before = node.labels
    hold(node, "mlx5_9")
    node.live(7200)
    assert (node.labels, node.rails) == (before, LEAVES)


def test_a_rail_that_a_pod_holds_is_moved_once_it_is_back(node: Cabled) -> None:
    before = node.group
    hold(node, "mlx5_9")
    node.live(7200)
    node.change = lambda raw: raw
    node.cables["mlx5_9"] = "leaf-9"
    node.live(180)
    assert node.rails[5] == "leaf-9"
    assert node.group not in {before, None}


def test_a_rail_that_is_back_without_a_neighbour_is_lost_after_the_grace_period(node: Cabled) -> None:
    before = node.group
    hold(node, "mlx5_9")
    node.live(7200)
    node.change = lambda raw: raw
    node.live(540)
    assert node.group == before
    node.live(180)
    assert node.group is None


@pytest.mark.regression
def test_all_labels_outlive_a_restart_while_a_pod_holds_a_rail(node: Cabled, tmp_path: Path) -> None:
    before = node.labels
    again = Cabled(tmp_path)
    again.cluster = node.cluster
    again.agent._publisher = node.cluster  # type: ignore[assignment]
    again.cables.pop("mlx5_9")

    def hidden(raw: Any) -> Any:
        (function,) = [nic.pci.address for nic in raw.nics if nic.name == "mlx5_9"]
        seen = tuple(nic for nic in raw.nics if nic.name != "mlx5_9")
        return raw._replace(nics=seen, hidden_nics=(function,))

    again.change = hidden
    again.live(7200)
    assert again.labels == before
    assert again.rails == LEAVES


def test_virtual_functions_end_where_their_physical_one_does(tmp_path: Path) -> None:
    node = Cabled(tmp_path)

    def virtual(raw: Any) -> Any:
        (first,) = [nic for nic in raw.nics if nic.name == "mlx5_0"]
        function = first.pci._replace(address=first.pci.address[:-1] + "2")
        return raw._replace(nics=(*raw.nics, first._replace(name="vf0", pci=function, parent=first.pci.address)))

    node.change = virtual
    node.live(61)
    assert sorted(rail or "" for rail in node.rails) == sorted([*map(str, LEAVES), "leaf-1"])
    assert node.group


def test_one_infiniband_port_takes_no_rail_of_roce(tmp_path: Path) -> None:
    """Of eight rails seven are RoCE: the leaf group has the switches of all of them, and not that of the one."""
    node = Cabled(tmp_path)

    def mostly_roce(raw: Any) -> Any:
        ports = (RawPort(1, "Ethernet", "4: ACTIVE"),)
        roce = set(COMPUTE[1:])
        return raw._replace(nics=tuple(nic._replace(ports=ports) if nic.name in roce else nic for nic in raw.nics))

    node.change = mostly_roce
    node.live(61)
    assert node.rails == LEAVES
    assert node.labels["rail-aligned"] == "true"
