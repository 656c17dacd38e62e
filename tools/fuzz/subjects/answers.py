"""What comes back from something that may be no API server: whole answers, lists and watches."""

import contextlib
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tools.fuzz.subject import Outcome, documents, held, refusal, spoiled, strings, subject, words
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Reflector
from toposcope.kube.runtime import Connection

_GOOD: Final = documents("answers.yaml")
_HEADERS: Final = (*words("headers"), "X: " + "y" * 70000)
_LINES: Final = words("lines")
_MOST_BYTES: Final = 150_000
"""A socket takes so many bytes before somebody reads them."""


def _chunks(body: bytes, size: int) -> bytes:
    """A body in the chunks of HTTP, without the empty one at the end."""
    chunks = b""
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        chunks += b"%x\r\n%b\r\n" % (len(piece), piece)
    return chunks


@dataclass(frozen=True, slots=True)
class _Plain:
    """A good answer in nothing but its frame, of which the end may be missing.

    What came is good JSON all the same.
    """

    content: bytes
    document: Any
    """What it says; None where the end is missing."""


@st.composite
def _plain(draw: DrawFn) -> _Plain:
    some = st.lists(st.sampled_from(_GOOD), min_size=1, max_size=4)
    documents = draw(some)
    body = b""
    ends = []
    for document in documents:
        body += msgspec.json.encode(document) + b"\n"
        ends.append(len(body))

    size = len(body)
    cuts = st.one_of(
        st.just(size),
        st.sampled_from(ends),
        st.integers(0, size),
    )
    cut = draw(cuts)
    is_uncut = cut == size
    is_whole = is_uncut and draw(st.booleans())
    has_length = draw(st.booleans())
    if has_length:
        length = size
        if is_uncut and not is_whole:
            length += 1
        content = b"Content-Length: %d\r\n\r\n" % length + body[:cut]
    else:
        chunk_size = draw(st.sampled_from([7, 4096]))
        chunks = _chunks(body[:cut], chunk_size)
        if is_whole:
            chunks += b"0\r\n\r\n"
        content = b"Transfer-Encoding: chunked\r\n\r\n" + chunks

    answered = None
    if is_whole and len(documents) == 1:
        answered = documents[0]
    return _Plain(b"HTTP/1.1 200 OK\r\n" + content, answered)


@st.composite
def _answer(draw: DrawFn) -> bytes:
    """One answer as it comes over a socket."""
    spoiled_documents = spoiled(_GOOD, "ADDED", "n1", "9", "ERROR")
    documents = draw(st.lists(spoiled_documents, max_size=4))
    body = b""
    if not documents:
        body = draw(st.sampled_from([b"", b"<html>login</html>", b"\xff\xfe"]))
    for document in documents:
        with contextlib.suppress(UnicodeEncodeError, OverflowError):
            body += msgspec.json.encode(document) + b"\n"

    header = st.one_of(
        st.sampled_from(_HEADERS),
        strings("Content-Type: x"),
    )
    headers = draw(st.lists(header, max_size=3))
    framings = st.sampled_from(["length", "length", "chunks", "chunks", "none"])
    match draw(framings):
        case "length":
            length = len(body)
            headers.append(f"Content-Length: {length}")
        case "chunks":
            headers.append("Transfer-Encoding: chunked")
            sizes = st.sampled_from([1, 7, 4096])
            body = _chunks(body, draw(sizes))
            body += b"0\r\n\r\n"

    usual, *_ = _LINES
    lines = st.sampled_from([usual] * 8 + list(_LINES))
    line = draw(lines)
    text = "\r\n".join([line, *headers])
    head = text.encode("utf-8", "replace")
    content = head + b"\r\n\r\n" + body
    content = content[:_MOST_BYTES]
    one_in_six = st.integers(0, 5)
    if draw(one_in_six) == 0:
        cuts = st.integers(0, len(content))
        cut = draw(cuts)
        return content[:cut]
    return content


class _Wired(Connection):
    """A connection whose other end has sent everything."""

    def __init__(self, content: bytes) -> None:
        super().__init__("server")
        self._content = content
        self._far_end: socket.socket | None = None

    def connect(self) -> None:
        self.sock, self._far_end = socket.socketpair()
        self._far_end.sendall(self._content)
        self._far_end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        super().close()
        if self._far_end:
            self._far_end.close()


class _Client(ApiClient):
    def __init__(self, answers: list[bytes]) -> None:
        super().__init__(ClusterAccess("http://server", None, lambda: None, "default"))
        self._answers = answers

    def _connect(self, timeout: float | None) -> Connection:
        del timeout
        return _Wired(self._answers.pop(0) if self._answers else b"")


class _Stop:
    """Ends the following after so many waits."""

    def __init__(self, waits: int) -> None:
        self._waits_left = waits

    def wait(self, timeout: float) -> bool:
        held(0 <= timeout < 3600, f"waits for {timeout} s")  # noqa: PLR2004 - an hour is no back-off
        self._waits_left -= 1
        return self.is_set()

    def is_set(self) -> bool:
        return self._waits_left <= 0


class _Kept:
    """Takes what the reflector hands over."""

    def replace(self, items: Mapping[str, Any]) -> None:
        held(all(isinstance(name, str) for name in items), "an object without a name")

    def put(self, name: str, item: Any) -> None:
        held(name and item, "an object without a name")

    def gone(self, name: str) -> None:
        held(name, "an object without a name")

    def failing(self, error: KubeError | None) -> None:
        if error is not None:
            refusal(error)


@subject(
    "whatever a server answers is data or a clear error; no answer is used in part",
    st.lists(st.one_of(_answer(), _answer(), _plain()), min_size=1, max_size=4),
)
def answers(case: Any) -> Outcome:
    """One call and one following: data or a KubeError in words, and no wait without end."""
    outcome: Outcome = "taken"
    request = Request("GET", "/api/v1/nodes/n1", {})
    sent = [answer.content if isinstance(answer, _Plain) else answer for answer in case]
    client = _Client(list(sent))
    try:
        answer = msgspec.json.decode(client.read(request))
        if isinstance(case[0], _Plain):
            held(case[0].document is not None, f"half an answer is taken for a whole one: {answer}")
            held(
                answer == case[0].document,
                f"{case[0].document} is answered, and taken for {answer}",
            )
    except KubeError as error:
        outcome = refusal(error)
        held(
            not isinstance(case[0], _Plain) or case[0].document is None,
            f"a good answer is refused: {error}",
        )
    except msgspec.DecodeError as error:
        held(
            not isinstance(case[0], _Plain) or case[0].document is None,
            f"a good answer is spoiled: {error}",
        )
    finally:
        client.close()
    client_of_call = _Client(list(sent))
    try:
        client_of_call.call(request)
    except KubeError as error:
        outcome = refusal(error)
    finally:
        client_of_call.close()
    followed = _Client(list(sent))
    logging.disable(logging.CRITICAL)
    try:
        Reflector(
            followed, "/api/v1/nodes", NodeDecoder({"gpu.topology/gpus"}), _Kept(), _Stop(4)
        ).run()
    finally:
        logging.disable(logging.NOTSET)
        followed.close()
    return outcome
