"""Rules of `metadata`, the same for every kind (apimachinery's object and label validation)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import Cause, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_NAME_MAX = 63
_NAME_MAX = 253
_ANNOTATIONS_MAX = 256 * 1024

_BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_NAME}')"
)
_BAD_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_PART}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_PART})?')"
)


def check(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with an object's metadata."""
    name = metadata["name"]
    if len(name) > _NAME_MAX:
        yield wrong("metadata.name", name, f"must be no more than {_NAME_MAX} bytes")
    if not re.fullmatch(_NAME, name):
        yield wrong("metadata.name", name, _BAD_NAME)
    for key, value in (metadata.get("labels") or {}).items():
        yield from _check_key("metadata.labels", key)
        if len(value) > _LABEL_NAME_MAX:
            yield wrong("metadata.labels", value, f"must be no more than {_LABEL_NAME_MAX} bytes")
        if not re.fullmatch(f"({_PART})?", value):
            yield wrong("metadata.labels", value, _BAD_VALUE)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from _check_key("metadata.annotations", key.lower())
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_MAX:
        message = f"Too long: may not be more than {_ANNOTATIONS_MAX} bytes"
        yield Cause("FieldValueTooLong", "metadata.annotations", message)


def _check_key(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield wrong(field, key, f"a valid label key must consist of one part or two divided by one '/': {_BAD_PART}")
        return
    if slash and not prefix:
        yield wrong(field, key, "prefix part must be non-empty")
    elif len(prefix) > _NAME_MAX:
        yield wrong(field, key, f"prefix part must be no more than {_NAME_MAX} bytes")
    elif slash and not re.fullmatch(_NAME, prefix):
        yield wrong(field, key, f"prefix part {_BAD_NAME}")
    if not name:
        yield wrong(field, key, "name part must be non-empty")
    elif len(name) > _LABEL_NAME_MAX:
        yield wrong(field, key, f"name part must be no more than {_LABEL_NAME_MAX} bytes")
    if not re.fullmatch(_PART, name):
        yield wrong(field, key, _BAD_PART)
