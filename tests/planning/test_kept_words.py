"""What is said of gangs that are not within the domain that they require, or may not be."""

from dataclasses import replace

import pytest
from tests.planning.clusters import RACK, pods
from toposcope.planning.kept import (
    BrokenBy,
    ChangedLabel,
    Intruder,
    KeptPlacement,
    KeptResult,
    SharedDomain,
    UnreadPlace,
    UnreadReason,
)
from toposcope.planning.kept_gangs import KeptPart
from toposcope.planning.kept_words import kept_advice, kept_details, requirement

PODS = pods("train", "n0", "n1", "n2", "n3", "n4")
IN_ONE_RACK = KeptPlacement(
    result=KeptResult.MATCH,
    domains=(SharedDomain(("b0", "r0"), tuple(PODS)),),
    unread=(),
    placed=5,
    expected=5,
)


def names(*numbers: int) -> list[str]:
    return [PODS[number].name for number in numbers]


def part(unread: str = "", *, is_level_known: bool = True, result: KeptResult = KeptResult.UNOBSERVABLE) -> KeptPart:
    """The whole gang, which requires a rack."""
    return KeptPart(
        name="",
        required=RACK,
        is_level_known=is_level_known,
        levels=(),
        is_labelled=True,
        placement=replace(IN_ONE_RACK, result=result),
        pods=tuple(PODS),
        names=frozenset(),
        unread=unread,
    )


def test_level_that_is_kept_or_not_is_named() -> None:
    assert requirement(part(result=KeptResult.MATCH)) == f"one {RACK} required: MATCH"
    assert requirement(part(result=KeptResult.VIOLATION)) == f"one {RACK} required: VIOLATION"


def test_level_of_no_topology_is_said() -> None:
    said = requirement(part(is_level_known=False))
    assert said == f"one {RACK} required: UNOBSERVABLE; no ClusterTopology has this level"


def test_object_that_cannot_be_read_is_named() -> None:
    said = requirement(part("PodGroup ml/train"))
    assert said == "UNOBSERVABLE: the level that it requires is unknown: PodGroup ml/train cannot be read"


def test_gang_in_its_domain_has_no_details() -> None:
    assert list(kept_details(IN_ONE_RACK)) == []


def test_one_pod_of_each_of_two_domains_is_named() -> None:
    domains = (
        SharedDomain(("b0", "r0"), tuple(PODS[:3])),
        SharedDomain(("b0", "r1"), tuple(PODS[3:])),
    )
    torn = replace(IN_ONE_RACK, result=KeptResult.VIOLATION, domains=domains)
    first, other = names(0, 3)
    assert list(kept_details(torn)) == [f"pod/{first} on n0 is in b0/r0, pod/{other} on n3 is in b0/r1"]


def test_pod_of_another_group_in_its_domain_is_named() -> None:
    (other,) = pods("other", "n7")
    shared = IN_ONE_RACK.beside([Intruder(other, "r0")])
    assert shared.result is KeptResult.VIOLATION
    assert list(kept_details(shared)) == [f"pod/{other.name} -n {other.namespace} of another group is in r0 too"]


def test_group_without_pods_of_others_is_as_before() -> None:
    assert IN_ONE_RACK.beside([]) is IN_ONE_RACK


def test_three_unknown_domains_are_named_and_the_rest_counted() -> None:
    unread = (
        UnreadPlace(PODS[0], UnreadReason.NODE_GONE),
        UnreadPlace(PODS[1], UnreadReason.NO_LABEL, RACK),
        UnreadPlace(PODS[2], UnreadReason.NO_DOMAIN),
        UnreadPlace(PODS[3], UnreadReason.NODE_GONE),
        UnreadPlace(PODS[4], UnreadReason.NODE_GONE),
    )
    unknown = replace(IN_ONE_RACK, result=KeptResult.UNOBSERVABLE, domains=(), unread=unread)
    gone, unlabelled, nowhere = names(0, 1, 2)
    assert list(kept_details(unknown)) == [
        f"node n0 of pod/{gone} is gone",
        f"node n1 of pod/{unlabelled} has no usable label {RACK}",
        f"node n2 of pod/{nowhere} is in none of the domains",
        "the domain of 2 more is unknown",
    ]


def test_pods_that_should_be_there_are_counted() -> None:
    partly = IN_ONE_RACK.of_more(6)
    assert partly.result is KeptResult.UNOBSERVABLE
    assert list(kept_details(partly)) == ["5 of 6 pods have a node"]


@pytest.mark.parametrize("expected", [0, 5])
def test_fewer_pods_than_there_are_change_nothing(expected: int) -> None:
    assert IN_ONE_RACK.of_more(expected) is IN_ONE_RACK


def test_violation_stays_one_where_more_pods_should_be_there() -> None:
    torn = replace(IN_ONE_RACK, result=KeptResult.VIOLATION)
    assert torn.of_more(6).result is KeptResult.VIOLATION


def test_three_changed_labels_are_named_and_the_rest_counted() -> None:
    changed = [ChangedLabel(PODS[0], RACK, "r0", "")]
    for pod in PODS[1:]:
        changed.append(ChangedLabel(pod, RACK, "r0", "r9"))
    relabelled = replace(IN_ONE_RACK, changed=tuple(changed))
    gone, second, third = names(0, 1, 2)
    assert list(kept_details(relabelled)) == [
        f"label {RACK} of node n0 was r0 when pod/{gone} was placed and is gone",
        f"label {RACK} of node n1 changed from r0 to r9 after pod/{second} was placed",
        f"label {RACK} of node n2 changed from r0 to r9 after pod/{third} was placed",
        "2 more labels changed",
    ]


@pytest.mark.parametrize(
    ("broken_by", "cause"),
    [
        pytest.param(BrokenBy.LABELS, "labels of nodes changed after that", id="labels"),
        pytest.param(BrokenBy.PLACEMENT, "no label changed after that", id="placement"),
        pytest.param(BrokenBy.OTHERS, "two groups that must not share a domain are in one", id="others"),
        pytest.param(BrokenBy.UNKNOWN, "the pods do not say which", id="unknown"),
    ],
)
def test_each_cause_has_advice(broken_by: BrokenBy, cause: str) -> None:
    broken = replace(IN_ONE_RACK, result=KeptResult.VIOLATION, broken_by=broken_by)
    lines = list(kept_advice(broken))
    assert lines[0].startswith("cause: ")
    assert lines[0].endswith(cause)
    assert "fix: " in lines[-1]


def test_gang_in_its_domain_has_no_advice() -> None:
    assert list(kept_advice(IN_ONE_RACK)) == []
