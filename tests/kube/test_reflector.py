"""List and watch against scripts: what is handed over, what is asked for next, how long it waits before."""

import copy
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import msgspec
import pytest
from tests.kube.reflecting import (
    Answer,
    Item,
    Mirror,
    ScriptedClient,
    Waits,
    bookmark,
    decode,
    event,
    failure,
    page,
    thing,
)
from tests.support.runtime import ManualRuntime
from tests.support.tables import each_row, named_objects
from toposcope.kube.client import Request, Stream
from toposcope.kube.errors import ApiError, KubeError, ResourceExpiredError, UnreachableError
from toposcope.kube.reflector import Reflector

UNSTREAMED = ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
LISTED = [event("ADDED", "a", 1), bookmark(5, end=True)]
LOST = UnreachableError("connection reset")
KINDS = (b"ADDED", b"MODIFIED", b"DELETED")
BROKEN = (b"", b"}", b"{}", b'{"metadata":{"name":"b"}', b'{"metadata":{"name":tru}}}', b"[" * 10**5 + b"}")
"""What no object of an event ends with."""
PATH = "/api/v1/nodes"


class Following:
    """A reflector on a script: `streams` and `pages` are answered in order, and the program ends with the script."""

    def __init__(self, streams: Iterable[Answer] = (), pages: Iterable[Answer] = (), most_waits: int = 100) -> None:
        self.stop = Waits(most_waits)
        self.mirror = Mirror()
        self.news: list[str] = []
        """What an observer heard: why it listed, a dot for an event or bookmark, and its end."""
        self.client = ScriptedClient(self.stop, streams, pages)
        self.reflector: Reflector[Item] = Reflector(
            self.client, PATH, decode, self.mirror, self.stop, observer=self, runtime=ManualRuntime(seed=7)
        )

    def listed(self, path: str, reason: str) -> None:
        assert path == PATH
        self.news.append(reason)

    def heard(self, path: str) -> None:
        assert path == PATH
        self.news.append(".")

    def ended(self, path: str) -> None:
        assert path == PATH
        self.news.append("ended")

    def said(self, stream: str) -> Iterator[bytes | KubeError]:
        """As `spoken` reads it; at `relist` it is asked to list again, at `end` the program ends."""
        for line in stream.split(", ") if stream else ():
            if line == "relist":
                self.reflector.relist()
            elif line == "end":
                self.stop.ended = True
            else:
                yield spoken(line)

    def run(self) -> "Following":
        self.reflector.run()
        return self

    @property
    def modes(self) -> list[str]:
        """What was asked for: `list` (streamed), `page`, `page <continue>`, `watch <version>`."""
        return [
            "list"
            if "sendInitialEvents" in query
            else f"watch {query['resourceVersion']}"
            if "watch" in query
            else f"page {query.get('continue', '')}".strip()
            for query in self.client.queries
        ]


class Conversation(msgspec.Struct, forbid_unknown_fields=True):
    """What a server answers, as `spoken` reads it, and what comes of it."""

    case: str
    streams: list[str]
    """Of lines with commas between them."""
    calls: list[str]
    """Of the handler."""
    pages: list[str | dict[str, Any]] = []
    waits: int = 100
    items: dict[str, tuple[str, Any]] = {}
    """What the handler holds in the end, where that matters."""
    asked: list[str] = []
    errors: int | None = None
    waited: list[float] = []
    heard: list[str] = []


def spoken(text: str) -> bytes | KubeError:
    match text.split():
        case ["ADDED" | "MODIFIED" | "DELETED" as kind, name, version, *labels]:
            more = {"labels": dict(label.split("=") for label in labels)} if labels else {}
            return event(kind, name, int(version), **more)
        case ["BOOKMARK" | "LISTED" as kind, version]:
            return bookmark(int(version), end=kind == "LISTED")
        case ["ERROR", code, *reason]:
            return failure(int(code), *reason)
        case ["refused", code]:
            return ApiError(int(code), "", "no")
        case ["lost"]:
            return UnreachableError("nothing came")
    return ResourceExpiredError(410, "Expired", "too old") if text == "expired" else text.encode("latin-1")


def one_page(spoken_of: str | dict[str, Any]) -> bytes | KubeError:
    if isinstance(spoken_of, str):
        return spoken(spoken_of)
    named = (words.split() for words in filter(None, [spoken_of.pop("things", "")]))
    return page(*(thing(name, int(version)) for name, version in named), **spoken_of)


@pytest.mark.regression
@each_row("reflected.yaml", Conversation, ids=lambda row: row.case)
def test_what_a_conversation_leads_to(row: Conversation) -> None:
    following = Following((), map(one_page, copy.deepcopy(row.pages)), row.waits)
    following.client._streams = map(following.said, row.streams)
    mirror = following.run().mirror
    assert (mirror.calls, mirror.mistakes) == (row.calls, [])
    assert not row.items or mirror.items == row.items
    assert not row.asked or following.modes == row.asked
    assert row.errors in (None, len(mirror.errors))
    assert not row.waited or following.stop.waits == row.waited
    assert not row.heard or following.news == row.heard


class TestLists:
    def test_a_list_without_version_is_not_asked_for_in_a_hot_loop(self) -> None:
        following = Following([[event("ADDED", "a", 1), bookmark(0, end=True).replace(b'"0"', b'""')]], most_waits=1)
        assert following.run().mirror.calls == []
        assert following.stop.waits

    def test_a_list_that_was_asked_for_says_so(self) -> None:
        following = Following([LISTED])
        following.reflector.relist()
        assert following.run().news[0] == "asked"

    def test_sync_raises_and_hands_over_nothing(self) -> None:
        following = Following([LOST, LISTED])
        with pytest.raises(UnreachableError):
            following.reflector.sync()
        assert following.mirror.calls == []
        following.reflector.sync()
        assert following.mirror.calls == ["replace a"]


class TestWatches:
    @pytest.mark.parametrize(
        "line",
        [
            *(b"", b"{", b"[]", b'{"type":1}', b'{"type":"ADDED"}', b'{"type":"\xff"}', b"[" * 10**5),
            *(b'{"type":"%s","object":%s' % part for part in product(KINDS, BROKEN)),
        ],
    )
    def test_garbage_is_an_error_and_everything_is_listed(self, line: bytes) -> None:
        following = Following([LISTED, [event("ADDED", "b", 6), line], LISTED]).run()
        assert following.mirror.calls == ["replace a", "put b", "replace a"]
        assert following.modes == ["list", "watch 5", "list", "watch 5"]


MALFORMED = {case: text.encode("latin-1") for case, text in named_objects("malformed.yaml").items()}


@pytest.mark.parametrize("case", MALFORMED)
class TestMalformedObjects:
    """One bad object hides no other one, and does not end the thread that follows them."""

    def test_in_a_streamed_list(self, case: str) -> None:
        bad = b'{"type":"ADDED","object":' + MALFORMED[case] + b"}"
        following = Following([[event("ADDED", "a", 1), bad, event("ADDED", "c", 3), bookmark(5, end=True)]]).run()
        assert following.mirror.calls == ["replace a c"]

    def test_in_a_page(self, case: str) -> None:
        good = page(thing("a", 1), thing("c", 3), version=5)
        bad = good.replace(b'"items":[', b'"items":[' + MALFORMED[case] + b",")
        assert Following([UNSTREAMED], [bad]).run().mirror.calls == ["replace a c"]

    @pytest.mark.parametrize("kind", [b"ADDED", b"MODIFIED"])
    def test_in_a_watch(self, case: str, kind: bytes) -> None:
        bad = b'{"type":"%s","object":%s}' % (kind, MALFORMED[case])
        following = Following([LISTED, [bad, event("ADDED", "c", 7)]]).run()
        assert following.mirror.calls == ["replace a", "put c"]
        assert following.modes == ["list", "watch 5", "watch 7"]

    @pytest.mark.parametrize("kind", [b"DELETED", b"BOOKMARK"])
    def test_as_a_deletion_or_bookmark(self, case: str, kind: bytes) -> None:
        bad = b'{"type":"%s","object":%s}' % (kind, MALFORMED[case])
        following = Following([LISTED, [bad, event("ADDED", "c", 7)]]).run()
        assert [call for call in following.mirror.calls if "bad" not in call] == ["replace a", "put c"]


class TestWaiting:
    def test_waits_grow_with_jitter_up_to_a_minute(self) -> None:
        waits = Following([LOST] * 100, most_waits=12).run().stop.waits
        steps = [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
        assert all(step / 2 <= wait <= step for wait, step in zip(waits, steps, strict=True))
        assert len({wait / step for wait, step in zip(waits, steps, strict=True)}) == 12

    def test_success_makes_it_patient_again(self) -> None:
        waits = Following([*[LOST] * 4, LISTED, LOST, LISTED, [bookmark(6), LOST], LISTED]).run().stop.waits
        assert waits[4] > waits[3] > 2  # a list whose watch breaks at once is no success
        assert waits[5] <= 0.5  # the watch's first event is

    def test_it_waits_as_long_as_the_server_asks(self) -> None:
        busy = ApiError(429, "TooManyRequests", "", retry_after=17)
        assert Following([busy, LISTED], most_waits=1).run().stop.waits == [17]

    @pytest.mark.parametrize("short", [[], [bookmark(5)], [event("MODIFIED", "a", 6)]])
    def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop(self, short: list[bytes]) -> None:
        following = Following([LISTED, *[short] * 50], most_waits=10).run()
        assert following.modes.count("list") == 1
        assert len(following.modes) == 11

    def test_errors_of_configuration_are_survived(self) -> None:
        following = Following([KubeError("token file: gone"), LISTED]).run()
        assert following.mirror.calls == ["replace a"]


class TestRelist:
    @pytest.mark.parametrize("ends", [False, True], ids=["asked for before the watch", "the end before the list"])
    def test_what_comes_just_before_a_stream_begins(self, ends: bool) -> None:
        following, opened = Following(), list[str]()

        def silent() -> Iterator[bytes]:
            opened.append("a stream that may say nothing for a minute, and that nobody would cut")
            yield event("ADDED", "b", 6)

        def late(request: Request, idle_timeout: float) -> Stream:
            if next(comes, False):
                following.stop.ended = ends
                if not ends:
                    following.reflector.relist()
            return stream(request, idle_timeout)

        following.client._streams = iter([silent()] if ends else [LISTED, silent(), LISTED])
        comes, stream = iter([ends, True]), following.client.stream
        following.client.stream = late  # type: ignore[method-assign]
        following.run()
        assert (opened, following.mirror.errors) == ([], [])
        assert following.mirror.calls == ([] if ends else ["replace a", "replace a"])
