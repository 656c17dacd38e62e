import pytest

from toposcope.topology.pci import card, normal_address, pci_level


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:07:00.0", "0000:07:00.0"),
        ("0000:07:00.0", "0000:07:00.0"),
        ("0000000A:1B:00.0", "000a:1b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_nvml_and_sysfs_name_a_device_alike(text: str, address: str) -> None:
    assert normal_address(text) == address


@pytest.mark.parametrize("text", ["", "07:00.0", "0000:07:00.9", "gpu", "0000:07:00.0 "[:-2]])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PCI address"):
        normal_address(text)


def test_the_ports_of_a_card_are_one_card() -> None:
    assert card("0000:a1:00.0") == card("0000:a1:00.1") != card("0000:a2:00.0")


ROOT = "pci0000:00"
PORT = "0000:00:01.0"
SWITCH = (ROOT, PORT, "0000:01:00.0")
ELSEWHERE = (("pci0000:80", "0000:80:01.1", "0000:81:00.0"), ("pci0000:c0", "0000:c0:01.1", "0000:c1:00.0"))


@pytest.mark.parametrize(
    ("a", "b", "numa", "level"),
    [
        # Two functions of one card, wherever it sits.
        ((ROOT, PORT, "0000:01:00.0"), (ROOT, PORT, "0000:01:00.1"), (0, 0), "PIX"),
        # Even on the root itself, where a virtual machine's devices sit.
        ((ROOT, "0000:00:05.0"), (ROOT, "0000:00:05.1"), (None, None), "PIX"),
        # Two downstream ports of one switch.
        ((*SWITCH, "0000:02:00.0", "0000:03:00.0"), (*SWITCH, "0000:02:01.0", "0000:04:00.0"), (0, 0), "PIX"),
        # Two switches below one.
        (
            (*SWITCH, "0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"),
            (*SWITCH, "0000:02:01.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"),
            (0, 0),
            "PXB",
        ),
        # Two root ports of one root complex.
        ((ROOT, PORT, "0000:01:00.0"), (ROOT, "0000:00:03.0", "0000:02:00.0"), (None, None), "PHB"),
        # Two root complexes.
        (*ELSEWHERE, (0, 0), "NODE"),
        (*ELSEWHERE, (0, 1), "SYS"),
        # Unknown twice is not the same.
        (*ELSEWHERE, (None, None), "SYS"),
    ],
)
def test_levels(a: tuple[str, ...], b: tuple[str, ...], numa: tuple[int | None, int | None], level: str) -> None:
    assert pci_level(a, b, *numa) == level
    assert pci_level(b, a, *reversed(numa)) == level
