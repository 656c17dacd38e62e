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
from tests.support.tables import each_case
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.owners import OwnedKeys
from toposcope.agent.publish import owned_keys
from toposcope.api.label_keys import GPUS, STATE
from toposcope.kube.client import ApiClient

WANTED = OwnedKeys({GPUS: "8"}, {})


def line(kind: str, gpus: str, *changed: str) -> bytes:
    """An event of the Node with so many GPUs, where `?` is none; `changed` are fields that are not ours."""
    metadata = {"name": "n1", "uid": "u", "labels": {GPUS: gpus.strip("?"), "example.com/a": "b"}}
    found = {"metadata": {} if kind == "BOOKMARK" else metadata, **{field: {"a": "b"} for field in changed}}
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


class Keys:
    """What the agent of this Node wants, where a plan depends on the rack."""

    def owned(self, metadata: Mapping[str, Any]) -> OwnedKeys:
        return owned_keys(metadata)

    def differs(self, keys: OwnedKeys) -> bool:
        return keys != WANTED

    def inputs(self, metadata: Mapping[str, Any]) -> Hashable:
        return (metadata.get("labels") or {}).get("rack")


class Watched:
    """A watch of a scripted server, run until it has paused so often."""

    def __init__(self, client: ApiClient, pauses: int, lasts: float = 0.0) -> None:
        self.changes = 0
        self.metrics = AgentMetrics()
        runtime = WatchRuntime(pauses, passing=lasts)
        NodeWatch(client, "n1", Keys(), self.metrics, self._changed, runtime=runtime).run()
        self.pauses = runtime.pauses.seconds

    def _changed(self) -> None:
        self.changes += 1


@pytest.mark.regression
@each_case("tables/agent.yaml")
def test_a_change_of_our_keys_wakes_the_loop_once(events: list[str], changes: int) -> None:
    with ScriptedServer([chunked(*(line(*words.split()) for words in events))]) as server:
        watched = Watched(server.client(), 1, lasts=100.0)
    assert watched.changes == changes
    assert watched.pauses[1] <= 1.0
    target = server.received[0].target
    assert "watch=true&fieldSelector=metadata.name%3Dn1&resourceVersion=0&allowWatchBookmarks=true" in target


@pytest.mark.regression
@each_case("tables/agent.yaml")
def test_a_watch_that_fails_is_told_once(
    head: str | None, lines: str, complete: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toposcope.kube.object_watch._IDLE_SECONDS", 0.2)
    caplog.set_level(logging.INFO, "agent")
    body = lines.encode("latin-1")
    bad = answer(body, head) if head else chunked(*[body] * bool(body), complete=complete)
    reply = {"silence": Reply(None), "hangs up": Reply(b"", close=True)}.get(head or "", Reply(bad, close=True))
    with ScriptedServer([reply] * 4 + [chunked(line("MODIFIED", "7"))]) as server:
        client = server.client()
        client._largest = 200
        watched = Watched(client, 5)
    assert watched.changes >= 1
    assert not watched.metrics.watching
    pauses = watched.pauses[1:5]
    first = 30 if '"n1"' in lines and GPUS in lines else 2  # once there has been a watch, or none yet
    assert all(1 <= pause <= first * 2**failures for failures, pause in enumerate(pauses))
    told = [record.message for record in caplog.records]
    assert len([message for message in told if message.startswith("no watch of node n1: ")]) == 1
    assert told[-1] == "node n1 is watched again"


@pytest.mark.regression
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
