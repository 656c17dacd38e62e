"""The watch of the agent's own Node: whom it wakes, and what it does about servers that end, refuse or babble."""

import json
import logging
import subprocess
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from tests.support.api import MERGE, NODES, ApiUnderTest, node, wait_until
from tests.support.runtime import WatchRuntime
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.owners import OwnedKeys
from toposcope.agent.publish import owned_keys
from toposcope.api.label_keys import GPUS, STATE
from toposcope.kube.client import ApiClient

WANTED = OwnedKeys({GPUS: "8"}, {})


def line(kind: str, node: Mapping[str, Any]) -> bytes:
    """An event of a watch."""
    event = {"type": kind, "object": node}
    text = json.dumps(event)
    return text.encode() + b"\n"


def watched_node(gpus: str) -> dict[str, Any]:
    """The Node with `gpu.topology/gpus` set to this count."""
    metadata = {
        "name": "n1",
        "uid": "u",
        "labels": {GPUS: gpus, "example.com/a": "b"},
    }
    return {"metadata": metadata}


def added(gpus: str) -> bytes:
    return line("ADDED", watched_node(gpus))


def modified(gpus: str, *other_fields: str) -> bytes:
    """The Node with a change; `other_fields` are not the agent's."""
    node = watched_node(gpus)
    for field in other_fields:
        node[field] = {"a": "b"}
    return line("MODIFIED", node)


def deleted(gpus: str) -> bytes:
    return line("DELETED", watched_node(gpus))


BOOKMARK = line("BOOKMARK", {"metadata": {}})


class Keys:
    """What the agent of this Node wants, where a plan depends on the rack."""

    def owned(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        return owned_keys(metadata)

    def differs(self, keys: OwnedKeys) -> bool:
        return keys != WANTED

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        labels = metadata.get("labels") or {}
        return labels.get("rack")


class Watched:
    """A watch of a scripted server, run until it has paused so often, or until its first change."""

    def __init__(
        self,
        client: ApiClient,
        pauses: int,
        lasts: float = 0.0,
        *,
        until_changed: bool = False,
    ) -> None:
        self.changes = 0
        self.metrics = AgentMetrics()
        self._until_changed = until_changed
        runtime = WatchRuntime(pauses, passing=lasts)
        self._stopping = runtime.pauses
        watch = NodeWatch(
            client,
            "n1",
            Keys(),
            self.metrics,
            self._changed,
            runtime=runtime,
        )
        watch.run()
        self.pauses = runtime.pauses.seconds

    def _changed(self) -> None:
        self.changes += 1
        if self._until_changed:
            self._stopping.set()


@pytest.mark.regression
@pytest.mark.parametrize(
    ("events", "changes"),
    [
        pytest.param([added("8"), modified("8", "status"), BOOKMARK], 0, id="nothing-of-ours"),
        pytest.param([added("7")], 1, id="while-it-was-away"),
        pytest.param([added("8"), modified("7"), modified("7"), modified("7")], 1, id="once-a-change"),
        pytest.param([modified("7"), modified("8"), modified("7")], 2, id="twice"),
        pytest.param([deleted("8"), added("")], 1, id="recreated"),
    ],
)
def test_change_of_our_keys_wakes_the_loop_once(events: list[bytes], changes: int) -> None:
    with ScriptedServer([chunked(*events)]) as server:
        watched = Watched(server.client(), 1, lasts=100.0)
    assert watched.changes == changes
    assert watched.pauses[1] <= 1.0
    target = server.received[0].target
    assert "watch=true&fieldSelector=metadata.name%3Dn1&resourceVersion=0&allowWatchBookmarks=true" in target


LARGEST = 200
"""Bytes that the client takes."""
TOO_LONG = b"x" * (LARGEST + 50)
LABELS_OF_ANOTHER_TYPE = {"metadata": {"name": "n1", "uid": "u", "labels": {"a": 1}}}
ANOTHER_NODE = {"metadata": {"name": "n2", "uid": "u", "labels": {GPUS: "8"}}}
OUR_NODE = {"metadata": {"name": "n1", "uid": "u", "labels": {GPUS: "8"}}}


def ended(*lines: bytes, complete: bool = True) -> Reply:
    """A watch that sends these lines and ends."""
    return Reply(chunked(*lines, complete=complete), close=True)


FIRST_PAUSE_SECONDS = 2
"""The longest pause after a failure that came before any watch, and doubles then."""
FIRST_PAUSE_AFTER_WATCH_SECONDS = 30
MOST_RECOVERIES = 50


@pytest.mark.regression
@pytest.mark.parametrize(
    ("reply", "longest_pause"),
    [
        pytest.param(ended(), FIRST_PAUSE_SECONDS, id="empty"),
        pytest.param(ended(b"{}\n"), FIRST_PAUSE_SECONDS, id="no-event"),
        pytest.param(ended(b"[\n"), FIRST_PAUSE_SECONDS, id="no-json"),
        pytest.param(ended(b"\xff\n"), FIRST_PAUSE_SECONDS, id="no-utf8"),
        pytest.param(ended(b'{"type":"MODIFIED","object":[]}\n'), FIRST_PAUSE_SECONDS, id="no-object"),
        pytest.param(ended(line("MODIFIED", LABELS_OF_ANOTHER_TYPE)), FIRST_PAUSE_SECONDS, id="label-no-string"),
        pytest.param(ended(line("MODIFIED", ANOTHER_NODE)), FIRST_PAUSE_SECONDS, id="another-node"),
        pytest.param(ended(line("ERROR", {"code": 410, "message": "too old"})), FIRST_PAUSE_SECONDS, id="too-old"),
        pytest.param(ended(line("ERROR", {"code": "x"})), FIRST_PAUSE_SECONDS, id="error-without-code"),
        pytest.param(ended(TOO_LONG, complete=False), FIRST_PAUSE_SECONDS, id="line-too-long"),
        pytest.param(
            ended(line("MODIFIED", OUR_NODE), complete=False),
            FIRST_PAUSE_AFTER_WATCH_SECONDS,
            id="cut-off-after-an-event",
        ),
        pytest.param(
            Reply(answer(TOO_LONG, "503 Service Unavailable"), close=True), FIRST_PAUSE_SECONDS, id="refusal-too-long"
        ),
        pytest.param(Reply(answer(b"{}", "403 Forbidden"), close=True), FIRST_PAUSE_SECONDS, id="forbidden"),
        pytest.param(Reply(None), FIRST_PAUSE_SECONDS, id="silence"),
        pytest.param(Reply(b"", close=True), FIRST_PAUSE_SECONDS, id="hangs-up"),
    ],
)
def test_failing_watch_is_told_once_and_retried(
    reply: Reply, longest_pause: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toposcope.kube.object_watch._IDLE_SECONDS", 0.2)
    caplog.set_level(logging.INFO, "agent")
    recovered = chunked(modified("7"))
    # On a busy machine its answer may come too late, and is asked for again.
    recovering = [recovered] * MOST_RECOVERIES
    with ScriptedServer([reply, reply, reply, reply, *recovering]) as server:
        client = server.client()
        client._most_bytes = LARGEST
        watched = Watched(client, 4 + MOST_RECOVERIES, until_changed=True)
    assert watched.changes == 1
    assert not watched.metrics.is_watching
    for failures, pause in enumerate(watched.pauses[1:5]):
        assert 1 <= pause <= longest_pause * 2**failures

    told = 0
    for record in caplog.records:
        told += record.message.startswith("no watch of node n1: ")
    assert told == 1
    assert caplog.records[-1].message == "node n1 is watched again"


@pytest.mark.slow
@pytest.mark.regression
def test_labels_removed_by_hand_are_back_within_five_seconds(api: ApiUnderTest, tmp_path: Path) -> None:
    api.create(NODES, node("n1", labels={"example.com/a": "b"}))
    program = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "toposcope.cli.main",
        "agent",
        "--node-name=n1",
        "--spread=0",
        "--interval=1",
        "--profile=t4-1",
        f"--kubeconfig={api.kubeconfig}",
    ]

    def labels() -> dict[str, str]:
        return api.get(f"{NODES}/n1")["metadata"]["labels"]

    def write_by_hand(change: Mapping[str, str | None]) -> None:
        body = {"metadata": {"labels": change}}
        api.request("PATCH", f"{NODES}/n1", body, content_type=MERGE)

    with (tmp_path / "log").open("w") as log:
        agent = subprocess.Popen(program, stdout=log, stderr=log)
    try:
        wait_until(lambda: labels().get(STATE) == "ok", "it is labelled")
        wanted = labels()
        ours = [key for key in wanted if key.startswith("gpu.topology/")]
        write_by_hand(dict.fromkeys(ours))
        wait_until(lambda: labels() == wanted, "it is repaired", 20)
        write_by_hand({GPUS: "99"})
        wait_until(lambda: labels() == wanted, "it is repaired", 20)
    finally:
        agent.terminate()
        assert agent.wait(20) == 0
    assert "WARNING" not in (tmp_path / "log").read_text()
