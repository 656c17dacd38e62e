import pytest
from tests.support.tables import each_case
from toposcope.hardware.pci import card, normal_address, pci_level


@each_case("topology.yaml")
def test_nvml_and_sysfs_name_a_device_alike(text: str, address: str) -> None:
    assert normal_address(text) == address


@pytest.mark.parametrize("text", ["", "07:00.0", "0000:07:00.9", "gpu", "0000:07:00.0 "[:-2]])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PCI address"):
        normal_address(text)


def test_the_ports_of_a_card_are_one_card() -> None:
    assert card("0000:a1:00.0") == card("0000:a1:00.1") != card("0000:a2:00.0")


@each_case("topology.yaml")
def test_levels(a: list[str], b: list[str], numa: list[int | None], level: str) -> None:
    assert pci_level(tuple(a), tuple(b), *numa) == level
    assert pci_level(tuple(b), tuple(a), *reversed(numa)) == level
