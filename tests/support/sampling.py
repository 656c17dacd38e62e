"""Which cases of a large table run with every `make test`."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
    """The values, as parameters of a test; those after the first `count` are slow."""
    parameters = []
    for number, value in enumerate(values):
        marks = (pytest.mark.slow,) if number >= count else ()
        parameters.append(pytest.param(value, marks=marks))
    return parameters
