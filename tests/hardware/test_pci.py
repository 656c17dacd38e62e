"""PCI addresses, and how near two functions are by their paths in sysfs."""

from dataclasses import dataclass

import pytest
from toposcope.hardware.pci import card, normal_address, pci_level


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("00000000:07:00.0", "0000:07:00.0", id="eight-digits"),
        pytest.param("0000:07:00.0", "0000:07:00.0", id="four-digits"),
        pytest.param("0000000A:1B:00.0", "000a:1b:00.0", id="capitals"),
        pytest.param("00010000:01:00.0", "10000:01:00.0", id="five-digits"),
    ],
)
def test_nvml_and_sysfs_name_a_device_alike(text: str, address: str) -> None:
    assert normal_address(text) == address


@pytest.mark.parametrize("text", ["", "07:00.0", "0000:07:00.9", "gpu", "0000:07:00"])
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PCI address"):
        normal_address(text)


def test_ports_of_a_card_are_one_card() -> None:
    assert card("0000:a1:00.0") == card("0000:a1:00.1")
    assert card("0000:a1:00.0") != card("0000:a2:00.0")


# How near two functions are


@dataclass(frozen=True)
class Function:
    """A path from the root, and a NUMA node if it is known."""

    path: tuple[str, ...]
    numa: int | None

    def level_to(self, other: "Function") -> str:
        """How far away the other is, whichever comes first."""
        there = pci_level(self.path, other.path, self.numa, other.numa)
        back = pci_level(other.path, self.path, other.numa, self.numa)
        assert there == back
        return there


def at(*path: str, numa: int | None = 0) -> Function:
    """A function below these bridges of the first root."""
    return Function(("pci0000:00", *path), numa)


def at_root(root: str, numa: int | None) -> Function:
    """A function below a port of another root, as in `80`."""
    return Function((f"pci0000:{root}", f"0000:{root}:01.1", f"0000:{root[0]}1:00.0"), numa)


def test_functions_of_one_card_are_pix() -> None:
    """Wherever it sits."""
    first = at("0000:00:01.0", "0000:01:00.0")
    second = at("0000:00:01.0", "0000:01:00.1")
    assert first.level_to(second) == "PIX"


def test_functions_of_one_card_on_the_root_are_pix() -> None:
    """As the devices of a virtual machine."""
    first = at("0000:00:05.0", numa=None)
    second = at("0000:00:05.1", numa=None)
    assert first.level_to(second) == "PIX"


def test_ports_of_one_switch_are_pix() -> None:
    switch = ("0000:00:01.0", "0000:01:00.0")
    first = at(*switch, "0000:02:00.0", "0000:03:00.0")
    second = at(*switch, "0000:02:01.0", "0000:04:00.0")
    assert first.level_to(second) == "PIX"


def test_switch_below_another_is_pxb() -> None:
    switch = ("0000:00:01.0", "0000:01:00.0")
    lower = at(*switch, "0000:02:00.0", "0000:03:00.0", "0000:05:00.0")
    upper = at(*switch, "0000:02:01.0", "0000:04:00.0")
    assert lower.level_to(upper) == "PXB"


def test_two_switches_below_one_are_pxb() -> None:
    switch = ("0000:00:01.0", "0000:01:00.0")
    first = at(*switch, "0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0")
    second = at(*switch, "0000:02:01.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0")
    assert first.level_to(second) == "PXB"


def test_ports_of_one_root_are_phb() -> None:
    first = at("0000:00:01.0", "0000:01:00.0", numa=None)
    second = at("0000:00:03.0", "0000:02:00.0", numa=None)
    assert first.level_to(second) == "PHB"


def test_two_roots_of_one_node_are_node() -> None:
    assert at_root("80", numa=0).level_to(at_root("c0", numa=0)) == "NODE"


def test_two_roots_of_two_nodes_are_sys() -> None:
    assert at_root("80", numa=0).level_to(at_root("c0", numa=1)) == "SYS"


def test_two_roots_of_unknown_nodes_are_sys() -> None:
    """Unknown twice is not the same."""
    assert at_root("80", numa=None).level_to(at_root("c0", numa=None)) == "SYS"
