"""Vital product data: what is found in a whole one, in a recorded one, and in one that is damaged."""

import pytest
from toposcope.agent.vpd import Vpd, parse_vpd
from toposcope.simulator.vpd import vpd_data

CARD = "88ba5d6a9ad1eb118000b8cef6b5a6ac"


def test_card_and_the_submodel_are_found() -> None:
    found = parse_vpd(vpd_data(card=CARD, submodel="SW_MNG"))
    assert found == Vpd(submodel="SW_MNG", card=CARD)
    assert found.manages_nvswitches


def test_nic_has_no_submodel() -> None:
    found = parse_vpd(vpd_data(card=CARD))
    assert found == Vpd(card=CARD)
    assert not found.manages_nvswitches


def test_another_submodel_is_no_bridge() -> None:
    assert not parse_vpd(vpd_data(card=CARD, submodel="SW_MNGR")).manages_nvswitches


def test_resources_before_the_read_only_one_are_skipped() -> None:
    vendor = bytes([0x74]) + b"abcd"  # a small resource of four bytes
    assert parse_vpd(vendor + vpd_data(card=CARD)).card == CARD


def test_data_after_the_end_does_not_count() -> None:
    assert parse_vpd(bytes([0x78]) + vpd_data(card=CARD)).card == ""


@pytest.mark.parametrize("length", range(0, 80, 7))
def test_data_that_is_cut_off_is_no_error(length: int) -> None:
    whole = vpd_data(card=CARD, submodel="SW_MNG")
    assert parse_vpd(whole[:length]).card in ("", CARD)


@pytest.mark.parametrize("content", [b"", b"\xff" * 4096, b"\0" * 64, bytes(range(256))])
def test_garbage_says_nothing(content: bytes) -> None:
    assert parse_vpd(content) == Vpd()


def test_field_longer_than_its_resource_says_nothing() -> None:
    resource = b"V3\xff" + CARD.encode()
    assert parse_vpd(bytes([0x90, len(resource), 0]) + resource).card == ""


def test_text_of_a_recording_says_the_same() -> None:
    found = parse_vpd(vpd_data(card=CARD, submodel="SW_MNG"))
    assert found.text == f"V3={CARD}\nSMDL=SW_MNG"
    assert parse_vpd(found.text.encode() + b"\n") == found
    assert parse_vpd(b"\n") == Vpd()
