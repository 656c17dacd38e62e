"""Which nodes a pod may use, rule by rule as Kubernetes' scheduler has them."""

import pytest

from toposcope.integrations.framework.node_affinity import Expression, NodeFilter, Operator, Taint, Toleration

LABELS = {"zone": "a", "gpus": "8"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("In", "zone", ("a", "b"), True),
        ("In", "zone", ("b",), False),
        ("In", "nowhere", ("a",), False),
        ("NotIn", "zone", ("b",), True),
        ("NotIn", "zone", ("a",), False),
        ("NotIn", "nowhere", ("a",), True),
        ("Exists", "zone", (), True),
        ("Exists", "nowhere", (), False),
        ("DoesNotExist", "nowhere", (), True),
        ("DoesNotExist", "zone", (), False),
        ("Gt", "gpus", ("7",), True),
        ("Gt", "gpus", ("8",), False),
        ("Lt", "gpus", ("9",), True),
        ("Lt", "zone", ("9",), False),
        ("Gt", "nowhere", ("1",), False),
        ("Gt", "gpus", (), False),
        ("Gt", "gpus", ("many",), False),
    ],
)
def test_each_operator(operator: Operator, key: str, values: tuple[str, ...], holds: bool) -> None:
    assert Expression(key, operator, values).holds("node-1", LABELS) is holds


def test_a_field_is_the_name_of_the_node() -> None:
    chosen = Expression("metadata.name", "In", ("node-1",), field=True)
    assert chosen.holds("node-1", {})
    assert not chosen.holds("node-2", {"metadata.name": "node-1"})


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "no", "NoSchedule"), False),
        (Toleration("gpu", "Equal", "yes", "NoExecute"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("cpu", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("gpu", "Equal", "yes"), True),
    ],
)
def test_tolerations(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(Taint("gpu", "yes", "NoSchedule")) is covers


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    in_a, in_b = Expression("zone", "In", ("a",)), Expression("zone", "In", ("b",))
    assert NodeFilter(terms=((in_b,), (in_a,))).rejection("n", LABELS, ()) == ""
    assert NodeFilter(terms=((in_b, in_a),)).rejection("n", LABELS, ()) == "does not match the node affinity"
    assert NodeFilter(terms=((),)).rejection("n", LABELS, ()) == "does not match the node affinity"


def test_the_reason_names_what_stands_against_it() -> None:
    taint = Taint("dedicated", "infra", "NoSchedule")
    assert NodeFilter(selector=(("zone", "b"),)).rejection("n", LABELS, ()) == "does not match nodeSelector zone=b"
    assert NodeFilter().rejection("n", LABELS, (taint,)) == "has taint dedicated=infra:NoSchedule"
