"""Pods of every kind of workload: how many, what they request, which nodes they may use; how nonsense is reported."""

from typing import Any

import msgspec
import pytest
from tests.support.tables import each_case, each_row
from tests.support.workloads import Object, leader_worker_set, template, workload
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import Expression, Operator, Taint, Toleration
from toposcope.integrations.framework.pods import chunks, pods_of, structure_of
from toposcope.integrations.lws.workload import sub_groups
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer, why
from toposcope.snapshot.model import NodeView, Snapshot


def requested(spec: Any) -> tuple[dict[str, int], list[str]]:
    part = Field(spec, "spec")
    return dict(pods_of("p", 1, part).requests), [f"{f.field}: {f.message}" for f in part.findings]


@each_case("pods.yaml")
def test_what_a_pod_requests(spec: Any, requests: dict[str, int]) -> None:
    assert requested(spec) == (requests, [])


@pytest.mark.regression
@each_case("pods.yaml")
def test_what_is_wrong_is_named_with_its_path(spec: Any, finding: str) -> None:
    assert finding in requested(spec)[1]


@pytest.mark.regression
def test_pods_with_claims_never_fit_by_their_requests_alone() -> None:
    node = NodeView("n", "", {}, (), True, True, (), {"cpu": 8000, "pods": 9}, {}, None)
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"resourceClaims": claims}}
    (checked,) = Checker(Snapshot("test", None, (node,), ())).check(pod)
    assert checked.verdict
    why = "which devices its pods get is not known: resourceclaimtemplate/t -n default is not known"
    assert answer(checked.verdict) == f"unclear: {why}"


def test_the_choice_of_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    spec = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}], "affinity": affinity}
    choice = pods_of("p", 1, Field(spec)).node_filter
    assert choice.selector == (("pool", "gpu"),)
    assert choice.terms == ((Expression("zone", "In", ("a",)),),)
    assert choice.tolerations == (Toleration(operator="Exists"),)


@each_case("pods.yaml")
def test_how_many_pods(document: Object, sets: dict[str, int], copies: int) -> None:
    structure = structure_of(Field(document))
    assert structure is not None
    assert [(pods.name, pods.count) for pods in structure.sets] == [*sets.items()]
    assert structure.copies == copies


def test_what_a_pod_takes_is_that_of_its_template() -> None:
    structure = structure_of(Field(leader_worker_set(1, 3)))
    assert structure is not None
    assert [dict(pods.requests)["nvidia.com/gpu"] for pods in structure.whole] == [1, 8]


def test_only_pods_of_a_deployment_stand_alone() -> None:
    for kind, separate in {"Deployment": True, "ReplicaSet": True, "StatefulSet": False}.items():
        structure = structure_of(Field(workload("apps/v1", kind, {"template": template()})))
        assert structure is not None
        assert structure.separate == separate


@pytest.mark.parametrize("document", [{}, {"kind": "Job"}, {"apiVersion": 1, "kind": ["Job"]}, {"kind": "ConfigMap"}])
def test_kinds_without_pods(document: Any) -> None:
    assert structure_of(Field(document)) is None


@each_case("pods.yaml")
def test_nonsense_is_named(document: Object, field: str, message: str) -> None:
    root = Field(document)
    structure_of(root)
    assert (field, message) in [(finding.field, finding.message) for finding in root.findings]


@each_case("pods.yaml")
def test_subgroups(size: int, subgroup: int, apart: bool, expected: list[list[Any]]) -> None:
    structure = structure_of(Field(leader_worker_set(1, size)))
    assert structure is not None
    alike = sub_groups(structure, subgroup, leader_excluded=apart)
    assert [[[pods.count for pods in parts], times] for parts, times in alike] == expected
    total = sum(sum(pods.count for pods in parts) * times for parts, times in alike)
    assert total == size - (1 if apart else 0)


def test_portions() -> None:
    assert list(chunks(10, 4)) == [(4, 2), (2, 1)]
    assert list(chunks(8, 4)) == [(4, 2)]
    assert list(chunks(3, 4)) == [(3, 1)]


LABELS = {"zone": "a", "gpus": "8"}


class Match(msgspec.Struct, forbid_unknown_fields=True):
    operator: Operator
    key: str
    values: tuple[str, ...]
    holds: bool


@pytest.mark.regression
@each_row("operators.yaml", Match, ids=lambda row: f"{row.key} {row.operator} {','.join(row.values)}")
def test_each_operator(row: Match) -> None:
    assert Expression(row.key, row.operator, row.values).holds("node-1", LABELS) is row.holds


def test_a_field_is_the_name_of_the_node() -> None:
    chosen = Expression("metadata.name", "In", ("node-1",), field=True)
    assert chosen.holds("node-1", {})
    assert not chosen.holds("node-2", {"metadata.name": "node-1"})


@each_case("pods.yaml")
def test_tolerations(toleration: list[str], covers: bool) -> None:
    assert Toleration(*toleration).covers(Taint("gpu", "yes", "NoSchedule")) is covers


@each_case("pods.yaml")
def test_what_stands_against_a_node(spec: Object, taints: list[list[str]], reason: str) -> None:
    choice = pods_of("p", 1, Field(spec)).node_filter
    exclusion = choice.rejection("n", LABELS, [Taint(*taint) for taint in taints])
    assert (why(exclusion) if exclusion else "") == reason
