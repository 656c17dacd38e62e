"""Requests, responses, and the errors about a resource."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from toposcope.simulator.apiserver import protobuf
from toposcope.simulator.apiserver.resources import ServedResource
from toposcope.simulator.apiserver.statuses import Object, StatusError, bad_request

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_YES = ("1", "true", "t", "TRUE", "True", "T")


class HttpRequest(msgspec.Struct, frozen=True):
    """One HTTP request; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is set, in any spelling Go accepts."""
        return self.query.get(name, "") in _YES

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        return self.query.get("dryRun") == "All"

    def number(self, name: str) -> int:
        """Return a number among the options, 0 when it is not given; raises `StatusError` (400)."""
        text = self.query.get(name) or "0"
        if not text.isdigit():
            what = "invalid resource version" if name == "resourceVersion" else name
            raise bad_request(f'{what}: Invalid value: "{text}": must be a whole number')
        return int(text)

    def object(self) -> Object:
        """Read the object in the body.

        Raises `StatusError`: 400, or 415 for an unknown protobuf.
        """
        try:
            if self.body.startswith(protobuf.MAGIC):
                return protobuf.decoded(self.body)
            return msgspec.json.decode(self.body, type=Object)
        except LookupError as error:
            message = (
                "the body of the request was in an unknown format - "
                f"send {error.args[0]} as application/json"
            )
            raise StatusError(415, "UnsupportedMediaType", message) from None
        except (ValueError, msgspec.DecodeError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None


@dataclass(slots=True)
class Response:
    """What to send: `chunks` are the body, sent as they come when `is_stream` is set."""

    code: int
    chunks: Iterable[bytes]
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    is_stream: bool = False

    @classmethod
    def of(cls, error: StatusError) -> Self:
        """Answer with a `Status`."""
        return cls(error.code, [msgspec.json.encode(error.status), b"\n"], headers=error.headers)


class Route(msgspec.Struct, frozen=True):
    """What a path names; empty parts are absent."""

    resource: ServedResource
    namespace: str
    name: str
    subresource: str


def not_found(resource: ServedResource, name: str) -> StatusError:
    """404 for an object that does not exist."""
    return StatusError(
        404,
        "NotFound",
        f'{resource.storage} "{name}" not found',
        details=details(resource, name),
    )


def already_exists(resource: ServedResource, name: str) -> StatusError:
    """409 on create."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{resource.storage} "{name}" already exists',
        details=details(resource, name),
    )


def conflict(resource: ServedResource, name: str, why: str = _MODIFIED) -> StatusError:
    """409: the caller's version of the object is out of date."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.storage} "{name}": {why}',
        details=details(resource, name),
    )


def invalid(resource: ServedResource, name: str, causes: Iterable[tuple[str, str]]) -> StatusError:
    """422 with one cause for each wrong field: its path, and what is wrong with it."""
    texts = []
    for path, message in causes:
        texts.append(f"{path}: {message}")
    text = ", ".join(texts)
    if len(texts) > 1:
        text = f"[{text}]"

    kind = resource.kind
    if resource.group:
        kind = f"{kind}.{resource.group}"
    return StatusError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {text}',
        details=details(resource, name),
    )


def details(resource: ServedResource, name: str) -> Object:
    """The details of a `Status`: the object that it is about."""
    about = {}
    if name:
        about["name"] = name
    if resource.group:
        about["group"] = resource.group
    about["kind"] = resource.plural
    return about
