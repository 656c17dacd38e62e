"""Other projects' CRDs: described as they are published, accepted, served, and in each other's way where they are."""

from typing import Any

import pytest
from tests.support.api import ApiUnderTest, crd_conditions
from tests.support.upstream_crds import DESCRIBED, described, published, upstream_crd

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_is_described_is_part_of_what_is_published(name: str) -> None:
    ours, theirs = described(name), published(name) or described(name)
    assert ours["metadata"]["name"] == theirs["metadata"]["name"]
    assert {key: ours["spec"][key] for key in ("group", "scope", "names")} == {
        key: theirs["spec"][key] for key in ("group", "scope", "names")
    }
    versions = {version["name"]: version for version in theirs["spec"]["versions"]}
    assert versions.keys() == {version["name"] for version in ours["spec"]["versions"]}
    for version in ours["spec"]["versions"]:
        other = versions[version["name"]]
        assert (version["served"], version["storage"]) == (other["served"], other["storage"])
        assert version["subresources"].items() <= other.get("subresources", {}).items()
        assert_part(version["schema"]["openAPIV3Schema"], other["schema"]["openAPIV3Schema"], "")


def assert_part(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> None:
    """Every field, limit and message that we describe is theirs too."""
    for keyword in ("type", "pattern", "enum", "minLength", "maxLength", "minItems", "maxItems", "minimum", "default"):
        if keyword in ours:
            assert (path, keyword, ours[keyword]) == (path, keyword, theirs.get(keyword))
    assert set(ours.get("required", ())) <= set(theirs.get("required", ())), path
    assert messages(ours) <= messages(theirs), path
    for name, schema in ours.get("properties", {}).items():
        if name not in ("status", "metadata"):
            assert_part(schema, theirs["properties"][name], f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in ours:
            assert_part(ours[inner], theirs[inner], f"{path}[]")


def messages(schema: dict[str, Any]) -> set[str]:
    return {rule["message"] for rule in schema.get("x-kubernetes-validations", ())}


@pytest.mark.parametrize("source", [described, upstream_crd])
@pytest.mark.parametrize("name", DESCRIBED)
def test_crd_is_accepted_and_served(api: ApiUnderTest, name: str, source: Any) -> None:
    crd = api.install_crd(source(name))
    # Groups under k8s.io have a condition more on a real server.
    assert crd_conditions(crd).items() >= {"NamesAccepted": "True", "Established": "True"}.items()


@pytest.mark.real_api("applies are held to the schema")
def test_field_of_an_older_version_cannot_be_applied(api: ApiUnderTest) -> None:
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {"levels": [{"domain": "rack", "key": "example.com/rack"}], "schedulerTopologyReferences": []},
    }
    path = "/apis/grove.io/v1alpha1/clustertopologybindings"
    code, answer = api.apply(f"{path}/b", binding)
    assert code == 500
    assert ".spec.schedulerTopologyReferences: field not declared in schema" in answer["message"]
    answered = api.ask("POST", path, binding)
    assert answered.code == 201
    assert answered.headers["Warning"] == '299 - "unknown field \\"spec.schedulerTopologyReferences\\""'
    assert "schedulerTopologyReferences" not in answered.body["spec"]


@pytest.mark.real_api("lengths of text")
def test_grove_checks_domain_names(api: ApiUnderTest) -> None:
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))

    def create(index: int, domain: str) -> int:
        body = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": f"b{index}"},
            "spec": {"levels": [{"domain": domain, "key": "example.com/rack"}]},
        }
        return api.request("POST", "/apis/grove.io/v1alpha1/clustertopologybindings", body)[0]

    expected = {"rack": 201, "rack-": 201, "1rack": 422, "Rack": 422, "r" * 64: 422, "": 422}
    assert {domain: create(index, domain) for index, domain in enumerate(expected)} == expected
