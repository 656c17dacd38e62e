"""Profiles are strict: an error names file, field and fix."""

import re
from pathlib import Path

import pytest

from toposcope.simulator.faults import CallFault, FaultError, Misbehaviour, load_faults
from toposcope.simulator.machine import Remote
from toposcope.simulator.profile import ProfileError, load_profile, profile_names

GOOD = """
name: bench
description: two GPUs and a NIC
driver: "570.86.15"
numa: {0: "0-3", 1: "4-7"}
gpus: {count: 2, architecture: hopper, pci_id: 0x2330}
nics:
  - {names: [mlx5_0], pci_id: 0x1021}
pci:
  - {numa: 0, ports: [[gpu0, mlx5_0]]}
  - {numa: 1, ports: [gpu1]}
nvlink: {version: "4.0", mbps: 26562, pairs: [[0, 1, 2]], links: 4}
"""


def load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(text)
    load_profile(file)


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_are_named_after_their_file_and_described(name: str) -> None:
    machine = load_profile(name)
    assert machine.name == name
    assert machine.description
    assert machine.notes == ()
    assert len({function.address for function in machine.functions}) == len(machine.functions)


def test_a_profile_gives_the_same_machine_every_time() -> None:
    assert load_profile("dgx-h200") == load_profile("dgx-h200")


def test_the_rest_of_the_ports_is_inactive(tmp_path: Path) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(GOOD.replace("links: 4}", "links: 4, inactive: {1: [0]}}"))
    first, second = load_profile(file).gpus
    assert [link.active for link in first.links] == [False, True, False, False]
    assert [link.active for link in second.links] == [False, True, False, False]
    assert [link.remote for link in first.links] == [Remote.GPU, Remote.GPU, Remote.UNKNOWN, Remote.UNKNOWN]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: bench", "nmae: bench", "bench.yaml: name: is missing"),
        ("driver:", "colour: red\ndriver:", "bench.yaml: colour: unknown field; known here:"),
        ('driver: "570.86.15"', "driver: 570.86", "bench.yaml: driver: is 570.86 (float), write text"),
        ('driver: "570.86.15"', 'driver: "latest"', "not a driver version; write one such as"),
        ('numa: {0: "0-3", 1: "4-7"}', "numa: {}", "numa: give at least one node with CPUs"),
        ('1: "4-7"', "1: 4", 'numa.1: is 4, write a quoted list such as "0-31,64-95"'),
        ('1: "4-7"', '1: "7-4"', "numa.1: not a kernel list"),
        ('1: "4-7"', '1: "3-7"', "numa: a CPU is on two nodes"),
        ("numa: {0:", 'memory_nodes: "1-2"\nnuma: {0:', "memory_nodes: names a node that has CPUs"),
        ("numa: {0:", "sockets: 3\nnuma: {0:", "sockets: is 3, write a number from 1 to the 2 nodes"),
        ("numa: {0:", "distances: [[10]]\nnuma: {0:", "distances: write 2 lists of 2 numbers"),
        ("architecture: hopper", "architecture: copper", "gpus: architecture: 'copper' is not one of kepler"),
        ("count: 2", "count: two", "gpus: count: is 'two' (str), write a whole number"),
        ("count: 2", "count: true", "gpus: count: is True (bool), write a whole number"),
        ("pci_id: 0x2330", "pci_id: 0x2330, modules: [1]", "gpus: modules: has 1 entries, write one for each of the 2"),
        ("pci_id: 0x2330", "pci_id: 0x2330, memory_nodes: [2, 3]", "memory_nodes: names a NUMA node that is not there"),
        ("pci_id: 0x2330", "pci_id: 0x2330, boards: [[0, 2]]", "boards: write each GPU below 2 on one board"),
        ("pci_id: 0x2330", "pci_id: 0x2330, mig: {0: 8}", "mig.0: write GPU numbers below 2 with 1 to 7 MIG devices"),
        ("pci_id: 0x1021}", "pci_id: 0x1021, state: UP}", "nics[0]: state: 'UP' is not one of ACTIVE, DOWN"),
        ("[mlx5_0], pci_id", "[../up], pci_id", "nics[0]: names: '../up' is not a device name"),
        ("[mlx5_0], pci_id", "[mlx5_0, mlx5_0], pci_id", "nics[0]: names: mlx5_0 is there twice"),
        ("pci_id: 0x1021}", "pci_id: 0x1021, physfn: mlx5_7}", "mlx5_7 is not a physical NIC"),
        ("{numa: 1, ports", "{numa: 2, ports", "pci[1]: numa: NUMA node 2 does not exist; declare it"),
        ("ports: [gpu1]", "ports: [gpu2]", "pci: gpu2 is not a GPU, NIC or NVSwitch of this file"),
        ("ports: [gpu1]", "ports: [gpu1, gpu0]", "pci: gpu0 stands in the tree twice"),
        ("ports: [gpu1]", "ports: []", "pci: gpu1 has no place in the tree"),
        ("ports: [gpu1]", "ports: [1]", "pci[1]: ports[0]: is 1, write a device name"),
        ("{numa: 0, ports", '{numa: 0, bus: "17", ports', "pci: bus '17': write domain and bus"),
        ("{numa: 1, ports", '{numa: 1, bus: "0000:00", ports', "pci: bus 0000:00: already used"),
        ("ports: [gpu1]", f"ports: [[{', '.join(['gpu1'] + ['mlx5_0'] * 33)}]]", "stands in the tree twice"),
        ("[[0, 1, 2]]", "[[0, 1]]", "nvlink: pairs: write triples"),
        ("[[0, 1, 2]]", "[[0, 2, 2]]", "nvlink: pairs: no direct link can join GPU 0 and GPU 2 of 2"),
        ("links: 4", "links: 99999999", "nvlink: links: is more than 64"),
        ("links: 4", "links: 1", "nvlink: links: 2 are wired but each GPU has 1 ports"),
        ("links: 4", "inactive: {0: [9]}", "nvlink: inactive: GPU 0 has no such link"),
        ("links: 4", "inactive: {0: some}", "inactive.0: is 'some', write a list of link numbers or `all`"),
        ("nvlink:", "fabric: {state: done}\nnvlink:", "fabric: state: 'done' is not one of not-supported"),
        ("nvlink:", "fabric: {state: completed, cluster_uuid: abc}\nnvlink:", "cluster_uuid: 'abc' is not a UUID"),
        ("nvlink:", "fabric: done\nnvlink:", "fabric: is 'done' (str), write a mapping"),
        ("nvlink:", "faults: {lost: [2]}\nnvlink:", "faults: GPU 2 is not there; the GPUs are 0 to 1"),
        (
            "nvlink:",
            "platform: {chassis: a-far-too-long-serial, slot: 1, tray: 1, host: 1, peer_type: 1}\nnvlink:",
            "chassis: 'a-far-too-long-serial' is longer than 16 bytes",
        ),
        (
            "nvlink:",
            "platform: {chassis: a, slot: 256, tray: 1, host: 1, peer_type: 1}\nnvlink:",
            "platform: slot: 256 does not fit one byte",
        ),
        ("name: bench", "name: [", "bench.yaml, line 4: not YAML: did not find expected"),
    ],
)
def test_an_error_names_the_field_and_the_fix(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(ProfileError, match=re.escape(says)):
        load(tmp_path, GOOD.replace(old, new, 1))


def test_too_many_ports_on_one_bus(tmp_path: Path) -> None:
    nics = [f"mlx5_{i}" for i in range(33)]
    text = GOOD.replace("[mlx5_0]", f"[{', '.join(nics)}]").replace("gpu0, mlx5_0", f"gpu0, {', '.join(nics)}")
    with pytest.raises(ProfileError, match="more than 32 ports on one bus"):
        load(tmp_path, text)


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(ProfileError, match=r"dgx-h300: neither a profile file nor a shipped profile; .*dgx-h200"):
        load_profile("dgx-h300")


def test_faults_come_with_a_profile_or_from_a_file(tmp_path: Path) -> None:
    text = (
        "init_error: 9\nlost: [1]\nlinks_down: {0: [3], 1: all}\nfabric: {0: {state: 2}}\n"
        "calls: [{call: nvmlDeviceGetName, gpu: 1, error: 15}, {call: nvmlDeviceGetCount, hang: true}]\n"
    )
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    faults = load_faults(file)
    profile = tmp_path / "bench.yaml"
    profile.write_text(GOOD + "faults:\n" + "".join(f"  {line}\n" for line in text.splitlines()))
    assert load_profile(profile).faults == faults
    assert faults.calls == (CallFault("nvmlDeviceGetName", 15, 1), CallFault("nvmlDeviceGetCount", Misbehaviour.HANG))
    assert (faults.link_down(0, 3), faults.link_down(0, 2), faults.link_down(1, 2)) == (True, False, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lots: [1]", "faults.yaml: lots: unknown field"),
        ("lost: 1", "faults.yaml: lost: is 1 (int), write a list of whole numbers"),
        ("- lost", "faults.yaml: is ['lost'] (list), write a mapping"),
        ("calls: [{call: nvmlInit}]", "calls[0]: error: give exactly one of"),
        ("calls: [{call: nvmlInit, hang: true, crash: true}]", "calls[0]: error: give exactly one of"),
        ("fabric: {0: {colour: 1}}", "fabric.0: colour: unknown field"),
    ],
)
def test_a_wrong_fault_file(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    with pytest.raises(FaultError, match=re.escape(says)):
        load_faults(file)
