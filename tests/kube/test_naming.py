"""Verb and resource of a request."""

from tests.support.tables import each_case
from toposcope.kube.client import Request
from toposcope.kube.requests import apply, resource_of, verb_of


@each_case("tables/kube.yaml")
def test_verb_and_resource(asked: list[str], query: dict[str, str], verb: str, resource: str) -> None:
    method, path = asked
    request = Request(method, path, query)
    assert resource_of(request) == resource
    assert verb_of(request) == verb


def test_an_apply_is_no_patch() -> None:
    assert verb_of(apply("/api/v1/nodes/n1", {}, "m", force=True)) == "apply"
