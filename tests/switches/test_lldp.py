"""LLDP frames, good and hostile ones, and how long what they say is true."""

import pytest
from tests.support.lldp import ROUTER, STATION, frame, of_switch, tlv
from tests.support.tables import each_case
from toposcope.hardware.neighbours import Neighbour
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import LldpError, decode


@each_case("lldp.yaml")
def test_what_a_frame_says(tlvs: list[tuple[int, str]], said: dict[str, object]) -> None:
    lldpdu = decode(frame(*(tlv(kind, bytes.fromhex(octets)) for kind, octets in tlvs)))
    assert {field: getattr(lldpdu, field) for field in said} == said


@each_case("lldp.yaml")
def test_a_frame_is_dropped(tlvs: list[tuple[int, str]], why: str) -> None:
    with pytest.raises(LldpError, match=why):
        decode(frame(*(tlv(kind, bytes.fromhex(octets)) for kind, octets in tlvs)))


def test_every_cut_of_a_frame_is_dropped_or_says_less() -> None:
    whole = of_switch("leaf-01", "b8:59:9f:00:00:01", "Ethernet1/3")
    kept = set()
    for length in range(len(whole)):
        try:
            kept.add(decode(whole[:length]).switch)
        except LldpError:
            continue
    assert kept == {"", "leaf-01"}  # complete up to the TTL, up to the name


def test_other_frames_are_dropped() -> None:
    good = of_switch("leaf-01", "b8:59:9f:00:00:01", "Ethernet1/3")
    for other in (b"", good[:13], frame(group="ffffffffffff") + good[14:], good[:12] + b"\x08\x00" + good[14:]):
        with pytest.raises(LldpError, match="not an LLDP frame"):
            decode(other)


LEAF = Neighbour("leaf-01", "mac:b8:59:9f:00:00:01", "Ethernet1/3", "lldp")


def heard(hearing: Hearing, now: float, number: int = 1, **more: object) -> None:
    octets = of_switch(f"leaf-{number:02}", f"b8:59:9f:00:00:{number:02x}", "Ethernet1/3", **more)  # type: ignore[arg-type]
    hearing.take("eth0", decode(octets), now)


def test_a_neighbour_lasts_as_long_as_its_time_to_live() -> None:
    hearing = Hearing()
    heard(hearing, 0.0, ttl=120)
    assert hearing.neighbour("eth0", 119.9) == LEAF
    assert hearing.neighbour("eth1", 1.0) is None
    assert hearing.neighbour("eth0", 120.0) is None
    heard(hearing, 130.0)
    heard(hearing, 140.0, ttl=0)
    assert hearing.neighbour("eth0", 140.0) is None
    heard(hearing, 150.0)
    hearing.forget("eth0")
    assert hearing.neighbour("eth0", 150.0) is None


def test_of_several_senders_the_first_switch_counts() -> None:
    hearing = Hearing()
    heard(hearing, 0.0, 7, capabilities=STATION)
    assert hearing.neighbour("eth0", 0.0) is None
    heard(hearing, 1.0, 6, capabilities=b"")
    assert hearing.neighbour("eth0", 1.0) == LEAF._replace(switch="leaf-06", id="mac:b8:59:9f:00:00:06")
    heard(hearing, 2.0, 1, ttl=60)
    heard(hearing, 3.0, 2, capabilities=ROUTER)
    assert hearing.neighbour("eth0", 50.0) == LEAF
    assert hearing.neighbour("eth0", 70.0) == LEAF._replace(switch="leaf-02", id="mac:b8:59:9f:00:00:02")


def test_a_flood_of_senders_neither_fills_the_memory_nor_hides_the_switch() -> None:
    hearing = Hearing()
    heard(hearing, 0.0)
    for number in range(2, 200):
        heard(hearing, 1.0, number, ttl=65535)
    heard(hearing, 60.0)
    assert hearing.neighbour("eth0", 100.0) == LEAF
    assert len(hearing._heard["eth0"]) <= 4
