"""An admin accepts a node as it is: whatever was wrong is named no more, until it heals and comes back."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import A100, H100, machine, mesh
from tests.support.living_agent import Node
from tests.support.machines import probed
from toposcope.agent.describe import Description, describe
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import MATRIX, REFERENCE, STATE
from toposcope.simulator.faults import CallFault, Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

Change = Callable[[RawNode], RawNode]


def unchanged(raw: RawNode) -> RawNode:
    return raw


class Watched:
    """A machine that is looked at again and again, by the baseline of the look before."""

    def __init__(self, node: Machine, folder: Path) -> None:
        self._node = node
        self._folder = folder
        self._baseline: str | None = None

    def look(self, faults: Faults | None = None, change: Change = unchanged, *, accept: bool = False) -> Description:
        raw = change(probed(self._node, self._folder, faults))
        found = describe(raw, "n1", self._baseline, accept=accept)
        self._baseline = found.annotations.get(REFERENCE)
        return found


def state(found: Description) -> str | None:
    return found.labels.known.get(STATE)


def reasons(found: Description) -> tuple[str, ...]:
    assert found.topology
    return found.topology.reasons


def dead_gpus(*gpus: int) -> Faults:
    return Faults(vanished=frozenset(gpus))


def lost(gpu: int) -> Faults:
    calls = ("nvmlDeviceGetMigMode", "nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState")
    return Faults(calls=tuple(CallFault(call=call, gpu=gpu, error=15) for call in calls))


def held_by_nouveau(raw: RawNode) -> RawNode:
    first, *others = raw.gpu_functions
    gpus = tuple(gpu for gpu in raw.gpus if gpu.pci != first.address)
    return raw._replace(gpus=gpus, gpu_functions=(first._replace(driver="nouveau"), *others))


def two_devices_only(raw: RawNode) -> RawNode:
    return raw._replace(gpus=raw.gpus[:2], container=(("NVIDIA_VISIBLE_DEVICES", "0,1"),))


def one_end_of_a_link_dead(raw: RawNode) -> RawNode:
    first, second, *others = raw.gpus
    links = (second.links[0]._replace(state=0), *second.links[1:])
    return raw._replace(gpus=(first, second._replace(links=links), *others))


def farther_apart(raw: RawNode) -> RawNode:
    """As if the firmware put the first GPU below another root."""
    first, *others = raw.gpu_functions
    moved = first._replace(path=("pci0000:ff", *first.path[1:]))
    ancestors = tuple(ancestor._replace(level=50) if 0 in ancestor[:2] else ancestor for ancestor in raw.ancestors)
    return raw._replace(gpu_functions=(moved, *others), ancestors=ancestors)


BAD_HEALTH = Faults(fabric={2: {"health_mask": 1, "health_summary": 2}})

STATES: dict[str, tuple[str, Faults | None, Change]] = {
    "an excluded GPU": ("hgx-h100-8", dead_gpus(5), unchanged),
    "two excluded GPUs": ("dgx-h200", dead_gpus(0, 7), unchanged),
    "a lost GPU": ("dgx-h200", Faults(lost=frozenset({2})), unchanged),
    "a lost GPU that still answers": ("dgx-a100", lost(4), unchanged),
    "a lost GPU of a mesh": ("dgx1-v100", lost(0), unchanged),
    "a card that another driver holds": ("l40s-4", None, held_by_nouveau),
    "GPUs that the container does not get": ("l40s-4", None, two_devices_only),
    "a dead link of a board": ("hgx-b200-8", Faults(links_down={2: frozenset({3})}), unchanged),
    "a GPU thrown out of NVLink": ("hgx-b200-8", Faults(links_down={2: "all"}), unchanged),
    "a board without any link": ("hgx-h100-8", Faults(links_down=dict.fromkeys(range(8), "all")), unchanged),
    "a link that one end shows": ("rtx3090-2-nvlink", None, one_end_of_a_link_dead),
    "a loose bridge": ("rtx3090-2-nvlink", Faults(links_down={0: frozenset({3})}), unchanged),
    "a worse path": ("l40s-4", None, farther_apart),
    "a fabric that is down": ("gb200-nvl72-tray", Faults(fabric={i: {"state": 0} for i in range(4)}), unchanged),
    "a GPU in no fabric": ("gb200-nvl72-tray", Faults(fabric={1: {"state": 0}}), unchanged),
    "GPUs in two cliques": ("gb200-nvl72-tray", Faults(fabric={1: {"clique": 7}}), unchanged),
    "a registration that failed": ("gb200-nvl72-tray", Faults(fabric={3: {"status": 999}}), unchanged),
    "bad fabric health": ("gb200-nvl72-tray", BAD_HEALTH, unchanged),
    "a limited capacity": ("gb200-nvl72-tray", Faults(fabric={2: {"health_mask": 0, "health_summary": 3}}), unchanged),
}


@pytest.mark.regression
@pytest.mark.parametrize("wrong", STATES)
def test_a_state_is_accepted_stays_accepted_and_is_a_fault_again_once_it_healed(wrong: str, tmp_path: Path) -> None:
    profile, faults, change = STATES[wrong]
    node = Watched(load_profile(profile), tmp_path)
    whole = node.look()
    degraded = node.look(faults, change)
    assert (state(whole), state(degraded)) == ("ok", "degraded")
    accepted = node.look(faults, change, accept=True)
    assert (state(accepted), reasons(accepted)) == ("ok", ())
    later = node.look(faults, change)
    assert (state(later), reasons(later)) == ("ok", ())
    assert later.annotations[REFERENCE] == accepted.annotations[REFERENCE]
    healed = node.look()
    assert healed.labels == whole.labels
    again = node.look(faults, change)
    assert (state(again), reasons(again)) == ("degraded", reasons(degraded))


@pytest.mark.parametrize("wrong", [name for name, (profile, *_) in STATES.items() if profile != "rtx3090-2-nvlink"])
def test_a_state_that_was_there_at_first_sight_is_accepted_too(wrong: str, tmp_path: Path) -> None:
    profile, faults, change = STATES[wrong]
    node = Watched(load_profile(profile), tmp_path)
    node.look(faults, change)
    accepted = node.look(faults, change, accept=True)
    later = node.look(faults, change)
    assert [state(accepted), state(later)] == ["ok", "ok"]


def test_a_fault_that_comes_on_top_of_an_accepted_one_is_named_alone(tmp_path: Path) -> None:
    node = Watched(load_profile("hgx-h100-8"), tmp_path)
    node.look(dead_gpus(5))
    node.look(dead_gpus(5), accept=True)
    more = node.look(Faults(vanished=frozenset({5}), links_down={2: frozenset({0})}))
    assert reasons(more) == ("GPU 2: 17 of 18 NVLinks active",)
    two = node.look(dead_gpus(5, 6))
    address = load_profile("hgx-h100-8").gpus[6].function.address
    assert reasons(two) == (f"GPU {address} is on the PCI bus but not in NVML",)


def test_fewer_links_than_were_accepted_are_a_fault(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    node.look(Faults(links_down={3: frozenset({5})}), accept=True)
    worse = node.look(Faults(links_down={3: frozenset({5, 6})}))
    assert reasons(worse) == ("GPU 3: 16 of 17 NVLinks active",)


def test_an_accepted_link_that_heals_is_expected_from_then_on(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    node.look(Faults(links_down={3: frozenset({5, 6})}), accept=True)
    node.look(Faults(links_down={3: frozenset({5})}))
    worse = node.look(Faults(links_down={3: frozenset({5, 6})}))
    assert reasons(worse) == ("GPU 3: 16 of 17 NVLinks active",)


def test_a_lost_gpu_that_is_missing_after_a_reboot_is_the_same_fault(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    node.look()
    node.look(lost(2), accept=True)
    assert state(node.look(dead_gpus(2))) == "ok"


def test_a_gpu_that_was_taken_out_is_accepted(tmp_path: Path) -> None:
    whole = load_profile("l40s-4")
    before = describe(probed(whole, tmp_path / "whole"), "n1")
    fewer = replace(whole, gpus=whole.gpus[:3])
    raw = probed(fewer, tmp_path / "fewer")
    past = before.annotations[REFERENCE]
    assert state(describe(raw, "n1", past)) == "degraded"
    accepted = describe(raw, "n1", past, accept=True)
    later = describe(raw, "n1", accepted.annotations[REFERENCE])
    assert [state(accepted), state(later)] == ["ok", "ok"]


def test_another_product_starts_anew_and_nothing_is_accepted(tmp_path: Path) -> None:
    accepted = Watched(load_profile("l40s-4"), tmp_path / "l40s").look(dead_gpus(1), accept=True)
    h200 = probed(load_profile("dgx-h200"), tmp_path / "h200", Faults(links_down={0: frozenset({1})}))
    found = describe(h200, "n1", accepted.annotations[REFERENCE])
    assert reasons(found) == ("GPU 0: 17 of 18 NVLinks active",)
    assert "accepted" not in json.loads(found.annotations[REFERENCE])


def test_an_accepted_fabric_fault_outlives_a_reboot_in_which_the_fabric_registers(tmp_path: Path) -> None:
    node = Watched(load_profile("gb200-nvl72-tray"), tmp_path)
    node.look(BAD_HEALTH, accept=True)
    node.look(Faults(fabric={gpu: {"state": 2} for gpu in range(4)}))
    assert state(node.look(BAD_HEALTH)) == "ok"


FORMER: dict[str, Any] = {
    "fabric:1d3e5c5b": {gpu: {"state": 0} for gpu in range(4)},
    "fabric:ac5dbebe": {1: {"state": 0}},
    "fabric:5260bf11": {1: {"clique": 7}},
    "fabric:4a999f0e": {3: {"status": 999}},
    "fabric:b6c1de09": {2: {"health_mask": 1, "health_summary": 2}},
    "fabric:b442f2d5": {2: {"health_mask": 0, "health_summary": 3}},
}
"""Faults by the keys that earlier agents made of their words."""


@pytest.mark.parametrize("key", FORMER)
def test_a_fabric_fault_that_an_earlier_agent_accepted_stays_accepted(key: str, tmp_path: Path) -> None:
    faults = Faults(fabric=FORMER[key])
    raw = probed(load_profile("gb200-nvl72-tray"), tmp_path, faults)
    baseline = json.loads(describe(raw, "n1", accept=True).annotations[REFERENCE])
    (present,) = baseline["accepted"]
    assert present != key
    found = describe(raw, "n1", json.dumps(baseline | {"accepted": [key]}))
    assert (state(found), reasons(found)) == ("ok", ())
    assert json.loads(found.annotations[REFERENCE])["accepted"] == [present]


def test_a_registration_that_goes_on_is_named_though_it_was_accepted(tmp_path: Path) -> None:
    node = Watched(load_profile("gb200-nvl72-tray"), tmp_path)
    registering = Faults(fabric={1: {"state": 2}})
    node.look(registering, accept=True)
    found = node.look(registering)
    assert (state(found), reasons(found)) == ("unknown", ("GPU 1: still registering with the NVLink fabric",))


def test_an_accepted_missing_gpu_outlives_a_probe_without_sysfs(tmp_path: Path) -> None:
    def without_bus(raw: RawNode) -> RawNode:
        return raw._replace(gpu_functions=(), switch_functions=(), bus_visible=False)

    node = Watched(load_profile("hgx-h100-8"), tmp_path)
    node.look(dead_gpus(5), accept=True)
    node.look(dead_gpus(5), without_bus)
    assert state(node.look(dead_gpus(5))) == "ok"


def test_an_excluded_gpu_is_the_same_after_a_reboot_that_numbers_buses_anew(tmp_path: Path) -> None:
    """The driver tells no UUID of it. A GPU that is missing where the baseline has another one is a fault."""
    excluded = load_profile("hgx-h100-8").gpus[5].function.address

    def elsewhere(raw: RawNode) -> RawNode:
        moved = [f._replace(address="0001:8a:00.0") if f.address == excluded else f for f in raw.gpu_functions]
        return raw._replace(gpu_functions=tuple(moved))

    node = Watched(load_profile("hgx-h100-8"), tmp_path)
    node.look(dead_gpus(5), accept=True)
    assert state(node.look(dead_gpus(5), elsewhere)) == "ok"
    assert state(node.look(dead_gpus(5), elsewhere)) == "ok"
    more = node.look(dead_gpus(5, 6), elsewhere)
    assert len(reasons(more)) == 1


# A card that the driver ignores


def with_legacy_card(folder: Path) -> tuple[Machine, Faults]:
    """A board of four, and a K80 die that a driver of today does not know."""
    node = machine(folder, A100, 5, architecture="ampere", nvlink={"pairs": mesh(4, 4)})
    *board, card = node.gpus
    return replace(node, gpus=(*board, replace(card, name="Tesla K80", links=()))), dead_gpus(4)


@pytest.mark.regression
def test_a_legacy_card_that_the_driver_ignores_is_accepted(tmp_path: Path) -> None:
    legacy, ignored = with_legacy_card(tmp_path)
    node = Watched(legacy, tmp_path)
    assert state(node.look(ignored)) == "degraded"
    assert state(node.look(ignored, accept=True)) == "ok"
    assert state(node.look(ignored)) == "ok"
    more = node.look(Faults(vanished=frozenset({4}), links_down={0: frozenset({1})}))
    assert all("NVLinks active" in reason for reason in reasons(more))


def test_a_node_whose_only_card_is_ignored_by_the_driver_is_accepted_as_one_without_gpus(tmp_path: Path) -> None:
    node = Watched(load_profile("t4-1"), tmp_path)
    ignored = dead_gpus(0)
    assert "0 GPUs" in node.look(ignored).problem
    accepted = node.look(ignored, accept=True)
    assert (accepted.problem, accepted.labels.known) == ("", {})
    later = node.look(ignored)
    assert (later.problem, later.labels.known) == ("", {})
    assert state(node.look()) == "ok"
    assert "0 GPUs" in node.look(ignored).problem


def test_gpus_that_neither_nvml_nor_sysfs_shows_are_no_state_to_accept(tmp_path: Path) -> None:
    def without_bus(raw: RawNode) -> RawNode:
        return raw._replace(gpu_functions=(), bus_visible=False)

    node = Watched(load_profile("t4-1"), tmp_path)
    assert "0 GPUs" in node.look(dead_gpus(0), without_bus, accept=True).problem


def test_a_driver_that_does_not_answer_is_no_state_to_accept(tmp_path: Path) -> None:
    node = Watched(load_profile("l40s-4"), tmp_path)
    assert "NVML does not answer" in node.look(Faults(init_error=9), accept=True).problem


# The running agent


def agent_of(node: Machine, folder: Path, faults: Faults) -> Node:
    agent = Node(node, folder)
    agent.faults = faults
    agent.live(120)
    return agent


def test_the_flag_accepts_an_excluded_gpu_for_the_agent_that_runs(tmp_path: Path) -> None:
    agent = agent_of(load_profile("hgx-h100-8"), tmp_path, dead_gpus(5))
    assert agent.labels["state"] == "degraded"
    accepting = Node(agent.machine, tmp_path, once=True, accept_degraded=True)
    accepting.cluster.baseline, accepting.cluster.annotations = agent.cluster.baseline, agent.cluster.annotations
    accepting.faults = agent.faults
    assert accepting.agent.sync()
    assert accepting.labels["state"] == "ok"
    agent.cluster.baseline = accepting.cluster.baseline
    agent.live(600)
    assert agent.labels["state"] == "ok"
    restarted = Node(agent.machine, tmp_path)
    restarted.cluster, restarted.faults = accepting.cluster, agent.faults
    restarted.live(120)
    assert accepting.labels["state"] == "ok"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "faults"),
    [
        ("hgx-h100-8", dead_gpus(5)),
        ("dgx-h200", Faults(links_down={3: frozenset({5})})),
        ("gb200-nvl72-tray", BAD_HEALTH),
    ],
)
def test_to_delete_the_baseline_is_to_accept(profile: str, faults: Faults, tmp_path: Path) -> None:
    agent = agent_of(load_profile(profile), tmp_path, faults)
    assert agent.labels["state"] == "degraded"
    agent.cluster.baseline = None  # as the next read of the Node finds it
    agent.live(120)
    assert agent.labels["state"] == "ok"
    agent.live(3600)
    assert agent.labels["state"] == "ok"
    agent.faults = Faults()
    agent.live(120)
    agent.faults = faults
    agent.live(120)
    assert agent.labels["state"] == "degraded"


def test_a_node_that_was_never_labelled_has_nothing_to_accept(tmp_path: Path) -> None:
    node = machine(tmp_path, H100, 8, nvlink={"switched": 18, "inactive": dict.fromkeys(range(8), "all")}, switches=4)
    agent = agent_of(node, tmp_path, Faults())
    assert agent.labels["state"] == "degraded"
    assert MATRIX in agent.cluster.annotations


def test_a_garbled_baseline_is_not_a_deleted_one(tmp_path: Path) -> None:
    agent = agent_of(load_profile("hgx-h100-8"), tmp_path, dead_gpus(5))
    agent.cluster.baseline = "garbled"
    agent.live(120)
    assert agent.labels["state"] == "degraded"


def test_the_keys_of_accepted_faults_do_not_hold_numbers_of_today(tmp_path: Path) -> None:
    """NVML numbers GPUs anew at a reboot, and closes the gap that a lost one leaves."""
    node = Watched(load_profile("gb200-nvl72-tray"), tmp_path)
    node.look(BAD_HEALTH, accept=True)

    def renumbered(raw: RawNode) -> RawNode:
        order = [3, 2, 1, 0]
        return raw._replace(gpus=tuple(gpu._replace(index=order[gpu.index]) for gpu in reversed(raw.gpus)))

    later = node.look(BAD_HEALTH, renumbered)
    assert (state(later), reasons(later)) == ("ok", ())
