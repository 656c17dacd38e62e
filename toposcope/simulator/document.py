"""Strict reading of hand-written YAML: every error names the file, the field and the fix."""

import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from toposcope.api.yaml_text import YamlSyntaxError, load
from toposcope.errors import ToposcopeError
from toposcope.topology.text import printable

_T = TypeVar("_T")
_REQUIRED: Final[Any] = object()
_LONGEST_MESSAGE: Final = 1000
_LARGEST: Final = 2**63


class DocumentError(ToposcopeError, ValueError):
    """A document that cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, _LONGEST_MESSAGE))


def read_yaml(path: Path, error: type[DocumentError]) -> Any:
    """Parse a YAML file. Raises `error` when it is not YAML; an empty file is an empty mapping."""
    try:
        document = load(path.read_bytes())
    except YamlSyntaxError as broken:
        raise error(f"{path.name}, line {broken.line}: {broken}") from broken
    return {} if document is None else document


class Section:
    """One mapping of a document, read field by field; `finish` refuses fields that were not read."""

    def __init__(self, value: object, path: str, error: type[DocumentError]) -> None:
        if not isinstance(value, dict):
            raise error(f"{path}: is {_kind(value)}, write a mapping (`field: value`)")
        self._fields: dict[Any, Any] = value
        self._path = path
        self._error = error
        self._asked: set[Any] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def error(self, field: str, problem: str) -> DocumentError:
        """An error about one field, to be raised."""
        return self._error(f"{self._path}: {field}: {problem}")

    def finish(self) -> None:
        """Raise when a field was not asked for: it is misspelt or does not belong here."""
        unknown = [name for name in self._fields if name not in self._asked]
        if unknown:
            known = ", ".join(sorted(map(str, self._asked)))
            raise self.error(str(unknown[0]), f"unknown field; known here: {known}")

    def text(self, name: str, default: str = _REQUIRED) -> str:
        """A string."""
        return self._get(name, default, lambda value: isinstance(value, str), "text (quote it when it looks like one)")

    def integer(self, name: str, default: int = _REQUIRED, most: int = _LARGEST) -> int:
        """A whole number, not negative and at most `most`."""
        number = self._get(name, default, _is_number, "a whole number, 0 or more")
        if number > most:
            raise self.error(name, f"is more than {most:,}")
        return number

    def boolean(self, name: str, default: bool = _REQUIRED) -> bool:
        """`true` or `false`."""
        return self._get(name, default, lambda value: isinstance(value, bool), "`true` or `false`")

    def choice(self, name: str, choices: dict[str, _T], default: _T = _REQUIRED) -> _T:
        """What one of a few words stands for."""
        if name not in self and default is not _REQUIRED:
            self._asked.add(name)
            return default
        word = self.text(name)
        if word not in choices:
            raise self.error(name, f"{word!r} is not one of {', '.join(choices)}")
        return choices[word]

    def integers(self, name: str) -> list[int]:
        """A list of whole numbers, empty when left out."""
        return self._get(name, [], _list_of(_is_number), "a list of whole numbers")

    def strings(self, name: str) -> list[str]:
        """A list of strings."""
        return self._get(name, _REQUIRED, _list_of(lambda value: isinstance(value, str)), "a list of text")

    def number_lists(self, name: str) -> list[list[int]]:
        """A list of lists of whole numbers, empty when left out."""
        return self._get(name, [], _list_of(_list_of(_is_number)), "a list of lists of whole numbers")

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        return self._get(name, _REQUIRED, _list_of(lambda _: True), "a list")

    def by_number(self, name: str) -> dict[int, Any]:
        """A mapping from whole numbers to anything, empty when left out."""
        return self._get(
            name, {}, lambda value: isinstance(value, dict) and all(map(_is_number, value)), "a mapping from numbers"
        )

    def section(self, name: str) -> "Section":
        """A nested mapping."""
        return self.inner(self._get(name, _REQUIRED, lambda _: True, "a mapping"), name)

    def sections(self, name: str) -> list["Section"]:
        """A list of mappings, empty when left out."""
        mappings: list[Any] = self._get(name, [], _list_of(lambda _: True), "a list of mappings")
        return [self.inner(value, f"{name}[{i}]") for i, value in enumerate(mappings)]

    def inner(self, value: object, name: str) -> "Section":
        """A mapping somewhere in this one."""
        return Section(value, f"{self._path}: {name}", self._error)

    def _get(self, name: str, default: _T, fits: Callable[[Any], bool], wanted: str) -> _T:
        self._asked.add(name)
        if name not in self._fields:
            if default is _REQUIRED:
                raise self.error(name, f"is missing; write {wanted}")
            return default
        value = self._fields[name]
        if not fits(value):
            raise self.error(name, f"is {_kind(value)}, write {wanted}")
        return cast("_T", value)


def _is_number(value: object) -> bool:
    # bool is an int in Python; `count: yes` is a mistake all the same.
    return type(value) is int and value >= 0


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _kind(value: object) -> str:
    return "empty" if value is None else f"{reprlib.repr(value)} ({type(value).__name__})"[:80]
