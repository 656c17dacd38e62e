"""The tree that a command prints: what it counts, and which domains share a line."""

import pytest
from tests.snapshot.clusters import node_of, pod_of, snapshot, view
from tests.support.cluster import BLOCK, RACK
from tests.support.publishing import spec_levels
from tests.support.saved import cluster_topology, pod
from tests.support.sharing import READY
from toposcope.snapshot.filters import Mark
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import Line, TreeDomain, left_out, outline, tree


@pytest.mark.regression
@pytest.mark.parametrize(
    "count",
    ["2147483640", "9" * 63, "10000", "-1", "8x", "\u0668", ""],
    ids=["32-bits", "63-digits", "10000", "negative", "letter", "other-digit", "empty"],
)
def test_count_that_no_hardware_has_is_not_added_up(count: str) -> None:
    nodes = [
        view("a"),
        view("b", labels={"gpu.topology/gpus": count}),
    ]
    root = tree_of(snapshot(nodes))
    assert root.gpus == 16


def tree_of(cluster: Snapshot) -> TreeDomain:
    return tree(cluster, select_scope(cluster))


FOUR_NODES = [view("a"), view("b"), view("c", cordoned=True), view("d", ready=False)]


def test_free_is_what_pods_leave_on_nodes_that_take_pods() -> None:
    pods = [
        pod_of(pod("one", "a", 3)),
        pod_of(pod("two", "a", 1)),
        pod_of(pod("done", "b", 8, phase="Succeeded")),
        pod_of(pod("waiting", None, 8, phase="Pending")),
    ]
    cluster = snapshot(FOUR_NODES, pods)
    free_gpus = [cluster.free_gpus(node) for node in cluster.nodes]
    assert free_gpus == [4, 8, 0, 0]
    free = cluster.free(cluster.nodes[0])
    assert free is not None
    assert free["nvidia.com/gpu"] == 4
    assert free["pods"] == 108
    assert free["cpu"] == 100_000

    root = tree_of(cluster)
    assert root.nodes == 4
    assert root.gpus == 32
    assert root.free == 12
    assert root.marks == {Mark.CORDONED: 1, Mark.NOT_READY: 1}


def test_nodes_without_any_label_are_counted() -> None:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [READY]}
    bare = node_of({"metadata": {"name": "a"}, "status": status})
    cluster = Snapshot("a test", None, (bare,), ())
    root = tree_of(cluster)
    assert root.nodes == 1
    assert root.gpus == 8
    assert root.free == 8


def test_free_is_unknown_without_pods() -> None:
    root = tree_of(snapshot(FOUR_NODES, None))
    assert root.free is None


def test_equal_rack_names_in_two_blocks_are_two_racks() -> None:
    nodes = [
        view("a"),
        view("b", block="b2"),
        view("c", rack=None),
        view("d", rack="no-topology"),
    ]
    topology = cluster_topology(levels=spec_levels(BLOCK, RACK))
    root = tree_of(snapshot(nodes, (), topology))
    block = root.children["b1"]
    assert list(root.children) == ["b1", "b2"]
    assert list(block.children) == ["r1"]
    assert block.left_out == ["c", "d"]
    assert left_out(root) == (2, 16)
    assert list(root.hosts) == ["a", "b"]


def outline_of(cluster: Snapshot, depth: int | None = None, *, everything: bool = False) -> Line:
    """The lines of the cluster's tree."""
    scope = select_scope(cluster)
    return outline(tree(cluster, scope), scope.levels, depth, everything=everything)


def texts(line: Line, depth: int = 0) -> list[str]:
    """A line and those below it, indented."""
    indent = "  " * depth
    lines = [f"{indent}{line.level} {'+'.join(line.names)} {line.nodes} {line.gpus}"]
    for child in line.below:
        lines += texts(child, depth + 1)
    if line.left_out:
        lines.append(f"{indent}lost {'+'.join(line.left_out)}")
    return lines


def five_racks() -> Snapshot:
    """Two nodes in each of five racks; one of them is degraded."""
    nodes = []
    for rack in range(5):
        for number in range(2):
            nodes.append(view(f"n{rack}{number}", rack=f"r{rack}"))
    nodes[5] = view("n21", rack="r2", state="degraded")
    return snapshot(nodes)


def test_equal_domains_share_a_line_and_degraded_ones_do_not() -> None:
    assert texts(outline_of(five_racks())) == [
        " cluster 10 80",
        "  zone z 10 80",
        "    block b1 10 80",
        "      rack r0+r1+r3+r4 8 64",
        "        nvlink-domain = host n00 1 8",
        "        nvlink-domain = host n01 1 8",
        "      rack r2 2 16",
        "        nvlink-domain = host n20 1 8",
        "        nvlink-domain = host n21 1 8",
    ]


def test_outline_ends_at_a_depth() -> None:
    assert texts(outline_of(five_racks(), 3)) == [
        " cluster 10 80",
        "  zone z 10 80",
        "    block b1 10 80",
        "      rack r0+r1+r3+r4 8 64",
        "      rack r2 2 16",
    ]


def test_outline_of_everything_has_a_line_for_each_domain() -> None:
    lines = texts(outline_of(five_racks(), everything=True))
    assert len(lines) == 3 + 5 + 10


def test_many_degraded_domains_share_a_line() -> None:
    nodes = []
    for number in range(40):
        nodes.append(view(f"n{number:02}", rack=f"r{number:02}", state="degraded"))
    (zone,) = outline_of(snapshot(nodes)).below
    (block,) = zone.below
    *alone, last = block.below
    assert [len(line.names) for line in alone] == [1] * 10
    assert len(last.names) == 30
    assert last.marks == {Mark.DEGRADED: 30}
    assert not last.are_equal


def assert_adds_up(line: Line) -> None:
    """The lines below a domain have its nodes, but for those that lack the next level."""
    if line.below and len(line.names) == 1:
        below = sum(child.nodes for child in line.below)
        assert below + len(line.left_out) == line.nodes
    for child in line.below:
        assert_adds_up(child)


def test_lines_of_the_outline_add_up() -> None:
    nodes = []
    for number in range(120):
        has_rack = number % 17 != 0
        is_degraded = number % 4 == 3
        node = view(
            f"n{number:03}",
            rack=f"r{number % 7}" if has_rack else None,
            block=f"b{number % 3}",
            gpus=4 + number % 2,
            state="degraded" if is_degraded else "ok",
        )
        nodes.append(node)
    topology = cluster_topology(levels=spec_levels(BLOCK, RACK))
    top = outline_of(snapshot(nodes, (), topology))
    assert top.nodes == 120
    assert top.gpus == sum(node.gpus for node in nodes)
    assert_adds_up(top)
