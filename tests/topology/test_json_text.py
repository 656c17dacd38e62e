import pytest

from toposcope.topology.text import compact, parse


def test_what_is_written_reads_back() -> None:
    document = {"a": [1, None, True], "b": {"ü": "\U0001f600"}}
    assert compact(document) == '{"a":[1,null,true],"b":{"ü":"\U0001f600"}}'
    assert parse(compact(document)) == parse(compact(document).encode()) == document


def test_an_escaped_pair_is_one_character() -> None:
    assert parse('"\\ud83d\\uDE00"') == "\U0001f600"


@pytest.mark.parametrize("text", ["", "{", b"\xff", b'"\xed\xa0\x80"', '"\\ud800"', '{"\\uDC00": 1}', '["\\ud800\\n"]'])
def test_what_is_no_text_or_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what json and the codec say is theirs
        parse(text)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(RecursionError):
        parse("[" * 1_000_000)
