"""What rails make of a node, and what NICs are cabled to, as it is written down and as anybody else might write it."""

import pytest

from tests.support.tables import each_case
from toposcope.api.label_keys import PREFIX
from toposcope.topology.label_values import is_label_value
from toposcope.topology.leaves import leaf_labels, rails_text
from toposcope.topology.neighbours import LIMIT, Neighbour, neighbours_text, parse_neighbours, plain
from toposcope.topology.rails import MOST_RAILS, Rail, parse_rails


@each_case("leaves.yaml")
def test_the_label_of_rails(rails: list[list[str] | None], labels: dict[str, str]) -> None:
    made = [Rail(f"mlx5_{at}", *rail) if rail else None for at, rail in enumerate(rails)]
    found = leaf_labels(made)
    assert {key.removeprefix(PREFIX): value for key, value in found.items()} == labels
    assert all(is_label_value(value) for value in found.values())
    assert parse_rails(rails_text(made)) == tuple(made)
    assert len(parse_rails(rails_text([None] * 100))) == MOST_RAILS


def test_neighbours_survive_their_own_writing_within_the_limit() -> None:
    leaf = Neighbour("s" * 63, "i" * 63, "p" * 63, "lldp")
    found = {f"{number:063}": leaf if number % 8 else None for number in range(64)}
    text = neighbours_text(found)
    kept = parse_neighbours(text)
    assert LIMIT - 400 < len(text) <= LIMIT
    assert kept == dict(list(found.items())[: len(kept)])
    assert parse_neighbours(neighbours_text({"mlx5_0": None})) == {"mlx5_0": None}
    assert plain(f" a\n\u00e9 ~{'b' * 80}") == f"a?? ~{'b' * 58}"


@each_case("neighbours.yaml")
def test_other_annotations_are_refused(text: str, times: int) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        parse_neighbours(text * times)
