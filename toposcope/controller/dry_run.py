"""`--dry-run`: nothing is written, whatever the rest of the program has in mind."""

from collections.abc import Callable
from typing import Any

from toposcope.controller.publishers.dry_run import unified
from toposcope.controller.publishers.objects import Caller, find
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import KubeError


class ReadOnlyClient(ApiClient):
    """Sends reads, and writes that the server only checks (`dryRun=All`)."""

    def _about_to_send(self, request: Request) -> None:
        """Raise KubeError for what would change something."""
        if request.method != "GET" and request.query.get("dryRun") != "All":
            raise KubeError(f"--dry-run: {request.method} {request.path} is not sent")


class Showing:
    """Shows what each write would change, once, in the place of making it. A deletion is not even sent."""

    def __init__(self, client: Caller, show: Callable[[str], None]) -> None:
        self._client = client
        self._show = show
        self._shown: set[tuple[str, str, bytes | None]] = set()

    def call(self, request: Request) -> Any:
        """Answer a read; have the server check a write (`dryRun=All`). Raises KubeError."""
        if request.method == "GET":
            return self._client.call(request)
        gone = request.method == "DELETE"
        after = None if gone else self._client.call(request._replace(query={**request.query, "dryRun": "All"}))
        known = (request.method, request.path, request.body)
        if known not in self._shown:
            self._shown.add(known)
            before = None if request.method == "POST" else find(self._client, request.path)
            name = request.path.removeprefix("/apis/")
            self._show(
                unified(before, after, name if before else f"{name}/{after['metadata']['name']}" if after else name)
            )
        return after
