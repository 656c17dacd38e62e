"""Saved files as a source: read, and read again when they change."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.saved import cluster_topology, demo_nodes, saved
from tests.ui.serving import ManualRuntime, Unfollowed, fetched
from toposcope.snapshot.problems import InputError
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.detail import detail
from toposcope.ui.facts import Facts
from toposcope.ui.saved import EXPECTED, SavedSource


def _source(path: Path, clock: ManualRuntime | None = None) -> tuple[SavedSource, Facts]:
    facts = Facts(
        str(path),
        EXPECTED,
        lambda: None,
        clock or ManualRuntime(),
    )
    source = SavedSource([str(path)], facts, Unfollowed())
    return source, facts


def _write(path: Path, items: list[Any], time: int) -> None:
    path.write_text(saved(items))
    os.utime(path, (time, time))


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    first, *others = demo_nodes(most=4)
    topology = cluster_topology()
    _write(path, [first, *others, topology], 1)
    source, facts = _source(path)
    source.start()
    broadcaster = Broadcaster(facts, "files", "e1")
    broadcaster.tick()
    shown = fetched(broadcaster)
    nodes, status = shown["nodes"], shown["status"]
    assert nodes["name"] == ["gb200-01", "gb200-02", "gb200-03", "gb200-04"]
    assert nodes["free"] is None
    assert status["asOf"] is None
    warning = status["warnings"][0]
    assert warning.startswith("there are no Pods in the files")

    _write(path, [*others, topology], 2)
    source.look_again()
    broadcaster.tick()
    newest = fetched(broadcaster)["changes"][0]
    assert newest["text"].endswith("gb200-01")
    assert facts.node("gb200-01") is None


def test_broken_file_leaves_stale_data(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    clock = ManualRuntime()
    _write(path, demo_nodes(most=2), 1)
    source, facts = _source(path, clock)
    source.start()
    clock.seconds = 100
    path.write_text('{"kind": "Node", "apiVersion": "v1"')
    os.utime(path, (2, 2))
    source.look_again()
    stale = facts.stale()
    assert stale
    assert stale.seconds == 100
    assert str(path) in stale.why["files"]
    snapshot = facts.snapshot()
    assert len(snapshot.nodes) == 2

    path.unlink()
    source.look_again()
    stale = facts.stale()
    assert stale
    why = stale.why["files"]
    assert "no such file" in why.lower()

    _write(path, demo_nodes(most=3), 3)
    source.look_again()
    assert facts.stale() is None
    snapshot = facts.snapshot()
    assert len(snapshot.nodes) == 3


def test_unreadable_files_are_an_error_at_the_start(tmp_path: Path) -> None:
    source, _ = _source(tmp_path / "not-there.json")
    with pytest.raises(InputError):
        source.start()


def test_matrices_are_kept_for_single_nodes(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    _write(path, demo_nodes(most=2), 1)
    source, facts = _source(path)
    source.start()
    seen = source.node("gb200-02")
    assert seen
    found = detail(seen, (), facts.snapshot(), None)
    assert found.matrix
    assert len(found.matrix) == 12
    assert len(found.devices) == 12
    assert found.since is None
    assert source.node("missing") is None
    for node in facts.snapshot().nodes:
        assert node.matrix is None
    _, uuids = facts.uuids()[0]
    assert len(uuids.split("\n")) == 4
