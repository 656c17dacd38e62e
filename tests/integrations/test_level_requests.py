"""Which levels each watched kind asks for, from well-formed manifests and malformed ones; and who asks."""

import json
import random
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.tables import each_case, each_row, rows
from toposcope.integrations.framework.level_requests import (
    MAX_LEVEL_REQUESTS,
    LevelRequest,
    ObjectRequests,
    WatchedKind,
    WorkloadRef,
    level_request,
    read_object,
    roll_up,
)
from toposcope.integrations.registry import WATCHED, read_annotations

RACK = "example.com/rack"
KINDS = {kind.kind: kind for kind in reversed(WATCHED)} | {f"{kind.kind}.{kind.group}": kind for kind in WATCHED}
EVERY_KIND = pytest.mark.parametrize("kind", WATCHED, ids=lambda kind: kind.kind)


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One manifest, as the kinds and versions that read it; `requests` as in `wanted`."""

    case: str
    kind: str
    requests: str = ""
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    def manifest(self) -> dict[str, Any]:
        return manifest(annotations=self.annotations, spec=self.spec, status=self.status)


def manifest(**body: Any) -> dict[str, Any]:
    """An object `team-a/train`; `annotations` and `metadata` go where they belong."""
    metadata = {"name": "train", "namespace": "team-a", "uid": "uid-1", "resourceVersion": "7"}
    own = {"annotations": body.pop("annotations", None)} | (body.pop("metadata", None) or {})
    return {**body, "metadata": metadata | own}


def read(kind: WatchedKind, document: Any, version: str = "") -> ObjectRequests:
    text = json.dumps(document, ensure_ascii=False)
    return read_object(kind, version or kind.versions[0], text.encode(), read_annotations)


def wanted(text: str) -> LevelRequest:
    """A level, after `~` where it is preferred and `!` where any node label will do, and its topology."""
    level, _, topology = text.lstrip("~!").partition("@")
    prefix = text[: len(text) - len(text.lstrip("~!"))]
    return LevelRequest(level, "~" not in prefix, topology or None, "!" in prefix)


@each_row("level_requests.yaml", Case, ids=lambda row: f"{row.kind}: {row.case}")
def test_the_requests_of_a_manifest(row: Case) -> None:
    kind, *versions = row.kind.split()
    for version in versions:
        requests = [wanted(text) for text in row.requests.split()]
        workload = WorkloadRef(f"{KINDS[kind].group}/{version}", KINDS[kind].kind, "team-a", "train", "uid-1")
        found = read(KINDS[kind], row.manifest(), version)
        assert (sorted(map(str, found.requests)), found.problem) == (sorted(map(str, requests)), "")
        assert (found.workload, found.version, found.finished, found.owner) == (workload, "7", False, None)


@each_case("tables/integrations.yaml")
def test_a_malformed_object_asks_for_nothing_and_says_why(kind: str, text: str, problem: str) -> None:
    found = read(KINDS[kind], manifest(**yaml.safe_load(text)))
    assert problem in found.problem
    assert (found.requests, found.workload.name) == ((), "train")


@EVERY_KIND
@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"metadata":null}', b'{"metadata":{"name":3}}'),
        *(b"\xff" * 100, b'{"metadata":{"name":"\\ud800"}}', b'{"metadata":' * 100_000),
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_anything_but_an_object_has_no_name(kind: WatchedKind, raw: bytes) -> None:
    found = read_object(kind, kind.versions[0], raw, read_annotations)
    assert found.problem
    assert (found.workload.name, found.requests) == ("", ())


@EVERY_KIND
def test_no_value_raises(kind: WatchedKind) -> None:
    rng = random.Random(11)
    values: tuple[Any, ...] = (None, 0, -1.5, True, "", "räck/☃", [], {}, [[]], {"": None}, "x" * 5000)
    for case in (case for case in rows("level_requests.yaml", Case) if KINDS[case.kind.split()[0]] is kind):
        document = case.manifest()
        for path in list(_paths(document)):
            for value in rng.sample(values, 4):
                broken = json.loads(json.dumps(document))
                parent = broken
                for step in path[:-1]:
                    parent = parent[step]
                parent[path[-1]] = value
                assert all(len(r.level) <= 317 and r.level.isascii() for r in read(kind, broken).requests)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


@EVERY_KIND
def test_null_is_the_same_as_absent(kind: WatchedKind) -> None:
    found = read(kind, manifest(metadata={"annotations": None, "ownerReferences": None}, spec=None, status=None))
    assert (found.requests, found.problem) == ((), "")


def test_the_largest_object() -> None:
    clique = {
        "name": "c",
        "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}},
        "spec": {"podSpec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "x" * 1000}]}]}},
    }
    found = read(KINDS["PodCliqueSet"], manifest(spec={"template": {"cliques": [clique] * 1000}}))
    assert (found.requests, found.problem) == ((wanted("rack@cluster"),), "")


def test_a_workload_keeps_a_limited_number_of_requests() -> None:
    services = {f"p{i}": {"topologyConstraint": {"packDomain": f"level-{i}"}} for i in range(1000)}
    found = read(KINDS["DynamoGraphDeployment"], manifest(spec={"services": services}), "v1alpha1")
    assert found.requests == tuple(wanted(f"level-{i}") for i in range(MAX_LEVEL_REQUESTS))
    assert found.problem == "asks for 1000 levels; only the first 64 count"


def test_names_in_any_script() -> None:
    constraint = {"topologyConstraint": {"requiredTopologyLevel": "rack", "topology": "Ω"}}
    found = read(KINDS["PodGroup"], manifest(metadata={"name": "訓練-Ж", "namespace": "名前空間"}, spec=constraint))
    assert found.workload == WorkloadRef("scheduling.run.ai/v2alpha2", "PodGroup", "名前空間", "訓練-Ж", "uid-1")
    assert found.requests == (wanted("rack@Ω"),)


def test_equal_requests_are_one_object_and_names_are_limited() -> None:
    assert level_request("rack", required=True) is level_request("rack", required=True)
    assert level_request("rack", required=True, topology="") == wanted("rack")
    with pytest.raises(ValueError, match="more than 253 characters"):
        level_request("rack", required=True, topology="x" * 254)
    with pytest.raises(ValueError, match="neither a domain"):
        level_request("x" * 318, required=True)


@each_case("tables/integrations.yaml")
def test_objects_that_have_finished(kind: str, condition: str) -> None:
    said = ((condition, "True", True), (condition, "False", False), ("Suspended", "True", False))
    for name, status, finished in said:
        conditions = [{"type": "Other"}, {"type": name, "status": status}]
        assert read(KINDS[kind], manifest(status={"conditions": conditions})).finished is finished


def owner(kind: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": kind, "name": kind.lower(), "uid": uid, **more}


@each_case("tables/integrations.yaml")
def test_the_owner_is_the_controller_or_the_only_one(owners: list[dict[str, Any]], expected: str | None) -> None:
    references = [owner(uid=f"uid-{fields['kind']}", **fields) for fields in owners]
    found = read(KINDS["PodGroup"], manifest(metadata={"ownerReferences": references})).owner
    kind = expected or ""
    assert found == (WorkloadRef("example.com/v1", kind, "team-a", kind.lower(), f"uid-{kind}") if expected else None)


@each_case("tables/integrations.yaml")
def test_an_object_that_repeats_its_owner_asks_for_nothing(kind: str, owned_by: str, asks: bool) -> None:
    annotations = {"kai.scheduler/topology-required-placement": RACK}
    metadata = {"annotations": annotations, "ownerReferences": [owner(owned_by, "1", controller=True)]}
    spec = {"topologyConstraint": {"topology": "network", "requiredTopologyLevel": RACK}}
    assert bool(read(KINDS[kind], manifest(metadata=metadata, spec=spec)).requests) == asks


def asking(name: str, asks: str = "", owner: str = "", **more: Any) -> ObjectRequests:
    workload, above = (WorkloadRef("v1", "Job", "ns", said, said) for said in (name, owner))
    return ObjectRequests(workload, "1", above if owner else None, requests=tuple(map(wanted, asks.split())), **more)


@each_case("tables/integrations.yaml")
def test_requests_roll_up_to_the_topmost_owner(objects: list[dict[str, Any]], expected: dict[str, list[str]]) -> None:
    asked = [asking(**obj) for obj in objects]
    for order in (asked, asked[::-1]):
        found = {workload.name: set(requests) for workload, requests in roll_up(order).items()}
        assert found == {name: set(map(wanted, levels)) for name, levels in expected.items()}


def test_owners_of_each_other_end_somewhere() -> None:
    found = roll_up([asking("a", "rack", "b"), asking("b", "rack", "a")])
    assert {workload.name for workload in found} <= {"a", "b"}
