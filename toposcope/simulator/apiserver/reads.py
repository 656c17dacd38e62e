"""Lists and the start of watches: which objects, which version, in which pages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from toposcope.simulator.apiserver import selectors, watch
from toposcope.simulator.apiserver.errors import StatusError, bad_request, expired
from toposcope.simulator.apiserver.requests import Request, Response, Route, asked_revision, bad_options, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toposcope.simulator.apiserver.requests import Object
    from toposcope.simulator.apiserver.store import Store
    from toposcope.simulator.apiserver.views import View

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "  # noqa: S105 - no secret
    "the continue parameter."
)


def list_objects(store: Store, request: Request, route: Route, view: View) -> Response:
    """Answer a list: a page of it, a selection, or an older version."""
    limit = whole(request, "limit")
    token = request.query.get("continue", "")
    if token:
        revision, start = _open_token(token)
        try:
            revision, items = store.snapshot(route.resource.storage, revision)
        except StatusError:
            raise expired(_EXPIRED_TOKEN) from None
        items = [item for item in items if item.key > start]
    else:
        revision, items = store.snapshot(route.resource.storage, _wanted_revision(store, request))
    if route.namespace:
        items = [item for item in items if item.key[0] == route.namespace]
    selects = selectors.predicate(route.resource, request.query)
    if selects:
        items = [item for item in items if selects(item)]
    metadata: Object = {"resourceVersion": str(revision)}
    if 0 < limit < len(items):
        rest = len(items) - limit
        items = items[:limit]
        metadata["continue"] = _seal_token(revision, items[-1].key)
        if not selects:
            metadata["remainingItemCount"] = rest
    return Response(200, view.many(route.resource, items, metadata))


def _wanted_revision(store: Store, request: Request) -> int | None:
    """Return the revision a list must show exactly, None for the newest."""
    match = request.query.get("resourceVersionMatch", "")
    revision = asked_revision(request)
    if match and not request.query.get("resourceVersion"):
        raise bad_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    store.check_reached(revision)
    return revision if match == "Exact" else None


def open_watch(
    store: Store, request: Request, route: Route, view: View, *, bookmark_interval: float, max_watch: float
) -> Response:
    """Answer a watch; a version that is too old becomes an ERROR event under HTTP 200."""
    initial_events = request.flag("sendInitialEvents")
    if initial_events and request.query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise bad_options("resourceVersionMatch", why)
    query = {**request.query, "fieldSelector": f"metadata.name={route.name}"} if route.name else request.query
    wanted = watch.Watch(
        route.resource,
        view,
        selectors.predicate(route.resource, query),
        namespace=route.namespace,
        initial_events=initial_events,
        bookmarks=request.flag("allowWatchBookmarks"),
        bookmark_interval=bookmark_interval,
        timeout=whole(request, "timeoutSeconds") or max_watch,
    )
    revision = asked_revision(request)
    storage = route.resource.storage
    with store.lock:
        if initial_events:
            store.check_reached(revision)
        if initial_events or not revision:
            revision, initial = store.snapshot(storage)
            return _stream(watch.events(store, wanted, store.position(storage, revision), initial, revision))
        try:
            position = store.position(storage, revision)
        except StatusError as error:
            return _stream(iter([msgspec.json.encode({"type": "ERROR", "object": error.status}) + b"\n"]))
        return _stream(watch.events(store, wanted, position, None, revision))


def _stream(chunks: Iterator[bytes]) -> Response:
    return Response(200, chunks, stream=True)


def _seal_token(revision: int, last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"rv": revision, "start": last})).decode().rstrip("=")


def _open_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"]
        return content["rv"], (namespace, name)
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("invalid continue token: continue key is not valid") from None
