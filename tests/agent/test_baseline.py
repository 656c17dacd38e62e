"""What a node remembers of its best days."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.machines import discovered, probed
from toposcope.agent.baseline import Baseline, best, decode, degradations, encode, observed
from toposcope.agent.describe import describe
from toposcope.api.label_keys import REFERENCE
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile
from toposcope.topology.hardware import State

BRIDGE = "rtx3090-2-nvlink"


def remembered(machine: Machine, folder: Path, faults: Faults | None = None, before: str | None = None) -> str:
    return describe(probed(machine, folder, faults), "n1", before).annotations[REFERENCE]


def reasons(machine: Machine, folder: Path, faults: Faults, before: str) -> tuple[str, ...]:
    found = describe(probed(machine, folder, faults), "n1", before)
    assert found.topology is not None
    assert found.topology.state is (State.DEGRADED if found.topology.reasons else State.OK)
    return found.topology.reasons


def test_a_bridge_that_is_badly_seated_shows_only_against_the_past(tmp_path: Path) -> None:
    """Both cards have three of four links then: nothing on the node today says that there were more."""
    machine = load_profile(BRIDGE)
    loose = Faults(links_down={0: frozenset({3})})
    assert discovered(machine, tmp_path, loose).reasons == ()
    before = remembered(machine, tmp_path)
    assert reasons(machine, tmp_path, loose, before) == (
        "GPU 0: 3 of 4 NVLinks active",
        "GPU 1: 3 of 4 NVLinks active",
    )


def test_it_is_ok_again_by_itself_and_the_past_is_not_forgotten_meanwhile(tmp_path: Path) -> None:
    machine = load_profile(BRIDGE)
    before = remembered(machine, tmp_path)
    during = remembered(machine, tmp_path, Faults(links_down={0: None}), before)
    assert during == before
    assert reasons(machine, tmp_path, Faults(), during) == ()


def test_without_a_past_today_is_the_reference(tmp_path: Path) -> None:
    machine = load_profile(BRIDGE)
    loose = Faults(links_down={0: frozenset({3})})
    accepted = remembered(machine, tmp_path, loose)
    assert reasons(machine, tmp_path, loose, accepted) == ()


def test_a_gpu_that_left_bus_and_all_is_named(tmp_path: Path) -> None:
    whole = load_profile("l40s-4")
    before = remembered(whole, tmp_path / "before")
    gone = whole.gpus[3].function.address
    # Another device tree: the GPU is not even on the bus any more.
    less = replace(whole, gpus=whole.gpus[:3])
    assert reasons(less, tmp_path / "after", Faults(), before) == (f"GPU {gone} was here before and is gone",)


def test_a_gpu_that_the_bus_still_shows_is_named_once(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    before = remembered(machine, tmp_path)
    found = reasons(machine, tmp_path, Faults(lost=frozenset({3})), before)
    assert found == (f"GPU {machine.gpus[3].function.address} is on the PCI bus but not in NVML",)


def test_a_worse_path_is_told_with_what_it_was(tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    past = observed(topology)
    first, second = topology.gpus[0].pci, topology.gpus[1].pci
    nearer = past._replace(paths={**past.paths, (first, second): "PIX"})
    assert degradations(nearer, topology) == ["GPU 0 to GPU 1: NODE, was PIX"]


def test_other_hardware_has_no_past_here(tmp_path: Path) -> None:
    old = remembered(load_profile(BRIDGE), tmp_path / "old")
    assert reasons(load_profile("l40s-4"), tmp_path / "new", Faults(), old) == ()


def test_renumbered_buses_are_the_same_machine(tmp_path: Path) -> None:
    past = observed(discovered(load_profile("l40s-4"), tmp_path))
    moved = Baseline(past.product, {f"1{gpu}": n for gpu, n in past.links.items()}, {})
    assert best(moved, past, frozenset(past.links)) == past


def test_the_annotation_reads_back(tmp_path: Path) -> None:
    for profile in ("dgx2", "t4-1", "dgx1-v100", "rtx4090-5-mixed"):
        past = observed(discovered(load_profile(profile), tmp_path / profile))
        text = encode(past)
        assert decode(text) == past
        assert len(text) < 4096


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "{",
        "[]",
        '{"version":2,"product":null,"gpus":{},"paths":[]}',
        '{"version":1,"product":null,"gpus":{"a":1},"paths":[]}',
        '{"version":1,"product":null,"gpus":{"a":"many"},"paths":["X"]}',
        '{"version":1,"product":null,"gpus":{"a":1},"paths":["X X"]}',
        '{"version":1,"product":null,"gpus":{"\\ud800":1},"paths":["X"]}',
        '{"version":true,"product":null,"gpus":{},"paths":[]}',
        "[" * 16_000,
        "x" * 20_000,
        "\x00☃",
    ],
)
def test_what_is_no_reference_of_ours_is_none(text: str | None) -> None:
    assert decode(text) is None


def test_garbled_references_never_raise(tmp_path: Path) -> None:
    text = encode(observed(discovered(load_profile("dgx-h200"), tmp_path)))
    rng = random.Random(5)
    for _ in range(500):
        garbled = list(text)
        for _ in range(rng.randrange(1, 6)):
            garbled[rng.randrange(len(garbled))] = chr(rng.randrange(32, 127))
        decode("".join(garbled))
        decode(text[: rng.randrange(len(text))])
