"""What rails make of a node, and what NICs are cabled to, as it is written down and as anybody else might write it."""

import pytest
from tests.support.tables import each_case
from toposcope.api.label_keys import PREFIX
from toposcope.api.label_values import is_label_value
from toposcope.hardware.leaves import leaf_labels, rail_nics, rails_text
from toposcope.hardware.neighbours import LIMIT, Neighbour, neighbours_text, parse_neighbours, plain
from toposcope.hardware.rails import MOST_RAILS, Miscabled, Rail, parse_rails, reported
from toposcope.hardware.topology import Nic, Port
from toposcope.text import parse


@each_case("leaves.yaml")
def test_the_label_of_rails(rails: list[list[str] | None], labels: dict[str, str]) -> None:
    made = [Rail(f"mlx5_{at}", *rail) if rail else None for at, rail in enumerate(rails)]
    found = leaf_labels(made)
    assert {key.removeprefix(PREFIX): value for key, value in found.items()} == labels
    assert all(is_label_value(value) for value in found.values())
    assert parse_rails(rails_text(made)) == tuple(made)
    assert len(parse_rails(rails_text([None] * 100))) == MOST_RAILS


@each_case("leaves.yaml")
def test_the_nics_that_are_rails(nics: dict[str, list[str]], cabled: list[str], rails: list[str]) -> None:
    """Of each NIC: its PCI function, link layer, state, and the path to each of two GPUs."""
    made = [Nic(name, pci, None, "", (), (Port(1, *port),)) for name, (pci, *port, _, _) in nics.items()]
    to_gpu0 = [path for *_, path, _ in nics.values()]
    to_gpu1 = [path for *_, path in nics.values()]
    assert rail_nics([to_gpu0, to_gpu1], made, cabled) == set(rails)


def test_neighbours_survive_their_own_writing_within_the_limit() -> None:
    leaf = Neighbour("s" * 63, "i" * 63, "p" * 63, "lldp")
    found = {f"{number:063}": leaf if number % 8 else None for number in range(64)}
    text = neighbours_text(found)
    kept = parse_neighbours(text)
    assert LIMIT - 400 < len(text) <= LIMIT
    assert kept == dict(list(found.items())[: len(kept)])
    assert len(neighbours_text({"m" * (LIMIT - 9): None})) == LIMIT
    assert neighbours_text({"m" * (LIMIT - 8): None}) == "{}"
    assert plain(f" a\n\u00e9 ~{'b' * 80}") == f"a?? ~{'b' * 58}"


@pytest.mark.parametrize(
    ("switch", "port", "told"),
    [
        ("leaf1", "7", True),
        ("leaf1 (mac:1)", "7", True),
        ("mac:1", "7", False),
        ("leaf2", "7", False),
        ("leaf1", "8", False),
    ],
)
def test_the_right_switch_stands_beside_the_wrong_one_as_long_as_the_cable_is_there(
    switch: str, port: str, told: bool
) -> None:
    found = {"mlx5_0": Neighbour("leaf1", "mac:1", "7", "lldp"), "mlx5_1": None}
    wrong = {nic: Miscabled("n1", "uid", nic, switch, port, "leaf9\n") for nic in ("mlx5_0", "mlx5_1", "mlx5_2")}
    expected = {"expected": "leaf9"} if told else {}
    text = neighbours_text(found, wrong)
    assert parse(text) == {
        "mlx5_0": {"switch": "leaf1", "id": "mac:1", "port": "7", "by": "lldp"} | expected,
        "mlx5_1": None,
    }
    assert parse_neighbours(text) == found


def test_a_switch_without_a_name_is_told_by_its_id() -> None:
    wrong = {"mlx5_0": Miscabled("n1", "uid", "mlx5_0", "guid:1", "", "guid:2")}
    text = neighbours_text({"mlx5_0": Neighbour("", "guid:1", "", "")}, wrong)
    assert parse(text)["mlx5_0"]["expected"] == "guid:2"


def test_what_an_annotation_leaves_out_is_empty() -> None:
    assert parse_neighbours('{"a":{"id":"x"}}') == {"a": Neighbour("", "x", "", "")}
    rails = '[{"nic":"mlx5_0","switch":"leaf1","id":"mac:00:11","port":"Ethernet1/3"},null,{"nic":"b","id":"guid:1"}]'
    assert parse_rails(rails) == (Rail("mlx5_0", "leaf1", "mac:00:11", "Ethernet1/3"), None, Rail("b", "", "guid:1"))
    assert parse_rails("[]") == ()
    assert parse_rails(f'[{{"nic":"a","id":"{"x" * 255}"}}]') == (Rail("a", "", "x" * 255),)
    assert len(parse_neighbours(neighbours_text({str(nic): None for nic in range(64)}))) == 64
    assert reported({"rails": {"miscabled": [{"node": "n1"}, 7]}}) == [Miscabled("n1", "", "", "", "", "")]


@each_case("neighbours.yaml")
def test_other_neighbours_are_refused(text: str, times: int, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        parse_neighbours(text * times)


@each_case("neighbours.yaml")
def test_other_rails_are_refused(text: str, times: int, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        parse_rails(text * times)
