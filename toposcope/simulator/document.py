"""Strict reading of hand-written YAML: every error names the file, the field and the fix."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec

from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.errors import ToposcopeError
from toposcope.text import printable

Kind = TypeVar("Kind")
Number = Annotated[int, msgspec.Meta(ge=0)]
_MOST_MESSAGE_CHARACTERS: Final = 1000
_WORDS: Final = {
    "int": "a whole number, 0 or more",
    "str": "text (quote it when it looks like something else)",
    "bool": "`true` or `false`",
    "array": "a list",
    "object": "a mapping (`field: value`)",
}


class DocumentPart(msgspec.Struct, forbid_unknown_fields=True):
    """One mapping of a document."""


class DocumentError(ToposcopeError, ValueError):
    """A document that cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, _MOST_MESSAGE_CHARACTERS))


def read_document(
    path: Path,
    kind: type[Kind],
    error: type[DocumentError],
    words: Mapping[Any, Callable[[Any], Any]] | None = None,
) -> Kind:
    """Read a YAML file; an empty one is an empty mapping.

    `words` makes values of types that YAML does not have. Raises `error` and OSError.
    """
    try:
        document = load(path.read_bytes())
    except YamlSyntaxError as broken:
        raise error(f"{path.name}, line {broken.line}: {broken}") from broken
    try:
        return msgspec.convert(
            {} if document is None else document,
            kind,
            dec_hook=lambda wanted, value: (words or {})[wanted](value),
        )
    except msgspec.ValidationError as broken:
        raise error(f"{path.name}: {_in_words(str(broken))}") from broken


def _in_words(message: str) -> str:
    """What msgspec says, as somebody who writes YAML wants it."""
    problem, _, path = message.rpartition(" - at ")
    if not problem:
        return _problem(message)
    path = path.removeprefix("`key` in ").strip("`")
    field = path.removeprefix("$").removeprefix(".")
    if not field:
        return _problem(problem)
    return f"{field}: {_problem(problem)}"


def _problem(words: str) -> str:
    """A problem of msgspec without its field."""
    expected, _, got = words.partition("`, got `")
    if got:
        actual = got.removesuffix("`")
        wanted = expected.removeprefix("Expected `").removesuffix(" | null")
        wanted = _WORDS.get(wanted, wanted)
        return f"is `{actual}`, write {wanted}"

    number = words.removeprefix("Expected `int` ")
    if number != words:
        return f"write a whole number {number}"
    value = words.removeprefix("Invalid enum value ")
    if value != words:
        return f"{value} is not a value of this field"
    field = words.removeprefix("Object missing required field ")
    if field != words:
        return f"{field} is missing"
    return words.replace("Object contains unknown field", "unknown field")
