"""Planning counts the nodes whose taints a pod with GPUs of the cluster tolerates, and names the others."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.planning.clusters import RACKS, cluster, node, pods
from toposcope.integrations.framework.node_affinity import Taint, Toleration
from toposcope.planning.capacity import FreeBasis
from toposcope.planning.plan import Plan
from toposcope.planning.rehoming import RehomingOutcome
from toposcope.planning.whatif import Changes, whatif
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import select_scope

pytestmark = pytest.mark.regression
OWN = Taint("team", "vision", "NoSchedule")
OF_AKS = Taint("sku", "gpu", "NoSchedule")
TOLERATION = {"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}


def tainted(nodes: Sequence[NodeView], taint: Taint) -> list[NodeView]:
    return [msgspec.structs.replace(view, taints=(taint,)) for view in nodes]


def tolerant(running: Sequence[PodView]) -> list[PodView]:
    wants = {"tolerations": [TOLERATION]}
    return [msgspec.structs.replace(pod, wants=wants) for pod in running]


def plan_of(snapshot: Snapshot, *tolerations: Toleration) -> Plan:
    return Plan(snapshot, select_scope(snapshot), tolerations=tolerations)


def slots_when_empty(plan: Plan) -> dict[tuple[int, str], int]:
    return {(row.gpus, row.level.domain): row.fitting[FreeBasis.EMPTY] for row in plan.slots}


def test_fence_of_aks_around_all_gpus_keeps_no_gang_out() -> None:
    plan = plan_of(cluster(tainted(RACKS, OF_AKS)))
    assert slots_when_empty(plan)[16, "rack"] == 4
    assert plan.repelling == ()


def test_taint_that_most_gpu_pods_tolerate_keeps_no_gang_out() -> None:
    running = [*tolerant(pods("a", "n0", "n1")), *pods("b", "n2")]
    plan = plan_of(cluster(tainted(RACKS, OWN), running))
    assert slots_when_empty(plan)[16, "rack"] == 4
    assert plan.repelling == ()


def test_taint_that_few_gpu_pods_tolerate_is_named_with_its_flag() -> None:
    running = [*tolerant(pods("a", "n0")), *pods("b", "n4", "n5")]
    nodes = [*tainted(RACKS[:4], OWN), *RACKS[4:]]
    plan = plan_of(cluster(nodes, running))
    assert slots_when_empty(plan)[16, "rack"] == 2
    (repelling,) = plan.repelling
    assert repelling.sentence == (
        "not counted: 32 GPUs on 4 nodes (n0, n1, n2, ...) that have the taint team=vision:NoSchedule, "
        "except for gangs that tolerate it"
    )
    assert repelling.flag == "--tolerate team=vision"


def test_taint_that_the_user_tolerates_keeps_no_gang_out() -> None:
    plan = plan_of(cluster(tainted(RACKS, OWN)), Toleration("team", "Exists"))
    assert slots_when_empty(plan)[16, "rack"] == 4
    assert plan.repelling == ()


def test_gang_without_its_toleration_is_scored_where_the_user_tolerates() -> None:
    snapshot = cluster(tainted(RACKS, OWN), pods("apart", "n0", "n2"))
    (blind,) = plan_of(snapshot).scores
    assert blind.spreads[1].empty == 2
    (score,) = plan_of(snapshot, Toleration("team", "Exists")).scores
    assert score.spreads[1].empty == 1


@pytest.mark.parametrize(
    ("taint", "toleration"),
    [
        pytest.param(OF_AKS, (), id="fence"),
        pytest.param(OWN, (Toleration("team", "Exists"),), id="tolerated"),
    ],
)
def test_drained_gang_finds_tainted_nodes(taint: Taint, toleration: tuple[Toleration, ...]) -> None:
    snapshot = cluster(tainted([node("n0"), node("n1")], taint), pods("job", "n0"))
    plan = plan_of(snapshot, *toleration)
    result = whatif(snapshot, None, plan.capacity, plan.gangs, Changes(drain=frozenset({"n0"})))
    (rehomed,) = result.rehomed
    assert rehomed.outcome is RehomingOutcome.MOVES
