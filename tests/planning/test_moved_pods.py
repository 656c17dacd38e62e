"""Pods that a drain moves go where the rules between pods let them, or it is said that they may not."""

import pytest
from msgspec import structs
from tests.planning.clusters import HOST, RACKS, capacity, cluster, pod
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.pod_rules import HostPort, PodTerm, Rule
from toposcope.planning.rehoming import Rehomed, RehomingOutcome
from toposcope.planning.whatif import Changes, whatif
from toposcope.snapshot.model import PodView

pytestmark = pytest.mark.regression


def drained(*running: PodView, nodes: int = 2, also: str = "n0") -> Rehomed:
    """What becomes of the gangs on n0 and on another drained node, in a cluster of that many nodes."""
    snapshot = cluster(RACKS[:nodes], running)
    table, gangs = capacity(snapshot)
    (rehomed,) = whatif(snapshot, None, table, gangs, Changes(drain=frozenset(["n0", also]))).rehomed
    return rehomed


def test_pod_finds_another_node_without_rules() -> None:
    rehomed = drained(pod("g", 0, "n0", 4), pod("other", 0, "n1", 1))
    assert (rehomed.broken, rehomed.is_worse) == ((), False)


def with_port(view: PodView) -> PodView:
    """The pod with host port 8080."""
    return structs.replace(view, ports=(HostPort(8080),))


def moved_to(rehomed: Rehomed) -> list[str]:
    """The nodes of the pods that move."""
    return [view.node for view in rehomed.placed]


def test_pod_waits_where_its_port_is_taken_on_all_nodes() -> None:
    rehomed = drained(with_port(pod("g", 0, "n0", 4)), with_port(pod("other", 0, "n1", 1)))
    assert (rehomed.outcome, rehomed.broken) == (RehomingOutcome.WAITS, (Rule.PORTS,))
    assert rehomed.is_worse
    assert rehomed.sentence == (
        "ml/g (Job, 4 GPUs, 1 of 1 pod): waits, as hostPort keeps pods from the nodes that have room"
    )


def test_pod_that_a_running_pod_keeps_away_waits() -> None:
    about_g = (Expression("app", "In", ("g",)),)
    term = PodTerm(HOST, about_g, frozenset(["ml"]))
    moving = structs.replace(pod("g", 0, "n0", 4), selectable=("app", "g"))
    there = structs.replace(pod("other", 0, "n1", 1), repels=(term,))
    rehomed = drained(moving, there)
    assert (rehomed.outcome, rehomed.broken) == (RehomingOutcome.WAITS, (Rule.OTHERS,))


def test_pod_goes_to_the_node_where_its_port_is_free() -> None:
    """n1 is the fullest node that has room for it."""
    running = with_port(pod("g", 0, "n0", 4)), with_port(pod("other", 0, "n1", 1))
    rehomed = drained(*running, nodes=3)
    assert (rehomed.outcome, moved_to(rehomed)) == (RehomingOutcome.MOVES, ["n2"])


def test_pods_of_one_gang_go_to_nodes_of_their_own() -> None:
    """Both would fit onto n1."""
    running = [with_port(pod("g", 0, "n0", 4)), with_port(pod("g", 1, "n3", 4))]
    rehomed = drained(*running, nodes=4, also="n3")
    assert (rehomed.outcome, sorted(moved_to(rehomed))) == (RehomingOutcome.STAYS, ["n1", "n2"])


def test_gang_with_room_that_no_order_tried_gets_is_unclear() -> None:
    running = [with_port(pod("g", 0, "n0", 4)), with_port(pod("g", 1, "n2", 4))]
    rehomed = drained(*running, nodes=3, also="n2")
    assert (rehomed.outcome, rehomed.broken) == (RehomingOutcome.UNCLEAR, (Rule.PORTS,))
    assert rehomed.is_worse
    assert rehomed.sentence == (
        "ml/g (Job, 8 GPUs, 2 of 2 pods): unclear: there is room, "
        "but hostPort keeps pods from the nodes that were tried"
    )
