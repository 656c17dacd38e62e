"""States: made anew after whatever a page could show has changed, once for all pages."""

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import node_of, pod_of, view
from tests.support.cluster import RACK
from tests.support.saved import cluster_topology, pod
from tests.ui.serving import ManualRuntime, broadcaster_of, decoded, facts_of, fetched, rack_nodes
from toposcope.api import label_keys
from toposcope.api.cluster_topology import read
from toposcope.snapshot.model import PodView
from toposcope.ui.broadcaster import MIN_PAUSE_SECONDS, Broadcaster
from toposcope.ui.facts import Facts

CONDITION = {
    "type": "LevelsCovered",
    "status": "False",
    "reason": "NodesMissingLevels",
    "message": "n0 lacks rack",
}


@pytest.fixture
def facts() -> Facts:
    return facts_of(rack_nodes())


@pytest.fixture
def broadcaster(facts: Facts) -> Broadcaster:
    return broadcaster_of(facts)


def _put(facts: Facts, name: str, rack: str | None = "r0", **other: Any) -> None:
    facts.put_node(view(name, rack, **other), "")


def _turn(rng: random.Random, facts: Facts) -> None:
    """One thing happens."""
    name = f"n{rng.randrange(12)}"
    match rng.randrange(9):
        case 0:
            facts.delete_node(name)
        case 1:
            rack = rng.choice([None, "r0", "r1", "r9"])
            state = rng.choice(["ok", "degraded"])
            _put(facts, name, rack, state=state)
        case 2:
            is_cordoned = rng.random() < 0.5
            is_ready = rng.random() < 0.8
            _put(facts, name, cordoned=is_cordoned, ready=is_ready)
        case 3 | 4:
            key = f"p{rng.randrange(20)}"
            found = pod_of(pod(key, name, rng.randrange(1, 8)))
            facts.put_pod(f"train/{key}", rng.choice([found, found, None]))
        case 5:
            labels = {label_keys.GPUS: "", "x": str(rng.random())}
            facts.put_node(view(name, labels=labels, gpus=0), "")
        case 6:
            condition = CONDITION | {"message": str(rng.random())}
            topology = cluster_topology({"conditions": [condition]})
            facts.put_topology("cluster", read(topology))
        case 7:  # whom it selects
            selector = {"matchLabels": {RACK: rng.choice(["r0", "r1"])}}
            topology = cluster_topology(nodeSelector=selector, required=["rack"])
            facts.put_topology("cluster", read(topology))
        case 8:
            placeholder = rng.choice(["r0", "r9"])
            catalogue = replace(facts.catalogue, placeholders=frozenset({placeholder}))
            facts.put_catalogue(catalogue)


def test_state_is_what_a_full_read_says() -> None:
    rng = random.Random(8)
    facts = facts_of(rack_nodes(8))
    broadcaster = broadcaster_of(facts)
    for _ in range(150):
        for _ in range(rng.randrange(4)):
            _turn(rng, facts)
        broadcaster.tick()
        shown = fetched(broadcaster)
        read_anew = fetched(broadcaster_of(facts))
        assert decoded(shown) == decoded(read_anew)
        assert shown["views"] == read_anew["views"]
        assert shown["otherNodes"] == read_anew["otherNodes"]


def test_changes_are_described_and_kept(facts: Facts, broadcaster: Broadcaster) -> None:
    _put(facts, "n1", state="degraded")
    broadcaster.tick()
    _put(facts, "n1")
    broadcaster.tick()
    facts.delete_node("n2")
    facts.delete_node("n3")
    without_gpus = node_of({"metadata": {"name": "cpu-only"}})
    facts.put_node(without_gpus, "")
    broadcaster.tick()
    _put(facts, "n0", "r7")
    broadcaster.tick()
    shown = fetched(broadcaster)
    changes = [(change["text"], change["bad"]) for change in shown["changes"]]
    assert changes == [
        ("1 node moved from rack r0 to r7: n0", False),
        ("rack z/b1/r1 is gone with 2 nodes: n2, n3", True),
        ("1 node: state degraded -> ok: n1", False),
        ("1 node: state ok -> degraded: n1", True),
    ]
    assert broadcaster.recent.since == {"n1": "2026-01-02T03:04:05Z"}


def shown_levels(broadcaster: Broadcaster) -> list[str]:
    """The levels of the first view."""
    shown = fetched(broadcaster)
    levels = shown["views"][0]["levels"]
    return [level["domain"] for level in levels]


def test_level_that_goes_and_comes_back() -> None:
    rack = {"domain": "rack", "key": RACK}
    host = {"domain": "host", "key": label_keys.HOSTNAME}
    with_rack = cluster_topology(levels=[rack, host])
    without_rack = cluster_topology(levels=[host])
    facts = facts_of(rack_nodes(), with_rack)
    broadcaster = broadcaster_of(facts)

    facts.put_topology("cluster", read(without_rack))
    broadcaster.tick()
    assert shown_levels(broadcaster) == ["host"]

    facts.put_topology("cluster", read(with_rack))
    broadcaster.tick()
    assert shown_levels(broadcaster) == ["rack", "host"]
    shown = fetched(broadcaster)
    assert [change["text"] for change in shown["changes"]] == [
        f"cluster: level rack: none -> {RACK}",
        f"cluster: level rack: {RACK} -> none",
    ]


def test_only_what_a_page_could_show_makes_a_new_state(facts: Facts, broadcaster: Broadcaster) -> None:
    nodes = rack_nodes()
    held = pod_of(pod("p", "n1", 3))
    assert held
    without_gpus = pod_of(pod("p", "n1", 0))
    without_node = pod_of(pod("p", None, 3))
    running = msgspec.structs.replace(held, phase="Running")
    by_name = {node.name: (node, "") for node in nodes}
    same_catalogue = replace(facts.catalogue)
    other_catalogue = replace(facts.catalogue, placeholders=frozenset({"r0"}))
    changes: tuple[tuple[bool, Callable[[], None]], ...] = (
        (False, lambda: facts.put_node(nodes[0], "")),
        (False, lambda: facts.replace_nodes(by_name)),
        (False, lambda: facts.put_pod("train/none", None)),
        (False, lambda: facts.put_pod("train/p", without_gpus)),
        (False, lambda: facts.put_pod("train/p", without_node)),
        (True, lambda: facts.put_pod("train/p", held)),
        (False, lambda: facts.put_pod("train/p", running)),
        (True, lambda: facts.put_pod("train/p", None)),
        (True, lambda: facts.replace_pods({"train/p": held})),
        (True, lambda: facts.replace_pods(None)),
        (False, lambda: facts.put_catalogue(same_catalogue)),
        (True, lambda: facts.put_catalogue(other_catalogue)),
        (True, lambda: facts.mark_failing("all", "gone")),
        (False, lambda: facts.mark_failing("all", "gone")),
        (True, lambda: facts.warn("all", "pods may not be read")),
    )
    for shown, change in changes:
        before = broadcaster.state
        change()
        broadcaster.tick()
        assert (broadcaster.state is not before) == shown
    found = fetched(broadcaster)
    rows = decoded(found)
    assert len(rows) == 4
    for row in rows.values():
        assert row["free"] is None
    assert found["placeholders"] == ["r0"]
    assert found["status"]["warnings"] == ["pods may not be read"]


def _cpu_pod(name: str, node: str, cores: int) -> PodView:
    """A running pod without GPUs."""
    requests = {"resources": {"requests": {"cpu": str(cores)}}}
    running = pod(name, node, 0)
    running["spec"]["containers"] = [{"name": "c", **requests}]
    made = pod_of(running)
    assert made
    return made


@pytest.mark.regression
def test_free_gpus_whose_cpu_another_pod_holds_are_out_of_reach(facts: Facts, broadcaster: Broadcaster) -> None:
    facts.put_pod("train/cpu", _cpu_pod("cpu", "n1", 97))
    broadcaster.tick()
    found = fetched(broadcaster)
    rows = decoded(found)
    assert rows["n1"]["free"] == 8
    assert rows["n1"]["blocked"] == {"gpus": 8, "why": "too little CPU is left"}
    assert rows["n0"]["blocked"] is None
    assert found["pod"] == "1 GPU and 6.25 CPU cores"


def test_stale_says_since_when_and_why() -> None:
    clock = ManualRuntime()
    facts = facts_of(rack_nodes(), clock=clock)
    broadcaster = broadcaster_of(facts)
    assert broadcaster.status().stale is None
    assert broadcaster.status().as_of == "2026-01-02T03:04:05Z"
    clock.seconds = 50
    facts.mark_alive("all")
    clock.seconds = 60
    facts.mark_failing("all", "https://cluster.test does not answer")
    clock.seconds = 95
    status = broadcaster.news().status
    assert status.stale is not None
    assert status.stale.seconds == 45
    assert status.stale.why == ["all: https://cluster.test does not answer"]
    assert status.as_of == "2026-01-02T03:03:20Z"
    facts.mark_synced("all")
    assert broadcaster.news().status.stale is None


def test_snapshot_is_built_once_before_pages_are_told(
    facts: Facts, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = broadcaster.packed()

    def heard() -> None:
        monkeypatch.setattr(broadcaster, "snapshot", lambda _state: pytest.fail("made again"))

    heard()
    assert broadcaster.packed() == first
    monkeypatch.undo()
    broadcaster.listeners.add(heard)
    _put(facts, "n1", state="degraded")
    broadcaster.tick()
    assert broadcaster.packed()[0] == broadcaster.news().id != first[0]
    broadcaster.listeners.clear()
    _put(facts, "n1")
    broadcaster.tick()  # nobody listens: it is built when somebody asks
    with pytest.raises(pytest.fail.Exception, match="made again"):
        broadcaster.packed()


class Pauses:
    """Stops after so many pauses, and keeps how long they are."""

    def __init__(self, most: int) -> None:
        self.taken: list[float] = []
        self._most = most

    def is_set(self) -> bool:
        return len(self.taken) == self._most

    def wait(self, timeout: float) -> bool:
        self.taken.append(timeout)
        return self.is_set()


def test_pause_is_twice_the_work_and_errors_end_nothing(facts: Facts, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualRuntime()
    pauses = Pauses(3)
    work = iter([0.1, 3.0, 0.0])
    broadcaster = Broadcaster(facts, "cluster", "e1", clock)
    wake = threading.Event()
    wake.set()

    def listener() -> None:
        wake.set()
        clock.seconds += next(work)
        number = len(pauses.taken)
        _put(facts, "n1", state=f"{number}")
        if clock.seconds > 3:
            raise ValueError("broken")

    broadcaster.listeners.add(listener)
    broadcaster.run(pauses, wake)
    assert pauses.taken == [MIN_PAUSE_SECONDS, 6.0, MIN_PAUSE_SECONDS]
    assert caplog.messages == ["cannot publish a change; the next change triggers another attempt"] * 2
