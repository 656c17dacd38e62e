"""The server's answers, a method for each address."""

import asyncio
import gzip
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from toposcope.kube.errors import KubeError
from toposcope.ui import protocol
from toposcope.ui.broadcaster import Broadcaster, ClusterState
from toposcope.ui.bundle import Bundle
from toposcope.ui.computing import (
    Answerer,
    CrashError,
    DeadlineError,
    DefectError,
    MemoryLimitError,
)
from toposcope.ui.detail import detail
from toposcope.ui.guard import problem
from toposcope.ui.questions import (
    MAX_BYTES,
    CheckRequest,
    Drain,
    GangAt,
    NoPlanError,
    Overview,
    Question,
)
from toposcope.ui.search import MAX_QUERY_CHARACTERS, search
from toposcope.ui.source import FactsSource, FullNode
from toposcope.ui.stream import StreamServer
from toposcope.ui.turns import RETRY_SECONDS, BusyError, Turns

_JSON: Final = "application/json"
BODY_SECONDS: Final = 10.0
"""After that, a request body that is still incomplete is given up."""
_MAX_NODE_READS: Final = 4
"""Nodes that are read from the API server at a time."""


class _CheckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    workload: str


_CHECK_BODY: Final = msgspec.json.Decoder(_CheckBody)


class Routes:
    """Routes for one cluster."""

    def __init__(
        self,
        broadcaster: Broadcaster,
        source: FactsSource,
        bundle: Bundle,
        stream: StreamServer,
        computing: Answerer,
    ) -> None:
        self._broadcaster = broadcaster
        self._source = source
        self._bundle = bundle
        self._stream = stream
        self._computing = computing
        self._turns = Turns()
        # Requests that wait for an API server that does not answer must not use up all threads.
        self._node_reads = CapacityLimiter(_MAX_NODE_READS)

    def application(self) -> Starlette:
        """All addresses."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/assets/{name}", self._asset),
                Route("/api/snapshot", self._snapshot),
                Route("/api/node/{name}", self._node),
                Route("/api/search", self._search),
                Route("/api/check", self._check, methods=["POST"]),
                Route("/api/planning", self._planning),
                Route("/api/gang", self._gang),
                Route("/api/drain", self._drain),
                Route("/api/events", self._stream),
                Route("/healthz", _healthy),
                Route("/readyz", self._ready),
            ],
            exception_handlers={HTTPException: _failed, Exception: _failed},
        )

    async def _page(self, _request: Request) -> Response:
        page = self._bundle.page()
        if page is None:
            return PlainTextResponse(f"{self._bundle.missing}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Response(
            page, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"}
        )

    async def _asset(self, request: Request) -> Response:
        asset = self._bundle.asset(request.path_params["name"])
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "the page has no such file")
        body, content_type = asset
        return Response(body, media_type=content_type, headers={"cache-control": "no-cache"})

    async def _snapshot(self, request: Request) -> Response:
        self._state()
        tag, packed = await run_in_threadpool(self._broadcaster.packed)
        etag = f'W/"{tag}"'
        headers = {
            "etag": etag,
            "cache-control": "no-cache",
            "vary": "accept-encoding",
        }
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)

        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(packed, headers=headers, media_type=_JSON)

        unpacked = await run_in_threadpool(gzip.decompress, packed)
        return Response(unpacked, headers=headers, media_type=_JSON)

    def _state(self) -> ClusterState:
        """The newest state. Raises HTTPException where there is none yet."""
        if self._broadcaster.state:
            return self._broadcaster.state

        facts = self._broadcaster.facts
        stale = facts.stale()
        text = f"the cluster is being read for the first time; {facts.node_count} nodes so far"
        if stale:
            text = f"the cluster cannot be read: {'; '.join(stale.sentences)}"

        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, text, {"retry-after": "1"})

    async def _node(self, request: Request) -> Response:
        name = request.path_params["name"]
        state = self._state()
        node = await to_thread.run_sync(self._detail, name, state, limiter=self._node_reads)
        if node is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, f"node {name!r} does not exist, or was deleted"
            )
        return _json(node)

    def _detail(self, name: str, state: ClusterState) -> protocol.NodeData | None:
        facts = self._broadcaster.facts
        view = facts.node(name)
        if view is None:  # so no name from a URL reaches the API server unless it is a node's
            return None

        trouble = ""
        full: FullNode | None = FullNode(view, "")
        stale = facts.stale()
        try:
            if stale:
                trouble = f"its link matrix cannot be read right now: {'; '.join(stale.sentences)}"
            else:
                full = self._source.node(name)
        except KubeError as error:
            trouble = f"its link matrix cannot be read right now: {error}"

        if full is None:
            return None

        since = self._broadcaster.recent.since.get(name)
        node = detail(full, state.views, state.cluster, since)
        if trouble:
            node.problem = trouble
        return node

    async def _search(self, request: Request) -> Response:
        query = _parameter(request, "q")
        if len(query) > MAX_QUERY_CHARACTERS:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, f"q is longer than {MAX_QUERY_CHARACTERS} characters"
            )
        results = await run_in_threadpool(search, self._broadcaster.facts, query)
        return _json(results)

    async def _check(self, request: Request) -> Response:
        state = self._state()
        views = tuple(view.id for view in state.views)
        text = await self._workload(request)
        question = CheckRequest(text, views)
        return await self._computed(
            request, question, "check fewer or smaller workloads, or use toposcope check"
        )

    async def _planning(self, request: Request) -> Response:
        return await self._plan(request, Overview(_parameter(request, "view")))

    async def _gang(self, request: Request) -> Response:
        question = GangAt(
            view=_parameter(request, "view"),
            kind=_parameter(request, "kind"),
            name=_parameter(request, "name"),
        )
        return await self._plan(request, question)

    async def _drain(self, request: Request) -> Response:
        parts = filter(None, _parameter(request, "in").split("/"))
        path = tuple(map(unquote, parts))
        question = Drain(
            view=_parameter(request, "view"),
            path=path,
            node=_parameter(request, "node"),
        )
        return await self._plan(request, question)

    async def _plan(self, request: Request, question: Question) -> Response:
        self._state()
        return await self._computed(request, question, "use toposcope whatif, score or slots")

    async def _computed(self, request: Request, question: Question, instead: str) -> Response:
        """The answer of the worker. Raises HTTPException.

        `instead` says what to do where the answer takes too much time or memory.
        """
        try:
            async with self._turns.turn():
                if await request.is_disconnected():
                    # the page no longer waits for the answer
                    return Response(status_code=HTTPStatus.BAD_REQUEST)
                body = await asyncio.wrap_future(self._computing.submit(question))
        except tuple(_FAILURES) as error:
            raise _failure(error, instead) from None

        return Response(body, media_type=_JSON, headers={"cache-control": "no-store"})

    async def _workload(self, request: Request) -> str:
        """The text to check.

        Raises HTTPException where the body is too large, incomplete or malformed.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > MAX_BYTES:
                        text = f"more than {MAX_BYTES >> 10} KiB; use toposcope check instead"
                        raise HTTPException(
                            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, {"connection": "close"}
                        )
            return _CHECK_BODY.decode(body).workload
        except TimeoutError:
            text = f"the request was not complete after {BODY_SECONDS:.0f} s"
            raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, text, {"connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(HTTPStatus.BAD_REQUEST) from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, f'send {{"workload": TEXT}}: {error}'
            ) from None

    async def _ready(self, _request: Request) -> Response:
        if self._broadcaster.state:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(
            "the cluster has not been read yet\n", HTTPStatus.SERVICE_UNAVAILABLE
        )


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


_WORDS: Final = {
    "Not Found": "there is no such address here",
    "Method Not Allowed": "this method is not allowed here",
}
"""The router's own errors in more words."""


async def _failed(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        text = _WORDS.get(error.detail, error.detail)
        headers = dict(error.headers or {})
        return problem(error.status_code, text, headers)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the server's log")


_FAILURES: Final[Mapping[type[Exception], HTTPStatus]] = {
    NoPlanError: HTTPStatus.NOT_FOUND,
    BusyError: HTTPStatus.TOO_MANY_REQUESTS,
    DefectError: HTTPStatus.INTERNAL_SERVER_ERROR,
    DeadlineError: HTTPStatus.GATEWAY_TIMEOUT,
    MemoryLimitError: HTTPStatus.SERVICE_UNAVAILABLE,
    CrashError: HTTPStatus.SERVICE_UNAVAILABLE,
    KubeError: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Why there is no answer."""
_TOO_MUCH: Final = (DeadlineError, MemoryLimitError, CrashError)


def _failure(error: Exception, instead: str) -> HTTPException:
    """The response to one of `_FAILURES`; `instead` as for `_computed`."""
    status = next(status for kind, status in _FAILURES.items() if isinstance(error, kind))
    text = str(error)
    headers = None
    if isinstance(error, KubeError):
        text = f"the cluster cannot be read right now: {error}"
    elif isinstance(error, _TOO_MUCH):
        text = f"{error}; {instead}"
    elif isinstance(error, BusyError):
        headers = {"retry-after": str(RETRY_SECONDS)}
    return HTTPException(status, text, headers)


def _parameter(request: Request, key: str) -> str:
    """A parameter of the query, empty where it is missing."""
    return str(request.query_params.get(key, ""))


def _json(body: msgspec.Struct) -> Response:
    content = msgspec.json.encode(body)
    return Response(content, media_type=_JSON, headers={"cache-control": "no-store"})
