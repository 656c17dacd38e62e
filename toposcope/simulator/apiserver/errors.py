"""API failures in the words a real kube-apiserver uses, so that a client can be tested on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from toposcope.errors import ToposcopeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(ToposcopeError):
    """A request that fails with a `metav1.Status`."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = dict(headers or {})
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = dict(details)
        self.status["code"] = code


class NoSuchPathError(ToposcopeError):
    """No group or version lives at the path: the one 404 that is plain text."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One wrong field: `field` is its path, `message` starts with the kind of error (`Required value`)."""

    reason: str
    field: str
    message: str


def shown(value: Any) -> str:
    """Render a wrong value the way field errors do."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return msgspec.json.encode(value).decode()


def wrong(field: str, value: Any, why: str) -> Cause:
    """The value is present and not acceptable."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {why}")


def wrong_type(field: str, value: Any, why: str) -> Cause:
    """The value has another JSON type than its schema says."""
    return Cause("FieldValueTypeInvalid", field, f"Invalid value: {shown(value)}: {why}")


def required(field: str, why: str = "") -> Cause:
    """The value is missing."""
    return Cause("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")


def forbidden(field: str, why: str) -> Cause:
    """The value must not be given here."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {why}")


def bad_request(message: str) -> StatusError:
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def not_served() -> StatusError:
    """404 for a resource that an existing group and version does not have."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404 for an object that does not exist."""
    return StatusError(
        404,
        "NotFound",
        f'{qualified(plural, group)} "{name}" not found',
        details=_details(group, plural, name),
    )


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """409 on create."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified(plural, group)} "{name}" already exists',
        details=_details(group, plural, name),
    )


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> StatusError:
    """409: the caller's idea of the object is out of date."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        details=_details(group, plural, name),
    )


def invalid(group: str, kind: str, name: str, causes: Iterable[Cause]) -> StatusError:
    """422 with one cause for each wrong field."""
    listed = list(causes)
    texts = [f"{cause.field}: {cause.message}" for cause in listed]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(group, kind, name)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in listed]
    return StatusError(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def invalid_patch() -> StatusError:
    """422 for a JSON patch that does not fit the object."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def expired(message: str) -> StatusError:
    """410: the resourceVersion asked for is no longer kept."""
    return StatusError(410, "Expired", message)


def too_new(asked: int, current: int) -> StatusError:
    """504: the resourceVersion asked for has not happened yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, details=details, headers={"Retry-After": "1"})


def qualified(name: str, group: str) -> str:
    """`nodes`, `leases.coordination.k8s.io`: how messages name a resource or kind."""
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
