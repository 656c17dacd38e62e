"""Errors of the connection to an API server."""

from datetime import datetime

from toposcope.errors import ToposcopeError


class KubeError(ToposcopeError):
    """Base of all errors of this package."""


class ConfigError(KubeError):
    """No usable credentials; the message names the file, the field and the fix."""


class NoClusterError(ConfigError):
    """There is neither a kubeconfig nor a pod's service account, so the cluster is unknown."""


class UnreachableError(KubeError):
    """No answer: refused, timed out, cut off in mid-answer, or not HTTP."""


class AnswerTooLargeError(UnreachableError):
    """The answer is larger than the limit; asking for fewer objects may help."""


class ApiError(KubeError):
    """The server answered with an error Status.

    `status` is the HTTP code, `reason` the machine-readable word of `metav1.Status`, `retry_after`
    the seconds the server asked us to wait, if any; `causes` are the fields that it names, each
    with what is wrong there.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        summary = " ".join(filter(None, (str(status), reason)))
        super().__init__(f"{summary}: {message or 'the server gives no reason'}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes

    @property
    def is_denied(self) -> bool:
        """The credentials are invalid or lack the right, so an immediate retry is pointless."""
        return self.status in (401, 403)

    @property
    def is_forbidden(self) -> bool:
        """The credentials lack the right."""
        return self.status == 403  # noqa: PLR2004 - HTTP's own number

    @property
    def is_not_found(self) -> bool:
        """The object, or the whole resource, does not exist."""
        return self.status == 404  # noqa: PLR2004 - as above

    @property
    def is_conflict(self) -> bool:
        """Another manager owns a field, or another writer changed or created the object first."""
        return self.status == 409  # noqa: PLR2004 - as above

    @property
    def is_unprocessable(self) -> bool:
        """The object is not valid, or has another uid than the request says."""
        return self.status == 422  # noqa: PLR2004 - as above


class RefusedError(ApiError):
    """The server refused a write, which is sent again later.

    That is at `retry_at` (UTC), in `retry_after` seconds.
    """

    def __init__(self, error: ApiError, retry_after: float, retry_at: datetime) -> None:
        super().__init__(error.status, error.reason, error.message, retry_after)
        self.retry_at = retry_at


class ResourceExpiredError(ApiError):
    """A watch or page token older than the server's history (410): list again."""
