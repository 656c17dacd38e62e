"""Kueue's order: what it assigns first stays where it is, even where that leaves no room for what follows."""

from collections.abc import Sequence

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import ANY_NODE
from toposcope.integrations.kueue.assignment import OrderedPods
from toposcope.integrations.kueue.queues import Flavor, Queue, ResourceGroup
from toposcope.integrations.kueue.scheduling import KueueAdmission
from toposcope.placement.in_order import in_order
from toposcope.placement.room import Node
from toposcope.placement.verdict import Verdict

RACK, HOST = "rack", "kubernetes.io/hostname"
UNCLEAR = Verdict("unclear")


def node(name: str, rack: str, free: int, **more: str) -> Node:
    amounts = {"gpu": free, "pods": 110}
    return Node(name, {RACK: rack, HOST: name, **more}, amounts, {"gpu": 8, "pods": 110})


def pods(name: str, count: int, gpus: int) -> Pods:
    return Pods(name, count, (("gpu", gpus),))


def judged(pod_sets: Sequence[OrderedPods], nodes: Sequence[Node], levels: tuple[str, ...] = (RACK, HOST)) -> Verdict:
    flavor = Flavor("f", ANY_NODE, (), "t")
    quota = {("f", "gpu"): 1000}
    queue = Queue("q", (ResourceGroup(("gpu",), (flavor,)),), quota, quota, quota)
    admission = KueueAdmission(tuple(pod_sets), queue, {"t": levels}, {})
    return in_order(UNCLEAR, admission, nodes, admission.decide(nodes))


def test_the_first_pod_set_takes_the_tightest_domain_and_keeps_it() -> None:
    nodes = [node("a", "r1", 8), node("b", "r2", 4), node("c", "r2", 2)]
    small, large = (
        OrderedPods(pods("small", 1, 2), HOST, required=True),
        OrderedPods(pods("large", 2, 4), RACK, required=True),
    )
    assert judged((small, large), nodes).kind == "fits"
    # Without node c the small one goes to b, the tightest; a alone still holds the large ones.
    assert judged((small, large), nodes[:2]).kind == "fits"
    # The large ones first: a is their rack, and two more of them find none.
    verdict = judged((large, large), nodes)
    assert verdict.kind == "full"
    assert verdict.limitation == (
        "Kueue 0.19 assigns pod sets one after the other and takes none back: when it comes to pod set large there is "
        "room for 1 of 2 pods"
    )


def test_what_is_placed_says_where() -> None:
    nodes = [node("a", "r1", 8), node("b", "r2", 4)]
    verdict = judged((OrderedPods(pods("main", 3, 4), None),), nodes)
    assert verdict.kind == "fits"
    (placed,) = verdict.placed
    assert dict(placed.nodes) == {"a": 2, "b": 1}


def test_a_leader_shares_the_domain_of_its_workers() -> None:
    nodes = [node("a", "r1", 4), node("b", "r1", 4), node("c", "r2", 8), node("d", "r2", 1)]
    leader = OrderedPods(pods("leader", 1, 1), RACK, required=True, group="g")
    workers = OrderedPods(pods("workers", 2, 4), RACK, required=True, group="g")
    verdict = judged((leader, workers), nodes)
    assert verdict.kind == "fits"
    assert {name for placed in verdict.placed for name, _ in placed.nodes} <= {"c", "d"}


def test_a_node_without_a_label_of_a_level_is_none_of_its_topology() -> None:
    bare = Node("bare", {HOST: "bare"}, {"gpu": 8, "pods": 9}, {"gpu": 8, "pods": 9})
    wanted = (OrderedPods(pods("main", 1, 8), HOST, required=True),)
    assert judged(wanted, [bare]).kind == "full"


def test_without_hostnames_a_domain_counts_as_a_whole() -> None:
    """Two halves of a rack are room for one pod to Kueue, whatever the nodes say."""
    nodes = [node("a", "r1", 4), node("b", "r1", 4)]
    wanted = (OrderedPods(pods("main", 1, 8), RACK, required=True),)
    assert judged(wanted, nodes).kind == "full"
    assert judged(wanted, nodes, (RACK,)).kind == "unclear"  # admitted, and the nodes decide
