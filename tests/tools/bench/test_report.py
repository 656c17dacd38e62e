import pytest

from tools.bench.report import HEAD, Figure, Peer, Sample, Target, aligned, number, rows_of


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert Sample((4, 1, 3, 2), "ms", share).value == expected


def test_one_value_has_no_spread() -> None:
    assert str(Sample((1.5,), "s")) == "1.50 s"
    assert str(Sample((1.5, 2.5, 12.25), "s")) == "2.50 s (1.50 to 12.2, n=3)"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (5.0, "5"), (0.123, "0.12"), (9.876, "9.88"), (35.71, "35.7"), (123.4, "123"), (38341.2, "38,341")],
)
def test_numbers_carry_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_table_holds_each_figure_against_its_peers() -> None:
    figure = Figure(
        "probe",
        Sample((6.0,), "ms"),
        Target(5),
        (Peer("calls", Sample((3.0,), "ms")), Peer("files", Sample((1.5,), "ms"))),
    )
    assert aligned([HEAD, *rows_of(figure), *rows_of(Figure("writes", Sample((0,), ""), Target(0)))]).splitlines() == [
        "figure  measured  target       limit or peer   ratio",
        "probe   6 ms      <= 5 missed  calls: 3 ms     2.00",
        "                               files: 1.50 ms  4.00",
        "writes  0         <= 0",
    ]


def test_target_knows_its_good_side() -> None:
    assert Target(5).met(5)
    assert not Target(5).met(5.1)
    assert Target(5, at_most=False).met(6)
    assert not Target(5, at_most=False).met(4)


def test_a_target_whose_limit_is_known_can_be_reached_as_a_ratio() -> None:
    target = Target(120, limit=40)
    assert target.met(120, 10)
    assert target.met(180, 60)
    assert not target.met(180, 59)
    assert not target.met(180)
    assert not target.met(180, 0)

    def shown(peer: float) -> str:
        figure = Figure("start", Sample((180.0,), "ms"), target, (Peer("limit", Sample((peer,), "ms")),))
        return aligned([HEAD, *rows_of(figure)]).splitlines()[1]

    assert "<= 120, or a ratio of 3  limit" in shown(60)
    assert "<= 120, or a ratio of 3 missed  limit" in shown(59)


def test_peer_of_nothing_gives_no_ratio() -> None:
    (row,) = rows_of(Figure("a", Sample((1,), ""), None, (Peer("b", Sample((0,), "")),)))
    assert row == ("a", "1", "", "b: 0", "")


def test_columns_stand_two_spaces_apart() -> None:
    assert aligned([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"
