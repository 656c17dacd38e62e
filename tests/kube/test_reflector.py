"""List and watch against scripts: what is handed over, what is asked for next, how long it waits before."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count, product
from typing import Any

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
from toposcope.kube.client import Request, WatchStream
from toposcope.kube.errors import ApiError, KubeError, ResourceExpiredError, UnreachableError
from toposcope.kube.reflector import Reflector

UNSTREAMED = ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
LISTED = [event("ADDED", "a", 1), bookmark(5, end=True)]
LOST = UnreachableError("connection reset")
EXPIRED = ResourceExpiredError(410, "Expired", "too old")
KINDS = (b"ADDED", b"MODIFIED", b"DELETED")
BROKEN = (
    b"",
    b"}",
    b"{}",
    b'{"metadata":{"name":"b"}',
    b'{"metadata":{"name":tru}}}',
    b"[" * 10**5 + b"}",
)
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
            self.client,
            PATH,
            decode,
            self.mirror,
            self.stop,
            observer=self,
            runtime=ManualRuntime(seed=7),
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

    def run(self) -> "Following":
        self.reflector.run()
        return self

    def follow(self) -> "Following":
        """Run to the end of the script, and see that no change came twice, too late or out of nowhere."""
        self.reflector.run()
        assert self.mirror.mistakes == []
        return self

    @property
    def modes(self) -> list[str]:
        """What was asked for: `list` (streamed), `page`, `page <continue>`, `watch <version>`."""
        modes = []
        for query in self.client.queries:
            if "sendInitialEvents" in query:
                assert query["sendInitialEvents"] == "true"
                assert query["resourceVersionMatch"] == "NotOlderThan"
                modes.append("list")
            elif "watch" in query:
                modes.append(f"watch {query['resourceVersion']}")
            else:
                modes.append(f"page {query.get('continue', '')}".strip())
        return modes


def added(name: str, version: int) -> bytes:
    return event("ADDED", name, version)


def modified(name: str, version: int, **metadata: Any) -> bytes:
    return event("MODIFIED", name, version, **metadata)


def deleted(name: str, version: int) -> bytes:
    return event("DELETED", name, version)


def refused(code: int) -> ApiError:
    return ApiError(code, "", "no")


ANEW = [added("b", 20), bookmark(20, end=True)]
OLDER = [added("b", 2), bookmark(2, end=True)]
"""A list whose version is before the one that was watched from."""


@pytest.mark.regression
class TestStreamedLists:
    def test_list_is_handed_over_when_complete(self) -> None:
        stream = [added("a", 1), added("b", 3), bookmark(5, end=True)]
        following = Following([stream]).follow()
        assert following.mirror.calls == ["replace a b"]
        assert following.modes == ["list", "watch 5"]
        assert following.news == ["first", ".", ".", ".", "ended"]

    def test_changes_during_the_list_belong_to_it(self) -> None:
        stream = [
            added("a", 1),
            added("b", 2),
            bookmark(3),
            modified("a", 4, labels={"new": "1"}),
            deleted("b", 5),
            deleted("never", 5),
            bookmark(5, end=True),
        ]
        following = Following([stream]).follow()
        assert following.mirror.calls == ["replace a"]
        assert following.mirror.items == {"a": ("4", {"new": "1"})}

    @pytest.mark.parametrize(
        "ends_with",
        [
            pytest.param([], id="end"),
            pytest.param([LOST], id="lost-connection"),
            pytest.param([failure(500, "InternalError")], id="error"),
            pytest.param([b"garbage"], id="garbage"),
            pytest.param([b'{"type":"\xff"}'], id="no-utf8"),
        ],
    )
    def test_half_a_list_is_nothing(self, ends_with: list[bytes | KubeError]) -> None:
        half: list[bytes | KubeError] = [added("a", 1), *ends_with]
        following = Following([half, LISTED]).follow()
        assert following.mirror.calls == ["replace a"]
        assert len(following.mirror.errors) == 1
        assert following.modes == ["list", "list", "watch 5"]

    def test_list_when_it_fails_then_is_the_reason_of_the_next(self) -> None:
        following = Following([LOST, LISTED]).follow()
        assert following.mirror.calls == ["replace a"]
        assert len(following.mirror.errors) == 1
        assert following.news == ["first", "failed", ".", ".", "ended"]


@pytest.mark.regression
def test_failure_when_it_repeats_itself_then_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    other = UnreachableError("no route")
    Following([LOST, LOST, other, other, LISTED]).follow()
    assert caplog.messages == [
        f"cannot watch {PATH}: connection reset",
        f"cannot watch {PATH}: no route",
        f"watching {PATH} again",
    ]


@pytest.mark.regression
class TestPagedLists:
    @pytest.mark.parametrize("code", [400, 403, 404, 405, 422])
    def test_server_that_streams_no_lists_is_read_in_pages(self, code: int) -> None:
        """And not asked for a stream again."""
        pages = [
            page(thing("a", 1), version=9, following="p2"),
            page(thing("b", 2), version=9),
            page(),
        ]
        streams: list[Answer] = [refused(code), [], EXPIRED]
        following = Following(streams, pages).follow()
        assert following.mirror.calls == ["replace a b", "replace "]
        assert following.modes == [
            "list",
            "page",
            "page p2",
            "watch 9",
            "watch 9",
            "page",
            "watch 1",
        ]

    def test_streams_when_pages_are_refused_too_then_stay_possible(self) -> None:
        streams: list[Answer] = [refused(403), LISTED]
        following = Following(streams, [refused(403)]).follow()
        assert following.mirror.calls == ["replace a"]
        assert following.modes == ["list", "page", "list", "watch 5"]

    def test_page_token_when_it_expires_then_the_list_begins_anew(self) -> None:
        pages: list[Answer] = [
            page(thing("a", 1), following="p2"),
            EXPIRED,
            page(thing("b", 2), version=8),
        ]
        streams = [refused(422), refused(422)]
        following = Following(streams, pages).follow()
        assert following.mirror.calls == ["replace b"]
        assert following.modes == [
            "list",
            "page",
            "page p2",
            "list",
            "page",
            "watch 8",
        ]

    def test_empty_list_may_be_null(self) -> None:
        empty = b'{"items":null,"metadata":{"resourceVersion":"3"}}'
        following = Following([refused(422)], [empty]).follow()
        assert following.mirror.calls == ["replace "]

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"[]", id="json-list"),
            pytest.param(b"{}", id="empty-object"),
            pytest.param(b'{"items":{}}', id="items-no-list"),
            pytest.param(b'{"kind":"Status"}', id="status"),
            pytest.param(b"\xff", id="no-utf8"),
            pytest.param(b'{"items":[],"metadata":{}}', id="no-version"),
        ],
    )
    def test_answer_that_is_no_list_empties_nothing(self, answer: bytes) -> None:
        following = Following([refused(422)], [answer], most_waits=1).follow()
        assert following.mirror.calls == []
        assert len(following.mirror.errors) == 1


@pytest.mark.regression
class TestChanges:
    def test_changes_are_handed_over_and_the_next_watch_follows_them(self) -> None:
        changes = [
            added("b", 6),
            modified("a", 7, labels={"x": "1"}),
            deleted("b", 8),
        ]
        streams = [LISTED, changes, [bookmark(12)], []]
        following = Following(streams).follow()
        assert following.mirror.calls == ["replace a", "put b", "put a", "gone b"]
        assert following.mirror.items == {"a": ("7", {"x": "1"})}
        assert following.modes == [
            "list",
            "watch 5",
            "watch 8",
            "watch 12",
            "watch 12",
        ]

    def test_events_and_bookmarks_are_heard(self) -> None:
        changes = [modified("a", 6), bookmark(7)]
        following = Following([LISTED, changes]).follow()
        assert following.mirror.calls == ["replace a", "put a"]
        assert following.news == ["first", ".", ".", ".", ".", "ended"]

    @pytest.mark.parametrize(
        ("watch", "heard_before"),
        [
            pytest.param(EXPIRED, [], id="refusal"),
            pytest.param([failure(410)], ["."], id="error"),
            pytest.param([bookmark(6), failure(410)], [".", "."], id="error-after-a-bookmark"),
        ],
    )
    def test_expired_version_is_followed_by_a_list(self, watch: Answer, heard_before: list[str]) -> None:
        following = Following([LISTED, watch, ANEW]).follow()
        assert following.mirror.calls == ["replace a", "replace b"]
        assert following.modes == ["list", "watch 5", "list", "watch 20"]
        assert following.news == ["first", ".", ".", *heard_before, "expired", ".", ".", "ended"]

    @pytest.mark.parametrize(
        "error", [pytest.param(LOST, id="lost-or-silent"), pytest.param(refused(502), id="gateway-without-servers")]
    )
    def test_connection_when_no_server_was_there_then_a_list_follows(self, error: KubeError) -> None:
        """etcd may have been restored from a backup.

        Another server waits for our version, or goes on from it as if nothing had been.
        """
        following = Following([LISTED, error, OLDER]).follow()
        assert following.mirror.calls == ["replace a", "replace b"]
        assert following.modes == ["list", "watch 5", "list", "watch 2"]
        assert following.news == ["first", ".", ".", "unreachable", ".", ".", "ended"]
        assert len(following.mirror.errors) == 1

    @pytest.mark.parametrize(
        "trouble",
        [
            pytest.param(refused(429), id="busy"),
            pytest.param(refused(500), id="in-trouble"),
            pytest.param([failure(500, "InternalError")], id="error-in-the-stream"),
        ],
    )
    def test_server_in_trouble_costs_no_list(self, trouble: Answer) -> None:
        following = Following([LISTED, trouble, []]).follow()
        assert following.mirror.calls == ["replace a"]
        assert following.modes == ["list", "watch 5", "watch 5", "watch 5"]
        assert len(following.mirror.errors) == 1

    def test_watch_that_ends_as_it_should_costs_no_list(self) -> None:
        following = Following([LISTED, [bookmark(6)], []]).follow()
        assert following.mirror.calls == ["replace a"]
        assert following.modes == ["list", "watch 5", "watch 6", "watch 6"]

    def test_items_stand_while_the_server_is_away(self) -> None:
        following = Following([LISTED, LOST, LOST, LISTED]).follow()
        assert following.mirror.calls == ["replace a", "replace a"]
        assert len(following.mirror.errors) == 2
        assert following.news == ["first", ".", ".", "unreachable", "failed", ".", ".", "ended"]


@pytest.mark.regression
class TestAskedToListOrToEnd:
    def test_relist_reads_everything_and_waits_for_nothing(self) -> None:
        following = Following()

        def changes() -> Iterator[bytes]:
            yield added("b", 6)
            following.reflector.relist()
            yield added("never", 7)

        following.client.script([LISTED, changes(), LISTED])
        following.follow()
        assert following.mirror.calls == ["replace a", "put b", "replace a"]
        assert following.modes == ["list", "watch 5", "list", "watch 5"]
        assert following.mirror.errors == []
        assert following.stop.waits == [0.5]  # at the end of the script

    def test_stream_broken_for_a_new_list_is_no_failure(self) -> None:
        following = Following()

        def changes() -> Iterator[bytes | KubeError]:
            following.reflector.relist()
            yield LOST

        following.client.script([LISTED, changes(), LISTED])
        following.follow()
        assert following.mirror.calls == ["replace a", "replace a"]
        assert following.modes == ["list", "watch 5", "list", "watch 5"]
        assert following.mirror.errors == []

    def test_relist_when_it_fails_then_is_tried_again(self) -> None:
        following = Following()

        def changes() -> Iterator[bytes]:
            following.reflector.relist()
            yield added("b", 6)

        following.client.script([LISTED, changes(), LOST, LISTED])
        following.follow()
        assert following.mirror.calls == ["replace a", "replace a"]
        assert following.modes == [
            "list",
            "watch 5",
            "list",
            "list",
            "watch 5",
        ]

    def test_relist_during_a_list_reads_another(self) -> None:
        following = Following()

        def first_list() -> Iterator[bytes]:
            yield added("a", 1)
            following.reflector.relist()
            yield bookmark(5, end=True)

        following.client.script([first_list(), LISTED])
        following.follow()
        assert following.mirror.calls == ["replace a", "replace a"]
        assert following.modes == ["list", "list", "watch 5"]

    def test_event_after_the_end_of_the_program_is_not_handled(self) -> None:
        following = Following()

        def changes() -> Iterator[bytes]:
            yield added("b", 6)
            following.stop.ended = True
            yield added("c", 7)

        following.client.script([LISTED, changes()])
        following.follow()
        assert following.mirror.calls == ["replace a", "put b"]


class TestLists:
    def test_a_list_without_version_is_not_asked_for_in_a_hot_loop(self) -> None:
        without_version = bookmark(0, end=True).replace(b'"0"', b'""')
        stream = [added("a", 1), without_version]
        following = Following([stream], most_waits=1).run()
        assert following.mirror.calls == []
        assert following.stop.waits

    def test_a_list_that_was_asked_for_says_so(self) -> None:
        following = Following([LISTED])
        following.reflector.relist()
        following.run()
        assert following.news[0] == "asked"

    def test_sync_raises_and_hands_over_nothing(self) -> None:
        following = Following([LOST, LISTED])
        with pytest.raises(UnreachableError):
            following.reflector.sync()
        assert following.mirror.calls == []
        following.reflector.sync()
        assert following.mirror.calls == ["replace a"]


NO_EVENTS = (
    b"",
    b"{",
    b"[]",
    b'{"type":1}',
    b'{"type":"ADDED"}',
    b'{"type":"\xff"}',
    b"[" * 10**5,
)


def broken_events() -> list[bytes]:
    lines = []
    for kind, broken in product(KINDS, BROKEN):
        lines.append(b'{"type":"%s","object":%s' % (kind, broken))
    return lines


class TestWatches:
    @pytest.mark.parametrize("line", [*NO_EVENTS, *broken_events()])
    def test_garbage_is_an_error_and_everything_is_listed(self, line: bytes) -> None:
        changes = [added("b", 6), line]
        following = Following([LISTED, changes, LISTED]).run()
        assert following.mirror.calls == ["replace a", "put b", "replace a"]
        assert following.modes == ["list", "watch 5", "list", "watch 5"]


NESTED = b"[" * 500 + b"]" * 500
MALFORMED = {
    "refused-by-the-decoder": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":7}}',
    "not-utf8": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":{"a":"\xff"}}}',
    "no-metadata": b"{}",
    "metadata-of-the-wrong-type": b'{"metadata":{"name":5,"resourceVersion":[]}}',
    "null": b"null",
    "nested-deeply": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":' + NESTED + b"}}",
}
"""Objects that no reflector can read."""


@pytest.mark.parametrize("case", MALFORMED)
class TestMalformedObjects:
    """One bad object hides no other one, and does not end the thread that follows them."""

    def test_in_a_streamed_list(self, case: str) -> None:
        bad = b'{"type":"ADDED","object":' + MALFORMED[case] + b"}"
        stream = [
            added("a", 1),
            bad,
            added("c", 3),
            bookmark(5, end=True),
        ]
        following = Following([stream]).run()
        assert following.mirror.calls == ["replace a c"]

    def test_in_a_page(self, case: str) -> None:
        items = b'"items":['
        good = page(thing("a", 1), thing("c", 3), version=5)
        bad = good.replace(items, items + MALFORMED[case] + b",")
        following = Following([UNSTREAMED], [bad]).run()
        assert following.mirror.calls == ["replace a c"]

    @pytest.mark.parametrize("kind", [b"ADDED", b"MODIFIED"])
    def test_in_a_watch(self, case: str, kind: bytes) -> None:
        bad = b'{"type":"%s","object":%s}' % (kind, MALFORMED[case])
        changes = [bad, added("c", 7)]
        following = Following([LISTED, changes]).run()
        assert following.mirror.calls == ["replace a", "put c"]
        assert following.modes == ["list", "watch 5", "watch 7"]

    @pytest.mark.parametrize("kind", [b"DELETED", b"BOOKMARK"])
    def test_as_a_deletion_or_bookmark(self, case: str, kind: bytes) -> None:
        bad = b'{"type":"%s","object":%s}' % (kind, MALFORMED[case])
        changes = [bad, added("c", 7)]
        following = Following([LISTED, changes]).run()
        calls = []
        for call in following.mirror.calls:
            if "bad" not in call:
                calls.append(call)
        assert calls == ["replace a", "put c"]


class TestWaiting:
    def test_waits_grow_with_jitter_up_to_a_minute(self) -> None:
        following = Following([LOST] * 100, most_waits=12).run()
        waits = following.stop.waits
        steps = [
            0.5,
            1,
            2,
            4,
            8,
            16,
            32,
            60,
            60,
            60,
            60,
            60,
        ]
        shares = set()
        for wait, step in zip(waits, steps, strict=True):
            assert step / 2 <= wait <= step
            shares.add(wait / step)
        assert len(shares) == 12

    def test_success_makes_it_patient_again(self) -> None:
        breaks: list[bytes | KubeError] = [bookmark(6), LOST]
        streams: list[Answer] = [
            *[LOST] * 4,
            LISTED,
            LOST,
            LISTED,
            breaks,
            LISTED,
        ]
        following = Following(streams).run()
        waits = following.stop.waits
        assert waits[4] > waits[3] > 2  # a list whose watch breaks at once is no success
        assert waits[5] <= 0.5  # the watch's first event is

    def test_it_waits_as_long_as_the_server_asks(self) -> None:
        busy = ApiError(
            429,
            "TooManyRequests",
            "",
            retry_after=17,
        )
        following = Following([busy, LISTED], most_waits=1).run()
        assert following.stop.waits == [17]

    @pytest.mark.parametrize(
        "short",
        [
            pytest.param([], id="silent"),
            pytest.param([bookmark(5)], id="bookmark"),
            pytest.param([modified("a", 6)], id="change"),
        ],
    )
    def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_hot_loop(self, short: list[bytes]) -> None:
        streams = [LISTED, *[short] * 50]
        following = Following(streams, most_waits=10).run()
        assert following.modes.count("list") == 1
        assert len(following.modes) == 11

    def test_errors_of_configuration_are_survived(self) -> None:
        following = Following([KubeError("token file: gone"), LISTED]).run()
        assert following.mirror.calls == ["replace a"]


def silent(opened: list[str]) -> Iterator[bytes]:
    """A stream that may say nothing for a minute, and that nobody would cut; `opened` tells that it began."""
    opened.append("opened")
    yield added("b", 6)


def before_stream(following: Following, number: int, act: Callable[[], None]) -> None:
    """Have something happen just before the stream of this number begins, the first being 1."""
    begin = following.client.stream
    numbers = count(1)

    def late(request: Request, idle_timeout: float) -> WatchStream:
        if next(numbers) == number:
            act()
        return begin(request, idle_timeout)

    following.client.stream = late  # type: ignore[method-assign]


class TestRelist:
    def test_list_asked_for_before_a_watch_begins_is_read(self) -> None:
        following = Following()
        opened: list[str] = []
        following.client.script([LISTED, silent(opened), LISTED])
        before_stream(following, 2, following.reflector.relist)
        following.run()
        assert opened == []
        assert following.mirror.errors == []
        assert following.mirror.calls == ["replace a", "replace a"]

    def test_end_just_before_a_list_begins_is_the_end(self) -> None:
        following = Following()
        opened: list[str] = []
        following.client.script([silent(opened)])

        def end() -> None:
            following.stop.ended = True

        before_stream(following, 1, end)
        following.run()
        assert opened == []
        assert following.mirror.errors == []
        assert following.mirror.calls == []
