"""Tables of cases in tests/fixtures/: YAML, a row per case; a field that no row has fails as the test is collected."""

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest
from tests.support.paths import FIXTURES
from toposcope.api.yaml_text import load

Test = TypeVar("Test", bound=Callable[..., Any])
Row = TypeVar("Row", bound=msgspec.Struct)


def rows(file: str, kind: type[Row]) -> list[Row]:
    """The rows of one table. Raises msgspec.ValidationError for a row that is not of this kind."""
    return [msgspec.convert(row, kind) for row in load((FIXTURES / file).read_bytes())]


def each_row(file: str, kind: type[Row], ids: Callable[[Row], str]) -> pytest.MarkDecorator:
    """Run a test once per row, which it takes as `row`."""
    return pytest.mark.parametrize("row", rows(file, kind), ids=ids)


def named_objects(file: str) -> dict[str, Any]:
    """Objects of others by a word for each, new ones at each call."""
    named: dict[str, Any] = load((FIXTURES / file).read_bytes())
    return named


@functools.cache
def _tables(file: str) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = load((FIXTURES / file).read_bytes())
    return tables


def each_case(file: str) -> Callable[[Test], Test]:
    """Run a test once per row of the file's table of its name, with the row's fields as its arguments.

    A field `id` names the case.
    """

    def parametrized(test: Test) -> Test:
        table = _tables(file)[test.__name__]
        fields = list(table[0])
        assert all(list(case) == fields for case in table), f"{file}: {test.__name__}: rows differ in their fields"
        names = [field for field in fields if field != "id"]
        ids = [case["id"] for case in table] if "id" in fields else None
        return pytest.mark.parametrize(names, [[case[name] for name in names] for case in table], ids=ids)(test)

    return parametrized


def at(document: Any, path: str) -> Any:
    """What a document has at a place such as `levels[0].domain`; None where it has nothing.

    A list knows names, types and domains too, as in `env[NODE_NAME]`, and `[1:]` is what follows its first entry.
    """
    for key, name in re.findall(r"\[([^\]]+)\]|([^.\[]+)", path):
        if isinstance(document, list) and key.endswith(":"):
            document = document[int(key[:-1]) :]
        elif isinstance(document, list) and not key.lstrip("-").isdigit():
            document = {item.get("name", item.get("type", item.get("domain"))): item for item in document}.get(key)
        else:
            document = document[int(key)] if isinstance(document, list) else (document or {}).get(key or name)
    return document


def says(text: str, words: str) -> bool:
    """Whether a text consists of these words, of which `*` stands for any."""
    return re.fullmatch(".*".join(map(re.escape, words.split("*"))), text, re.DOTALL) is not None
