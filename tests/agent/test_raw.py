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
        pytest.param(
            Outer,
            [[["a", [1, 2]], ["b", []]], [1, "x"], True],
            Outer((Inner("a", (1, 2)), Inner("b")), (1, "x"), True),
            id="nested-tuples",
        ),
        pytest.param(Outer, [[], None, False], Outer((), None, False), id="empty-tuples"),
        pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="dict"),
        pytest.param(list[str | None], ["a", None], ["a", None], id="list"),
    ],
)
def test_json_values_become_their_types(kind: Any, value: Any, read: Any) -> None:
    assert typed(value, kind) == read


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        pytest.param(int, True, "'True' is not int", id="bool-for-int"),
        pytest.param(int, 1.0, "'1.0' is not int", id="float-for-int"),
        pytest.param(str, None, "'None' is not str", id="none-for-str"),
        pytest.param(bool, 0, "'0' is not bool", id="int-for-bool"),
        pytest.param(int | None, "1", "'1' is not int . None", id="str-for-int-or-none"),
        pytest.param(tuple[int, ...], {"0": 1}, "is not tuple", id="dict-for-tuple"),
        pytest.param(tuple[int, ...], [1, "2"], "'2' is not int", id="str-in-tuple"),
        pytest.param(tuple[int, int], [1], "is not tuple", id="tuple-too-short"),
        pytest.param(list[str], "ab", "'ab' is not list", id="str-for-list"),
        pytest.param(dict[str, int], [], "is not dict", id="empty-list-for-dict"),
        pytest.param(dict[str, int], ["a", 1], "is not dict", id="list-for-dict"),
        pytest.param(dict[str, int], {"a": "b"}, "'b' is not int", id="str-in-dict"),
        # Nothing is left out between our own processes.
        pytest.param(Inner, ["a"], "is not Inner", id="field-missing"),
        pytest.param(Inner, ["a", [], 1], "is not Inner", id="field-too-many"),
        pytest.param(Inner, {"name": "a", "ports": []}, "is not Inner", id="dict-for-fields"),
        pytest.param(Outer, [[["a", [None]]], None, True], "'None' is not int", id="none-in-inner-tuple"),
    ],
)
def test_value_of_another_type_is_rejected(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        typed(value, kind)


def test_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match="is not int") as seen:
        typed("x" * 1000, int)
    assert len(str(seen.value)) < 100
