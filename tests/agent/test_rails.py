"""From the neighbours of NICs to rails and leaf labels, with an agent that lives through what may happen to them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.simulated_node import Activity, SimulatedNode, as_probed
from toposcope.agent.raw import RawNic, RawNode, RawPort
from toposcope.api.label_keys import MATRIX, RAILS, SWITCHES
from toposcope.hardware.matrix_annotation import parse
from toposcope.hardware.rails import parse_rails
from toposcope.simulator.profile import load_profile

COMPUTE = [f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 9, 10, 11)]
"""The InfiniBand NICs of a DGX H200; the others are Ethernet."""
LEAVES: list[str | None] = [f"leaf-{number}" for number in range(1, 9)]
ACTIVE_INFINIBAND = (RawPort(1, "InfiniBand", "4: ACTIVE"),)
ACTIVE_ETHERNET = (RawPort(1, "Ethernet", "4: ACTIVE"),)


class Cabled(SimulatedNode):
    """A DGX H200 in a rail-optimised fabric of eight leaves."""

    def __init__(self, folder: Path, **options: Any) -> None:
        machine = load_profile("dgx-h200")
        super().__init__(machine, folder, spread=0.0, **options)
        self.cables: dict[str, str] = {}
        """The switch at the other end of each NIC's cable; nothing if it is unknown."""
        for number, nic in enumerate(COMPUTE, 1):
            self.cables[nic] = f"leaf-{number}"
        self.cables["mlx5_1"] = "storage-1"

    def run(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0) -> Activity:
        """Let time pass, after the component for switches has said what it sees."""
        neighbours = {}
        for nic, leaf in self.cables.items():
            neighbours[nic] = _neighbour(leaf) if leaf else None
        self.api.annotations[SWITCHES] = json.dumps(neighbours)
        return super().run(seconds=seconds, minutes=minutes, hours=hours)

    def changes_nics(self, change: Callable[[RawNic], RawNic]) -> None:
        """From now on the probe finds each NIC as this changes it."""

        def with_changed_nics(raw: RawNode) -> RawNode:
            nics = [change(nic) for nic in raw.nics]
            return raw._replace(nics=tuple(nics))

        self.change = with_changed_nics

    def loses_card(self, name: str) -> None:
        """A NIC is gone from the bus."""

        def without_card(raw: RawNode) -> RawNode:
            nics = []
            for nic in raw.nics:
                if nic.name != name:
                    nics.append(nic)
            return raw._replace(nics=tuple(nics))

        self.change = without_card

    def restarted(self, folder: Path, **options: Any) -> "Cabled":
        """Another agent for the same Node."""
        again = Cabled(folder, **options)
        again.api = self.api
        again.agent._publisher = self.api  # type: ignore[assignment]
        return again

    @property
    def group(self) -> str | None:
        """The label of its leaf group."""
        assert "leaf" not in self.labels
        return self.labels.get("leaf-group")

    @property
    def rails(self) -> list[str | None]:
        """The switch of each rail."""
        rails = parse_rails(self.api.annotations[RAILS])
        return [rail and rail.switch for rail in rails]


def _neighbour(leaf: str) -> dict[str, str]:
    return {"switch": leaf, "id": f"guid:{leaf}", "port": "7", "by": "infiniband"}


def _down(nic: RawNic) -> RawNic:
    ports = [port._replace(state="1: DOWN") for port in nic.ports]
    return nic._replace(ports=tuple(ports))


def nic_called(name: str, raw: RawNode) -> RawNic:
    (nic,) = [nic for nic in raw.nics if nic.name == name]
    return nic


@pytest.fixture
def node(tmp_path: Path) -> Cabled:
    """It has run for a minute."""
    node = Cabled(tmp_path)
    node.run(seconds=61)
    return node


# Which NICs are rails


@pytest.mark.regression
def test_rails_are_the_nics_nearest_to_gpus(tmp_path: Path) -> None:
    def storage_on_infiniband(nic: RawNic) -> RawNic:
        """mlx5_1 is for storage, behind another host bridge."""
        return nic._replace(ports=ACTIVE_INFINIBAND) if nic.name == "mlx5_1" else nic

    node = Cabled(tmp_path)
    node.changes_nics(storage_on_infiniband)
    node.run(seconds=61)
    assert node.rails == LEAVES
    assert node.group
    assert node.group.startswith("leaf-1..leaf-8-")

    devices = {device.name: device for device in parse(node.api.annotations[MATRIX]).devices}
    assert (devices["mlx5_1"].switch, devices["mlx5_1"].port) == ("storage-1", "7")
    assert (devices["mlx5_2"].switch, devices["mlx5_2"].port) == ("", "")


def test_node_without_switch_component_has_no_rails(tmp_path: Path) -> None:
    node = SimulatedNode.of("dgx-h200", tmp_path, spread=0.0)
    node.run(minutes=20)
    assert not {"leaf", "leaf-group"} & node.labels.keys()
    assert RAILS not in node.api.annotations


def test_all_nics_are_rails_where_none_is_near(tmp_path: Path) -> None:
    def two_far_nics(raw: RawNode) -> RawNode:
        nics = []
        for nic in raw.nics:
            if nic.name in {"mlx5_1", "mlx5_2"}:
                far = nic.pci._replace(path=("pci0000:00", nic.pci.address))
                nics.append(nic._replace(pci=far))
        return raw._replace(nics=tuple(nics))

    node = Cabled(tmp_path)
    node.change = two_far_nics
    node.cables = {"mlx5_1": "leaf-7", "mlx5_2": "leaf-7"}
    node.run(seconds=61)
    assert node.rails == ["leaf-7", "leaf-7"]
    assert node.labels["leaf"] == "leaf-7"


def test_virtual_functions_end_where_their_physical_one_does(tmp_path: Path) -> None:
    def with_virtual_function(raw: RawNode) -> RawNode:
        physical = nic_called("mlx5_0", raw)
        address = physical.pci.address
        function = physical.pci._replace(address=address[:-1] + "2")
        virtual = physical._replace(
            name="vf0",
            pci=function,
            parent=address,
        )
        return raw._replace(nics=(*raw.nics, virtual))

    node = Cabled(tmp_path)
    node.change = with_virtual_function
    node.run(seconds=61)
    assert sorted(rail or "" for rail in node.rails) == ["leaf-1", *map(str, LEAVES)]
    assert node.group


def test_one_infiniband_port_takes_no_rail_of_roce(tmp_path: Path) -> None:
    """Of eight rails seven are RoCE: the leaf group has the switches of all of them, and not that of the one."""

    def mostly_roce(nic: RawNic) -> RawNic:
        return nic._replace(ports=ACTIVE_ETHERNET) if nic.name in COMPUTE[1:] else nic

    node = Cabled(tmp_path)
    node.changes_nics(mostly_roce)
    node.run(seconds=61)
    assert node.rails == LEAVES
    assert node.labels["rail-aligned"] == "true"


@pytest.mark.parametrize("cabled", [False, True])
def test_second_port_of_a_card_is_a_rail_once_it_was_cabled(tmp_path: Path, cabled: bool) -> None:
    def dual_port(raw: RawNode) -> RawNode:
        first = nic_called("mlx5_0", raw)
        address = first.pci.address
        function = first.pci._replace(address=address[:-1] + "1")
        second = first._replace(name="mlx5_0b", pci=function)
        return raw._replace(nics=(*raw.nics, _down(second)))

    node = Cabled(tmp_path)
    node.change = dual_port
    node.cables["mlx5_0b"] = "leaf-9" if cabled else ""
    node.run(seconds=61)
    assert len(node.rails) == (9 if cabled else 8)

    node.cables["mlx5_0b"] = ""
    node.run(seconds=800)
    assert node.rails[:2] == (["leaf-1", None] if cabled else ["leaf-1", "leaf-2"])


# What is lost or moved


def test_lost_neighbour_is_unknown_after_grace_and_never_another_group(node: Cabled) -> None:
    group_before = node.group
    node.cables["mlx5_4"] = ""
    node.run(minutes=9)
    assert node.group == group_before
    assert node.rails == LEAVES

    node.run(minutes=3)
    assert node.group is None
    assert node.rails[2] is None

    node.cables["mlx5_4"] = "leaf-3"
    node.run(minutes=3)
    assert node.group == group_before
    assert node.rails == LEAVES


def test_another_switch_counts_once_it_is_steady(node: Cabled) -> None:
    group_before = node.group
    for leaf in ("leaf-9", "leaf-3", "leaf-8", "leaf-3"):  # each for less than a minute
        node.cables["mlx5_4"] = leaf
        node.run(seconds=59)
        assert node.group == group_before
        assert node.rails == LEAVES

    node.cables["mlx5_4"] = "leaf-9"
    node.run(minutes=3)
    assert node.rails[2] == "leaf-9"
    assert node.group not in {group_before, None}


def loses_port(node: Cabled) -> None:
    node.cables.pop("mlx5_9")
    node.changes_nics(lambda nic: _down(nic) if nic.name == "mlx5_9" else nic)


def loses_card(node: Cabled) -> None:
    node.cables.pop("mlx5_9")
    node.loses_card("mlx5_9")


def loses_component(node: Cabled) -> None:
    node.cables.clear()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lose", [loses_port, loses_card, loses_component])
def test_loss_changes_labels_only_after_the_grace_period(
    node: Cabled, tmp_path: Path, lose: Callable[[Cabled], None], restarted: bool
) -> None:
    group_before = node.group
    if restarted:
        node = node.restarted(tmp_path)
    lose(node)
    node.run(seconds=580)
    assert node.group == group_before
    assert node.rails == LEAVES

    node.run(minutes=4)
    assert node.group is None


@pytest.mark.parametrize("restarted", [False, True])
def test_hanging_hardware_changes_no_label(node: Cabled, tmp_path: Path, restarted: bool) -> None:
    group_before = node.group
    if restarted:
        node = node.restarted(tmp_path)
    node.cables.pop("mlx5_9")
    node.probe_fails("it hangs")
    node.run(seconds=580)
    assert node.group == group_before
    assert node.rails == LEAVES

    node.run(minutes=4)
    assert node.group == group_before


def test_rail_lost_before_a_restart_leaves_no_group_until_accepted(node: Cabled, tmp_path: Path) -> None:
    node.cables.pop("mlx5_9")
    node.run(seconds=800)

    restarted = node.restarted(tmp_path, accept_degraded=False)
    loses_card(restarted)
    restarted.run(minutes=3)
    assert restarted.group is None
    assert restarted.rails == [None] * 8

    accepting = node.restarted(tmp_path, accept_degraded=True)
    loses_card(accepting)
    accepting.run(minutes=3)
    assert accepting.group is not None
    assert accepting.rails == LEAVES[:5] + LEAVES[6:]


def test_malformed_neighbours_are_none(tmp_path: Path) -> None:
    node = Cabled(tmp_path)
    node.api.annotations[SWITCHES] = '{"mlx5_0":7}'
    SimulatedNode.run(node, seconds=61)
    assert node.rails == [None] * 8
    assert node.group is None


# RDMA devices that a pod took along: the other program does not see them either


def hold(node: Cabled, name: str) -> None:
    """A pod takes the RDMA device of a NIC along while the agent runs."""
    node.cables.pop(name)
    node.changes_nics(lambda nic: nic._replace(is_held=True) if nic.name == name else nic)


@pytest.mark.slow
@pytest.mark.regression
def test_rail_that_a_pod_holds_keeps_its_switch(node: Cabled) -> None:
    labels_before = node.labels
    hold(node, "mlx5_9")
    node.run(hours=2)
    assert node.labels == labels_before
    assert node.rails == LEAVES


@pytest.mark.slow
def test_rail_that_a_pod_held_is_moved_once_it_is_back(node: Cabled) -> None:
    group_before = node.group
    hold(node, "mlx5_9")
    node.run(hours=2)

    node.change = as_probed
    node.cables["mlx5_9"] = "leaf-9"
    node.run(minutes=3)
    assert node.rails[5] == "leaf-9"
    assert node.group not in {group_before, None}


@pytest.mark.slow
def test_rail_back_without_a_neighbour_is_lost_after_the_grace_period(node: Cabled) -> None:
    group_before = node.group
    hold(node, "mlx5_9")
    node.run(hours=2)

    node.change = as_probed
    node.run(minutes=9)
    assert node.group == group_before
    node.run(minutes=3)
    assert node.group is None


@pytest.mark.slow
@pytest.mark.regression
def test_labels_outlive_a_restart_while_a_pod_holds_a_rail(node: Cabled, tmp_path: Path) -> None:
    def hidden(raw: RawNode) -> RawNode:
        held = nic_called("mlx5_9", raw)
        visible = list(raw.nics)
        visible.remove(held)
        return raw._replace(
            nics=tuple(visible),
            hidden_nics=(held.pci.address,),
        )

    labels_before = node.labels
    restarted = node.restarted(tmp_path)
    restarted.cables.pop("mlx5_9")
    restarted.change = hidden
    restarted.run(hours=2)
    assert restarted.labels == labels_before
    assert restarted.rails == LEAVES
