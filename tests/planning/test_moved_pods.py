"""Pods that a drain moves do not go beside pods that they must not meet without a word about it."""

import pytest
from msgspec import structs
from tests.planning.clusters import HOST, RACKS, capacity, cluster, pod
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.pod_rules import HostPort, PodTerm, Rule
from toposcope.planning.rehoming import Rehomed
from toposcope.planning.whatif import Changes, whatif
from toposcope.snapshot.model import PodView

pytestmark = pytest.mark.regression


def drained(*running: PodView) -> Rehomed:
    """What becomes of the gang on n0 where only n0 and n1 are left."""
    snapshot = cluster(RACKS[:2], running)
    table, gangs = capacity(snapshot)
    (rehomed,) = whatif(snapshot, None, table, gangs, Changes(drain=frozenset(["n0"]))).rehomed
    return rehomed


def test_pod_finds_another_node_without_rules() -> None:
    rehomed = drained(pod("g", 0, "n0", 4), pod("other", 0, "n1", 1))
    assert (rehomed.broken, rehomed.worse) == ((), False)


def test_pod_with_a_port_that_is_taken_there_may_wait() -> None:
    port = HostPort(8080)
    moving = structs.replace(pod("g", 0, "n0", 4), ports=(port,))
    there = structs.replace(pod("other", 0, "n1", 1), ports=(port,))
    rehomed = drained(moving, there)
    assert rehomed.broken == (Rule.PORTS,)
    assert rehomed.worse
    assert rehomed.sentence == (
        "ml/g (Job, 4 GPUs, 1 of 1 pod): may wait: there is room, but hostPort keeps pods from it"
    )


def test_pod_that_a_running_pod_keeps_away_may_wait() -> None:
    about_g = (Expression("app", "In", ("g",)),)
    term = PodTerm(HOST, about_g, frozenset(["ml"]))
    moving = structs.replace(pod("g", 0, "n0", 4), selectable=("app", "g"))
    there = structs.replace(pod("other", 0, "n1", 1), repels=(term,))
    assert drained(moving, there).broken == (Rule.OTHERS,)
