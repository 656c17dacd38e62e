"""What comes from a worker, or from an annotation that anybody may write, is checked against its types."""

from typing import Any, NamedTuple

import pytest
from toposcope.agent.raw import typed


class Inner(NamedTuple):
    name: str
    ports: tuple[int, ...] = ()


class Outer(NamedTuple):
    inner: tuple[Inner, ...]
    place: tuple[int, str] | None
    on: bool


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Outer, [[["a", [1, 2]], ["b", []]], [1, "x"], True], Outer((Inner("a", (1, 2)), Inner("b")), (1, "x"), True)),
        (Outer, [[], None, False], Outer((), None, False)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (list[str | None], ["a", None], ["a", None]),
    ],
)
def test_json_values_become_their_types(kind: Any, value: Any, read: Any) -> None:
    assert typed(value, kind) == read


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, True, "'True' is not int"),
        (int, 1.0, "'1.0' is not int"),
        (str, None, "'None' is not str"),
        (bool, 0, "'0' is not bool"),
        (int | None, "1", "'1' is not int . None"),
        (tuple[int, ...], {"0": 1}, "is not tuple"),
        (tuple[int, ...], [1, "2"], "'2' is not int"),
        (tuple[int, int], [1], "is not tuple"),
        (list[str], "ab", "'ab' is not list"),
        (dict[str, int], [], "is not dict"),
        (dict[str, int], ["a", 1], "is not dict"),
        (dict[str, int], {"a": "b"}, "'b' is not int"),
        (Inner, ["a"], "is not Inner"),  # nothing is left out between our own processes
        (Inner, ["a", [], 1], "is not Inner"),
        (Inner, {"name": "a", "ports": []}, "is not Inner"),
        (Outer, [[["a", [None]]], None, True], "'None' is not int"),
    ],
)
def test_value_of_another_type_is_rejected(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        typed(value, kind)


def test_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match="is not int") as seen:
        typed("x" * 1000, int)
    assert len(str(seen.value)) < 100
