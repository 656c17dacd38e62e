"""GPUs are told apart by UUID: a reboot numbers PCI buses anew, and a GPU that is gone is one GPU that is gone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.support.boards import H200, machine
from tests.support.machines import probed
from toposcope.agent.baseline import VERSION, decode, encode, observed
from toposcope.agent.describe import Description, describe
from toposcope.agent.discover import discover
from toposcope.agent.raw import RawGpu, RawNode
from toposcope.api.label_keys import REFERENCE, STATE
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

LIMIT = 16384


DEAD_LINKS_OF_THE_BRIDGE = Faults(links_down={0: "all"})


@pytest.fixture
def board(tmp_path: Path) -> Machine:
    return machine(tmp_path, H200, 8, nvlink={"switched": 18}, switches=4)


@pytest.fixture
def raw(board: Machine, tmp_path: Path) -> RawNode:
    """What the probe finds of the board."""
    return probed(board, tmp_path)


def on_all_gpus(raw: RawNode, **fields: Any) -> RawNode:
    """The node if its GPUs answered otherwise."""
    gpus = [gpu._replace(**fields) for gpu in raw.gpus]
    return raw._replace(gpus=tuple(gpus))


def on_first_gpu(raw: RawNode, **fields: Any) -> RawNode:
    """The node if its first GPU answered otherwise."""
    first, *others = raw.gpus
    return raw._replace(gpus=(first._replace(**fields), *others))


def baseline_of(raw: RawNode) -> str:
    """The annotation that an agent writes at first sight."""
    return describe(raw, "n1").annotations[REFERENCE]


def moved(raw: RawNode, places: Mapping[int, str], gone: Sequence[int] = ()) -> RawNode:
    """The node after a reboot: without some GPUs, and with others at new addresses."""
    addresses = {gpu.pci: places.get(gpu.index, gpu.pci) for gpu in raw.gpus}
    for index in gone:
        del addresses[raw.gpus[index].pci]
    gpus: list[RawGpu] = []
    for gpu in raw.gpus:
        if gpu.pci in addresses:
            gpus.append(gpu._replace(index=len(gpus), pci=addresses[gpu.pci]))
    functions = []
    for function in raw.gpu_functions:
        if function.address in addresses:
            functions.append(function._replace(address=addresses[function.address]))
    return raw._replace(gpus=tuple(gpus), gpu_functions=tuple(functions), ancestors=())


def before_and_after(raw: RawNode, after: RawNode, *, earlier_agent: bool = False) -> Description:
    """The node after the reboot, by its baseline of before."""
    text = baseline_of(raw)
    if earlier_agent:
        document = json.loads(text)
        del document["uuids"]
        text = json.dumps(document)
    return describe(after, "n1", text)


def reasons(found: Description) -> tuple[str, ...]:
    assert found.topology
    return found.topology.reasons


def shifted(raw: RawNode, first: int) -> dict[int, str]:
    """Every GPU from this one on has another bus."""
    return {gpu.index: gpu.pci.replace("0000:", "0001:") for gpu in raw.gpus if gpu.index >= first}


@pytest.mark.regression
def test_gone_gpu_is_named_alone_though_buses_were_renumbered(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 6), gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"GPU {raw.gpus[5].pci} was here before and is gone",)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == reasons(found)
    assert later.annotations[REFERENCE] == found.annotations[REFERENCE]


def test_gone_gpu_whose_address_another_has_is_named_by_uuid(raw: RawNode) -> None:
    """The buses close up: the next GPU has the address of the one that is gone."""
    closed_up = {index: raw.gpus[index - 1].pci for index in (6, 7)}
    after = moved(raw, closed_up, gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"{raw.gpus[5].uuid} was here before and is gone",)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == reasons(found)
    back = describe(raw, "n1", later.annotations[REFERENCE])
    assert reasons(back) == ()
    assert back.annotations[REFERENCE] == baseline_of(raw)


@pytest.mark.parametrize("gone", [[0], [7], [2, 3], [0, 4, 7]])
def test_gone_gpus_are_named_one_by_one(gone: list[int], raw: RawNode) -> None:
    after = moved(raw, shifted(raw, min(gone)), gone=gone)
    found = before_and_after(raw, after)
    expected = [f"GPU {raw.gpus[index].pci} was here before and is gone" for index in gone]
    assert list(reasons(found)) == expected


def test_renumbered_buses_alone_are_no_fault_and_forget_nothing(raw: RawNode, board: Machine, tmp_path: Path) -> None:
    renumbered = shifted(raw, 0)
    found = before_and_after(raw, moved(raw, renumbered))
    assert reasons(found) == ()

    weak = probed(board, tmp_path, Faults(links_down={6: frozenset({0})}))
    later = describe(moved(weak, renumbered), "n1", found.annotations[REFERENCE])
    assert reasons(later) == ("GPU 6: 17 of 18 NVLinks active",)


def test_bridge_is_remembered_over_renumbered_buses(tmp_path: Path) -> None:
    """No board says that cards should have links: only the past of these two does."""
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    loose = probed(cards, tmp_path, DEAD_LINKS_OF_THE_BRIDGE)
    found = before_and_after(raw, moved(loose, shifted(raw, 0)))
    assert reasons(found) == ("GPU 0: 0 of 4 NVLinks active", "GPU 1: 0 of 4 NVLinks active")


def test_two_gpus_that_changed_places_are_the_same_two(raw: RawNode) -> None:
    swapped = moved(raw, {0: raw.gpus[1].pci, 1: raw.gpus[0].pci})
    assert reasons(before_and_after(raw, swapped)) == ()


def test_replacement_of_a_card_should_have_its_links(tmp_path: Path) -> None:
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    badly_seated = probed(cards, tmp_path, Faults(links_down={0: frozenset({3})}))
    found = before_and_after(raw, on_first_gpu(badly_seated, uuid="GPU-another"))
    assert reasons(found) == ("GPU 0: 3 of 4 NVLinks active", "GPU 1: 3 of 4 NVLinks active")


def test_gpu_replaced_at_another_address_is_not_gone(raw: RawNode) -> None:
    after = moved(raw, {0: "0001:f0:00.0"})
    found = before_and_after(raw, on_first_gpu(after, uuid="GPU-another"))
    assert reasons(found) == ()


def test_gpu_lost_at_another_address_is_named_once(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 6))
    lost = after._replace(gpus=after.gpus[:7])
    found = before_and_after(raw, lost)
    assert reasons(found) == (f"GPU {after.gpus[7].pci} is on the PCI bus but not in NVML",)


def test_gpu_without_uuid_is_known_by_its_address(raw: RawNode) -> None:
    found = before_and_after(raw, on_all_gpus(raw, uuid=None))
    assert reasons(found) == ()
    assert found.annotations[REFERENCE] == baseline_of(raw)


# Annotations of earlier agents, which know addresses only


def test_earlier_annotation_is_read_and_gets_uuids(raw: RawNode) -> None:
    found = before_and_after(raw, raw, earlier_agent=True)
    assert reasons(found) == ()
    assert found.annotations[REFERENCE] == baseline_of(raw)


def test_earlier_annotation_shows_that_one_gpu_is_gone(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 6), gone=[5])
    found = before_and_after(raw, after, earlier_agent=True)
    names = ", ".join(gpu.pci for gpu in raw.gpus[5:])
    reason = f"1 of the GPUs {names} is gone; others came, so it is not known which"
    assert reasons(found) == (reason,)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == (reason,)
    back = describe(raw, "n1", later.annotations[REFERENCE])
    assert reasons(back) == ()


def test_earlier_annotation_shows_that_two_gpus_are_gone(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 5), gone=[4, 6])
    found = before_and_after(raw, after, earlier_agent=True)
    (reason,) = reasons(found)
    assert reason.startswith("2 of the GPUs ")


def test_earlier_annotation_keeps_facts_of_an_absent_gpu(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    raw = probed(cards, tmp_path)
    found = before_and_after(raw, moved(raw, {}, gone=[3]), earlier_agent=True)
    kept = decode(found.annotations[REFERENCE])
    assert kept
    assert raw.gpus[3].pci in kept.links
    assert raw.gpus[3].pci not in kept.uuids


def test_baseline_without_the_mark_is_not_accepted(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path, Faults(links_down={1: frozenset({0})}))
    found = before_and_after(raw, raw, earlier_agent=True)
    assert reasons(found) == ("GPU 1: 17 of 18 NVLinks active",)


# Products


@pytest.mark.regression
def test_lost_first_gpu_of_a_mixed_machine_starts_no_new_baseline(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    first, *others = cards.gpus
    another = replace(first, name="NVIDIA L4")
    raw = probed(replace(cards, gpus=(another, *others)), tmp_path)
    found = before_and_after(raw, moved(raw, {}, gone=[0]))
    assert reasons(found) == (f"GPU {raw.gpus[0].pci} was here before and is gone",)


def test_product_without_a_name_starts_no_new_baseline(tmp_path: Path) -> None:
    raw = probed(load_profile("l40s-4"), tmp_path)
    after = moved(raw, {}, gone=[3])
    found = before_and_after(raw, on_all_gpus(after, name=None))
    assert reasons(found) == (f"GPU {raw.gpus[3].pci} was here before and is gone",)


def test_driver_with_another_product_name_starts_no_new_baseline(tmp_path: Path) -> None:
    """Drivers from 470 on put the maker before it."""
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    loose = probed(cards, tmp_path, DEAD_LINKS_OF_THE_BRIDGE)
    found = before_and_after(raw, on_all_gpus(loose, name="GeForce RTX 3090"))
    assert len(reasons(found)) == 2


# The annotation


@pytest.mark.parametrize("uuid", ["GPU-\u2603", "GPU-" + "0" * 61, "", "GPU 1", "GPU-\x00", "x" * 5000, "\ud800"])
def test_malformed_uuid_stays_out_of_the_annotation(uuid: str, raw: RawNode) -> None:
    text = baseline_of(on_first_gpu(raw, uuid=uuid))
    assert text.isascii()
    document = json.loads(text)
    address = raw.gpus[0].pci
    assert address not in document["uuids"]
    assert len(document["uuids"]) == 7
    assert address in document["gpus"]


@pytest.mark.parametrize("name", ["\u00e9" * 100, "\u2603", "x" * 5000, "\x00", "\ud800"])
def test_product_of_any_name_leaves_the_annotation_ascii(name: str, raw: RawNode) -> None:
    odd = on_all_gpus(raw, name=name)
    text = baseline_of(odd)
    assert text.isascii()
    assert len(text) <= LIMIT
    later = describe(odd, "n1", text)
    assert later.annotations[REFERENCE] == text


def test_uuid_of_two_gpus_identifies_neither(raw: RawNode) -> None:
    _first, second, *others = raw.gpus
    twins = on_first_gpu(raw, uuid=second.uuid)
    document = json.loads(baseline_of(twins))
    assert sorted(document["uuids"]) == sorted(gpu.pci for gpu in others)


DOCUMENT = {"version": VERSION, "product": None, "gpus": {"a": 1}, "paths": ["X"]}


@pytest.mark.parametrize(
    "fields",
    [
        {"uuids": []},
        {"uuids": {"a": 1}},
        {"accepted": "all"},
        {"accepted": [1]},
        {"accepted": ["x" * 97]},
        {"accepted": ["\u2603"]},
        {"accepted": [f"key:{number}" for number in range(65)]},
        {"products": ["NVIDIA H200"]},
    ],
)
def test_annotation_with_fields_of_other_types_is_ignored(fields: dict[str, Any]) -> None:
    assert decode(json.dumps({**DOCUMENT, **fields})) is None


def test_unknown_fields_of_the_annotation_are_ignored() -> None:
    baseline = decode(json.dumps({**DOCUMENT, "later": [1]}))
    assert baseline
    assert baseline.links == {"a": 1}
    assert baseline.accepted is None
    assert baseline.uuids == {}


@pytest.mark.parametrize(("gpus", "keeps_links"), [(16, True), (64, True), (200, False)])
def test_baseline_stays_within_its_limit(gpus: int, keeps_links: bool, raw: RawNode) -> None:
    names = [f"0000:{number:02x}:00.0" for number in range(gpus)]
    large = observed(discover(raw))._replace(
        links=dict.fromkeys(names, 18),
        paths=dict.fromkeys(combinations(sorted(names), 2), "NV18"),
        uuids={name: f"GPU-{number:036}" for number, name in enumerate(names)},
        accepted=frozenset({"gpu-absent:0000:ff:00.0"}),
    )
    text = encode(large)
    assert len(text) <= LIMIT
    kept = decode(text)
    assert kept
    assert kept.accepted == large.accepted
    assert (kept.links == large.links) == keeps_links


def test_node_with_a_gone_gpu_is_degraded(raw: RawNode) -> None:
    found = before_and_after(raw, moved(raw, {}, gone=[1]))
    assert found.labels.known[STATE] == "degraded"


def test_node_with_renumbered_buses_is_ok(raw: RawNode) -> None:
    found = before_and_after(raw, moved(raw, shifted(raw, 1)))
    assert found.labels.known[STATE] == "ok"
