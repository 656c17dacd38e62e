"""The watch of the agent's own Node: whom it wakes, and what it does about servers that end, refuse or babble."""

import json
import logging
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kube.scripted import Reply, ScriptedServer, answer, chunked
from tests.support.api import MERGE, NODES, ApiUnderTest, node, wait_until
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.publish import OwnedKeys
from toposcope.api.label_keys import GPUS, STATE
from toposcope.kube.client import ApiClient

WANTED = OwnedKeys({GPUS: "8"}, {})


def line(kind: str = "MODIFIED", name: str = "n1", gpus: Any = "8", **more: Any) -> bytes:
    metadata = {"name": name, "uid": "u", "labels": {GPUS: gpus, "example.com/a": "b"}}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **more}}).encode() + b"\n"


class Watched:
    """A watch of a scripted server, run until it has paused so often."""

    def __init__(self, client: ApiClient, pauses: int, lasts: float = 0.0) -> None:
        self.pauses: list[float] = []
        self.changes = 0
        self.metrics = AgentMetrics()
        now = [0.0]

        def wait(seconds: float) -> bool:
            self.pauses.append(seconds)
            return len(self.pauses) > pauses

        def monotonic() -> float:
            now[0] += lasts
            return now[0]

        NodeWatch(client, "n1", WANTED.__ne__, self.metrics, self._changed, wait, monotonic, random.Random(1)).run()

    def _changed(self) -> None:
        self.changes += 1


@pytest.mark.parametrize(
    ("events", "changes"),
    [
        ([line("ADDED"), line(status={"a": "b"}), b'{"type":"BOOKMARK","object":{"metadata":{}}}\n'], 0),
        ([line("ADDED", gpus="7")], 1),
        ([line("ADDED"), line(gpus="7"), line(gpus="7"), line(gpus="7")], 1),
        ([line(gpus="7"), line(), line(gpus="7")], 2),
        ([line("DELETED"), line("ADDED", gpus="")], 1),
    ],
    ids=["nothing of ours", "while it was away", "once a change", "twice", "made anew"],
)
def test_a_change_of_our_keys_wakes_the_loop_once(events: list[bytes], changes: int) -> None:
    with ScriptedServer([chunked(*events)]) as server:
        watched = Watched(server.client(), 1, lasts=100.0)
    assert watched.changes == changes
    assert watched.pauses[1] <= 1.0
    target = server.received[0].target
    assert "watch=true&fieldSelector=metadata.name%3Dn1&resourceVersion=0&allowWatchBookmarks=true" in target


@pytest.mark.parametrize(
    "bad",
    [
        chunked(),
        chunked(b"{}\n"),
        chunked(b"[\n"),
        chunked(b"\xff\n"),
        chunked(b'{"type":"MODIFIED","object":[]}\n'),
        chunked(b'{"type":"MODIFIED","object":{"metadata":{"name":"n1","uid":"u","labels":{"a":1}}}}\n'),
        chunked(line(name="n2")),
        chunked(b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n'),
        chunked(b'{"type":"ERROR","object":{"code":"x"}}\n'),
        chunked(b"x" * 3000, complete=False),
        chunked(line(), complete=False),
        answer(b"x" * 3000, "503 Service Unavailable"),
        answer(b"{}", "403 Forbidden"),
        Reply(None),
        Reply(b"", close=True),
    ],
)
def test_a_watch_that_fails_is_tried_again_ever_later_and_told_once(
    bad: bytes | Reply, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toposcope.agent.node_watch._IDLE_SECONDS", 0.2)
    caplog.set_level(logging.INFO, "agent")
    with ScriptedServer(
        [Reply(bad, close=True) if isinstance(bad, bytes) else bad] * 4 + [chunked(line(gpus="7"))]
    ) as server:
        client = server.client()
        client._largest = 2000
        watched = Watched(client, 5)
    assert watched.changes >= 1
    assert not watched.metrics.watching
    pauses = watched.pauses[1:5]
    bounds = [300, 300, 300, 300] if answer(b"{}", "403 Forbidden") == bad else [1, 1, 1, 1]
    assert all(low <= pause <= 600 for low, pause in zip(bounds, pauses, strict=True))
    assert pauses[0] <= 30 or bounds[0] == 300
    told = [record.message for record in caplog.records]
    assert len([message for message in told if message.startswith("no watch of node n1: ")]) == 1
    assert told[-1] == "node n1 is watched again"


def test_labels_removed_by_hand_are_back_within_five_seconds(api: ApiUnderTest, tmp_path: Path) -> None:
    api.create(NODES, node("n1", labels={"example.com/a": "b"}))
    flags = ["--node-name", "n1", "--spread", "0", "--interval", "1", "--profile", "t4-1", "--kubeconfig"]
    program = [sys.executable, "-W", "error", "-m", "toposcope.cli.main", "agent", *flags, str(api.kubeconfig)]

    def labels() -> dict[str, str]:
        return api.get(f"{NODES}/n1")["metadata"]["labels"]

    with (tmp_path / "log").open("w") as log:
        agent = subprocess.Popen(program, stdout=log, stderr=log)
    try:
        wait_until(lambda: labels().get(STATE) == "ok", "it is labelled")
        wanted = labels()
        for change in ({key: None for key in wanted if key.startswith("gpu.topology/")}, {GPUS: "99"}):
            api.request("PATCH", f"{NODES}/n1", {"metadata": {"labels": change}}, content_type=MERGE)
            wait_until(lambda: labels() == wanted, "it is repaired", 20)
    finally:
        agent.terminate()
        assert agent.wait(20) == 0
    assert "WARNING" not in (tmp_path / "log").read_text()
