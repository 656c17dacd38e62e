"""Annotations of what NICs and rails are cabled to, as they are written and as anybody else might write them."""

import pytest
from toposcope.hardware.leaves import rails_text
from toposcope.hardware.neighbours import MAX_ANNOTATION_CHARACTERS, Neighbour, neighbours_text, parse_neighbours, plain
from toposcope.hardware.rails import MOST_RAILS, Miscabled, Rail, parse_rails, reported
from toposcope.text import parse

LEAF = Neighbour("leaf1", "mac:1", "7", "lldp")

# What is written


def test_neighbours_survive_their_own_writing_within_the_limit() -> None:
    longest = Neighbour(
        switch="s" * 63,
        id="i" * 63,
        port="p" * 63,
        by="lldp",
    )
    neighbours: dict[str, Neighbour | None] = {}
    for number in range(64):
        is_known = number % 8 != 0
        neighbours[f"{number:063}"] = longest if is_known else None
    text = neighbours_text(neighbours)
    assert MAX_ANNOTATION_CHARACTERS - 400 < len(text) <= MAX_ANNOTATION_CHARACTERS

    kept = list(parse_neighbours(text).items())
    first = list(neighbours.items())[: len(kept)]
    assert kept == first


def test_neighbour_beyond_the_limit_is_left_out() -> None:
    longest = "m" * (MAX_ANNOTATION_CHARACTERS - 9)
    too_long = longest + "m"
    assert len(neighbours_text({longest: None})) == MAX_ANNOTATION_CHARACTERS
    assert neighbours_text({too_long: None}) == "{}"


def test_all_of_64_unknown_neighbours_are_kept() -> None:
    neighbours = {str(nic): None for nic in range(64)}
    text = neighbours_text(neighbours)
    assert parse_neighbours(text) == neighbours


def test_no_more_rails_are_written_than_are_read() -> None:
    text = rails_text([None] * 100)
    read = parse_rails(text)
    assert len(read) == MOST_RAILS


def test_plain_text_is_printable_and_short() -> None:
    long = "b" * 80
    cut = "b" * 58
    assert plain(f" a\n\u00e9 ~{long}") == f"a?? ~{cut}"


# The switch that was expected


@pytest.mark.parametrize(
    ("switch", "port", "is_told"),
    [
        pytest.param("leaf1", "7", True, id="by-name"),
        pytest.param("leaf1 (mac:1)", "7", True, id="by-name-and-id"),
        pytest.param("mac:1", "7", False, id="by-id-alone"),
        pytest.param("leaf2", "7", False, id="another-switch"),
        pytest.param("leaf1", "8", False, id="another-port"),
    ],
)
def test_expected_switch_is_told_while_the_cable_is_there(switch: str, port: str, is_told: bool) -> None:
    neighbours = {"mlx5_0": LEAF, "mlx5_1": None}
    wrong = {}
    for nic in ("mlx5_0", "mlx5_1", "mlx5_2"):
        wrong[nic] = Miscabled(
            node="n1",
            uid="uid",
            nic=nic,
            switch=switch,
            port=port,
            expected="leaf9\n",
        )
    text = neighbours_text(neighbours, wrong)
    expected = {
        "switch": "leaf1",
        "id": "mac:1",
        "port": "7",
        "by": "lldp",
    }
    if is_told:
        expected["expected"] = "leaf9"
    assert parse(text) == {"mlx5_0": expected, "mlx5_1": None}
    assert parse_neighbours(text) == neighbours


def test_switch_without_a_name_is_told_by_its_id() -> None:
    neighbour = Neighbour("", "guid:1", "", "")
    wrong = Miscabled(
        node="n1",
        uid="uid",
        nic="mlx5_0",
        switch="guid:1",
        port="",
        expected="guid:2",
    )
    text = neighbours_text({"mlx5_0": neighbour}, {"mlx5_0": wrong})
    written = parse(text)["mlx5_0"]
    assert written["expected"] == "guid:2"


def test_malformed_finding_of_a_status_is_left_out() -> None:
    findings = [{"node": "n1"}, 7]
    status = {"rails": {"miscabled": findings}}
    (read,) = reported(status)
    assert read == Miscabled("n1", "", "", "", "", "")


# What is read


def test_fields_that_an_annotation_leaves_out_are_empty() -> None:
    neighbours = parse_neighbours('{"a":{"id":"x"}}')
    assert neighbours == {"a": Neighbour("", "x", "", "")}

    (rail,) = parse_rails('[{"nic":"b","id":"guid:1"}]')
    assert rail == Rail("b", "", "guid:1")
    assert parse_rails("[]") == ()


def test_rails_are_read_in_their_order() -> None:
    text = '[{"nic":"mlx5_0","switch":"leaf1","id":"mac:00:11","port":"Ethernet1/3"},null]'
    first, second = parse_rails(text)
    assert first == Rail("mlx5_0", "leaf1", "mac:00:11", "Ethernet1/3")
    assert second is None


def test_id_of_255_characters_is_read() -> None:
    longest = "x" * 255
    (rail,) = parse_rails(f'[{{"nic":"a","id":"{longest}"}}]')
    assert rail == Rail("a", "", longest)


NEIGHBOUR_FIELDS = "a neighbour needs an id, and texts of at most 63 printable ASCII characters$"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("[]", "not an object of at most 64 NICs", id="list"),
        pytest.param("null", "not an object of at most 64 NICs", id="null"),
        pytest.param("{" * 100_000, "", id="braces"),
        pytest.param("[" * 100_000, "nested too deeply$", id="deep"),
        pytest.param('{"a":1}', "a neighbour is neither an object nor null$", id="number"),
        pytest.param('{"a":{}}', NEIGHBOUR_FIELDS, id="no-id"),
        pytest.param('{"a":{"id":"x\\u001b"}}', NEIGHBOUR_FIELDS, id="escape"),
        pytest.param('{"a":{"id":7}}', NEIGHBOUR_FIELDS, id="id-a-number"),
        pytest.param('{"a":{"id":"é"}}', NEIGHBOUR_FIELDS, id="no-ascii"),
        pytest.param('{"a":{"id":" a"}}', NEIGHBOUR_FIELDS, id="leading-blank"),
        pytest.param('{"a":{"id":"' + "x" * 64 + '"}}', NEIGHBOUR_FIELDS, id="id-too-long"),
    ],
)
def test_malformed_neighbours_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        parse_neighbours(text)


RAIL_FIELDS = "a rail's fields must be printable and have up to 255 characters$"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("null", "not a list of up to 64 rails$", id="null"),
        pytest.param("{}", "not a list of up to 64 rails$", id="object"),
        pytest.param("[" + ",".join(["null"] * 65) + "]", "not a list of up to 64 rails$", id="65-rails"),
        pytest.param("[[]]", "a rail is neither an object nor null$", id="list"),
        pytest.param("[0]", "a rail is neither an object nor null$", id="number"),
        pytest.param("[" * 100_000, "nested too deeply$", id="deep"),
        pytest.param('[{"nic":"a","id":""}]', "a rail lacks its NIC or the switch's id$", id="id-empty"),
        pytest.param('[{"nic":"a"}]', "a rail lacks its NIC or the switch's id$", id="id-missing"),
        pytest.param('[{"id":"guid:1"}]', "a rail lacks its NIC or the switch's id$", id="nic-missing"),
        pytest.param('[{"nic":"a","id":7}]', "a rail's fields must be strings$", id="id-a-number"),
        pytest.param('[{"nic":"a","id":"guid:1","port":null}]', "a rail's fields must be strings$", id="port-null"),
        pytest.param('[{"nic":"a","id":"guid:1","switch":"a\\u001b"}]', RAIL_FIELDS, id="escape"),
        pytest.param('[{"nic":"a","id":"guid:1","port":"' + "x" * 256 + '"}]', RAIL_FIELDS, id="port-too-long"),
        pytest.param('[{"nic":"a","id":"\\ud800"}]', "'utf-8' codec", id="surrogate"),
    ],
)
def test_malformed_rails_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        parse_rails(text)
