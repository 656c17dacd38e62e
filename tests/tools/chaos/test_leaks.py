from collections.abc import Sequence
from typing import Any, cast

import pytest

from tools.chaos.processes import Program, Size
from tools.chaos.violations import Findings, Leaks


class Sized:
    """A program of given sizes, one after the other."""

    name = "agent-n1"
    pid = 7

    def __init__(self, sizes: Sequence[Size]) -> None:
        self._sizes = iter(sizes)

    def size(self) -> Size:
        return next(self._sizes)


def judged(sizes: Sequence[Size]) -> list[str]:
    leaks, findings, program = Leaks(), Findings(), Sized(sizes)
    for _ in sizes:
        leaks.take(cast("Program", program))
    leaks.judge(findings)
    return [violation.what for violation in findings.take()]


def sizes(count: int, **growth: Any) -> list[Size]:
    start = {"memory": 40.0, "descriptors": 16, "threads": 3, "maps": 400}
    return [Size(**{what: value + growth.get(what, 0) * i for what, value in start.items()}) for i in range(count)]


def test_what_stays_or_wavers_is_no_leak() -> None:
    wavering = [Size(40.0 + i % 3, 16 + i % 2, 3, 400 + i % 9) for i in range(30)]
    assert judged(sizes(30)) == judged(wavering) == []


@pytest.mark.parametrize("what", ["memory", "descriptors", "threads", "maps"])
def test_what_grows_is_found(what: str) -> None:
    step = {"memory": 1.0, "maps": 4}.get(what, 1)
    (found,) = judged(sizes(30, **{what: step}))
    assert found.startswith(f"agent-n1: {what} from")


def test_few_looks_say_nothing() -> None:
    assert judged(sizes(5, descriptors=100)) == []
