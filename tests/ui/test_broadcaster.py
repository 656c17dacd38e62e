"""Deltas: a page that follows them knows what a page knows that was loaded just now."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.snapshot.clusters import pod_of, view
from tests.support.cluster import RACK
from tests.support.saved import cluster_topology, pod
from tests.ui.serving import Page, Ticks, broadcaster_of, decoded, facts_of, fetched, rack_nodes
from toposcope.api import label_keys
from toposcope.api.cluster_topology import read
from toposcope.ui import broadcaster as module
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.facts import Facts

CONDITION = {"type": "LevelsCovered", "status": "False", "reason": "NodesMissingLevels", "message": "n0 lacks rack"}


@pytest.fixture
def facts() -> Facts:
    return facts_of(rack_nodes())


@pytest.fixture
def broadcaster(facts: Facts) -> Broadcaster:
    return broadcaster_of(facts)


@pytest.fixture
def page(broadcaster: Broadcaster) -> Page:
    return Page(broadcaster)


def _put(facts: Facts, name: str, rack: str | None = "r0", **other: Any) -> None:
    facts.put_node(view(name, rack, **other), "")


def _turn(rng: random.Random, facts: Facts) -> None:
    """One thing happens."""
    name = f"n{rng.randrange(12)}"
    match rng.randrange(8):
        case 0:
            facts.delete_node(name)
        case 1:
            _put(facts, name, rng.choice([None, "r0", "r1", "r9"]), state=rng.choice(["ok", "degraded"]))
        case 2:
            _put(facts, name, cordoned=rng.random() < 0.5, ready=rng.random() < 0.8)
        case 3 | 4:
            key = f"p{rng.randrange(20)}"
            found = pod_of(pod(key, name, rng.randrange(1, 8)))
            facts.put_pod(f"train/{key}", rng.choice([found, found, None]))
        case 5:
            facts.put_node(view(name, labels={label_keys.GPUS: "", "x": str(rng.random())}, gpus=0), "")
        case 6:
            facts.put_topology(read(cluster_topology({"conditions": [CONDITION | {"message": str(rng.random())}]})))
        case 7 if rng.random() < 0.2:  # whom it selects: pages begin anew
            selector = {"matchLabels": {RACK: rng.choice(["r0", "r1"])}}
            facts.put_topology(read(cluster_topology(nodeSelector=selector, required=["rack"])))


def test_open_pages_know_what_new_ones_know() -> None:
    rng = random.Random(8)
    facts = facts_of(rack_nodes(8))
    broadcaster = broadcaster_of(facts)
    pages = [Page(broadcaster), Page(broadcaster)]
    for turn in range(300):
        for _ in range(rng.randrange(4)):
            _turn(rng, facts)
        broadcaster.tick()
        for page in pages[: 1 + turn % 2]:  # the second one hears of two turns at once
            page.follow()
    pages[1].follow()
    new = fetched(broadcaster_of(facts))
    for page in pages:
        assert page.rows == decoded(new)
        assert page.views == new["views"]
        assert page.others == new["otherNodes"]
    assert all(page.resets < 60 for page in pages)


def test_changes_are_described_and_kept(facts: Facts, broadcaster: Broadcaster, page: Page) -> None:
    _put(facts, "n1", state="degraded")
    broadcaster.tick()
    _put(facts, "n1")
    broadcaster.tick()
    facts.delete_node("n2")
    facts.delete_node("n3")
    broadcaster.tick()
    _put(facts, "n0", "r7")
    broadcaster.tick()
    page.follow()
    assert page.changes == [
        "1 node: state ok -> degraded: n1",
        "1 node: state degraded -> ok: n1",
        "rack z/b1/r1 is gone with 2 nodes: n2, n3",
        "1 node moved from rack r0 to r7: n0",
    ]
    shown = fetched(broadcaster)["changes"]
    assert [change["text"] for change in shown] == page.changes[::-1]
    assert [change["bad"] for change in shown] == [False, True, False, True]
    assert broadcaster.since("n1") == "2026-01-02T03:04:05Z"


def test_a_level_that_goes_and_comes_back() -> None:
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": label_keys.HOSTNAME}]
    facts = facts_of(rack_nodes(), cluster_topology(levels=levels))
    broadcaster = broadcaster_of(facts)
    page = Page(broadcaster)
    facts.put_topology(read(cluster_topology(levels=levels[1:])))
    broadcaster.tick()
    page.follow()
    facts.put_topology(read(cluster_topology(levels=levels)))
    broadcaster.tick()
    page.follow()
    assert page.resets == 2
    assert [change["text"] for change in fetched(broadcaster)["changes"]] == [
        f"cluster: level rack: none -> {RACK}",
        f"cluster: level rack: {RACK} -> none",
    ]
    assert [level["domain"] for level in page.views[0]["levels"]] == ["rack", "host"]


def test_a_changed_selector_recounts_the_nodes() -> None:
    facts = facts_of((*rack_nodes(), view("n9", "r9")), cluster_topology())
    broadcaster = broadcaster_of(facts)
    page = Page(broadcaster)
    facts.put_topology(read(cluster_topology(nodeSelector={"matchLabels": {RACK: "r9"}})))
    broadcaster.tick()
    page.follow()
    assert page.resets == 1
    assert [(view["nodes"], view["gpus"]) for view in page.views] == [(1, 8)]


def test_unchanged_objects_publish_nothing(facts: Facts, broadcaster: Broadcaster) -> None:
    for i in range(4):
        facts.put_node(view(f"n{i}", f"r{i // 2}"), "")
    facts.put_pod("train/p", None)
    broadcaster.tick()
    assert broadcaster.number == 0


def test_a_pod_without_gpus_publishes_nothing(facts: Facts, broadcaster: Broadcaster) -> None:
    facts.put_pod("train/p", pod_of(pod("p", "n1", 0)))
    broadcaster.tick()
    assert broadcaster.number == 0
    facts.put_pod("train/q", pod_of(pod("q", "n1", 3)))
    broadcaster.tick()
    assert broadcaster.number == 1


def test_another_catalogue_resets_the_pages(facts: Facts, broadcaster: Broadcaster, page: Page) -> None:
    facts.put_catalogue(replace(facts.catalogue, placeholders=frozenset({"r0"})))
    broadcaster.tick()
    page.follow()
    assert (page.resets, fetched(broadcaster)["placeholders"]) == (1, ["r0"])
    facts.put_catalogue(replace(facts.catalogue))
    broadcaster.tick()
    page.follow()
    assert page.resets == 1


def test_losing_access_to_pods_resets_the_pages(facts: Facts, broadcaster: Broadcaster, page: Page) -> None:
    facts.replace_pods(None)
    broadcaster.tick()
    page.follow()
    assert page.resets == 1
    assert {row["free"] for row in page.rows.values()} == {None}


def test_many_changes_at_once_reset_the_pages(
    facts: Facts, broadcaster: Broadcaster, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_ROWS", 3)
    for i in range(4):
        _put(facts, f"n{i}", state="degraded")
    broadcaster.tick()
    page.follow()
    assert page.resets == 1
    assert page.rows == decoded(fetched(broadcaster))


def test_the_ring_is_bounded_and_slow_listeners_notice(
    facts: Facts, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_EVENTS", 5)
    for turn in range(12):
        _put(facts, "n1", state="degraded" if turn % 2 else "unknown")
        broadcaster.tick()
    assert [event.number for event in broadcaster.after(7) or ()] == [8, 9, 10, 11, 12]
    assert broadcaster.after(12) == []
    assert broadcaster.after(6) is None
    assert broadcaster.after(13) is None
    monkeypatch.setattr(module, "_MAX_BYTES", 1)
    _put(facts, "n1")
    broadcaster.tick()
    assert [event.number for event in broadcaster.after(12) or ()] == [13]
    assert broadcaster.after(11) is None


@pytest.mark.parametrize("identity", ["", "7", "other-7", "e1-", "e1-x", "e1--1", "e1-\u0667", "e1-1-1"])
def test_ids_of_another_run_are_unknown(identity: str) -> None:
    assert broadcaster_of(facts_of(rack_nodes())).number_of(identity) is None


def test_stale_says_since_when_and_why() -> None:
    clock = Ticks()
    facts = facts_of(rack_nodes(), clock=clock)
    broadcaster = broadcaster_of(facts)
    assert broadcaster.status().stale is None
    assert broadcaster.status().as_of == "2026-01-02T03:04:05Z"
    clock.now = 50
    facts.mark_alive("all")
    clock.now = 60
    facts.mark_failing("all", "https://cluster.test does not answer")
    broadcaster.tick()
    clock.now = 95
    status = broadcaster.status()
    assert status.stale is not None
    assert (status.stale.seconds, status.stale.why) == (45, ["all: https://cluster.test does not answer"])
    assert status.as_of == "2026-01-02T03:03:20Z"
    assert broadcaster.health == 1
    facts.mark_synced("all")
    broadcaster.tick()
    assert broadcaster.status().stale is None
    assert broadcaster.health == 2


def test_a_snapshot_is_built_once_for_each_state(
    facts: Facts, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = broadcaster.packed()
    monkeypatch.setattr(broadcaster, "snapshot", lambda: pytest.fail("made again"))
    assert broadcaster.packed() is not first
    assert broadcaster.packed() == first
    monkeypatch.undo()
    _put(facts, "n1", state="degraded")
    broadcaster.tick()
    assert broadcaster.packed()[0] != first[0]
