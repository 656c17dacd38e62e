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
from toposcope.simulator.faults import MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

LIMIT = 16384


DEAD_LINKS_OF_THE_BRIDGE = MachineFaults(links_down={0: "all"})


@pytest.fixture
def board(tmp_path: Path) -> Machine:
    return machine(tmp_path, H200, 8, nvlink={"switched": 18}, switches=4)


@pytest.fixture
def raw(board: Machine, tmp_path: Path) -> RawNode:
    """What the probe finds of the board."""
    return probed(board, tmp_path)


def on_all_gpus(raw: RawNode, **fields: Any) -> RawNode:
    """The node if its GPUs answered otherwise."""
    gpus = []
    for gpu in raw.gpus:
        gpus.append(gpu._replace(**fields))
    return raw._replace(gpus=tuple(gpus))


def on_first_gpu(raw: RawNode, **fields: Any) -> RawNode:
    """The node if its first GPU answered otherwise."""
    first, *others = raw.gpus
    changed = first._replace(**fields)
    return raw._replace(gpus=(changed, *others))


def baseline_of(raw: RawNode) -> str:
    """The annotation that an agent writes at first sight."""
    description = describe(raw, "n1")
    return description.annotations[REFERENCE]


def moved(raw: RawNode, places: Mapping[int, str], gone: Sequence[int] = ()) -> RawNode:
    """The node after a reboot: without some GPUs, and with others at new addresses."""
    addresses: dict[str, str] = {}
    gpus: list[RawGpu] = []
    for gpu in raw.gpus:
        if gpu.index in gone:
            continue
        address = places.get(gpu.index, gpu.pci)
        addresses[gpu.pci] = address
        gpus.append(gpu._replace(index=len(gpus), pci=address))
    functions = []
    for function in raw.gpu_functions:
        if function.address in addresses:
            address = addresses[function.address]
            functions.append(function._replace(address=address))
    return raw._replace(
        gpus=tuple(gpus),
        gpu_functions=tuple(functions),
        ancestors=(),
    )


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


def look_again(raw: RawNode, found: Description) -> Description:
    """The node by the baseline that was written with what was found."""
    return describe(raw, "n1", found.annotations[REFERENCE])


def shifted(raw: RawNode, first: int) -> dict[int, str]:
    """Every GPU from this one on has another bus."""
    places = {}
    for gpu in raw.gpus:
        if gpu.index >= first:
            places[gpu.index] = gpu.pci.replace("0000:", "0001:")
    return places


@pytest.mark.regression
def test_gone_gpu_is_named_alone_though_buses_were_renumbered(raw: RawNode) -> None:
    gone = raw.gpus[5]
    after = moved(raw, shifted(raw, 6), gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"GPU {gone.pci} is missing, but was here before",)

    later = look_again(after, found)
    assert reasons(later) == reasons(found)
    assert later.annotations[REFERENCE] == found.annotations[REFERENCE]


def test_gone_gpu_whose_address_another_has_is_named_by_uuid(raw: RawNode) -> None:
    """The buses close up: the next GPU has the address of the one that is gone."""
    gone = raw.gpus[5]
    closed_up = {
        6: gone.pci,
        7: raw.gpus[6].pci,
    }
    after = moved(raw, closed_up, gone=[5])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"{gone.uuid} is missing, but was here before",)

    later = look_again(after, found)
    assert reasons(later) == reasons(found)
    back = look_again(raw, later)
    assert reasons(back) == ()
    assert back.annotations[REFERENCE] == baseline_of(raw)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param([0], id="first"),
        pytest.param([7], id="last"),
        pytest.param([2, 3], id="two-in-a-row"),
        pytest.param([0, 4, 7], id="three"),
    ],
)
def test_gone_gpus_are_named_one_by_one(gone: list[int], raw: RawNode) -> None:
    renumbered = shifted(raw, min(gone))
    after = moved(raw, renumbered, gone=gone)
    found = before_and_after(raw, after)
    expected = []
    for index in gone:
        address = raw.gpus[index].pci
        expected.append(f"GPU {address} is missing, but was here before")
    assert list(reasons(found)) == expected


def test_renumbered_buses_alone_are_no_fault_and_forget_nothing(raw: RawNode, board: Machine, tmp_path: Path) -> None:
    renumbered = shifted(raw, 0)
    after = moved(raw, renumbered)
    found = before_and_after(raw, after)
    assert reasons(found) == ()

    dead_link = MachineFaults(links_down={6: frozenset({0})})
    weak = probed(board, tmp_path, dead_link)
    later = look_again(moved(weak, renumbered), found)
    assert reasons(later) == ("GPU 6: 17 of 18 NVLinks active",)


def test_bridge_is_remembered_over_renumbered_buses(tmp_path: Path) -> None:
    """No board says that cards should have links: only the past of these two does."""
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    loose = probed(cards, tmp_path, DEAD_LINKS_OF_THE_BRIDGE)
    after = moved(loose, shifted(raw, 0))
    found = before_and_after(raw, after)
    assert reasons(found) == (
        "GPU 0: 0 of 4 NVLinks active",
        "GPU 1: 0 of 4 NVLinks active",
    )


def test_two_gpus_that_changed_places_are_the_same_two(raw: RawNode) -> None:
    first, second, *_others = raw.gpus
    swapped = moved(raw, {0: second.pci, 1: first.pci})
    found = before_and_after(raw, swapped)
    assert reasons(found) == ()


def test_replacement_of_a_card_should_have_its_links(tmp_path: Path) -> None:
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    dead_link = MachineFaults(links_down={0: frozenset({3})})
    badly_seated = probed(cards, tmp_path, dead_link)
    after = on_first_gpu(badly_seated, uuid="GPU-another")
    found = before_and_after(raw, after)
    assert reasons(found) == (
        "GPU 0: 3 of 4 NVLinks active",
        "GPU 1: 3 of 4 NVLinks active",
    )


def test_gpu_replaced_at_another_address_is_not_gone(raw: RawNode) -> None:
    elsewhere = moved(raw, {0: "0001:f0:00.0"})
    after = on_first_gpu(elsewhere, uuid="GPU-another")
    found = before_and_after(raw, after)
    assert reasons(found) == ()


def test_gpu_lost_at_another_address_is_named_once(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 6))
    *others, last = after.gpus
    lost = after._replace(gpus=tuple(others))
    found = before_and_after(raw, lost)
    assert reasons(found) == (f"GPU {last.pci} is on the PCI bus but not in NVML",)


def test_gpu_without_uuid_is_known_by_its_address(raw: RawNode) -> None:
    nameless = on_all_gpus(raw, uuid=None)
    found = before_and_after(raw, nameless)
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
    reason = f"1 of the GPUs {names} is gone; it is unknown which, because new GPUs appeared"
    assert reasons(found) == (reason,)

    later = look_again(after, found)
    assert reasons(later) == (reason,)
    back = look_again(raw, later)
    assert reasons(back) == ()


def test_earlier_annotation_shows_that_two_gpus_are_gone(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 5), gone=[4, 6])
    found = before_and_after(raw, after, earlier_agent=True)
    (reason,) = reasons(found)
    assert reason.startswith("2 of the GPUs ")


def test_earlier_annotation_keeps_facts_of_an_absent_gpu(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    raw = probed(cards, tmp_path)
    absent = raw.gpus[3].pci
    after = moved(raw, {}, gone=[3])
    found = before_and_after(raw, after, earlier_agent=True)
    kept = decode(found.annotations[REFERENCE])
    assert kept
    assert absent in kept.links
    assert absent not in kept.uuids


def test_baseline_without_the_mark_is_not_accepted(board: Machine, tmp_path: Path) -> None:
    dead_link = MachineFaults(links_down={1: frozenset({0})})
    raw = probed(board, tmp_path, dead_link)
    found = before_and_after(raw, raw, earlier_agent=True)
    assert reasons(found) == ("GPU 1: 17 of 18 NVLinks active",)


# Products


@pytest.mark.regression
def test_lost_first_gpu_of_a_mixed_machine_starts_no_new_baseline(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    first, *others = cards.gpus
    another = replace(first, name="NVIDIA L4")
    mixed = replace(cards, gpus=(another, *others))
    raw = probed(mixed, tmp_path)
    after = moved(raw, {}, gone=[0])
    found = before_and_after(raw, after)
    assert reasons(found) == (f"GPU {raw.gpus[0].pci} is missing, but was here before",)


def test_product_without_a_name_starts_no_new_baseline(tmp_path: Path) -> None:
    cards = load_profile("l40s-4")
    raw = probed(cards, tmp_path)
    gone = raw.gpus[3].pci
    after = moved(raw, {}, gone=[3])
    nameless = on_all_gpus(after, name=None)
    found = before_and_after(raw, nameless)
    assert reasons(found) == (f"GPU {gone} is missing, but was here before",)


def test_driver_with_another_product_name_starts_no_new_baseline(tmp_path: Path) -> None:
    """Drivers from 470 on put the maker before it."""
    cards = load_profile("rtx3090-2-nvlink")
    raw = probed(cards, tmp_path)
    loose = probed(cards, tmp_path, DEAD_LINKS_OF_THE_BRIDGE)
    renamed = on_all_gpus(loose, name="GeForce RTX 3090")
    found = before_and_after(raw, renamed)
    assert len(reasons(found)) == 2


# The annotation


@pytest.mark.parametrize(
    "uuid",
    [
        pytest.param("GPU-\u2603", id="snowman"),
        pytest.param("GPU-" + "0" * 61, id="too-long"),
        pytest.param("", id="empty"),
        pytest.param("GPU 1", id="blank"),
        pytest.param("GPU-\x00", id="zero-byte"),
        pytest.param("x" * 5000, id="5000-characters"),
        pytest.param("\ud800", id="surrogate"),
    ],
)
def test_malformed_uuid_stays_out_of_the_annotation(uuid: str, raw: RawNode) -> None:
    odd = on_first_gpu(raw, uuid=uuid)
    text = baseline_of(odd)
    assert text.isascii()
    document = json.loads(text)
    address = raw.gpus[0].pci
    assert address not in document["uuids"]
    assert len(document["uuids"]) == 7
    assert address in document["gpus"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("\u00e9" * 100, id="accents"),
        pytest.param("\u2603", id="snowman"),
        pytest.param("x" * 5000, id="5000-characters"),
        pytest.param("\x00", id="zero-byte"),
        pytest.param("\ud800", id="surrogate"),
    ],
)
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
    identified = sorted(document["uuids"])
    assert identified == sorted(gpu.pci for gpu in others)


DOCUMENT = {"version": VERSION, "product": None, "gpus": {"a": 1}, "paths": ["X"]}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"uuids": []}, id="uuids-a-list"),
        pytest.param({"uuids": {"a": 1}}, id="uuid-a-number"),
        pytest.param({"accepted": "all"}, id="accepted-a-text"),
        pytest.param({"accepted": [1]}, id="accepted-number"),
        pytest.param({"accepted": ["x" * 97]}, id="accepted-too-long"),
        pytest.param({"accepted": ["\u2603"]}, id="accepted-no-ascii"),
        pytest.param({"accepted": [f"key:{number}" for number in range(65)]}, id="65-accepted"),
        pytest.param({"products": ["NVIDIA H200"]}, id="products-a-list"),
    ],
)
def test_annotation_with_fields_of_other_types_is_ignored(fields: dict[str, Any]) -> None:
    text = json.dumps({**DOCUMENT, **fields})
    assert decode(text) is None


def test_unknown_fields_of_the_annotation_are_ignored() -> None:
    text = json.dumps({**DOCUMENT, "later": [1]})
    baseline = decode(text)
    assert baseline
    assert baseline.links == {"a": 1}
    assert baseline.accepted is None
    assert baseline.uuids == {}


@pytest.mark.parametrize(
    ("gpus", "keeps_links"),
    [
        pytest.param(16, True, id="16-gpus"),
        pytest.param(64, True, id="64-gpus"),
        pytest.param(200, False, id="200-gpus"),
    ],
)
def test_baseline_stays_within_its_limit(gpus: int, keeps_links: bool, raw: RawNode) -> None:
    links = {}
    uuids = {}
    for number in range(gpus):
        name = f"0000:{number:02x}:00.0"
        links[name] = 18
        uuids[name] = f"GPU-{number:036}"
    pairs = combinations(sorted(links), 2)
    large = observed(discover(raw))._replace(
        links=links,
        paths=dict.fromkeys(pairs, "NV18"),
        uuids=uuids,
        accepted=frozenset({"gpu-absent:0000:ff:00.0"}),
    )
    text = encode(large)
    assert len(text) <= LIMIT
    kept = decode(text)
    assert kept
    assert kept.accepted == large.accepted
    assert (kept.links == large.links) == keeps_links


def test_node_with_a_gone_gpu_is_degraded(raw: RawNode) -> None:
    after = moved(raw, {}, gone=[1])
    found = before_and_after(raw, after)
    assert found.labels.by_key[STATE] == "degraded"


def test_node_with_renumbered_buses_is_ok(raw: RawNode) -> None:
    after = moved(raw, shifted(raw, 1))
    found = before_and_after(raw, after)
    assert found.labels.by_key[STATE] == "ok"
