"""The three patch formats that describe a change instead of a state: RFC 7386, RFC 6902, strategic merge."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import bad_request, invalid_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

# Lists that a strategic merge combines item by item, by the field that names an item. `ports` of services and
# containers have keys of their own that depend on the place; no test or demo object needs them.
_MERGE_KEYS = {
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
}
_MERGED_SETS = ("finalizers", "podCIDRs")


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic_merge_patch(target: Any, patch: Any, name: str = "") -> Any:
    """Kubernetes' own format: as a merge patch, but known lists combine, and `$patch` directives apply."""
    if isinstance(patch, list):
        return _merge_items(target if isinstance(target, list) else [], patch, name)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            listed = key.partition("/")[2]
            result[listed] = [item for item in result.get(listed, ()) if item not in value]
        elif key.startswith("$"):
            continue  # $setElementOrder and $retainKeys only order or guard what is sent besides
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic_merge_patch(result.get(key), value, key)
    return result


def _merge_items(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    if name in _MERGED_SETS:
        return target + [item for item in patch if item not in target]
    key = _MERGE_KEYS.get(name)
    if key is None:
        return patch
    result = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic_merge_patch({}, item))
        else:
            result[at] = strategic_merge_patch(result[at], item)
    return result


def json_patch(target: Any, patch: Any) -> Any:
    """RFC 6902. Raises `StatusError`: 400 for a malformed patch, 422 for one that does not fit the object."""
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    root: dict[str, Any] = {"": copy.deepcopy(target)}
    for step in patch:
        try:
            _apply_step(root, step)
        except (KeyError, IndexError, ValueError, TypeError):
            raise invalid_patch() from None
    return root[""]


def _apply_step(root: dict[str, Any], step: Mapping[str, Any]) -> None:
    parent, token = _locate(root, step["path"])
    operation = step["op"]
    if operation == "test":
        if _read(parent, token) != step["value"]:
            raise ValueError(step["path"])
    elif operation == "remove":
        _remove(parent, token)
    elif operation == "replace":
        _read(parent, token)
        parent[_index(parent, token)] = step["value"]
    elif operation == "add":
        _add(parent, token, step["value"])
    elif operation in ("copy", "move"):
        source, source_token = _locate(root, step["from"])
        value = copy.deepcopy(_read(source, source_token))
        if operation == "move":
            _remove(source, source_token)
        parent, token = _locate(root, step["path"])
        _add(parent, token, value)
    else:
        raise ValueError(operation)


def _locate(root: dict[str, Any], pointer: str) -> tuple[Any, str]:
    """Container and last token of a JSON pointer; the root is the entry `""` of a map."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]
    node: Any = root
    for token in tokens[:-1]:
        node = _read(node, token)
    return node, tokens[-1]


def _index(parent: Any, token: str) -> Any:
    return int(token) if isinstance(parent, list) else token


def _read(parent: Any, token: str) -> Any:
    return parent[_index(parent, token)]


def _remove(parent: Any, token: str) -> None:
    del parent[_index(parent, token)]


def _add(parent: Any, token: str, value: Any) -> None:
    if isinstance(parent, list):
        parent.insert(len(parent) if token == "-" else int(token), value)  # noqa: S105 - a JSON pointer's token
    else:
        parent[token] = value
