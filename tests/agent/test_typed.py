"""What comes out of a process that NVML lives in, or out of an annotation that anybody may write, is checked."""

from typing import Any, NamedTuple

import pytest

from toposcope.agent.typed import TypeMismatchError, reader


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
def test_documents_are_read_as_their_types(kind: Any, value: Any, read: Any) -> None:
    assert reader(kind)(value) == read


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, True, "'True' is no int"),
        (int, 1.0, "'1.0' is no int"),
        (str, None, "'None' is no str"),
        (bool, 0, "'0' is no bool"),
        (int | None, "1", "'1' is no int . None"),
        (tuple[int, ...], {"0": 1}, "is no array"),
        (tuple[int, ...], [1, "2"], "'2' is no int"),
        (tuple[int, int], [1], "is no array of 2"),
        (list[str], "ab", "'ab' is no array"),
        (dict[str, int], [], "is no object"),
        (dict[str, int], {"a": "b"}, "'b' is no int"),
        (Inner, ["a"], "is no array of 2"),  # nothing is left out between our own processes
        (Inner, ["a", [], 1], "is no array of 2"),
        (Inner, {"name": "a", "ports": []}, "is no array of 2"),
        (Outer, [[["a", [None]]], None, True], "'None' is no int"),
    ],
)
def test_what_is_of_another_type_is_refused(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(TypeMismatchError, match=words):
        reader(kind)(value)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(TypeMismatchError) as seen:
        reader(int)("x" * 1000)
    assert len(str(seen.value)) < 100


def test_a_type_that_no_document_has_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="bytes"):
        reader(bytes)
