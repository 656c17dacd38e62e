"""What a request says: its parts, its body in the formats that exist, its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from toposcope.simulator.apiserver.errors import Cause, StatusError, bad_request, forbidden, invalid, required, wrong

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toposcope.simulator.apiserver.resources import Resource

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
# JSON escapes of a character outside the basic plane, which a YAML reader refuses.
_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_YES = ("1", "true", "t", "TRUE", "True", "T")


class _YamlLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a timestamp stays text."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is set, in any spelling Go accepts."""
        return self.query.get(name, "") in _YES


@dataclass(slots=True)
class Response:
    """What to send: `chunks` are the body, sent as they come when `stream` is set."""

    code: int
    chunks: Iterable[bytes]
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: bool = False

    @classmethod
    def of(cls, error: StatusError) -> Response:
        """Answer with a `Status`."""
        return cls(error.code, [msgspec.json.encode(error.status), b"\n"], headers=error.headers)


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names; empty parts are absent."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


def whole(request: Request, name: str) -> int:
    """Return a number among the options, 0 when it is not given; raises `StatusError` (400)."""
    text = request.query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def asked_revision(request: Request) -> int:
    """Return the resourceVersion asked for, 0 for none or any; raises `StatusError` (400)."""
    text = request.query.get("resourceVersion") or "0"
    if not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def bad_options(name: str, why: str, *, kind: str = "ListOptions", missing: bool = False) -> StatusError:
    """422 for an option that must not be there, or must be."""
    cause: Cause = required(name, why) if missing else forbidden(name, why)
    return invalid("meta.k8s.io", kind, "", [cause])


def decode(request: Request) -> Object:
    """Read an object from a body; raises `StatusError` (400, 415)."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind in ("application/yaml", APPLY):
        return decode_yaml(request.body)
    if kind != "application/json":
        accepted = "application/json, application/yaml"
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise StatusError(415, "UnsupportedMediaType", message)
    try:
        obj = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ) from None
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return obj


def decode_yaml(body: bytes) -> Object:
    """Read an object from YAML, of which JSON is the common case; raises `StatusError` (400)."""
    if _SURROGATE.search(body):
        problem = "found invalid Unicode character escape code"
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {problem}")
    try:
        obj = msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            obj = yaml.load(body, _YamlLoader)  # noqa: S506 - a SafeLoader without timestamps
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from None
    if not isinstance(obj, dict):
        raise bad_request("error decoding YAML: the document is no map")
    return obj


def check_type(resource: Resource, obj: Object) -> None:
    """Raise `StatusError` when an object is not of the kind that its path names."""
    version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    if resource.custom and not (version and kind):
        what = "Kind" if not kind else "apiVersion"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object '{what}' is missing"
        )
    if version and version != resource.group_version:
        expected = resource.group_version
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({expected})"
        )
    if kind and kind != resource.kind:
        if resource.custom:
            name = (obj.get("metadata") or {}).get("name", "")
            raise invalid(resource.group, kind, name, [wrong("kind", kind, f"must be {resource.kind}")])
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')


def check_name(route: Route, obj: Object) -> None:
    """Raise `StatusError` (400) when an object has another name than its path."""
    name = (obj.get("metadata") or {}).get("name") or route.name
    if name != route.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
