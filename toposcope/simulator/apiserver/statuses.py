"""Failures as the `Status` of a kube-apiserver."""

from collections.abc import Mapping
from typing import Any

from toposcope.errors import ToposcopeError

Object = dict[str, Any]


class StatusError(ToposcopeError):
    """A request that fails with a `metav1.Status`, in the words of a kube-apiserver.

    Clients are tested on those words.
    """

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
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        self.status["code"] = code
        if details is not None:
            self.status["details"] = dict(details)


class NoSuchPathError(ToposcopeError):
    """No group or version is served at the path: the one 404 that is plain text."""


def bad_request(message: str) -> StatusError:
    """400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def not_served() -> StatusError:
    """404 for a resource that an existing group and version does not have."""
    return StatusError(
        404, "NotFound", "the server could not find the requested resource", details={}
    )


def expired(message: str) -> StatusError:
    """410: the resourceVersion asked for is no longer kept."""
    return StatusError(410, "Expired", message)
