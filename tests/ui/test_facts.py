"""Facts, and who hears of them."""

from collections.abc import Callable

from tests.snapshot.clusters import names, pod_of, snapshot, view
from tests.support.saved import cluster_topology, pod
from tests.ui.serving import ManualRuntime
from toposcope.api.cluster_topology import read
from toposcope.ui.facts import Facts, StaleFact


def _facts(clock: ManualRuntime | None = None) -> tuple[Facts, list[int]]:
    calls: list[int] = []

    def changed() -> None:
        calls.append(1)

    facts = Facts("a test", ("nodes", "pods"), changed, clock or ManualRuntime())
    return facts, calls


def test_follower_hears_of_every_change_and_nothing_else() -> None:
    """Each change is made twice, with equal objects that are not the same ones."""
    facts, calls = _facts()
    held = pod_of(pod("x", "a", 1))
    puts: tuple[Callable[[], None], ...] = (
        lambda: facts.put_node(view("a"), ""),
        lambda: facts.put_node(view("a", state="degraded"), ""),
        lambda: facts.replace_nodes({"a": (view("a"), ""), "b": (view("b"), "")}),
        lambda: facts.put_pod("x", held),
        lambda: facts.put_pod("x", pod_of(pod("x", None, 0))),  # a page shows no such pod, `explain --watch` does
        lambda: facts.replace_pods({"x": held, "y": None}),
        lambda: facts.delete_node("a"),
        lambda: facts.put_topology("cluster", read(cluster_topology())),
        lambda: facts.put_topology("cluster", None),
    )
    for put in puts:
        calls.clear()
        put()
        put()
        assert calls == [1]
    found = facts.snapshot()
    assert names(found.nodes) == ["b"]


def test_complete_once_everything_was_read() -> None:
    facts, _ = _facts()
    facts.mark_alive("nodes")
    facts.mark_synced("nodes")
    assert not facts.is_complete
    facts.mark_failing("pods", "no answer")
    assert not facts.is_complete
    facts.mark_synced("pods")
    assert facts.is_complete


def test_stale_counts_from_the_last_sign_of_life() -> None:
    clock = ManualRuntime()
    facts, _ = _facts(clock)
    facts.mark_synced("nodes")
    facts.mark_synced("pods")
    clock.seconds = 10
    facts.mark_alive("pods")
    clock.seconds = 30
    facts.mark_failing("pods", "gone")
    facts.mark_alive("pods")  # from a stream that broke
    facts.mark_failing("nodes", "gone too")
    clock.seconds = 31
    assert facts.stale() == StaleFact(31, {"pods": "gone", "nodes": "gone too"})
    facts.mark_synced("nodes")
    assert facts.stale() == StaleFact(21, {"pods": "gone"})
    facts.mark_synced("pods")
    assert facts.stale() is None


def test_snapshot_has_what_the_other_commands_need() -> None:
    facts, _ = _facts()
    nodes = {"b": (view("b"), ""), "a": (view("a"), "")}
    facts.replace_nodes(nodes)
    (topology,) = snapshot(()).topologies
    facts.replace_topologies({topology.name: topology})
    facts.warn("pods", "pods may not be listed")
    facts.replace_pods(None)
    found = facts.snapshot()
    assert names(found.nodes) == ["a", "b"]
    assert found.pods is None
    assert found.warnings == ("pods may not be listed",)
    assert [topology.name for topology in found.topologies] == ["cluster"]
