"""Facts updated change by change equal those of a full read."""

import random

from tests.snapshot.clusters import pod_of, snapshot, view
from tests.support.saved import pod
from tests.ui.serving import Ticks
from toposcope.snapshot.model import PodView
from toposcope.ui.facts import Facts


def _facts(clock: Ticks | None = None) -> tuple[Facts, list[int]]:
    calls: list[int] = []
    return Facts("a test", ("nodes", "pods"), lambda: calls.append(1), clock or Ticks()), calls


def _pod(name: str, node: str | None, gpus: int) -> PodView:
    found = pod_of(pod(name, node, gpus))
    assert found
    return found


def test_free_gpus_equal_those_of_a_snapshot() -> None:
    rng = random.Random(3)
    facts, _ = _facts()
    names = [f"n{i}" for i in range(5)]
    for name in names:
        facts.put_node(view(name, cordoned=name == "n4"), "")
    for _ in range(400):
        key = f"train/p{rng.randrange(30)}"
        here = rng.choice([*names, "not-there", None])
        facts.put_pod(key, _pod(key[6:], here, rng.randrange(1, 5)) if rng.random() < 0.6 else None)
        if rng.random() < 0.02:
            facts.replace_pods({key: _pod(key[6:], here, 2), "train/none": None})
    whole = facts.snapshot()
    assert whole.pods
    for node in whole.nodes:
        assert facts.free_gpus(node) == whole.free_gpus(node)
        assert sorted(pod_view.name for pod_view in facts.pods_on(node.name)) == sorted(
            pod_view.name for pod_view in whole.pods if pod_view.node == node.name
        )


def test_changes_are_taken_once_with_what_was_before() -> None:
    facts, calls = _facts()
    first, second = view("a"), view("a", state="degraded")
    facts.put_node(first, "")
    assert dict(facts.take_changes().before) == {"a": None}
    assert not facts.take_changes()
    facts.put_node(second, "")
    facts.put_node(view("a", ready=False), "")
    facts.put_pod("x", _pod("x", "b", 1))
    facts.put_pod("y", _pod("y", None, 1))
    changes = facts.take_changes()
    assert dict(changes.before) == {"a": first}
    assert not changes.nodes["a"].ready
    assert changes.pods == {"b"}
    count = len(calls)
    facts.put_node(view("a", ready=False), "")
    facts.delete_node("never there")
    facts.put_pod("x", _pod("x", "b", 1))
    assert len(calls) == count
    assert not facts.take_changes()


def test_a_relist_reports_only_differences() -> None:
    facts, _ = _facts()
    facts.replace_nodes({name: (view(name), "") for name in ("a", "b", "c")})
    facts.take_changes()
    facts.replace_nodes({"a": (view("a"), ""), "b": (view("b", state="degraded"), ""), "d": (view("d"), "")})
    assert facts.take_changes().before == {"b": view("b"), "c": view("c"), "d": None}
    assert [node.name for node in facts.nodes()] == ["a", "b", "d"]


def test_complete_once_everything_was_read() -> None:
    facts, _ = _facts()
    facts.mark_alive("nodes")
    facts.mark_synced("nodes")
    assert not facts.complete
    facts.mark_failing("pods", "no answer")
    assert not facts.complete
    facts.mark_synced("pods")
    assert facts.complete


def test_stale_counts_from_the_last_sign_of_life() -> None:
    clock = Ticks()
    facts, _ = _facts(clock)
    facts.mark_synced("nodes")
    facts.mark_synced("pods")
    clock.now = 10
    facts.mark_alive("pods")
    clock.now = 30
    facts.mark_failing("pods", "gone")
    facts.mark_alive("pods")  # from a stream that broke
    facts.mark_failing("nodes", "gone too")
    clock.now = 31
    assert facts.stale() == (31, ["pods: gone", "nodes: gone too"])
    facts.mark_synced("nodes")
    assert facts.stale() == (21, ["pods: gone"])
    facts.mark_synced("pods")
    assert facts.stale() is None


def test_a_snapshot_has_what_the_other_commands_need() -> None:
    facts, _ = _facts()
    facts.replace_nodes({"b": (view("b"), ""), "a": (view("a"), "")})
    facts.replace_topologies({topology.name: topology for topology in snapshot(()).topologies})
    facts.warn("pods", "pods may not be listed")
    facts.replace_pods(None)
    found = facts.snapshot()
    assert [node.name for node in found.nodes] == ["a", "b"]
    assert (found.pods, found.warnings) == (None, ("pods may not be listed",))
    assert [topology.name for topology in found.topologies] == ["cluster"]
