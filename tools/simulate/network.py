"""What lies between simulated programs and the API server: connections that delay, cut and lose.

A connection hands the production client's request to the embedded API server's own code. A request
arrives at once, late or never; its answer comes or does not. A request that its sender gives up
arrives before that, if at all: what a leader's Lease allows for (see `controller.election`). Claims
of the Lease arrive at any time, whoever sent them.
"""

import functools
import http.client
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from tools.simulate.scheduler import Process, Scheduler, Thread
from toposcope.kube.runtime import Connection
from toposcope.simulator.apiserver.api import Api
from toposcope.simulator.apiserver.requests import HttpRequest, Response
from toposcope.simulator.apiserver.statuses import StatusError, expired

_USUAL: Final = (0.001, 0.02)
_NEVER_SECONDS: Final = 3600.0
_LATEST_SECONDS: Final = 60.0
_LEASES: Final = "/leases"
_MOMENT_SECONDS: Final = 1.0


@dataclass
class Weather:
    """What befalls the connections of one program; chances are per request."""

    is_refused: bool = False
    is_silent: bool = False
    """Nothing comes through, and nobody says so."""
    slow: float = 0.0
    """Seconds that each way takes at most."""
    lost: float = 0.0
    """The chance that a connection breaks.

    Half of the time, that is before the server has seen the request.
    """
    late: float = 0.0
    """The chance that a request takes so long that its sender gives up."""
    resent: float = 0.0
    """The chance that a proxy repeats a request, because it has seen no answer to the first one."""
    torn: float = 0.0
    """The chance that half of a watch's lines arrive, and the connection breaks."""
    is_stalled: bool = False
    """Nothing moves for a while, and then what waited goes on."""
    status: int = 0
    """What a proxy answers to everything."""
    paged: float = 0.0
    """The chance that a list's version is gone by the next page.

    Above 0, the server has no streamed lists, and an object a page.
    """
    lag: float = 0.0
    """Seconds by which watches are behind at most: those of a server whose cache is."""


class Network:
    """All connections.

    `about_to_write` and `wrote` are told of each write, by the process that makes it.
    """

    def __init__(self, scheduler: Scheduler, api: Api) -> None:
        self.scheduler = scheduler
        self.api = api
        self.weather: dict[str, Weather] = {}
        self.is_down = False
        """Whether the server's process is gone."""
        self._held: list[Callable[[], object]] | None = None
        """While the server stands still: what it will do first when it goes on."""
        self.about_to_write: Callable[[Process, HttpRequest], None] = lambda *_: None
        self.wrote: Callable[[Process, HttpRequest, Response], None] = lambda *_: None
        self.streams: set[SimulatedConnection] = set()
        self.travelling: dict[SimulatedConnection, HttpRequest] = {}
        """Requests on their way."""
        self.early: dict[SimulatedConnection, Response] = {}
        """Answers to those that arrived as their process was stopped."""

    def of(self, process: Process) -> Weather:
        return self.weather.setdefault(process.name, Weather())

    def connect(self, process: Process, timeout: float | None) -> "SimulatedConnection":
        return SimulatedConnection(self, process, timeout)

    def travel(self, weather: Weather, patience: float) -> None:
        """Let a message travel. Raises TimeoutError when it takes longer than `patience`."""
        span = (0.0, weather.slow) if weather.slow else _USUAL
        takes = self.scheduler.rng.uniform(*span)
        self.scheduler.wait(min(takes, patience))
        while weather.is_stalled and takes < patience:
            takes += _MOMENT_SECONDS
            self.scheduler.wait(_MOMENT_SECONDS)
        if takes >= patience:
            raise TimeoutError("timed out")

    def stop(self) -> None:
        self._held = self._held or []

    def go_on(self) -> None:
        held, self._held = self._held or [], None
        for read in held:
            read()

    def await_server(self, process: Process, request: HttpRequest, patience: float) -> None:
        """Wait while the server stands still.

        Raises TimeoutError; what was sent is read all the same.
        """
        if self._held is None:
            return

        thread = self.scheduler.current
        self._held.append(lambda: self.scheduler.wake(thread))
        goes_on = self.scheduler.wait(patience)
        if goes_on:
            return
        is_read = request.method == "GET"
        if not is_read and self._held is not None:
            self._held.append(lambda: self.serve(process, request))
        raise TimeoutError("timed out")

    def serve(self, process: Process, request: HttpRequest) -> Response:
        """Have the server process a request now, whether anybody waits for its answer or not."""
        response = self.api.handle(request)
        method = request.method
        self.scheduler.note(f"{process.name} {method} {request.path} {response.code}")
        if method != "GET":
            self.wrote(process, request, response)
        return response

    def deliver(self, process: Process) -> None:
        """Have what a process has sent arrive, before it is stopped."""
        if self.is_down or self._held is not None:
            return
        for connection, request in self.travelling.items():
            if connection.process is not process or request.method == "GET":
                continue
            if connection not in self.early:
                self.early[connection] = self.serve(process, request)

    def cut(self, process: Process | None = None) -> None:
        """Break all watches, or those of one program."""
        for connection in self._of(process):
            connection.shut_down()

    def silence(self, process: Process) -> None:
        """Have a program's watches stay open and never carry anything again."""
        for connection in self._of(process):
            connection.is_dead = True

    def _of(self, process: Process | None) -> "list[SimulatedConnection]":
        in_order = sorted(self.streams, key=lambda stream: stream.number)
        if process is None:
            return in_order
        return [stream for stream in in_order if stream.process is process]


@functools.lru_cache(4096)
def _parsed(target: str) -> tuple[str, dict[str, str]]:
    split = urlsplit(target)
    return unquote(split.path), dict(parse_qsl(split.query, keep_blank_values=True))


def _refusal(status: int, rng: random.Random) -> Response:
    """What a proxy says instead of the server."""
    headers = {}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = str(rng.randint(1, 5))
    error = StatusError(status, "Unavailable", "a proxy says so", headers=headers)
    return Response.of(error)


class SimulatedConnection(Connection):
    """What the client takes for a connection."""

    def __init__(self, network: Network, process: Process, timeout: float | None) -> None:
        super().__init__("simulated", 80)
        self.number = next(network.scheduler.numbers)
        self.process = process
        self.network = network
        self._patience = _NEVER_SECONDS if timeout is None else timeout
        self.sent: HttpRequest | None = None
        self.is_dead = False
        """Whether it is open, and nothing will ever come."""
        self._is_cut = False
        self._reader: Thread | None = None

    def connect(self) -> None:
        self.process.check()
        weather = self.network.of(self.process)
        if self.network.is_down or weather.is_refused:
            self.network.travel(weather, self._patience)
            raise ConnectionRefusedError("refused")
        self.sock = cast(Any, self)

    def request(
        self, method: str, url: str, body: Any = None, headers: Any = None, **_: Any
    ) -> None:
        path, query = _parsed(url)
        self.sent = HttpRequest(
            method, path, query, {name.lower(): text for name, text in headers.items()}, body or b""
        )

    def getresponse(self) -> Any:
        request = self.sent
        if request is None:
            raise http.client.CannotSendRequest
        self.process.check()
        if request.method != "GET":
            self.network.about_to_write(self.process, request)

        weather = self.network.of(self.process)
        rng = self.network.scheduler.rng
        fate = rng.random()
        if weather.is_silent or fate < weather.late:
            self._arrives_late(request, rng.random())
            self.network.scheduler.wait(self._patience)
            raise TimeoutError("timed out")

        early = self._travels(request, weather)
        if early:
            return Answer(self, early)
        is_lost = fate > 1 - weather.lost
        if self._is_reset(weather, is_lost=is_lost):
            raise ConnectionResetError("reset before the server has read the request")

        self.network.await_server(self.process, request, self._patience)
        if weather.status:
            refusal = _refusal(weather.status, rng)
            return Answer(self, refusal)
        response = self._served(request, weather)
        if is_lost:
            raise ConnectionResetError("reset before the answer has come")
        self._travels_back(weather)
        return Answer(self, response)

    def _travels(self, request: HttpRequest, weather: Weather) -> Any:
        """Bring the request to the server; the answer that came before it was read, if any."""
        self.network.travelling[self] = request
        try:
            self.network.travel(weather, self._patience)
        finally:
            del self.network.travelling[self]
            early = self.network.early.pop(self, None)
        return early

    def _travels_back(self, weather: Weather) -> None:
        if weather.slow or weather.is_stalled:
            self.network.travel(weather, self._patience)

    def _is_reset(self, weather: Weather, *, is_lost: bool) -> bool:
        """Whether the server never reads the request: so it is with half of those that are lost."""
        if self.network.is_down or weather.is_refused:
            return True
        return is_lost and self.network.scheduler.rng.random() < 0.5  # noqa: PLR2004 - half of them

    def _served(self, request: HttpRequest, weather: Weather) -> Response:
        """The server's answer, to the second of two requests where a proxy repeats it."""
        network = self.network
        if weather.resent and network.scheduler.rng.random() < weather.resent:
            network.serve(self.process, request)
            network.travel(weather, self._patience)
        if weather.paged:
            return self._older(request, weather.paged)
        return network.serve(self.process, request)

    def _older(self, request: HttpRequest, chance: float) -> Response:
        """What a server without streamed lists answers."""
        query = request.query
        if "sendInitialEvents" in query:
            error = StatusError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "Invalid",
                "sendInitialEvents is forbidden",
            )
            return Response.of(error)
        if "continue" in query and self.network.scheduler.rng.random() < chance:
            return Response.of(expired("The provided continue parameter is too old"))
        if "limit" in query:
            request = replace(request, query={**query, "limit": "1"})
        return self.network.serve(self.process, request)

    def _arrives_late(self, request: HttpRequest, when: float) -> None:
        """Have a request arrive while its sender waits for the answer, or never.

        A claim may arrive after that, too.
        """
        network = self.network
        if request.method == "GET" or when < 0.25:  # noqa: PLR2004 - one in four gets lost
            return
        latest = _LATEST_SECONDS if _LEASES in request.path else self._patience
        network.scheduler.call(
            when * latest, lambda: network.is_down or network.serve(self.process, request)
        )

    def lines(self, chunks: Iterator[bytes]) -> bytes:
        """The next lines of a watch, empty at its end. Raises OSError."""
        self._reader = self.network.scheduler.current
        try:
            return self._next(chunks)
        finally:
            self._reader = None

    def _next(self, chunks: Iterator[bytes]) -> bytes:
        scheduler = self.network.scheduler
        weather = self.network.of(self.process)
        chunk = b""
        while not chunk:
            self._check()
            piece = next(chunks, None)
            if piece is None:
                return b""
            chunk = piece

        slow = max(weather.lag, weather.slow)
        if slow or weather.is_stalled:
            late = Weather(slow=slow, is_stalled=weather.is_stalled)
            self.network.travel(late, self._patience)
        if self.is_dead or weather.is_silent:
            self.is_dead = True
            scheduler.wait(self._patience)
            self._check()
            raise TimeoutError("timed out")

        self._check()
        if scheduler.rng.random() < weather.torn:
            self._is_cut = True
            half = len(chunk) // 2
            return chunk[:half]
        return chunk

    def _check(self) -> None:
        if self._is_cut:
            raise ConnectionResetError("reset")

    def shut_down(self) -> None:
        self._is_cut = True
        if self._reader is not None:
            self.network.scheduler.wake(self._reader)

    def close(self) -> None:
        self.sock = None
        self.network.streams.discard(self)


class Answer:
    """What the client takes for an `HTTPResponse`."""

    will_close = False
    length = 0

    def __init__(self, connection: SimulatedConnection, response: Response) -> None:
        self.status = response.code
        self.reason = HTTPStatus(response.code).phrase
        self._headers = {name.lower(): text for name, text in response.headers.items()}
        self._connection = connection
        self._chunks = iter(response.chunks)
        if response.is_stream:
            connection.network.streams.add(connection)

    def read(self, _most: int) -> bytes:
        return b"".join(self._chunks)

    def read1(self, _most: int) -> bytes:
        return self._connection.lines(self._chunks)

    def getheader(self, name: str) -> str | None:
        return self._headers.get(name.lower())

    def close(self) -> None: ...
