"""List and watch against scripts: what is handed over, what is asked for next, how long it waits before."""

import gc
import random
from collections.abc import Iterable, Iterator
from itertools import product

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
from toposcope.kube.client import Request, Stream
from toposcope.kube.errors import ApiError, KubeError, ResourceExpiredError, UnreachableError
from toposcope.kube.reflector import EtcdRestores, Reflector

UNSTREAMED = ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
LISTED = [event("ADDED", "a", 1), bookmark(5, end=True)]
LOST = UnreachableError("connection reset")
KINDS = (b"ADDED", b"MODIFIED", b"DELETED")
BROKEN = (b"", b"}", b"{}", b'{"metadata":{"name":"b"}', b'{"metadata":{"name":tru}}}', b"[" * 10**5 + b"}")
"""What no object of an event ends with."""


class Following:
    """A reflector on a script: `streams` and `pages` are answered in order, and the program ends with the script."""

    def __init__(
        self,
        streams: Iterable[Answer] = (),
        pages: Iterable[Answer] = (),
        most_waits: int = 100,
        restores: EtcdRestores | None = None,
    ) -> None:
        self.stop = Waits(most_waits)
        self.mirror = Mirror()
        self.client = ScriptedClient(self.stop, streams, pages)
        self.reflector: Reflector[Item] = Reflector(
            self.client, "/api/v1/nodes", decode, self.mirror, self.stop, random.Random(7), restores=restores
        )

    def run(self) -> "Following":
        self.reflector.run()
        return self

    @property
    def modes(self) -> list[str]:
        """What was asked for but the `version`: `list` (streamed), `page`, `page <continue>`, `watch <version>`."""
        return [mode for mode in self.questions if mode != "version"]

    @property
    def questions(self) -> list[str]:
        """The modes, and where the newest version alone was asked for."""
        return [
            "list"
            if "sendInitialEvents" in query
            else f"watch {query['resourceVersion']}"
            if "watch" in query
            else "version"
            if query["limit"] == "1"
            else f"page {query.get('continue', '')}".strip()
            for query in self.client.queries
        ]


class TestLists:
    def test_a_streamed_list_is_handed_over_when_it_is_complete(self) -> None:
        following = Following([[event("ADDED", "a", 1), event("ADDED", "b", 3), bookmark(5, end=True)]]).run()
        assert following.mirror.calls == ["replace a b"]
        assert following.modes == ["list", "watch 5"]
        assert following.client.queries[0]["resourceVersionMatch"] == "NotOlderThan"
        assert following.client.queries[0]["allowWatchBookmarks"] == "true"

    def test_changes_during_the_streamed_list_belong_to_it(self) -> None:
        changes = [
            event("ADDED", "a", 1),
            event("ADDED", "b", 2),
            bookmark(3),
            event("MODIFIED", "a", 4, labels={"new": "1"}),
            event("DELETED", "b", 5),
            event("DELETED", "never", 5),
            bookmark(5, end=True),
        ]
        following = Following([changes]).run()
        assert following.mirror.items == {"a": ("4", {"new": "1"})}

    @pytest.mark.parametrize("end", [[], [LOST], [failure(500, "InternalError")], [b"garbage"], [b'{"type":"\xff"}']])
    def test_half_a_list_is_nothing(self, end: list[bytes | KubeError]) -> None:
        following = Following([[event("ADDED", "a", 1), *end], LISTED]).run()
        assert following.mirror.calls == ["replace a"]
        assert following.mirror.errors
        assert following.modes[:2] == ["list", "list"]

    @pytest.mark.parametrize("code", [400, 403, 404, 405, 422])
    def test_servers_without_streamed_lists_are_read_in_pages(self, code: int) -> None:
        following = Following(
            [ApiError(code, "", "no"), LOST, ResourceExpiredError(410, "Expired", "")],
            [page(thing("a", 1), version=9, following="p2"), page(thing("b", 2), version=9), page()],
        ).run()
        assert following.mirror.calls == ["replace a b", "replace "]
        # After a relist it does not ask for a stream again.
        assert following.modes == ["list", "page", "page p2", "watch 9", "watch 9", "page", "watch 1"]
        assert [query["limit"] for query in following.client.queries if query.get("limit", "1") != "1"] == ["500"] * 3

    def test_a_refusal_of_both_leaves_streams_possible(self) -> None:
        forbidden = ApiError(403, "Forbidden", "no role yet")
        following = Following([forbidden, LISTED], [forbidden]).run()
        assert following.modes == ["list", "page", "list", "watch 5"]
        assert following.mirror.calls == ["replace a"]

    def test_a_page_token_that_expired_begins_the_list_anew(self) -> None:
        pages: list[Answer] = [
            page(thing("a", 1), following="p2"),
            ResourceExpiredError(410, "Expired", "continue token expired"),
            page(thing("b", 2), version=8),
        ]
        following = Following([UNSTREAMED, UNSTREAMED], pages).run()
        assert following.mirror.calls == ["replace b"]
        assert following.modes == ["list", "page", "page p2", "list", "page", "watch 8"]

    def test_an_empty_list_may_be_null(self) -> None:
        following = Following([UNSTREAMED], [b'{"items":null,"metadata":{"resourceVersion":"3"}}']).run()
        assert following.mirror.calls == ["replace "]

    @pytest.mark.parametrize(
        "answer", [b"", b"[]", b"{}", b'{"items":{}}', b'{"kind":"Status"}', b"\xff", b'{"items":[],"metadata":{}}']
    )
    def test_an_answer_that_is_no_list_empties_nothing(self, answer: bytes) -> None:
        following = Following([UNSTREAMED], [answer], most_waits=1).run()
        assert following.mirror.calls == []
        assert [type(error) for error in following.mirror.errors] == [UnreachableError]

    def test_a_list_without_version_is_not_asked_for_in_a_hot_loop(self) -> None:
        following = Following([[event("ADDED", "a", 1), bookmark(0, end=True).replace(b'"0"', b'""')]], most_waits=1)
        assert following.run().mirror.calls == []
        assert following.stop.waits

    def test_sync_raises_and_hands_over_nothing(self) -> None:
        following = Following([LOST, LISTED])
        with pytest.raises(UnreachableError):
            following.reflector.sync()
        assert following.mirror.calls == []
        following.reflector.sync()
        assert following.mirror.calls == ["replace a"]


class TestWatches:
    def test_changes_are_handed_over_and_the_next_watch_begins_after_the_last(self) -> None:
        changes = [event("ADDED", "b", 6), event("MODIFIED", "a", 7, labels={"x": "1"}), event("DELETED", "b", 8)]
        following = Following([LISTED, changes, [bookmark(12)], []]).run()
        assert following.mirror.calls == ["replace a", "put b", "put a", "gone b"]
        assert following.mirror.items == {"a": ("7", {"x": "1"})}
        assert not following.mirror.mistakes
        assert following.modes == ["list", "watch 5", "watch 8", "watch 12", "watch 12"]

    @pytest.mark.parametrize(
        "gone", [ResourceExpiredError(410, "Expired", "too old"), [failure(410)], [bookmark(6), failure(410)]]
    )
    def test_an_expired_version_is_followed_by_a_list(self, gone: Answer) -> None:
        following = Following([LISTED, gone, [event("ADDED", "b", 20), bookmark(20, end=True)]]).run()
        assert following.mirror.calls == ["replace a", "replace b"]
        assert following.modes == ["list", "watch 5", "list", "watch 20"]

    def test_silence_is_followed_by_a_list(self) -> None:
        """After etcd was restored from a backup, a server waits for our version without a word, perhaps for days."""
        silence = UnreachableError("timed out")
        silence.__cause__ = TimeoutError()
        following = Following([LISTED, silence, [event("ADDED", "b", 2), bookmark(2, end=True)]]).run()
        assert following.modes == ["list", "watch 5", "list", "watch 2"]
        assert set(following.mirror.items) == {"b"}

    @pytest.mark.parametrize(
        "trouble", [LOST, ApiError(429, "TooManyRequests", ""), ApiError(500, "", ""), [failure(500, "InternalError")]]
    )
    def test_other_trouble_costs_no_list(self, trouble: Answer) -> None:
        following = Following([LISTED, trouble, []]).run()
        assert following.modes == ["list", "watch 5", "watch 5", "watch 5"]
        assert following.mirror.items

    def test_what_is_known_stands_while_the_server_is_away(self) -> None:
        following = Following([LISTED, LOST, LOST, [bookmark(6)]]).run()
        assert following.mirror.calls == ["replace a"]
        assert len(following.mirror.errors) == 2
        assert following.mirror.error is None

    @pytest.mark.parametrize(
        "line",
        [
            *(b"", b"{", b"[]", b'{"type":1}', b'{"type":"ADDED"}', b'{"type":"\xff"}', b"[" * 10**5),
            *(b'{"type":"%s","object":%s' % part for part in product(KINDS, BROKEN)),
        ],
    )
    def test_garbage_is_an_error_and_the_watch_is_made_anew(self, line: bytes) -> None:
        following = Following([LISTED, [event("ADDED", "b", 6), line], [event("ADDED", "c", 7)]]).run()
        assert following.mirror.calls == ["replace a", "put b", "put c"]
        assert following.modes == ["list", "watch 5", "watch 6", "watch 7"]

    def test_an_event_that_came_after_the_end_of_the_program_is_not_handled(self) -> None:
        following = Following([LISTED])

        def changes() -> Iterator[bytes]:
            yield event("ADDED", "b", 6)
            following.stop.ended = True
            yield event("ADDED", "c", 7)

        following.client._streams = iter([LISTED, changes()])
        assert following.run().mirror.calls == ["replace a", "put b"]


class TestRestores:
    """A server whose versions run backwards after it was away."""

    def test_everything_is_read_again_where_our_version_is_lost(self) -> None:
        following = Following([LISTED, LOST, [event("ADDED", "b", 2), bookmark(2, end=True)]])
        following.client.newest = 4
        following.run()
        assert following.questions == ["list", "watch 5", "version", "list", "watch 2"]
        assert following.mirror.calls == ["replace a", "replace b"]

    @pytest.mark.parametrize("newest", [6, 7])
    def test_a_version_that_is_still_there_is_gone_on_from(self, newest: int) -> None:
        following = Following([LISTED, LOST, [bookmark(6), LOST], []])
        following.client.newest = newest
        following.run()
        assert following.questions == ["list", "watch 5", "version", "watch 5", "version", "watch 6", "watch 6"]

    def test_a_watch_that_ends_as_it_should_raises_no_doubt(self) -> None:
        assert Following([LISTED, [bookmark(6)], []]).run().questions == ["list", "watch 5", "watch 6", "watch 6"]

    def test_it_asks_until_it_is_answered(self) -> None:
        following = Following([LISTED, LOST, []])
        following.client.newest = LOST
        read = following.client.read

        def heal(request: Request) -> bytes:
            try:
                return read(request)
            finally:
                following.client.newest = 7

        following.client.read = heal  # type: ignore[method-assign]
        assert following.run().questions == ["list", "watch 5", "version", "version", "watch 5", "watch 5"]
        assert len(following.mirror.errors) == 2

    @pytest.mark.parametrize("newest", [b"", b"{}", b'{"items":[],"metadata":{"resourceVersion":"v4"}}', b"<html>"])
    def test_an_answer_that_tells_nothing(self, newest: bytes) -> None:
        """No list at all is an error; versions that are no numbers cannot be compared, and the watch goes on."""
        following = Following([LISTED, LOST, []], most_waits=3)
        following.client.newest = newest
        following.run()
        assert following.mirror.calls == ["replace a"]
        assert ("watch 5" in following.modes[2:]) == newest.startswith(b'{"')

    def test_those_who_follow_something_else_are_told(self) -> None:
        """A quiet collection shows nothing: its own version may be older than the copy, and yet it has changed."""
        restores = EtcdRestores()
        following, quiet = Following([LISTED, LOST, LISTED], restores=restores), Following([LISTED] * 2)
        stranger = Following([LISTED], restores=EtcdRestores())
        restores.register(quiet.reflector)
        following.client.newest = 1
        following.run()
        assert quiet.run().modes[0] == "list"
        assert (quiet.reflector._reason, stranger.reflector._again) == ("restored", "")

    def test_whoever_follows_no_more_is_forgotten(self) -> None:
        restores = EtcdRestores()
        Following(restores=restores)
        gc.collect()
        assert not restores._followers


MALFORMED = {
    "refused by the decoder": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":7}}',
    "not UTF-8": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":{"a":"\xff"}}}',
    "no metadata": b"{}",
    "metadata of the wrong type": b'{"metadata":{"name":5,"resourceVersion":[]}}',
    "null": b"null",
    "nested without end": b'{"metadata":{"name":"bad","resourceVersion":"6","labels":'
    + b"[" * 500
    + b"]" * 500
    + b"}}",
}


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
        following = Following([LISTED, [bad, LOST], [event("ADDED", "c", 7)]]).run()
        assert following.mirror.calls == ["replace a", "put c"]
        assert following.modes[:3] in (["list", "watch 5", "watch 5"], ["list", "watch 5", "watch 6"])

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
        following = Following([LOST, LOST, LOST, LOST, LISTED, LOST, LOST, [bookmark(6), LOST], LOST]).run()
        waits = following.stop.waits
        assert waits[3] > 2
        assert waits[4] <= 0.5 < waits[5] * 2  # after the list
        assert waits[6] <= 0.5  # after the watch's first event

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


def relisted(
    *script: bytes | KubeError | None, first: Iterable[Answer] = (LISTED,), then: Iterable[Answer] = (LISTED,)
) -> Following:
    """One that has run; at None in the script of a stream it is asked to list again."""
    following = Following()

    def lines() -> Iterator[bytes | KubeError]:
        for line in script:
            if line is None:
                following.reflector.relist()
            else:
                yield line

    following.client._streams = iter([*first, lines(), *then])
    return following.run()


class TestRelist:
    def test_it_reads_everything_again(self) -> None:
        following = relisted(event("ADDED", "b", 6), None, event("ADDED", "never handed over", 7))
        assert following.mirror.calls == ["replace a", "put b", "replace a"]
        assert following.modes == ["list", "watch 5", "list", "watch 5"]
        assert following.mirror.errors == []
        assert following.stop.waits == [0.5]  # at the end of the script

    def test_the_broken_stream_is_no_failure(self) -> None:
        following = relisted(None, LOST)
        assert following.modes == ["list", "watch 5", "list", "watch 5"]
        assert following.mirror.errors == []

    def test_a_list_that_fails_then_is_tried_again(self) -> None:
        following = relisted(None, event("ADDED", "b", 6), then=[LOST, LISTED])
        assert following.modes == ["list", "watch 5", "list", "list", "watch 5"]

    def test_asked_for_just_before_the_watch_begins(self) -> None:
        following = Following()
        opened: list[str] = []

        def silent() -> Iterator[bytes]:
            opened.append("a stream that may say nothing for a minute")
            yield event("ADDED", "b", 6)

        following.client._streams = iter([LISTED, silent(), LISTED])
        stream = following.client.stream
        asked = iter([False, True])

        def late(request: Request, idle_timeout: float) -> Stream:
            if next(asked, False):
                following.reflector.relist()
            return stream(request, idle_timeout)

        following.client.stream = late  # type: ignore[method-assign]
        following.run()
        assert following.mirror.calls == ["replace a", "replace a"]
        assert not opened

    def test_asked_for_during_a_list(self) -> None:
        following = relisted(event("ADDED", "a", 1), None, bookmark(5, end=True), first=[])
        assert following.modes == ["list", "list", "watch 5"]
