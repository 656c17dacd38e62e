"""What rails make of a node: its leaf labels, and which NICs are rails."""

from dataclasses import dataclass

import pytest
from toposcope.api.label_keys import PREFIX
from toposcope.api.label_values import is_label_value
from toposcope.hardware.leaves import leaf_labels, rail_nics, rails_text
from toposcope.hardware.rails import Rail, parse_rails
from toposcope.hardware.topology import Nic, Port

# Leaf labels


def rails_to(*switches: tuple[str, str] | None) -> list[Rail | None]:
    """A rail to each switch by its name and id; None: it is not known."""
    rails: list[Rail | None] = []
    for number, switch in enumerate(switches):
        if switch is None:
            rails.append(None)
            continue
        name, switch_id = switch
        rails.append(Rail(f"mlx5_{number}", name, switch_id))
    return rails


def labels_of(rails: list[Rail | None]) -> dict[str, str]:
    """Valid labels, keys without their prefix, of rails that survive their own writing."""
    written = rails_text(rails)
    assert parse_rails(written) == tuple(rails)

    labels = {}
    for key, value in leaf_labels(rails).items():
        assert is_label_value(value)
        short_key = key.removeprefix(PREFIX)
        labels[short_key] = value
    return labels


@pytest.mark.parametrize(
    "switches",
    [
        pytest.param([("leaf-01", "mac:1"), ("leaf-01", "mac:1")], id="one-switch"),
        pytest.param([("leaf-01", "mac:1"), ("leaf-01", "mac:9")], id="replaced-in-between"),
    ],
)
def test_rails_to_one_switch_have_its_name_as_leaf(switches: list[tuple[str, str]]) -> None:
    rails = rails_to(*switches)
    assert labels_of(rails) == {"leaf": "leaf-01"}


def test_rails_of_which_one_is_unknown_have_no_leaf() -> None:
    rails = rails_to(("leaf-01", "mac:1"), None)
    assert labels_of(rails) == {}


def test_node_without_rails_has_no_leaf() -> None:
    assert labels_of([]) == {}


def test_rails_to_several_switches_have_a_leaf_group() -> None:
    rails = rails_to(
        ("leaf-2", "mac:2"),
        ("leaf-10", "mac:10"),
        ("leaf-1", "mac:1"),
    )
    assert labels_of(rails) == {"leaf-group": "leaf-1..leaf-10-80ebb688"}


def test_leaf_group_does_not_depend_on_the_order_of_rails() -> None:
    rails = rails_to(
        ("leaf-10", "mac:10"),
        ("leaf-1", "mac:1"),
        ("leaf-2", "mac:2"),
    )
    assert labels_of(rails) == {"leaf-group": "leaf-1..leaf-10-80ebb688"}


def test_another_set_of_leaves_with_the_same_ends_is_another_group() -> None:
    rails = rails_to(
        ("leaf-1", "mac:1"),
        ("leaf-3", "mac:3"),
        ("leaf-10", "mac:10"),
    )
    assert labels_of(rails) == {"leaf-group": "leaf-1..leaf-10-005d4a50"}


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        pytest.param("sonic", "sonic-d09aee", id="no-number"),
        pytest.param("sonic.dc1.example.com", "sonic.dc1.example.com-d09aee", id="number-in-the-domain"),
        pytest.param("", "switch-d09aee", id="no-name"),
    ],
)
def test_switch_without_a_number_is_told_apart_by_its_id(name: str, leaf: str) -> None:
    rails = rails_to((name, "mac:1"))
    assert labels_of(rails) == {"leaf": leaf}


def test_switch_called_by_its_maker_is_told_apart_by_its_id() -> None:
    rails = rails_to(("Quantum-2 Mellanox Technologies", "guid:1"))
    assert labels_of(rails) == {"leaf": "Quantum-2-Mellanox-Technol-bc7cfe"}


def test_two_switches_of_one_name_are_a_group() -> None:
    rails = rails_to(
        ("sonic", "mac:1"),
        ("sonic", "mac:2"),
    )
    assert labels_of(rails) == {"leaf-group": "sonic-645b96..sonic-d09aee-dda5eb50"}


def test_name_that_no_label_holds_is_written_as_one() -> None:
    rails = rails_to(("leaf 1/ü (row 7)", "mac:1"))
    assert labels_of(rails) == {"leaf": "leaf-1-row-7"}


def test_long_names_are_cut() -> None:
    first = "a1-".ljust(64, "x")
    host = "b1-".ljust(25, "X")
    second = f"{host}.".ljust(64, "x")
    rails = rails_to(
        (first, "mac:1"),
        (second, "mac:2"),
    )
    group = f"{first[:26]}..{host}-758f74c7"
    assert labels_of(rails) == {"leaf-group": group}


# Which NICs are rails


@dataclass(frozen=True)
class Near:
    """A NIC with one port, and its path to each of two GPUs."""

    nic: Nic
    to_gpus: tuple[str, str]


def near(name: str, to_gpus: tuple[str, str], *, pci: str, layer: str = "InfiniBand", state: str = "ACTIVE") -> Near:
    port = Port(1, layer, state)
    nic = Nic(
        name=name,
        pci=pci,
        numa=None,
        guid="",
        path=(),
        ports=(port,),
    )
    return Near(nic, to_gpus)


def rails_among(*cards: Near, cabled: tuple[str, ...] = ()) -> set[str]:
    """Names of the rails; `cabled` are those that once were."""
    nics = []
    paths: list[list[str]] = [[], []]
    for card in cards:
        nics.append(card.nic)
        paths[0].append(card.to_gpus[0])
        paths[1].append(card.to_gpus[1])
    return rail_nics(paths, nics, list(cabled))


def test_nearest_nics_of_each_gpu_are_rails() -> None:
    rails = rails_among(
        near("a", ("PXB", "SYS"), pci="0000:01:00.0"),
        near("b", ("PIX", "PXB"), pci="0000:02:00.0"),
        near("c", ("PXB", "PXB"), pci="0000:03:00.0"),
        near("d", ("PHB", "NODE"), pci="0000:04:00.0"),
    )
    assert rails == {"b", "c"}


def test_all_nics_are_rails_where_none_is_near() -> None:
    rails = rails_among(
        near("a", ("PHB", "SYS"), pci="0000:01:00.0", layer="Ethernet"),
        near("b", ("SYS", "NODE"), pci="0000:02:00.0", layer="Ethernet"),
    )
    assert rails == {"a", "b"}


def test_ethernet_beside_infiniband_is_no_rail() -> None:
    rails = rails_among(
        near("a", ("PIX", "PIX"), pci="0000:01:00.0"),
        near("b", ("PIX", "PIX"), pci="0000:02:00.0", layer="Ethernet"),
    )
    assert rails == {"a"}


def test_card_that_is_down_is_a_rail() -> None:
    rails = rails_among(
        near("a", ("PIX", "SYS"), pci="0000:01:00.0"),
        near("b", ("SYS", "PIX"), pci="0000:02:00.0", state="DOWN"),
    )
    assert rails == {"a", "b"}


def test_first_of_two_ports_that_are_down_is_a_rail() -> None:
    rails = rails_among(
        near("a", ("PIX", "PIX"), pci="0000:01:00.0", layer="Ethernet", state="DOWN"),
        near("b", ("PIX", "PIX"), pci="0000:01:00.1", layer="Ethernet", state="DOWN"),
    )
    assert rails == {"a"}


def test_second_port_is_the_rail_where_it_alone_is_up() -> None:
    rails = rails_among(
        near("a", ("PIX", "PIX"), pci="0000:01:00.0", layer="Ethernet", state="DOWN"),
        near("b", ("PIX", "PIX"), pci="0000:01:00.1", layer="Ethernet"),
    )
    assert rails == {"b"}


def test_second_port_is_a_rail_where_it_was_cabled() -> None:
    rails = rails_among(
        near("a", ("PIX", "PIX"), pci="0000:01:00.0", layer="Ethernet"),
        near("b", ("PIX", "PIX"), pci="0000:01:00.1", layer="Ethernet", state="DOWN"),
        cabled=("b",),
    )
    assert rails == {"a", "b"}


def test_machine_without_nics_has_no_rails() -> None:
    assert rails_among() == set()
