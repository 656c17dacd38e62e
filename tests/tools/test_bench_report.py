import pytest

from tools.bench.report import HEAD, Figure, Peer, Sample, Target, aligned, rows_of


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert Sample((4, 1, 3, 2), "ms", share).value == expected


def test_table_holds_each_figure_against_its_peers() -> None:
    peers = (Peer("calls", Sample((3.0,), "ms")), Peer("files", Sample((1.5, 0.4, 38341.2), "ms")))
    figures = (
        Figure("probe", Sample((6.0,), "ms"), Target(5), peers),
        Figure("writes", Sample((0,), ""), Target(0), (Peer("none", Sample((0,), "")),)),
    )
    assert aligned([HEAD, *(row for figure in figures for row in rows_of(figure))]).splitlines() == [
        "figure  measured  target       limit or peer                         ratio",
        "probe   6 ms      <= 5 missed  calls: 3 ms                           2.00",
        "                               files: 1.50 ms (0.40 to 38,341, n=3)  4.00",
        "writes  0         <= 0         none: 0",
    ]


@pytest.mark.parametrize(
    ("target", "value", "peer", "met"),
    [
        (Target(5), 5, None, True),
        (Target(5), 5.1, None, False),
        (Target(5, at_most=False), 6, None, True),
        (Target(5, at_most=False), 4, None, False),
        (Target(120, limit=40), 120, 10, True),
        (Target(120, limit=40), 180, 60, True),
        (Target(120, limit=40), 180, 59, False),
        (Target(120, limit=40), 180, 0, False),
    ],
)
def test_target_is_reached_as_a_number_or_as_a_ratio(target: Target, value: float, peer: float, met: bool) -> None:
    assert target.met(value, peer) is met
