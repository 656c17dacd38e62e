"""The fields of a document that may affect where its pods run and are not read."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from toposcope.api.yaml_text import load
from toposcope.integrations.framework.document import UnreadField
from toposcope.integrations.framework.field_uses import FILE, FieldUses
from toposcope.integrations.registry import PLUGINS


@cache
def field_uses() -> FieldUses:
    """The lists of all systems."""
    contents = {}
    for plugin in PLUGINS:
        file = files(plugin.package) / FILE
        if file.is_file():
            contents[plugin.name] = load(file.read_bytes())
    return FieldUses(contents)


def unread_fields(document: Mapping[str, Any]) -> tuple[UnreadField, ...]:
    """The fields of an object that make a verdict unclear. Never raises."""
    return field_uses().unread(document)


def unread_pods(document: Mapping[str, Any]) -> tuple[UnreadField, ...]:
    """The fields that may create pods in an object that no system reads. Never raises."""
    return field_uses().unread_pods(document)
