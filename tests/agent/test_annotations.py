"""The agent's two annotations: the link matrix, and the best that a node has shown."""

import json
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered, probed
from toposcope.agent.annotation import LIMIT_BYTES, annotation_for
from toposcope.agent.baseline import Comparison, compare, decode, degradations, encode, observed
from toposcope.agent.describe import describe
from toposcope.api.label_keys import MATRIX, REFERENCE
from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.topology import NodeFault, NodeTopology, PathDispute, State
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile


def test_annotation_holds_devices_matrix_and_reasons(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    topology = topology._replace(reasons=("GPU 3: 17 of 18 NVLinks active",))
    document = json.loads(annotation_for(topology))
    assert document["version"] == 1
    assert document["gpus"][3]["pci"] == topology.gpus[3].pci
    assert document["nics"][1] == {"name": "mlx5_1", "pci": topology.nics[1].pci, "numa": 1}
    assert document["matrix"] == [
        "X",
        "NODE X",
        "SYS SYS X",
        "SYS SYS NODE X",
        "SYS SYS NODE NODE X",
        "SYS SYS NODE NODE PIX X",
    ]
    assert document["reasons"] == ["GPU 3: 17 of 18 NVLinks active"]


def written(topology: NodeTopology) -> Any:
    """The document of the node's annotation."""
    text = annotation_for(topology)
    return json.loads(text)


def test_faults_name_kind_and_gpu_beside_the_reasons(tmp_path: Path) -> None:
    machine = load_profile("dgx-h200")
    dead_link = MachineFaults(links_down={3: frozenset({17})})
    raw = probed(machine, tmp_path, dead_link)
    description = describe(raw, "n1")
    document = json.loads(description.annotations[MATRIX])
    assert document["reasons"] == ["GPU 3: 17 of 18 NVLinks active"]
    assert document["faults"] == [{"kind": "links-down", "gpu": 3}]


def test_reason_without_a_fault_has_none(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    healthy = written(topology)
    assert "faults" not in healthy

    note = "GPU 3: NVML does not say which NVLinks are up"
    noted = topology._replace(reasons=(note,))
    document = written(noted)
    assert document["faults"] == []


def test_faults_go_with_the_reasons_that_are_shown(tmp_path: Path) -> None:
    reasons = []
    faults = []
    for number in range(20):
        reasons.append(f"reason {number}")
        faults.append(NodeFault("links-down", number % 8))
    node = large_node(8, 2, tmp_path)
    node = node._replace(reasons=tuple(reasons), faults=tuple(faults))
    document = written(node)
    assert len(document["faults"]) == 15


@pytest.mark.parametrize(
    ("words", "has_faults"),
    [
        pytest.param(1, True, id="short-reasons"),
        pytest.param(30, False, id="long-reasons"),
    ],
)
def test_faults_are_the_first_to_make_room(words: int, has_faults: bool, tmp_path: Path) -> None:
    reasons = []
    faults = []
    for number in range(16):
        text = "long words " * words
        reasons.append(f"GPU {number}: {text}")
        faults.append(NodeFault("links-down", number))
    node = large_node(16, 18, tmp_path)
    node = node._replace(reasons=tuple(reasons), faults=tuple(faults))
    document = written(node)
    assert ("faults" in document) == has_faults
    assert len(document["reasons"]) == 16
    assert len(document["matrix"]) == 34


def large_node(gpus: int, nics: int, folder: Path) -> NodeTopology:
    """A node with this many GPUs and NICs, and a reason for each GPU."""
    base = discovered(load_profile("dgx-h200"), folder)
    gpu = base.gpus[0]._replace(rails=("mlx5_bond_10",))
    nic = base.nics[0]
    all_gpus = []
    reasons = []
    for i in range(gpus):
        all_gpus.append(gpu._replace(index=i))
        reasons.append(f"GPU {i}: 17 of 18 NVLinks active")
    all_nics = []
    for i in range(nics):
        all_nics.append(nic._replace(name=f"mlx5_bond_{i}"))
    return base._replace(
        gpus=tuple(all_gpus),
        nics=tuple(all_nics),
        matrix=large_matrix(gpus, nics),
        reasons=tuple(reasons),
    )


def large_matrix(gpus: int, nics: int) -> LinkMatrix:
    """NV18 from each device to each other."""
    names = [f"GPU{i}" for i in range(gpus)]
    names += [f"NIC{i}" for i in range(nics)]
    rows = []
    for i in range(len(names)):
        row = ["NV18"] * len(names)
        row[i] = "X"
        rows.append(tuple(row))
    return LinkMatrix(tuple(names), tuple(rows))


def test_huge_node_keeps_its_reasons(tmp_path: Path) -> None:
    huge = large_node(64, 128, tmp_path)
    text = annotation_for(huge)
    assert len(text.encode()) <= LIMIT_BYTES
    assert json.loads(text)["reasons"]


def hostile(topology: NodeTopology, text: str) -> NodeTopology:
    """The same node, with this in every name and reason."""
    gpus = []
    for gpu in topology.gpus:
        gpus.append(gpu._replace(uuid=f"GPU-{text}", rails=(text,)))
    nics = []
    for nic in topology.nics:
        nics.append(nic._replace(name=text))
    reasons = [f"{i} {text}" for i in range(40)]
    return topology._replace(
        gpus=tuple(gpus),
        nics=tuple(nics),
        reasons=tuple(reasons),
    )


def test_16_gpus_and_18_nics_keep_their_matrix_beside_long_reasons(tmp_path: Path) -> None:
    long_words = "long words " * 30
    reasons = [f"GPU {i}: {long_words}" for i in range(16)]
    node = large_node(16, 18, tmp_path)
    text = annotation_for(node._replace(reasons=tuple(reasons)))
    assert len(text.encode()) <= LIMIT_BYTES

    document = json.loads(text)
    assert len(document["matrix"]) == 34
    first = document["reasons"][0]
    assert first.startswith("GPU 0: long words")
    assert first.endswith("...")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\u2603" * 400, id="snowmen"),
        pytest.param("\x00\x1b\x7f" * 200, id="control-characters"),
        pytest.param('"\\' * 300, id="quotes"),
        pytest.param("\ufffd" * 64, id="replacement-characters"),
        pytest.param("\U0001f600" * 99, id="emoji"),
    ],
)
def test_hostile_names_and_reasons_stay_within_the_limit_and_ascii(text: str, tmp_path: Path) -> None:
    node = hostile(large_node(16, 18, tmp_path), text)
    value = annotation_for(node)
    assert len(value.encode()) <= LIMIT_BYTES
    assert value.isascii()

    reasons = json.loads(value)["reasons"]
    assert reasons[0].startswith("0 ")
    assert reasons[-1].startswith("and ")


def test_reasons_that_are_left_out_are_counted(tmp_path: Path) -> None:
    reasons = tuple(f"reason {i}" for i in range(20))
    node = large_node(8, 2, tmp_path)
    document = written(node._replace(reasons=reasons))
    shown = document["reasons"][14:]
    assert shown == ["reason 14", "and 5 more: see the agent's log"]


@pytest.mark.parametrize(
    ("disputes", "has_disputes"),
    [
        pytest.param(3, True, id="few"),
        pytest.param(120, False, id="many"),
    ],
)
def test_many_disputes_are_the_first_to_be_dropped(disputes: int, has_disputes: bool, tmp_path: Path) -> None:
    pairs = list(combinations(range(16), 2))
    paths = []
    for a, b in pairs[:disputes]:
        paths.append(PathDispute(f"GPU{b}", f"GPU{a}", "SYS", "NODE"))
    node = large_node(16, 18, tmp_path)
    text = annotation_for(node._replace(disputes=tuple(paths)))
    assert len(text.encode()) <= LIMIT_BYTES

    document = json.loads(text)
    assert ("disputes" in document) == has_disputes
    assert len(document["matrix"]) == 34
    assert {"gpus", "nics", "reasons"} <= document.keys()


# The baseline: what is wrong with a node by the best that it has shown

BRIDGE = "rtx3090-2-nvlink"
FOUR_CARDS = "l40s-4"
LOOSE_BRIDGE = MachineFaults(links_down={0: frozenset({3})})
"""Both cards have three of four links then: nothing on the node shows that there were more."""


class Remembered:
    """A node whose agent remembers the baseline of the look before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looks = 0
        self.baseline: str | None = None

    def look(self, machine: Machine, faults: MachineFaults | None = None) -> NodeTopology:
        """What its agent finds of this machine, which must agree with the state."""
        self._looks += 1
        raw = probed(machine, self._folder / str(self._looks), faults)
        description = describe(raw, "n1", self.baseline)
        self.baseline = description.annotations[REFERENCE]
        topology = description.topology
        assert topology
        assert topology.state is (State.DEGRADED if topology.reasons else State.OK)
        return topology


@pytest.fixture
def node(tmp_path: Path) -> Remembered:
    return Remembered(tmp_path)


def test_badly_seated_bridge_shows_only_against_the_past(node: Remembered) -> None:
    bridge = load_profile(BRIDGE)
    seated = node.look(bridge)
    assert seated.reasons == ()

    loose = node.look(bridge, LOOSE_BRIDGE)
    assert loose.reasons == (
        "GPU 0: 3 of 4 NVLinks active",
        "GPU 1: 3 of 4 NVLinks active",
    )


def test_repaired_node_is_ok_again_and_keeps_its_baseline(node: Remembered) -> None:
    bridge = load_profile(BRIDGE)
    whole = node.look(bridge)
    assert whole.reasons == ()
    baseline = node.baseline

    broken = node.look(bridge, MachineFaults(links_down={0: "all"}))
    assert broken.reasons == (
        "GPU 0: 0 of 4 NVLinks active",
        "GPU 1: 0 of 4 NVLinks active",
    )
    assert node.baseline == baseline

    repaired = node.look(bridge)
    assert repaired.reasons == ()
    assert node.baseline == baseline


def test_first_look_is_the_baseline(node: Remembered) -> None:
    bridge = load_profile(BRIDGE)
    first = node.look(bridge, LOOSE_BRIDGE)
    assert first.reasons == ()
    baseline = node.baseline

    second = node.look(bridge, LOOSE_BRIDGE)
    assert second.reasons == ()
    assert node.baseline == baseline


def test_gpu_gone_from_the_bus_is_named(node: Remembered) -> None:
    cards = load_profile(FOUR_CARDS)
    whole = node.look(cards)
    assert whole.reasons == ()

    *others, last = cards.gpus
    fewer = node.look(replace(cards, gpus=tuple(others)))
    address = last.function.address
    assert fewer.reasons == (f"GPU {address} is missing, but was here before",)


def test_gpu_that_the_bus_still_shows_is_named_once(node: Remembered) -> None:
    cards = load_profile(FOUR_CARDS)
    whole = node.look(cards)
    assert whole.reasons == ()

    address = cards.gpus[3].function.address
    lost = node.look(cards, MachineFaults(lost=frozenset({3})))
    assert lost.reasons == (f"GPU {address} is on the PCI bus but not in NVML: GPU is lost",)


def test_other_hardware_starts_a_new_baseline(node: Remembered) -> None:
    bridge = node.look(load_profile(BRIDGE))
    assert bridge.reasons == ()
    cards = node.look(load_profile(FOUR_CARDS))
    assert cards.reasons == ()


def test_worse_path_is_reported_with_what_it_was(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    past = observed(topology)
    first, second, *_others = topology.gpus
    pair = first.pci, second.pci
    nearer = past._replace(paths={**past.paths, pair: "PIX"})
    (fault,) = degradations(Comparison(nearer, ()), topology)
    assert fault.sentence == "GPU 0 to GPU 1: NODE, was PIX"


def test_renumbered_buses_are_the_same_machine(tmp_path: Path) -> None:
    """An annotation of an earlier agent tells GPUs by their addresses only."""
    topology = discovered(load_profile("l40s-4"), tmp_path)
    today = observed(topology)
    links = {}
    for address, link_count in today.links.items():
        links[f"1{address}"] = link_count
    moved = today._replace(links=links, paths={}, uuids={})
    assert compare(moved, topology, absent=()) == Comparison(today, ())


@pytest.mark.parametrize("profile", ["dgx2", "t4-1", "dgx1-v100", "rtx4090-5-mixed"])
def test_baseline_reads_back(profile: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    past = observed(topology)
    text = encode(past)
    assert decode(text) == past
    assert len(text) < 4096


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("null", id="null"),
        pytest.param("{", id="cut-off"),
        pytest.param("[]", id="list"),
        pytest.param('{"version":2,"product":null,"gpus":{},"paths":[]}', id="another-version"),
        pytest.param('{"version":1,"product":null,"gpus":{"a":1},"paths":[]}', id="paths-missing"),
        pytest.param('{"version":1,"product":null,"gpus":{"a":"many"},"paths":["X"]}', id="links-no-number"),
        pytest.param('{"version":1,"product":null,"gpus":{"a":1},"paths":["X X"]}', id="paths-too-many"),
        pytest.param('{"version":1,"product":null,"gpus":{"\\ud800":1},"paths":["X"]}', id="surrogate"),
        pytest.param('{"version":true,"product":null,"gpus":{},"paths":[]}', id="version-no-number"),
        pytest.param("[" * 16000, id="deep"),
        pytest.param("x" * 20000, id="long"),
        pytest.param("\0\u2603", id="no-json"),
    ],
)
def test_annotation_of_another_format_is_no_baseline(text: str | None) -> None:
    assert decode(text) is None


def test_garbled_baseline_never_raises(tmp_path: Path) -> None:
    topology = discovered(load_profile("dgx-h200"), tmp_path)
    text = encode(observed(topology))
    rng = random.Random(5)
    for _ in range(500):
        garbled = list(text)
        for _ in range(rng.randrange(1, 6)):
            character = chr(rng.randrange(32, 127))
            garbled[rng.randrange(len(garbled))] = character
        decode("".join(garbled))
        cut = rng.randrange(len(text))
        decode(text[:cut])
