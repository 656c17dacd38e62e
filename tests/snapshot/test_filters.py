"""Nodes that filters choose, and the marks of nodes."""

import pytest
from tests.snapshot.clusters import scoped, view
from tests.support.cluster import RACK
from tests.support.publishing import spec_levels
from toposcope.api.requirement import Requirement
from toposcope.snapshot.filters import Mark, SelectorError, filter_nodes, marks, parse, states


@pytest.mark.parametrize(
    ("key", "is_cordoned", "expected"),
    [
        pytest.param("maintenance", False, (Mark.TAINTED,), id="taint"),
        pytest.param("maintenance", True, (Mark.CORDONED, Mark.TAINTED), id="taint-and-cordon"),
        pytest.param("node.kubernetes.io/unschedulable", True, (Mark.CORDONED,), id="taint-of-a-cordon"),
        pytest.param("nvidia.com/gpu", False, (), id="tolerated-taint"),
    ],
)
def test_taint_marks_a_node_unless_tolerated_or_implied(
    key: str, *, is_cordoned: bool, expected: tuple[Mark, ...]
) -> None:
    taint = {"key": key, "effect": "NoSchedule"}
    node = view("a", cordoned=is_cordoned, taints=[taint])
    assert marks(node) == expected


LACKING = view("d", rack=None, cordoned=True)
SCOPE = scoped(
    view("a"), view("b", state="degraded"), view("c", rack="r2", ready=False), LACKING, levels=spec_levels(RACK)
)


def names(*requirements: Requirement, domain: tuple[str, str] | None = None, condition: str = "") -> list[str]:
    """The nodes that are left."""
    nodes = filter_nodes(
        SCOPE,
        SCOPE.nodes,
        requirements,
        domains=[domain] if domain else [],
        conditions=condition.split(),
    )
    return [node.name for node in nodes]


def test_nodes_are_filtered_by_domain() -> None:
    assert names() == ["a", "b", "c", "d"]
    assert names(domain=("rack", "r1")) == ["a", "b"]


def test_nodes_are_filtered_by_state() -> None:
    assert names(condition="degraded not-ready") == ["b", "c"]
    assert names(condition="ok") == ["a"]
    assert names(condition="left-out") == ["d"]
    assert states(SCOPE, LACKING) == ("cordoned", "ready", "left-out")


def test_nodes_are_filtered_by_label() -> None:
    requirements = parse("gpu.topology/state!=ok")
    assert names(*requirements) == ["b"]


def test_selectors_are_written_as_kubectl_takes_them() -> None:
    assert parse(" a=b, c!=d,e in (f, g),h notin (i),j,!k/l.m ,n==o") == (
        Requirement("a", "In", frozenset("b")),
        Requirement("c", "NotIn", frozenset("d")),
        Requirement("e", "In", frozenset("fg")),
        Requirement("h", "NotIn", frozenset("i")),
        Requirement("j", "Exists"),
        Requirement("k/l.m", "DoesNotExist"),
        Requirement("n", "In", frozenset("o")),
    )
    assert parse("") == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a=b=c", id="two-equals"),
        pytest.param("a in b", id="in-without-set"),
        pytest.param("=x", id="without-key"),
        pytest.param("a in (b", id="set-without-end"),
        pytest.param("a b", id="two-keys"),
        pytest.param("a > 3", id="greater"),
        pytest.param(")", id="parenthesis"),
    ],
)
def test_malformed_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="label selector"):
        parse(text)
