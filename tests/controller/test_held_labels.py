"""Labels that their writer removes when it stops: nothing flaps while they are away for less than the grace period."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.cluster import History, fabric, gpu_node
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.controller.held_labels import HeldLabels
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table

CLIQUE = "nvidia.com/gpu.clique"
GRACE = 600.0
LEVELS = "zone > block > rack > nvlink-domain > host"


def tray(number: int, domain: int | None = None, *, clique: bool = True) -> NodeFacts:
    """A tray of a rack of four that the DRA driver has labelled, and no agent; without it the label is gone."""
    rack = number // 4
    value = fabric(rack + 1 if domain is None else domain)
    labels = {
        "rack": f"r{rack}",
        NVLINK_DOMAIN: None,
        CLIQUE: value if clique else None,
    }
    return gpu_node(f"t{number}", labels)


def trays(*away: int, count: int = 8) -> list[NodeFacts]:
    """Two racks; `away` are the trays whose driver has stopped."""
    nodes = []
    for number in range(count):
        nodes.append(tray(number, clique=number not in away))
    return nodes


EVERY = tuple(range(8))


class Watched(History):
    """Looks and notes everything in a status that may flap."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(**spec)
        self.statuses: list[dict[str, Any]] = []

    def see(self, nodes: Sequence[NodeFacts], after: float = 1.0) -> None:
        self.look(nodes, after)
        self.statuses.append(self.status)

    def flapped(self) -> list[str]:
        """The fields that were not the same in every look."""
        first = self.statuses[0]
        flapped = set()
        for status in self.statuses:
            for name in first:
                if status.get(name) != first[name]:
                    flapped.add(name)
        return sorted(flapped)


def covered(history: History) -> str:
    """The status of LevelsCovered."""
    status: str = history.condition("LevelsCovered")["status"]
    return status


def available(history: History) -> str:
    """The status of TopologyLevelsAvailable."""
    status: str = history.condition("TopologyLevelsAvailable")["status"]
    return status


NODE_BY_NODE = [(number,) for number in range(8)]
MORE_AND_MORE_AND_BACK = [
    (0,),
    (0, 1),
    (0, 1, 2),
    EVERY,
    (4, 5, 6, 7),
]


@pytest.mark.regression
@pytest.mark.parametrize(
    "waves",
    [
        pytest.param([(0,)], id="one-node"),
        pytest.param(NODE_BY_NODE, id="node-by-node"),
        pytest.param([(0, 1, 2, 3)], id="one-domain"),
        pytest.param([EVERY], id="all-at-once"),
        pytest.param([EVERY, (), EVERY, ()], id="all-twice"),
        pytest.param(MORE_AND_MORE_AND_BACK, id="more-and-more-and-back"),
    ],
)
def test_nothing_flaps_while_the_driver_restarts(waves: list[tuple[int, ...]]) -> None:
    history = Watched(required=["nvlink-domain"])
    history.see(trays())
    for away in waves:
        history.see(trays(*away), 60)
    history.see(trays(), 60)
    assert history.flapped() == []
    assert history.status["levelPath"] == LEVELS
    assert history.events == []


def test_default_grace_period_outlasts_the_next_look_of_the_driver() -> None:
    history = Watched(required=["nvlink-domain"])
    history.see(trays())
    history.see(trays(*EVERY), 1)
    history.see(trays(*EVERY), GRACE)
    history.see(trays(), 1)
    assert history.flapped() == []


def test_label_when_away_from_some_nodes_then_is_missing_in_time() -> None:
    history = Watched()
    history.see(trays())
    history.see(trays(0, 1), 1)
    history.see(trays(0, 1), GRACE)
    assert covered(history) == "True"
    history.see(trays(0, 1), 1)
    assert history.verdict("LevelsCovered") == ("False", "NodesMissingLevels")
    message = history.message("LevelsCovered")
    assert f"2 of 8 nodes lack level 'nvlink-domain' ({CLIQUE}): t0, t1" in message
    history.see(trays(), 1)
    assert covered(history) == "True"


def test_required_level_when_away_then_is_unavailable_in_one_period() -> None:
    history = Watched(required=["nvlink-domain"])
    history.see(trays())
    history.see(trays(*EVERY), 1)
    history.see(trays(*EVERY), GRACE)
    assert available(history) == "True"
    history.see(trays(*EVERY), 1)
    assert available(history) == "False"
    assert history.status["levelPath"] == "zone > block > rack > host"


def test_each_absence_has_a_grace_period_of_its_own() -> None:
    history = Watched()
    history.see(trays())
    history.see(trays(0), 1)
    history.see(trays(0, 1), 500)
    history.see(trays(0, 1), 101)
    message = history.message("LevelsCovered")
    assert f"1 of 8 nodes lacks level 'nvlink-domain' ({CLIQUE}): t0" in message


def test_a_node_that_never_had_the_label_is_missing_at_once() -> None:
    history = Watched()
    history.see(trays())
    history.see([*trays(), tray(8, clique=False)])
    assert covered(history) == "False"


def test_a_label_of_another_writer_is_missing_at_once() -> None:
    history = Watched()
    nodes = []
    for i in range(4):
        nodes.append(gpu_node(f"n{i}"))
    history.see(nodes)
    without_rack = gpu_node("n0", {"rack": None})
    history.see([*nodes[1:], without_rack])
    assert covered(history) == "False"


def test_a_new_value_after_the_restart_counts_at_once() -> None:
    history = Watched()
    history.see(trays())
    history.see(trays(0, 1, 2, 3))
    moved = [tray(number, 9) for number in range(4)]
    found = history.look([*moved, *trays()[4:]], 1)
    values = {node.label(CLIQUE) for node in found.selected}
    assert values == {fabric(9), fabric(2)}


def test_without_a_grace_period_nothing_is_held() -> None:
    history = Watched(gracePeriod="0s")
    history.see(trays())
    history.see(trays(0))
    assert covered(history) == "False"


def test_nodes_that_are_selected_by_the_label_stay_selected() -> None:
    """As those of a segment are."""
    has_clique = {"key": CLIQUE, "operator": "Exists"}
    selector = {"matchExpressions": [has_clique]}
    history = Watched(nodeSelector=selector, required=["nvlink-domain"])
    history.see(trays())
    for _ in range(3):
        history.see(trays(*EVERY), 100)
        history.see(trays(0, 5), 100)
    assert history.flapped() == []
    history.see(trays(*EVERY), 1)
    history.see(trays(*EVERY), GRACE + 1)
    assert history.status["nodes"] == 0


def test_segments_keep_their_nodes() -> None:
    others = []
    for i in range(8):
        others.append(gpu_node(f"h{i}", {"rack": None, NVLINK_DOMAIN: None}))
    history = Watched(segments="Auto")
    all_there = [*trays(), *others]
    history.see(all_there)
    history.see(all_there, GRACE + 1)
    before = history.segments
    assert len(before) == 2
    history.see([*trays(0, 1, 2), *others], 1)
    history.see([*trays(*EVERY), *others], 300)
    assert history.segments == before
    history.see(all_there, 1)
    assert history.segments == before


def test_listed_levels_do_not_flap_either() -> None:
    levels = [
        {"domain": "nvlink-domain", "key": CLIQUE},
        {"domain": "host", "key": "kubernetes.io/hostname"},
    ]
    history = Watched(levels=levels, required=["nvlink-domain"])
    history.see(trays())
    history.see(trays(*EVERY), 300)
    history.see(trays(1), 300)
    assert history.flapped() == []


def test_a_restarted_controller_keeps_levels_and_verdict() -> None:
    history = Watched(required=["nvlink-domain"])
    history.see(trays())
    history.restart()
    history.see(trays(*EVERY), 60)
    assert history.status["levelPath"] == LEVELS
    assert available(history) == "True"


def held(
    labels: HeldLabels,
    nodes: Sequence[NodeFacts],
    now: float,
    grace: float = GRACE,
) -> Mapping[str, str | None]:
    """The label of each node after a look."""
    table = Table(nodes)
    labels.observe(table, now)
    return {node.name: node.label(CLIQUE) for node in labels.table(table, grace)}


def test_a_node_that_is_deleted_is_forgotten() -> None:
    labels = HeldLabels()
    both = [tray(0), tray(1)]
    held(labels, both, 0.0)
    held(labels, [tray(1)], 1.0)
    without_label = tray(0, clique=False)
    after = held(labels, [without_label, tray(1)], 2.0)
    assert after == {"t0": None, "t1": fabric(1)}


def test_where_nothing_is_away_the_table_is_the_one_that_was_given() -> None:
    labels = HeldLabels()
    table = Table(trays())
    labels.observe(table, 0.0)
    assert labels.table(table, GRACE) is table
    assert labels.next_deadline([GRACE], 0.0) is None


def test_the_controller_looks_again_when_a_hold_ends() -> None:
    labels = HeldLabels()
    held(labels, trays(), 0.0)
    held(labels, trays(0), 10.0)
    held(labels, trays(0, 1), 20.0)
    assert labels.next_deadline([GRACE], 30.0) == 580.0
    assert labels.next_deadline([60.0, GRACE], 30.0) == 40.0
    assert labels.next_deadline([GRACE], 615.0) == 5.0
    assert labels.next_deadline([GRACE], 630.0) is None


def test_nodes_that_were_alike_stay_alike() -> None:
    labels = HeldLabels()
    machine = {
        "rack": "r",
        NVLINK_DOMAIN: None,
        CLIQUE: fabric(1),
    }
    bare = {**machine, CLIQUE: None}
    labelled = []
    unlabelled = []
    for i in range(50):
        labelled.append(gpu_node(f"n{i}", machine))
        unlabelled.append(gpu_node(f"n{i}", bare))
    held(labels, labelled, 0.0)
    table = Table(unlabelled)
    labels.observe(table, 1.0)
    kept = labels.table(table, GRACE)
    assert len(kept.groups) == 1
