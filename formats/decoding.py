"""Documents of other systems, decoded to the fields that a format is made of; anything else in them is passed over."""

from typing import Any, TypeVar

import msgspec

from formats.hierarchy import Unreadable

_T = TypeVar("_T")


class Meta(msgspec.Struct, frozen=True):
    """What is read of an object's metadata."""

    name: str


def decoded(document: Any, kind: type[_T], what: str) -> _T:
    """The document as `kind`. Raises Unreadable with the path of the field that does not fit."""
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unreadable(f"this is no {what}: {str(error).replace('`$.', '`')}") from None
