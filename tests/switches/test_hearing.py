"""How long what LLDP frames say is true, and which of several senders is the switch."""

from tests.support.lldp import BRIDGE, ROUTER, STATION, of_switch
from toposcope.hardware.neighbours import Neighbour
from toposcope.switches.hearing import Hearing
from toposcope.switches.lldp import decode

UNTIL_THE_END_OF_TIME = 65535


def leaf(number: int) -> Neighbour:
    """The switch that sends these frames."""
    return Neighbour(
        switch=f"leaf-{number:02}",
        id=f"mac:b8:59:9f:00:00:{number:02x}",
        port="Ethernet1/3",
        by="lldp",
    )


def hear(hearing: Hearing, now: float, number: int = 1, ttl: int = 120, does: bytes = BRIDGE) -> None:
    """A frame of this sender arrives on eth0."""
    octets = of_switch(
        f"leaf-{number:02}",
        f"b8:59:9f:00:00:{number:02x}",
        "Ethernet1/3",
        ttl,
        does,
    )
    lldpdu = decode(octets)
    hearing.take("eth0", lldpdu, now)


def test_neighbour_lasts_as_long_as_its_time_to_live() -> None:
    hearing = Hearing()
    hear(hearing, 0.0, ttl=120)
    assert hearing.neighbour("eth0", 119.9) == leaf(1)
    assert hearing.neighbour("eth1", 1.0) is None
    assert hearing.neighbour("eth0", 120.0) is None


def test_neighbour_that_says_goodbye_is_gone() -> None:
    hearing = Hearing()
    hear(hearing, 130.0)
    hear(hearing, 140.0, ttl=0)
    assert hearing.neighbour("eth0", 140.0) is None


def test_neighbour_of_a_lost_interface_is_forgotten() -> None:
    hearing = Hearing()
    hear(hearing, 150.0)
    hearing.forget("eth0")
    assert hearing.neighbour("eth0", 150.0) is None


def test_first_switch_of_several_senders_counts() -> None:
    hearing = Hearing()
    hear(hearing, 0.0, 7, does=STATION)
    assert hearing.neighbour("eth0", 0.0) is None
    hear(hearing, 1.0, 6, does=b"")
    assert hearing.neighbour("eth0", 1.0) == leaf(6)
    hear(hearing, 2.0, 1, ttl=60)
    hear(hearing, 3.0, 2, does=ROUTER)
    assert hearing.neighbour("eth0", 50.0) == leaf(1)
    assert hearing.neighbour("eth0", 70.0) == leaf(2)


def test_flood_of_senders_neither_fills_the_memory_nor_hides_the_switch() -> None:
    hearing = Hearing()
    hear(hearing, 0.0)
    for number in range(2, 200):
        hear(hearing, 1.0, number, ttl=UNTIL_THE_END_OF_TIME)
    hear(hearing, 60.0)
    assert hearing.neighbour("eth0", 100.0) == leaf(1)
    assert len(hearing._heard["eth0"]) <= 4
