"""The agent's two annotations: the link matrix, and the best that a node has shown."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.machines import discovered, probed
from tests.support.tables import each_case, each_row
from toposcope.agent.annotation import LIMIT, annotation_for
from toposcope.agent.baseline import Comparison, compare, decode, degradations, encode, observed
from toposcope.agent.describe import describe
from toposcope.api.label_keys import REFERENCE
from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.topology import NodeFault, NodeTopology, PathDispute, State
from toposcope.simulator.faults import Faults
from toposcope.simulator.profile import load_profile


def test_it_holds_devices_matrix_and_reasons(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    document = json.loads(annotation_for(topology._replace(reasons=("GPU 3: 17 of 18 NVLinks active",))))
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


def test_faults_say_to_programs_what_the_reasons_are_about(tmp_path: Path) -> None:
    raw = probed(load_profile("dgx-h200"), tmp_path, Faults(links_down={3: frozenset({17})}))
    description = describe(raw, "n")
    document = json.loads(description.annotations["gpu.topology/matrix"])
    assert document["reasons"] == ["GPU 3: 17 of 18 NVLinks active"]
    assert document["faults"] == [{"kind": "links-down", "gpu": 3}]


def test_a_reason_that_is_no_fault_has_none(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    noted = topology._replace(reasons=("GPU 3: NVML does not say which NVLinks are up",))
    assert json.loads(annotation_for(noted))["faults"] == []
    assert "faults" not in json.loads(annotation_for(topology))


def test_faults_go_with_the_reasons_that_are_shown(tmp_path: Path) -> None:
    base = machine(8, 2, tmp_path)
    faults = tuple(NodeFault("links-down", number % 8) for number in range(20))
    many = base._replace(reasons=tuple(f"reason {number}" for number in range(20)), faults=faults)
    assert len(json.loads(annotation_for(many))["faults"]) == 15


def test_faults_make_room_first(tmp_path: Path) -> None:
    base = machine(16, 18, tmp_path)
    faults = tuple(NodeFault("links-down", number) for number in range(16))
    for length, kept in ((1, True), (30, False)):
        reasons = tuple(f"GPU {number}: " + "long words " * length for number in range(16))
        document = json.loads(annotation_for(base._replace(reasons=reasons, faults=faults)))
        assert ("faults" in document, len(document["reasons"]), len(document["matrix"])) == (kept, 16, 34)


def machine(gpus: int, nics: int, folder: Path) -> NodeTopology:
    base = discovered(load_profile("dgx-h200"), folder)
    names = tuple(f"GPU{i}" for i in range(gpus)) + tuple(f"NIC{i}" for i in range(nics))
    cells = tuple(tuple("X" if i == j else "NV18" for j in range(len(names))) for i in range(len(names)))
    return base._replace(
        gpus=tuple(base.gpus[0]._replace(index=i, rails=("mlx5_bond_10",)) for i in range(gpus)),
        nics=tuple(base.nics[0]._replace(name=f"mlx5_bond_{i}") for i in range(nics)),
        matrix=LinkMatrix(names, cells),
        reasons=tuple(f"GPU {i}: 17 of 18 NVLinks active" for i in range(gpus)),
    )


def test_a_huge_node_keeps_its_reasons(tmp_path: Path) -> None:
    text = annotation_for(machine(64, 128, tmp_path))
    assert len(text.encode()) <= LIMIT
    assert json.loads(text)["reasons"]


def hostile(topology: NodeTopology, text: str) -> NodeTopology:
    """The same node, with this in every name and reason."""
    return topology._replace(
        gpus=tuple(gpu._replace(uuid=f"GPU-{text}", rails=(text,)) for gpu in topology.gpus),
        nics=tuple(nic._replace(name=text) for nic in topology.nics),
        reasons=tuple(f"{i} {text}" for i in range(40)),
    )


def test_16_gpus_and_18_nics_keep_their_matrix_beside_long_reasons(tmp_path: Path) -> None:
    base = machine(16, 18, tmp_path)
    text = annotation_for(base._replace(reasons=tuple(f"GPU {i}: " + "long words " * 30 for i in range(16))))
    document = json.loads(text)
    assert len(text.encode()) <= LIMIT
    assert len(document["matrix"]) == 34
    assert document["reasons"][0].startswith("GPU 0: long words")
    assert document["reasons"][0].endswith("...")


@pytest.mark.parametrize("text", ["\u2603" * 400, "\x00\x1b\x7f" * 200, '"\\' * 300, "\ufffd" * 64, "\U0001f600" * 99])
def test_hostile_names_and_reasons_stay_within_the_limit_and_ascii(text: str, tmp_path: Path) -> None:
    value = annotation_for(hostile(machine(16, 18, tmp_path), text))
    assert len(value.encode()) <= LIMIT
    assert value.isascii()
    reasons = json.loads(value)["reasons"]
    assert reasons[0].startswith("0 ")
    assert reasons[-1].startswith("and ")


def test_reasons_that_are_left_out_are_counted(tmp_path: Path) -> None:
    base = machine(8, 2, tmp_path)
    reasons = json.loads(annotation_for(base._replace(reasons=tuple(f"reason {i}" for i in range(20)))))["reasons"]
    assert reasons[14:] == ["reason 14", "and 5 more: see the agent's log"]


def test_16_gpus_and_18_nics_fit_with_everything_and_many_disputes_are_dropped_first(tmp_path: Path) -> None:
    base = machine(16, 18, tmp_path)
    disputes = tuple(PathDispute(f"GPU{i}", f"GPU{j}", "SYS", "NODE") for i in range(16) for j in range(i))
    for few, kept in ((3, True), (len(disputes), False)):
        text = annotation_for(base._replace(disputes=disputes[:few]))
        document = json.loads(text)
        assert len(text.encode()) <= LIMIT
        assert ("disputes" in document, len(document["matrix"])) == (kept, 34)
        assert {"gpus", "nics", "reasons"} <= document.keys()


class Look(msgspec.Struct, forbid_unknown_fields=True):
    """A machine, perhaps with its first GPUs alone and with faults, and what is wrong with it by what it was before."""

    machine: str
    gpus: int | None = None
    faults: dict[str, Any] = {}
    """As in a fault file."""
    reasons: list[str] = []
    """With `{n}` for the address of GPU n."""
    kept: bool = False
    """Whether the baseline stays what it was."""


class Past(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    looks: list[Look]


@each_row("baselines.yaml", Past, ids=lambda row: row.case)
def test_what_is_wrong_by_what_was_before(row: Past, tmp_path: Path) -> None:
    before = None
    for number, look in enumerate(row.looks):
        whole = load_profile(look.machine)
        machine, folder = replace(whole, gpus=whole.gpus[: look.gpus]), tmp_path / str(number)
        folder.mkdir()
        found = describe(probed(machine, folder, msgspec.convert(look.faults, Faults)), "n1", before)
        addresses = [gpu.function.address for gpu in whole.gpus]
        assert found.topology
        assert found.topology.reasons == tuple(text.format(*addresses) for text in look.reasons), number
        assert found.topology.state is (State.DEGRADED if look.reasons else State.OK)
        assert not look.kept or found.annotations[REFERENCE] == before
        before = found.annotations[REFERENCE]


def test_a_worse_path_is_reported_with_what_it_was(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    past = observed(topology)
    first, second = topology.gpus[0].pci, topology.gpus[1].pci
    nearer = past._replace(paths={**past.paths, (first, second): "PIX"})
    worse = degradations(Comparison(nearer, ()), topology)
    assert [fault.sentence for fault in worse] == ["GPU 0 to GPU 1: NODE, was PIX"]


def test_renumbered_buses_are_the_same_machine(tmp_path: Path) -> None:
    """An annotation of an earlier agent tells GPUs by their addresses only."""
    topology = discovered(load_profile("l40s-4"), tmp_path)
    today = observed(topology)
    moved = today._replace(links={f"1{gpu}": n for gpu, n in today.links.items()}, paths={}, uuids={})
    assert compare(moved, topology, absent=()) == Comparison(today, ())


def test_the_annotation_reads_back(tmp_path: Path) -> None:
    for profile in ("dgx2", "t4-1", "dgx1-v100", "rtx4090-5-mixed"):
        past = observed(discovered(load_profile(profile), tmp_path / profile))
        text = encode(past)
        assert decode(text) == past
        assert len(text) < 4096


@each_case("tables/agent.yaml")
def test_an_annotation_that_is_not_ours_is_no_baseline(text: str | None, times: int) -> None:
    assert decode(text and text * times) is None


def test_a_garbled_baseline_never_raises(tmp_path: Path) -> None:
    text = encode(observed(discovered(load_profile("dgx-h200"), tmp_path)))
    rng = random.Random(5)
    for _ in range(500):
        garbled = list(text)
        for _ in range(rng.randrange(1, 6)):
            garbled[rng.randrange(len(garbled))] = chr(rng.randrange(32, 127))
        decode("".join(garbled))
        decode(text[: rng.randrange(len(text))])
