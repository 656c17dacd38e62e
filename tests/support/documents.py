"""Documents that tests read: files of tests/documents/, and the same with other values in some places."""

import copy
import functools
import re
from textwrap import dedent
from typing import Any

import yaml
from tests.support.paths import DOCUMENTS
from tests.support.saved import Object
from toposcope.api.yaml_text import load

Edits = dict[str, Any]
"""A value by its place: `spec.template.cliques[0].name`, as findings name it; None leaves nothing there."""
_STEP = re.compile(r"\[([^\]]+)\]|([^.\[]+)")


def document(name: str, edits: Edits | None = None) -> Any:
    """A new copy of tests/documents/NAME.yaml, with other values in some places."""
    return edited(_document(name), edits or {})


def read_manifests(name: str) -> list[Object]:
    """New objects of a file of several, such as `cli/claims.yaml`."""
    return list(yaml.load_all((DOCUMENTS / name).read_text(encoding="utf-8"), yaml.CSafeLoader))


def read_manifest(name: str) -> Object:
    """The only object of a file."""
    (manifest,) = read_manifests(name)
    return manifest


@functools.cache
def _document(name: str) -> Any:
    return load((DOCUMENTS / f"{name}.yaml").read_bytes())


def edited(original: Any, edits: Edits) -> Any:
    """A copy with other values in some places; objects on the way to a place are made where there are none."""
    result = copy.deepcopy(original)
    for path, value in edits.items():
        if not path:
            result = copy.deepcopy(value)
            continue
        *above, last = (key or name for key, name in _STEP.findall(path))
        parent = result
        for step in above:
            parent = parent[int(step)] if isinstance(parent, list) else parent.setdefault(step, {})
        if value is None:
            parent.pop(last, None)
        elif isinstance(parent, list):
            parent[int(last)] = copy.deepcopy(value)
        else:
            parent[last] = copy.deepcopy(value)
    return result


def text(lines: str) -> str:
    """An indented block of lines without its indentation and the line breaks around it."""
    return dedent(lines).strip("\n").rstrip()
