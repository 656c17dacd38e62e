"""Profiles are strict: an error names file, field and fix."""

import re
from pathlib import Path
from textwrap import indent

import pytest
from tests.support.paths import DOCUMENTS
from toposcope.simulator.faults import CallFault, FaultError, load_faults
from toposcope.simulator.machine import Machine, Remote
from toposcope.simulator.profile import ProfileError, load_profile, profile_names

GOOD = (DOCUMENTS / "simulator" / "bench.yaml").read_text(encoding="utf-8")
FAULTS = """\
init_error: 9
lost: [1]
links_down: {0: [3], 1: all}
fabric: {0: {state: 2}}
calls:
- {call: nvmlDeviceGetName, gpu: 1, error: 15}
- {call: nvmlDeviceGetCount, hang: true}
"""


def load(folder: Path, text: str) -> Machine:
    file = folder / "bench.yaml"
    file.write_text(text)
    return load_profile(file)


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_are_named_after_their_file_and_described(name: str) -> None:
    machine = load_profile(name)
    assert machine.name == name
    assert machine.description
    assert machine.notes == ()
    addresses = {function.address for function in machine.functions}
    assert len(addresses) == len(machine.functions)


def test_profile_gives_the_same_machine_every_time() -> None:
    assert load_profile("dgx-h200") == load_profile("dgx-h200")


def test_rest_of_the_ports_is_inactive(tmp_path: Path) -> None:
    text = GOOD.replace("links: 4}", "links: 4, inactive: {1: [0]}}")
    machine = load(tmp_path, text)
    for gpu in machine.gpus:
        inactive, active, *rest = gpu.links
        assert not inactive.is_active
        assert active.is_active
        assert [link.is_active for link in rest] == [False, False]
    assert len(machine.gpus) == 2
    assert [link.remote for link in machine.gpus[0].links] == [
        Remote.GPU,
        Remote.GPU,
        Remote.UNKNOWN,
        Remote.UNKNOWN,
    ]


@pytest.mark.parametrize(
    ("good", "mistake", "message"),
    [
        pytest.param("name: bench", "", "bench.yaml: `name` is missing", id="name-missing"),
        pytest.param("name: bench", "nmae: bench", "bench.yaml: unknown field `nmae`", id="name-misspelt"),
        pytest.param("driver:", "colour: red\ndriver:", "bench.yaml: unknown field `colour`", id="unknown-field"),
        pytest.param(
            'driver: "570.86.15"', "driver: 570.86", "bench.yaml: driver: is `float`, write text", id="driver-a-number"
        ),
        pytest.param(
            'driver: "570.86.15"', 'driver: "latest"', "not a driver version; write one such as", id="driver-no-version"
        ),
        pytest.param('numa: {0: "0-3", 1: "4-7"}', "numa: {}", "numa: give at least one node with CPUs", id="no-nodes"),
        pytest.param(
            '1: "4-7"', "1: 4", 'numa[...]: is 4, write a quoted list such as "0-31,64-95"', id="cpus-a-number"
        ),
        pytest.param('1: "4-7"', '1: "7-4"', "numa[...]: not a kernel list: '7-4'", id="cpus-no-list"),
        pytest.param('1: "4-7"', '1: "3-7"', "numa: a CPU is on two nodes", id="cpu-on-two-nodes"),
        pytest.param(
            "numa: {0:",
            'memory_nodes: "1-2"\nnuma: {0:',
            "memory_nodes: names a node that has CPUs",
            id="memory-node-with-cpus",
        ),
        pytest.param(
            "numa: {0:",
            "sockets: 3\nnuma: {0:",
            "sockets: is 3, write a number from 1 to the 2 nodes",
            id="too-many-sockets",
        ),
        pytest.param(
            "numa: {0:", "distances: [[10]]\nnuma: {0:", "distances: write 2 lists of 2 numbers", id="distances-too-few"
        ),
        pytest.param(
            "architecture: hopper",
            "architecture: copper",
            "gpus.architecture: 'copper' is not one of kepler",
            id="unknown-architecture",
        ),
        pytest.param("count: 2", "count: two", "gpus.count: is `str`, write a whole number", id="count-a-word"),
        pytest.param("count: 2", "count: true", "gpus.count: is `bool`, write a whole number", id="count-a-bool"),
        pytest.param(
            "pci_id: 0x2330",
            "pci_id: 0x2330, modules: [1]",
            "gpus: modules: has 1 entries, write one for each of the 2",
            id="too-few-modules",
        ),
        pytest.param(
            "pci_id: 0x2330",
            "pci_id: 0x2330, memory_nodes: [2, 3]",
            "memory_nodes: names a NUMA node that is not there",
            id="memory-node-missing",
        ),
        pytest.param(
            "pci_id: 0x2330",
            "pci_id: 0x2330, boards: [[0, 2]]",
            "boards: write each GPU below 2 on one board",
            id="board-of-a-missing-gpu",
        ),
        pytest.param(
            "pci_id: 0x2330",
            "pci_id: 0x2330, mig: {0: 8}",
            "gpus.mig[...]: write a whole number <= 7",
            id="too-many-mig-devices",
        ),
        pytest.param(
            "pci_id: 0x1021}",
            "pci_id: 0x1021, state: UP}",
            "nics[0].state: 'UP' is not one of ACTIVE, DOWN",
            id="nic-state-unknown",
        ),
        pytest.param(
            "[mlx5_0], pci_id", "[../up], pci_id", "nics[0]: names: '../up' is not a device name", id="nic-name-a-path"
        ),
        pytest.param("[mlx5_0], pci_id", "[mlx5_0, mlx5_0], pci_id", "nics: mlx5_0 appears twice", id="nic-twice"),
        pytest.param(
            "pci_id: 0x1021}",
            "pci_id: 0x1021, physfn: mlx5_7}",
            "mlx5_7 is not a physical NIC",
            id="physical-function-missing",
        ),
        pytest.param(
            "{numa: 1, ports",
            "{numa: 2, ports",
            "pci[1].numa: NUMA node 2 does not exist; declare it",
            id="node-missing",
        ),
        pytest.param(
            "ports: [gpu1]",
            "ports: [gpu2]",
            "pci: gpu2 is not a GPU, NIC, Data Direct function or NVSwitch of this file",
            id="gpu-missing",
        ),
        pytest.param("ports: [gpu1]", "ports: [gpu1, gpu0]", "pci: gpu0 appears in the tree twice", id="gpu-twice"),
        pytest.param("ports: [gpu1]", "ports: []", "pci: gpu1 is not in the tree", id="gpu-without-place"),
        pytest.param("ports: [gpu1]", "ports: [1]", "pci[1].ports[0]: is 1, write a device name", id="port-a-number"),
        pytest.param(
            "{numa: 0, ports", '{numa: 0, bus: "17", ports', "pci: bus '17': write domain and bus", id="bus-malformed"
        ),
        pytest.param(
            "{numa: 1, ports", '{numa: 1, bus: "0000:00", ports', "pci: bus 0000:00: already used", id="bus-twice"
        ),
        pytest.param(
            "ports: [gpu1]",
            "ports: [[gpu1" + 33 * ", mlx5_0" + "]]",
            "appears in the tree twice",
            id="nic-twice-in-the-tree",
        ),
        pytest.param(
            "[[0, 1, 2]]", "[[0, 1]]", "nvlink.pairs[0]: Expected `array` of length 3, got 2", id="pair-without-links"
        ),
        pytest.param(
            "[[0, 1, 2]]",
            "[[0, 2, 2]]",
            "nvlink: pairs: no direct link can join GPU 0 and GPU 2 of 2",
            id="pair-of-a-missing-gpu",
        ),
        pytest.param("links: 4", "links: 99999999", "nvlink.links: write a whole number <= 64", id="too-many-links"),
        pytest.param(
            "links: 4", "links: 1", "nvlink: links: 2 are wired but each GPU has 1 ports", id="fewer-links-than-wired"
        ),
        pytest.param(
            "links: 4", "inactive: {0: [9]}", "nvlink: inactive: GPU 0 has no such link", id="inactive-link-missing"
        ),
        pytest.param(
            "links: 4",
            "inactive: {0: some}",
            "nvlink.inactive[...]: 'some' is not a value of this field",
            id="inactive-links-a-word",
        ),
        pytest.param(
            "nvlink:",
            "fabric: {state: done}\nnvlink:",
            "fabric.state: 'done' is not one of not-supported",
            id="fabric-state-unknown",
        ),
        pytest.param(
            "nvlink:",
            "fabric: {state: completed, cluster_uuid: abc}\nnvlink:",
            "fabric.cluster_uuid: Invalid UUID",
            id="cluster-uuid-malformed",
        ),
        pytest.param("nvlink:", "fabric: done\nnvlink:", "fabric: is `str`, write a mapping", id="fabric-a-word"),
        pytest.param(
            "nvlink:",
            "faults: {lost: [2]}\nnvlink:",
            "faults: GPU 2 is not there; the GPUs are 0 to 1",
            id="fault-of-a-missing-gpu",
        ),
        pytest.param(
            "nvlink:",
            "platform: {chassis: a-far-too-long-serial, slot: 1, tray: 1, host: 1, peer_type: 1}\nnvlink:",
            "chassis: 'a-far-too-long-serial' is longer than 16 bytes",
            id="chassis-too-long",
        ),
        pytest.param(
            "nvlink:",
            "platform: {chassis: a, slot: 256, tray: 1, host: 1, peer_type: 1}\nnvlink:",
            "platform.slot: write a whole number <= 255",
            id="slot-too-large",
        ),
        pytest.param("name: bench", "name: [", "bench.yaml, line 3: not YAML: did not find expected", id="no-yaml"),
    ],
)
def test_error_names_the_field_and_the_fix(good: str, mistake: str, message: str, tmp_path: Path) -> None:
    assert good in GOOD
    text = GOOD.replace(good, mistake, 1)
    with pytest.raises(ProfileError, match=re.escape(message)):
        load(tmp_path, text)


def test_too_many_ports_on_one_bus_are_refused(tmp_path: Path) -> None:
    names = []
    for number in range(33):
        names.append(f"mlx5_{number}")
    nics = ", ".join(names)
    named = GOOD.replace("[mlx5_0]", f"[{nics}]")
    text = named.replace("gpu0, mlx5_0", f"gpu0, {nics}")
    with pytest.raises(ProfileError, match="more than 32 ports on one bus"):
        load(tmp_path, text)


def test_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(ProfileError, match=r"dgx-h300: neither a profile file nor a shipped profile; .*dgx-h200"):
        load_profile("dgx-h300")


def test_faults_come_with_a_profile_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(FAULTS)
    faults = load_faults(file)
    profile = GOOD + "faults:\n" + indent(FAULTS, "  ")
    machine = load(tmp_path, profile)
    assert machine.faults == faults

    assert faults.init_error == 9
    assert faults.lost == {1}
    name, count = faults.calls
    assert name == CallFault("nvmlDeviceGetName", 15, 1)
    assert count == CallFault("nvmlDeviceGetCount", hang=True)
    assert faults.is_link_down(0, 3)
    assert not faults.is_link_down(0, 2)
    assert faults.is_link_down(1, 2)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("lots: [1]", "faults.yaml: unknown field `lots`", id="unknown-field"),
        pytest.param("lost: 1", "faults.yaml: lost: is `int`, write a list", id="no-list"),
        pytest.param("- lost", "faults.yaml: is `array`, write a mapping", id="no-mapping"),
        pytest.param("calls: [{call: nvmlInit}]", "calls[0]: give exactly one of", id="no-way-to-fail"),
        pytest.param(
            "calls: [{call: nvmlInit, hang: true, crash: true}]", "calls[0]: give exactly one of", id="two-ways-to-fail"
        ),
        pytest.param("calls: [{call: nvmlInit, field: 91, error: 3}]", "calls[0]: field: goes with", id="field"),
        pytest.param("fabric: {0: {colour: 1}}", "'colour' is not a value of this field", id="unknown-fabric-field"),
    ],
)
def test_wrong_fault_file_names_the_field_and_the_fix(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    with pytest.raises(FaultError, match=re.escape(message)):
        load_faults(file)
