"""Vital product data: what is found in a whole one, in a recorded one, and in one that is damaged."""

import pytest
from toposcope.agent.vpd import Vpd, parse_vpd
from toposcope.simulator.vpd import vpd_data

CARD = "88ba5d6a9ad1eb118000b8cef6b5a6ac"


def test_card_and_the_submodel_are_found() -> None:
    data = vpd_data(card=CARD, submodel="SW_MNG")
    found = parse_vpd(data)
    assert found == Vpd(submodel="SW_MNG", card=CARD)
    assert found.manages_nvswitches


def test_nic_has_no_submodel() -> None:
    data = vpd_data(card=CARD)
    found = parse_vpd(data)
    assert found == Vpd(card=CARD)
    assert not found.manages_nvswitches


def test_another_submodel_is_no_bridge() -> None:
    data = vpd_data(card=CARD, submodel="SW_MNGR")
    found = parse_vpd(data)
    assert not found.manages_nvswitches


def test_resources_before_the_read_only_one_are_skipped() -> None:
    small_resource = bytes([0x74]) + b"abcd"  # of four bytes
    data = vpd_data(card=CARD)
    found = parse_vpd(small_resource + data)
    assert found.card == CARD


def test_data_after_the_end_does_not_count() -> None:
    end = bytes([0x78])
    data = vpd_data(card=CARD)
    found = parse_vpd(end + data)
    assert found.card == ""


@pytest.mark.parametrize("length", range(0, 80, 7))
def test_data_that_is_cut_off_is_no_error(length: int) -> None:
    whole = vpd_data(card=CARD, submodel="SW_MNG")
    found = parse_vpd(whole[:length])
    assert found.card in ("", CARD)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff" * 4096, id="ones"),
        pytest.param(b"\0" * 64, id="zeros"),
        pytest.param(bytes(range(256)), id="every-byte"),
    ],
)
def test_garbage_says_nothing(content: bytes) -> None:
    assert parse_vpd(content) == Vpd()


def test_field_longer_than_its_resource_says_nothing() -> None:
    field = b"V3\xff" + CARD.encode()
    header = bytes([0x90, len(field), 0])
    found = parse_vpd(header + field)
    assert found.card == ""


def test_text_of_a_recording_says_the_same() -> None:
    data = vpd_data(card=CARD, submodel="SW_MNG")
    found = parse_vpd(data)
    assert found.text == f"V3={CARD}\nSMDL=SW_MNG"
    recorded = found.text.encode() + b"\n"
    assert parse_vpd(recorded) == found
    assert parse_vpd(b"\n") == Vpd()
