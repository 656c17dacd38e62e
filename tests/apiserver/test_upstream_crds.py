"""Other projects' CRDs: described as they are published, accepted, served, and in each other's way where they are."""

from typing import Any

import pytest
from tests.support.api import ApiUnderTest, crd_conditions
from tests.support.upstream_crds import DESCRIBED, described, published, upstream_crd

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DESCRIBED)
def test_description_is_part_of_what_is_published(name: str) -> None:
    ours = described(name)
    theirs = published(name) or ours
    assert ours["metadata"]["name"] == theirs["metadata"]["name"]
    our_spec = ours["spec"]
    their_spec = theirs["spec"]
    for key in ("group", "scope", "names"):
        assert our_spec[key] == their_spec[key], key
    our_versions = versions_of(ours)
    their_versions = versions_of(theirs)
    assert our_versions.keys() == their_versions.keys()
    for name_of_version, version in our_versions.items():
        assert_part_of_version(version, their_versions[name_of_version])


def assert_part_of_version(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """A version is served as theirs is, and its schema is part of theirs."""
    assert ours["served"] == theirs["served"]
    assert ours["storage"] == theirs["storage"]
    subresources = theirs.get("subresources", {})
    assert ours["subresources"].items() <= subresources.items()
    assert_part(schema_of(ours), schema_of(theirs), "")


def versions_of(crd: dict[str, Any]) -> dict[str, Any]:
    """The versions of a CRD by name."""
    return {version["name"]: version for version in crd["spec"]["versions"]}


def schema_of(version: dict[str, Any]) -> dict[str, Any]:
    """The schema of a version."""
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


KEYWORDS = ("type", "pattern", "enum", "minLength", "maxLength", "minItems", "maxItems", "minimum", "default")


def assert_part(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> None:
    """Every field, limit and message that we describe is theirs too."""
    for keyword in KEYWORDS:
        if keyword in ours:
            assert ours[keyword] == theirs.get(keyword), f"{path}: {keyword}"
    our_required = set(ours.get("required", ()))
    their_required = set(theirs.get("required", ()))
    assert our_required <= their_required, path
    assert messages(ours) <= messages(theirs), path
    for name, schema in ours.get("properties", {}).items():
        if name in ("status", "metadata"):
            continue
        their_schema = theirs["properties"][name]
        assert_part(schema, their_schema, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in ours:
            assert_part(ours[inner], theirs[inner], f"{path}[]")


def messages(schema: dict[str, Any]) -> set[str]:
    """What the rules of a schema say."""
    rules = schema.get("x-kubernetes-validations", ())
    return {rule["message"] for rule in rules}


@pytest.mark.parametrize("source", [described, upstream_crd])
@pytest.mark.parametrize("name", DESCRIBED)
def test_crd_is_accepted_and_served(api: ApiUnderTest, name: str, source: Any) -> None:
    crd = api.install_crd(source(name))
    # Groups under k8s.io have a condition more on a real server.
    conditions = crd_conditions(crd)
    assert conditions["NamesAccepted"] == "True"
    assert conditions["Established"] == "True"


@pytest.mark.real_api("applies are held to the schema")
def test_field_of_an_older_version_cannot_be_applied(api: ApiUnderTest) -> None:
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {
            "levels": [{"domain": "rack", "key": "example.com/rack"}],
            "schedulerTopologyReferences": [],
        },
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
@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        pytest.param("rack", 201, id="word"),
        pytest.param("rack-", 201, id="dash-at-the-end"),
        pytest.param("1rack", 422, id="digit-first"),
        pytest.param("Rack", 422, id="capital"),
        pytest.param("r" * 64, 422, id="too-long"),
        pytest.param("", 422, id="empty"),
    ],
)
def test_grove_checks_domain_names(api: ApiUnderTest, domain: str, expected: int) -> None:
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {"levels": [{"domain": domain, "key": "example.com/rack"}]},
    }
    path = "/apis/grove.io/v1alpha1/clustertopologybindings"
    code, answer = api.request("POST", path, binding)
    assert code == expected, answer
