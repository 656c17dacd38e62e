"""The pods that represent several kinds: where they fit, each kind fits in any order."""

import pytest
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import Expression, NodeFilter, Toleration, VolumePlace
from toposcope.integrations.kubernetes.gangs import largest

EAST = Expression("zone", "In", ("east",))
WEST = Expression("zone", "In", ("west",))
FAST = Expression("disk", "Exists")
TEAM = Toleration("team", "Exists")
SPOT = Toleration("spot", "Exists")


def using(node_filter: NodeFilter) -> Pods:
    """One pod that may use these nodes."""
    return Pods("pod", 1, (), node_filter)


def test_largest_pods_request_most_of_everything_on_nodes_open_to_all() -> None:
    data = VolumePlace("data", ((EAST,),))
    logs = VolumePlace("logs", ((WEST,),))
    workers = NodeFilter((("gpu", "h200"),), ((EAST,), (WEST,)), (TEAM, SPOT), (data,))
    servers = NodeFilter((("arch", "amd64"), ("gpu", "h200")), ((FAST,),), (SPOT,), (logs, data))
    assert largest(
        [
            Pods("workers", 3, (("cpu", 500), ("gpu", 8)), workers),
            Pods("servers", 1, (("cpu", 900), ("memory", 64)), servers),
            Pods("others", 2, (), NodeFilter(tolerations=(SPOT, TEAM))),
        ]
    ) == Pods(
        "pods",
        6,
        (("cpu", 900), ("gpu", 8), ("memory", 64)),
        NodeFilter((("arch", "amd64"), ("gpu", "h200")), ((EAST, FAST), (WEST, FAST)), (SPOT,), (data, logs)),
    )


@pytest.mark.parametrize(
    ("nobody", "terms"),
    [
        pytest.param(((),), ((),), id="null-term"),
        pytest.param(((), (EAST,)), ((EAST, FAST),), id="null-term-beside-another"),
    ],
)
def test_null_term_opens_no_node(nobody: tuple[tuple[Expression, ...], ...], terms: object) -> None:
    pods = largest([using(NodeFilter(terms=nobody)), using(NodeFilter(terms=((FAST,),)))])
    assert pods.node_filter.terms == terms


@pytest.mark.regression
def test_affinity_that_many_kinds_have_counts_once() -> None:
    anywhere = NodeFilter(terms=((EAST,), (WEST,)))
    kinds = [using(anywhere) for _ in range(40)]
    assert largest(kinds).node_filter == anywhere


@pytest.mark.regression
def test_too_many_different_affinities_open_no_node() -> None:
    kinds = []
    for number in range(40):
        disk = Expression(f"disk-{number}", "Exists")
        kinds.append(using(NodeFilter(terms=((EAST, disk), (WEST, disk)))))
    pods = largest(kinds)
    assert pods.node_filter.rejection("n1", {"zone": "east"}, ()) is not None
    assert pods.node_filter.terms == ((),)
