"""The time of every reader grows with its text, not with its square; one that hangs is ended and named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from tools.fuzz.growth import FACTOR, MOST_GROWTH, SMALL_BYTES, Measured, in_child, measure, shown, text_of
from tools.fuzz.readers import READERS, Reader
from toposcope.errors import ToposcopeError

UNIT = ("head ", "ab", " tail")


def clock_of(cost: Callable[[int], float]) -> tuple[Callable[[str], None], Callable[[], float]]:
    """A reader that takes a number of seconds for a text of this length, and its clock."""
    now = 0.0

    def read(text: str) -> None:
        nonlocal now
        now += cost(len(text))

    return read, lambda: now


@pytest.mark.parametrize(
    ("cost", "grows"),
    [
        pytest.param(lambda size: size * 1e-4, False, id="linear"),
        pytest.param(lambda size: size**2 * 1e-6, True, id="quadratic"),
        pytest.param(lambda size: size**2 * 1e-10, False, id="too-short-to-be-measured"),
        pytest.param(lambda size: size**1.5 * 1e-5, False, id="between"),
        pytest.param(lambda _: 100.0, False, id="constant"),
    ],
)
def test_growth_is_judged_by_two_sizes(cost: Callable[[int], float], grows: bool) -> None:
    read, clock = clock_of(cost)
    measured = measure(read, [UNIT], clock=clock)
    assert measured.grows is grows


def test_unit_that_grows_is_found_among_others() -> None:
    now = 0.0

    def read(text: str) -> None:
        nonlocal now
        now += len(text) ** 2 * 1e-6 if "#" in text else len(text) * 1e-4

    tried: list[tuple[str, str, str]] = []
    found = measure(read, [("", "a", ""), ("", "#", ""), ("", "b", "")], tried.append, lambda: now)
    assert found.unit == ("", "#", "")
    assert tried == [("", "a", ""), ("", "#", "")]


def test_refusals_are_results_and_anything_else_is_not() -> None:
    def refuse(_text: str) -> None:
        raise ToposcopeError("no")

    def fail(_text: str) -> None:
        raise RecursionError

    assert not measure(refuse, [UNIT]).grows
    with pytest.raises(RecursionError):
        measure(fail, [UNIT])


def test_texts_have_the_size_that_is_asked_for() -> None:
    assert text_of(UNIT, 6) == "head ababab tail"
    assert len(text_of(UNIT, FACTOR * SMALL_BYTES)) == pytest.approx(FACTOR * SMALL_BYTES, abs=20)


PLANTED = """
import re, sys, json
from pathlib import Path
from tools.fuzz import growth
growth._BUSY_SECONDS = 1
COMMENTS = re.compile(r"(?:(?:#.*|[ \\t]*)\\r?\\n)*apiVersion")
name, path = sys.argv[2:]
read = {"hangs": COMMENTS.match, "fails": lambda text: [][len(text)], "well": len}[name]
found = growth.child(read, [("", "#\\r\\n", "")], Path(path))
json.dump((found.unit, found.small, found.large), sys.stdout)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("hangs", "hangs: still at it after", id="hangs"),
        pytest.param("fails", "IndexError", id="fails"),
        pytest.param("well", "", id="well"),
    ],
)
def test_child_that_hangs_or_fails_is_named_with_its_unit(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_growth.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    measured, finding = in_child(name, "planted_growth")
    assert (measured is None) is bool(said)
    assert said in finding
    if name == "hangs":
        assert finding.endswith(r"'' + '#\r\n' * n + ''")


def test_finding_is_one_line() -> None:
    quadratic = Measured(UNIT, 0.1, 0.1 * (MOST_GROWTH + 1))
    assert quadratic.grows
    assert shown(quadratic.unit) == "'head ' + 'ab' * n + ' tail'"


def test_there_are_readers_for_everything() -> None:
    assert len({reader.name for reader in READERS}) == len(READERS) >= 26


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_reader_takes_time_in_proportion(reader: Reader) -> None:
    _, finding = in_child(reader.name)
    assert finding == ""
