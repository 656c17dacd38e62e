"""GPUs are told apart by UUID: a reboot numbers PCI buses anew, and a GPU that is gone is one GPU that is gone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
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


@pytest.fixture
def board(tmp_path: Path) -> Machine:
    return machine(tmp_path, H200, 8, nvlink={"switched": 18}, switches=4)


def moved(raw: RawNode, places: Mapping[int, str], gone: Sequence[int] = ()) -> RawNode:
    """The node after a reboot: without some GPUs, and with others at new addresses."""
    addresses = {gpu.pci: places.get(gpu.index, gpu.pci) for gpu in raw.gpus}
    left = {gpu.pci for gpu in raw.gpus if gpu.index in gone}
    gpus: list[RawGpu] = []
    for gpu in raw.gpus:
        if gpu.pci not in left:
            gpus.append(gpu._replace(index=len(gpus), pci=addresses[gpu.pci]))
    functions = [
        function._replace(address=addresses.get(function.address, function.address))
        for function in raw.gpu_functions
        if function.address not in left
    ]
    return raw._replace(gpus=tuple(gpus), gpu_functions=tuple(functions), ancestors=())


def before_and_after(raw: RawNode, after: RawNode, *, earlier_agent: bool = False) -> Description:
    """The node after the reboot, by its baseline of before."""
    text = describe(raw, "n1").annotations[REFERENCE]
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
def test_gone_gpu_is_named_alone_though_buses_were_renumbered(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    after = moved(raw, shifted(raw, 6), gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"GPU {raw.gpus[5].pci} was here before and is gone",)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == reasons(found)
    assert later.annotations[REFERENCE] == found.annotations[REFERENCE]


def test_gone_gpu_whose_address_another_has_is_named_by_uuid(board: Machine, tmp_path: Path) -> None:
    """The buses close up: the next GPU has the address of the one that is gone."""
    raw = probed(board, tmp_path)
    closed_up = {index: raw.gpus[index - 1].pci for index in (6, 7)}
    after = moved(raw, closed_up, gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"{raw.gpus[5].uuid} was here before and is gone",)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == reasons(found)
    back = describe(raw, "n1", later.annotations[REFERENCE])
    assert reasons(back) == ()
    assert back.annotations[REFERENCE] == describe(raw, "n1").annotations[REFERENCE]


@pytest.mark.parametrize("gone", [[0], [7], [2, 3], [0, 4, 7]])
def test_as_many_gpus_are_gone_as_are_gone(gone: list[int], board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    found = before_and_after(raw, moved(raw, shifted(raw, min(gone)), gone=gone))
    assert reasons(found) == tuple(f"GPU {raw.gpus[index].pci} was here before and is gone" for index in gone)


def test_renumbered_buses_alone_are_no_fault_and_forget_nothing(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    found = before_and_after(raw, moved(raw, shifted(raw, 0)))
    assert reasons(found) == ()
    dead = moved(probed(board, tmp_path, Faults(links_down={6: frozenset({0})})), shifted(raw, 0))
    assert reasons(describe(dead, "n1", found.annotations[REFERENCE])) == ("GPU 6: 17 of 18 NVLinks active",)


def test_bridge_is_remembered_over_renumbered_buses(tmp_path: Path) -> None:
    """No board says that cards should have links: only the past of these two does."""
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    loose = moved(probed(cards, tmp_path, Faults(links_down={0: "all"})), shifted(raw, 0))
    assert reasons(before_and_after(raw, loose)) == ("GPU 0: 0 of 4 NVLinks active", "GPU 1: 0 of 4 NVLinks active")


def test_two_gpus_that_changed_places_are_the_same_two(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    swapped = moved(raw, {0: raw.gpus[1].pci, 1: raw.gpus[0].pci})
    assert reasons(before_and_after(raw, swapped)) == ()


def test_replacement_of_a_card_should_have_its_links(tmp_path: Path) -> None:
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    badly_seated = probed(cards, tmp_path, Faults(links_down={0: frozenset({3})}))
    first, second = badly_seated.gpus
    replaced = badly_seated._replace(gpus=(first._replace(uuid="GPU-another"), second))
    assert reasons(before_and_after(raw, replaced)) == ("GPU 0: 3 of 4 NVLinks active", "GPU 1: 3 of 4 NVLinks active")


def test_gpu_replaced_at_another_address_is_not_gone(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    after = moved(raw, {7: "0001:f0:00.0"})
    *others, last = after.gpus
    found = before_and_after(raw, after._replace(gpus=(*others, last._replace(uuid="GPU-another"))))
    assert reasons(found) == ()


def test_gpu_lost_at_another_address_is_named_once(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    after = moved(raw, shifted(raw, 6))
    lost = after._replace(gpus=after.gpus[:7])
    assert reasons(before_and_after(raw, lost)) == (f"GPU {after.gpus[7].pci} is on the PCI bus but not in NVML",)


def test_gpu_without_uuid_is_known_by_its_address(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    hidden = raw._replace(gpus=tuple(gpu._replace(uuid=None) for gpu in raw.gpus))
    found = before_and_after(raw, hidden)
    assert reasons(found) == ()
    assert found.annotations[REFERENCE] == describe(raw, "n1").annotations[REFERENCE]


# Annotations of earlier agents, which know addresses only


def test_earlier_annotation_is_read_and_gets_uuids(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    found = before_and_after(raw, raw, earlier_agent=True)
    assert reasons(found) == ()
    assert found.annotations[REFERENCE] == describe(raw, "n1").annotations[REFERENCE]


def test_earlier_annotation_shows_that_one_gpu_is_gone(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    after = moved(raw, shifted(raw, 6), gone=[5])
    found = before_and_after(raw, after, earlier_agent=True)
    names = ", ".join(gpu.pci for gpu in raw.gpus[5:])
    said = f"1 of the GPUs {names} is gone; others came, so it is not known which"
    assert reasons(found) == (said,)
    later = describe(after, "n1", found.annotations[REFERENCE])
    assert reasons(later) == (said,)
    assert reasons(describe(raw, "n1", later.annotations[REFERENCE])) == ()


def test_earlier_annotation_shows_that_two_gpus_are_gone(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    found = before_and_after(raw, moved(raw, shifted(raw, 5), gone=[4, 6]), earlier_agent=True)
    (said,) = reasons(found)
    assert said.startswith("2 of the GPUs ")


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
    mixed = replace(cards, gpus=(replace(first, name="NVIDIA L4"), *others))
    raw = probed(mixed, tmp_path)
    assert reasons(before_and_after(raw, moved(raw, {}, gone=[0]))) == (
        f"GPU {raw.gpus[0].pci} was here before and is gone",
    )


def test_product_without_a_name_starts_no_new_baseline(tmp_path: Path) -> None:
    raw = probed(load_profile("l40s-4"), tmp_path)
    after = moved(raw, {}, gone=[3])
    nameless = after._replace(gpus=tuple(gpu._replace(name=None) for gpu in after.gpus))
    assert reasons(before_and_after(raw, nameless)) == (f"GPU {raw.gpus[3].pci} was here before and is gone",)


def test_driver_with_another_product_name_starts_no_new_baseline(tmp_path: Path) -> None:
    """Drivers from 470 on put the maker before it."""
    raw = probed(load_profile("rtx3090-2-nvlink"), tmp_path)
    loose = probed(load_profile("rtx3090-2-nvlink"), tmp_path, Faults(links_down={0: "all"}))
    renamed = loose._replace(gpus=tuple(gpu._replace(name="GeForce RTX 3090") for gpu in loose.gpus))
    assert len(reasons(before_and_after(raw, renamed))) == 2


# The annotation


@pytest.mark.parametrize("uuid", ["GPU-\u2603", "GPU-" + "0" * 61, "", "GPU 1", "GPU-\x00", "x" * 5000, "\ud800"])
def test_malformed_uuid_stays_out_of_the_annotation(uuid: str, board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    first, *others = raw.gpus
    text = describe(raw._replace(gpus=(first._replace(uuid=uuid), *others)), "n1").annotations[REFERENCE]
    assert text.isascii()
    document = json.loads(text)
    assert first.pci not in document["uuids"]
    assert len(document["uuids"]) == 7
    assert first.pci in document["gpus"]


@pytest.mark.parametrize("name", ["\u00e9" * 100, "\u2603", "x" * 5000, "\x00", "\ud800"])
def test_product_of_any_name_leaves_the_annotation_ascii(name: str, board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    odd = raw._replace(gpus=tuple(gpu._replace(name=name) for gpu in raw.gpus))
    first = describe(odd, "n1").annotations[REFERENCE]
    assert first.isascii()
    assert len(first) <= LIMIT
    assert describe(odd, "n1", first).annotations[REFERENCE] == first


def test_uuid_of_two_gpus_identifies_neither(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    first, second, *others = raw.gpus
    twins = raw._replace(gpus=(first, second._replace(uuid=first.uuid), *others))
    document = json.loads(describe(twins, "n1").annotations[REFERENCE])
    assert sorted(document["uuids"]) == sorted(gpu.pci for gpu in others)


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
    document = {"version": VERSION, "product": None, "gpus": {"a": 1}, "paths": ["X"], **fields}
    assert decode(json.dumps(document)) is None


def test_unknown_fields_of_the_annotation_are_ignored() -> None:
    document = {"version": VERSION, "product": None, "gpus": {"a": 1}, "paths": ["X"], "later": [1]}
    found = decode(json.dumps(document))
    assert found
    assert (found.links, found.accepted, found.uuids) == ({"a": 1}, None, {})


@pytest.mark.parametrize("gpus", [16, 64, 200])
def test_baseline_stays_within_its_limit(gpus: int, board: Machine, tmp_path: Path) -> None:
    topology = discover(probed(board, tmp_path))
    baseline = observed(topology)
    names = [f"0000:{number:02x}:00.0" for number in range(gpus)]
    large = baseline._replace(
        links=dict.fromkeys(names, 18),
        paths={(a, b): "NV18" for a in names for b in names if a < b},
        uuids={name: f"GPU-{number:036}" for number, name in enumerate(names)},
        accepted=frozenset({"gpu-absent:0000:ff:00.0"}),
    )
    text = encode(large)
    assert len(text) <= LIMIT
    again = decode(text)
    assert again
    assert again.accepted == large.accepted
    assert (again.links == large.links) == (gpus <= 64)


def test_state_is_what_the_reasons_say(board: Machine, tmp_path: Path) -> None:
    raw = probed(board, tmp_path)
    assert before_and_after(raw, moved(raw, {}, gone=[1])).labels.known[STATE] == "degraded"
    assert before_and_after(raw, moved(raw, shifted(raw, 1))).labels.known[STATE] == "ok"
