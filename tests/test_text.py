import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toposcope.text import (
    compact,
    escaped,
    escaped_lines,
    not_utf8,
    parse,
    plural,
    printable,
    shell,
    type_words,
    yaml_words,
)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\r\nlines ", "two lines"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("\u200e\u2066\x9b2J\u2028", "\\u200e\\u2066\\u009b2J"),
        ("straße", "straße"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
    ],
    ids=ascii,
)
def test_foreign_text_stays_on_one_line_of_plain_characters(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_bytes_that_are_no_text_are_named_by_their_place() -> None:
    with pytest.raises(UnicodeDecodeError) as error:
        b"ab\x80".decode()
    assert not_utf8(error.value) == "not UTF-8: byte 0x80 at offset 2; save the file as UTF-8 text"


def test_libraries_are_translated() -> None:
    assert type_words("Expected `str`, got `int`") == "Expected text, got a number (put it in quotes)"
    assert type_words("Expected `object`, got `array`") == "Expected a mapping, got a list"
    assert yaml_words("use sys.set_int_max_str_digits()").startswith("a number has too many digits")
    assert yaml_words("found unhashable key") == "a list or a mapping is used as a key"


def test_one_and_several() -> None:
    assert [f"{count} {plural(count, 'node')}" for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert plural(2, "topology", "topologies") == "topologies"


@pytest.mark.regression
def test_what_is_written_reads_back() -> None:
    document = {"a": [1, None, True], "b": {"ü": "\U0001f600"}}
    assert compact(document) == '{"a":[1,null,true],"b":{"ü":"\U0001f600"}}'
    assert parse(compact(document)) == parse(compact(document).encode()) == document


def test_lines_are_escaped_one_by_one() -> None:
    assert escaped_lines("a  b\n\x1b") == "a  b\n\\u001b"


def test_what_is_kept_is_not_escaped() -> None:
    assert escaped("\x1b[1mbold\x1b[2J", r"\x1b\[1m") == "\x1b[1mbold\\u001b[2J"


def test_an_escaped_pair_is_one_character() -> None:
    assert parse('"\\ud83d\\uDE00"') == "\U0001f600"


@pytest.mark.parametrize(
    "text", ["", "{", b"\xff", b'"\xed\xa0\x80"', '"\\ud800"', '{"\\uDC00": 1}', '["\\ud800\\n"]'], ids=ascii
)
def test_what_is_no_text_or_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what json and the codec say is theirs
        parse(text)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(RecursionError):
        parse("[" * 1_000_000)


@pytest.mark.regression
@given(
    st.lists(st.text() | st.sampled_from(["-A", "--kubeconfig=/x", "$(id)", "a;b", "'", "a b", "", "`id`", "\u202e"]))
)
def test_a_copied_command_has_the_words_that_it_shows(values: list[str]) -> None:
    command = shell("kubectl get" + " {}" * len(values), *values)
    assert escaped(command) == command
    words = shlex.split(command)[2:]
    assert [word for word, value in zip(words, values, strict=True) if word not in (value, "NAME")] == []
    assert not any(word.startswith("-") for word in words)
