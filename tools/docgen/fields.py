"""The fields of a ClusterTopology, from its CustomResourceDefinition."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tools.docgen.markdown import code, listed, table

CRD: Final = Path(__file__).parents[2] / "manifests" / "crds" / "gpu.topology_clustertopologies.yaml"
_LIMITS: Final = {
    "maxItems": "at most {} entries",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "pattern": "pattern `{}`",
}


def spec() -> str:
    """What an admin writes."""
    return _part("spec")


def status() -> str:
    """What the controller writes."""
    return _part("status")


def _part(name: str) -> str:
    schema = _schema()["properties"][name]
    rows = ([code(path), _type(field), _meaning(field)] for path, field in _fields(schema, name))
    return table(["field", "type", "meaning"], rows)


@cache
def _schema() -> dict[str, Any]:
    (version,) = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in schema.get("properties", {}).items():
        at = f"{path}.{name}"
        yield at, field
        yield from _fields(field, at)
        items = field.get("items", {})
        yield from _fields(items, f"{at}[]")


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    return str(field.get("format", field["type"]))


def _meaning(field: dict[str, Any]) -> str:
    words = [" ".join(field["description"].split())]
    if "enum" in field:
        words.append(f"One of {listed(map(str, field['enum']))}.")
    if field.get("default"):
        words.append(f"Default: {code(str(field['default']))}.")
    # That a count is not negative goes without saying.
    limits = [text.format(field[name]) for name, text in _LIMITS.items() if field.get(name)]
    if limits:
        words.append(", ".join(limits).capitalize() + ".")
    words += [f"Rule: {rule['message']}." for rule in field.get("x-kubernetes-validations", [])]
    return " ".join(words)
