"""LLDP frames, good and hostile ones: what they say."""

import pytest
from tests.support.lldp import (
    BRIDGE,
    END,
    ROUTER,
    STATION,
    capabilities,
    chassis_mac,
    frame,
    of_switch,
    port_description,
    port_name,
    system_name,
    time_to_live,
    tlv,
)
from toposcope.switches.lldp import Lldpdu, LldpError, decode

MAC = "b8:59:9f:00:00:01"
CHASSIS = chassis_mac(MAC)
PORT = tlv(2, b"\7eth0")
"""An id that the sender chose."""
TTL = time_to_live(120)
PLAIN = Lldpdu(
    b"",
    ttl=120,
    switch="",
    id=f"mac:{MAC}",
    port="eth0",
    is_forwarding=None,
)
"""What these three say, without the octets that identify the sender."""


def read(*tlvs: bytes) -> Lldpdu:
    """What a frame says, without those octets."""
    lldpdu = decode(frame(*tlvs))
    return lldpdu._replace(msap=b"")


def test_lldpd_whose_port_id_is_its_address_is_named_by_description() -> None:
    """lldpd 1.0.16."""
    lldpdu = read(
        chassis_mac("de:62:d3:33:df:2a"),
        tlv(2, b"\3" + bytes.fromhex("de62d333df2a")),
        time_to_live(2),
        system_name(b"leaf-01"),
        capabilities(bytes.fromhex("009c 0004")),
        port_description("swp1"),
        tlv(127, bytes.fromhex("00120f030100000000")),
        END,
    )
    assert lldpdu == PLAIN._replace(
        ttl=2,
        switch="leaf-01",
        id="mac:de:62:d3:33:df:2a",
        port="swp1",
        is_forwarding=True,
    )


def test_port_is_its_name() -> None:
    lldpdu = read(
        CHASSIS,
        port_name("Ethernet1/3"),
        TTL,
        system_name(b"leaf-01.dc1"),
        capabilities(ROUTER),
    )
    assert lldpdu == PLAIN._replace(
        switch="leaf-01.dc1",
        port="Ethernet1/3",
        is_forwarding=True,
    )


def test_port_address_without_a_description_stays_an_address() -> None:
    port_mac = tlv(2, b"\3" + bytes.fromhex("b8599f000002"))
    lldpdu = read(CHASSIS, port_mac, TTL)
    assert lldpdu == PLAIN._replace(port="mac:b8:59:9f:00:00:02")


def test_ids_may_be_ip_addresses() -> None:
    ipv4 = tlv(1, bytes.fromhex("05 01 0a000001"))
    ipv6 = tlv(2, bytes.fromhex("04 02 fe800000000000000000000000000001"))
    lldpdu = read(ipv4, ipv6, TTL)
    assert lldpdu == PLAIN._replace(id="ip:10.0.0.1", port="ip:fe80::1")


def test_id_may_be_a_name_and_a_host_does_not_forward() -> None:
    chassis_name = tlv(1, b"\7row-4-node-1")
    host = capabilities(STATION)
    lldpdu = read(chassis_name, PORT, TTL, host)
    assert lldpdu == PLAIN._replace(id="name:row-4-node-1", is_forwarding=False)


def test_ids_that_are_no_text_keep_their_difference() -> None:
    chassis = tlv(1, b"\7\xff\0")
    port = tlv(2, b"\7\xfe\1")
    lldpdu = read(chassis, port, TTL)
    assert lldpdu == PLAIN._replace(
        id="sha256:ea5dbf9596d187e9500f23e9a680109475341cf4",
        port="sha256:4b24f4cca7e61459da3fb7bee3042b6637f12778",
    )


def test_address_family_with_too_few_octets_is_only_bytes() -> None:
    cut_ipv6 = tlv(1, bytes.fromhex("05 02 0a000001"))
    lldpdu = read(cut_ipv6, PORT, TTL)
    assert lldpdu == PLAIN._replace(id="sha256:5fd7eef64f378a31c45a823d6d774ad53e4754a2")


def test_goodbye_says_nothing_else() -> None:
    goodbye = time_to_live(0)
    lldpdu = read(CHASSIS, PORT, goodbye, END)
    assert lldpdu == Lldpdu(b"", ttl=0)


def test_name_with_line_end_escape_and_half_a_character_is_printable() -> None:
    name = system_name(b"lea\n\x1b[\xc3")
    lldpdu = read(CHASSIS, PORT, TTL, name)
    assert lldpdu == PLAIN._replace(switch="lea??[?")


def test_capabilities_of_the_wrong_length_say_nothing() -> None:
    cut = capabilities(BRIDGE[:2])
    lldpdu = read(CHASSIS, PORT, TTL, cut)
    assert lldpdu == PLAIN


def test_padding_after_the_end_says_nothing() -> None:
    padding = system_name(b"leaf")
    lldpdu = read(CHASSIS, PORT, TTL, END, padding)
    assert lldpdu == PLAIN


NAME = system_name(b"leaf")


@pytest.mark.parametrize(
    ("tlvs", "reason"),
    [
        pytest.param([], "the TTL is missing", id="empty"),
        pytest.param([CHASSIS, PORT], "the TTL is missing", id="ttl-missing"),
        pytest.param([CHASSIS, PORT, tlv(3, b"\x78")], "the TTL is missing", id="ttl-of-one-octet"),
        pytest.param([PORT, CHASSIS, TTL], "the first three TLVs", id="port-first"),
        pytest.param([CHASSIS, PORT, NAME, TTL], "the first three TLVs", id="name-before-ttl"),
        pytest.param([CHASSIS, PORT, TTL, TTL], "the first three TLVs", id="ttl-twice"),
        pytest.param([CHASSIS, PORT, TTL, NAME, NAME], "TLV 5 occurs twice", id="name-twice"),
        pytest.param([tlv(1, b"\4"), PORT, TTL], "TLV 1 has no id", id="chassis-without-id"),
        pytest.param([tlv(1, b""), PORT, TTL], "TLV 1 has no id", id="chassis-empty"),
        pytest.param([CHASSIS, tlv(2, b"\7"), TTL], "TLV 2 has no id", id="port-without-id"),
    ],
)
def test_malformed_frame_is_dropped(tlvs: list[bytes], reason: str) -> None:
    with pytest.raises(LldpError, match=reason):
        decode(frame(*tlvs))


GOOD = of_switch("leaf-01", MAC, "Ethernet1/3")
HEADER_BYTES = 14


def test_every_cut_of_a_frame_is_dropped_or_says_less() -> None:
    switches = set()
    for length in range(len(GOOD)):
        try:
            lldpdu = decode(GOOD[:length])
        except LldpError:
            continue
        switches.add(lldpdu.switch)
    assert switches == {"", "leaf-01"}  # complete up to the TTL, up to the name


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(b"", id="empty"),
        pytest.param(GOOD[: HEADER_BYTES - 1], id="cut-header"),
        pytest.param(frame(group="ffffffffffff") + GOOD[HEADER_BYTES:], id="broadcast"),
        pytest.param(GOOD[:12] + b"\x08\x00" + GOOD[HEADER_BYTES:], id="ipv4"),
    ],
)
def test_frame_of_another_kind_is_dropped(other: bytes) -> None:
    with pytest.raises(LldpError, match="not an LLDP frame"):
        decode(other)
