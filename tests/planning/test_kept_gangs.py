"""Whether gangs share the domains that annotations of their pods require."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from tests.planning.clusters import BLOCK, RACK, RACKS, cluster, node, node_without_levels, pods
from toposcope.api.cluster_topology import read
from toposcope.integrations.kai.api import REQUIRED as KAI
from toposcope.integrations.kueue.api import POD_SET_OF
from toposcope.integrations.kueue.api import REQUIRED as KUEUE
from toposcope.integrations.lws.api import EXCLUSIVE as LWS
from toposcope.planning.gangs import gangs_of
from toposcope.planning.kept import KeptResult
from toposcope.planning.kept_gangs import KeptGang, kept_gangs
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import select_scope

SYSTEMS = [
    pytest.param(KAI, id="kai"),
    pytest.param(KUEUE, id="kueue"),
    pytest.param(LWS, id="leader-worker-set"),
]


def requiring(running: Sequence[PodView], annotation: str, level: str, **labels: str) -> list[PodView]:
    """The pods with an annotation that requires a level."""
    annotated = []
    for pod in running:
        changed = msgspec.structs.replace(pod, annotations={annotation: level}, labels={**pod.labels, **labels})
        annotated.append(changed)
    return annotated


def kept(snapshot: Snapshot) -> list[KeptGang]:
    gangs = gangs_of(snapshot)
    return list(kept_gangs(snapshot, select_scope(snapshot).levels, gangs))


def results(nodes: Sequence[NodeView], running: Sequence[PodView]) -> list[str]:
    return [gang.result.value for gang in kept(cluster(nodes, running))]


@pytest.mark.parametrize("annotation", SYSTEMS)
def test_gang_in_its_rack_is_a_match(annotation: str) -> None:
    running = requiring(pods("train", "n0", "n1"), annotation, RACK)
    assert results(RACKS, running) == ["MATCH"]


@pytest.mark.parametrize("annotation", SYSTEMS)
def test_gang_whose_node_changes_its_rack_is_a_violation(annotation: str) -> None:
    running = requiring(pods("train", "n0", "n1"), annotation, RACK)
    relabelled = [RACKS[0], node("n1", "b0", "r9"), *RACKS[2:]]
    assert results(relabelled, running) == ["VIOLATION"]


@pytest.mark.parametrize("annotation", SYSTEMS)
def test_gang_whose_node_loses_its_labels_is_unobservable(annotation: str) -> None:
    running = requiring(pods("train", "n0", "n1"), annotation, RACK)
    unlabelled = [RACKS[0], node_without_levels("n1"), *RACKS[2:]]
    assert results(unlabelled, running) == ["UNOBSERVABLE"]


def test_gang_on_a_node_that_is_gone_is_unobservable() -> None:
    running = requiring(pods("train", "n0", "n1"), KAI, RACK)
    assert results([RACKS[0], *RACKS[2:]], running) == ["UNOBSERVABLE"]


def test_same_rack_name_in_two_blocks_is_a_violation() -> None:
    running = requiring(pods("train", "n0", "n1"), KAI, RACK)
    nodes = [node("n0", "b0", "r0"), node("n1", "b1", "r0")]
    assert results(nodes, running) == ["VIOLATION"]


def test_gang_that_is_partly_scheduled_is_unobservable() -> None:
    running = requiring(pods("train", "n0", "n1", ""), KAI, RACK)
    (gang,) = kept(cluster(RACKS, running))
    (part,) = gang.parts
    assert part.placement.result is KeptResult.UNOBSERVABLE
    assert (part.placement.placed, part.placement.expected) == (2, 3)


def test_level_of_no_topology_is_unobservable() -> None:
    running = requiring(pods("train", "n0", "n1"), KAI, "example.com/row")
    (gang,) = kept(cluster(RACKS, running))
    assert gang.result is KeptResult.UNOBSERVABLE
    assert not gang.parts[0].is_level_known


def test_kueue_pod_sets_are_each_kept_together() -> None:
    leader, *workers = pods("train", "n0", "n2", "n3")
    running = [
        *requiring([leader], KUEUE, RACK, **{POD_SET_OF: "leader"}),
        *requiring(workers, KUEUE, RACK, **{POD_SET_OF: "worker"}),
    ]
    (gang,) = kept(cluster(RACKS, running))
    assert [(part.name, part.placement.result.value) for part in gang.parts] == [
        ("leader", "MATCH"),
        ("worker", "MATCH"),
    ]


def test_gang_that_requires_nothing_is_left_out() -> None:
    assert kept(cluster(RACKS, pods("train", "n0", "n4"))) == []


def bound_to(running: Sequence[PodView], path: str) -> list[PodView]:
    """The pods with the path that they had when they were bound."""
    bound = []
    for pod in running:
        annotations = {**pod.annotations, "gpu.topology/path": path}
        bound.append(msgspec.structs.replace(pod, annotations=annotations))
    return bound


def test_pod_without_a_path_says_nothing_of_labels_that_changed() -> None:
    running = requiring(pods("train", "n0", "n1"), KAI, RACK)
    (gang,) = kept(cluster([RACKS[0], node("n1", "b0", "r9"), *RACKS[2:]], running))
    assert gang.parts[0].placement.changed == ()


def test_label_that_is_gone_since_binding_is_said() -> None:
    running = bound_to(requiring(pods("train", "n0", "n1"), KAI, RACK), "block=b0,rack=r0,host=n0")
    nodes = [RACKS[0], node_without_levels("n1"), *RACKS[2:]]
    (gang,) = kept(cluster(nodes, running))
    placement = gang.parts[0].placement

    assert placement.result is KeptResult.UNOBSERVABLE
    assert [(label.key, label.value_then, label.value_now) for label in placement.changed] == [
        (BLOCK, "b0", ""),
        (RACK, "r0", ""),
    ]


def test_path_says_nothing_where_topologies_differ_about_the_key() -> None:
    """It is the path of the oldest ClusterTopology, whose racks may be those of another label."""
    running = bound_to(requiring(pods("train", "n0", "n1"), KAI, RACK), "rack=other")
    snapshot = cluster(RACKS, running)
    levels = [{"domain": "rack", "key": "example.com/cage"}]
    other = read({"metadata": {"name": "other", "uid": "2"}, "spec": {"levels": levels}})
    (gang,) = kept(replace(snapshot, topologies=(*snapshot.topologies, other)))
    assert gang.parts[0].placement.changed == ()
