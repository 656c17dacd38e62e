"""An admin accepts a node as it is: whatever was wrong is named no more, until it heals and comes back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import A100, H100, machine, mesh
from tests.support.machines import probed
from tests.support.simulated_node import SimulatedNode
from toposcope.agent.describe import Description, describe
from toposcope.agent.raw import RawNode
from toposcope.api.label_keys import MATRIX, REFERENCE, STATE
from toposcope.simulator.faults import CallFault, MachineFaults
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

    def look(
        self, faults: MachineFaults | None = None, change: Change = unchanged, *, accept: bool = False
    ) -> Description:
        raw = probed(self._node, self._folder, faults)
        found = describe(
            change(raw),
            "n1",
            self._baseline,
            is_accepting=accept,
        )
        self._baseline = found.annotations.get(REFERENCE)
        return found


def state(found: Description) -> str | None:
    return found.labels.by_key.get(STATE)


def reasons(found: Description) -> tuple[str, ...]:
    assert found.topology
    return found.topology.reasons


def dead_gpus(*gpus: int) -> MachineFaults:
    return MachineFaults(vanished=frozenset(gpus))


def lost(gpu: int) -> MachineFaults:
    calls = []
    for call in ("nvmlDeviceGetMigMode", "nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState"):
        calls.append(CallFault(call=call, gpu=gpu, error=15))
    return MachineFaults(calls=tuple(calls))


def held_by_nouveau(raw: RawNode) -> RawNode:
    first, *others = raw.gpu_functions
    held = first._replace(driver="nouveau")
    gpus = []
    for gpu in raw.gpus:
        if gpu.pci != first.address:
            gpus.append(gpu)
    return raw._replace(
        gpus=tuple(gpus),
        gpu_functions=(held, *others),
    )


def two_devices_only(raw: RawNode) -> RawNode:
    visible = ("NVIDIA_VISIBLE_DEVICES", "0,1")
    return raw._replace(
        gpus=raw.gpus[:2],
        container=(visible,),
    )


def one_end_of_a_link_dead(raw: RawNode) -> RawNode:
    first, second, *others = raw.gpus
    link, *links = second.links
    dead_link = link._replace(state=0)
    half_dead = second._replace(links=(dead_link, *links))
    return raw._replace(gpus=(first, half_dead, *others))


def farther_apart(raw: RawNode) -> RawNode:
    """As if the firmware put the first GPU below another root."""
    first, *others = raw.gpu_functions
    _root, *path = first.path
    moved = first._replace(path=("pci0000:ff", *path))
    ancestors = []
    for ancestor in raw.ancestors:
        is_of_first = 0 in ancestor[:2]
        ancestors.append(ancestor._replace(level=50) if is_of_first else ancestor)
    return raw._replace(
        gpu_functions=(moved, *others),
        ancestors=tuple(ancestors),
    )


BAD_HEALTH = MachineFaults(fabric={2: {"health_mask": 1, "health_summary": 2}})


@dataclass(frozen=True)
class Wrong:
    """A shipped machine, and what is wrong with it."""

    profile: str
    faults: MachineFaults | None = None
    change: Change = unchanged


def links_down(gpu: int, *links: int) -> MachineFaults:
    """These links of a GPU, or all."""
    if not links:
        return MachineFaults(links_down={gpu: "all"})
    return MachineFaults(links_down={gpu: frozenset(links)})


BRIDGE = "rtx3090-2-nvlink"
TRAY = "gb200-nvl72-tray"


def on_every_gpu(answer: dict[str, int]) -> dict[int, Any]:
    """Each GPU of a tray answers so about its fabric."""
    return dict.fromkeys(range(4), answer)


NO_FABRIC = MachineFaults(fabric=on_every_gpu({"state": 0}))
LIMITED_CAPACITY = MachineFaults(fabric={2: {"health_mask": 0, "health_summary": 3}})
NO_LINKS = MachineFaults(links_down=dict.fromkeys(range(8), "all"))

SHOWN_BY_THE_PAST_ALONE = [
    pytest.param(Wrong(BRIDGE, change=one_end_of_a_link_dead), id="link-that-one-end-shows"),
    pytest.param(Wrong(BRIDGE, links_down(0, 3)), id="loose-bridge"),
]
SHOWN_AT_FIRST_SIGHT = [
    pytest.param(Wrong("hgx-h100-8", dead_gpus(5)), id="excluded-gpu"),
    pytest.param(Wrong("dgx-h200", dead_gpus(0, 7)), id="two-excluded-gpus"),
    pytest.param(Wrong("dgx-h200", MachineFaults(lost=frozenset({2}))), id="lost-gpu"),
    pytest.param(Wrong("dgx-a100", lost(4)), id="lost-gpu-that-answers"),
    pytest.param(Wrong("dgx1-v100", lost(0)), id="lost-gpu-of-a-mesh"),
    pytest.param(Wrong("l40s-4", change=held_by_nouveau), id="card-of-another-driver"),
    pytest.param(Wrong("l40s-4", change=two_devices_only), id="gpus-withheld-from-the-container"),
    pytest.param(Wrong("hgx-b200-8", links_down(2, 3)), id="dead-link-of-a-board"),
    pytest.param(Wrong("hgx-b200-8", links_down(2)), id="gpu-thrown-out-of-nvlink"),
    pytest.param(Wrong("hgx-h100-8", NO_LINKS), id="board-without-any-link"),
    pytest.param(Wrong("l40s-4", change=farther_apart), id="worse-path"),
    pytest.param(Wrong(TRAY, NO_FABRIC), id="fabric-down"),
    pytest.param(Wrong(TRAY, MachineFaults(fabric={1: {"state": 0}})), id="gpu-in-no-fabric"),
    pytest.param(Wrong(TRAY, MachineFaults(fabric={1: {"clique": 7}})), id="gpus-in-two-cliques"),
    pytest.param(Wrong(TRAY, MachineFaults(fabric={3: {"status": 999}})), id="failed-registration"),
    pytest.param(Wrong(TRAY, BAD_HEALTH), id="bad-fabric-health"),
    pytest.param(Wrong(TRAY, LIMITED_CAPACITY), id="limited-capacity"),
]


def assert_accepted(found: Description) -> None:
    """Nothing is wrong with it."""
    assert state(found) == "ok"
    assert reasons(found) == ()


@pytest.mark.regression
@pytest.mark.parametrize("wrong", SHOWN_AT_FIRST_SIGHT + SHOWN_BY_THE_PAST_ALONE)
def test_accepted_state_stays_accepted_until_it_healed(wrong: Wrong, tmp_path: Path) -> None:
    node = Watched(load_profile(wrong.profile), tmp_path)
    whole = node.look()
    assert state(whole) == "ok"
    degraded = node.look(wrong.faults, wrong.change)
    assert state(degraded) == "degraded"

    accepted = node.look(wrong.faults, wrong.change, accept=True)
    assert_accepted(accepted)
    later = node.look(wrong.faults, wrong.change)
    assert_accepted(later)
    assert later.annotations[REFERENCE] == accepted.annotations[REFERENCE]

    healed = node.look()
    assert healed.labels == whole.labels
    again = node.look(wrong.faults, wrong.change)
    assert state(again) == "degraded"
    assert reasons(again) == reasons(degraded)


@pytest.mark.parametrize("wrong", SHOWN_AT_FIRST_SIGHT)
def test_state_at_first_sight_is_accepted_too(wrong: Wrong, tmp_path: Path) -> None:
    node = Watched(load_profile(wrong.profile), tmp_path)
    node.look(wrong.faults, wrong.change)
    accepted = node.look(wrong.faults, wrong.change, accept=True)
    assert state(accepted) == "ok"
    later = node.look(wrong.faults, wrong.change)
    assert state(later) == "ok"


def test_fault_on_top_of_an_accepted_one_is_named_alone(tmp_path: Path) -> None:
    board = load_profile("hgx-h100-8")
    node = Watched(board, tmp_path)
    node.look(dead_gpus(5))
    node.look(dead_gpus(5), accept=True)
    dead_gpu_and_link = MachineFaults(
        vanished=frozenset({5}),
        links_down={2: frozenset({0})},
    )
    more = node.look(dead_gpu_and_link)
    assert reasons(more) == ("GPU 2: 17 of 18 NVLinks active",)

    two = node.look(dead_gpus(5, 6))
    address = board.gpus[6].function.address
    assert reasons(two) == (f"GPU {address} is on the PCI bus but not in NVML",)


def test_fewer_links_than_were_accepted_are_a_fault(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    one_dead = links_down(3, 5)
    two_dead = links_down(3, 5, 6)
    node.look(one_dead, accept=True)
    worse = node.look(two_dead)
    assert reasons(worse) == ("GPU 3: 16 of 17 NVLinks active",)


def test_accepted_link_that_heals_is_expected_from_then_on(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    one_dead = links_down(3, 5)
    two_dead = links_down(3, 5, 6)
    node.look(two_dead, accept=True)
    node.look(one_dead)
    worse = node.look(two_dead)
    assert reasons(worse) == ("GPU 3: 16 of 17 NVLinks active",)


def test_lost_gpu_missing_after_a_reboot_is_the_same_fault(tmp_path: Path) -> None:
    node = Watched(load_profile("dgx-h200"), tmp_path)
    node.look()
    node.look(lost(2), accept=True)
    rebooted = node.look(dead_gpus(2))
    assert state(rebooted) == "ok"


def test_removed_gpu_is_accepted(tmp_path: Path) -> None:
    whole = load_profile("l40s-4")
    whole_raw = probed(whole, tmp_path / "whole")
    before = describe(whole_raw, "n1")
    past = before.annotations[REFERENCE]
    fewer = replace(whole, gpus=whole.gpus[:3])
    raw = probed(fewer, tmp_path / "fewer")
    degraded = describe(raw, "n1", past)
    assert state(degraded) == "degraded"

    accepted = describe(raw, "n1", past, is_accepting=True)
    assert state(accepted) == "ok"
    later = describe(raw, "n1", accepted.annotations[REFERENCE])
    assert state(later) == "ok"


def test_another_product_starts_anew_and_nothing_is_accepted(tmp_path: Path) -> None:
    cards = Watched(load_profile("l40s-4"), tmp_path / "l40s")
    accepted = cards.look(dead_gpus(1), accept=True)
    past = accepted.annotations[REFERENCE]

    board = load_profile("dgx-h200")
    raw = probed(board, tmp_path / "h200", links_down(0, 1))
    found = describe(raw, "n1", past)
    assert reasons(found) == ("GPU 0: 17 of 18 NVLinks active",)
    baseline = json.loads(found.annotations[REFERENCE])
    assert "accepted" not in baseline


def test_accepted_fabric_fault_outlives_a_registration(tmp_path: Path) -> None:
    node = Watched(load_profile(TRAY), tmp_path)
    registering = MachineFaults(fabric=on_every_gpu({"state": 2}))
    node.look(BAD_HEALTH, accept=True)
    node.look(registering)
    registered = node.look(BAD_HEALTH)
    assert state(registered) == "ok"


@pytest.mark.parametrize(
    ("earlier_key", "fabric"),
    [
        pytest.param("fabric:1d3e5c5b", on_every_gpu({"state": 0}), id="fabric-down"),
        pytest.param("fabric:ac5dbebe", {1: {"state": 0}}, id="gpu-in-no-fabric"),
        pytest.param("fabric:5260bf11", {1: {"clique": 7}}, id="two-cliques"),
        pytest.param("fabric:4a999f0e", {3: {"status": 999}}, id="failed-registration"),
        pytest.param("fabric:b6c1de09", {2: {"health_mask": 1, "health_summary": 2}}, id="bad-health"),
        pytest.param("fabric:b442f2d5", {2: {"health_mask": 0, "health_summary": 3}}, id="limited-capacity"),
    ],
)
def test_fabric_fault_that_an_earlier_agent_accepted_stays_accepted(
    earlier_key: str, fabric: dict[int, Any], tmp_path: Path
) -> None:
    """By the key that earlier agents made of its words."""
    raw = probed(load_profile(TRAY), tmp_path, MachineFaults(fabric=fabric))
    accepting = describe(raw, "n1", is_accepting=True)
    baseline = json.loads(accepting.annotations[REFERENCE])
    (present_key,) = baseline["accepted"]
    assert present_key != earlier_key

    baseline["accepted"] = [earlier_key]
    past = json.dumps(baseline)
    found = describe(raw, "n1", past)
    assert_accepted(found)
    rewritten = json.loads(found.annotations[REFERENCE])
    assert rewritten["accepted"] == [present_key]


def test_unfinished_registration_is_named_though_accepted(tmp_path: Path) -> None:
    node = Watched(load_profile("gb200-nvl72-tray"), tmp_path)
    registering = MachineFaults(fabric={1: {"state": 2}})
    node.look(registering, accept=True)
    found = node.look(registering)
    assert state(found) == "unknown"
    assert reasons(found) == ("GPU 1: still registering with the NVLink fabric",)


def test_accepted_missing_gpu_outlives_a_probe_without_sysfs(tmp_path: Path) -> None:
    def without_bus(raw: RawNode) -> RawNode:
        return raw._replace(
            gpu_functions=(),
            switch_functions=(),
            is_bus_visible=False,
        )

    node = Watched(load_profile("hgx-h100-8"), tmp_path)
    missing = dead_gpus(5)
    node.look(missing, accept=True)
    node.look(missing, without_bus)
    later = node.look(missing)
    assert state(later) == "ok"


def test_excluded_gpu_is_the_same_after_buses_were_renumbered(tmp_path: Path) -> None:
    """The driver tells no UUID of it. A GPU that is missing where the baseline has another one is a fault."""
    board = load_profile("hgx-h100-8")
    excluded = board.gpus[5].function.address

    def elsewhere(raw: RawNode) -> RawNode:
        functions = []
        for function in raw.gpu_functions:
            address = "0001:8a:00.0" if function.address == excluded else function.address
            functions.append(function._replace(address=address))
        return raw._replace(gpu_functions=tuple(functions))

    node = Watched(board, tmp_path)
    node.look(dead_gpus(5), accept=True)
    renumbered = node.look(dead_gpus(5), elsewhere)
    assert state(renumbered) == "ok"
    later = node.look(dead_gpus(5), elsewhere)
    assert state(later) == "ok"
    more = node.look(dead_gpus(5, 6), elsewhere)
    assert len(reasons(more)) == 1


# A card that the driver ignores


def with_legacy_card(folder: Path) -> tuple[Machine, MachineFaults]:
    """A board of four, and a K80 die that a driver of today does not know."""
    node = machine(
        folder,
        A100,
        5,
        architecture="ampere",
        nvlink={"pairs": mesh(4, 4)},
    )
    *board, card = node.gpus
    legacy = replace(card, name="Tesla K80", links=())
    node = replace(node, gpus=(*board, legacy))
    return node, dead_gpus(4)


@pytest.mark.regression
def test_legacy_card_that_the_driver_ignores_is_accepted(tmp_path: Path) -> None:
    legacy, ignored = with_legacy_card(tmp_path)
    node = Watched(legacy, tmp_path)
    first = node.look(ignored)
    assert state(first) == "degraded"
    accepted = node.look(ignored, accept=True)
    assert state(accepted) == "ok"
    later = node.look(ignored)
    assert state(later) == "ok"

    dead_link_too = MachineFaults(
        vanished=frozenset({4}),
        links_down={0: frozenset({1})},
    )
    more = node.look(dead_link_too)
    for reason in reasons(more):
        assert "NVLinks active" in reason


def test_node_whose_only_card_is_ignored_is_accepted_as_one_without_gpus(tmp_path: Path) -> None:
    node = Watched(load_profile("t4-1"), tmp_path)
    ignored = dead_gpus(0)
    first = node.look(ignored)
    assert "0 GPUs" in first.problem

    accepted = node.look(ignored, accept=True)
    later = node.look(ignored)
    for found in (accepted, later):
        assert found.problem == ""
        assert found.labels.by_key == {}

    back = node.look()
    assert state(back) == "ok"
    again = node.look(ignored)
    assert "0 GPUs" in again.problem


def test_gpus_that_neither_nvml_nor_sysfs_shows_are_no_state_to_accept(tmp_path: Path) -> None:
    def without_bus(raw: RawNode) -> RawNode:
        return raw._replace(gpu_functions=(), is_bus_visible=False)

    node = Watched(load_profile("t4-1"), tmp_path)
    found = node.look(dead_gpus(0), without_bus, accept=True)
    assert "0 GPUs" in found.problem


def test_silent_driver_is_no_state_to_accept(tmp_path: Path) -> None:
    node = Watched(load_profile("l40s-4"), tmp_path)
    silent = MachineFaults(init_error=9)
    found = node.look(silent, accept=True)
    assert "NVML does not answer" in found.problem


# The running agent


def agent_of(node: Machine, folder: Path, faults: MachineFaults) -> SimulatedNode:
    agent = SimulatedNode(node, folder)
    agent.faults = faults
    agent.run(minutes=2)
    return agent


def test_flag_accepts_an_excluded_gpu_for_the_running_agent(tmp_path: Path) -> None:
    agent = agent_of(load_profile("hgx-h100-8"), tmp_path, dead_gpus(5))
    assert agent.state == "degraded"

    accepting = SimulatedNode(
        agent.machine,
        tmp_path,
        once=True,
        accept_degraded=True,
    )
    accepting.api.baseline = agent.api.baseline
    accepting.api.annotations = agent.api.annotations
    accepting.faults = agent.faults
    assert accepting.agent.sync()
    assert accepting.state == "ok"

    agent.api.baseline = accepting.api.baseline
    agent.run(minutes=10)
    assert agent.state == "ok"

    restarted = SimulatedNode(agent.machine, tmp_path)
    restarted.api = accepting.api
    restarted.faults = agent.faults
    restarted.run(minutes=2)
    assert accepting.state == "ok"


@pytest.mark.regression
@pytest.mark.parametrize(
    ("profile", "faults"),
    [
        pytest.param("hgx-h100-8", dead_gpus(5), id="excluded-gpu"),
        pytest.param("dgx-h200", links_down(3, 5), id="dead-link"),
        pytest.param(TRAY, BAD_HEALTH, id="bad-fabric-health"),
    ],
)
def test_deleted_baseline_accepts_the_present_state(profile: str, faults: MachineFaults, tmp_path: Path) -> None:
    agent = agent_of(load_profile(profile), tmp_path, faults)
    assert agent.state == "degraded"

    agent.api.baseline = None  # as the next read of the Node finds it
    agent.run(minutes=2)
    assert agent.state == "ok"
    agent.run(hours=1)
    assert agent.state == "ok"

    agent.faults = MachineFaults()
    agent.run(minutes=2)
    agent.faults = faults
    agent.run(minutes=2)
    assert agent.state == "degraded"


def test_node_that_was_never_labelled_has_nothing_to_accept(tmp_path: Path) -> None:
    nvlink = {
        "switched": 18,
        "inactive": dict.fromkeys(range(8), "all"),
    }
    node = machine(tmp_path, H100, 8, nvlink=nvlink, switches=4)
    agent = agent_of(node, tmp_path, MachineFaults())
    assert agent.state == "degraded"
    assert MATRIX in agent.api.annotations


def test_garbled_baseline_accepts_nothing(tmp_path: Path) -> None:
    agent = agent_of(load_profile("hgx-h100-8"), tmp_path, dead_gpus(5))
    agent.api.baseline = "garbled"
    agent.run(minutes=2)
    assert agent.state == "degraded"


def test_keys_of_accepted_faults_hold_no_indices(tmp_path: Path) -> None:
    """NVML numbers GPUs anew at a reboot, and closes the gap that a lost one leaves."""
    node = Watched(load_profile(TRAY), tmp_path)
    node.look(BAD_HEALTH, accept=True)

    def renumbered(raw: RawNode) -> RawNode:
        gpus = []
        for index, gpu in enumerate(reversed(raw.gpus)):
            gpus.append(gpu._replace(index=index))
        return raw._replace(gpus=tuple(gpus))

    later = node.look(BAD_HEALTH, renumbered)
    assert_accepted(later)
