"""Checks what JSON gave against Python types, for the agent's own few documents.

Own code where msgspec does the same for the controller: that package would be a tenth of each agent's memory and start.
"""

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from toposcope.errors import ToposcopeError


class TypeMismatchError(ToposcopeError, ValueError):
    """A value that is not what it should be; the message says which."""


Reader = Callable[[Any], Any]
"""Takes a decoded JSON value and returns it as its type has it. Raises NotOfType."""


@cache
def reader(kind: Any) -> Reader:
    """What reads `kind`: str, int, bool, None, a list or tuple of these, a dict by str, a named tuple, or a union.

    Tuples and named tuples are arrays in JSON, of exactly their length; true and false are no int. The first kind of a
    union that fits is taken.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is dict:
        return _values(reader(arguments[1]))
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return _items(origin, reader(arguments[0]))
    if origin in (tuple, UnionType):
        parts = tuple(map(reader, arguments))
        return _fields(tuple, parts) if origin is tuple else _union(kind, parts)
    if hasattr(kind, "_fields"):
        return _fields(kind._make, tuple(map(reader, get_type_hints(kind).values())))
    if kind not in (str, int, bool, NoneType):
        raise AssertionError(f"no JSON document of ours holds {kind}")
    return _plain(kind)


def _plain(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:  # an int is not a bool here
            raise TypeMismatchError(f"{str(value)[:40]!r} is no {kind.__name__}")
        return value

    return read


def _union(kind: UnionType, readers: tuple[Reader, ...]) -> Reader:
    def read(value: Any) -> Any:
        for each in readers:
            try:
                return each(value)
            except TypeMismatchError:
                continue
        raise TypeMismatchError(f"{str(value)[:40]!r} is no {kind}")

    return read


def _items(make: Callable[[list[Any]], Any], item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise TypeMismatchError(f"{str(value)[:40]!r} is no array")
        return make([item(each) for each in value])

    return read


def _fields(make: Callable[[list[Any]], Any], readers: tuple[Reader, ...]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise TypeMismatchError(f"{str(value)[:40]!r} is no array of {len(readers)}")
        return make([each(item) for each, item in zip(readers, value, strict=True)])

    return read


def _values(item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeMismatchError(f"{str(value)[:40]!r} is no object")
        return {key: item(each) for key, each in value.items()}

    return read
